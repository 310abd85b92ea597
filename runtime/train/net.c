/* A network made from a workload: which of its operations are one stage, their shapes and
 * variables. */
#include "runtime/train/net.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/stage.h"

/* Beyond these nothing is trained here, and sizes in bytes stay far from overflowing. */
enum { LAYERS_MAX = 4096, ELEMENTS_MAX = 1 << 28, SIDE_MAX = 1 << 14 };

/* What flows from one operation to the next, and how far the reading is. */
struct reader {
    struct tutti_network *net;
    const struct tutti_layer *layer;
    uint32_t variable; /* of the layer: the next to be given to an operation */
    uint64_t offset;   /* elements before it */
    size_t rows;
    size_t columns;
    size_t channels; /* 0: nothing has been read yet */
    bool names_dropout;
    bool ended; /* by the loss */
    struct tutti_err *err;
};

static int refuse(const struct reader *r, const char *name, const char *why)
{
    return tutti_fail(r->err, TUTTI_EINVAL, "layer '%s': operation '%s' cannot be trained here: %s",
                      r->layer->name, name, why);
}

static struct tutti_train_stage *last_stage(const struct reader *r)
{
    struct tutti_network *net = r->net;

    /* A stage does not reach over the end of its layer. */
    if (net->stage_count == net->first_stage[net->layer_count])
        return NULL;
    return &net->stages[net->stage_count - 1];
}

static struct tutti_train_stage *add_stage(struct reader *r, enum tutti_train_stage_kind kind)
{
    struct tutti_train_stage *stage = &r->net->stages[r->net->stage_count++];

    *stage = (struct tutti_train_stage){.kind = kind,
                                        .number = r->net->stage_count - 1,
                                        .layer = r->net->layer_count,
                                        .weight = TUTTI_TRAIN_NO_VARIABLE,
                                        .bias = TUTTI_TRAIN_NO_VARIABLE,
                                        .in_elements = r->rows * r->columns * r->channels,
                                        .out_elements = r->rows * r->columns * r->channels};
    return stage;
}

/* The weights of a product, and its bias where one follows. */
static int take_variables(struct reader *r, const struct tutti_operation *op,
                          struct tutti_train_stage *stage)
{
    const struct tutti_variable *v = &r->layer->variables[r->variable];

    if (r->variable == r->layer->variable_count || v->elements != stage->depth * stage->outputs)
        return refuse(r, op->name, "its variable has another number of elements than its shape");
    stage->weight = r->variable++;
    stage->weight_at = r->offset;
    r->offset += v->elements;
    v++;
    if (r->variable < r->layer->variable_count && strstr(v->name, "bias") != NULL &&
        v->elements == stage->outputs) {
        stage->bias = r->variable++;
        stage->bias_at = r->offset;
        r->offset += v->elements;
    }
    return 0;
}

static int read_dense(struct reader *r, const struct tutti_operation *op)
{
    struct tutti_train_stage *stage;

    if (op->rows != 1 || op->count != 1)
        return refuse(r, op->name, "only products of one row an example can");
    if (op->depth == 0 || op->depth > ELEMENTS_MAX || op->columns == 0 ||
        op->columns > ELEMENTS_MAX / op->depth)
        return refuse(r, op->name, "it is too large");
    if (r->channels == 0) {
        r->rows = r->columns = 1;
        r->channels = (size_t)op->depth;
        r->net->input = (struct tutti_network_input){op->depth, 1, 1, 0, 0};
    }
    stage = add_stage(r, TUTTI_TRAIN_DENSE);
    if (stage->in_elements != op->depth)
        return refuse(r, op->name, "its depth is not what the operation before it leaves");
    stage->depth = (size_t)op->depth;
    stage->outputs = (size_t)op->columns;
    stage->out_elements = stage->outputs;
    r->rows = r->columns = 1;
    r->channels = stage->outputs;
    return take_variables(r, op, stage);
}

/* A table of which each example reads so many rows, all by itself in the first layer. */
static int read_embedding(struct reader *r, const struct tutti_operation *op)
{
    const struct tutti_variable *v = &r->layer->variables[0];
    struct tutti_train_stage *stage;

    if (r->channels > 0 || r->layer->variable_count != 1)
        return refuse(r, op->name, "only an embedding of one table, as the first operation, can");
    if (v->touched_rows == 0 || v->touched_rows > SIDE_MAX || v->rows == 0 ||
        v->rows > ELEMENTS_MAX || v->elements > ELEMENTS_MAX ||
        v->elements != v->rows * op->out_elements)
        return refuse(r, op->name, "its table has no rows of what it leaves, or none are touched");
    r->rows = r->columns = 1;
    r->channels = (size_t)v->touched_rows;
    r->net->input = (struct tutti_network_input){v->touched_rows, 1, 1, 0, 0};
    stage = add_stage(r, TUTTI_TRAIN_EMBEDDING);
    stage->depth = (size_t)v->touched_rows;
    stage->table_rows = (size_t)v->rows;
    stage->outputs = stage->out_elements = (size_t)op->out_elements;
    stage->weight = r->variable++;
    r->offset += v->elements;
    r->channels = stage->outputs;
    return 0;
}

