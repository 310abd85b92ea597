/* Windows of convolutions and poolings, a part of loops_template.h. Channels are innermost, so a
 * kernel row of a window is one run of memory. */
#ifndef TUTTI_RUNTIME_TRAIN_LOOPS_WINDOW_H
#define TUTTI_RUNTIME_TRAIN_LOOPS_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/train/loops.h"

/* Whole vectors: what is written beyond `count` is what the next run overwrites. */
static inline void copy_run(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i += TUTTI_LOOPS_ROOM)
        memcpy(to + i, from + i, TUTTI_LOOPS_ROOM * sizeof(*to));
}

static inline void clear_run(float *to, size_t count)
{
    for (size_t i = 0; i < count; i += TUTTI_LOOPS_ROOM)
        memset(to + i, 0, TUTTI_LOOPS_ROOM * sizeof(*to));
}

/* Kernel columns [left, right) of a window lie on the image; the others on the padding. */
struct reach {
    size_t left;
    size_t right;
};

static inline struct reach reach_of(const struct tutti_window *w, size_t out, size_t size)
{
    size_t first = out * w->stride;
    size_t past = size + w->pad; /* > first: a window begins on the image or on padding before it */

    return (struct reach){.left = w->pad > first ? w->pad - first : 0,
                          .right = past - first < w->kernel ? past - first : w->kernel};
}

static void window_columns(const struct tutti_window *w, const float *image, float *columns)
{
    const size_t run = w->kernel * w->channels;

    for (size_t y = 0; y < w->out_rows; y++) {
        struct reach down = reach_of(w, y, w->rows);

        for (size_t x = 0; x < w->out_columns; x++) {
            struct reach across = reach_of(w, x, w->columns);
            size_t at = x * w->stride + across.left - w->pad;
            size_t count = (across.right - across.left) * w->channels;

            for (size_t k = 0; k < w->kernel; k++, columns += run) {
                const float *row;

                if (k < down.left || k >= down.right) {
                    clear_run(columns, run);
                    continue;
                }
                row = image + (y * w->stride + k - w->pad) * w->columns * w->channels;
                if (across.left > 0)
                    clear_run(columns, across.left * w->channels);
                copy_run(columns + across.left * w->channels, row + at * w->channels, count);
                if (across.right < w->kernel)
                    clear_run(columns + across.right * w->channels,
                              (w->kernel - across.right) * w->channels);
            }
        }
    }
}

static void window_image(const struct tutti_window *w, const float *columns, float *image)
{
    const size_t run = w->kernel * w->channels;

    memset(image, 0, w->rows * w->columns * w->channels * sizeof(*image));
    for (size_t y = 0; y < w->out_rows; y++) {
        struct reach down = reach_of(w, y, w->rows);

        for (size_t x = 0; x < w->out_columns; x++) {
            struct reach across = reach_of(w, x, w->columns);
            size_t at = x * w->stride + across.left - w->pad;
            size_t count = (across.right - across.left) * w->channels;

            for (size_t k = 0; k < w->kernel; k++, columns += run) {
                const float *from = columns + across.left * w->channels;
                float *to;

                if (k < down.left || k >= down.right)
                    continue;
                to = image + ((y * w->stride + k - w->pad) * w->columns + at) * w->channels;
                _Pragma("omp simd") for (size_t i = 0; i < count; i++) to[i] += from[i];
            }
        }
    }
}

/* Four neighbours: the window's places 0 1 / 2 3. */
static void pool(const struct tutti_window *w, const float *image, const float *biases, bool relu,
                 float *values, uint8_t *which)
{
    const size_t channels = w->channels;
    const float floor = relu ? 0 : -__builtin_inff();

    for (size_t y = 0; y < w->out_rows; y++) {
        for (size_t x = 0; x < w->out_columns; x++) {
            const float *a = image + (2 * y * w->columns + 2 * x) * channels;
            const float *b = a + channels;
            const float *c = a + w->columns * channels;
            const float *d = c + channels;

            _Pragma("omp simd") for (size_t i = 0; i < channels; i++)
            {
                float upper = b[i] > a[i] ? b[i] : a[i];
                float lower = d[i] > c[i] ? d[i] : c[i];
                float most = (lower > upper ? lower : upper) + biases[i];
                /* Without a choice between whole numbers, which keeps gcc from vectors. */
                int32_t upper_at = b[i] > a[i];
                int32_t lower_at = 2 + (d[i] > c[i]);

                which[i] = (uint8_t)(upper_at + (lower_at - upper_at) * (lower > upper));
                values[i] = floor > most ? floor : most;
            }
            values += channels;
            which += channels;
        }
    }
}

static void pool_backward(const struct tutti_window *w, const float *gradients,
                          const uint8_t *which, float *image)
{
    const size_t channels = w->channels;
    const size_t row = w->columns * channels;

    for (size_t y = 0; y < w->out_rows; y++) {
        float *upper = image + 2 * y * row;
        float *lower = upper + row;

        for (size_t x = 0; x < w->out_columns; x++) {
            _Pragma("omp simd") for (size_t i = 0; i < channels; i++)
            {
                int32_t at = which[i];

                upper[i] = at == 0 ? gradients[i] : 0;
                upper[channels + i] = at == 1 ? gradients[i] : 0;
                lower[i] = at == 2 ? gradients[i] : 0;
                lower[channels + i] = at == 3 ? gradients[i] : 0;
            }
            upper += 2 * channels;
            lower += 2 * channels;
            gradients += channels;
            which += channels;
        }
        /* A last column that no window reaches. */
        memset(upper, 0, (w->columns - 2 * w->out_columns) * channels * sizeof(*upper));
        memset(lower, 0, (w->columns - 2 * w->out_columns) * channels * sizeof(*lower));
    }
    memset(image + 2 * w->out_rows * row, 0, (w->rows - 2 * w->out_rows) * row * sizeof(*image));
}

#endif
