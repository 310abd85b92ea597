/* A network on a device: the stages of stage.h, by kernels; all examples of a convolution at a
 * time, as far as its columns have room. */
#include <assert.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/gpu_net.h"

#define PUT(GPU, KERNEL, ...)                                      \
    (GPU)->queue->ops->launch((GPU)->queue, TUTTI_KERNEL_##KERNEL, \
                              &(const struct tutti_kernel_args){__VA_ARGS__}, err)

static uint32_t kind_of(enum tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT16    ? TUTTI_KERNEL_HALF
           : dtype == TUTTI_BFLOAT16 ? TUTTI_KERNEL_BRAIN
                                     : TUTTI_KERNEL_FLOAT;
}

static struct tutti_kernel_window window_of(const struct tutti_window *w)
{
    return (struct tutti_kernel_window){.rows = (uint32_t)w->rows,
                                        .columns = (uint32_t)w->columns,
                                        .channels = (uint32_t)w->channels,
                                        .kernel = (uint32_t)w->kernel,
                                        .stride = (uint32_t)w->stride,
                                        .pad = (uint32_t)w->pad,
                                        .out_rows = (uint32_t)w->out_rows,
                                        .out_columns = (uint32_t)w->out_columns};
}

/* ---- what stages share ----------------------------------------------------------------------- */

static int round_to(struct tutti_gpu_network *gpu, float *to, const float *from, uint64_t count,
                    struct tutti_err *err)
{
    if (gpu->net->dtype == TUTTI_FLOAT32)
        return to == from ? 0
                          : gpu->queue->ops->copy(gpu->queue, to, from, count * sizeof(float), err);
    return PUT(gpu, round, .to = to, .from = from, .count = count,
               .kind = kind_of(gpu->net->dtype));
}

/* The weights of a stage as its product reads them. */
static int weights_of(struct tutti_gpu_network *gpu, const struct tutti_train_stage *stage,
                      const float *const *variables, const float **ret, struct tutti_err *err)
{
    *ret = variables[stage->weight];
    if (gpu->net->dtype == TUTTI_FLOAT32)
        return 0;
    *ret = gpu->rounded;
    return round_to(gpu, gpu->rounded, variables[stage->weight], stage->depth * stage->outputs,
                    err);
}

static const float *bias_of(const struct tutti_train_stage *stage, const float *const *variables)
{
    return stage->bias == TUTTI_TRAIN_NO_VARIABLE ? NULL : variables[stage->bias];
}

static const float *inputs_of(const struct tutti_gpu_network *gpu, uint32_t index)
{
    if (index > 0)
        return gpu->values[index - 1];
    return gpu->inputs != NULL ? gpu->inputs : gpu->raw;
}

static uint64_t parts_for(uint64_t rows)
{
    uint64_t parts = rows / TUTTI_GPU_PART_ROWS;

    return parts < 1 ? 1 : parts > TUTTI_GPU_PARTS_MAX ? TUTTI_GPU_PARTS_MAX : parts;
}

static int bias_backward(struct tutti_gpu_network *gpu, const struct tutti_train_stage *stage,
                         const float *slopes, uint64_t rows, float *const *gradients, bool add,
                         struct tutti_err *err)
{
    const uint64_t parts = parts_for(rows);
    int status;

    if (stage->bias == TUTTI_TRAIN_NO_VARIABLE)
        return 0;
    status = PUT(gpu, column_sums, .from = slopes, .sums = gpu->parts, .rows = rows,
                 .columns = stage->outputs, .part_count = parts, .count = parts * stage->outputs);
    return status < 0 ? status
                      : PUT(gpu, column_totals, .to = gradients[stage->bias], .parts = gpu->parts,
                            .part_count = parts, .count = stage->outputs, .add = add);
}

static int multiply(struct tutti_gpu_network *gpu, struct tutti_product product,
                    struct tutti_err *err)
{
    return gpu->queue->ops->multiply(gpu->queue, &product, err);
}

/* ---- forward --------------------------------------------------------------------------------- */

static int dense_forward(struct tutti_gpu_network *gpu, uint32_t index,
                         const float *const *variables, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const float *weights;
    int status = weights_of(gpu, stage, variables, &weights, err);

    if (status == 0)
        status = multiply(gpu,
                          (struct tutti_product){.rows = gpu->batch.count,
                                                 .columns = stage->outputs,
                                                 .depth = stage->depth,
                                                 .a = inputs_of(gpu, index),
                                                 .b = weights,
                                                 .c = gpu->values[index]},
                          err);
    return status < 0 ? status
                      : PUT(gpu, bias, .to = gpu->values[index], .other = bias_of(stage, variables),
                            .columns = stage->outputs, .count = gpu->batch.count * stage->outputs,
                            .relu = stage->relu);
}