static size_t root_of(uint64_t square)
{
    size_t root = (size_t)sqrt((double)square);

    while (root > 0 && root * root > square)
        root--;
    return (root + 1) * (root + 1) <= square ? root + 1 : root;
}

/* The window of a convolution from what the workload says, positions: without padding and of stride
 * 1, or padded so that every stride-th pixel has one, or without padding of a stride. */
static bool find_window(size_t in, size_t out, struct tutti_window *w)
{
    if (w->kernel > in || out == 0)
        return false;
    w->stride = 1;
    w->pad = 0;
    if (in - w->kernel + 1 == out)
        return true;
    for (w->stride = 1; w->stride <= in; w->stride++) {
        size_t whole = (out - 1) * w->stride + w->kernel;

        w->pad = whole > in ? (whole - in) / 2 : 0;
        if ((in + w->stride - 1) / w->stride == out)
            return true;
    }
    w->pad = 0;
    for (w->stride = 2; w->stride <= in; w->stride++)
        if ((in - w->kernel) / w->stride + 1 == out)
            return true;
    return false;
}

static int read_convolution(struct reader *r, const struct tutti_operation *op)
{
    const struct tutti_variable *v = &r->layer->variables[r->variable];
    struct tutti_window w = {0};
    struct tutti_train_stage *stage;
    size_t out = root_of(op->rows);

    if (op->count != 1)
        return refuse(r, op->name, "it has groups");
    if (r->variable == r->layer->variable_count || v->rows == 0 || v->rows > SIDE_MAX ||
        op->depth % (v->rows * v->rows) != 0)
        return refuse(r, op->name, "its kernel is no square");
    w.kernel = (size_t)v->rows;
    w.channels = (size_t)(op->depth / (v->rows * v->rows));
    if (w.channels == 0 || op->depth > ELEMENTS_MAX || op->columns == 0 ||
        op->columns > ELEMENTS_MAX / op->depth || op->in_elements > ELEMENTS_MAX ||
        op->rows > ELEMENTS_MAX / op->columns)
        return refuse(r, op->name, "it is too large");
    if (r->channels == 0) {
        r->channels = w.channels;
        r->rows = r->columns = root_of(op->in_elements / w.channels);
        r->net->input = (struct tutti_network_input){r->channels, r->rows, r->columns, 0, 0};
    }
    if (r->channels != w.channels || r->rows != r->columns || r->rows > SIDE_MAX ||
        r->rows * r->columns * r->channels != op->in_elements || out * out != op->rows ||
        !find_window(r->rows, out, &w))
        return refuse(r, op->name, "its shape is not that of a convolution of a square image");
    stage = add_stage(r, TUTTI_TRAIN_CONVOLUTION);
    stage->depth = (size_t)op->depth;
    stage->outputs = (size_t)op->columns;
    w.rows = r->rows;
    w.columns = r->columns;
    w.out_rows = w.out_columns = out;
    stage->window = w;
    stage->out_elements = out * out * stage->outputs;
    r->rows = r->columns = out;
    r->channels = stage->outputs;
    return take_variables(r, op, stage);
}

static int read_pool(struct reader *r, const struct tutti_operation *op)
{
    struct tutti_train_stage *stage = last_stage(r);
    size_t out = r->rows / 2;

    if (stage == NULL || stage->kind != TUTTI_TRAIN_CONVOLUTION || stage->pooled)
        return refuse(r, op->name, "only a pooling right after a convolution of its layer can");
    if (out == 0 || op->out_elements != out * out * r->channels)
        return refuse(r, op->name, "only a pooling of 2 x 2 and stride 2 can");
    stage->pooled = true;
    stage->pool = (struct tutti_window){.rows = r->rows,
                                        .columns = r->columns,
                                        .channels = r->channels,
                                        .kernel = 2,
                                        .stride = 2,
                                        .out_rows = out,
                                        .out_columns = out};
    stage->out_elements = out * out * r->channels;
    r->rows = r->columns = out;
    return 0;
}

