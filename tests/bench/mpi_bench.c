/* All-reduce of float32 sums by the processes of one MPI job: our schedules on MPI's messages, and
 * MPI_Allreduce itself, in turns, with the same timing and the same check. */
#include "runtime/coll.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/bench/bench.h"

enum { SIZES_MAX = 64, CONTENDERS_MAX = 16, TURNS_MAX = 99, PROCESSES_MAX = 256 };

struct bench {
    struct tutti_group *group;
    struct tutti_backend *ours;
    struct tutti_backend *library;
    const char *names[CONTENDERS_MAX]; /* algorithms, or "mpi" */
    size_t name_count;
    double us[CONTENDERS_MAX][TURNS_MAX];
    float *in;
    float *out;
};

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "mpi_bench: %s: %s\n", what, err->text);
    exit(1);
}

/* Back to back, per iteration; what comes out is checked. */
static double time_of(struct bench *bench, const char *name, uint64_t bytes)
{
    bool library = strcmp(name, "mpi") == 0;
    struct tutti_shape shape = tutti_shape_flat(bench->group->count);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = bytes / sizeof(float)};
    const void *in[PROCESSES_MAX] = {NULL};
    void *out[PROCESSES_MAX] = {NULL};
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .in = in,
                              .out = out,
                              .warmup_count = bench_warmups(bytes),
                              .iteration_count = bench_iterations(bytes)};
    struct tutti_schedule *schedule = NULL;
    struct tutti_played played;
    struct tutti_err err;

    in[bench->group->index] = bench->in;
    out[bench->group->index] = bench->out;
    memset(bench->out, 1, bytes);
    if (tutti_coll_generate(library ? "ring" : name, &params, &shape, &schedule, &err) < 0)
        give_up(name, &err);
    play.schedule = schedule;
    if (tutti_backend_play(library ? bench->library : bench->ours, &play, &played, &err) < 0)
        give_up(name, &err);
    tutti_schedule_free(schedule);
    if (bench_wrong(bench->out, bytes, bench->group->count) > 0) {
        fprintf(stderr, "mpi_bench: %s: wrong sums at %llu bytes\n", name,
                (unsigned long long)bytes);
        exit(1);
    }
    return (double)played.best_ps * 1e-6;
}

static void time_all(struct bench *bench, uint64_t bytes, size_t turn_count)
{
    for (size_t turn = 0; turn < turn_count; turn++) {
        for (size_t i = 0; i < bench->name_count; i++)
            bench->us[i][turn] = time_of(bench, bench->names[i], bytes);
    }
    if (bench->group->index != 0)
        return;
    printf("%10llu", (unsigned long long)bytes);
    for (size_t i = 0; i < bench->name_count; i++) {
        qsort(bench->us[i], turn_count, sizeof(double), bench_compare);
        printf(" | %10.2f %10.2f", bench->us[i][0], bench->us[i][turn_count / 2]);
    }
    printf("\n");
    fflush(stdout);
}

static size_t read_names(char *list, const char **names)
{
    size_t count = 0;

    for (char *at = list; count < CONTENDERS_MAX; at += strlen(at) + 1) {
        char *end = strchr(at, ',');

        names[count++] = at;
        if (end == NULL)
            break;
        *end = '\0';
    }
    return count;
}

static void print_head(const struct bench *bench, size_t turn_count)
{
    char name[TUTTI_MPI_NAME_BYTES];

    printf("# %s, %u processes, float32 sum, us: best and median of %zu turns\n%10s",
           tutti_mpi_name(name), bench->group->count, turn_count, "bytes");
    for (size_t i = 0; i < bench->name_count; i++)
        printf(" | %21s", bench->names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct tutti_mpi_opts opts = {.size = sizeof(struct tutti_mpi_opts), .pin = false};
    uint64_t sizes[SIZES_MAX];
    size_t size_count = argc == 4 ? bench_sizes(argv[1], sizes, SIZES_MAX) : 0;
    size_t turn_count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    uint64_t largest = 0;
    struct tutti_err err;

    if (size_count == 0 || turn_count == 0 || turn_count > TURNS_MAX) {
        fprintf(stderr, "usage: mpi_bench SIZE,SIZE,... TURNS NAME,NAME,... (algorithms, or 'mpi' "
                        "for the library's own)\n");
        return 2;
    }
    for (size_t i = 0; i < size_count; i++)
        largest = sizes[i] > largest ? sizes[i] : largest;
    bench.name_count = read_names(argv[3], bench.names);
    if (tutti_mpi_group_open(&bench.group, &err) < 0 || bench.group->count > PROCESSES_MAX)
        give_up("group", &err);
    opts.group = bench.group;
    if (tutti_mpi_open(&opts, &bench.ours, &err) < 0 ||
        tutti_mpi_library_open(bench.group, &bench.library, &err) < 0)
        give_up("backend", &err);
    bench.in = bench_memory(largest);
    bench.out = bench_memory(largest);
    bench_fill(bench.in, largest, bench.group->index);
    if (bench.group->index == 0)
        print_head(&bench, turn_count);
    for (size_t i = 0; i < size_count; i++)
        time_all(&bench, sizes[i], turn_count);
    free(bench.in);
    free(bench.out);
    tutti_backend_close(bench.ours);
    tutti_backend_close(bench.library);
    tutti_group_close(bench.group);
    tutti_mpi_end(20 * TUTTI_PS_PER_S);
    return 0;
}
