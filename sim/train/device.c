/* What a layer takes on a device: a roofline by operation, and the host's floor. */
#include "sim/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

/* Output tiles of matrix products and what part of the rate of the largest they reach, and into how
 * many parts the depth may be cut where there are few tiles. */
static const struct {
    double rows;
    double columns;
    double rate;
} tiles[] = {{256, 128, 1.0}, {128, 128, 0.92}, {128, 64, 0.75}, {64, 64, 0.55}};
static const double cuts[] = {1, 2, 4};

/* Rows of matrices that matrix units cannot load at once (16 bytes) take so many times as long:
 * padding GPT-2's 50257 words to 50304 is known to quicken a step by a quarter. */
static const double UNALIGNED = 2.3;
enum { ALIGNED = 8 };

/* Best shapes of H100 reach 70.9 % of the peak at 8 bits and 80.3 % at 16 (stas00/ml-engineering,
 * mamf). An operand is read at 16 bits and written twice at 8, once transposed, as Transformer
 * Engine casts. */
static const double FP8_OF_HALF = 0.709 / 0.803;
enum { FP8_CAST_BYTES = 2 + 1 + 1 };

static const double WINOGRAD = 2.0;
enum { WINOGRAD_REUSE = 8 };
enum { FLOPS_A_PAIR = 2, ATTENTION_BACKWARD_FUSED = 5, ATTENTION_BACKWARD = 4 }; /* halves */

struct rates {
    double flops_per_s;
    double attention_flops_per_s; /* recipes of 8 bits leave attention at 16 */
    double bytes_per_s;
    double units;
    double element_bytes; /* of an activation */
    double cast_bytes;    /* of each element of a product's operands; 0: none */
    double matmul;
    double convolution;
    bool in_matrix_units;
};

/* Names the precisions that would do. */
static int no_rates(const struct tutti_device_use *use, struct tutti_err *err)
{
    const struct tutti_accelerator *a = use->accelerator;
    char known[64] = "";
    size_t length = 0;

    for (int p = 0; p < TUTTI_PRECISION_COUNT && a->mem_bytes_per_s > 0; p++)
        if (a->flops_per_s[p] > 0 && length < sizeof(known))
            length += (size_t)snprintf(known + length, sizeof(known) - length, "%s%s",
                                       length > 0 ? ", " : "",
                                       tutti_precision_name((enum tutti_precision)p));
    return tutti_fail(err, TUTTI_EINVAL, "the rates of '%s' in %s are not known (known: %s)",
                      a->name, tutti_precision_name(use->precision), length > 0 ? known : "none");
}

static int rates_of(const struct tutti_device_use *use, struct rates *ret, struct tutti_err *err)
{
    const struct tutti_accelerator *a = use->accelerator;
    const struct tutti_framework *f = use->framework;
    bool half = use->precision >= TUTTI_PRECISION_TF32;

    *ret = (struct rates){
        .flops_per_s = (double)tutti_accelerator_flops(a, use->precision),
        .attention_flops_per_s = (double)tutti_accelerator_flops(
            a, use->precision == TUTTI_PRECISION_FP8 ? TUTTI_PRECISION_BF16 : use->precision),
        .bytes_per_s = (double)a->mem_bytes_per_s * f->memory,
        .units = a->units > 0 ? a->units : 1,
        .element_bytes = use->precision <= TUTTI_PRECISION_TF32 ? 4 : 2,
    };
    if (ret->flops_per_s <= 0 || ret->bytes_per_s <= 0)
        return no_rates(use, err);
    /* Hardware without matrix units of that precision computes in 32 bits. */
    half = half && tutti_accelerator_flops(a, use->precision) >
                       tutti_accelerator_flops(a, TUTTI_PRECISION_FP32);
    ret->in_matrix_units = half;
    ret->matmul = half ? f->matmul_half : f->matmul_fp32;
    ret->cast_bytes = half && use->precision == TUTTI_PRECISION_FP8 ? FP8_CAST_BYTES : 0;
    if (ret->cast_bytes > 0)
        ret->matmul *= FP8_OF_HALF;
    ret->convolution = half ? f->convolution_half : f->convolution_fp32;
    return 0;
}

