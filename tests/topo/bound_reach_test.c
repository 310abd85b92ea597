/* Where theory says that the bound can be reached, something in Tutti reaches it. */
#include "runtime/coll.h"
#include "sim/predict.h"
#include "tests/machines.h"
#include "tests/test.h"

static const uint64_t gib = UINT64_C(1) << 30;

/* The best algorithm for 8 GiB, links shared fairly, no protocol on top. */
static struct tutti_answer best_of(const char *spec, enum tutti_collective collective)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .topo = topo,
        .algorithm = "auto",
        .params = {.collective = collective, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM},
        .protocol = "none",
        .model = TUTTI_MODEL_FAIR,
        .step_count_max = 2000000, /* as the commands have it */
    };
    struct tutti_answer answer = {0};
    struct tutti_err err = {""};

    ask.params.count =
        tutti_collective_count_for(collective, 8 * gib, TUTTI_FLOAT32, topo->rank_count);
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    tutti_topo_free(topo);
    return answer;
}

static void reaches(const char *spec, enum tutti_collective collective, double percent)
{
    struct tutti_answer answer;

    if (!test_takes())
        return;
    answer = best_of(spec, collective);
    if (!answer.bound.exact || answer.percent_of_bound < percent || answer.percent_of_bound > 100)
        TEST_FAIL("%s, %s: %s at %.4f %% of the bound (%s, %s)", spec,
                  tutti_collective_name(collective),
                  answer.algorithm != NULL ? answer.algorithm : "nothing", answer.percent_of_bound,
                  tutti_bound_kind(&answer.bound), answer.bound.binding);
}

TEST(all_reduce_reaches_its_bound_on_rings_and_switches)
{
    static const uint32_t counts[] = {3, 4, 5, 7, 8, 13, 16, 27, 32, 48, 63, 64};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char spec[32];

        (void)snprintf(spec, sizeof(spec), "ring:n=%u", counts[i]);
        reaches(spec, TUTTI_ALLREDUCE, 99.9);
        (void)snprintf(spec, sizeof(spec), "switch:n=%u", counts[i]);
        reaches(spec, TUTTI_ALLREDUCE, 99.9);
    }
}

TEST(all_reduce_reaches_its_bound_on_tori)
{
    static const char *const specs[] = {
        "torus:4x4",   "torus:5x5",   "torus:8x8",   "torus:3x5",     "torus:4x8",   "torus:8x4",
        "torus:2x4",   "torus:2x7",   "torus:2x32",  "torus:16x4",    "torus:3x21",  "torus:4x4x4",
        "torus:3x3x3", "torus:2x2x2", "torus:2x2x4", "torus:4x2x2",   "torus:2x2x8", "torus:2x4x8",
        "torus:3x4x5", "torus:2x3x7", "torus:4x4x2", "torus:2x2x2x2", "torus:4x16",  "torus:2x2x16",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        reaches(specs[i], TUTTI_ALLREDUCE, 99.9);
    reaches("torus:2x2x2x4", TUTTI_ALLREDUCE, 93); /* four unequal axes: torus_turns.c */
    reaches("torus:2x3x3x3", TUTTI_ALLREDUCE, 93);
}

/* Of others than all-reduce: what is as good as it gets, and what is known to fall short. */
TEST(other_collectives_reach_their_bounds_on_rings_and_switches)
{
    static const uint32_t counts[] = {3, 4, 7, 8, 16, 33};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        double chain = counts[i] <= 8 ? 99.9 : 99.5; /* chunks of 512 KiB pass n - 2 others */
        char spec[32];

        (void)snprintf(spec, sizeof(spec), "ring:n=%u", counts[i]);
        reaches(spec, TUTTI_ALLGATHER, 99.9);
        reaches(spec, TUTTI_REDUCESCATTER, 99.9);
        reaches(spec, TUTTI_BROADCAST, chain);
        reaches(spec, TUTTI_REDUCE_TO_ROOT, chain);
        reaches(spec, TUTTI_ALLTOALL, counts[i] % 2 == 1 ? 99.9 : 50); /* routes do not split */
        (void)snprintf(spec, sizeof(spec), "switch:n=%u", counts[i]);
        reaches(spec, TUTTI_ALLGATHER, 99.9);
        reaches(spec, TUTTI_REDUCESCATTER, 99.9);
        reaches(spec, TUTTI_BROADCAST, chain);
        reaches(spec, TUTTI_REDUCE_TO_ROOT, chain);
        reaches(spec, TUTTI_ALLTOALL, 99.9);
    }
}
