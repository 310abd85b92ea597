/* Emulation on threads: the clock of the emulated machine runs as in the simulator, to the
 * picosecond, while threads really move the data; and it never runs ahead of ours. */
#include <string.h>

#include "runtime/coll.h"
#include "sim/predict.h"
#include "tests/runtime/emulated.h"
#include "tests/test.h"

struct world {
    const char *spec;
    enum tutti_model model;
    const char *protocol; /* or "none" */
    uint64_t reduce_bytes_per_s;
};

static void schedule_for(const struct world *world, const char *algorithm, uint64_t count,
                         struct tutti_topo **topo, struct tutti_schedule **schedule)
{
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .protocol = "none",
        .algorithm = algorithm,
        .params = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = count},
        .model = world->model,
    };
    struct tutti_err err;

    CHECK_OK(tutti_topo_from_spec(world->spec, topo, &err), err);
    REQUIRE(*topo != NULL);
    ask.topo = *topo;
    CHECK_OK(tutti_predict_schedule(&ask, schedule, &err), err);
    REQUIRE(*schedule != NULL);
}

static struct tutti_sim_opts opts_of(const struct world *world)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .model = world->model,
                                  .reduce_bytes_per_s = world->reduce_bytes_per_s};
    struct tutti_err err;

    CHECK_OK(tutti_protocol_find(world->protocol, &opts.protocol, &err), err);
    return opts;
}

/* Plays on the simulator's clock, and on threads with the slowdown given. */
static void play_both(const struct world *world, const char *algorithm, uint64_t count,
                      double slowdown, tutti_ps *ret_simulated_ps,
                      struct tutti_lateness *ret_lateness, struct tutti_played *ret_played)
{
    struct tutti_topo *topo = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_backend *emulated = NULL;
    struct tutti_sim_opts opts = opts_of(world);
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = 2,
                              .warmup_count = 1,
                              .barrier = true};
    struct tutti_played simulated = {0};
    struct tutti_err err;

    schedule_for(world, algorithm, count, &topo, &schedule);
    play.schedule = schedule;
    CHECK_OK(emulated_open(world->spec, opts, slowdown, &emulated, &err), err);
    opts.topo = topo;
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    REQUIRE(sim != NULL && emulated != NULL);
    CHECK_OK(tutti_backend_play(sim, &play, &simulated, &err), err);
    CHECK_OK(tutti_backend_play(emulated, &play, ret_played, &err), err);
    CHECK(ret_played->step_count == simulated.step_count);
    *ret_simulated_ps = simulated.median_ps;
    *ret_lateness = tutti_threads_lateness(((struct emulated *)emulated)->inner);
    tutti_backend_close(sim);
    tutti_backend_close(emulated);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

static void same_clock(const struct world *world, const char *algorithm, uint64_t count)
{
    tutti_ps simulated_ps = 0;
    struct tutti_lateness lateness = {0};
    struct tutti_played played = {0};

    play_both(world, algorithm, count, 0, &simulated_ps, &lateness, &played);
    if (lateness.clock_ps != simulated_ps)
        printf("%s by %s, %llu elements, %s, %s:\n", world->spec, algorithm,
               (unsigned long long)count, tutti_model_name(world->model), world->protocol);
    CHECK_INT(lateness.clock_ps, simulated_ps);
    CHECK(lateness.instant_count > 0);
}

TEST(the_clock_of_the_emulated_machine_runs_as_in_the_simulator)
{
    static const struct world worlds[] = {
        {"ring:n=4,bw=10GB/s,lat=1us", TUTTI_MODEL_FAIR, "none", 0},
        {"ring:n=4,bw=10GB/s,lat=1us", TUTTI_MODEL_ALPHABETA, "none", 0},
        {"ring:n=3,bw=10GB/s,lat=1us", TUTTI_MODEL_FAIR, "none", UINT64_C(30000000000)},
        {"switch:n=4,bw=25GB/s,lat=500ns", TUTTI_MODEL_FAIR, "none", 0},
        {"dgx-h100:nodes=2", TUTTI_MODEL_FAIR, "simple", 0},
        {"dgx-h100:nodes=2", TUTTI_MODEL_FAIR, "ll", 0},
        {"torus:2x2x2,bw=45GB/s,lat=1us", TUTTI_MODEL_FAIR, "none", 0},
    };
    static const char *const algorithms[] = {"ring", "recursive-doubling", "binomial", "two-shot"};
    static const uint64_t counts[] = {0, 1000, 100000};

    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++)
        for (size_t k = 0; k < sizeof(algorithms) / sizeof(algorithms[0]); k++)
            for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++)
                same_clock(&worlds[i], algorithms[k], counts[n]);
    same_clock(&worlds[4], "hierarchical", 100000);
    same_clock(&worlds[6], "torus", 100000);
}

