/* A network on a data set as a learner. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint_hash.h"
#include "runtime/train/feed.h"
#include "runtime/train/gpu.h"
#include "runtime/train/net_learner.h"
#include "runtime/train/products.h"
#include "runtime/train/reader.h"

struct replica {
    const struct tutti_net_context *context;
    uint32_t rank;
    struct tutti_feed feed;
    struct tutti_network_work *work;
    uint32_t batch_max; /* of the share of a step */
    float *inputs;      /* [batch_max][input elements], held out */
    float *targets;     /* [batch_max] */
    uint32_t *labels;
    struct tutti_reader *reader; /* NULL: not begun */
    const struct tutti_batch *batch;
    uint64_t step;  /* that comes next in it, once there is one */
    float *weights; /* of a layer, put together where its variables lie apart */
    float *gradients;
};

/* ---- batches --------------------------------------------------------------------------------- */

/* Held-out examples [first, first + count). */
static int read_held_out(struct replica *r, uint64_t first, uint32_t count,
                         struct tutti_network_batch *ret, struct tutti_err *err)
{
    const struct tutti_dataset *set = r->context->held_out;
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        status = set->read(set, first + i, r->inputs + i * r->context->input_elements,
                           &r->targets[i], err);
        r->labels[i] = set->class_count > 0 ? (uint32_t)r->targets[i] : 0;
    }
    *ret = (struct tutti_network_batch){.inputs = r->inputs,
                                        .labels = set->class_count > 0 ? r->labels : NULL,
                                        .targets = set->class_count > 0 ? NULL : r->targets,
                                        .count = count};
    return status;
}

/* The share of a step: the next that is read ahead, unless training has come from elsewhere. */
static int fetch(struct replica *r, uint64_t step, struct tutti_err *err)
{
    const struct tutti_reader_ask ask = {.set = r->context->training,
                                         .feed = r->feed,
                                         .first = tutti_feed_at(&r->feed, step),
                                         .depth = TUTTI_NET_READ_AHEAD};
    int status = 0;

    if (r->reader == NULL || r->step != step) {
        tutti_reader_close(r->reader);
        r->reader = NULL;
        status = tutti_reader_open(&ask, &r->reader, err);
    }
    if (status == 0)
        status = tutti_reader_next(r->reader, &r->batch, err);
    r->step = status == 0 ? step + 1 : 0;
    return status;
}

static int next_batch(struct replica *r, uint64_t step, uint32_t micro_batch, double scale,
                      struct tutti_network_batch *ret, struct tutti_err *err)
{
    const uint64_t parts = r->context->params.micro_batches;
    uint64_t first;
    int status = r->step == step + 1 ? 0 : fetch(r, step, err);

    if (status < 0)
        return status;
    first = r->batch->count * micro_batch / parts;
    *ret = (struct tutti_network_batch){
        .inputs = r->batch->inputs + first * r->context->input_elements,
        .labels = r->batch->labels != NULL ? r->batch->labels + first : NULL,
        .targets = r->batch->targets != NULL ? r->batch->targets + first : NULL,
        .count = (uint32_t)(r->batch->count * (micro_batch + UINT64_C(1)) / parts - first),
        .gradient_scale = (float)(scale / (double)r->batch->share.global_count),
        .training = true,
        .seed = r->context->params.seed,
        .step = step,
        .examples = r->batch->examples + first};
    return 0;
}

