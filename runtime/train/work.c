/* What a rank works in, and the passes through its stages. */
#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/train/convert.h"
#include "runtime/train/stage.h"

/* Elements of the largest of each buffer. */
struct sizes {
    size_t slopes; /* of one example */
    size_t columns;
    size_t image;
    size_t weights;
    size_t sums;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct sizes sizes_of(const struct tutti_network *net)
{
    struct sizes s = {0};

    for (uint32_t i = 0; i < net->stage_count; i++) {
        const struct tutti_train_stage *stage = &net->stages[i];
        const struct tutti_window *w = &stage->window;

        s.slopes = larger(s.slopes, stage->out_elements);
        if (i > 0 || net->is_behind)
            s.slopes = larger(s.slopes, stage->in_elements);
        s.columns = larger(s.columns, w->out_rows * w->out_columns * stage->depth);
        s.image = larger(s.image, w->out_rows * w->out_columns * stage->outputs);
        if (stage->kind != TUTTI_TRAIN_EMBEDDING)
            s.weights = larger(s.weights, stage->depth * stage->outputs);
        s.sums = larger(s.sums, stage->outputs);
    }
    return s;
}

/* 64-byte aligned: rows of matrices then begin on cache lines. */
static float *take(struct tutti_network_work *work, size_t count)
{
    char *raw = tutti_arena_take(work->arena, count * sizeof(float) + 128, 1);

    return raw == NULL ? NULL : (float *)(void *)(raw + (-(uintptr_t)raw & 63));
}

static bool take_stage(struct tutti_network_work *work, uint32_t index)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    size_t count = work->max_batch * stage->out_elements;

    if (stage->kind == TUTTI_TRAIN_DROPOUT) {
        work->values[index] = index > 0 ? work->values[index - 1] : take(work, count);
        work->masks[index] = take(work, count);
        return work->masks[index] != NULL && work->values[index] != NULL;
    }
    work->values[index] = take(work, count + TUTTI_LOOPS_ROOM);
    if (stage->pooled)
        work->which[index] = tutti_arena_take(work->arena, count, 1);
    return work->values[index] != NULL && (!stage->pooled || work->which[index] != NULL);
}

static bool take_all(struct tutti_network_work *work)
{
    const struct tutti_network *net = work->net;
    struct sizes s = sizes_of(net);
    bool copies = net->dtype != TUTTI_FLOAT32 ||
                  (net->stages[0].kind == TUTTI_TRAIN_CONVOLUTION && !net->is_behind);
    size_t batch = work->max_batch;
    bool done = true;

    work->values = tutti_arena_take(work->arena, net->stage_count, sizeof(*work->values));
    work->which = tutti_arena_take(work->arena, net->stage_count, sizeof(*work->which));
    work->masks = tutti_arena_take(work->arena, net->stage_count, sizeof(*work->masks));
    if (work->values == NULL || work->which == NULL || work->masks == NULL)
        return false;
    for (uint32_t i = 0; i < net->stage_count && done; i++)
        done = take_stage(work, i);
    if (!done)
        return false;
    if (copies) {
        work->inputs = take(work, batch * net->stages[0].in_elements + TUTTI_LOOPS_ROOM);
        done = work->inputs != NULL;
    }
    for (int i = 0; i < 2; i++)
        work->gradients[i] = take(work, batch * s.slopes);
    work->columns = take(work, s.columns + TUTTI_LOOPS_ROOM);
    work->column_slopes = take(work, s.columns + TUTTI_LOOPS_ROOM);
    work->image = take(work, s.image + TUTTI_LOOPS_ROOM);
    work->rounded = take(work, net->dtype == TUTTI_FLOAT32 ? 0 : s.weights);
    work->zeros = take(work, s.sums);
    work->sums = tutti_arena_take(work->arena, s.sums, sizeof(*work->sums));
    return done && work->gradients[0] != NULL && work->gradients[1] != NULL &&
           work->columns != NULL && work->column_slopes != NULL && work->image != NULL &&
           work->rounded != NULL && work->zeros != NULL && work->sums != NULL;
}

int tutti_network_work_new(const struct tutti_network *net, uint32_t max_batch,
                           struct tutti_network_work **ret, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_network_work *work =
        arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*work));

    if (work != NULL) {
        *work = (struct tutti_network_work){.net = net,
                                            .loops = net->products->loops,
                                            .arena = arena,
                                            .max_batch = max_batch == 0 ? 1 : max_batch};
        if (take_all(work)) {
            *ret = work;
            return 0;
        }
    }
    tutti_arena_free(arena);
    return tutti_nomem(err);
}

void tutti_network_work_free(struct tutti_network_work *work)
{
    if (work != NULL)
        tutti_arena_free(work->arena);
}

/* From [channel][row][column] to [row][column][channel]. */
static void turn_image(const struct tutti_network_input *input, const float *from, float *to)
{
    size_t channels = (size_t)input->channels;
    size_t positions = (size_t)(input->rows * input->columns);

    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < positions; i++)
            to[i * channels + c] = from[c * positions + i];
}

