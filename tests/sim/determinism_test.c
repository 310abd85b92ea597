/* The same seed gives the same run; another seed other times, but the same steps and results. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { RANKS_MAX = 24 };

/* One random case: a machine, a collective of int32 by an algorithm, and how it is simulated. */
struct world {
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_coll_params params;
    struct tutti_sim_opts opts;
    tutti_ps start_ps[RANKS_MAX];
    const char *algorithm;
    int32_t *in[RANKS_MAX];
    int32_t *out[RANKS_MAX];
};

/* What came of one play. */
struct outcome {
    uint64_t hash_with_times;
    uint64_t hash_of_steps;
    uint64_t result; /* hash of all outputs */
    tutti_ps total_ps;
};

static const char *draw_machine(struct tutti_random *random, char *spec, size_t spec_bytes)
{
    static const char *const fixed[] = {"dgx-h100",    "dgx-1v",       "dgx-h100:nodes=2",
                                        "pcie:gpus=4", "mesh:3x4",     "fattree:arity=4,levels=2",
                                        "torus:2x3x4", "tpu-v4:2x2x2", "rail:nodes=2,gpus=4",
                                        "full:n=6"};
    static const char *const sized[] = {"ring", "switch"};
    unsigned kind = (unsigned)tutti_random_below(random, 16);

    if (kind < 10)
        return fixed[kind];
    snprintf(spec, spec_bytes, "%s:n=%u,bw=%uMB/s,lat=%uns", sized[kind % 2],
             1 + (unsigned)tutti_random_below(random, RANKS_MAX),
             1 + (unsigned)tutti_random_below(random, 99999),
             (unsigned)tutti_random_below(random, 5000));
    return spec;
}

static void draw_play(struct world *world, struct tutti_random *random)
{
    static const uint64_t chunks[] = {0, 120, 400, 1024};
    static const double jitters[] = {0.001, 0.1, 1, 3.7};

    world->params = (struct tutti_coll_params){
        .dtype = TUTTI_INT32,
        .op = TUTTI_SUM,
        .root = (uint32_t)tutti_random_below(random, world->topo->rank_count),
        .count = 1 + tutti_random_below(random, 500),
        .channel_count = (uint32_t)tutti_random_below(random, 4),
        .chunk_bytes = chunks[tutti_random_below(random, 4)],
        .slice_count = (uint32_t)tutti_random_below(random, 3),
        .slot_count = (uint32_t)tutti_random_below(random, 4),
    };
    if (world->params.slice_count > 1 && world->params.slot_count == 1)
        world->params.slot_count = 2;
    world->opts = (struct tutti_sim_opts){
        .size = sizeof(struct tutti_sim_opts),
        .topo = world->topo,
        .model = tutti_random_below(random, 2) == 0 ? TUTTI_MODEL_ALPHABETA : TUTTI_MODEL_FAIR,
        .jitter = jitters[tutti_random_below(random, 4)],
        .reduce_bytes_per_s = tutti_random_below(random, 2) * UINT64_C(20000000000),
    };
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        world->start_ps[rank] = (tutti_ps)tutti_random_below(random, 9000000);
    if (tutti_random_below(random, 2) == 0)
        world->opts.start_ps = world->start_ps;
    if (tutti_random_below(random, 3) == 0)
        CHECK_OK(tutti_protocol_find("ll128", &world->opts.protocol, NULL),
                 (struct tutti_err){.text = ""});
}

/* An algorithm and a collective it serves on this machine; false: it does not fit. */
static bool draw_schedule(struct world *world, struct tutti_random *random)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    const struct tutti_algorithm *algorithm = &algorithms[tutti_random_below(random, count)];

    world->params.collective = (enum tutti_collective)tutti_random_below(random, TUTTI_BARRIER);
    world->algorithm = algorithm->name;
    if ((algorithm->collectives & 1u << (unsigned)world->params.collective) == 0)
        return false;
    return tutti_coll_generate(algorithm->name, &world->params, &world->topo->shape,
                               &world->schedule, NULL) == 0;
}

static void world_close(struct world *world)
{
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        free(world->in[r]);
        free(world->out[r]);
    }
    tutti_schedule_free(world->schedule);
    tutti_topo_free(world->topo);
}

