/* Rings of equal sizes and of uneven ones take the same times on every way of playing them: many
 * rounds at a time, step by step (with a record), and on the stage (carrying data). */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tests/sim/paced.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { RANKS_MAX = 48 };

struct world {
    char spec[64];
    const char *algorithm;
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_sim_opts opts;
    tutti_ps start_ps[RANKS_MAX];
};

static struct tutti_played play(const struct world *world, bool carry, struct tutti_record *record)
{
    struct tutti_sim_opts opts = world->opts;
    struct tutti_play asked = {.size = sizeof(struct tutti_play),
                               .schedule = world->schedule,
                               .iteration_count = 1,
                               .record = record};
    struct tutti_played played = {.total_ps = -1};
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {.text = ""};

    opts.carry = carry;
    CHECK_OK(tutti_sim_open(&opts, &backend, &err), err);
    CHECK_OK(tutti_backend_play(backend, &asked, &played, &err), err);
    tutti_backend_close(backend);
    return played;
}

static bool world_draw(struct world *world, struct tutti_random *random)
{
    static const char *const machines[] = {"ring:n=%u", "switch:n=%u", "dgx-h100:nodes=%u"};
    uint32_t machine = (uint32_t)tutti_random_below(random, 3);
    uint32_t size = 2 + (uint32_t)tutti_random_below(random, machine == 2 ? 4 : 24);
    struct tutti_err err = {.text = ""};
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_INT32,
        .op = TUTTI_SUM,
        .count = 1 + tutti_random_below(random, 20000),
        .channel_count = 1,
        .chunk_bytes = tutti_random_below(random, 3) * 1024,
        .slot_count = 1 + (uint32_t)tutti_random_below(random, 9),
    };

    *world =
        (struct world){.algorithm = tutti_random_below(random, 2) == 0 ? "ring" : "hierarchical"};
    snprintf(world->spec, sizeof(world->spec), machines[machine], size);
    CHECK_OK(tutti_topo_from_spec(world->spec, &world->topo, &err), err);
    if (world->topo == NULL)
        return false;
    world->opts = (struct tutti_sim_opts){
        .size = sizeof(struct tutti_sim_opts),
        .topo = world->topo,
        .model = tutti_random_below(random, 2) == 0 ? TUTTI_MODEL_ALPHABETA : TUTTI_MODEL_FAIR};
    CHECK(world->topo->rank_count <= RANKS_MAX);
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        world->start_ps[rank] = (tutti_ps)tutti_random_below(random, 20000000);
    if (tutti_random_below(random, 2) == 0)
        world->opts.start_ps = world->start_ps;
    draw_protocols(random, world->protocols);
    if (tutti_random_below(random, 2) == 0)
        world->opts.protocol = &world->protocols[tutti_random_below(random, TUTTI_PROTOCOLS)];
    CHECK_OK(
        tutti_coll_generate(world->algorithm, &params, &world->topo->shape, &world->schedule, &err),
        err);
    return world->schedule != NULL;
}

TEST(rounds_at_a_time_take_the_times_of_their_steps)
{
    struct tutti_random random;
    uint64_t cases = test_cheap_count(10000, 500);

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < cases && test_failures < 10; i++) {
        struct world world;
        struct tutti_record record;

        tutti_record_init(&record);
        if (world_draw(&world, &random)) {
            struct tutti_played fast = play(&world, false, NULL);
            struct tutti_played steps = play(&world, false, &record);
            struct tutti_played stage = play(&world, true, NULL);

            if (fast.total_ps != steps.total_ps || fast.total_ps != stage.total_ps ||
                fast.step_count != steps.step_count || fast.step_count != stage.step_count)
                TEST_FAIL("%s on %s, case %" PRIu64 ": %" PRId64 " ps, %" PRId64
                          " step by step, %" PRId64 " on the stage",
                          world.algorithm, world.spec, i, fast.total_ps, steps.total_ps,
                          stage.total_ps);
        }
        tutti_record_done(&record);
        tutti_schedule_free(world.schedule);
        tutti_topo_free(world.topo);
    }
}
