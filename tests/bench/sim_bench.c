/* How fast the simulator is: messages a second, nanoseconds a message, peak memory.
 *
 *     sim_bench                                                         the table of cases
 *     sim_bench SPEC COLLECTIVE ALGORITHM BYTES MODEL [JITTER [FOLD]]   one case
 *     sim_bench --scale MODEL RANKS_MAX SECONDS     algorithms by number of ranks, folded and not
 *     sim_bench --play SPEC COLLECTIVE ALGORITHM BYTES MODEL [JITTER]   one play, to be profiled
 *
 * Columns: messages; CPU seconds to generate all programs once and do nothing with them (walk), and
 * to simulate (CPU, all of the process); from the latter millions of messages a second and
 * nanoseconds a message; peak resident memory; simulated time. With --scale every case has so many
 * CPU seconds and 4 GiB; where programs are long, messages are counted in those of 64 ranks.
 * tests/bench/sim.sh runs all of it. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "runtime/wide.h"
#include "sim/fold/fold.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { SAMPLES = 64, SHORT = 10000000 };

#define MEMORY_MAX tutti_size(UINT64_C(4) << 30) /* of a case with a limit of seconds */

struct bench {
    const char *spec;
    const char *collective;
    const char *algorithm;
    const char *bytes;
    const char *model;
    const char *jitter;
    const char *fold; /* "on" or NULL */
};

/* Those of the table that N = 64 .. 4096 can run unfolded in seconds. */
static const struct bench benches[] = {
    {"ring:n=64", "allreduce", "ring", "1G", "alphabeta", "0", NULL},
    {"ring:n=1024", "allreduce", "ring", "1G", "alphabeta", "0", NULL},
    {"ring:n=4096", "allreduce", "ring", "1G", "alphabeta", "0", NULL},
    {"ring:n=4096", "allreduce", "ring", "1G", "alphabeta", "0.2", NULL},
    {"switch:n=4096", "allreduce", "ring", "1G", "alphabeta", "0", NULL},
    {"switch:n=64", "allreduce", "ring", "1G", "fair", "0", NULL},
    {"switch:n=1024", "allreduce", "ring", "1G", "fair", "0", NULL},
    {"switch:n=4096", "allreduce", "ring", "1G", "fair", "0", NULL},
    {"switch:n=1024", "allreduce", "ring", "1G", "fair", "0.2", NULL},
    {"switch:n=64", "allreduce", "double-binary-tree", "1G", "alphabeta", "0", NULL},
    {"switch:n=1024", "allreduce", "double-binary-tree", "1G", "alphabeta", "0", NULL},
    {"switch:n=64", "allreduce", "double-binary-tree", "1G", "fair", "0", NULL},
    {"switch:n=64", "allreduce", "halving-doubling", "1G", "alphabeta", "0", NULL},
    {"switch:n=4096", "allreduce", "halving-doubling", "1G", "alphabeta", "0", NULL},
    {"switch:n=4096", "allreduce", "halving-doubling", "1G", "fair", "0", NULL},
    {"dgx-h100:nodes=8", "allreduce", "hierarchical", "1G", "alphabeta", "0", NULL},
    {"dgx-h100:nodes=512", "allreduce", "hierarchical", "1G", "alphabeta", "0", NULL},
    {"dgx-h100:nodes=32", "allreduce", "hierarchical", "1G", "fair", "0", NULL},
    {"dgx-h100:nodes=32", "allreduce", "ring", "1G", "fair", "0", NULL},
    {"torus:4x4x4", "allreduce", "torus", "1G", "alphabeta", "0", NULL},
    {"torus:16x16x16", "allreduce", "torus", "1G", "alphabeta", "0", NULL},
    {"torus:16x16x16", "allreduce", "torus", "1G", "alphabeta", "0.2", NULL},
    {"torus:16x16x16", "allreduce", "torus", "1G", "fair", "0", NULL},
    {"switch:n=256", "alltoall", "direct", "1G", "alphabeta", "0", NULL},
    {"switch:n=128", "alltoall", "direct", "1G", "fair", "0", NULL},
};

