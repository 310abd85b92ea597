/* Training on the backend `cuda`, its kernels compiled for the CPU and on stand-ins for the
 * driver's library and cuBLAS: it comes to the weights of threads; runs are equal to the bit,
 * whatever the order of items and threads; checkpoints go both ways; each call may fail. */
#include "tests/runtime/train_gpu_course.h"

TEST(regression_comes_to_the_weights_of_threads)
{
    for (uint32_t ranks = 1; ranks <= 4; ranks *= 2)
        compare((struct course){.model = "linear-regression",
                                .strategy = ranks == 1 ? "onedevice" : "mirrored",
                                .optimizer = "sgd",
                                .rank_count = ranks,
                                .batch = 32,
                                .steps = 20},
                BY_CUDA, 1e-4);
}

TEST(perceptron_comes_to_the_weights_of_threads)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks *= 2)
        compare((struct course){.model = "mlp",
                                .strategy = "mirrored",
                                .optimizer = ranks == 2 ? "momentum" : "adam",
                                .rank_count = ranks,
                                .batch = 14, /* ranks have shares of different sizes */
                                .steps = 20,
                                .dropout = 0.25f,
                                .tiles = ranks == 2},
                BY_CUDA, 1e-4);
}

TEST(convolutions_come_to_the_weights_of_threads)
{
    for (uint32_t ranks = test_is_slow() ? 4 : 2; ranks <= 4; ranks *= 2)
        compare((struct course){.model = "images",
                                .strategy = "mirrored",
                                .optimizer = "momentum",
                                .rank_count = ranks,
                                .batch = 9,
                                .steps = 20,
                                .dropout = 0.25f,
                                .tiles = ranks == 4},
                BY_CUDA, 1e-4);
    if (test_is_slow())
        return;
    compare((struct course){.model = "cifar10-cnn",
                            .strategy = "mirrored",
                            .optimizer = "sgd",
                            .rank_count = 2,
                            .batch = 2,
                            .steps = 2},
            BY_CUDA, 1e-4);
}

TEST(strategies_come_to_the_weights_of_threads)
{
    static const char *const strategies[] = {"fsdp", "zero1", "tpu", "ddp", "local-sgd", "diloco"};

    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++)
        compare((struct course){.model = "linear-regression",
                                .strategy = strategies[i],
                                .optimizer = "sgd",
                                .rank_count = 4,
                                .batch = 16,
                                .steps = 9},
                BY_CUDA, 1e-4);
    if (test_is_slow())
        return;
    compare((struct course){.model = "images",
                            .strategy = "fsdp",
                            .optimizer = "adam",
                            .rank_count = 2,
                            .batch = 8,
                            .micro_batches = 2,
                            .steps = 4},
            BY_CUDA, 1e-4);
}

/* 16 bits: what is rounded is the same, but for sums that fall on another side. */
TEST(mixed_precision_stays_near_threads)
{
    for (int brain = test_is_slow(); brain < 2; brain++)
        compare((struct course){.model = "images",
                                .strategy = "mirrored",
                                .optimizer = "sgd",
                                .rank_count = 2,
                                .batch = 6,
                                .steps = 5,
                                .precision = brain ? TUTTI_BFLOAT16 : TUTTI_FLOAT16},
                BY_CUDA, 2e-3);
}

TEST(checkpoints_go_both_ways)
{
    go_both_ways(BY_CUDA);
}

TEST(steps_are_recorded)
{
    for (uint32_t ranks = 1; ranks <= 4; ranks *= 4)
        record_steps(BY_CUDA, ranks);
}

/* Two GPUs, with peer access and without. */
TEST(several_gpus_come_to_the_weights_of_threads)
{
    if (!on_standins())
        SKIP("on a GPU: those that there are play in all other tests");
    (void)setenv("TUTTI_STANDIN_DEVICES", "2", 1);
    for (int peers = 0; peers < 2; peers++) {
        (void)setenv("TUTTI_STANDIN_PEERS", peers ? "1" : "0", 1);
        compare((struct course){.model = "linear-regression",
                                .strategy = "mirrored",
                                .optimizer = "momentum",
                                .rank_count = 4,
                                .batch = 16,
                                .steps = 6},
                BY_CUDA, 1e-4);
    }
    (void)unsetenv("TUTTI_STANDIN_PEERS");
    (void)unsetenv("TUTTI_STANDIN_DEVICES");
}

TEST(each_call_may_fail)
{
    static const char *const calls[] = {
        "cuModuleGetFunction", "cuFuncGetAttribute",   "cuMemGetInfo_v2",
        "cuMemAlloc_v2",       "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemsetD8Async",     "cuStreamCreate",       "cuStreamWaitEvent",
        "cuStreamQuery",       "cuEventCreate",        "cuEventRecord",
        "cuLaunchKernel",      "cuCtxSetCurrent",      "cuLaunchCooperativeKernel",
        "cublasCreate_v2",     "cublasSetStream_v2",   "cublasSgemm_v2"};
    const struct course course = {.model = "linear-regression",
                                  .strategy = "mirrored",
                                  .optimizer = "momentum",
                                  .rank_count = 2,
                                  .batch = 4,
                                  .steps = 1};

    if (!on_standins())
        SKIP("a GPU's driver does not fail when it is asked to");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        let_fail(&course, BY_CUDA, "TUTTI_STANDIN_FAIL", calls[i],
                 strncmp(calls[i], "cublas", 6) == 0 ? "CUBLAS_STATUS_INTERNAL_ERROR (14)"
                                                     : "CUDA_ERROR_UNKNOWN (999");
}