static int read_elementwise(struct reader *r, const struct tutti_operation *op)
{
    struct tutti_train_stage *stage = last_stage(r);

    if (strncmp(op->name, "pool", 4) == 0)
        return read_pool(r, op);
    if (strncmp(op->name, "dropout", 7) == 0 && r->channels > 0 && r->net->stage_count > 0) {
        if (r->net->dropout > 0)
            (void)add_stage(r, TUTTI_TRAIN_DROPOUT);
        return 0;
    }
    if (strncmp(op->name, "relu", 4) != 0)
        return refuse(r, op->name, "only relu, pool and dropout can of those that are no product");
    if (stage == NULL || stage->kind == TUTTI_TRAIN_DROPOUT || stage->relu || stage->pooled)
        return refuse(r, op->name, "only a relu right after a product of its layer can");
    stage->relu = true;
    if (stage->kind == TUTTI_TRAIN_DENSE && !r->names_dropout && r->net->dropout > 0)
        (void)add_stage(r, TUTTI_TRAIN_DROPOUT);
    return 0;
}

static int read_operation(struct reader *r, const struct tutti_operation *op)
{
    if (r->ended)
        return refuse(r, op->name, "it stands behind the loss");
    switch (op->kind) {
    case TUTTI_WORK_MATMUL:
        return read_dense(r, op);
    case TUTTI_WORK_CONVOLUTION:
        return read_convolution(r, op);
    case TUTTI_WORK_ELEMENTWISE:
        return read_elementwise(r, op);
    case TUTTI_WORK_EMBEDDING:
        return read_embedding(r, op);
    case TUTTI_WORK_LOSS:
        r->ended = true;
        return 0;
    default:
        return refuse(r, op->name,
                      "its kind is none of matmul, convolution, embedding, elementwise and loss");
    }
}

static int read_layer(struct reader *r, const struct tutti_layer *layer, uint32_t repeat)
{
    struct tutti_network *net = r->net;
    struct tutti_network_layer *l = &net->layers[net->layer_count];
    struct tutti_network_variable *variables =
        tutti_arena_take(net->arena, layer->variable_count, sizeof(*variables));
    int status = variables == NULL ? tutti_nomem(r->err) : 0;

    r->layer = layer;
    r->variable = 0;
    r->offset = 0;
    net->first_stage[net->layer_count] = net->stage_count;
    l->in_elements = r->rows * r->columns * r->channels;
    if (layer->is_frozen)
        return tutti_fail(r->err, TUTTI_EINVAL, "layer '%s' is frozen", layer->name);
    for (uint32_t i = 0; i < layer->operation_count && status == 0; i++)
        status = read_operation(r, &layer->operations[i]);
    if (status < 0)
        return status;
    if (r->variable < layer->variable_count)
        return tutti_fail(r->err, TUTTI_EINVAL,
                          "layer '%s': variable '%s' belongs to no operation that can be trained",
                          layer->name, layer->variables[r->variable].name);
    if (l->in_elements == 0)
        l->in_elements = net->input.rows * net->input.columns * net->input.channels;
    l->out_elements = r->rows * r->columns * r->channels;
    (void)snprintf(l->name, sizeof(l->name), layer->repeat > 1 ? "%.40s.%u" : "%.40s", layer->name,
                   repeat);
    for (uint32_t i = 0; i < layer->variable_count; i++) {
        (void)snprintf(variables[i].name, sizeof(variables[i].name), "%.63s",
                       layer->variables[i].name);
        variables[i].elements = layer->variables[i].elements;
        l->elements += variables[i].elements;
    }
    l->variables = variables;
    l->variable_count = layer->variable_count;
    net->first_stage[++net->layer_count] = net->stage_count;
    return 0;
}

/* Layers, each repeat by itself, and stages that there may be at most. */
static int count(const struct tutti_workload *model, struct reader *r, uint64_t *ret_layers,
                 uint64_t *ret_stages)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *l = &model->layers[i];

        *ret_layers += l->repeat;
        *ret_stages += 2 * (uint64_t)l->repeat * l->operation_count;
        for (uint32_t j = 0; j < l->operation_count; j++)
            r->names_dropout =
                r->names_dropout || strncmp(l->operations[j].name, "dropout", 7) == 0;
    }
    if (*ret_layers > LAYERS_MAX || *ret_stages > 16 * LAYERS_MAX)
        return tutti_fail(r->err, TUTTI_EINVAL, "it has more than %d layers", LAYERS_MAX);
    return 0;
}

static int read_model(const struct tutti_workload *model, struct tutti_network *net,
                      struct tutti_err *err)
{
    struct reader r = {.net = net, .err = err};
    uint64_t layers = 0;
    uint64_t stages = 0;
    int status = count(model, &r, &layers, &stages);