/* The windows of `count` examples from `first` on. */
static int take_columns(struct tutti_gpu_network *gpu, uint32_t index, uint64_t first,
                        uint64_t count, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];

    return PUT(gpu, window_columns, .to = gpu->columns,
               .from = inputs_of(gpu, index) + first * stage->in_elements,
               .window = window_of(&stage->window),
               .count = count * tutti_gpu_positions(stage) * stage->depth);
}

static int convolve(struct tutti_gpu_network *gpu, uint32_t index, const float *weights,
                    const float *bias, uint64_t first, uint64_t count, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const uint64_t rows = count * tutti_gpu_positions(stage);
    float *values = gpu->values[index] + first * stage->out_elements;
    float *to = stage->pooled ? gpu->image : values;
    int status = take_columns(gpu, index, first, count, err);

    if (status == 0)
        status = multiply(gpu,
                          (struct tutti_product){.rows = (size_t)rows,
                                                 .columns = stage->outputs,
                                                 .depth = stage->depth,
                                                 .a = gpu->columns,
                                                 .b = weights,
                                                 .c = to},
                          err);
    if (status < 0)
        return status;
    if (!stage->pooled)
        return PUT(gpu, bias, .to = to, .other = bias, .columns = stage->outputs,
                   .count = rows * stage->outputs, .relu = stage->relu);
    return PUT(gpu, pool, .to = values, .from = gpu->image, .other = bias,
               .bytes = gpu->which[index] + first * stage->out_elements,
               .window = window_of(&stage->pool), .count = count * stage->out_elements,
               .relu = stage->relu);
}

static int convolution_forward(struct tutti_gpu_network *gpu, uint32_t index,
                               const float *const *variables, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const uint64_t together = gpu->together[index];
    const float *weights;
    int status = weights_of(gpu, stage, variables, &weights, err);

    for (uint64_t at = 0; at < gpu->batch.count && status == 0; at += together) {
        uint64_t count = gpu->batch.count - at < together ? gpu->batch.count - at : together;

        status = convolve(gpu, index, weights, bias_of(stage, variables), at, count, err);
    }
    return status;
}

/* As dropout.c draws. */
static int dropout_forward(struct tutti_gpu_network *gpu, uint32_t index, struct tutti_err *err)
{
    const struct tutti_network_batch *batch = &gpu->batch;
    const uint32_t below = (uint32_t)(gpu->net->dropout * 65536);
    int status;

    for (uint64_t i = 0; i < batch->count; i++) {
        uint64_t example = batch->examples != NULL ? batch->examples[i] : batch->first_example + i;
        struct tutti_random random;

        tutti_random_seed(&random,
                          tutti_random_hash(tutti_random_hash(batch->seed, index, 0xd709, 0),
                                            batch->step, example, 0));
        for (int k = 0; k < 4; k++)
            gpu->drawn_from[4 * i + (uint64_t)k] = random.state[k];
    }
    status = gpu->queue->ops->upload(gpu->queue, gpu->states, gpu->drawn_from,
                                     4 * batch->count * sizeof(uint64_t), err);
    return status < 0 ? status
                      : PUT(gpu, dropout, .to = gpu->masks[index], .too = gpu->values[index],
                            .states = gpu->states, .count = batch->count,
                            .columns = gpu->net->stages[index].out_elements, .below = below,
                            .scale = 65536 / (float)(65536 - below));
}

static int loss_forward(struct tutti_gpu_network *gpu, struct tutti_err *err)
{
    const struct tutti_network_input *input = &gpu->net->input;
    const float *outputs = gpu->values[gpu->net->stage_count - 1];

    gpu->turn = 0;
    if (input->classes > 0)
        return PUT(gpu, cross_entropy, .to = gpu->gradients[0], .from = outputs,
                   .labels = gpu->labels, .sums = gpu->scores, .count = gpu->batch.count,
                   .columns = input->classes, .scale = gpu->batch.gradient_scale);
    return PUT(gpu, square_error, .to = gpu->gradients[0], .from = outputs, .other = gpu->targets,
               .sums = gpu->scores, .count = gpu->batch.count * input->targets,
               .scale = 2 * gpu->batch.gradient_scale / (float)input->targets);
}

bool tutti_gpu_network_can(const struct tutti_network *net)
{
    for (uint32_t i = 0; i < net->stage_count; i++)
        if (net->stages[i].kind == TUTTI_TRAIN_EMBEDDING)
            return false;
    return true;
}

int tutti_gpu_network_begin(struct tutti_gpu_network *gpu, const struct tutti_network_batch *batch,
                            struct tutti_err *err)
{
    const struct tutti_network *net = gpu->net;
    const struct tutti_device_queue_ops *ops = gpu->queue->ops;
    const uint64_t elements = net->stages[0].in_elements;
    const uint64_t count = batch->count * elements;
    int status;

