/* All-reduce on the threads backend, timed as MPI_Allreduce is; and the bound of the memory. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tests/bench/bench.h"

enum { RANKS_MAX = 64, SIZES_MAX = 64 };

struct bench {
    uint32_t rank_count;
    uint64_t largest;
    float *in[RANKS_MAX];
    float *out[RANKS_MAX];
    struct tutti_backend *backend;
};

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "allreduce_bench: %s: %s\n", what, err->text);
    exit(1);
}

static struct tutti_schedule *schedule_of(const struct bench *bench, const char *algorithm,
                                          struct tutti_coll_params params)
{
    struct tutti_shape shape = tutti_shape_flat(bench->rank_count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    if (tutti_coll_generate(algorithm, &params, &shape, &schedule, &err) < 0)
        give_up(algorithm, &err);
    return schedule;
}

/* From the common start to the end of the last rank, per iteration. */
static double play(struct bench *bench, const struct tutti_schedule *schedule,
                   uint32_t warmup_count, uint32_t iteration_count)
{
    struct tutti_played played;
    struct tutti_err err;
    struct tutti_play play = {
        .size = sizeof(struct tutti_play),
        .schedule = schedule,
        .in = (const void *const *)bench->in,
        .out = (void *const *)bench->out,
        .warmup_count = warmup_count,
        .iteration_count = iteration_count,
    };

    if (tutti_backend_play(bench->backend, &play, &played, &err) < 0)
        give_up(schedule->name, &err);
    return (double)played.best_ps * 1e-6;
}

static double time_of(struct bench *bench, const struct tutti_schedule *schedule, uint64_t bytes)
{
    double us = play(bench, schedule, bench_warmups(bytes), bench_iterations(bytes));

    for (uint32_t rank = 0; rank < bench->rank_count; rank++) {
        if (bench_wrong(bench->out[rank], bytes, bench->rank_count) > 0) {
            fprintf(stderr, "allreduce_bench: %s: wrong sums at %llu bytes\n", schedule->name,
                    (unsigned long long)bytes);
            exit(1);
        }
    }
    return us;
}

/* "auto": the fastest in short trials, in which all take turns. */
static struct tutti_schedule *fastest(struct bench *bench, struct tutti_coll_params params,
                                      uint64_t bytes)
{
    enum { NAMES = 4, TURNS = 3 };
    static const char *const names[NAMES] = {"one-shot", "two-shot", "ring", "recursive-doubling"};
    struct tutti_schedule *schedules[NAMES];
    double best_us[NAMES];
    size_t best = 0;

    for (size_t i = 0; i < NAMES; i++)
        schedules[i] = schedule_of(bench, names[i], params);
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < NAMES; i++) {
            double us = play(bench, schedules[i], 1, bench_iterations(bytes) / 20 + 1);

            best_us[i] = turn == 0 || us < best_us[i] ? us : best_us[i];
        }
    }
    for (size_t i = 1; i < NAMES; i++)
        best = best_us[i] < best_us[best] ? i : best;
    for (size_t i = 0; i < NAMES; i++) {
        if (i != best)
            tutti_schedule_free(schedules[i]);
    }
    return schedules[best];
}

/* ---- the memory's bound ---- */

/* A thread adds the inputs of its ranks to their outputs. */
struct adder {
    struct bench *bench;
    uint64_t bytes;
    uint32_t index;
    uint32_t adder_count;
    uint32_t pass_count;
    pthread_barrier_t *start;
    double took_us;
};

static void *add_up(void *data)
{
    struct adder *adder = data;
    struct bench *bench = adder->bench;
    double start_us;

    bench_pin(adder->index);
    pthread_barrier_wait(adder->start);
    start_us = bench_now_us();
    for (uint32_t i = 0; i < adder->pass_count; i++) {
        for (uint32_t rank = adder->index; rank < bench->rank_count; rank += adder->adder_count)
            tutti_reduce(TUTTI_FLOAT32, TUTTI_SUM, bench->out[rank], bench->out[rank],
                         bench->in[rank], (size_t)adder->bytes / sizeof(float));
    }
    adder->took_us = (bench_now_us() - start_us) / adder->pass_count;
    return NULL;
}

/* Every input must be read and every output written once: 2 n S bytes. The rate at which they can
 * be is that of out += in, 3 n S bytes, over the same buffers by two threads: best of some. */
