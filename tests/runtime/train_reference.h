/* A network in double precision and direct loops, to hold runtime/train against: it shares with
 * that nothing but the list of stages. */
#ifndef TUTTI_TESTS_RUNTIME_TRAIN_REFERENCE_H
#define TUTTI_TESTS_RUNTIME_TRAIN_REFERENCE_H

#include <math.h>

#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/stage.h"
#include "tests/test.h"

enum { REFERENCE_FLOATS_MAX = 1 << 14 };

/* A workload of a text of one's own as a network. */
__attribute__((unused)) static struct tutti_network *
reference_net(const char *text, struct tutti_network_params params)
{
    struct tutti_workload *model = NULL;
    struct tutti_network *net = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_model_parse("test", text, strlen(text), &model, &err), err);
    if (model != NULL)
        CHECK_OK(tutti_network_new(model, &params, &net, &err), err);
    tutti_model_free(model);
    return net;
}

__attribute__((unused)) static struct tutti_network *
reference_named(const char *name, struct tutti_network_params params)
{
    struct tutti_workload *model = NULL;
    struct tutti_network *net = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_model_new(name, NULL, &model, &err), err);
    if (model != NULL)
        CHECK_OK(tutti_network_new(model, &params, &net, &err), err);
    tutti_model_free(model);
    return net;
}

/* Uniform in [-1, 1). */
__attribute__((unused)) static float reference_draw(struct tutti_random *random)
{
    return (float)(2 * tutti_random_unit(random) - 1);
}

/* Element (y, x, c) of an image whose channels are innermost; 0 beside it. */
static double pixel(const double *image, const struct tutti_window *w, size_t y, size_t x, size_t c)
{
    if (y < w->pad || x < w->pad || y - w->pad >= w->rows || x - w->pad >= w->columns)
        return 0;
    return image[((y - w->pad) * w->columns + x - w->pad) * w->channels + c];
}

static void reference_convolution(const struct tutti_train_stage *s, const double *weights,
                                  const double *in, double *out)
{
    const struct tutti_window *w = &s->window;

    for (size_t y = 0; y < w->out_rows; y++)
        for (size_t x = 0; x < w->out_columns; x++)
            for (size_t o = 0; o < s->outputs; o++) {
                double sum = s->bias == TUTTI_TRAIN_NO_VARIABLE ? 0 : weights[s->bias_at + o];

                for (size_t i = 0; i < w->kernel; i++)
                    for (size_t j = 0; j < w->kernel; j++)
                        for (size_t c = 0; c < w->channels; c++)
                            sum +=
                                pixel(in, w, y * w->stride + i, x * w->stride + j, c) *
                                weights[s->weight_at +
                                        ((i * w->kernel + j) * w->channels + c) * s->outputs + o];
                out[(y * w->out_columns + x) * s->outputs + o] = sum;
            }
}

static void reference_pool(const struct tutti_window *p, const double *in, double *out)
{
    for (size_t y = 0; y < p->out_rows; y++)
        for (size_t x = 0; x < p->out_columns; x++)
            for (size_t c = 0; c < p->channels; c++) {
                double most = -INFINITY;

                for (size_t i = 0; i < 4; i++)
                    most = fmax(most, pixel(in, p, 2 * y + i / 2, 2 * x + i % 2, c));
                out[(y * p->out_columns + x) * p->channels + c] = most;
            }
}

/* What the stage makes of one example. `mask` of dropout. */
static void reference_stage(const struct tutti_train_stage *s, const double *weights,
                            const float *mask, const double *in, double *out)
{
    static double before[REFERENCE_FLOATS_MAX];
    size_t count = s->out_elements;

    if (s->kind == TUTTI_TRAIN_DROPOUT) {
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] * (double)mask[i];
        return;
    }
    if (s->kind == TUTTI_TRAIN_CONVOLUTION) {
        reference_convolution(s, weights, in, s->pooled ? before : out);
        if (s->pooled)
            reference_pool(&s->pool, before, out);
    } else {
        for (size_t o = 0; o < s->outputs; o++) {
            out[o] = s->bias == TUTTI_TRAIN_NO_VARIABLE ? 0 : weights[s->bias_at + o];
            for (size_t k = 0; k < s->depth; k++)
                out[o] += in[k] * weights[s->weight_at + k * s->outputs + o];
        }
    }
    for (size_t i = 0; i < count && s->relu; i++)
        out[i] = fmax(out[i], 0);
}

static double reference_loss_of(const struct tutti_network *net, const double *out, uint32_t label,
                                const float *targets)
{
    double most = -INFINITY;
    double sum = 0;

    for (size_t i = 0; i < net->input.targets; i++)
        sum += (out[i] - (double)targets[i]) * (out[i] - (double)targets[i]) /
               (double)net->input.targets;
    if (net->input.classes == 0)
        return sum;
    for (size_t i = 0; i < net->input.classes; i++)
        most = fmax(most, out[i]);
    for (size_t i = 0; i < net->input.classes; i++)
        sum += exp(out[i] - most);
    return log(sum) + most - out[label];
}

/* The sum of the losses of a batch; `weights` of all layers, one behind the other. Dropout has the
 * masks that `work` has drawn. */
