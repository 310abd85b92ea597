/* The loops, written once and compiled once an instruction set: a file that includes this has
 * defined LOOPS_ISA (a string), LOOPS_TABLE (the table's name), the sizes VECTOR, TILE_ROWS and
 * TILE_VECTORS of the product, and the functions narrow_half and widen_half. */
#ifndef TUTTI_RUNTIME_TRAIN_LOOPS_TEMPLATE_H
#define TUTTI_RUNTIME_TRAIN_LOOPS_TEMPLATE_H

#include <string.h>

#include "runtime/train/loops.h"
#include "runtime/train/loops_product.h"
#include "runtime/train/loops_window.h"

/* "omp simd" promises that pointers of one loop are equal or do not overlap. */
#define EACH _Pragma("omp simd") for (size_t i = 0; i < count; i++)

static void bias(float *values, const float *biases, size_t rows, size_t count, bool relu)
{
    for (size_t row = 0; row < rows; row++) {
        float *v = values + row * count;

        if (relu) {
            EACH
            {
                float x = v[i] + biases[i];

                v[i] = 0 > x ? 0 : x;
            }
        } else {
            EACH v[i] += biases[i];
        }
    }
}

static void relu_backward(float *gradients, const float *values, size_t count)
{
    EACH gradients[i] = values[i] > 0 ? gradients[i] : 0;
}

static void column_sums(double *sums, const float *values, size_t rows, size_t count)
{
    for (size_t row = 0; row < rows; row++) {
        const float *v = values + row * count;

        EACH sums[i] += (double)v[i];
    }
}

static void multiply_elements(float *values, const float *by, size_t count)
{
    EACH values[i] *= by[i];
}

/* e^x = 2^n e^r with |r| <= ln(2)/2, and e^r by its polynomial (Cephes, expf). */
static void exponential(float *values, size_t count)
{
    const float shift = 0x1.8p23f; /* adding it rounds to a whole number in the low bits */

    EACH
    {
        union tutti_float_bits whole;
        union tutti_float_bits power;
        float x = -87 > values[i] ? -87 : values[i];
        float n;
        float r;
        float p;

        whole.f = x * 1.44269504f + shift;
        n = whole.f - shift;
        r = x - n * 0.693359375f - n * -2.12194440e-4f;
        p = 1.9875691500e-4f;
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        p = p * r * r + r + 1;
        power.u =
            (whole.u + 127) << 23; /* the low bits of `whole` are n; what is above falls out */
        values[i] = p * power.f;
    }
}

static double square_sum(const float *values, size_t count)
{
    enum { SUMS = 16 };
    double sums[SUMS] = {0};
    double all = 0;
    size_t at = 0;

    for (; at + SUMS <= count; at += SUMS) {
        _Pragma("omp simd") for (size_t i = 0; i < SUMS; i++) sums[i] +=
            (double)values[at + i] * (double)values[at + i];
    }
    for (size_t i = 0; at + i < count; i++)
        sums[i] += (double)values[at + i] * (double)values[at + i];
    for (size_t i = 0; i < SUMS; i++)
        all += sums[i];
    return all;
}

static void sgd(const struct tutti_update_step *u, float *weights, const float *gradients,
                size_t count)
{
    const float scale = u->gradient_scale;
    const float decay = u->decay;
    const float rate = u->rate;

    EACH
    {
        float w = weights[i] - weights[i] * decay;

        weights[i] = w - rate * (gradients[i] * scale);
    }
}

static void momentum(const struct tutti_update_step *u, float *weights, const float *gradients,
                     float *velocity, size_t count)
{
    const float scale = u->gradient_scale;
    const float decay = u->decay;
    const float rate = u->rate;
    const float keep = u->momentum;
    const float ahead = u->nesterov ? keep : 1;
    const float again = u->nesterov ? rate : 0;

    EACH
    {
        float g = gradients[i] * scale;
        float v = velocity[i] * keep - g * rate;
        float w = weights[i] - weights[i] * decay;

        velocity[i] = v;
        weights[i] = w + (v * ahead - g * again);
    }
}

static void adam(const struct tutti_update_step *u, float *weights, const float *gradients,
                 float *mean, float *variance, size_t count)
{
    const float scale = u->gradient_scale;
    const float decay = u->decay;
    const float mean_part = u->mean_part;
    const float variance_part = u->variance_part;
    const float rate = u->mean_rate;
    const float epsilon = u->epsilon;

    EACH
    {
        float g = gradients[i] * scale;
        float m = mean[i] + (g - mean[i]) * mean_part;
        float v = variance[i] + (g * g - variance[i]) * variance_part;
        float w = weights[i] - weights[i] * decay;

        mean[i] = m;
        variance[i] = v;
        weights[i] = w - m * rate / (__builtin_sqrtf(v) + epsilon);
    }
}

/* The upper half of a float32; rounding to nearest even adds just under half a unit. */
static void narrow_brain(uint16_t *to, const float *from, size_t count)
{
    EACH
    {
        union tutti_float_bits bits;

        bits.f = from[i];
        to[i] = (uint16_t)((bits.u & 0x7fffffff) > 0x7f800000
                               ? bits.u >> 16 | 0x40
                               : (bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16);
    }
}

static void widen_brain(float *to, const uint16_t *from, size_t count)
{
    EACH
    {
        union tutti_float_bits bits;

        bits.u = (uint32_t)from[i] << 16;
        to[i] = bits.f;
    }
}

const struct tutti_loops LOOPS_TABLE = {
    .isa = LOOPS_ISA,
    .bias = bias,
    .relu_backward = relu_backward,
    .column_sums = column_sums,
    .multiply_elements = multiply_elements,
    .exponential = exponential,
    .square_sum = square_sum,
    .window_columns = window_columns,
    .window_image = window_image,
    .pool = pool,
    .pool_backward = pool_backward,
    .multiply = multiply,
    .sgd = sgd,
    .momentum = momentum,
    .adam = adam,
    .narrow_half = narrow_half,
    .widen_half = widen_half,
    .narrow_brain = narrow_brain,
    .widen_brain = widen_brain,
};

#endif
