/* What folding remembers from one schedule to the next: plays of one algorithm at several sizes,
 * with a memory and without, are the same to the picosecond. */
#include <string.h>

#include "runtime/coll.h"
#include "runtime/nccl_coll.h"
#include "runtime/random.h"
#include "sim/fold/fold.h"
#include "sim/fold/memory.h"
#include "sim/sim.h"
#include "tests/machines.h"
#include "tests/sim/paced.h"
#include "tests/test.h"

struct tally {
    uint32_t played;
    uint32_t known;   /* plays that were not played */
    uint32_t skipped; /* of those: of plays that skip most of their rounds */
    uint32_t alike;   /* classes of lanes that were not looked for */
};

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

static struct tutti_topo *draw_machine(struct tutti_random *random)
{
    static const char *const machines[] = {
        "ring:n=6",       "ring:n=16",  "switch:n=8",
        "torus:4x4",      "dgx-h100",   "dgx-h100:nodes=2",
        "mesh:4x4",       "full:n=6",   "dgx-h100:nodes=6,group=2",
        "dgx-1v:nodes=2", "switch:n=12"};

    return machine(machines[below(random, sizeof(machines) / sizeof(*machines))]);
}

/* What all sizes of a case have in common. */
struct recipe {
    const char *algorithm;
    struct tutti_coll_params params;
    uint64_t chunk_elements;
    uint32_t chunks;
};

static struct recipe draw_recipe(struct tutti_random *random, const struct tutti_topo *topo)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    uint32_t channels = 1 + below(random, 2);
    struct recipe recipe = {
        .algorithm = algorithms[below(random, (uint32_t)count)].name,
        .params = {.collective = below(random, 3) > 0 ? TUTTI_ALLREDUCE : TUTTI_BROADCAST,
                   .dtype = TUTTI_FLOAT32,
                   .op = TUTTI_SUM,
                   .channel_count = channels,
                   .slice_count = 1 + below(random, 2),
                   .slot_count = 1 + below(random, 8)},
        .chunk_elements = (uint64_t)topo->rank_count * 24 * (1 + below(random, 50)),
        .chunks = 1 + below(random, 24),
    };

    if (below(random, 2) == 0)
        recipe.params.chunk_bytes = recipe.chunk_elements * 4;
    recipe.chunk_elements *= channels * 2;
    return recipe;
}

static void try_size(struct tutti_random *random, struct recipe *recipe,
                     const struct tutti_sim_opts *opts, struct tutti_fold_memory *memory,
                     int ordered, struct tally *tally)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_fold_lanes *lanes = NULL;
    struct tutti_kinds kinds = {.count = 0};
    struct tutti_quotient quotient = {.lane_count = 0};
    struct tutti_class_played fresh;
    struct tutti_class_played recalled;
    const struct tutti_fold_play *before;
    int status;

    recipe->params.count = recipe->chunk_elements * recipe->chunks * (1 + below(random, 16));
    if (below(random, 8) == 0)
        recipe->params.count += below(random, 1000);
    if (tutti_coll_generate(recipe->algorithm, &recipe->params, &opts->topo->shape, &schedule,
                            NULL) < 0)
        return;
    status = tutti_quotient_find(opts->topo, schedule, ordered == 1, &quotient, NULL);
    if (tutti_fold_memory_lanes(memory, opts->topo, schedule, &lanes, &kinds, NULL) < 0) {
        CHECK(status < 0);
        goto out;
    }
    tally->alike += lanes->quotients[ordered] != NULL;
    CHECK_INT(tutti_fold_memory_quotient(lanes, ordered, NULL), status);
    if (status < 0)
        goto out;
    before = lanes->plays;
    status = tutti_class_play(opts, schedule, &quotient, 0, &fresh, NULL);
    CHECK_INT(tutti_fold_memory_play(lanes, &kinds, ordered, opts, schedule, 0, &recalled, NULL),
              status);
    if (status < 0)
        goto out;
    tally->played++;
    tally->known += before != NULL && lanes->plays == before;
    tally->skipped += before != NULL && lanes->plays == before &&
                      recalled.simulated_count < recalled.step_count / 4;
    CHECK(fresh.simulated_count < 8 * recalled.simulated_count + 1); /* limits rely on it */
    CHECK(fresh.look_count < 8 * recalled.look_count + 1);
    if (fresh.end_ps != recalled.end_ps || fresh.step_count != recalled.step_count ||
        fresh.load_ps != recalled.load_ps || fresh.drain_ps_max != recalled.drain_ps_max)
        TEST_FAIL("'%s' of %" PRIu64 " on '%s': %" PRId64 " ps, %" PRIu64
                  " steps; remembered %" PRId64 " ps, %" PRIu64 " steps",
                  schedule->name, recipe->params.count, opts->topo->name, fresh.end_ps,
                  fresh.step_count, recalled.end_ps, recalled.step_count);
