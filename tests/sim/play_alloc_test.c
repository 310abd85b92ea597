/* Nothing is allocated while a collective is simulated, once every connection has been used, on any
 * way of playing: not in more iterations, nor for more messages. (The engine, with the stage, keeps
 * programs before it begins: there longer ones take more.) */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "sim/sim.h"
#include "tests/alloc_fail.h"
#include "topo/topo.h"

struct world {
    const char *name;
    const char *spec;
    const char *algorithm;
    bool carry; /* plays on the stage */
};

static const struct world worlds[] = {
    {"data flow, rounds at a time", "ring:n=8", "ring", false},
    {"data flow, links in turn", "torus:4x4", "torus", false},
    {"data flow, hosts", "dgx-h100:nodes=3", "hierarchical", false},
    {"by the clock", "switch:n=9", "double-binary-tree", false},
    {"by the clock, ports for two", "fattree:arity=4,levels=2", "binomial", false},
    {"on the stage", "switch:n=9", "double-binary-tree", true},
};

/* Allocations of a whole play: machine and schedule are made before. */
static uint64_t count_allocations(const struct world *world, enum tutti_model model, double jitter,
                                  uint64_t elements, uint32_t iteration_count)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_INT32,
                                       .op = TUTTI_SUM,
                                       .count = elements,
                                       .chunk_bytes = 64};
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .model = model,
                                  .jitter = jitter,
                                  .carry = world->carry};
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = iteration_count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_played played;
    struct tutti_err err = {.text = ""};
    int status;

    CHECK_OK(tutti_topo_from_spec(world->spec, &topo, &err), err);
    CHECK_OK(tutti_coll_generate(world->algorithm, &params, &topo->shape, &schedule, &err), err);
    opts.topo = topo;
    play.schedule = schedule;
    CHECK_OK(tutti_sim_open(&opts, &backend, &err), err);
    alloc_fail_arm(0);
    status = tutti_backend_play(backend, &play, &played, &err);
    alloc_fail_judge(world->name, status, err.text);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return alloc_fail.count;
}

static void check_world(const struct world *world, enum tutti_model model)
{
    uint64_t once = count_allocations(world, model, 0.3, 20000, 1);
    uint64_t often = count_allocations(world, model, 0.3, 20000, 5);
    uint64_t few = count_allocations(world, model, 0, 20000, 1);
    uint64_t many = count_allocations(world, model, 0, 100000, 1);

    if (once != often || (few != many && !world->carry) || many == 0)
        TEST_FAIL("%s, %s: %" PRIu64 " allocations in one iteration, %" PRIu64 " in five; %" PRIu64
                  " for some messages, %" PRIu64 " for five times as many",
                  world->name, tutti_model_name(model), once, often, few, many);
}

TEST(playing_more_allocates_nothing_more)
{
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        check_world(&worlds[i], TUTTI_MODEL_ALPHABETA);
        check_world(&worlds[i], TUTTI_MODEL_FAIR);
    }
}
