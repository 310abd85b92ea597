/* Training on the backend `nccl`, on stand-ins for the driver's library, cuBLAS and NCCL: it comes
 * to the weights of threads, by NCCL's own collectives among all ranks and among the groups of a
 * mesh; runs are equal to the bit; checkpoints go both ways; each call of NCCL may fail. */
#include "tests/runtime/train_gpu_course.h"

/* Else a GPU (tests/gpu/run.sh), where as many ranks play as NCCL lets. */
static uint32_t ranks_at_most(uint32_t count)
{
    uint32_t gpu_count = 1;
    struct tutti_err err;

    CHECK_OK(on_standins() ? 0 : tutti_nccl_gpu_count(&gpu_count, &err), err);
    return on_standins() || count < gpu_count ? count : gpu_count;
}

TEST(models_come_to_the_weights_of_threads)
{
    const uint32_t ranks = ranks_at_most(4);

    compare((struct course){.model = "linear-regression",
                            .strategy = ranks == 1 ? "onedevice" : "mirrored",
                            .optimizer = "momentum",
                            .rank_count = ranks,
                            .batch = 32,
                            .steps = 20},
            BY_NCCL, 1e-4);
    compare((struct course){.model = "mlp",
                            .strategy = ranks == 1 ? "onedevice" : "multiworkermirrored",
                            .optimizer = "adam",
                            .rank_count = ranks_at_most(2),
                            .batch = 7, /* ranks have shares of different sizes */
                            .steps = 10,
                            .dropout = 0.25f},
            BY_NCCL, 1e-4);
    compare((struct course){.model = "images",
                            .strategy = ranks == 1 ? "onedevice" : "mirrored",
                            .optimizer = "sgd",
                            .rank_count = ranks_at_most(2),
                            .batch = 8,
                            .steps = 6},
            BY_NCCL, 1e-4);
}

/* All that a strategy asks NCCL for: sums and averages, scattered and gathered parts, of all ranks
 * and of the rows and columns of a mesh of 2 x 2. */
TEST(strategies_come_to_the_weights_of_threads)
{
    static const struct {
        const char *name;
        uint32_t shard_ranks;
    } strategies[] = {{"fsdp", 0}, {"fsdp", 2}, {"hsdp", 2},      {"zero1", 0}, {"zero2", 2},
                      {"tpu", 0},  {"ddp", 0},  {"local-sgd", 0}, {"diloco", 0}};

    if (ranks_at_most(4) < 4)
        SKIP("four ranks want four GPUs");
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
        compare((struct course){.model = "linear-regression",
                                .strategy = strategies[i].name,
                                .shard_ranks = strategies[i].shard_ranks,
                                .optimizer = "sgd",
                                .rank_count = 4,
                                .batch = 16,
                                .steps = 6},
                BY_NCCL, 1e-4);
    compare((struct course){.model = "images",
                            .strategy = "hsdp",
                            .shard_ranks = 2,
                            .optimizer = "adam",
                            .rank_count = 4,
                            .batch = 8,
                            .micro_batches = 2,
                            .steps = 2},
            BY_NCCL, 1e-4);
}

TEST(mixed_precision_stays_near_threads)
{
    compare((struct course){.model = "images",
                            .strategy = "fsdp",
                            .optimizer = "sgd",
                            .rank_count = ranks_at_most(2),
                            .batch = 6,
                            .steps = 4,
                            .precision = TUTTI_FLOAT16},
            BY_NCCL, 2e-3);
}

TEST(checkpoints_go_both_ways)
{
    if (ranks_at_most(2) < 2)
        SKIP("two ranks want two GPUs");
    go_both_ways(BY_NCCL);
}

TEST(steps_are_recorded)
{
    record_steps(BY_NCCL, ranks_at_most(4) < 4 ? 1 : 4);
}

/* A GPU a rank. */
TEST(several_gpus_come_to_the_weights_of_threads)
{
    if (!on_standins())
        SKIP("on GPUs: those that there are play in all other tests");
    (void)setenv("TUTTI_STANDIN_DEVICES", "4", 1);
    (void)setenv("TUTTI_NCCL_STANDIN_VERSION", "22809", 1); /* one that lets no ranks share */
    compare((struct course){.model = "linear-regression",
                            .strategy = "hsdp",
                            .shard_ranks = 2,
                            .optimizer = "momentum",
                            .rank_count = 4,
                            .batch = 16,
                            .steps = 4},
            BY_NCCL, 1e-4);
    (void)unsetenv("TUTTI_NCCL_STANDIN_VERSION");
    (void)unsetenv("TUTTI_STANDIN_DEVICES");
}

static const struct course mesh = {.model = "linear-regression",
                                   .strategy = "hsdp",
                                   .shard_ranks = 2,
                                   .optimizer = "momentum",
                                   .rank_count = 4,
                                   .batch = 4,
                                   .steps = 1};

TEST(each_call_of_nccl_may_fail)
{
    static const char *const calls[] = {
        "ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommSplit", "ncclGroupStart",
        "ncclGroupEnd",    "ncclAllReduce",          "ncclAllGather", "ncclReduceScatter"};

    if (!on_standins())
        SKIP("NCCL does not fail when it is asked to");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        let_fail(&mesh, BY_NCCL, "TUTTI_NCCL_STANDIN_FAIL", calls[i], "internal error (3)");
}

TEST(each_call_of_the_driver_may_fail)
{
    static const char *const calls[] = {"cuMemAlloc_v2", "cuEventCreate", "cuEventRecord",
                                        "cuStreamQuery"};
    struct course course = mesh;

    if (!on_standins())
        SKIP("a GPU's driver does not fail when it is asked to");
    course.rank_count = 2;
    course.strategy = "mirrored";
    course.shard_ranks = 0;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        let_fail(&course, BY_NCCL, "TUTTI_STANDIN_FAIL", calls[i], "CUDA_ERROR_UNKNOWN (999");
}

/* NCCL's own collective and steps of training are two backends. */
TEST(a_library_and_streams_are_not_asked_for_at_once)
{
    const struct tutti_nccl_opts opts = {.size = sizeof(opts), .native = true, .streams = true};
    struct tutti_backend *backend = NULL;
    struct tutti_err err;

    CHECK_INT(tutti_nccl_open(&opts, &backend, &err), -TUTTI_EINVAL);
    CHECK(strcmp(err.text, "tutti_nccl_opts: 'native' and 'streams' (one of them)") == 0);
}
