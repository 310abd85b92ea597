/* Courses of training that are taken on threads, and on the stand-ins of GPUs (or on GPUs): the
 * weights that each comes to are held beside each other. */
#ifndef TUTTI_TESTS_RUNTIME_TRAIN_GPU_COURSE_H
#define TUTTI_TESTS_RUNTIME_TRAIN_GPU_COURSE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/cuda.h"
#include "runtime/model.h"
#include "runtime/nccl.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
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

enum where { ON_THREADS, BY_CUDA, BY_NCCL };

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
    uint32_t shard_ranks;
    bool tiles;    /* own kernels multiply */
    bool backward; /* items and threads come in the opposite order */
    bool recorded;
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

static int open_backend(const struct course *c, enum where where, struct tutti_backend **ret,
                        struct tutti_err *err)
{
    const struct tutti_cuda_opts opts = {.size = sizeof(opts), .streams = true};
    const struct tutti_nccl_opts by_nccl = {.size = sizeof(by_nccl), .streams = true};

    if (where == ON_THREADS)
        return tutti_threads_open(NULL, ret, err);
    if (c->tiles)
        (void)setenv("TUTTI_CUBLAS_LIBRARY", "none", 1);
    else if (on_standins())
        (void)setenv("TUTTI_CUBLAS_LIBRARY", getenv("TUTTI_TEST_CUBLAS"), 1);
    else
        (void)unsetenv("TUTTI_CUBLAS_LIBRARY");
    (void)setenv("TUTTI_STANDIN_BACKWARD", c->backward ? "1" : "0", 1);
    return where == BY_NCCL ? tutti_nccl_open(&by_nccl, ret, err)
                            : tutti_cuda_open(&opts, ret, err);
}

/* A record has each step of the schedule once, within the time of the step; none begins before what
 * it waits for has ended. */
static void check_record(const struct tutti_schedule *schedule, const struct tutti_record *record,
                         tutti_ps step_ps)
{
    const tutti_ps off_ps = 2 * TUTTI_PS_PER_US; /* what a time in ms can tell apart, and more */
    size_t count = 0;

    for (uint32_t r = 0; r < schedule->rank_count; r++)
        for (uint32_t l = 0; l < schedule->lane_count; l++)
            count += tutti_schedule_step_count(schedule, r, l);
    CHECK_INT(record->event_count, count);
    for (size_t i = 0; i < record->event_count; i++) {
        const struct tutti_event *e = &record->events[i];
        struct tutti_cursor cursor;
        const struct tutti_step *step = NULL;

        tutti_cursor_open(&cursor, schedule, e->rank, e->lane);
        for (uint64_t k = 0; k <= e->step; k++)
            step = tutti_cursor_next(&cursor);
        REQUIRE(step != NULL);
        CHECK_INT(e->kind, step->kind);
        CHECK(e->start_ps >= 0 && e->start_ps <= e->end_ps + off_ps);
        CHECK(e->end_ps <= step_ps + off_ps);
        for (size_t k = 0; k < record->event_count; k++) {
            const struct tutti_event *other = &record->events[k];
            const bool awaited = (step->flags & TUTTI_STEP_DEP) != 0 && other->rank == e->rank &&
                                 other->lane == step->dep_lane && other->step == step->dep_step;
            const bool before =
                other->rank == e->rank && other->lane == e->lane && other->step + 1 == e->step;

            if (awaited || before)
                CHECK(other->end_ps <= e->start_ps + off_ps);
        }
    }
}

static int make_steps(const struct course *c, struct tutti_trainer *trainer,
                      const struct tutti_record *record, struct report *ret)
{
    int status = 0;

    while (status == 0 && tutti_trainer_steps(trainer) < c->steps) {
        status = tutti_trainer_step(trainer, &ret->last, &ret->err);
        if (status == 0 && c->recorded)
            check_record(tutti_trainer_schedule(trainer), record, ret->last.step_ps);
    }
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
    struct tutti_record record;
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = model,
                                          .learner = &learner,
                                          .backend = backend,
                                          .rank_count = c->rank_count,
                                          .shard_ranks = c->shard_ranks,
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
    tutti_record_init(&record);
    params.record = c->recorded ? &record : NULL;
    status = tutti_trainer_open(&params, &trainer, &ret->err);
    if (status == 0)
        status = make_steps(c, trainer, &record, ret);
    tutti_trainer_close(trainer);
    tutti_record_done(&record);
    tutti_net_learner_free(&learner);
    return status;
}