/* Seconds of `count` products [rows x depth][depth x columns], side by side. */
static double product_s(const struct rates *r, double fill, double share, double count, double rows,
                        double columns, double depth)
{
    double best = INFINITY;

    if (count <= 0 || rows <= 0 || columns <= 0 || depth <= 0)
        return 0;
    if (r->in_matrix_units && (fmod(columns, ALIGNED) > 0 || fmod(depth, ALIGNED) > 0))
        share /= UNALIGNED;
    for (size_t t = 0; t < sizeof(tiles) / sizeof(tiles[0]); t++) {
        for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++) {
            double tile_count =
                count * ceil(rows / tiles[t].rows) * ceil(columns / tiles[t].columns) * cuts[k];
            double tile_s = FLOPS_A_PAIR * tiles[t].rows * tiles[t].columns *
                            (depth / cuts[k] + fill) /
                            (r->flops_per_s / r->units * tiles[t].rate * share);

            best = fmin(best, ceil(tile_count / r->units) * tile_s);
        }
    }
    return best;
}

struct shape {
    double count;
    double rows;
    double columns;
    double depth;
};

static double degree(uint32_t count)
{
    return count > 0 ? count : 1;
}

/* Samples of a device, context parallelism counted; of tokens that only sequence parallelism
 * divides, by that as well. */
static double samples_of(const struct tutti_device_use *use, enum tutti_split split)
{
    double samples = use->batch / degree(use->context);

    return split == TUTTI_SPLIT_NONE && use->sequence_parallel ? samples / degree(use->tensor)
                                                               : samples;
}

static double imbalance(const struct tutti_device_use *use)
{
    return use->imbalance > 0 ? use->imbalance : 1;
}

/* Of a layer, all devices; by the variable of the same name, whose rows are those of all. */
static double experts_of(const struct tutti_layer *layer, const struct tutti_operation *op)
{
    for (uint32_t v = 0; v < layer->variable_count; v++)
        if (layer->variables[v].split == TUTTI_SPLIT_EXPERTS && op->depth > 0 &&
            strcmp(layer->variables[v].name, op->name) == 0)
            return (double)layer->variables[v].rows / (double)op->depth;
    return op->count > 0 ? op->count : 1;
}

/* Each of a device's experts has its share of the tokens that all its peers send; tensor
 * parallelism divides the wider side of its weights. */
static struct shape expert_shape(const struct tutti_device_use *use,
                                 const struct tutti_layer *layer, const struct tutti_operation *op)
{
    double t = degree(use->tensor);
    double e = degree(use->expert);
    double count = fmax(experts_of(layer, op) / e, 1);
    double visits = (double)op->count * (double)op->rows * use->batch / degree(use->context);
    struct shape s = {count, ceil(visits * imbalance(use) / count), (double)op->columns,
                      (double)op->depth};

    if (s.columns > s.depth)
        s.columns = ceil(s.columns / t);
    else
        s.depth = ceil(s.depth / t);
    return s;
}

/* Of what tensor parallelism divides; heads of keys and values are held whole. */
static double held(const struct tutti_device_use *use, double elements, double kv_elements)
{
    const double t = degree(use->tensor);
    const double kv = fmin(kv_elements, elements);

    if (use->kv_heads == 0 || use->kv_heads >= use->tensor)
        return elements / t;
    return (elements - kv) / t + kv / use->kv_heads;
}

/* What parallelism leaves of a product. */
static struct shape shape_of(const struct tutti_device_use *use, const struct tutti_layer *layer,
                             const struct tutti_operation *op)
{
    double t = degree(use->tensor);
    struct shape s = {op->count > 0 ? op->count : 1,
                      ceil((double)op->rows * samples_of(use, op->split)), (double)op->columns,
                      (double)op->depth};

    if (op->split == TUTTI_SPLIT_EXPERTS)
        return expert_shape(use, layer, op);
    if (op->split == TUTTI_SPLIT_COLUMNS || op->split == TUTTI_SPLIT_VOCAB)
        s.columns = ceil(held(use, s.columns, (double)op->kv_elements / (double)op->rows));
    else if (op->split == TUTTI_SPLIT_ROWS)
        s.depth = ceil(s.depth / t);
    return s;
}

static double moved_s(const struct tutti_device_use *use, const struct rates *r,
                      const struct tutti_operation *op)
{
    const double all = (double)(op->in_elements + op->out_elements);
    const double more = op->split == TUTTI_SPLIT_EXPERTS ? imbalance(use) : 1;
    const double here =
        op->split != TUTTI_SPLIT_NONE ? held(use, all, (double)op->kv_elements) : all;

    return here * samples_of(use, op->split) * more * r->element_bytes / r->bytes_per_s;
}

struct both {
    double forward_s;
    double backward_s; /* all of it, */
    double weights_s;  /* and the part of the gradients of weights */
};