void tutti_network_begin(struct tutti_network_work *work, const struct tutti_network_batch *batch)
{
    const struct tutti_network *net = work->net;
    size_t elements = net->stages[0].in_elements;

    assert(batch->count <= work->max_batch);
    assert(batch->count == 0 || batch->inputs != NULL);
    assert(batch->count == 0 || net->is_before ||
           (net->input.classes > 0 ? (const void *)batch->labels : (const void *)batch->targets) !=
               NULL);
    work->batch = *batch;
    work->score = (struct tutti_network_score){.count = batch->count};
    if (work->inputs == NULL)
        return;
    if (net->stages[0].kind == TUTTI_TRAIN_EMBEDDING) { /* words are no numbers to be rounded */
        memcpy(work->inputs, batch->inputs, batch->count * elements * sizeof(float));
    } else if (net->stages[0].kind == TUTTI_TRAIN_CONVOLUTION) {
        for (size_t i = 0; i < batch->count; i++)
            turn_image(&net->input, batch->inputs + i * elements, work->inputs + i * elements);
        tutti_train_round(work->loops, net->dtype, work->inputs, work->inputs,
                          batch->count * elements);
    } else {
        tutti_train_round(work->loops, net->dtype, work->inputs, batch->inputs,
                          batch->count * elements);
    }
}

const float *tutti_train_stage_inputs(const struct tutti_network_work *work, uint32_t stage)
{
    if (stage > 0)
        return work->values[stage - 1];
    return work->inputs != NULL ? work->inputs : work->batch.inputs;
}

const float *tutti_train_stage_weights(struct tutti_network_work *work,
                                       const struct tutti_train_stage *stage, const float *weights)
{
    if (work->net->dtype == TUTTI_FLOAT32)
        return weights + stage->weight_at;
    tutti_train_round(work->loops, work->net->dtype, work->rounded, weights + stage->weight_at,
                      stage->depth * stage->outputs);
    return work->rounded;
}

const float *tutti_train_stage_bias(const struct tutti_network_work *work,
                                    const struct tutti_train_stage *stage, const float *weights)
{
    return stage->bias == TUTTI_TRAIN_NO_VARIABLE ? work->zeros : weights + stage->bias_at;
}

void tutti_bias_backward(struct tutti_network_work *work, const struct tutti_train_stage *stage,
                         const float *slopes, size_t rows, float *gradients, bool add)
{
    float *to = gradients + stage->bias_at;

    if (stage->bias == TUTTI_TRAIN_NO_VARIABLE)
        return;
    memset(work->sums, 0, stage->outputs * sizeof(*work->sums));
    work->loops->column_sums(work->sums, slopes, rows, stage->outputs);
    for (size_t i = 0; i < stage->outputs; i++)
        to[i] = (float)(work->sums[i] + (add ? (double)to[i] : 0));
}

void tutti_network_forward(struct tutti_network_work *work, uint32_t layer, const float *weights)
{
    const struct tutti_network *net = work->net;

    assert(layer < net->layer_count);
    if (work->batch.count == 0)
        return;
    for (uint32_t i = net->first_stage[layer]; i < net->first_stage[layer + 1]; i++) {
        const struct tutti_train_stage *stage = &net->stages[i];

        if (stage->kind == TUTTI_TRAIN_DENSE)
            tutti_dense_forward(work, i, weights);
        else if (stage->kind == TUTTI_TRAIN_CONVOLUTION)
            tutti_convolution_forward(work, i, weights);
        else if (stage->kind == TUTTI_TRAIN_EMBEDDING)
            tutti_embedding_forward(work, i, weights);
        else if (work->batch.training)
            tutti_dropout_forward(work, i);
        /* Logits stay as they are. */
        if (i + 1 < net->stage_count && net->dtype != TUTTI_FLOAT32)
            tutti_train_round(work->loops, net->dtype, work->values[i], work->values[i],
                              work->batch.count * stage->out_elements);
    }
    if (layer + 1 == net->layer_count) {
        work->turn = 0;
        tutti_loss_forward(work, work->gradients[0]);
    }
}

struct tutti_network_score tutti_network_score(const struct tutti_network_work *work)
{
    return work->score;
}

const float *tutti_network_outputs(const struct tutti_network_work *work)
{
    return work->values[work->net->stage_count - 1];
}

void tutti_network_backward(struct tutti_network_work *work, uint32_t layer, const float *weights,
                            float *gradients, bool add)
{
    const struct tutti_network *net = work->net;

    assert(layer < net->layer_count);
    assert(work->batch.training);
    if (work->batch.count == 0) {
        if (!add && gradients != NULL)
            memset(gradients, 0, (size_t)net->layers[layer].elements * sizeof(*gradients));
        return;
    }
    for (uint32_t i = net->first_stage[layer + 1]; i-- > net->first_stage[layer];) {
        const struct tutti_train_stage *stage = &net->stages[i];
        float *slopes = work->gradients[work->turn];
        float *in_slopes = i == 0 ? NULL : work->gradients[1 - work->turn];

        tutti_train_round(work->loops, net->dtype, slopes, slopes,
                          work->batch.count * stage->out_elements);
        if (stage->kind == TUTTI_TRAIN_DROPOUT) {
            tutti_dropout_backward(work, i, slopes);
            continue;
        }
        if (stage->kind == TUTTI_TRAIN_DENSE)
            tutti_dense_backward(work, i, weights, slopes, in_slopes, gradients, add);
        else if (stage->kind == TUTTI_TRAIN_EMBEDDING)
            tutti_embedding_backward(work, i, slopes, gradients, add);
        else
            tutti_convolution_backward(work, i, weights, slopes, in_slopes, gradients, add);
        work->turn = 1 - work->turn;
    }
}
