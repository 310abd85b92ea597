/* Loops of training over floats, one table an instruction set; private to runtime/train.
 *
 * Every table gives the same bits: element-wise loops are not contracted, and sums have an order
 * that no vector width changes. So results depend on the processor only where OpenBLAS multiplies
 * (products.h). */
#ifndef TUTTI_RUNTIME_TRAIN_LOOPS_H
#define TUTTI_RUNTIME_TRAIN_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_product;

/* Copies of whole vectors may read and write so many floats beyond an image or a matrix of columns:
 * buffers of images and columns have that room at their end. */
enum { TUTTI_LOOPS_ROOM = 16 };

/* A convolution or pooling of one example; channels are the innermost of what it reads and writes.
 */
struct tutti_window {
    size_t rows; /* of what is read */
    size_t columns;
    size_t channels;
    size_t kernel; /* a square */
    size_t stride;
    size_t pad; /* zeros above and to the left; below and to the right as many as it takes */
    size_t out_rows;
    size_t out_columns;
};

/* A step of an optimizer: numbers that are the same for all elements. */
struct tutti_update_step {
    float gradient_scale; /* gradients are multiplied by it first */
    float decay;          /* then weights lose this part of themselves */
    float rate;
    float momentum;
    bool nesterov;
    float mean_part;     /* Adam: 1 - beta1 */
    float variance_part; /* 1 - beta2 */
    float mean_rate;     /* rate x sqrt(1 - beta2^t) / (1 - beta1^t) */
    float epsilon;
};

struct tutti_update_rule;
/* Number `step` (from 1 on) by that rule. */
struct tutti_update_step tutti_update_step_of(const struct tutti_update_rule *rule, double rate,
                                              uint64_t step, double gradient_scale);

struct tutti_loops {
    const char *isa;

    /* values[row][column] += bias[column], and nothing below 0 with `relu`; a NaN stays. */
    void (*bias)(float *values, const float *bias, size_t rows, size_t columns, bool relu);
    /* 0 where the activation is not above 0. */
    void (*relu_backward)(float *gradients, const float *values, size_t count);
    /* sums[column] += values[row][column], row after row. */
    void (*column_sums)(double *sums, const float *values, size_t rows, size_t columns);
    void (*multiply_elements)(float *values, const float *by, size_t count);
    /* e^x for x <= 0, to 2 units in the last place; below -87 as at -87. */
    void (*exponential)(float *values, size_t count);
    /* In double precision, in 16 sums that take turns. Not finite where an element is not. */
    double (*square_sum)(const float *values, size_t count);

    /* Row (y, x) of `columns` is the window at (y, x): kernel rows, kernel columns, channels. */
    void (*window_columns)(const struct tutti_window *w, const float *image, float *columns);
    /* The transpose of that: image is the sum of the windows' gradients. */
    void (*window_image)(const struct tutti_window *w, const float *columns, float *image);
    /* Maxima of 2 x 2 windows, then bias and relu as above: both rise with their argument, so that
     * the order is no matter. `which` of the four it is, the first of equals. */
    void (*pool)(const struct tutti_window *w, const float *image, const float *bias, bool relu,
                 float *values, uint8_t *which);
    /* All of the image is written. */
    void (*pool_backward)(const struct tutti_window *w, const float *gradients,
                          const uint8_t *which, float *image);

    /* C = A B as products.h has it. */
    void (*multiply)(const struct tutti_product *product);

    void (*sgd)(const struct tutti_update_step *u, float *weights, const float *gradients,
                size_t count);
    void (*momentum)(const struct tutti_update_step *u, float *weights, const float *gradients,
                     float *velocity, size_t count);
    void (*adam)(const struct tutti_update_step *u, float *weights, const float *gradients,
                 float *mean, float *variance, size_t count);

    /* To nearest, ties to even; every NaN a quiet one. */
    void (*narrow_half)(uint16_t *to, const float *from, size_t count);
    void (*widen_half)(float *to, const uint16_t *from, size_t count);
    void (*narrow_brain)(uint16_t *to, const float *from, size_t count);
    void (*widen_brain)(float *to, const uint16_t *from, size_t count);
};

extern const struct tutti_loops tutti_loops_generic;
extern const struct tutti_loops tutti_loops_avx2;   /* x86 builds only */
extern const struct tutti_loops tutti_loops_avx512; /* x86 builds only */

/* The loops that this processor can run: index 0 is the best, the last is generic; NULL past the
 * end. */
const struct tutti_loops *tutti_loops_at(size_t index);

#endif
