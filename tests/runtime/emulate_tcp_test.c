/* Emulation by several processes: the conformance suite while they emulate a machine, and a clock
 * that runs as in the simulator, to the picosecond. */
#include "runtime/coll.h"
#include "runtime/tcp.h"
#include "runtime/threads.h"
#include "sim/sim.h"
#include "tests/runtime/conformance.h"
#include "tests/runtime/conformance_overlap.h"
#include "tests/runtime/emulated.h"
#include "tests/runtime/processes.h"

static int open_tcp(struct tutti_shaper *shaper, uint32_t rank_count, void *data,
                    struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_tcp_opts tcp = {.size = sizeof(struct tutti_tcp_opts),
                                 .group = processes_group(),
                                 .shaper = shaper,
                                 .slowdown = *(const double *)data};

    (void)rank_count;
    return tutti_tcp_open(&tcp, ret, err);
}

static int open_over_tcp(const char *spec, struct tutti_sim_opts opts, double slowdown,
                         struct tutti_backend **ret, struct tutti_err *err)
{
    return emulated_open_over(spec, opts, open_tcp, &slowdown, ret, err);
}

static int open_emulating(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .model = rank_count % 2 == 0 ? TUTTI_MODEL_FAIR
                                                               : TUTTI_MODEL_ALPHABETA};
    char spec[64];

    snprintf(spec, sizeof(spec), "ring:n=%u,bw=10GB/s,lat=100ns", rank_count);
    return open_over_tcp(spec, opts, 1, ret, err);
}

static const struct conformance_subject subject = {.name = "tcp", .open = open_emulating};

static void same_clock(const char *spec, const char *algorithm, uint64_t count)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = count, .channel_count = 2};
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .warmup_count = 1,
                              .iteration_count = 2,
                              .barrier = true};
    struct tutti_backend *emulated = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_played simulated = {0};
    struct tutti_played played = {0};
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, &err), err);
    CHECK_OK(open_over_tcp(spec, opts, 0, &emulated, &err), err);
    opts.topo = topo;
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    REQUIRE(schedule != NULL && emulated != NULL && sim != NULL);
    play.schedule = schedule;
    CHECK_OK(tutti_backend_play(sim, &play, &simulated, &err), err);
    CHECK_OK(tutti_backend_play(emulated, &play, &played, &err), err);
    CHECK(played.step_count == simulated.step_count);
    if (processes.index == 0)
        CHECK_INT(tutti_threads_lateness(((struct emulated *)emulated)->inner).clock_ps,
                  simulated.median_ps);
    tutti_backend_close(emulated);
    tutti_backend_close(sim);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

TEST(the_clock_that_processes_share_runs_as_in_the_simulator)
{
    static const char *const specs[] = {"ring:n=4,bw=10GB/s,lat=1us",
                                        "switch:n=5,bw=25GB/s,lat=500ns", "dgx-h100"};
    static const char *const algorithms[] = {"ring", "recursive-doubling", "two-shot"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        for (size_t k = 0; k < sizeof(algorithms) / sizeof(algorithms[0]); k++) {
            same_clock(specs[i], algorithms[k], 100);
            same_clock(specs[i], algorithms[k], 300000);
        }
}