    if (status < 0)
        return status;
    net->layers = tutti_arena_take(net->arena, (size_t)layers, sizeof(*net->layers));
    net->first_stage = tutti_arena_take(net->arena, (size_t)layers + 1, sizeof(uint32_t));
    net->stages = tutti_arena_take(net->arena, (size_t)stages, sizeof(*net->stages));
    if (net->layers == NULL || net->first_stage == NULL || net->stages == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t repeat = 0; repeat < model->layers[i].repeat && status == 0; repeat++)
            status = read_layer(&r, &model->layers[i], repeat);
    if (status < 0)
        return status;
    if (net->stage_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "it has no product");
    if (model->sample == TUTTI_SAMPLE_IMAGE || net->stages[0].kind == TUTTI_TRAIN_EMBEDDING)
        net->input.classes = net->stages[net->stage_count - 1].out_elements;
    else
        net->input.targets = net->stages[net->stage_count - 1].out_elements;
    return 0;
}

/* Models of the catalogue say what their operations cost, not all of what they compute: which these
 * compute is known. */
static int check_name(const struct tutti_workload *model, struct tutti_err *err)
{
    static const char *const known[] = {"linear-regression", "mlp", "cifar10-cnn", "bag-of-words"};
    struct tutti_model_entry entry;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(model->name, known[i]) == 0)
            return 0;
    for (size_t i = 0; tutti_model_at(i, &entry); i++)
        if (strcmp(model->name, entry.name) == 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "its operations cannot be computed here (linear-regression, mlp, "
                              "cifar10-cnn, bag-of-words, or a model of one's own text)");
    if (model->sample == TUTTI_SAMPLE_SEQUENCE)
        return tutti_fail(err, TUTTI_EINVAL, "its samples are sequences (images or rows can)");
    return 0;
}

int tutti_network_new(const struct tutti_workload *model, const struct tutti_network_params *params,
                      struct tutti_network **ret, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_network *net = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*net));
    int status;

    if (net == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    net->arena = arena;
    net->dtype = params->dtype;
    net->dropout = params->dropout;
    status = check_name(model, err);
    if (status == 0 && params->dtype != TUTTI_FLOAT32 && params->dtype != TUTTI_FLOAT16 &&
        params->dtype != TUTTI_BFLOAT16)
        status = tutti_fail(err, TUTTI_EINVAL, "data type '%s' (float, half or bfloat16)",
                            tutti_dtype_name(params->dtype));
    if (status == 0 && !(params->dropout >= 0 && params->dropout < 1))
        status =
            tutti_fail(err, TUTTI_EINVAL, "dropout of %g (0 to below 1)", (double)params->dropout);
    if (status == 0)
        status = read_model(model, net, err);
    if (status < 0) {
        (void)tutti_wrap(err, status, "model '%s'", model->name);
        tutti_arena_free(arena);
        return status;
    }
    net->products = params->products;
    net->has_own = params->products == NULL;
    if (net->has_own) {
        tutti_products_open(1, &net->own);
        net->products = &net->own;
    }
    *ret = net;
    return 0;
}

void tutti_network_free(struct tutti_network *net)
{
    if (net == NULL)
        return;
    if (net->has_own)
        tutti_products_close(&net->own);
    tutti_arena_free(net->arena);
}

uint32_t tutti_network_layer_count(const struct tutti_network *net)
{
    return net->layer_count;
}

const struct tutti_network_layer *tutti_network_layer(const struct tutti_network *net,
                                                      uint32_t layer)
{
    assert(layer < net->layer_count);
    return &net->layers[layer];
}

uint64_t tutti_network_elements(const struct tutti_network *net)
{
    uint64_t elements = 0;

    for (uint32_t i = 0; i < net->layer_count; i++)
        elements += net->layers[i].elements;
    return elements;
}

struct tutti_network_input tutti_network_input(const struct tutti_network *net)
{
    return net->input;
}

void tutti_network_init(const struct tutti_network *net, uint64_t seed, uint32_t layer,
                        float *weights)
{
    assert(layer < net->layer_count);
    memset(weights, 0, (size_t)net->layers[layer].elements * sizeof(*weights));
    for (uint32_t i = net->first_stage[layer]; i < net->first_stage[layer + 1]; i++) {
        const struct tutti_train_stage *stage = &net->stages[i];
        size_t area = stage->kind == TUTTI_TRAIN_CONVOLUTION
                          ? stage->window.kernel * stage->window.kernel
                          : 1;
        double limit = sqrt(6 / (double)(stage->depth + area * stage->outputs));
        size_t elements = stage->depth * stage->outputs;
        struct tutti_random random;

        if (stage->kind == TUTTI_TRAIN_DROPOUT)
            continue;
        tutti_random_seed(&random, tutti_random_hash(seed, layer, stage->weight, 0x1217));
        if (stage->kind == TUTTI_TRAIN_EMBEDDING) { /* as Keras: uniform in [-0.05, 0.05) */
            limit = 0.05;
            elements = stage->table_rows * stage->outputs;
        }
        for (size_t j = 0; j < elements; j++)
            weights[stage->weight_at + j] = (float)((2 * tutti_random_unit(&random) - 1) * limit);
    }
}
