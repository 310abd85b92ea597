/* A model of the user's own, one call for all of it, as a learner of one layer: examples are shared
 * out and read, gradients are divided by the examples of all replicas. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/dataset.h"
#include "runtime/train/feed.h"
#include "runtime/train/reader.h"
#include "runtime/train/replicas.h"

enum { READ_AHEAD = 2 }; /* batches */

struct tutti_replica_learner {
    const struct tutti_replica_model *model;
    struct tutti_feed_ask ask; /* of replica 0 */
    uint32_t micro_batches;
    uint64_t elements;              /* of all variables */
    struct tutti_dataset own;       /* of the model's own examples */
    struct tutti_dataset *training; /* &own, or one by name; NULL: a stream */
    struct tutti_dataset *held_out; /* by name; NULL: those of own, behind the others */
    uint64_t held_out_count;
};

/* A replica. */
struct pupil {
    const struct tutti_replica_learner *learner;
    uint32_t id;
    void *own; /* the model's */
    struct tutti_feed feed;
    struct tutti_reader *reader; /* NULL: not begun, or nothing is read */
    uint64_t next;               /* the step that it reads next */
    uint64_t batch_max;
    uint64_t *examples;       /* [batch_max] */
    struct tutti_batch whole; /* the replica's part of a step ... */
    uint64_t here;            /* ... number here - 1; 0: of none */
    uint64_t first;           /* of its micro-batch, in `whole` */
    uint64_t count;
    uint64_t global_count;
    float *inputs; /* [batch_max][inputs], held out */
    float *targets;
    uint32_t *labels;
    float *gradients; /* [elements] of the micro-batch */
    float **slopes;   /* [variable], into them */
    float scale;      /* of these gradients */
    struct tutti_sums sums;
};

/* ---- what is read ---------------------------------------------------------------------------- */

static int read_own(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                    float *ret_target, struct tutti_err *err)
{
    const struct tutti_replica_model *model = set->state;

    return model->read(model->context, index, ret_inputs, ret_target, err);
}

static bool is_read(const struct tutti_replica_learner *l)
{
    return l->training != NULL && l->training->read != NULL;
}

static int read_next(struct pupil *p, uint64_t step, struct tutti_err *err)
{
    const struct tutti_reader_ask ask = {.set = p->learner->training,
                                         .feed = p->feed,
                                         .first = tutti_feed_at(&p->feed, step),
                                         .depth = READ_AHEAD};
    const struct tutti_batch *batch = NULL;
    int status = 0;

    if (p->reader == NULL || p->next != step) {
        tutti_reader_close(p->reader);
        p->reader = NULL;
        status = tutti_reader_open(&ask, &p->reader, err);
    }
    if (status == 0)
        status = tutti_reader_next(p->reader, &batch, err);
    if (status < 0)
        return status;
    p->next = step + 1;
    p->whole = *batch;
    p->global_count = batch->share.global_count;
    return 0;
}

/* Numbers alone: of a data set in the order of the epoch, of a stream one after another. */
static void count_next(struct pupil *p, uint64_t step)
{
    const struct tutti_replica_learner *l = p->learner;
    struct tutti_tf_part part;
    struct tutti_feed_share share;

    if (l->training != NULL) {
        share = tutti_feed_share(&p->feed, tutti_feed_at(&p->feed, step));
        for (uint64_t i = 0; i < share.count; i++)
            p->examples[i] = tutti_feed_example(&p->feed, &share, i);
        p->whole = (struct tutti_batch){.count = (uint32_t)share.count, .examples = p->examples};
        p->global_count = share.global_count;
        return;
    }
    part = tutti_tf_rebatch(l->ask.global_batch, l->ask.global_batch, l->ask.rank_count, 0, p->id);
    for (uint64_t i = 0; i < part.count; i++)
        p->examples[i] = step * l->ask.global_batch + part.first + i;
    p->whole = (struct tutti_batch){.count = (uint32_t)part.count, .examples = p->examples};
    p->global_count = l->ask.global_batch;
}

/* ---- one call -------------------------------------------------------------------------------- */

/* The model's own call, its counts held to the batch. */
static int call(struct pupil *p, const struct tutti_replica_batch *batch,
                const float *const *variables, float *const *gradients, struct tutti_sums *ret,
                struct tutti_err *err)
{
    struct tutti_sums sums = {0, 0, 0};
    int status =
        p->learner->model->forward_backward(p->own, batch, variables, gradients, &sums, err);