__attribute__((unused)) static double reference_loss(const struct tutti_network_work *work,
                                                     const double *weights)
{
    static double values[2][REFERENCE_FLOATS_MAX];
    const struct tutti_network *net = work->net;
    const struct tutti_network_batch *batch = &work->batch;
    size_t positions = (size_t)(net->input.rows * net->input.columns);
    size_t elements = net->stages[0].in_elements;
    double loss = 0;

    for (uint32_t e = 0; e < batch->count; e++) {
        const double *at = weights;
        uint32_t layer = 0;

        for (size_t i = 0; i < elements; i++)
            values[0][i % positions * net->input.channels + i / positions] =
                (double)batch->inputs[e * elements + i];
        for (uint32_t s = 0; s < net->stage_count; s++) {
            const struct tutti_train_stage *stage = &net->stages[s];

            while (layer < stage->layer)
                at += net->layers[layer++].elements;
            reference_stage(stage, at,
                            stage->kind == TUTTI_TRAIN_DROPOUT
                                ? work->masks[s] + e * stage->out_elements
                                : NULL,
                            values[s % 2], values[(s + 1) % 2]);
        }
        loss += reference_loss_of(
            net, values[net->stage_count % 2], batch->labels != NULL ? batch->labels[e] : 0,
            batch->targets != NULL ? batch->targets + e * net->input.targets : NULL);
    }
    return loss;
}

/* ---- a rank, as the tests have it ---- */

/* A batch of random examples, and the weights and gradients of all layers one behind the other. */
struct trained {
    struct tutti_network *net;
    struct tutti_network_work *work;
    struct tutti_network_batch batch;
    float *inputs;
    uint32_t *labels;
    float *targets;
    float *weights;
    float *gradients;
    size_t elements;
};

__attribute__((unused)) static void trained_open(struct trained *t, struct tutti_network *net,
                                                 uint32_t count, uint64_t seed)
{
    struct tutti_network_input input = tutti_network_input(net);
    size_t in = (size_t)(input.channels * input.rows * input.columns);
    struct tutti_random random;
    struct tutti_err err = {.text = ""};
    float *at;

    *t = (struct trained){.net = net, .elements = (size_t)tutti_network_elements(net)};
    t->inputs = calloc(count * in + 1, sizeof(float));
    t->labels = calloc(count + 1, sizeof(*t->labels));
    t->targets = calloc(count * (size_t)input.targets + 1, sizeof(float));
    t->weights = calloc(t->elements, sizeof(float));
    t->gradients = calloc(t->elements, sizeof(float));
    tutti_random_seed(&random, seed);
    for (size_t i = 0; i < count * in; i++)
        t->inputs[i] = reference_draw(&random);
    for (uint32_t i = 0; i < count && input.classes > 0; i++)
        t->labels[i] = (uint32_t)tutti_random_below(&random, input.classes);
    for (size_t i = 0; i < count * input.targets; i++)
        t->targets[i] = reference_draw(&random);
    at = t->weights;
    for (uint32_t i = 0; i < tutti_network_layer_count(net); i++) {
        tutti_network_init(net, seed, i, at);
        at += tutti_network_layer(net, i)->elements;
    }
    CHECK_OK(tutti_network_work_new(net, count, &t->work, &err), err);
    t->batch = (struct tutti_network_batch){.inputs = t->inputs,
                                            .labels = input.classes > 0 ? t->labels : NULL,
                                            .targets = input.targets > 0 ? t->targets : NULL,
                                            .count = count,
                                            .gradient_scale = 1 / (float)(count > 0 ? count : 1),
                                            .training = true,
                                            .seed = seed};
}

__attribute__((unused)) static void trained_close(struct trained *t)
{
    tutti_network_work_free(t->work);
    tutti_network_free(t->net);
    free(t->inputs);
    free(t->labels);
    free(t->targets);
    free(t->weights);
    free(t->gradients);
}

__attribute__((unused)) static void trained_forward(struct trained *t,
                                                    const struct tutti_network_batch *batch)
{
    const float *at = t->weights;

    tutti_network_begin(t->work, batch);
    for (uint32_t i = 0; i < tutti_network_layer_count(t->net); i++) {
        tutti_network_forward(t->work, i, at);
        at += tutti_network_layer(t->net, i)->elements;
    }
}

/* Forward and backward of a batch; `add`: to the gradients that are there. */
__attribute__((unused)) static void trained_step(struct trained *t,
                                                 const struct tutti_network_batch *batch, bool add)
{
    size_t at = t->elements;

    trained_forward(t, batch);
    for (uint32_t i = tutti_network_layer_count(t->net); i-- > 0;) {
        at -= (size_t)tutti_network_layer(t->net, i)->elements;
        tutti_network_backward(t->work, i, t->weights + at, t->gradients + at, add);
    }
}

/* |a - b| / |b| of vectors. */
__attribute__((unused)) static double relative(const float *a, const float *b, size_t count)
{
    double off = 0;
    double of = 0;

    for (size_t i = 0; i < count; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        of += (double)b[i] * (double)b[i];
    }
    return of > 0 ? sqrt(off / of) : sqrt(off);
}

#endif