static double bound_us(struct bench *bench, uint64_t bytes)
{
    enum { ADDERS = 2, TRIES = 4 };
    struct adder adders[ADDERS];
    pthread_t threads[ADDERS];
    double best_us = 1e300;

    for (int try = 0; try < TRIES; try++) {
        pthread_barrier_t start;
        double took_us = 0;

        pthread_barrier_init(&start, NULL, ADDERS);
        for (uint32_t i = 0; i < ADDERS; i++) {
            adders[i] = (struct adder){.bench = bench,
                                       .bytes = bytes,
                                       .index = i,
                                       .adder_count = ADDERS,
                                       .pass_count = bench_iterations(bytes) / 10 + 1,
                                       .start = &start};
            if (pthread_create(&threads[i], NULL, add_up, &adders[i]) != 0)
                exit(1);
        }
        for (uint32_t i = 0; i < ADDERS; i++) {
            pthread_join(threads[i], NULL);
            took_us = adders[i].took_us > took_us ? adders[i].took_us : took_us;
        }
        pthread_barrier_destroy(&start);
        best_us = took_us < best_us ? took_us : best_us;
    }
    return best_us * 2 / 3;
}

/* ---- the command ---- */

static int usage(void)
{
    fprintf(stderr, "usage: allreduce_bench CONTENDER SIZE,SIZE,... RANKS "
                    "[ALGORITHM [CHANNELS [CHUNK [SLOTS]]]]\n");
    return 2;
}

static uint64_t number_at(int argc, char **argv, int index)
{
    return index < argc ? strtoull(argv[index], NULL, 10) : 0;
}

static void open_bench(struct bench *bench)
{
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts),
                                      .pin = bench->rank_count <= 2};
    struct tutti_err err;

    if (tutti_threads_open(&opts, &bench->backend, &err) < 0)
        give_up("threads", &err);
    for (uint32_t rank = 0; rank < bench->rank_count; rank++) {
        bench->in[rank] = bench_memory(bench->largest);
        bench->out[rank] = bench_memory(bench->largest);
        bench_fill(bench->in[rank], bench->largest, rank);
    }
}

static void close_bench(struct bench *bench)
{
    for (uint32_t rank = 0; rank < bench->rank_count; rank++) {
        free(bench->in[rank]);
        free(bench->out[rank]);
    }
    tutti_backend_close(bench->backend);
}

int main(int argc, char **argv)
{
    uint64_t sizes[SIZES_MAX];
    size_t size_count = argc >= 4 ? bench_sizes(argv[2], sizes, SIZES_MAX) : 0;
    struct bench bench = {.rank_count = (uint32_t)number_at(argc, argv, 3)};
    const char *algorithm = argc >= 5 ? argv[4] : "auto";

    if (size_count == 0 || bench.rank_count < 2 || bench.rank_count > RANKS_MAX)
        return usage();
    for (size_t i = 0; i < size_count; i++)
        bench.largest = sizes[i] > bench.largest ? sizes[i] : bench.largest;
    open_bench(&bench);
    for (size_t i = 0; i < size_count; i++) {
        struct tutti_coll_params params = {
            .collective = TUTTI_ALLREDUCE,
            .dtype = TUTTI_FLOAT32,
            .op = TUTTI_SUM,
            .count = sizes[i] / sizeof(float),
            .channel_count = (uint32_t)number_at(argc, argv, 5),
            .chunk_bytes = number_at(argc, argv, 6),
            .slot_count = (uint32_t)number_at(argc, argv, 7),
        };
        struct tutti_schedule *schedule = strcmp(algorithm, "auto") == 0
                                              ? fastest(&bench, params, sizes[i])
                                              : schedule_of(&bench, algorithm, params);
        double before_ns = bench_hop_ns();
        double us = time_of(&bench, schedule, sizes[i]);

        bench_say(argv[1], bench.rank_count, sizes[i], us, before_ns, bench_hop_ns(),
                  schedule->name);
        tutti_schedule_free(schedule);
        if (sizes[i] >= 1 << 16)
            bench_say("bound", bench.rank_count, sizes[i], bound_us(&bench, sizes[i]), before_ns,
                      before_ns, "memory");
    }
    close_bench(&bench);
    return 0;
}