    if (status < 0)
        return tutti_wrap(err, status, "replica %u, step %" PRIu64, p->id, batch->step);
    if (!(sums.examples >= batch->count && sums.examples <= batch->count))
        return tutti_fail(err, TUTTI_EINVAL,
                          "replica %u, step %" PRIu64
                          ": forward_backward counts '%.9g' examples of a batch of %u",
                          p->id, batch->step, sums.examples, batch->count);
    *ret = sums;
    return 0;
}

static struct tutti_replica_batch part_of(const struct pupil *p, const struct tutti_batch *whole,
                                          uint64_t first, uint64_t count)
{
    const struct tutti_replica_learner *l = p->learner;
    const uint64_t inputs = l->training != NULL ? tutti_dataset_input_count(l->training) : 0;

    return (struct tutti_replica_batch){
        .replica_id = p->id,
        .num_replicas_in_sync = l->ask.rank_count,
        .count = (uint32_t)count,
        .examples = whole->examples + first,
        .inputs = whole->inputs != NULL ? whole->inputs + first * inputs : NULL,
        .targets = whole->targets != NULL ? whole->targets + first : NULL,
        .labels = whole->labels != NULL ? whole->labels + first : NULL};
}

static int input(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                 struct tutti_err *err)
{
    struct pupil *p = replica;
    const struct tutti_replica_learner *l = p->learner;
    const uint64_t parts = l->micro_batches;
    uint64_t first, end;
    int status = 0;

    if (p->here != step + 1 && is_read(l))
        status = read_next(p, step, err);
    else if (p->here != step + 1)
        count_next(p, step);
    if (status < 0)
        return status;
    p->here = step + 1;
    p->scale = (float)(scale / (double)p->global_count);
    p->sums = (struct tutti_sums){0, 0, 0};
    memset(p->gradients, 0, l->elements * sizeof(float));
    first = p->whole.count * (uint64_t)micro_batch / parts;
    end = p->whole.count * (micro_batch + UINT64_C(1)) / parts;
    p->first = first;
    p->count = end - first;
    return 0;
}

static int forward(void *replica, uint32_t layer, const float *const *variables,
                   struct tutti_err *err)
{
    struct pupil *p = replica;
    struct tutti_replica_batch batch = part_of(p, &p->whole, p->first, p->count);

    (void)layer;
    batch.step = p->here - 1;
    batch.global_count = p->global_count;
    return p->count == 0 ? 0 : call(p, &batch, variables, p->slopes, &p->sums, err);
}

static int backward(void *replica, uint32_t layer, const float *const *variables,
                    float *const *gradients, bool add, struct tutti_err *err)
{
    const struct pupil *p = replica;
    const struct tutti_replica_model *model = p->learner->model;

    (void)layer;
    (void)variables;
    (void)err;
    for (uint32_t v = 0; v < model->variable_count; v++) {
        const uint64_t count = tutti_replica_elements(&model->variables[v]);

        for (uint64_t i = 0; i < count; i++)
            gradients[v][i] = (add ? gradients[v][i] : 0) + p->scale * p->slopes[v][i];
    }
    return 0;
}

static struct tutti_sums sums_of(const void *replica)
{
    return ((const struct pupil *)replica)->sums;
}

/* ---- held-out examples ----------------------------------------------------------------------- */

/* Of the held-out examples [first, first + count). */
static int read_held_out(struct pupil *p, uint64_t first, uint64_t count, struct tutti_batch *ret,
                         struct tutti_err *err)
{
    const struct tutti_replica_learner *l = p->learner;
    const struct tutti_dataset *set = l->held_out != NULL ? l->held_out : &l->own;
    const uint64_t offset = l->held_out != NULL ? 0 : l->own.example_count;
    const uint64_t inputs = is_read(l) ? tutti_dataset_input_count(set) : 0;
    int status = 0;

    for (uint64_t i = 0; i < count && status == 0; i++) {
        p->examples[i] = offset + first + i;
        if (is_read(l))
            status = set->read(set, p->examples[i], p->inputs + i * inputs, &p->targets[i], err);
        if (is_read(l) && set->class_count > 0)
            p->labels[i] = (uint32_t)p->targets[i];
    }
    *ret = (struct tutti_batch){.count = (uint32_t)count, .examples = p->examples};
    if (is_read(l)) {
        ret->inputs = p->inputs;
        ret->labels = set->class_count > 0 ? p->labels : NULL;
        ret->targets = set->class_count > 0 ? NULL : p->targets;
    }
    p->here = 0; /* the numbers of a batch were here */
    return status;
}