/* Convolutions have kernels of their own: no waves, but what fills a pipeline of matrix units, and
 * Winograd's algorithm in 32 bits, where each input is used by 9 outputs or so (3 x 3 at stride 1;
 * Lavin & Gray 2016: 2.25 times fewer products, of which a factor of 2 is left). */
static double convolution_s(const struct rates *r, double fill, const struct shape *s, double reuse)
{
    double flops = FLOPS_A_PAIR * s->count * s->rows * s->columns * s->depth;
    double filled = r->in_matrix_units ? s->depth / (s->depth + fill) : 1;

    if (!r->in_matrix_units && reuse >= WINOGRAD_REUSE)
        flops /= WINOGRAD;
    return flops / (r->flops_per_s * r->convolution * filled);
}

static double weighted_s(const struct tutti_device_use *use, const struct rates *r,
                         const struct tutti_operation *op, double reuse, const struct shape *s)
{
    if (op->kind == TUTTI_WORK_CONVOLUTION)
        return convolution_s(r, use->framework->fill_elements, s, reuse);
    return product_s(r, use->framework->fill_elements, r->matmul, s->count, s->rows, s->columns,
                     s->depth);
}

/* A product with weights, and those of its two gradients. */
static struct both weighted(const struct tutti_device_use *use, const struct rates *r,
                            const struct tutti_layer *layer, const struct tutti_operation *op)
{
    const struct shape s = shape_of(use, layer, op);
    const struct shape input = {s.count, s.rows, s.depth, s.columns};
    const struct shape weight = {s.count, s.depth, s.columns, s.rows};
    double moved = moved_s(use, r, op);
    double reuse = op->in_elements == 0
                       ? 1
                       : s.count * (double)op->depth * (double)op->rows / (double)op->in_elements;
    const double cast_s = s.count * s.rows * r->cast_bytes / r->bytes_per_s;
    struct both b = {.forward_s = fmax(weighted_s(use, r, op, reuse, &s), moved),
                     .backward_s = fmax(weighted_s(use, r, op, reuse, &weight), moved)};

    b.weights_s = b.backward_s;
    b.forward_s += s.depth * cast_s;
    b.backward_s += s.columns * cast_s;
    if (!op->no_input_gradient)
        b.backward_s += fmax(weighted_s(use, r, op, reuse, &input), moved);
    return b;
}

/* Of a sample, all heads: what is saved of the matrices of a layer passes the memory once. */
static double matrix_bytes(const struct rates *r, const struct tutti_layer *layer,
                           const struct tutti_operation *op)
{
    const struct tutti_saved *saved = &layer->saved;
    double bytes =
        (double)saved->attention_elements * r->element_bytes + (double)saved->attention_bytes;

    return bytes > 0 ? bytes : 5 * (double)op->rows * (double)op->columns * r->element_bytes;
}

static struct both attention(const struct tutti_device_use *use, const struct rates *r,
                             const struct tutti_layer *layer, const struct tutti_operation *op)
{
    double samples = samples_of(use, op->split) / degree(use->tensor);
    double seconds =
        (double)op->flops * samples / (r->attention_flops_per_s * use->framework->attention);
    struct both b = {seconds, seconds * ATTENTION_BACKWARD / 2, 0};
    /* The matrices are written and read: scores, softmax, dropout. */
    double matrix_s = matrix_bytes(r, layer, op) * samples / r->bytes_per_s;

    if (use->fused_attention) {
        b.forward_s = seconds / 2;
        b.backward_s = seconds / 2 * ATTENTION_BACKWARD_FUSED / 2;
        return b;
    }
    b.forward_s += matrix_s;
    b.backward_s += 2 * matrix_s;
    return b;
}

static struct both operation(const struct tutti_device_use *use, const struct rates *r,
                             const struct tutti_layer *layer, const struct tutti_operation *op)
{
    const struct tutti_framework *f = use->framework;
    double moved;

    switch (op->kind) {
    case TUTTI_WORK_MATMUL:
    case TUTTI_WORK_CONVOLUTION:
        return weighted(use, r, layer, op);
    case TUTTI_WORK_ATTENTION:
        return attention(use, r, layer, op);
    case TUTTI_WORK_LOSS: /* softmax and its gradient over the logits */
        moved = (double)op->in_elements * samples_of(use, op->split) * f->logit_bytes /
                (op->split != TUTTI_SPLIT_NONE ? degree(use->tensor) : 1) / r->bytes_per_s;
        return (struct both){moved / 2, moved / 2, 0};
    default:
        moved = f->passes * moved_s(use, r, op);
        return (struct both){moved, 1.5 * moved, 0};
    }
}

