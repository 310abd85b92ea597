/* The memory of a network on a device: everything for batches of up to a size, taken once. */
#include <stdlib.h>

#include "runtime/status.h"
#include "runtime/train/gpu_net.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What has failed is in `status`, and nothing is taken after it. */
struct taking {
    struct tutti_device_queue *queue;
    struct tutti_err *err;
    int status;
};

static void *take(struct taking *t, uint64_t bytes)
{
    void *at = NULL;

    if (t->status == 0)
        t->status = t->queue->ops->alloc(t->queue, bytes + 64, &at, t->err);
    return at;
}

static void *take_floats(struct taking *t, uint64_t count)
{
    return take(t, count * sizeof(float));
}

/* Elements of the largest of each buffer. */
struct sizes {
    size_t slopes;
    size_t columns;
    size_t image;
    size_t weights;
    size_t outputs;
};

static struct sizes measure(struct tutti_gpu_network *gpu)
{
    const struct tutti_network *net = gpu->net;
    struct sizes s = {.outputs = 2};

    for (uint32_t i = 0; i < net->stage_count; i++) {
        const struct tutti_train_stage *stage = &net->stages[i];
        size_t columns = tutti_gpu_positions(stage) * stage->depth;
        size_t room = columns > 0 ? TUTTI_GPU_COLUMN_ELEMENTS / columns : 0;

        gpu->together[i] = room == 0 ? 1 : room < gpu->max_batch ? (uint32_t)room : gpu->max_batch;
        s.slopes = larger(s.slopes, stage->out_elements);
        if (i > 0)
            s.slopes = larger(s.slopes, stage->in_elements);
        s.columns = larger(s.columns, columns * gpu->together[i]);
        s.image = larger(s.image, tutti_gpu_positions(stage) * stage->outputs * gpu->together[i]);
        s.weights = larger(s.weights, stage->depth * stage->outputs);
        s.outputs = larger(s.outputs, stage->outputs);
    }
    return s;
}

static void take_stages(struct tutti_gpu_network *gpu, struct taking *t)
{
    const struct tutti_network *net = gpu->net;

    for (uint32_t i = 0; i < net->stage_count; i++) {
        const struct tutti_train_stage *stage = &net->stages[i];
        const uint64_t count = gpu->max_batch * (uint64_t)stage->out_elements;

        if (stage->kind == TUTTI_TRAIN_DROPOUT) {
            gpu->values[i] = gpu->values[i - 1];
            gpu->masks[i] = take_floats(t, count);
            continue;
        }
        gpu->values[i] = take_floats(t, count);
        if (stage->pooled)
            gpu->which[i] = take(t, count);
    }
}

static int take_all(struct tutti_gpu_network *gpu, struct tutti_err *err)
{
    const struct tutti_network *net = gpu->net;
    const struct sizes s = measure(gpu);
    const uint64_t batch = gpu->max_batch;
    const uint64_t rows = batch * (net->input.targets > 0 ? net->input.targets : 1);
    struct taking t = {.queue = gpu->queue, .err = err};

    take_stages(gpu, &t);
    gpu->raw = take_floats(&t, batch * net->stages[0].in_elements);
    if (net->dtype != TUTTI_FLOAT32 || net->stages[0].kind == TUTTI_TRAIN_CONVOLUTION)
        gpu->inputs = take_floats(&t, batch * net->stages[0].in_elements);
    gpu->targets = take_floats(&t, rows);
    gpu->labels = take(&t, batch * sizeof(*gpu->labels));
    for (int i = 0; i < 2; i++)
        gpu->gradients[i] = take_floats(&t, batch * s.slopes);
    gpu->columns = take_floats(&t, s.columns);
    gpu->column_slopes = take_floats(&t, s.columns);
    gpu->image = take_floats(&t, s.image);
    gpu->rounded = take_floats(&t, net->dtype == TUTTI_FLOAT32 ? 0 : s.weights);
    gpu->parts = take(&t, TUTTI_GPU_PARTS_MAX * s.outputs * sizeof(double));
    gpu->scores = take(&t, 2 * rows * sizeof(double));
    gpu->totals = take(&t, 2 * TUTTI_GPU_PARTS_MAX * sizeof(double));
    gpu->states = take(&t, 4 * batch * sizeof(uint64_t));
    return t.status;
}

int tutti_gpu_network_new(const struct tutti_network *net, uint32_t max_batch,
                          struct tutti_device_queue *queue, struct tutti_gpu_network **ret,
                          struct tutti_err *err)
{
    struct tutti_gpu_network *gpu = calloc(1, sizeof(*gpu));
    const size_t stages = (size_t)net->stage_count + 1;
    int status;

    if (gpu == NULL)
        return tutti_nomem(err);
    *gpu = (struct tutti_gpu_network){.net = net,
                                      .queue = queue,
                                      .max_batch = max_batch == 0 ? 1 : max_batch,
                                      .values = calloc(stages, sizeof(float *)),
                                      .which = calloc(stages, sizeof(uint8_t *)),
                                      .masks = calloc(stages, sizeof(float *)),
                                      .together = calloc(stages, sizeof(uint32_t))};
    gpu->drawn_from = calloc(gpu->max_batch, 4 * sizeof(uint64_t));
    if (gpu->values == NULL || gpu->which == NULL || gpu->masks == NULL || gpu->together == NULL ||
        gpu->drawn_from == NULL)
        status = tutti_nomem(err);
    else
        status = take_all(gpu, err);
    if (status < 0)
        tutti_gpu_network_free(gpu);
    else
        *ret = gpu;
    return status;
}

static void free_stages(struct tutti_gpu_network *gpu)
{
    for (uint32_t i = 0; i < gpu->net->stage_count; i++) {
        if (gpu->values != NULL && gpu->net->stages[i].kind != TUTTI_TRAIN_DROPOUT)
            gpu->queue->ops->free(gpu->queue, gpu->values[i]);
        if (gpu->which != NULL)
            gpu->queue->ops->free(gpu->queue, gpu->which[i]);
        if (gpu->masks != NULL)
            gpu->queue->ops->free(gpu->queue, gpu->masks[i]);
    }
}

static void free_rest(struct tutti_gpu_network *gpu)
{
    void *const taken[] = {gpu->raw,          gpu->inputs,       gpu->targets, gpu->labels,
                           gpu->gradients[0], gpu->gradients[1], gpu->columns, gpu->column_slopes,
                           gpu->image,        gpu->rounded,      gpu->parts,   gpu->scores,
                           gpu->totals,       gpu->states};

    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
        gpu->queue->ops->free(gpu->queue, taken[i]);
}

void tutti_gpu_network_free(struct tutti_gpu_network *gpu)
{
    if (gpu == NULL)
        return;
    free_stages(gpu);
    free_rest(gpu);
    free(gpu->values);
    free(gpu->which);
    free(gpu->masks);
    free(gpu->together);
    free(gpu->drawn_from);
    free(gpu);
}