static int input(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                 struct tutti_err *err)
{
    struct replica *r = replica;
    struct tutti_network_batch batch;
    int status = next_batch(r, step, micro_batch, scale, &batch, err);

    if (status == 0)
        tutti_network_begin(r->work, &batch);
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* A layer's variables in a row: as they lie, or NULL if they lie apart. */
static const float *in_a_row(const struct tutti_network_layer *layer, const float *const *variables)
{
    for (uint32_t v = 0; v + 1 < layer->variable_count; v++)
        if (variables[v + 1] != variables[v] + layer->variables[v].elements)
            return NULL;
    return layer->variable_count > 0 ? variables[0] : NULL;
}

static const float *together(struct replica *r, const struct tutti_network_layer *layer,
                             const float *const *variables)
{
    const float *row = in_a_row(layer, variables);
    float *to = r->weights;

    if (row != NULL || layer->variable_count == 0)
        return row;
    for (uint32_t v = 0; v < layer->variable_count; to += layer->variables[v++].elements)
        memcpy(to, variables[v], layer->variables[v].elements * sizeof(float));
    return r->weights;
}

static int init(void *context, uint64_t seed, uint32_t layer, float *const *variables,
                struct tutti_err *err)
{
    const struct tutti_net_context *c = context;
    const struct tutti_network_layer *l = tutti_network_layer(c->net, layer);
    float *row = calloc(l->elements + 1, sizeof(float));
    const float *from = row;

    if (row == NULL)
        return tutti_nomem(err);
    tutti_network_init(c->net, seed, layer, row);
    for (uint32_t v = 0; v < l->variable_count; from += l->variables[v++].elements)
        memcpy(variables[v], from, l->variables[v].elements * sizeof(float));
    free(row);
    return 0;
}

static int forward(void *replica, uint32_t layer, const float *const *variables,
                   struct tutti_err *err)
{
    struct replica *r = replica;

    (void)err;
    tutti_network_forward(r->work, layer,
                          together(r, tutti_network_layer(r->context->net, layer), variables));
    return 0;
}

static int backward(void *replica, uint32_t layer, const float *const *variables,
                    float *const *gradients, bool add, struct tutti_err *err)
{
    struct replica *r = replica;
    const struct tutti_network_layer *l = tutti_network_layer(r->context->net, layer);
    const float *weights = together(r, l, variables);
    const float *from = r->gradients;

    (void)err;
    if (l->variable_count <= 1 || in_a_row(l, (const float *const *)gradients) != NULL) {
        tutti_network_backward(r->work, layer, weights, l->variable_count > 0 ? gradients[0] : NULL,
                               add);
        return 0;
    }
    tutti_network_backward(r->work, layer, weights, r->gradients, false);
    for (uint32_t v = 0; v < l->variable_count; from += l->variables[v++].elements)
        for (uint64_t i = 0; i < l->variables[v].elements; i++)
            gradients[v][i] = add ? gradients[v][i] + from[i] : from[i];
    return 0;
}

static int slices(void *replica, uint32_t layer, uint32_t variable, uint64_t capacity,
                  int64_t *ret_rows, float *ret_values, uint64_t *ret_count, struct tutti_err *err)
{
    const struct replica *r = replica;

    (void)layer;
    (void)variable;
    (void)err; /* who asks sees that there are more */
    *ret_count = tutti_network_slices(r->work, capacity, ret_rows, ret_values);
    return 0;
}

static struct tutti_sums sums(const void *replica)
{
    const struct replica *r = replica;
    const struct tutti_network_score score = tutti_network_score(r->work);

    return (struct tutti_sums){score.loss, (double)score.correct, score.count};
}

static int evaluate(void *replica, const float *const *variables, struct tutti_sums *ret,
                    struct tutti_err *err)
{
    struct replica *r = replica;
    const struct tutti_net_context *c = r->context;
    const uint64_t count = c->held_out->example_count;
    const uint64_t end = count * (r->rank + UINT64_C(1)) / c->params.rank_count;
    int status = 0;

    *ret = (struct tutti_sums){0, 0, 0};
    for (uint64_t at = count * r->rank / c->params.rank_count; at < end && status == 0;) {
        uint32_t size = end - at < r->batch_max ? (uint32_t)(end - at) : r->batch_max;
        struct tutti_network_batch batch;
        uint32_t v = 0;
        struct tutti_sums found;

        status = read_held_out(r, at, size, &batch, err);
        tutti_network_begin(r->work, &batch);
        for (uint32_t l = 0; l < tutti_network_layer_count(c->net) && status == 0; l++) {
            status = forward(r, l, variables + v, err);
            v += tutti_network_layer(c->net, l)->variable_count;
        }
        found = sums(r);
        ret->loss += found.loss;
        ret->correct += found.correct;
        ret->examples += found.examples;
        at += size;
    }
    return status;
}

/* ---- on a device ----------------------------------------------------------------------------- */

struct on_device {
    struct replica *replica; /* which has the data */
    struct tutti_gpu_network *gpu;
};

static int device_open(void *replica, struct tutti_device_queue *queue, void **ret,
                       struct tutti_err *err)
{
    struct on_device *d = calloc(1, sizeof(*d));
    int status;

    if (d == NULL)
        return tutti_nomem(err);
    d->replica = replica;
    status =
        tutti_gpu_network_new(d->replica->context->net, d->replica->batch_max, queue, &d->gpu, err);
    if (status < 0)
        free(d);
    else
        *ret = d;
    return status;
}

static void device_close(void *device)
{
    struct on_device *d = device;

    tutti_gpu_network_free(d->gpu);
    free(d);
}

static int device_input(void *device, uint64_t step, uint32_t micro_batch, double scale,
                        struct tutti_err *err)
{
    struct on_device *d = device;
    struct tutti_network_batch batch;
    int status = next_batch(d->replica, step, micro_batch, scale, &batch, err);

    return status < 0 ? status : tutti_gpu_network_begin(d->gpu, &batch, err);
}

static int device_forward(void *device, uint32_t layer, const float *const *variables,
                          struct tutti_err *err)
{
    return tutti_gpu_network_forward(((struct on_device *)device)->gpu, layer, variables, err);
}

static int device_backward(void *device, uint32_t layer, const float *const *variables,
                           float *const *gradients, bool add, struct tutti_err *err)
{
    return tutti_gpu_network_backward(((struct on_device *)device)->gpu, layer, variables,
                                      gradients, add, err);
}

static int device_sums(void *device, double *sums, uint32_t *ret_examples, struct tutti_err *err)
{
    return tutti_gpu_network_sums(((struct on_device *)device)->gpu, sums, ret_examples, err);
}

static const struct tutti_learner_device net_device = {.open = device_open,
                                                       .close = device_close,
                                                       .input = device_input,
                                                       .forward = device_forward,
                                                       .backward = device_backward,
                                                       .sums = device_sums};

/* ---- replicas -------------------------------------------------------------------------------- */

static void close_replica(void *replica)
{
    struct replica *r = replica;

    tutti_reader_close(r->reader);
    tutti_network_work_free(r->work);
    free(r->inputs);
    free(r->targets);
    free(r->labels);
    free(r->weights);
    free(r->gradients);
    free(r);
}

static int open_replica(void *context, uint32_t rank, void **ret, struct tutti_err *err)
{
    const struct tutti_net_context *c = context;
    const struct tutti_net_learner_params *p = &c->params;
    const struct tutti_feed_ask ask = {.global_batch = p->global_batch,
                                       .rank = rank,
                                       .rank_count = p->rank_count,
                                       .seed = p->seed,
                                       .shuffle = !p->in_order,
                                       .drop_remainder = p->drop_remainder,
                                       .shard = p->shard};
    struct replica *r = calloc(1, sizeof(*r));
    uint64_t share = (p->global_batch + p->rank_count - 1) / p->rank_count;
    int status = r == NULL ? tutti_nomem(err) : tutti_feed_init(&ask, c->training, &r->feed, err);

    if (status == 0) {
        r->context = c;
        r->rank = rank;
        r->batch_max = (uint32_t)share;
        status = tutti_network_work_new(c->net, r->batch_max, &r->work, err);
    }
    if (status == 0) {
        r->inputs = calloc(share * c->input_elements + 1, sizeof(float));
        r->targets = calloc(share + 1, sizeof(float));
        r->labels = calloc(share + 1, sizeof(uint32_t));
        r->weights = calloc(c->layer_most + 1, sizeof(float));
        r->gradients = calloc(c->layer_most + 1, sizeof(float));
        if (r->inputs == NULL || r->targets == NULL || r->labels == NULL || r->weights == NULL ||
            r->gradients == NULL)
            status = tutti_nomem(err);
    }
    if (status < 0 && r != NULL)
        close_replica(r);
    *ret = status < 0 ? NULL : r;
    return status;
}

/* ---- the learner ----------------------------------------------------------------------------- */

static int open_set(const struct tutti_net_context *c, enum tutti_dataset_part part, uint64_t limit,
                    struct tutti_dataset **ret, struct tutti_err *err)
{
    const struct tutti_dataset_ask ask = {
        .name = c->params.data, .part = part, .seed = c->params.seed, .example_limit = limit};

    return tutti_dataset_open(&ask, ret, err);
}

static int match(const struct tutti_net_context *c, struct tutti_err *err)
{
    const struct tutti_dataset *set = c->training;
    const uint64_t wanted = c->shape.channels * c->shape.rows * c->shape.columns;

    if (tutti_dataset_input_count(set) == wanted && set->class_count == c->shape.classes)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "data set '%s' has examples of %u x %u x %u and %u classes; model '%s' takes "
                      "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " and %" PRIu64,
                      c->params.data, set->channels, set->height, set->width, set->class_count,
                      c->params.model->name, c->shape.channels, c->shape.rows, c->shape.columns,
                      c->shape.classes);
}

