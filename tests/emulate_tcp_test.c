/* Emulation by several processes: the conformance suite while they emulate a machine, and a clock
 * that runs as in the simulator, to the picosecond. */
#include "runtime/coll.h"
#include "runtime/shaper.h"
#include "runtime/tcp.h"
#include "runtime/threads.h"
#include "sim/shaper.h"
#include "sim/sim.h"
#include "tests/conformance.h"
#include "tests/processes.h"
#include "topo/topo.h"

/* A backend that owns its machine and the shaper. */
struct owner {
    struct tutti_backend backend;
    struct tutti_backend *tcp;
    struct tutti_shaper *shaper;
    struct tutti_topo *topo;
};

static void owner_close(struct tutti_backend *backend)
{
    struct owner *owner = (struct owner *)backend;

    tutti_backend_close(owner->tcp);
    tutti_shaper_close(owner->shaper);
    tutti_topo_free(owner->topo);
    free(owner);
}

static int owner_play(struct tutti_backend *backend, const struct tutti_play *play,
                      struct tutti_played *ret, struct tutti_err *err)
{
    return tutti_backend_play(((struct owner *)backend)->tcp, play, ret, err);
}

static void owner_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                        uint32_t *ret_first, uint32_t *ret_count)
{
    tutti_backend_ranks(((const struct owner *)backend)->tcp, rank_count, ret_first, ret_count);
}

static const struct tutti_backend_ops owner_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "tcp, emulating",
    .close = owner_close,
    .play = owner_play,
    .ranks = owner_ranks,
};

static int open_owner(const char *spec, struct tutti_sim_opts opts, double slowdown,
                      struct tutti_backend **ret, struct tutti_err *err)
{
    struct owner *owner = calloc(1, sizeof(*owner));
    struct tutti_tcp_opts tcp = {.crew = processes_crew(), .slowdown = slowdown};
    int status;

    if (owner == NULL)
        return tutti_nomem(err);
    owner->backend.ops = &owner_ops;
    status = tutti_topo_from_spec(spec, &owner->topo, err);
    opts.topo = owner->topo;
    if (status == 0)
        status = tutti_sim_shaper_open(&opts, &owner->shaper, err);
    tcp.shaper = owner->shaper;
    if (status == 0)
        status = tutti_tcp_open(&tcp, &owner->tcp, err);
    if (status < 0)
        owner_close(&owner->backend);
    else
        *ret = &owner->backend;
    return status;
}

static int open_emulating(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.model = rank_count % 2 == 0 ? TUTTI_MODEL_FAIR
                                                               : TUTTI_MODEL_ALPHABETA};
    char spec[64];

    snprintf(spec, sizeof(spec), "ring:n=%u,bw=10GB/s,lat=100ns", rank_count);
    return open_owner(spec, opts, 1, ret, err);
}

static const struct conformance_subject subject = {.name = "tcp", .open = open_emulating};

static void same_clock(const char *spec, const char *algorithm, uint64_t count)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = count, .channel_count = 2};
    struct tutti_sim_opts opts = {.model = TUTTI_MODEL_FAIR};
    struct tutti_play play = {.warmup_count = 1, .iteration_count = 2, .barrier = true};
    struct tutti_backend *emulated = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_played simulated = {0};
    struct tutti_played played = {0};
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, &err), err);
    CHECK_OK(open_owner(spec, opts, 0, &emulated, &err), err);
    opts.topo = topo;
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    REQUIRE(schedule != NULL && emulated != NULL && sim != NULL);
    play.schedule = schedule;
    CHECK_OK(tutti_backend_play(sim, &play, &simulated, &err), err);
    CHECK_OK(tutti_backend_play(emulated, &play, &played, &err), err);
    CHECK(played.step_count == simulated.step_count);
    if (processes.index == 0)
        CHECK_INT(tutti_threads_tempo(((struct owner *)emulated)->tcp).clock_ps,
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