static int evaluate(void *replica, const float *const *variables, struct tutti_sums *ret,
                    struct tutti_err *err)
{
    struct pupil *p = replica;
    const struct tutti_replica_learner *l = p->learner;
    const uint64_t end = l->held_out_count * (p->id + UINT64_C(1)) / l->ask.rank_count;
    int status = 0;

    *ret = (struct tutti_sums){0, 0, 0};
    for (uint64_t at = l->held_out_count * p->id / l->ask.rank_count; at < end && status == 0;) {
        const uint64_t count = end - at < p->batch_max ? end - at : p->batch_max;
        struct tutti_sums sums = {0, 0, 0};
        struct tutti_replica_batch batch;
        struct tutti_batch whole;

        status = read_held_out(p, at, count, &whole, err);
        if (status < 0)
            return status;
        batch = part_of(p, &whole, 0, count);
        batch.held_out = true;
        batch.global_count = l->held_out_count;
        status = call(p, &batch, variables, NULL, &sums, err);
        ret->loss += sums.loss;
        ret->correct += sums.correct;
        ret->examples += sums.examples;
        at += count;
    }
    return status;
}

/* ---- replicas -------------------------------------------------------------------------------- */

static int init(void *context, uint64_t seed, uint32_t layer, float *const *variables,
                struct tutti_err *err)
{
    const struct tutti_replica_learner *l = context;

    (void)layer;
    return l->model->init(l->model->context, seed, variables, err);
}

static void close_pupil(void *replica)
{
    struct pupil *p = replica;
    const struct tutti_replica_model *model = p->learner->model;

    if (model->open != NULL && model->close != NULL && p->own != NULL)
        model->close(p->own);
    tutti_reader_close(p->reader);
    free(p->examples);
    free(p->inputs);
    free(p->targets);
    free(p->labels);
    free(p->gradients);
    free(p->slopes);
    free(p);
}

static int take_memory(struct pupil *p, struct tutti_err *err)
{
    const struct tutti_replica_learner *l = p->learner;
    const struct tutti_replica_model *model = l->model;
    float *at;

    p->examples = calloc(p->batch_max, sizeof(p->examples[0]));
    p->gradients = calloc(l->elements, sizeof(p->gradients[0]));
    p->slopes = calloc(model->variable_count, sizeof(p->slopes[0]));
    if (l->held_out_count > 0 && is_read(l)) {
        p->inputs =
            calloc(p->batch_max * tutti_dataset_input_count(l->training) + 1, sizeof(p->inputs[0]));
        p->targets = calloc(p->batch_max, sizeof(p->targets[0]));
        p->labels = calloc(p->batch_max, sizeof(p->labels[0]));
        if (p->inputs == NULL || p->targets == NULL || p->labels == NULL)
            return tutti_nomem(err);
    }
    if (p->examples == NULL || p->gradients == NULL || p->slopes == NULL)
        return tutti_nomem(err);
    at = p->gradients;
    for (uint32_t v = 0; v < model->variable_count; v++) {
        p->slopes[v] = at;
        at += tutti_replica_elements(&model->variables[v]);
    }
    return 0;
}

static int open_pupil(void *context, uint32_t rank, void **ret, struct tutti_err *err)
{
    const struct tutti_replica_learner *l = context;
    struct tutti_feed_ask ask = l->ask;
    struct pupil *p = calloc(1, sizeof(*p));
    int status = p == NULL ? tutti_nomem(err) : 0;

    if (p == NULL)
        return status;
    p->learner = l;
    p->id = ask.rank = rank;
    p->batch_max = (ask.global_batch + ask.rank_count - 1) / ask.rank_count;
    p->own = l->model->context;
    status = take_memory(p, err);
    if (status == 0 && l->training != NULL)
        status = tutti_feed_init(&ask, l->training, &p->feed, err);
    if (status == 0 && l->model->open != NULL) {
        p->own = NULL;
        status = l->model->open(l->model->context, rank, &p->own, err);
    }
    if (status < 0)
        close_pupil(p);
    *ret = status < 0 ? NULL : p;
    return status;
}

/* ---- the learner ----------------------------------------------------------------------------- */

