/* Networks trained for tests: a course is what is trained and how, an outcome what comes of it. */
#ifndef TUTTI_TESTS_RUNTIME_TRAIN_WORLD_H
#define TUTTI_TESTS_RUNTIME_TRAIN_WORLD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/tensorflow.h"
#include "runtime/threads.h"
#include "runtime/train.h"
#include "tests/test.h"

enum { COURSE_STEPS_MAX = 512 };

struct course {
    const char *model; /* a name, or a text */
    const char *strategy;
    uint32_t rank_count;
    const char
        *algorithm; /* of gradients; NULL: ring. "subdivided": TensorFlow's rings of 64 MiB */
    uint32_t group; /* ranks of a machine; 0: all */
    uint32_t rows;  /* of the torus that they are; 0: none */
    bool by_pieces; /* packs are so many equal pieces, not bytes to be exceeded */
    uint64_t packs;
    uint32_t channels; /* of an all-reduce */
    uint32_t micro_batches;
    uint32_t shard_ranks;
    bool shard_update; /* reduce-scatter, update, all-gather, as tutti train --shard-update */
    uint32_t local_steps;
    double outer_rate;     /* of DiLoCo, with a momentum of 0.9 */
    const char *optimizer; /* NULL: momentum */
    double rate;           /* 0: the optimizer's own */
    bool cosine;           /* it falls to 0 along half a cosine */
    uint32_t steps;
    uint64_t global_batch;
    uint64_t examples; /* of the data set; 0: all */
    uint64_t held_out;
    float dropout;
    bool evaluate;
    const char *checkpoint;
    bool restore_only;
    const char *data;                      /* NULL: synthetic-mnist */
    const struct tutti_parallel *parallel; /* of what the ranks have parts; NULL: each has all */
};

struct outcome {
    float *weights;
    uint64_t count;
    double loss[COURSE_STEPS_MAX]; /* the mean over each step's examples */
    double examples[COURSE_STEPS_MAX];
    bool in_sync; /* at all steps */
    struct tutti_sums held_out;
};

struct course_world {
    const struct course *course;
    struct tutti_algorithm_set *added;
};

/* TensorFlow's rings, divided as it divides a gradient of 64 MiB. */
static inline int subdivided(const struct tutti_coll_params *given, uint32_t group,
                             struct tutti_shape *shape, struct tutti_schedule **ret,
                             struct tutti_err *err)
{
    uint32_t devices[64];
    int32_t offset[TUTTI_TF_SUBDIVISIONS_MAX];
    struct tutti_tf_cluster cluster = {.task_count = shape->rank_count / group, .device = devices};
    struct tutti_coll_params params = *given;
    uint32_t *orders;
    int status;

    for (uint32_t i = 0; i < cluster.task_count; i++)
        devices[i] = group;
    params.channel_count = tutti_tf_subdivisions(&cluster, 64 << 20, 0, offset);
    CHECK(params.channel_count > 1);
    orders = calloc((size_t)params.channel_count * shape->rank_count, sizeof(*orders));
    if (orders == NULL)
        abort();
    for (uint32_t k = 0; k < params.channel_count; k++)
        tutti_tf_ring_order(&cluster, NULL, offset[k], orders + (size_t)k * shape->rank_count);
    shape->order_count = params.channel_count;
    shape->orders = orders;
    status = tutti_coll_generate("ring", &params, shape, ret, err);
    free(orders);
    return status;
}

static inline int course_collective(void *context, const struct tutti_coll_params *given,
                                    uint32_t axis, uint32_t size, struct tutti_schedule **ret,
                                    struct tutti_err *err)
{
    const struct course_world *world = context;
    const struct course *c = world->course;
    const uint32_t group = c->group > 0 ? c->group : size;
    struct tutti_coll_params params = *given;
    struct tutti_shape shape = tutti_shape_flat(size);

    params.added = world->added;
    if (axis != TUTTI_AXIS_ALL || params.collective != TUTTI_ALLREDUCE ||
        params.dtype == TUTTI_FLOAT64 || c->algorithm == NULL)
        return tutti_coll_generate("ring", &params, &shape, ret, err);
    params.channel_count = c->channels;
    if (c->group > 0) {
        shape.level_count = 2;
        shape.level[0] = c->group;
        shape.level[1] = size / c->group;
    }
    if (c->rows > 0) {
        shape.dim_count = 2;
        shape.dim[0] = c->rows;
        shape.dim[1] = size / c->rows;
        shape.wrap[0] = shape.wrap[1] = true;
    }
    return strcmp(c->algorithm, "subdivided") == 0
               ? subdivided(&params, group, &shape, ret, err)
               : tutti_coll_generate(c->algorithm, &params, &shape, ret, err);
}

static inline struct tutti_strategy course_strategy(const struct course *c)
{
    struct tutti_strategy s;
    struct tutti_err err = {""};

    CHECK_OK(tutti_strategy_named(c->strategy, &s, &err), err);
    if (c->packs > 0 || c->by_pieces) {
        s.rule = c->by_pieces ? TUTTI_PACK_PIECES : TUTTI_PACK_EXCEED;
        s.limit = s.first_limit = c->packs;
    }
    if (c->shard_update) {
        s.sharding = TUTTI_SHARD_ZERO1;
        s.overlap = false;
    }
    if (c->local_steps > 0)
        s.local_steps = c->local_steps;
    return s;
}