/* A case made ready: its machine and its schedule. */
struct subject {
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_sim_opts opts;
};

/* What a process says of itself when it is done. */
struct said {
    uint64_t count;
    uint64_t total_ps;
    char why_not[120]; /* "": it is done */
};

/* What became of a case. */
struct measured {
    struct said said;
    double seconds;
    double mib;
    bool too_long;
};

static void subject_close(struct subject *subject)
{
    tutti_schedule_free(subject->schedule);
    tutti_topo_free(subject->topo);
}

static int subject_open(struct subject *subject, const struct bench *bench, struct tutti_err *err)
{
    struct tutti_coll_params params = {.dtype = TUTTI_FLOAT32, .op = TUTTI_SUM};
    uint64_t bytes = 0;
    int status;

    *subject = (struct subject){.opts = {.size = sizeof(struct tutti_sim_opts),
                                         .model = TUTTI_MODEL_ALPHABETA,
                                         .seed = 1,
                                         .jitter = strtod(bench->jitter, NULL)}};
    status = tutti_topo_from_spec(bench->spec, &subject->topo, err);
    if (status == 0)
        status = tutti_collective_find(bench->collective, &params.collective, err);
    if (status == 0)
        status = tutti_model_find(bench->model, &subject->opts.model, err);
    if (status == 0)
        status = tutti_read_size(bench->bytes, &bytes, err);
    if (status < 0)
        return status;
    params.count = tutti_collective_count_for(params.collective, bytes, params.dtype,
                                              subject->topo->rank_count);
    subject->opts.topo = subject->topo;
    return tutti_coll_generate(bench->algorithm, &params, &subject->topo->shape, &subject->schedule,
                               err);
}

/* Walks all programs and does nothing else: what generating costs, and how many messages. */
static int walk(const struct subject *subject, struct said *said, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = subject->schedule;

    (void)err;
    for (uint32_t i = 0; i < schedule->rank_count * schedule->lane_count; i++) {
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        tutti_cursor_open(&cursor, schedule, i / schedule->lane_count, i % schedule->lane_count);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            said->count += step->kind == TUTTI_SEND;
    }
    return 0;
}

/* Rounds of all programs: asked for, not written. */
static uint64_t count_rounds(const struct tutti_schedule *schedule)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < schedule->rank_count * schedule->lane_count; i++)
        count += schedule->ops->round_count(schedule, i / schedule->lane_count,
                                            i % schedule->lane_count);
    return count;
}

/* Messages: of all programs if they are short, else by those of some ranks, here and there. */
static int sample(const struct subject *subject, struct said *said, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = subject->schedule;
    uint32_t n = schedule->rank_count;

    if (n <= SAMPLES || count_rounds(schedule) < SHORT)
        return walk(subject, said, err);
    for (uint32_t i = 0; i < SAMPLES * schedule->lane_count; i++) {
        uint32_t rank = (uint32_t)(tutti_random_hash(1, i / schedule->lane_count, 0, 0) % n);
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        tutti_cursor_open(&cursor, schedule, rank, i % schedule->lane_count);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            said->count += step->kind == TUTTI_SEND;
    }
    said->count = said->count * n / SAMPLES;
    return 0;
}