static tutti_ps ps_of(double seconds)
{
    double ps = seconds * (double)TUTTI_PS_PER_S;

    return ps >= (double)INT64_MAX / 4 ? INT64_MAX / 4 : (tutti_ps)llround(ps);
}

struct layer {
    struct both device;
    struct both attention; /* of it */
    struct both host;
};

static int layer_of(const struct tutti_device_use *use, const struct tutti_layer *layer,
                    struct layer *ret, struct tutti_err *err)
{
    const struct tutti_framework *f = use->framework;
    struct layer l = {.host = {layer->operation_count * f->forward_us * 1e-6,
                               layer->operation_count * f->backward_us * 1e-6, 0}};
    struct rates r;
    int status = rates_of(use, &r, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < layer->operation_count; i++) {
        const bool attends = layer->operations[i].kind == TUTTI_WORK_ATTENTION;
        struct both b = operation(use, &r, layer, &layer->operations[i]);

        if (use->recompute == TUTTI_RECOMPUTE_SELECTIVE && attends && !use->fused_attention)
            b.backward_s += b.forward_s;
        l.device.forward_s += b.forward_s;
        l.device.backward_s += b.backward_s;
        l.device.weights_s += b.weights_s;
        if (attends) {
            l.attention.forward_s += b.forward_s;
            l.attention.backward_s += b.backward_s;
        }
    }
    if (use->recompute == TUTTI_RECOMPUTE_FULL && (layer->is_transformer || use->recompute_all)) {
        l.device.backward_s += l.device.forward_s;
        l.host.backward_s += l.host.forward_s;
    }
    *ret = l;
    return 0;
}

int tutti_device_layer(const struct tutti_device_use *use, const struct tutti_layer *layer,
                       struct tutti_layer_times *ret, struct tutti_err *err)
{
    struct layer l;
    int status = layer_of(use, layer, &l, err);

    if (status < 0)
        return status;
    ret->forward_ps = ps_of(fmax(l.device.forward_s, l.host.forward_s));
    ret->backward_ps = layer->is_frozen ? 0 : ps_of(fmax(l.device.backward_s, l.host.backward_s));
    return 0;
}

int tutti_device_layer_parts(const struct tutti_device_use *use, const struct tutti_layer *layer,
                             struct tutti_layer_parts *ret, struct tutti_err *err)
{
    struct layer l;
    int status = layer_of(use, layer, &l, err);

    if (status < 0)
        return status;
    *ret = (struct tutti_layer_parts){.forward_ps = ps_of(l.device.forward_s),
                                      .attention_forward_ps = ps_of(l.attention.forward_s),
                                      .host_forward_ps = ps_of(l.host.forward_s)};
    if (layer->is_frozen)
        return 0;
    ret->weights_ps = ps_of(l.device.weights_s);
    ret->backward_ps = ps_of(l.device.backward_s - l.device.weights_s);
    ret->attention_backward_ps = ps_of(l.attention.backward_s);
    ret->host_backward_ps = ps_of(l.host.backward_s);
    return 0;
}

tutti_ps tutti_device_optimizer(const struct tutti_device_use *use, uint64_t parameters)
{
    const struct tutti_framework *f = use->framework;
    double bytes_per_s = (double)use->accelerator->mem_bytes_per_s * f->memory;

    return ps_of((double)parameters * f->optimizer_bytes / bytes_per_s + f->step_us * 1e-6);
}

/* The expected largest of 1, 2, 4, ... standard normal values, by numeric integration; in between
 * in proportion. */
static double largest_of(uint32_t count)
{
    static const double largest[] = {0,     0.564, 1.029, 1.424, 1.766, 2.070, 2.344,
                                     2.595, 2.827, 3.044, 3.248, 3.442, 3.626, 3.802,
                                     3.971, 4.134, 4.291, 4.443, 4.590, 4.733, 4.872};
    enum { LAST = sizeof(largest) / sizeof(largest[0]) - 1 };
    uint32_t k = 0;
    double above;

    while (k < LAST && count >> (k + 1) > 0)
        k++;
    if (k == LAST)
        return largest[LAST];
    above = (double)count / (double)(UINT32_C(1) << k) - 1;
    return largest[k] + above * (largest[k + 1] - largest[k]);
}

double tutti_device_slowest(const struct tutti_framework *f, uint32_t device_count,
                            uint32_t micro_batches, bool synthetic)
{
    double input = synthetic ? 0 : f->input_spread;
    double passes = micro_batches > 0 ? micro_batches : 1;
    double spread = sqrt((f->spread * f->spread + input * input) / passes);

    return 1 + spread * largest_of(device_count);
}