out:
    tutti_kinds_done(&kinds);
    tutti_quotient_done(&quotient);
    tutti_schedule_free(schedule);
}

static void try_case(struct tutti_random *random, struct tally *tally)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_topo *topo = draw_machine(random);
    struct recipe recipe = draw_recipe(random, topo);
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .topo = topo, .model = TUTTI_MODEL_FAIR};
    struct tutti_fold_memory *memory = NULL;
    int ordered = below(random, 4) == 0;

    CHECK_INT(tutti_fold_memory_new(&memory, NULL), 0);
    draw_protocols(random, protocols);
    if (below(random, 4) == 0)
        opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(random, 100000));
    for (int i = 0; i < 6; i++) {
        if (below(random, 8) == 0) /* other figures where the old ones were */
            draw_protocols(random, protocols);
        if (below(random, 3) == 0)
            opts.protocol =
                below(random, 4) > 0 ? &protocols[below(random, TUTTI_PROTOCOLS)] : NULL;
        try_size(random, &recipe, &opts, memory, ordered, tally);
    }
    tutti_fold_memory_free(memory);
    tutti_topo_free(topo);
}

TEST(plays_from_memory_are_those_without)
{
    struct tally tally = {.played = 0};
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(20000, 1200); i++)
        try_case(&random, &tally);
    printf("%u played, %u of them known, %u of those skipping rounds; classes known %u times\n",
           tally.played, tally.known, tally.skipped, tally.alike);
    CHECK(tally.known > test_share(50));
    CHECK(tally.skipped > test_share(20));
    CHECK(tally.alike > test_share(200));
}

/* ---- schedules that are known by what they were made of -------------------------------------- */

enum { HOSTS = 3, GPUS = 4 };

static struct tutti_schedule *ring_of(uint64_t chunk_bytes, uint32_t channel_count)
{
    uint64_t count = UINT64_C(1) << 20;
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLREDUCE,
                                                .dtype = TUTTI_FLOAT32,
                                                .op = TUTTI_SUM,
                                                .count = count * channel_count,
                                                .channel_count = channel_count,
                                                .chunk_bytes = chunk_bytes,
                                                .slice_count = 2,
                                                .slot_count = 4},
                                       .count_lo = count,
                                       .count_mid = channel_count > 2 ? count : 0,
                                       .count_hi = channel_count > 1 ? count : 0};
    struct tutti_chains chains = {.host_count = HOSTS, .length = GPUS, .count = 1};
    struct tutti_schedule *schedule = NULL;

    CHECK_INT(tutti_nccl_generate("ring", &params, &chains, &schedule, NULL), 0);
    CHECK(schedule->recipe_count > 0);
    return schedule;
}