static int play(const struct subject *subject, struct said *said, struct tutti_err *err)
{
    struct tutti_play asked = {
        .size = sizeof(struct tutti_play), .schedule = subject->schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_backend *backend = NULL;
    int status = tutti_sim_open(&subject->opts, &backend, err);

    if (status == 0)
        status = tutti_backend_play(backend, &asked, &played, err);
    tutti_backend_close(backend);
    said->count = played.step_count;
    said->total_ps = (uint64_t)played.total_ps;
    return status;
}

static int fold(const struct subject *subject, struct said *said, struct tutti_err *err)
{
    struct tutti_folded folded = {.end_ps = 0};
    int status = tutti_fold_play(&subject->opts, subject->schedule, 0, &folded, err);

    said->count = folded.step_count;
    said->total_ps = (uint64_t)folded.end_ps;
    return status;
}

typedef int act(const struct subject *subject, struct said *said, struct tutti_err *err);

static int child(const struct bench *bench, act *what, int out)
{
    struct tutti_err err = {.text = ""};
    struct subject subject;
    struct said said = {0};
    int status = subject_open(&subject, bench, &err);

    if (status == 0)
        status = what(&subject, &said, &err);
    if (status < 0)
        snprintf(said.why_not, sizeof(said.why_not), "%.100s", err.text);
    subject_close(&subject);
    return write(out, &said, sizeof(said)) == (ssize_t)sizeof(said) ? 0 : 1;
}

/* Runs in a process of its own: CPU seconds and peak memory are of it alone. seconds_max 0: all it
 * takes. */
static int measure(const struct bench *bench, act *what, unsigned seconds_max, struct measured *ret)
{
    struct rlimit limit = {.rlim_cur = seconds_max, .rlim_max = seconds_max + 1};
    struct rlimit memory = {.rlim_cur = MEMORY_MAX, .rlim_max = MEMORY_MAX};
    struct rusage usage = {.ru_maxrss = 0};
    bool heard;
    int ends[2];
    int status = 0;
    pid_t pid;

    if (pipe(ends) < 0)
        return 1;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (seconds_max > 0 &&
            (setrlimit(RLIMIT_CPU, &limit) < 0 || setrlimit(RLIMIT_AS, &memory) < 0))
            _exit(1);
        _exit(child(bench, what, ends[1]));
    }
    close(ends[1]);
    heard = pid > 0 && read(ends[0], &ret->said, sizeof(ret->said)) == (ssize_t)sizeof(ret->said);
    close(ends[0]);
    if (pid < 0 || wait4(pid, &status, 0, &usage) < 0)
        return 1;
    ret->too_long = !heard && WIFSIGNALED(status);
    ret->seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    ret->mib = (double)usage.ru_maxrss / 1024;
    return heard || ret->too_long ? 0 : 1;
}

static int run(const struct bench *bench)
{
    struct measured walked = {.seconds = 0};
    struct measured played = {.seconds = 0};
    double count;

    if (measure(bench, walk, 0, &walked) != 0 ||
        measure(bench, bench->fold == NULL ? play : fold, 0, &played) != 0)
        return 1;
    if (played.said.why_not[0] != '\0') {
        fprintf(stderr, "sim_bench: %s\n", played.said.why_not);
        return 1;
    }
    count = (double)walked.said.count;
    printf("%-19s %-9s %-18s %4s %-9s %4s %9llu %7.3f %7.3f %6.1f %7.1f %6.0f %14llu\n",
           bench->spec, bench->collective, bench->algorithm, bench->bytes, bench->model,
           bench->jitter, (unsigned long long)walked.said.count, walked.seconds, played.seconds,
           count / played.seconds / 1e6, played.seconds * 1e9 / count, played.mib,
           (unsigned long long)played.said.total_ps);
    return 0;
}

/* ---- by number of ranks ---------------------------------------------------------------------- */

/* Machines of 64, 512, ... 1,048,576 ranks for each algorithm. */
enum { SIZES = 7 };

static const char *const rank_counts[SIZES] = {"64",    "512",    "4096",   "16384",
                                               "65536", "262144", "1048576"};
static const char *const tori[SIZES] = {"4x4x4",    "8x8x8",    "16x16x16",  "16x32x32",
                                        "32x32x64", "64x64x64", "64x128x128"};
static const char *const nodes[SIZES] = {"8", "64", "512", "2048", "8192", "32768", "131072"};

struct family {
    const char *algorithm;
    const char *form; /* of the machine's spec */
    const char *const *sizes;
};

static const struct family families[] = {
    {"ring", "ring:n=%s", rank_counts},
    {"binomial", "switch:n=%s", rank_counts},
    {"double-binary-tree", "switch:n=%s", rank_counts},
    {"halving-doubling", "switch:n=%s", rank_counts},
    {"hierarchical", "dgx-h100:nodes=%s", nodes},
    {"torus", "torus:%s", tori},
};

