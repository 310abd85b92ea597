/* Training on the backend `cuda`, its kernels compiled for the CPU and on stand-ins for the
 * driver's library and cuBLAS: it comes to the weights of threads; runs are equal to the bit,
 * whatever the order of items and threads; checkpoints go both ways; each call may fail. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/cuda.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "runtime/train.h"
#include "tests/test.h"

/* 3 x 32 x 32: a padded convolution, pooled; one of stride 2 and without a bias; two dense layers
 * with dropout between them. */
static const char images[] = "model images\nsample image\nlogits 10\n"
                             "layer a\n"
                             "operation conv1 convolution 1024 x 27 x 4 in 3072 out 4096 first\n"
                             "operation relu elementwise in 4096 out 4096\n"
                             "operation pool1 elementwise in 4096 out 1024\n"
                             "variable conv1 elements 108 rows 3\n"
                             "variable conv1.bias elements 4\n"
                             "layer b\n"
                             "operation conv2 convolution 64 x 36 x 6 in 1024 out 384\n"
                             "operation relu elementwise in 384 out 384\n"
                             "variable conv2 elements 216 rows 3\n"
                             "layer c\n"
                             "operation hidden matmul 1 x 384 x 16\n"
                             "operation relu elementwise in 16 out 16\n"
                             "operation dropout elementwise in 16 out 16\n"
                             "variable hidden elements 6144 rows 384\n"
                             "variable hidden.bias elements 16\n"
                             "layer d\n"
                             "operation classes matmul 1 x 16 x 10\n"
                             "operation loss loss in 10 out 1\n"
                             "variable classes elements 160 rows 16\n"
                             "variable classes.bias elements 10\n";

struct course {
    const char *model; /* "images": that above */
    const char *strategy;
    const char *optimizer;
    uint32_t rank_count;
    uint64_t batch; /* of all */
    uint64_t steps;
    uint32_t micro_batches;
    enum tutti_dtype precision;
    float dropout;
    bool tiles;    /* own kernels multiply */
    bool backward; /* items and threads come in the opposite order */
    const char *checkpoint;
};

struct report {
    int status;
    struct tutti_err err;
    struct tutti_trained last;
    struct tutti_sums held_out;
    float *weights;
    uint64_t elements;
};

/* Else on a GPU (tests/gpu/run.sh): what does not need stand-ins. */
static bool on_standins(void)
{
    return getenv("TUTTI_TEST_CUBLAS") != NULL;
}

static int open_backend(const struct course *c, bool on_gpu, struct tutti_backend **ret,
                        struct tutti_err *err)
{
    const struct tutti_cuda_opts opts = {.size = sizeof(opts), .streams = true};

    if (!on_gpu)
        return tutti_threads_open(NULL, ret, err);
    if (c->tiles)
        (void)setenv("TUTTI_CUBLAS_LIBRARY", "none", 1);
    else if (on_standins())
        (void)setenv("TUTTI_CUBLAS_LIBRARY", getenv("TUTTI_TEST_CUBLAS"), 1);
    else
        (void)unsetenv("TUTTI_CUBLAS_LIBRARY");
    (void)setenv("TUTTI_STANDIN_BACKWARD", c->backward ? "1" : "0", 1);
    return tutti_cuda_open(&opts, ret, err);
}

static int make_steps(const struct course *c, struct tutti_trainer *trainer, struct report *ret)
{
    int status = 0;

    while (status == 0 && tutti_trainer_steps(trainer) < c->steps)
        status = tutti_trainer_step(trainer, &ret->last, &ret->err);
    ret->elements = tutti_trainer_elements(trainer);
    ret->weights = calloc(ret->elements + 1, sizeof(float));
    CHECK(ret->weights != NULL);
    if (status == 0 && c->checkpoint != NULL)
        status = tutti_trainer_save(trainer, &ret->err);
    if (status == 0)
        status = tutti_trainer_weights(trainer, ret->weights, &ret->err);
    if (status == 0)
        status = tutti_trainer_evaluate(trainer, &ret->held_out, &ret->err);
    return status;
}

