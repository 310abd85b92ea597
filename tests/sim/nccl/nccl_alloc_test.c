/* Every allocation of NCCL's generators made to fail once. */
#include "runtime/nccl_coll.h"
#include "sim/predict.h"
#include "tests/alloc_fail.h"

static int generate(const char *algorithm, enum tutti_collective collective, struct tutti_err *err)
{
    static const uint32_t members[] = {0, 1, 2, 2, 1, 0};
    struct tutti_chains chains = {.host_count = 2, .length = 3, .count = 2, .members = members};
    struct tutti_nccl_params params = {
        .coll = {.collective = collective, .count = 20, .channel_count = 2, .chunk_bytes = 64},
        .count_lo = 12,
        .count_hi = 8,
        .pattern = TUTTI_TREE_BALANCED};
    struct tutti_schedule *schedule = NULL;
    int status = tutti_nccl_generate(algorithm, &params, &chains, &schedule, err);

    tutti_schedule_free(schedule);
    return status;
}

TEST(rings_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(generate("ring", TUTTI_ALLREDUCE, &err), err);
    ALLOC_FAIL_EACH(generate("ring", TUTTI_REDUCESCATTER, &err), err);
}

TEST(sends_and_receives_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(generate("p2p", TUTTI_ALLTOALL, &err), err);
}

static int generate_pat(struct tutti_err *err)
{
    struct tutti_chains chains = {.host_count = 6, .length = 1, .count = 1};
    struct tutti_nccl_params params = {
        .coll = {.collective = TUTTI_REDUCESCATTER, .count = 20, .chunk_bytes = 64},
        .count_lo = 20};
    struct tutti_schedule *schedule = NULL;
    int status = tutti_nccl_generate("pat", &params, &chains, &schedule, err);

    tutti_schedule_free(schedule);
    return status;
}

TEST(parallel_aggregated_trees_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(generate_pat(&err), err);
}

TEST(trees_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(generate("tree", TUTTI_ALLREDUCE, &err), err);
}

/* From model A's search to the answer, and once more from memory. */
static int predict(const struct tutti_topo *topo, struct tutti_err *err)
{
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .topo = topo,
                            .algorithm = "nccl",
                            .params = {.dtype = TUTTI_FLOAT32, .count = 64},
                            .protocol = "auto",
                            .model = TUTTI_MODEL_FAIR,
                            .fold = "off"};
    struct tutti_answer answer;
    int status = tutti_predict_memory_new(&ask.memory, err);

    for (int i = 0; i < 2 && status == 0; i++)
        status = tutti_predict(&ask, &answer, err);
    tutti_predict_memory_free(ask.memory);
    return status;
}

TEST(predictions_of_nccl_fail_cleanly)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("dgx-1v", &topo, &err), err);
    REQUIRE(topo != NULL);
    ALLOC_FAIL_EACH(predict(topo, &err), err);
    tutti_topo_free(topo);
}