static inline struct tutti_workload *course_model(const struct course *c)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    if (strchr(c->model, '\n') == NULL)
        CHECK_OK(tutti_model_new(c->model, NULL, &model, &err), err);
    else
        CHECK_OK(tutti_model_parse("text", c->model, strlen(c->model), &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

/* The steps, and what comes of them. */
static inline void course_steps(const struct course *c, struct tutti_trainer *trainer,
                                struct outcome *ret)
{
    struct tutti_err err = {""};

    ret->in_sync = true;
    if (c->parallel != NULL) {
        CHECK_OK(tutti_schedule_check(tutti_trainer_schedule(trainer), &err), err);
        CHECK_OK(tutti_schedule_prove(tutti_trainer_schedule(trainer), &err), err);
    }
    for (uint32_t i = 0; tutti_trainer_steps(trainer) < c->steps; i++) {
        struct tutti_trained step;
        int status = tutti_trainer_step(trainer, &step, &err);

        CHECK_OK(status, err);
        if (status < 0)
            return;
        ret->loss[i] = step.sums.loss / step.sums.examples;
        ret->examples[i] = step.sums.examples;
        ret->in_sync = ret->in_sync && step.in_sync;
    }
    CHECK_OK(tutti_trainer_save(trainer, &err), err);
    ret->count = tutti_trainer_elements(trainer);
    ret->weights = calloc(ret->count + 1, sizeof(float));
    if (ret->weights == NULL)
        abort();
    CHECK_OK(tutti_trainer_weights(trainer, ret->weights, &err), err);
    if (c->evaluate)
        CHECK_OK(tutti_trainer_evaluate(trainer, &ret->held_out, &err), err);
}

static inline uint32_t course_replicas(const struct course *c)
{
    const struct tutti_parallel *p = c->parallel;

    return p == NULL ? c->rank_count
                     : c->rank_count /
                           ((p->tensor > 0 ? p->tensor : 1) * (p->pipeline > 0 ? p->pipeline : 1));
}

/* Trained by threads. */
static inline struct outcome *take_course(const struct course *c)
{
    struct course_world world = {.course = c};
    struct tutti_workload *model = course_model(c);
    struct tutti_strategy strategy = course_strategy(c);
    const struct tutti_net_learner_params data = {
        .size = sizeof(data),
        .model = model,
        .data = c->data != NULL ? c->data : "synthetic-mnist",
        .example_limit = c->examples,
        .held_out_limit = c->held_out > 0 ? c->held_out : 1,
        .global_batch = c->global_batch,
        .rank_count = course_replicas(c),
        .micro_batches = c->micro_batches,
        .seed = 3,
        .shard = TUTTI_TF_SHARD_DATA,
        .dropout = c->dropout};
    struct tutti_net_learner_facts facts;
    struct tutti_learner learner = {.size = sizeof(learner)};
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = model,
                                          .learner = &learner,
                                          .rank_count = c->rank_count,
                                          .shard_ranks = c->shard_ranks,
                                          .micro_batches = c->micro_batches,
                                          .seed = 3,
                                          .check_sync = true,
                                          .outer_rate = c->outer_rate,
                                          .outer_momentum = c->outer_rate > 0 ? 0.9 : 0,
                                          .collective = course_collective,
                                          .context = &world,
                                          .checkpoint = c->checkpoint,
                                          .restore_only = c->restore_only,
                                          .parallel = c->parallel};
    struct tutti_trainer *trainer = NULL;
    struct outcome *ret = calloc(1, sizeof(*ret));
    struct tutti_err err = {""};
    int status;

    if (ret == NULL)
        abort();
    CHECK_OK(tutti_algorithm_set_new(&world.added, &err), err);
    CHECK_OK(tutti_tf_algorithm_add(world.added, &err), err);
    CHECK_OK(tutti_net_learner_new(&data, &learner, &facts, &err), err);
    CHECK_OK(tutti_update_named(c->optimizer != NULL ? c->optimizer : "momentum", &params.optimizer,
                                &err),
             err);
    if (c->rate > 0)
        params.optimizer.rate = c->rate;
    if (c->cosine)
        params.rate = (struct tutti_rate){.kind = TUTTI_RATE_COSINE, .decay_steps = c->steps};
    CHECK_OK(tutti_threads_open(NULL, &params.backend, &err), err);
    status = tutti_trainer_open(&params, &trainer, &err);
    CHECK_OK(status, err);
    if (status == 0)
        course_steps(c, trainer, ret);
    tutti_trainer_close(trainer);
    tutti_backend_close(params.backend);
    tutti_net_learner_free(&learner);
    tutti_algorithm_set_free(world.added);
    tutti_model_free(model);
    return ret;
}

static inline void outcome_free(struct outcome *o)
{
    free(o->weights);
    free(o);
}

/* The relative difference of two courses' weights, by their L2 norm. */
static inline double apart(const struct outcome *a, const struct outcome *b)
{
    double difference = 0;
    double size = 0;

    CHECK_INT(a->count, b->count);
    for (uint64_t i = 0; i < a->count && i < b->count; i++) {
        difference += pow((double)a->weights[i] - (double)b->weights[i], 2);
        size += pow((double)b->weights[i], 2);
    }
    return sqrt(difference / size);
}

#endif