static int train(const struct course *c, const struct tutti_workload *model,
                 struct tutti_backend *backend, struct report *ret)
{
    struct tutti_net_learner_params net = {.size = sizeof(net),
                                           .model = model,
                                           .example_limit = 256,
                                           .held_out_limit = 10,
                                           .global_batch = c->batch,
                                           .rank_count = c->rank_count,
                                           .micro_batches = c->micro_batches,
                                           .seed = 5,
                                           .precision = c->precision,
                                           .dropout = c->dropout};
    struct tutti_learner learner;
    struct tutti_net_learner_facts facts;
    struct tutti_strategy strategy;
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = model,
                                          .learner = &learner,
                                          .backend = backend,
                                          .rank_count = c->rank_count,
                                          .micro_batches = c->micro_batches,
                                          .seed = 5,
                                          .gradients = c->precision,
                                          .clip_norm = 20,
                                          .outer_rate = 0.7,
                                          .outer_momentum = 0.9,
                                          .checkpoint = c->checkpoint};
    struct tutti_trainer *trainer = NULL;
    int status = tutti_net_learner_new(&net, &learner, &facts, &ret->err);

    if (status < 0)
        return status;
    if (c->precision == TUTTI_FLOAT16)
        params.loss_scale = tutti_loss_scale_dynamic();
    CHECK_OK(tutti_strategy_named(c->strategy, &strategy, &ret->err), ret->err);
    CHECK_OK(tutti_update_named(c->optimizer, &params.optimizer, &ret->err), ret->err);
    if (strategy.local_steps > 0)
        strategy.local_steps = 3;
    status = tutti_trainer_open(&params, &trainer, &ret->err);
    if (status == 0)
        status = make_steps(c, trainer, ret);
    tutti_trainer_close(trainer);
    tutti_net_learner_free(&learner);
    return status;
}

static struct report take_course(const struct course *c, bool on_gpu)
{
    struct report report = {.weights = NULL};
    struct tutti_workload *model = NULL;
    struct tutti_backend *backend = NULL;

    CHECK_OK(strcmp(c->model, "images") == 0
                 ? tutti_model_parse("images", images, strlen(images), &model, &report.err)
                 : tutti_model_new(c->model, NULL, &model, &report.err),
             report.err);
    report.status = open_backend(c, on_gpu, &backend, &report.err);
    if (report.status == 0)
        report.status = train(c, model, backend, &report);
    tutti_backend_close(backend);
    tutti_model_free(model);
    return report;
}

static double distance(const struct report *a, const struct report *b)
{
    double difference = 0;
    double size = 0;

    CHECK_INT(a->elements, b->elements);
    for (uint64_t i = 0; i < a->elements; i++) {
        difference += pow((double)a->weights[i] - (double)b->weights[i], 2);
        size += pow((double)b->weights[i], 2);
    }
    return sqrt(difference / size);
}

static bool equal(const struct report *a, const struct report *b)
{
    return a->elements == b->elements &&
           memcmp(a->weights, b->weights, a->elements * sizeof(float)) == 0;
}

/* On threads and on the GPU; the latter twice, the second time in another order. */
static void compare(struct course course, double limit)
{
    struct report threads;
    struct report gpu;
    struct report again;

    if (test_is_slow() && course.steps > 5)
        course.steps = 5;
    threads = take_course(&course, false);
    gpu = take_course(&course, true);
    course.backward = true;
    again = take_course(&course, true);
    CHECK_OK(threads.status, threads.err);
    CHECK_OK(gpu.status, gpu.err);
    CHECK_OK(again.status, again.err);
    if (threads.status == 0 && gpu.status == 0 && again.status == 0) {
        double off = distance(&gpu, &threads);

        if (!(off <= limit))
            TEST_FAIL("%s, %s, %u ranks: %.3g", course.model, course.strategy, course.rank_count,
                      off);
        CHECK(equal(&gpu, &again));
        CHECK(fabs(gpu.last.sums.loss - threads.last.sums.loss) <=
              10 * limit * fabs(threads.last.sums.loss));
        CHECK(fabs(gpu.last.gradient_norm - threads.last.gradient_norm) <=
              100 * limit * threads.last.gradient_norm);
        CHECK_INT((int)gpu.last.sums.examples, (int)threads.last.sums.examples);
        CHECK_INT((int)gpu.held_out.examples, (int)threads.held_out.examples);
        CHECK(fabs(gpu.held_out.loss - threads.held_out.loss) <=
              10 * limit * fabs(threads.held_out.loss));
    }
    free(threads.weights);
    free(gpu.weights);
    free(again.weights);
}