static bool world_draw(struct world *world, struct tutti_random *random)
{
    char spec[64];
    struct tutti_err err = {.text = ""};

    *world = (struct world){.topo = NULL};
    CHECK_OK(tutti_topo_from_spec(draw_machine(random, spec, sizeof(spec)), &world->topo, &err),
             err);
    if (world->topo == NULL)
        return false;
    draw_play(world, random);
    for (int tries = 0; world->schedule == NULL && tries < 1000; tries++)
        (void)draw_schedule(world, random);
    if (world->schedule == NULL)
        return false;
    for (uint32_t r = 0; r < world->topo->rank_count; r++) {
        uint64_t count = world->schedule->in_bytes / sizeof(int32_t);

        world->in[r] = calloc((size_t)count + 1, sizeof(int32_t));
        world->out[r] = calloc((size_t)world->schedule->out_bytes + 1, 1);
        if (world->in[r] == NULL || world->out[r] == NULL)
            return false;
        for (uint64_t i = 0; i < count; i++)
            world->in[r][i] = (int32_t)tutti_random_hash(test_seed, r, i, 0) >> 8;
    }
    return true;
}

static void say(const struct world *world, const char *what)
{
    TEST_FAIL("%s: %s %s on %s, count %" PRIu64 ", channels %u, chunk %" PRIu64
              ", slices %u, slots %u, %s, jitter %g, %s",
              what, tutti_collective_name(world->params.collective), world->algorithm,
              world->topo->name, world->params.count, world->params.channel_count,
              world->params.chunk_bytes, world->params.slice_count, world->params.slot_count,
              tutti_model_name(world->opts.model), world->opts.jitter,
              world->opts.start_ps != NULL ? "starting one by one" : "starting together");
}

static int32_t sum_at(const struct world *world, uint64_t i)
{
    uint32_t sum = 0;

    for (uint32_t r = 0; r < world->topo->rank_count; r++)
        sum += (uint32_t)world->in[r][i];
    return (int32_t)sum;
}

/* What the contract asks for at element i of rank r. */
static int32_t expected_at(const struct world *world, uint32_t r, uint64_t i)
{
    uint32_t n = world->topo->rank_count;
    uint64_t count = world->params.count;

    switch (world->params.collective) {
    case TUTTI_REDUCESCATTER:
        return sum_at(world, r * count + i);
    case TUTTI_ALLGATHER:
        return world->in[i / count][i % count];
    case TUTTI_BROADCAST:
        return world->in[world->params.root][i];
    case TUTTI_ALLTOALL:
        return world->in[i / count][r * count + i % count];
    case TUTTI_SENDRECV:
        return world->in[(r + n - 1) % n][i];
    default:
        return sum_at(world, i);
    }
}

/* A hash of all outputs, each element held against the contract. */
static uint64_t check_result(const struct world *world)
{
    uint64_t hash = 0;
    uint64_t wrong = 0;

    for (uint32_t r = 0; r < world->topo->rank_count; r++) {
        if (world->params.collective == TUTTI_REDUCE_TO_ROOT && r != world->params.root)
            continue;
        for (uint64_t i = 0; i < world->schedule->out_bytes / sizeof(int32_t); i++) {
            wrong += world->out[r][i] != expected_at(world, r, i);
            hash = tutti_random_hash(hash, (uint64_t)(int64_t)world->out[r][i], r, i);
        }
    }
    if (wrong > 0)
        say(world, "wrong results");
    return hash;
}

/* Nothing happens on a rank before it starts, and the play ends no sooner than any rank does. */
static void check_starts(const struct world *world, const struct tutti_record *record,
                         tutti_ps total_ps)
{
    const tutti_ps *start_ps = world->opts.start_ps;
    bool late = true;

    for (uint64_t i = 0; i < record->event_count && start_ps != NULL; i++)
        late &= record->events[i].start_ps >= start_ps[record->events[i].rank];
    for (uint32_t rank = 0; rank < world->topo->rank_count && start_ps != NULL; rank++)
        late &= total_ps >= start_ps[rank];
    if (!late)
        say(world, "a rank did not wait for its start");
}

