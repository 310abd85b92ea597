/* What a step costs beyond its collective, where a run is held open: steps_bench [BYTES] [STEPS]
 * [RANKS]. All-reduce by threads: so many steps of one iteration, against the same iterations in
 * one step, and against plays that open and close everything each time. A step of two ranks is a
 * few cache lines from one processor to the other and back: what a hop took before and after says
 * with which figures this one may be compared. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tests/bench/bench.h"

enum { RANKS_MAX = 64, PLAYS = 100 };

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "steps_bench: %s: %s\n", what, err->text);
    exit(1);
}

struct bench {
    struct tutti_backend *backend;
    struct tutti_play play;
    uint32_t step_count;
};

/* `count` iterations a step; microseconds an iteration by the clock of the caller, and by what the
 * steps say they took. */
static void time_steps(const struct bench *bench, uint32_t count, double *ret_us,
                       double *ret_own_us)
{
    struct tutti_run *run = NULL;
    struct tutti_played played;
    struct tutti_err err;
    tutti_ps own_ps = 0;
    double start_us;

    if (tutti_run_open(bench->backend, &bench->play, &run, &err) < 0)
        give_up("open", &err);
    if (tutti_run_step(run, count, &played, &err) < 0)
        give_up("first step", &err);
    start_us = bench_now_us();
    for (uint32_t i = 0; i < bench->step_count; i += count) {
        if (tutti_run_step(run, count, &played, &err) < 0)
            give_up("step", &err);
        own_ps += played.total_ps;
    }
    *ret_us = (bench_now_us() - start_us) / bench->step_count;
    *ret_own_us = (double)own_ps * 1e-6 / bench->step_count;
    tutti_run_close(run);
}

static double time_plays(const struct bench *bench)
{
    struct tutti_play play = bench->play;
    double start_us = bench_now_us();
    struct tutti_played played;
    struct tutti_err err;

    play.iteration_count = 1;
    for (uint32_t i = 0; i < PLAYS; i++) {
        if (tutti_backend_play(bench->backend, &play, &played, &err) < 0)
            give_up("play", &err);
    }
    return (bench_now_us() - start_us) / PLAYS;
}

int main(int argc, char **argv)
{
    uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024;
    uint32_t steps = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000;
    uint32_t ranks = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2;
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = bytes / sizeof(float)};
    struct bench bench = {.step_count = steps};
    struct tutti_schedule *schedule = NULL;
    struct tutti_shape shape;
    double step_us;
    double own_us;
    double iteration_us;
    double unused_us;
    double before_ns = bench_hop_ns();
    struct tutti_err err;

    if (params.count == 0 || steps == 0 || ranks == 0 || ranks > RANKS_MAX) {
        fprintf(stderr, "usage: steps_bench [BYTES] [STEPS] [RANKS]\n");
        return 2;
    }
    shape = tutti_shape_flat(ranks);
    if (tutti_threads_open(NULL, &bench.backend, &err) < 0)
        give_up("threads", &err);
    if (tutti_coll_generate("ring", &params, &shape, &schedule, &err) < 0)
        give_up("ring", &err);
    bench.play = (struct tutti_play){.size = sizeof(struct tutti_play), .schedule = schedule};
    time_steps(&bench, 1, &step_us, &own_us);
    time_steps(&bench, steps, &iteration_us, &unused_us);
    printf(
        "%llu bytes, %u ranks, %u steps: %.3f us a step, of which its iteration %.3f; %.3f us an "
        "iteration in one step; %.3f us a play; a hop of %.0f ns before, ",
        (unsigned long long)bytes, ranks, steps, step_us, own_us, iteration_us, time_plays(&bench),
        before_ns);
    printf("%.0f after\n", bench_hop_ns());
    tutti_schedule_free(schedule);
    tutti_backend_close(bench.backend);
    return 0;
}