    assert(batch->count <= gpu->max_batch);
    gpu->batch = *batch;
    status = ops->upload(gpu->queue, gpu->raw, batch->inputs, count * sizeof(float), err);
    if (status == 0 && batch->labels != NULL)
        status = ops->upload(gpu->queue, gpu->labels, batch->labels,
                             batch->count * sizeof(*batch->labels), err);
    if (status == 0 && batch->targets != NULL)
        status = ops->upload(gpu->queue, gpu->targets, batch->targets,
                             batch->count * net->input.targets * sizeof(float), err);
    if (status < 0 || gpu->inputs == NULL)
        return status;
    if (net->stages[0].kind != TUTTI_TRAIN_CONVOLUTION)
        return round_to(gpu, gpu->inputs, gpu->raw, count, err);
    status = PUT(gpu, turn, .to = gpu->inputs, .from = gpu->raw, .count = count,
                 .columns = net->input.channels, .depth = net->input.rows * net->input.columns);
    return status < 0 ? status : round_to(gpu, gpu->inputs, gpu->inputs, count, err);
}

int tutti_gpu_network_forward(struct tutti_gpu_network *gpu, uint32_t layer,
                              const float *const *variables, struct tutti_err *err)
{
    const struct tutti_network *net = gpu->net;
    int status = 0;

    assert(layer < net->layer_count);
    if (gpu->batch.count == 0)
        return 0;
    for (uint32_t i = net->first_stage[layer]; i < net->first_stage[layer + 1] && status == 0;
         i++) {
        const struct tutti_train_stage *stage = &net->stages[i];

        if (stage->kind == TUTTI_TRAIN_DENSE)
            status = dense_forward(gpu, i, variables, err);
        else if (stage->kind == TUTTI_TRAIN_CONVOLUTION)
            status = convolution_forward(gpu, i, variables, err);
        else if (gpu->batch.training)
            status = dropout_forward(gpu, i, err);
        /* Logits stay as they are. */
        if (status == 0 && i + 1 < net->stage_count)
            status = round_to(gpu, gpu->values[i], gpu->values[i],
                              gpu->batch.count * stage->out_elements, err);
    }
    return status == 0 && layer + 1 == net->layer_count ? loss_forward(gpu, err) : status;
}

int tutti_gpu_network_sums(struct tutti_gpu_network *gpu, double *sums, uint32_t *ret_examples,
                           struct tutti_err *err)
{
    const uint64_t targets = gpu->net->input.targets;
    const uint64_t rows = gpu->batch.count * (targets > 0 ? targets : 1);
    const uint64_t parts = parts_for(rows);
    int status;

    *ret_examples = gpu->batch.count;
    if (rows == 0)
        return 0;
    status = PUT(gpu, part_sums, .parts = gpu->scores, .sums = gpu->totals, .rows = rows,
                 .columns = 2, .part_count = parts, .count = 2 * parts);
    return status < 0 ? status
                      : PUT(gpu, add_sums, .parts = gpu->totals, .sums = sums, .count = 2,
                            .part_count = parts, .factor = targets > 0 ? 1 / (double)targets : 1);
}

/* ---- backward -------------------------------------------------------------------------------- */

static int dense_backward(struct tutti_gpu_network *gpu, uint32_t index,
                          const float *const *variables, float *slopes, float *in_slopes,
                          float *const *gradients, bool add, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const size_t count = gpu->batch.count;
    const float *weights;
    int status = bias_backward(gpu, stage, slopes, count, gradients, add, err);

    if (status == 0)
        status = multiply(gpu,
                          (struct tutti_product){.rows = stage->depth,
                                                 .columns = stage->outputs,
                                                 .depth = count,
                                                 .a = inputs_of(gpu, index),
                                                 .transpose_a = true,
                                                 .b = slopes,
                                                 .c = gradients[stage->weight],
                                                 .add = add},
                          err);
    if (status == 0 && in_slopes != NULL)
        status = weights_of(gpu, stage, variables, &weights, err);
    if (status == 0 && in_slopes != NULL)
        status = multiply(gpu,
                          (struct tutti_product){.rows = count,
                                                 .columns = stage->depth,
                                                 .depth = stage->outputs,
                                                 .a = slopes,
                                                 .b = weights,
                                                 .transpose_b = true,
                                                 .c = in_slopes},
                          err);
    return status;
}

/* What the backward pass of a convolution needs beside the stage. */
struct turning {
    const float *weights;
    float *slopes;
    float *in_slopes; /* NULL: nobody asks */
    float *gradient;  /* of the weights */
    bool add;
};