static int check(const struct tutti_replica_model *m, struct tutti_err *err)
{
    if (m->name == NULL || m->variables == NULL || m->variable_count == 0 || m->init == NULL ||
        m->forward_backward == NULL)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "a model without name, variables, init or forward_backward (all of them)");
    for (uint32_t v = 0; v < m->variable_count; v++)
        if (m->variables[v].name == NULL || tutti_replica_elements(&m->variables[v]) == 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "variable %u of model '%s' has no name or no elements", v, m->name);
    if (m->read != NULL && (m->example_count == 0 || m->input_count == 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "model '%s' reads '%" PRIu64 "' examples of '%u' inputs (1 or more)",
                          m->name, m->example_count, m->input_count);
    if (m->data != NULL && (m->read != NULL || m->example_count > 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "model '%s' has data set '%s' and examples of its own (one of them)",
                          m->name, m->data);
    if (m->held_out_count > 0 && m->example_count == 0 && m->data == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "model '%s' holds out '%" PRIu64 "' examples of a stream (example_count)",
                          m->name, m->held_out_count);
    return 0;
}

static int open_data(struct tutti_replica_learner *l, struct tutti_err *err)
{
    const struct tutti_replica_model *m = l->model;
    struct tutti_dataset_ask ask = {.name = m->data,
                                    .part = TUTTI_DATASET_TRAINING,
                                    .seed = l->ask.seed,
                                    .example_limit = m->example_count};
    int status;

    l->own = (struct tutti_dataset){.example_count = m->example_count,
                                    .channels = 1,
                                    .height = 1,
                                    .width = m->input_count,
                                    .class_count = m->class_count,
                                    .read = m->read != NULL ? read_own : NULL,
                                    .state = (void *)(uintptr_t)m};
    l->held_out_count = m->held_out_count;
    if (m->data == NULL) {
        l->training = m->example_count > 0 ? &l->own : NULL;
        return 0;
    }
    status = tutti_dataset_open(&ask, &l->training, err);
    ask.part = TUTTI_DATASET_HELD_OUT;
    ask.example_limit = m->held_out_count;
    if (status == 0)
        status = tutti_dataset_open(&ask, &l->held_out, err);
    if (status == 0)
        l->held_out_count = l->held_out->example_count;
    return status;
}

int tutti_replica_learner_new(const struct tutti_replicas *replicas,
                              const struct tutti_replica_model *model,
                              const struct tutti_replica_training *training,
                              struct tutti_replica_learner **ret, struct tutti_learner *ret_learner,
                              struct tutti_err *err)
{
    struct tutti_replica_learner *l = calloc(1, sizeof(*l));
    const uint64_t batch = training->batch > 0 ? training->batch : 64;
    int status = l == NULL ? tutti_nomem(err) : check(model, err);

    if (status == 0) {
        l->model = model;
        l->micro_batches = training->micro_batches > 0 ? training->micro_batches : 1;
        l->ask = (struct tutti_feed_ask){.global_batch = training->global_batch > 0
                                                             ? training->global_batch
                                                             : batch * replicas->count,
                                         .rank_count = replicas->count,
                                         .seed = training->seed,
                                         .shuffle = !training->in_order,
                                         .drop_remainder = training->drop_remainder,
                                         .shard = TUTTI_TF_SHARD_DATA};
        for (uint32_t v = 0; v < model->variable_count; v++)
            l->elements += tutti_replica_elements(&model->variables[v]);
        status = l->ask.global_batch <= UINT32_MAX
                     ? open_data(l, err)
                     : tutti_fail(err, TUTTI_EINVAL, "a global batch of '%" PRIu64 "' (below 2^32)",
                                  l->ask.global_batch);
    }
    if (status < 0) {
        tutti_replica_learner_free(l);
        return status;
    }
    *ret = l;
    *ret_learner = (struct tutti_learner){.size = sizeof(*ret_learner),
                                          .context = l,
                                          .open = open_pupil,
                                          .close = close_pupil,
                                          .init = init,
                                          .input = input,
                                          .forward = forward,
                                          .backward = backward,
                                          .sums = sums_of,
                                          .evaluate = l->held_out_count > 0 ? evaluate : NULL};
    return 0;
}

void tutti_replica_learner_free(struct tutti_replica_learner *l)
{
    if (l == NULL)
        return;
    if (l->training != &l->own)
        tutti_dataset_close(l->training);
    tutti_dataset_close(l->held_out);
    free(l);
}

uint64_t tutti_replica_learner_held_out(const struct tutti_replica_learner *l)
{
    return l->held_out_count;
}

uint64_t tutti_replica_learner_epoch(const struct tutti_replica_learner *l, uint32_t parts)
{
    enum { APART_BITS = 32 };

    if (l->training == NULL)
        return (uint64_t)parts << APART_BITS;
    return tutti_tf_steps(l->training->example_count, l->ask.global_batch, l->ask.drop_remainder);
}

bool tutti_replica_learner_has_classes(const struct tutti_replica_learner *l)
{
    return l->training != NULL ? l->training->class_count > 0 : l->model->class_count > 0;
}