/* With data it is played on the stage, step by step; without, by data flow where that suits. */
static struct outcome play(struct world *world, double jitter, uint64_t seed, bool data)
{
    struct outcome outcome = {.total_ps = 0};
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_err err = {.text = ""};
    struct tutti_sim_opts opts = world->opts;
    struct tutti_play asked = {.size = sizeof(struct tutti_play),
                               .schedule = world->schedule,
                               .in = data ? (const void *const *)world->in : NULL,
                               .out = data ? (void *const *)world->out : NULL,
                               .iteration_count = 1,
                               .record = &record};

    opts.jitter = jitter;
    opts.seed = seed;
    tutti_record_init(&record);
    for (uint32_t r = 0; r < world->topo->rank_count; r++)
        memset(world->out[r], 0x5a, (size_t)world->schedule->out_bytes);
    CHECK_OK(tutti_sim_open(&opts, &backend, &err), err);
    if (tutti_backend_play(backend, &asked, &played, &err) < 0) {
        say(world, err.text);
    } else {
        check_starts(world, &record, played.total_ps);
        outcome = (struct outcome){.total_ps = played.total_ps,
                                   .hash_with_times = tutti_record_hash(&record, 1),
                                   .hash_of_steps = tutti_record_hash(&record, 0),
                                   .result = data ? check_result(world) : 0};
    }
    tutti_record_done(&record);
    tutti_backend_close(backend);
    return outcome;
}

/* Messages that take time: without any, there is nothing for jitter to stretch. */
static bool moves_data(const struct outcome *calm)
{
    return calm->total_ps > 0;
}

static void check_case(struct world *world, uint64_t seed)
{
    struct outcome calm = play(world, 0, seed, true);
    struct outcome first = play(world, world->opts.jitter, seed, true);
    struct outcome again = play(world, world->opts.jitter, seed, true);
    struct outcome other = play(world, world->opts.jitter, seed + 1, true);
    struct outcome bare = play(world, world->opts.jitter, seed, false);

    if (memcmp(&first, &again, sizeof(first)) != 0)
        say(world, "the same seed gave another run");
    if (bare.hash_with_times != first.hash_with_times || bare.total_ps != first.total_ps)
        say(world, "without data it took other times");
    if (first.result != calm.result || other.result != calm.result)
        say(world, "jitter changed results");
    if (first.hash_of_steps != calm.hash_of_steps || other.hash_of_steps != calm.hash_of_steps)
        say(world, "jitter changed the steps");
    if (moves_data(&calm) && world->topo->rank_count > 1 &&
        first.hash_with_times == other.hash_with_times)
        say(world, "another seed gave the same times");
}

TEST(jitter_changes_times_and_never_steps_or_results)
{
    struct tutti_random random;
    uint32_t cases = test_full ? 5000 : 240;

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < cases && test_failures < 10; i++) {
        struct world world;

        if (world_draw(&world, &random))
            check_case(&world, tutti_random_next(&random));
        else
            TEST_FAIL("case %u could not be drawn", i);
        world_close(&world);
    }
}

/* Iteration i draws from seed + i: the shortest is shorter than the median, in every play alike. */
TEST(iterations_differ_under_jitter_and_repeat_with_the_seed)
{
    struct tutti_random random;
    struct world world;
    struct tutti_backend *backend = NULL;
    struct tutti_played played[2] = {{.total_ps = 0}};
    struct tutti_err err = {.text = ""};

    tutti_random_seed(&random, test_seed);
    REQUIRE(world_draw(&world, &random));
    while (world.topo->rank_count < 2) {
        world_close(&world);
        REQUIRE(world_draw(&world, &random));
    }
    world.opts.jitter = 1;
    CHECK_OK(tutti_sim_open(&world.opts, &backend, &err), err);
    for (int i = 0; i < 2; i++) {
        struct tutti_play asked = {.size = sizeof(struct tutti_play),
                                   .schedule = world.schedule,
                                   .iteration_count = 20,
                                   .barrier = true};

        CHECK_OK(tutti_backend_play(backend, &asked, &played[i], &err), err);
    }
    CHECK(played[0].best_ps < played[0].median_ps);
    CHECK_INT(played[0].total_ps, played[1].total_ps);
    CHECK_INT(played[0].best_ps, played[1].best_ps);
    CHECK_INT(played[0].median_ps, played[1].median_ps);
    tutti_backend_close(backend);
    world_close(&world);
}
