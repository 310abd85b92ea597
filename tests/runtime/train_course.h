/* A training run of a catalogue model on its synthetic set, by threads: for tests of what
 * strategies do to what is learnt. */
#ifndef TUTTI_TESTS_RUNTIME_TRAIN_COURSE_H
#define TUTTI_TESTS_RUNTIME_TRAIN_COURSE_H

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "runtime/train.h"
#include "tests/test.h"

struct course {
    const char *model; /* NULL: "mlp" */
    const char *text;  /* a model's; NULL: `model` */
    const char *strategy;
    uint32_t rank_count;
    uint64_t global_batch;
    uint64_t example_limit; /* 0: all */
    uint64_t steps;
    double rate;
    enum tutti_compression compression;
    uint32_t keep_ppm;
    uint32_t factor_rank;
    bool forgets;
    bool densify;
    uint32_t micro_batches;
    uint32_t local_steps;
    double outer_rate;
    const char *optimizer;  /* NULL: sgd */
    const char *checkpoint; /* saved at the end */
    uint64_t poisoned_step; /* rank 0's gradient of this step, from 1 on, is infinite */
    struct tutti_record *record;
};

struct outcome {
    float *weights; /* free() */
    uint64_t elements;
    struct tutti_sums held_out;
    bool in_sync;
    uint64_t skipped_count;
    uint64_t began_at;
    char notes[1024];
};

/* ---- a learner whose gradients are spoilt once ---- */

struct spoiler {
    struct tutti_learner inner;
    uint64_t step; /* 0: never */
};

struct spoilt {
    struct spoiler *spoiler;
    void *replica;
    uint32_t rank;
    uint64_t step;
};

static int spoilt_open(void *context, uint32_t rank, void **ret, struct tutti_err *err)
{
    struct spoilt *s = calloc(1, sizeof(*s));

    assert(s != NULL);
    *s = (struct spoilt){.spoiler = context, .rank = rank};
    *ret = s;
    return s->spoiler->inner.open(s->spoiler->inner.context, rank, &s->replica, err);
}

static void spoilt_close(void *replica)
{
    struct spoilt *s = replica;

    s->spoiler->inner.close(s->replica);
    free(s);
}

static int spoilt_init(void *context, uint64_t seed, uint32_t layer, float *const *variables,
                       struct tutti_err *err)
{
    const struct spoiler *s = context;

    return s->inner.init(s->inner.context, seed, layer, variables, err);
}

static int spoilt_input(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                        struct tutti_err *err)
{
    struct spoilt *s = replica;

    s->step = step;
    return s->spoiler->inner.input(s->replica, step, micro_batch, scale, err);
}

static int spoilt_forward(void *replica, uint32_t layer, const float *const *variables,
                          struct tutti_err *err)
{
    struct spoilt *s = replica;

    return s->spoiler->inner.forward(s->replica, layer, variables, err);
}

static int spoilt_backward(void *replica, uint32_t layer, const float *const *variables,
                           float *const *gradients, bool add, struct tutti_err *err)
{
    struct spoilt *s = replica;
    int status = s->spoiler->inner.backward(s->replica, layer, variables, gradients, add, err);

    if (s->rank == 0 && layer == 0 && s->step + 1 == s->spoiler->step)
        gradients[0][3] = INFINITY;
    return status;
}

static int spoilt_slices(void *replica, uint32_t layer, uint32_t variable, uint64_t capacity,
                         int64_t *ret_rows, float *ret_values, uint64_t *ret_count,
                         struct tutti_err *err)
{
    struct spoilt *s = replica;

    return s->spoiler->inner.slices(s->replica, layer, variable, capacity, ret_rows, ret_values,
                                    ret_count, err);
}

static struct tutti_sums spoilt_sums(const void *replica)
{
    const struct spoilt *s = replica;

    return s->spoiler->inner.sums(s->replica);
}

static int spoilt_evaluate(void *replica, const float *const *variables, struct tutti_sums *ret,
                           struct tutti_err *err)
{
    struct spoilt *s = replica;

    return s->spoiler->inner.evaluate(s->replica, variables, ret, err);
}

/* ---- a run ---- */

static void note_line(void *context, const char *line)
{
    struct outcome *o = context;
    size_t used = strlen(o->notes);

    (void)snprintf(o->notes + used, sizeof(o->notes) - used, "%s\n", line);
}

static int take_steps(const struct course *c, struct tutti_trainer *trainer, struct outcome *o,
                      struct tutti_err *err)
{
    int status = 0;