/* Whether the memory has of a schedule what stands in `like`. */
static bool knows(struct tutti_fold_memory *memory, const struct tutti_topo *topo,
                  const struct tutti_schedule *schedule, const struct tutti_schedule *like)
{
    struct tutti_fold_lanes *lanes = NULL;
    struct tutti_kinds kinds = {.count = 0};
    struct tutti_programs fresh;
    bool same;

    CHECK_INT(tutti_fold_memory_lanes(memory, topo, schedule, &lanes, &kinds, NULL), 0);
    CHECK_INT(tutti_programs_read(like, &fresh, NULL), 0);
    same = tutti_programs_match(&lanes->programs, &fresh) && kinds.count == fresh.kinds.count &&
           memcmp(kinds.first, fresh.kinds.first, (kinds.count + 1) * sizeof(*kinds.first)) == 0 &&
           memcmp(kinds.run_at, fresh.kinds.run_at, kinds.count * sizeof(*kinds.run_at)) == 0 &&
           memcmp(kinds.words, fresh.kinds.words,
                  kinds.first[kinds.count] * sizeof(*kinds.words)) == 0;
    tutti_kinds_done(&kinds);
    tutti_programs_done(&fresh);
    return same;
}

TEST(programs_are_known_by_recipe_until_their_lanes_are_forgotten)
{
    struct tutti_topo *topo = NULL;
    struct tutti_fold_memory *memory = NULL;
    struct tutti_schedule *one = ring_of(65536, 1), *other = ring_of(131072, 1);
    struct tutti_schedule *liar = ring_of(131072, 1), *again = ring_of(65536, 1);

    liar->recipe = one->recipe; /* to see what is read, and what is not */
    liar->recipe_count = one->recipe_count;
    CHECK_INT(tutti_topo_from_spec("switch:n=12", &topo, NULL), 0);
    CHECK_INT(tutti_fold_memory_new(&memory, NULL), 0);
    CHECK(knows(memory, topo, one, one));
    CHECK(knows(memory, topo, other, other));
    CHECK(knows(memory, topo, again, one));
    CHECK(knows(memory, topo, liar, one));
    CHECK(!knows(memory, topo, liar, other));
    for (uint32_t channels = 2; channels < 12; channels++) { /* other lanes, until they are many */
        struct tutti_schedule *wide = ring_of(65536, channels);

        CHECK(knows(memory, topo, wide, wide));
        CHECK(knows(memory, topo, wide, wide));
        tutti_schedule_free(wide);
    }
    CHECK(knows(memory, topo, liar, other));
    CHECK(knows(memory, topo, one, other));          /* it has the liar's recipe */
    for (uint64_t chunk = 1; chunk < 100; chunk++) { /* more readings than are kept */
        struct tutti_schedule *fine = ring_of(1 << 18 | 4096 * chunk, 1);

        CHECK(knows(memory, topo, fine, fine));
        tutti_schedule_free(fine);
    }
    CHECK(knows(memory, topo, one, one));
    tutti_fold_memory_free(memory);
    tutti_topo_free(topo);
    tutti_schedule_free(one);
    tutti_schedule_free(other);
    tutti_schedule_free(liar);
    tutti_schedule_free(again);
}

/* Mostly 0, so that many schedules differ in one parameter alone. */
static uint32_t rare(struct tutti_random *random, uint32_t bound)
{
    return below(random, 4) == 0 ? below(random, bound) : 0;
}

/* Four hosts at most; of one GPU each for "pat". */
static struct tutti_chains draw_chains(struct tutti_random *random, bool single, uint32_t *members)
{
    struct tutti_chains chains = {.host_count = single ? 8 : UINT32_C(1) << below(random, 3),
                                  .count = 1 + rare(random, 2)};

    chains.length = 8 / chains.host_count;
    chains.swapped = chains.count == 2 && below(random, 2) == 0;
    if (rare(random, 3) == 0)
        return chains;
    chains.members = members;
    for (uint32_t i = 0; i < chains.count * chains.length; i++)
        members[i] = i % chains.length;
    for (uint32_t c = 0; c < chains.count && below(random, 2) == 0; c++) {
        members[c * chains.length] = chains.length - 1; /* the last and the first change places */
        members[(c + 1) * chains.length - 1] = 0;
    }
    return chains;
}