static int convolve_back(struct tutti_gpu_network *gpu, uint32_t index, const struct turning *t,
                         uint64_t first, uint64_t count, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const size_t rows = (size_t)count * tutti_gpu_positions(stage);
    const float *after = t->slopes + first * stage->out_elements;
    int status = 0;

    if (stage->pooled) {
        status = PUT(gpu, pool_backward, .to = gpu->image, .from = after,
                     .from_bytes = gpu->which[index] + first * stage->out_elements,
                     .window = window_of(&stage->pool), .count = rows * stage->outputs);
        after = gpu->image;
    }
    if (status == 0)
        status = take_columns(gpu, index, first, count, err);
    if (status == 0)
        status = multiply(gpu,
                          (struct tutti_product){.rows = stage->depth,
                                                 .columns = stage->outputs,
                                                 .depth = rows,
                                                 .a = gpu->columns,
                                                 .transpose_a = true,
                                                 .b = after,
                                                 .c = t->gradient,
                                                 .add = t->add || first > 0},
                          err);
    if (status < 0 || t->in_slopes == NULL)
        return status;
    status = multiply(gpu,
                      (struct tutti_product){.rows = rows,
                                             .columns = stage->depth,
                                             .depth = stage->outputs,
                                             .a = after,
                                             .b = t->weights,
                                             .transpose_b = true,
                                             .c = gpu->column_slopes},
                      err);
    return status < 0 ? status
                      : PUT(gpu, window_image, .to = t->in_slopes + first * stage->in_elements,
                            .from = gpu->column_slopes, .window = window_of(&stage->window),
                            .count = count * stage->in_elements);
}

static int convolution_backward(struct tutti_gpu_network *gpu, uint32_t index,
                                const float *const *variables, float *slopes, float *in_slopes,
                                float *const *gradients, bool add, struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const uint64_t together = gpu->together[index];
    struct turning t = {
        .slopes = slopes, .in_slopes = in_slopes, .gradient = gradients[stage->weight], .add = add};
    int status =
        bias_backward(gpu, stage, slopes, gpu->batch.count * (stage->out_elements / stage->outputs),
                      gradients, add, err);

    if (status == 0)
        status = weights_of(gpu, stage, variables, &t.weights, err);
    for (uint64_t at = 0; at < gpu->batch.count && status == 0; at += together) {
        uint64_t count = gpu->batch.count - at < together ? gpu->batch.count - at : together;

        status = convolve_back(gpu, index, &t, at, count, err);
    }
    return status;
}

/* An empty batch has gradients of zeros. */
static int no_gradients(struct tutti_gpu_network *gpu, uint32_t layer, float *const *gradients,
                        struct tutti_err *err)
{
    const struct tutti_network_layer *l = &gpu->net->layers[layer];
    int status = 0;

    for (uint32_t v = 0; v < l->variable_count && status == 0; v++)
        status = gpu->queue->ops->clear(gpu->queue, gradients[v],
                                        l->variables[v].elements * sizeof(float), err);
    return status;
}

static int stage_backward(struct tutti_gpu_network *gpu, uint32_t index,
                          const float *const *variables, float *const *gradients, bool add,
                          struct tutti_err *err)
{
    const struct tutti_train_stage *stage = &gpu->net->stages[index];
    const uint64_t count = gpu->batch.count * (uint64_t)stage->out_elements;
    float *slopes = gpu->gradients[gpu->turn];
    float *in_slopes = index == 0 ? NULL : gpu->gradients[1 - gpu->turn];
    int status = round_to(gpu, slopes, slopes, count, err);

    if (status == 0 && stage->kind == TUTTI_TRAIN_DROPOUT)
        return PUT(gpu, multiply, .to = slopes, .from = gpu->masks[index], .count = count);
    /* A maximum that relu has cleared passes nothing on: where there are fewer elements. */
    if (status == 0 && stage->relu)
        status = PUT(gpu, relu_backward, .to = slopes, .from = gpu->values[index], .count = count);
    gpu->turn = 1 - gpu->turn;
    if (status < 0)
        return status;
    return stage->kind == TUTTI_TRAIN_DENSE
               ? dense_backward(gpu, index, variables, slopes, in_slopes, gradients, add, err)
               : convolution_backward(gpu, index, variables, slopes, in_slopes, gradients, add,
                                      err);
}

int tutti_gpu_network_backward(struct tutti_gpu_network *gpu, uint32_t layer,
                               const float *const *variables, float *const *gradients, bool add,
                               struct tutti_err *err)
{
    const struct tutti_network *net = gpu->net;
    int status = 0;

    assert(layer < net->layer_count);
    assert(gpu->batch.training);
    if (gpu->batch.count == 0)
        return add ? 0 : no_gradients(gpu, layer, gradients, err);
    for (uint32_t i = net->first_stage[layer + 1]; i-- > net->first_stage[layer] && status == 0;)
        status = stage_backward(gpu, i, variables, gradients, add, err);
    return status;
}