    o->began_at = tutti_trainer_steps(trainer);
    o->in_sync = true;
    while (tutti_trainer_steps(trainer) < c->steps && status == 0) {
        struct tutti_trained step;

        status = tutti_trainer_step(trainer, &step, err);
        o->in_sync = o->in_sync && status == 0 && step.in_sync;
        o->skipped_count += status == 0 && step.skipped;
    }
    if (status == 0 && c->checkpoint != NULL)
        status = tutti_trainer_save(trainer, err);
    if (status == 0)
        status = tutti_trainer_evaluate(trainer, &o->held_out, err);
    o->elements = tutti_trainer_elements(trainer);
    o->weights = calloc(o->elements + 1, sizeof(float));
    assert(o->weights != NULL);
    return status < 0 ? status : tutti_trainer_weights(trainer, o->weights, err);
}

static struct tutti_strategy course_strategy(const struct course *c)
{
    struct tutti_strategy s = {.name = NULL};
    struct tutti_err err = {""};

    CHECK_OK(tutti_strategy_named(c->strategy, &s, &err), err);
    s.compression = c->compression;
    s.keep_ppm = c->keep_ppm;
    s.factor_rank = c->factor_rank;
    s.forgets = c->forgets;
    s.densify = c->densify;
    if (c->local_steps > 0)
        s.local_steps = c->local_steps;
    return s;
}

static struct tutti_workload *course_model(const struct course *c)
{
    const struct tutti_model_params params = {.size = sizeof(params)};
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    if (c->text != NULL)
        CHECK_OK(tutti_model_parse("text", c->text, strlen(c->text), &model, &err), err);
    else
        CHECK_OK(tutti_model_new(c->model != NULL ? c->model : "mlp", &params, &model, &err), err);
    assert(model != NULL);
    return model;
}

static struct outcome take_course(const struct course *c)
{
    const struct tutti_strategy strategy = course_strategy(c);
    struct tutti_workload *model = course_model(c);
    const struct tutti_net_learner_params net = {.size = sizeof(net),
                                                 .model = model,
                                                 .example_limit = c->example_limit,
                                                 .held_out_limit = 2000,
                                                 .global_batch = c->global_batch,
                                                 .rank_count = c->rank_count,
                                                 .micro_batches = c->micro_batches,
                                                 .shard = TUTTI_TF_SHARD_AUTO,
                                                 .seed = 3};
    struct spoiler spoiler = {.step = c->poisoned_step};
    struct tutti_learner learner = {.size = sizeof(learner),
                                    .context = &spoiler,
                                    .open = spoilt_open,
                                    .close = spoilt_close,
                                    .init = spoilt_init,
                                    .input = spoilt_input,
                                    .forward = spoilt_forward,
                                    .backward = spoilt_backward,
                                    .sums = spoilt_sums,
                                    .evaluate = spoilt_evaluate,
                                    .slices = spoilt_slices};
    struct outcome o = {.weights = NULL};
    struct tutti_trainer_params params = {
        .size = sizeof(params),
        .strategy = &strategy,
        .model = model,
        .learner = &learner,
        .rank_count = c->rank_count,
        .micro_batches = c->micro_batches,
        .samples = (uint32_t)((c->global_batch + c->rank_count - 1) / c->rank_count),
        .seed = 3,
        .check_sync = true,
        .outer_rate = c->outer_rate,
        .outer_momentum = c->outer_rate > 0 ? 0.9 : 0,
        .checkpoint = c->checkpoint,
        .record = c->record,
        .note = note_line,
        .note_context = &o};
    struct tutti_net_learner_facts facts;
    struct tutti_trainer *trainer = NULL;
    struct tutti_err err = {""};
    int status = tutti_net_learner_new(&net, &spoiler.inner, &facts, &err);

    CHECK_OK(status, err);
    CHECK_OK(
        tutti_update_named(c->optimizer != NULL ? c->optimizer : "sgd", &params.optimizer, &err),
        err);
    params.optimizer.rate = c->rate;
    CHECK_OK(tutti_threads_open(NULL, &params.backend, &err), err);
    status = tutti_trainer_open(&params, &trainer, &err);
    if (status == 0)
        status = take_steps(c, trainer, &o, &err);
    CHECK_OK(status, err);
    tutti_trainer_close(trainer);
    tutti_backend_close(params.backend);
    tutti_net_learner_free(&spoiler.inner);
    tutti_model_free(model);
    return o;
}

static inline double loss_of(const struct outcome *o)
{
    return o->held_out.loss / o->held_out.examples;
}

/* Relative, in the L2 norm. */
static double distance(const struct outcome *a, const struct outcome *b)
{
    double difference = 0;
    double size = 0;

    assert(a->elements == b->elements);
    for (uint64_t i = 0; i < a->elements; i++) {
        difference += pow((double)a->weights[i] - (double)b->weights[i], 2);
        size += pow((double)b->weights[i], 2);
    }
    return sqrt(difference / size);
}

#endif