static const char *collective_of(uint32_t i, enum tutti_collective *ret)
{
    static const struct {
        const char *algorithm;
        enum tutti_collective collective;
    } all[] = {{"ring", TUTTI_ALLREDUCE}, {"ring", TUTTI_BROADCAST},    {"ring", TUTTI_ALLGATHER},
               {"tree", TUTTI_ALLREDUCE}, {"pat", TUTTI_REDUCESCATTER}, {"pat", TUTTI_ALLGATHER},
               {"p2p", TUTTI_ALLTOALL},   {"p2p", TUTTI_SENDRECV}};
    *ret = all[i % 8].collective;
    return all[i % 8].algorithm;
}

/* Or NULL. */
static struct tutti_schedule *draw_nccl(struct tutti_random *random, uint32_t i)
{
    enum tutti_collective collective;
    const char *algorithm = collective_of(i, &collective);
    bool tree = strcmp(algorithm, "tree") == 0, pat = strcmp(algorithm, "pat") == 0;
    uint32_t channels = UINT32_C(1) << below(random, 3);
    uint64_t few = 4096 * (1 + rare(random, 3)), many = 4096 * (1 + rare(random, 3));
    struct tutti_nccl_params params = {
        .coll = {.collective = collective,
                 .dtype = rare(random, 2) == 0 ? TUTTI_FLOAT32 : TUTTI_FLOAT64,
                 .op = TUTTI_SUM,
                 .root = collective == TUTTI_BROADCAST ? rare(random, 2) : 0,
                 .channel_count = channels,
                 .chunk_bytes = UINT64_C(1024) << rare(random, 2),
                 .slice_count = tree || strcmp(algorithm, "ring") == 0 ? 1 + rare(random, 2) : 1,
                 .slot_count = 2 + rare(random, 2)},
        .count_lo = few,
        .count_mid = channels > 2 ? 4096 * (1 + rare(random, 2)) : 0,
        .count_hi = channels > 1 ? many : 0,
        .chunk_lo_bytes = tree ? 512 * rare(random, 2) : 0,
        .chunk_hi_bytes = tree ? 512 * rare(random, 2) : 0,
        .pattern = (uint8_t)(tree ? 1 + rare(random, 3) : 0),
        .step_bytes = pat ? 2048 * rare(random, 2) : 0,
        .repeat_count = collective == TUTTI_BROADCAST ? rare(random, 3) : 0,
        .peer_channel_count = 1 + rare(random, 4),
        .part_bytes_min = 65536 * rare(random, 2),
        .part_bytes_max = 4096 * rare(random, 2),
        .net_chunk_bytes = 512 * rare(random, 2)};
    uint32_t members[16];
    struct tutti_chains chains = draw_chains(random, pat, members);
    struct tutti_schedule *schedule = NULL;

    params.coll.count =
        few + params.count_mid * (channels > 2 ? channels - 2 : 0) + (channels > 1 ? many : 0);
    (void)tutti_nccl_generate(algorithm, &params, &chains, &schedule, NULL);
    return schedule;
}

/* Whatever a generator hangs on stands in the recipe, or one gets what was read of another. */
TEST(schedules_of_one_recipe_have_the_same_programs)
{
    struct tutti_topo *topo = machine("switch:n=8");
    struct tutti_random random;
    uint32_t count = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(4000, 120); i++) {
        struct tutti_fold_memory *memory = NULL;

        CHECK_INT(tutti_fold_memory_new(&memory, NULL), 0);
        for (int k = 0; k < 100; k++) {
            struct tutti_schedule *schedule = draw_nccl(&random, (uint32_t)i ^ below(&random, 2));

            if (schedule == NULL)
                continue;
            CHECK(knows(memory, topo, schedule, schedule));
            count++;
            tutti_schedule_free(schedule);
        }
        tutti_fold_memory_free(memory);
    }
    CHECK(count > test_share(6000));
    tutti_topo_free(topo);
}
