/* Rounds written many at a time are the rounds written one by one, and relays what they claim. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RUN_MAX = 24 };

static bool same_round(const struct tutti_round *a, const struct tutti_round *b)
{
    if (a->step_count != b->step_count)
        return false;
    for (uint32_t i = 0; i < a->step_count; i++) { /* steps are zeroed whole, and have no padding */
        if (memcmp(&a->step[i], &b->step[i], sizeof(a->step[i])) != 0)
            return false;
    }
    return true;
}

/* A round that receives, reduces if it should, and sends as much: nothing else. */
static bool is_relay(const struct tutti_round *round, const struct tutti_relays *relays,
                     uint64_t bytes)
{
    const struct tutti_step *step = round->step;
    uint32_t sends = relays->reduces ? 2 : 1;

    if (round->step_count != sends + 1 || step[0].kind != TUTTI_RECV ||
        step[0].peer != relays->from || step[0].flags != (relays->reduces ? TUTTI_STEP_FUSE : 0))
        return false;
    if (relays->reduces && (step[1].kind != TUTTI_REDUCE || step[1].bytes != bytes ||
                            (step[1].flags & ~TUTTI_STEP_LAST) != 0))
        return false;
    return step[0].bytes == bytes && step[sends].kind == TUTTI_SEND &&
           step[sends].peer == relays->to && step[sends].flags == 0 && step[sends].bytes == bytes;
}

/* Asks for the relays of a run; adds to *ret_relays how many there are. */
static uint32_t false_relays(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                             uint64_t first, const struct tutti_round *run, uint32_t count,
                             uint64_t *ret_relays)
{
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < count && schedule->ops->relays != NULL; i++) {
        struct tutti_relays relays;
        uint32_t found = schedule->ops->relays(schedule, rank, lane, first + i, count - i, &relays);

        if (found > count - i || found > TUTTI_RELAYS_MAX)
            return wrong + 1;
        for (uint32_t k = 0; k < found; k++)
            wrong += !is_relay(&run[i + k], &relays, relays.bytes[k]);
        *ret_relays += found;
    }
    return wrong;
}

static uint32_t differing(const struct tutti_schedule *schedule, struct tutti_random *random,
                          uint64_t *ret_relays)
{
    static struct tutti_round run[RUN_MAX];
    uint32_t wrong = 0;

    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            uint64_t rounds = schedule->ops->round_count(schedule, rank, lane);
            uint64_t first = rounds == 0 ? 0 : tutti_random_below(random, rounds);
            uint32_t count = (uint32_t)(rounds - first < RUN_MAX ? rounds - first : RUN_MAX);

            tutti_schedule_emit(schedule, rank, lane, first, count, run);
            for (uint32_t i = 0; i < count; i++) {
                struct tutti_round one = {.step_count = 0};

                schedule->ops->emit(schedule, rank, lane, first + i, &one);
                wrong += !same_round(&one, &run[i]);
            }
            wrong += false_relays(schedule, rank, lane, first, run, count, ret_relays);
        }
    }
    return wrong;
}

TEST(a_run_of_rounds_is_its_rounds_one_by_one)
{
    static const uint32_t dims[][3] = {{2, 3, 4}, {5, 1, 2}, {4, 4, 1}, {7, 1, 1}, {2, 2, 2}};
    size_t algorithm_count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&algorithm_count);
    struct tutti_random random;
    uint32_t runs = 0;
    uint64_t relays = 0;

    tutti_random_seed(&random, test_seed);
    for (size_t i = 0; i < 5 * TUTTI_CUSTOM * algorithm_count * 4; i++) {
        const uint32_t *dim = dims[i % 5];
        const struct tutti_algorithm *algorithm = &algorithms[i / 5 % algorithm_count];
        struct tutti_shape shape = tutti_shape_flat(dim[0] * dim[1] * dim[2]);
        struct tutti_coll_params params = {
            .collective = (enum tutti_collective)(i / 5 / algorithm_count % TUTTI_CUSTOM),
            .dtype = TUTTI_FLOAT32,
            .count = tutti_random_below(&random, 3000),
            .chunk_bytes = tutti_random_below(&random, 2) * 400,
            .slice_count = 1 + (uint32_t)tutti_random_below(&random, 3),
            .channel_count = (uint32_t)tutti_random_below(&random, 3),
        };
        struct tutti_schedule *schedule = NULL;

        shape.dim_count = shape.level_count = 3;
        for (int d = 0; d < 3; d++)
            shape.dim[d] = shape.level[d] = dim[d];
        if (tutti_coll_generate(algorithm->name, &params, &shape, &schedule, NULL) < 0)
            continue;
        if (differing(schedule, &random, &relays) > 0)
            TEST_FAIL("%s %s differs, case %zu", tutti_collective_name(params.collective),
                      algorithm->name, i);
        runs += schedule->ops->emit_run != NULL;
        tutti_schedule_free(schedule);
    }
    CHECK(runs > 20); /* some do write runs */
    CHECK(relays > 10000);
}