/* The synthetic set of the model's shape. */
static const char *set_for(const struct tutti_network_input *shape)
{
    const uint64_t elements = shape->channels * shape->rows * shape->columns;

    if (shape->channels == TUTTI_TEXT_WORDS && elements == TUTTI_TEXT_WORDS)
        return "synthetic-text";
    return shape->classes == 0 ? "line" : elements == 784 ? "synthetic-mnist" : "synthetic-cifar10";
}

static int open_context(struct tutti_net_context *c, struct tutti_err *err)
{
    const struct tutti_network_params net = {.dtype = c->params.precision,
                                             .dropout = c->params.dropout};
    int status;

    if (c->params.model == NULL || c->params.rank_count == 0 || c->params.global_batch == 0 ||
        c->params.global_batch > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a net without model, ranks or a global batch of 1 to 2^32 - 1");
    c->params.micro_batches = c->params.micro_batches > 0 ? c->params.micro_batches : 1;
    status = tutti_network_new(c->params.model, &net, &c->net, err);
    if (status < 0)
        return status;
    c->shape = tutti_network_input(c->net);
    c->input_elements = c->shape.channels * c->shape.rows * c->shape.columns;
    for (uint32_t i = 0; i < tutti_network_layer_count(c->net); i++)
        if (tutti_network_layer(c->net, i)->elements > c->layer_most)
            c->layer_most = tutti_network_layer(c->net, i)->elements;
    if (c->params.data == NULL)
        c->params.data = set_for(&c->shape);
    status = open_set(c, TUTTI_DATASET_TRAINING, c->params.example_limit, &c->training, err);
    if (status == 0)
        status = open_set(c, TUTTI_DATASET_HELD_OUT, c->params.held_out_limit, &c->held_out, err);
    return status < 0 ? status : match(c, err);
}

static void close_context(struct tutti_net_context *c)
{
    tutti_network_free(c->net);
    tutti_dataset_close(c->training);
    tutti_dataset_close(c->held_out);
    free(c);
}

/* Adds to *hash what some examples of a set are, which are spread over all of it. */
static int hash_examples(const struct tutti_dataset *set, float *inputs, uint64_t *hash,
                         struct tutti_err *err)
{
    enum { SOME = 1024 };
    const uint64_t taken = set->example_count < SOME ? set->example_count : SOME;
    const uint64_t bytes = tutti_dataset_input_count(set) * sizeof(float);
    int status = 0;

    for (uint64_t i = 0; i < taken && set->file_count > 0 && status == 0; i++) {
        float target = 0;

        status = set->read(set, i * set->example_count / taken, inputs, &target, err);
        *hash = tutti_random_hash(*hash, tutti_hash_of(inputs, bytes),
                                  tutti_hash_of(&target, sizeof(target)), i);
    }
    return status;
}

static int hash_data(const struct tutti_net_context *c, uint64_t *ret, struct tutti_err *err)
{
    float *inputs = calloc(c->input_elements + 1, sizeof(float));
    uint64_t hash = 1;
    int status = inputs == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = hash_examples(c->training, inputs, &hash, err);
    if (status == 0)
        status = hash_examples(c->held_out, inputs, &hash, err);
    free(inputs);
    *ret = hash;
    return status;
}

static int note_facts(const struct tutti_net_context *c, struct tutti_net_learner_facts *ret,
                      struct tutti_err *err)
{
    const struct tutti_feed_ask ask = {.global_batch = c->params.global_batch,
                                       .rank_count = c->params.rank_count,
                                       .drop_remainder = c->params.drop_remainder,
                                       .shard = c->params.shard};
    struct tutti_feed feed;
    int status = tutti_feed_init(&ask, c->training, &feed, err);

    if (status == 0)
        *ret = (struct tutti_net_learner_facts){.examples = c->training->example_count,
                                                .held_out = c->held_out->example_count,
                                                .epoch_steps = feed.epoch_steps,
                                                .classes = c->training->class_count};
    return status < 0 ? status : hash_data(c, &ret->data_hash, err);
}

int tutti_net_learner_new(const struct tutti_net_learner_params *params, struct tutti_learner *ret,
                          struct tutti_net_learner_facts *ret_facts, struct tutti_err *err)
{
    struct tutti_net_context *c = calloc(1, sizeof(*c));
    int status = c == NULL
                     ? tutti_nomem(err)
                     : tutti_take("tutti_net_learner_params", &c->params, sizeof(c->params), params,
                                  TUTTI_BYTES_TO(struct tutti_net_learner_params, dropout), err);

    if (status == 0)
        status = open_context(c, err);
    if (status == 0)
        status = note_facts(c, ret_facts, err);
    if (status < 0) {
        if (c != NULL)
            close_context(c);
        return status;
    }
    *ret = (struct tutti_learner){.size = sizeof(*ret),
                                  .context = c,
                                  .open = open_replica,
                                  .close = close_replica,
                                  .init = init,
                                  .input = input,
                                  .forward = forward,
                                  .backward = backward,
                                  .sums = sums,
                                  .slices = slices,
                                  .evaluate = evaluate,
                                  .device = tutti_gpu_network_can(c->net) ? &net_device : NULL};
    return 0;
}

const struct tutti_net_context *tutti_net_learner_context(const struct tutti_learner *learner)
{
    return learner->init == init ? learner->context : NULL;
}

const char *tutti_train_products_name(void)
{
    struct tutti_blas blas;

    return tutti_blas_open(&blas) ? "OpenBLAS" : "own loops";
}

void tutti_net_learner_regroup(struct tutti_learner *learner, uint32_t rank_count)
{
    struct tutti_net_context *c = learner->context;

    assert(rank_count > 0);
    c->params.rank_count = rank_count;
}

void tutti_net_learner_free(struct tutti_learner *learner)
{
    if (learner->context != NULL)
        close_context(learner->context);
    learner->context = NULL;
}