static void print_scale_line(const struct bench *bench, const struct measured *counted,
                             const struct measured *played, unsigned seconds_max)
{
    double count = (double)counted->said.count;

    printf("%-22s %-18s %-9s %-4s ", bench->spec, bench->algorithm, bench->model,
           bench->fold == NULL ? "no" : "yes");
    if (played->too_long)
        printf("%14.0f  takes more than %u s\n", count, seconds_max);
    else if (played->said.why_not[0] != '\0')
        printf("%14.0f  %s\n", count, played->said.why_not);
    else
        printf("%14.0f %7.3f %9.1f %9.3f %6.0f %16llu\n", count, played->seconds,
               count / played->seconds / 1e6, played->seconds * 1e9 / count, played->mib,
               (unsigned long long)played->said.total_ps);
    fflush(stdout);
}

/* One algorithm on growing machines; once a case has taken too long, larger ones are not tried. */
static int scale_family(const struct family *family, const char *model, const char *folded,
                        unsigned long ranks_max, unsigned seconds_max)
{
    bool too_long = false;

    for (int i = 0; i < SIZES && strtoul(rank_counts[i], NULL, 10) <= ranks_max; i++) {
        struct measured counted = {.seconds = 0};
        struct measured played = {.too_long = too_long};
        char spec[64];
        struct bench bench = {spec, "allreduce", family->algorithm, "1G", model, "0", folded};

        snprintf(spec, sizeof(spec), family->form, family->sizes[i]);
        if (measure(&bench, sample, 0, &counted) != 0 ||
            (!too_long && measure(&bench, folded == NULL ? play : fold, seconds_max, &played) != 0))
            return 1;
        too_long = played.too_long;
        print_scale_line(&bench, &counted, &played, seconds_max);
    }
    return 0;
}

static int scale(const char *model, const char *ranks_max, const char *seconds_max)
{
    int failed = 0;

    printf("%-22s %-18s %-9s %-4s %14s %7s %9s %9s %6s %16s\n", "topology", "allreduce by", "model",
           "fold", "messages", "CPU s", "M/s", "ns/msg", "MiB", "ps");
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        for (int folded = 0; folded < 2; folded++)
            failed |= scale_family(&families[i], model, folded == 0 ? NULL : "on",
                                   strtoul(ranks_max, NULL, 10),
                                   (unsigned)strtoul(seconds_max, NULL, 10));
    }
    return failed;
}

static int play_only(const struct bench *bench)
{
    struct tutti_err err = {.text = ""};
    struct subject subject;
    struct said said = {0};
    int status = subject_open(&subject, bench, &err);

    if (status == 0)
        status = play(&subject, &said, &err);
    if (status < 0)
        fprintf(stderr, "sim_bench: %s\n", err.text);
    subject_close(&subject);
    return status < 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc == 5 && strcmp(argv[1], "--scale") == 0)
        return scale(argv[2], argv[3], argv[4]);
    if (argc >= 7 && argc <= 8 && strcmp(argv[1], "--play") == 0)
        return play_only(&(struct bench){argv[2], argv[3], argv[4], argv[5], argv[6],
                                         argc == 8 ? argv[7] : "0", NULL});
    if (argc != 1 && (argc < 6 || argc > 8)) {
        fprintf(stderr, "usage: sim_bench [SPEC COLLECTIVE ALGORITHM BYTES MODEL [JITTER [FOLD]]]\n"
                        "       sim_bench --scale MODEL RANKS_MAX SECONDS\n"
                        "       sim_bench --play SPEC COLLECTIVE ALGORITHM BYTES MODEL [JITTER]\n");
        return 2;
    }
    printf("%-19s %-9s %-18s %4s %-9s %4s %9s %7s %7s %6s %7s %6s %14s\n", "topology", "of", "by",
           "size", "model", "jit", "messages", "walk s", "CPU s", "M/s", "ns/msg", "MiB", "ps");
    if (argc > 1)
        return run(&(struct bench){argv[1], argv[2], argv[3], argv[4], argv[5],
                                   argc >= 7 ? argv[6] : "0",
                                   argc == 8 && strcmp(argv[7], "on") == 0 ? "on" : NULL});
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        failed |= run(&benches[i]);
    return failed;
}