static struct report take_course(const struct course *c, enum where where)
{
    struct report report = {.weights = NULL};
    struct tutti_workload *model = NULL;
    struct tutti_backend *backend = NULL;

    CHECK_OK(strcmp(c->model, "images") == 0
                 ? tutti_model_parse("images", images, strlen(images), &model, &report.err)
                 : tutti_model_new(c->model, NULL, &model, &report.err),
             report.err);
    report.status = open_backend(c, where, &backend, &report.err);
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

/* On threads and on GPUs; the latter twice, the second time in another order. */
static void compare(struct course course, enum where where, double limit)
{
    struct report threads;
    struct report gpu;
    struct report again;

    if (test_is_slow() && course.steps > 5)
        course.steps = 5;
    threads = take_course(&course, ON_THREADS);
    gpu = take_course(&course, where);
    course.backward = true;
    again = take_course(&course, where);
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

/* Records of steps with work, collectives and copies, of a rank and of several; to record changes
 * no bit of what is learnt. */
static void record_steps(enum where where, uint32_t rank_count)
{
    static const char *const strategies[] = {"hsdp", "local-sgd"};

    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        struct course course = {.model = i == 0 ? "images" : "linear-regression",
                                .strategy = rank_count == 1 ? "onedevice" : strategies[i],
                                .shard_ranks = rank_count == 1 || i > 0 ? 0 : 2,
                                .optimizer = "adam",
                                .rank_count = rank_count,
                                .batch = 8,
                                .steps = 3};
        struct report plain = take_course(&course, where);
        struct report recorded;

        course.recorded = true;
        recorded = take_course(&course, where);
        CHECK_OK(plain.status, plain.err);
        CHECK_OK(recorded.status, recorded.err);
        CHECK(equal(&recorded, &plain));
        free(plain.weights);
        free(recorded.weights);
    }
}

/* One that is begun on threads is gone on with on GPUs, and the other way round. */
static void go_both_ways(enum where where)
{
    char folder[] = "/tmp/tutti-train-gpu-XXXXXX";
    char path[sizeof(folder) + 8];
    struct course course = {.model = "images",
                            .strategy = "mirrored",
                            .optimizer = "adam",
                            .rank_count = 2,
                            .batch = 8,
                            .steps = 6};
    struct report whole = take_course(&course, ON_THREADS);

    REQUIRE(mkdtemp(folder) != NULL);
    for (int begins_on_gpu = 0; begins_on_gpu < 2; begins_on_gpu++) {
        struct course half = course;
        struct report first;
        struct report second;
        char remove[sizeof(path) + 16];

        (void)snprintf(path, sizeof(path), "%s/%d", folder, begins_on_gpu);
        half.checkpoint = path;
        half.steps = 3;
        first = take_course(&half, begins_on_gpu == 1 ? where : ON_THREADS);
        half.steps = 6;
        second = take_course(&half, begins_on_gpu == 0 ? where : ON_THREADS);
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

/* The N-th call of a name fails, for some N up to the last: it is named, and nothing is lost.
 * `wish` names the variable in which a stand-in finds who is to fail. */
static void let_fail(const struct course *course, enum where where, const char *wish,
                     const char *call, const char *said)
{
    uint32_t failed = 0;

    for (uint32_t n = 1; n < 100000; n += 1 + (test_is_slow() ? 4 * n : n / 2)) {
        struct report report;
        char text[96];

        (void)snprintf(text, sizeof(text), "%s:%u", call, n);
        (void)setenv(wish, text, 1);
        report = take_course(course, where);
        (void)unsetenv(wish);
        free(report.weights);
        if (report.status == 0)
            break;
        failed++;
        CHECK_INT(report.status, -TUTTI_EIO);
        if (strstr(report.err.text, said) == NULL)
            TEST_FAIL("%s: %s", text, report.err.text);
    }
    if (failed == 0)
        TEST_FAIL("%s: no such call", call);
}

#endif