TEST(real_time_never_undercuts_the_emulated_machine)
{
    static const struct world worlds[] = {
        {"switch:n=4,bw=1GB/s,lat=20us", TUTTI_MODEL_FAIR, "none", 0},
        {"dgx-h100:nodes=2", TUTTI_MODEL_FAIR, "simple", UINT64_C(100000000000)},
    };

    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        tutti_ps simulated_ps = 0;
        struct tutti_lateness lateness = {0};
        struct tutti_played played = {0};

        play_both(&worlds[i], "ring", 10000, 20, &simulated_ps, &lateness, &played);
        CHECK_INT(lateness.clock_ps, simulated_ps);
        CHECK(played.best_ps >= 20 * simulated_ps);
    }
}

TEST(what_can_never_arrive_is_a_deadlock_here_too)
{
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};
    struct tutti_step recv = {.kind = TUTTI_RECV, .dst_buf = TUTTI_BUF_OUT, .peer = 0, .bytes = 4};
    struct tutti_play play = {.size = sizeof(struct tutti_play), .iteration_count = 1};
    struct tutti_schedule_desc desc = {
        .name = "alone",
        .rank_count = 2,
        .lane_count = 1,
        .slot_count = 1,
        .out_bytes = 4,
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32, .count = 1},
    };
    struct tutti_played played;
    struct tutti_err err = {{0}};

    CHECK_OK(emulated_open("ring:n=2,bw=1GB/s,lat=1us", opts, 1, &backend, &err), err);
    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    REQUIRE(backend != NULL && builder != NULL);
    CHECK_OK(tutti_builder_add(builder, 1, 0, &recv, &err), err);
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    play.schedule = schedule;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank 1, lane 0, step 0 (RECV") == err.text);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

TEST(a_deadline_holds_on_the_clock_of_this_machine)
{
    static const struct world world = {"ring:n=2,bw=1GB/s,lat=1ms", TUTTI_MODEL_FAIR, "none", 0};
    struct tutti_topo *topo = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = 1,
                              .deadline_ps = 50 * TUTTI_PS_PER_MS};
    struct tutti_played played;
    struct tutti_err err = {{0}};

    schedule_for(&world, "ring", 100, &topo, &schedule);
    CHECK_OK(emulated_open(world.spec, opts_of(&world), 1000, &backend, &err), err);
    REQUIRE(backend != NULL);
    play.schedule = schedule;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "deadline of 50ms passed: rank ") == err.text);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

TEST(a_machine_of_other_ranks_is_refused)
{
    static const struct world world = {"ring:n=4,bw=1GB/s,lat=1us", TUTTI_MODEL_FAIR, "none", 0};
    struct tutti_topo *topo = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_play play = {.size = sizeof(struct tutti_play), .iteration_count = 1};
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR, .jitter = 0.5};
    struct tutti_played played;
    struct tutti_err err = {{0}};

    schedule_for(&world, "ring", 100, &topo, &schedule);
    CHECK_INT(emulated_open("ring:n=3,bw=1GB/s,lat=1us", opts, 1, &backend, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "an emulation knows neither jitter nor late ranks");
    opts.jitter = 0;
    CHECK_OK(emulated_open("ring:n=3,bw=1GB/s,lat=1us", opts, 1, &backend, &err), err);
    REQUIRE(backend != NULL);
    play.schedule = schedule;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "has '4' ranks, but topology 'ring:n=3") != NULL);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}