TEST(regression_comes_to_the_weights_of_threads)
{
    for (uint32_t ranks = 1; ranks <= 4; ranks *= 2)
        compare((struct course){.model = "linear-regression",
                                .strategy = ranks == 1 ? "onedevice" : "mirrored",
                                .optimizer = "sgd",
                                .rank_count = ranks,
                                .batch = 32,
                                .steps = 20},
                1e-4);
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
                1e-4);
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
                1e-4);
    if (test_is_slow())
        return;
    compare((struct course){.model = "cifar10-cnn",
                            .strategy = "mirrored",
                            .optimizer = "sgd",
                            .rank_count = 2,
                            .batch = 2,
                            .steps = 2},
            1e-4);
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
                1e-4);
    compare((struct course){.model = "images",
                            .strategy = "fsdp",
                            .optimizer = "adam",
                            .rank_count = 2,
                            .batch = 8,
                            .micro_batches = 2,
                            .steps = 4},
            1e-4);
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
                2e-3);
}

TEST(checkpoints_go_both_ways)
{
    char folder[] = "/tmp/tutti-train-gpu-XXXXXX";
    char path[sizeof(folder) + 8];
    struct course course = {.model = "images",
                            .strategy = "mirrored",
                            .optimizer = "adam",
                            .rank_count = 2,
                            .batch = 8,
                            .steps = 6};
    struct report whole = take_course(&course, false);

    REQUIRE(mkdtemp(folder) != NULL);
    for (int begins_on_gpu = 0; begins_on_gpu < 2; begins_on_gpu++) {
        struct course half = course;
        struct report first;
        struct report second;
        char remove[sizeof(path) + 16];

        (void)snprintf(path, sizeof(path), "%s/%d", folder, begins_on_gpu);
        half.checkpoint = path;
        half.steps = 3;
        first = take_course(&half, begins_on_gpu == 1);
        half.steps = 6;
        second = take_course(&half, begins_on_gpu == 0);
        CHECK_OK(first.status, first.err);
        CHECK_OK(second.status, second.err);
        CHECK_INT(second.last.step, 5);
        if (second.status == 0)
            CHECK(distance(&second, &whole) <= 1e-4);
        free(first.weights);
        free(second.weights);
        (void)snprintf(remove, sizeof(remove), "rm -rf '%s'", path);
        CHECK_INT(system(remove), 0);
    }
    CHECK_INT(rmdir(folder), 0);
    free(whole.weights);
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
                1e-4);
    }
    (void)unsetenv("TUTTI_STANDIN_PEERS");
    (void)unsetenv("TUTTI_STANDIN_DEVICES");
}

/* The N-th call of a name fails, for some N up to the last: it is named, and nothing is lost. */
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
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        uint32_t failed = 0;

        for (uint32_t n = 1; n < 100000; n += 1 + (test_is_slow() ? 4 * n : n / 2)) {
            char wish[96];
            struct report report;

            (void)snprintf(wish, sizeof(wish), "%s:%u", calls[i], n);
            (void)setenv("TUTTI_STANDIN_FAIL", wish, 1);
            report = take_course(&course, true);
            (void)unsetenv("TUTTI_STANDIN_FAIL");
            free(report.weights);
            if (report.status == 0)
                break;
            failed++;
            CHECK_INT(report.status, -TUTTI_EIO);
            if (strstr(report.err.text, strncmp(calls[i], "cublas", 6) == 0
                                            ? "CUBLAS_STATUS_INTERNAL_ERROR (14)"
                                            : "CUDA_ERROR_UNKNOWN (999") == NULL)
                TEST_FAIL("%s: %s", wish, report.err.text);
        }
        if (failed == 0)
            TEST_FAIL("%s: no such call", calls[i]);
    }
}
