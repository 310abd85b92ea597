/* The kernels of training, in the common part of C11 and CUDA C++: all but products by cuBLAS.
 * Whoever includes it has defined the words of player.h, and these:
 *
 *   T_KERNEL(name)          how a kernel begins; it has `args`, a struct tutti_kernel_args
 *   T_ITEMS(i, count)       each item i once, by some thread, in any order
 *   T_BLOCKS(b, count)      each tile b once, by some block
 *   T_THREADS(t)            each of the TILE_THREADS threads of a block; what follows comes after
 *                           it only behind T_MEET()
 *   T_MEET()                the threads of a block meet
 *   T_SHARED                memory of the block
 *   T_OWN(name)             sums[TILE_OWN] of each thread, as T_MINE(name, t)
 *   T_FMA(a, b, c)          a b + c, rounded once where the device does so in one instruction
 *
 * No item reads what another one writes, and sums have an order that depends on sizes alone:
 * results are the same to the bit however many threads there are. In the place of the host's loops
 * (runtime/train/loops.h), whose formulas and orders they keep. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_TRAIN_KERNELS_H
#define TUTTI_RUNTIME_EXEC_CUDA_TRAIN_KERNELS_H

#include "runtime/exec/device/kernel_args.h"

#ifdef __cplusplus
#include <cmath>
#endif

enum { TILE = 64, TILE_DEPTH = 16, TILE_THREADS = 256, TILE_SIDE = 4, TILE_OWN = 16 };

/* ---- element by element ---------------------------------------------------------------------- */

/* to[row][column] += other[column] (NULL: nothing), and nothing below 0 with `relu`. */
T_KERNEL(tutti_train_bias)
{
    T_ITEMS(i, args.count)
    {
        float x = args.to[i] + (args.other != P_NULL ? args.other[i % args.columns] : 0.0f);

        args.to[i] = args.relu && 0.0f > x ? 0.0f : x;
    }
}

/* to = 0 where `from` is not above 0. */
T_KERNEL(tutti_train_relu_backward)
{
    T_ITEMS(i, args.count)
    {
        args.to[i] = args.from[i] > 0.0f ? args.to[i] : 0.0f;
    }
}

T_KERNEL(tutti_train_multiply)
{
    T_ITEMS(i, args.count)
    {
        args.to[i] *= args.from[i];
    }
}

/* From [row][column][position] to [row][position][column]: channels become the innermost. */
T_KERNEL(tutti_train_turn)
{
    T_ITEMS(i, args.count)
    {
        uint64_t column = i % args.columns;
        uint64_t position = i / args.columns % args.depth;
        uint64_t row = i / args.columns / args.depth;

        args.to[i] = args.from[(row * args.columns + column) * args.depth + position];
    }
}

/* ---- 16 bits: to nearest, ties to even; every NaN a quiet one ---- */

static P_DEV uint16_t train_narrow(uint32_t kind, float value)
{
    uint32_t bits = p_float_bits(value);

    if (kind == TUTTI_KERNEL_HALF)
        return p_half_narrow(value);
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u
                          ? bits >> 16 | 0x40u
                          : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static P_DEV float train_widen(uint32_t kind, uint16_t value)
{
    return kind == TUTTI_KERNEL_HALF ? p_half_widen(value) : p_float((uint32_t)value << 16);
}

T_KERNEL(tutti_train_round)
{
    T_ITEMS(i, args.count)
    {
        args.to[i] = train_widen(args.kind, train_narrow(args.kind, args.from[i]));
    }
}

T_KERNEL(tutti_train_narrow)
{
    T_ITEMS(i, args.count)
    {
        ((uint16_t *)args.bytes)[i] = train_narrow(args.kind, args.from[i]);
    }
}

T_KERNEL(tutti_train_widen)
{
    T_ITEMS(i, args.count)
    {
        args.to[i] = train_widen(args.kind, ((const uint16_t *)args.from_bytes)[i]);
    }
}

/* bytes += from_bytes, of `kind`. */
T_KERNEL(tutti_train_add)
{
    T_ITEMS(i, args.count)
    {
        if (args.kind == TUTTI_KERNEL_FLOAT) {
            ((float *)args.bytes)[i] += ((const float *)args.from_bytes)[i];
        } else {
            uint16_t *to = (uint16_t *)args.bytes + i;
            float sum = train_widen(args.kind, *to) +
                        train_widen(args.kind, ((const uint16_t *)args.from_bytes)[i]);

            *to = train_narrow(args.kind, sum);
        }
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

static P_DEV uint64_t train_part(uint64_t count, uint64_t parts, uint64_t part)
{
    return count * part / parts;
}

/* sums[part][column]: of the rows of each part, one after the other. */
T_KERNEL(tutti_train_column_sums)
{
    T_ITEMS(i, args.count)
    {
        uint64_t column = i % args.columns;
        uint64_t part = i / args.columns;
        uint64_t end = train_part(args.rows, args.part_count, part + 1);
        double sum = 0;

        for (uint64_t row = train_part(args.rows, args.part_count, part); row < end; row++)
            sum += (double)args.from[row * args.columns + column];
        args.sums[i] = sum;
    }
}

/* The same of doubles: what sums of parts come to. */
T_KERNEL(tutti_train_part_sums)
{
    T_ITEMS(i, args.count)
    {
        uint64_t column = i % args.columns;
        uint64_t part = i / args.columns;
        uint64_t end = train_part(args.rows, args.part_count, part + 1);
        double sum = 0;

        for (uint64_t row = train_part(args.rows, args.part_count, part); row < end; row++)
            sum += args.parts[row * args.columns + column];
        args.sums[i] = sum;
    }
}

/* to[column] = the sum of all parts, added to what is there with `add`. */
T_KERNEL(tutti_train_column_totals)
{
    T_ITEMS(i, args.count)
    {
        double sum = 0;

        for (uint64_t part = 0; part < args.part_count; part++)
            sum += args.parts[part * args.count + i];
        args.to[i] = (float)(sum + (args.add ? (double)args.to[i] : 0.0));
    }
}

/* sums[i] += the sum of all parts, times `factor`. */
T_KERNEL(tutti_train_add_sums)
{
    T_ITEMS(i, args.count)
    {
        double sum = 0;

        for (uint64_t part = 0; part < args.part_count; part++)
            sum += args.parts[part * args.count + i];
        args.sums[i] += sum * args.factor;
    }
}

/* sums[part] of squares: elements take turns. */
T_KERNEL(tutti_train_square_sums)
{
    T_ITEMS(part, args.count)
    {
        double sum = 0;

        for (uint64_t i = part; i < args.rows; i += args.count)
            sum += (double)args.from[i] * (double)args.from[i];
        args.sums[part] = sum;
    }
}

/* ---- the step's report ----------------------------------------------------------------------- */

/* bytes, uint64_t [rows]: the device's clock, in ns. */
T_KERNEL(tutti_train_stamp)
{
    T_ITEMS(i, args.count)
    {
        ((uint64_t *)args.bytes)[args.rows + i] = p_now_ns();
    }
}

/* parts: loss, examples that are right, sum of squares; from_bytes: when the step's work began and
 * ended. sums: as enum TUTTI_REPORT has it, squares at `rows`, whether they are finite behind them,
 * seconds at `columns`. */
T_KERNEL(tutti_train_report)
{
    T_ITEMS(i, args.count)
    {
        const uint64_t *stamps = (const uint64_t *)args.from_bytes;
        double squares = args.parts[2];
        int finite = squares - squares == 0.0;

        args.sums[i] = args.parts[0];
        args.sums[i + 1] = args.parts[1];
        args.sums[args.rows] = finite ? squares : 0.0;
        args.sums[args.rows + 1] = finite ? 0.0 : 1.0;
        args.sums[args.columns] = (double)(stamps[1] - stamps[0]) * 1e-9;
    }
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* A row is an example, drawn from its own state (xoshiro256**), four elements a number: to[row]
 * becomes its mask, 0 or `scale`, and too[row] is multiplied by that. */
T_KERNEL(tutti_train_dropout)
{
    T_ITEMS(row, args.count)
    {
        uint64_t s[4];
        uint64_t bits = 0;

        for (int k = 0; k < 4; k++)
            s[k] = args.states[4 * row + (uint64_t)k];
        for (uint64_t i = 0; i < args.columns; i++, bits >>= 16) {
            uint64_t at = row * args.columns + i;
            float mask;

            if (i % 4 == 0) {
                uint64_t x = s[1] * 5;
                uint64_t t = s[1] << 17;

                bits = (x << 7 | x >> 57) * 9;
                s[2] ^= s[0];
                s[3] ^= s[1];
                s[1] ^= s[2];
                s[0] ^= s[3];
                s[2] ^= t;
                s[3] = s[3] << 45 | s[3] >> 19;
            }
            mask = (bits & 0xffffu) < args.below ? 0.0f : args.scale;
            args.to[at] = mask;
            args.too[at] *= mask;
        }
    }
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* e^x for x <= 0, as the host's loops have it. */
static P_DEV float train_exponential(float value)
{
    const float shift = 12582912.0f; /* 1.5 x 2^23: adding it rounds to a whole number */
    float x = -87.0f > value ? -87.0f : value;
    float whole = x * 1.44269504f + shift;
    float n = whole - shift;
    float r = x - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * p_float((p_float_bits(whole) + 127u) << 23);
}

/* A row is an example: from: logits; to: their gradients times `scale`; sums[row]: its loss, and
 * whether its label has the largest logit (a NaN counts as that, and is not right). */
T_KERNEL(tutti_train_cross_entropy)
{
    T_ITEMS(row, args.count)
    {
        const float *x = args.from + row * args.columns;
        float *s = args.to + row * args.columns;
        uint64_t label = args.labels[row];
        uint64_t at = 0;
        float largest;
        float sum = 0.0f;
        float by;
        double loss;

        for (uint64_t i = 1; i < args.columns; i++)
            if (!(x[i] <= x[at]) && x[at] == x[at])
                at = i;
        largest = x[at];
        loss = -(double)(x[label] - largest);
        for (uint64_t i = 0; i < args.columns; i++) {
            s[i] = train_exponential(x[i] - largest);
            sum += s[i];
        }
        loss += log((double)sum);
        by = args.scale / sum;
        for (uint64_t i = 0; i < args.columns; i++)
            s[i] *= by;
        s[label] -= args.scale;
        args.sums[2 * row] = loss;
        args.sums[2 * row + 1] = at == label && largest == largest ? 1.0 : 0.0;
    }
}

/* A row is an element: from: outputs; other: targets; to: gradients, times `scale`. */
T_KERNEL(tutti_train_square_error)
{
    T_ITEMS(row, args.count)
    {
        float off = args.from[row] - args.other[row];

        args.to[row] = off * args.scale;
        args.sums[2 * row] = (double)off * (double)off;
        args.sums[2 * row + 1] = 0.0;
    }
}

/* ---- windows: channels are the innermost ----------------------------------------------------- */

/* to[image][y][x][kernel row][kernel column][channel]: the window at (y, x) of each image. */
T_KERNEL(tutti_train_window_columns)
{
    const struct tutti_kernel_window w = args.window;

    T_ITEMS(i, args.count)
    {
        uint64_t channel = i % w.channels;
        uint64_t at = i / w.channels;
        int64_t across = (int64_t)(at % w.kernel);
        int64_t down = (int64_t)(at / w.kernel % w.kernel);
        uint64_t place = at / w.kernel / w.kernel;
        int64_t column = (int64_t)(place % w.out_columns * w.stride) + across - (int64_t)w.pad;
        int64_t row =
            (int64_t)(place / w.out_columns % w.out_rows * w.stride) + down - (int64_t)w.pad;
        uint64_t image = place / w.out_columns / w.out_rows;
        int inside =
            row >= 0 && row < (int64_t)w.rows && column >= 0 && column < (int64_t)w.columns;

        args.to[i] =
            inside ? args.from[((image * w.rows + (uint64_t)row) * w.columns + (uint64_t)column) *
                                   w.channels +
                               channel]
                   : 0.0f;
    }
}

/* The transpose: to[image][row][column][channel] is the sum of what the windows have there, in the
 * order of the windows. */
T_KERNEL(tutti_train_window_image)
{
    const struct tutti_kernel_window w = args.window;

    T_ITEMS(i, args.count)
    {
        uint64_t channel = i % w.channels;
        int64_t column = (int64_t)(i / w.channels % w.columns) + (int64_t)w.pad;
        int64_t row = (int64_t)(i / w.channels / w.columns % w.rows) + (int64_t)w.pad;
        uint64_t image = i / w.channels / w.columns / w.rows;
        int64_t kernel = (int64_t)w.kernel;
        int64_t stride = (int64_t)w.stride;
        int64_t first_y = row < kernel ? 0 : (row - kernel) / stride + 1;
        int64_t first_x = column < kernel ? 0 : (column - kernel) / stride + 1;
        float sum = 0.0f;

        for (int64_t y = first_y; y < (int64_t)w.out_rows && y * stride <= row; y++) {
            for (int64_t x = first_x; x < (int64_t)w.out_columns && x * stride <= column; x++) {
                uint64_t window = (image * w.out_rows + (uint64_t)y) * w.out_columns + (uint64_t)x;
                uint64_t place = (uint64_t)((row - y * stride) * kernel + (column - x * stride));

                sum += args.from[(window * w.kernel * w.kernel + place) * w.channels + channel];
            }
        }
        args.to[i] = sum;
    }
}

/* Maxima of 2 x 2 windows, then `other` (NULL: nothing) and relu as above; bytes: which of the
 * four, the first of equals. */
T_KERNEL(tutti_train_pool)
{
    const struct tutti_kernel_window w = args.window;

    T_ITEMS(i, args.count)
    {
        uint64_t channel = i % w.channels;
        uint64_t x = i / w.channels % w.out_columns;
        uint64_t y = i / w.channels / w.out_columns % w.out_rows;
        uint64_t image = i / w.channels / w.out_columns / w.out_rows;
        const float *upper =
            args.from + ((image * w.rows + 2 * y) * w.columns + 2 * x) * w.channels + channel;
        const float *lower = upper + (uint64_t)w.columns * w.channels;
        float a = upper[0];
        float b = upper[w.channels];
        float c = lower[0];
        float d = lower[w.channels];
        float above = b > a ? b : a;
        float below = d > c ? d : c;
        float most =
            (below > above ? below : above) + (args.other != P_NULL ? args.other[channel] : 0.0f);

        ((uint8_t *)args.bytes)[i] = (uint8_t)(below > above ? 2 + (d > c) : b > a);
        args.to[i] = args.relu && 0.0f > most ? 0.0f : most;
    }
}

/* to[image][row][column][channel]: the gradient of the window that it was the maximum of, or 0. */
T_KERNEL(tutti_train_pool_backward)
{
    const struct tutti_kernel_window w = args.window;

    T_ITEMS(i, args.count)
    {
        uint64_t channel = i % w.channels;
        uint64_t column = i / w.channels % w.columns;
        uint64_t row = i / w.channels / w.columns % w.rows;
        uint64_t image = i / w.channels / w.columns / w.rows;
        float slope = 0.0f;

        if (row / 2 < w.out_rows && column / 2 < w.out_columns) {
            uint64_t at =
                ((image * w.out_rows + row / 2) * w.out_columns + column / 2) * w.channels +
                channel;

            if (((const uint8_t *)args.from_bytes)[at] == row % 2 * 2 + column % 2)
                slope = args.from[at];
        }
        args.to[i] = slope;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* to: weights; from: gradients; moments as the optimizer has them. As struct tutti_update_step. */
T_KERNEL(tutti_train_update)
{
    T_ITEMS(i, args.count)
    {
        float g = args.from[i] * args.scale;
        float w = args.to[i] - args.to[i] * args.decay;

        if (args.kind == TUTTI_KERNEL_ADAM) {
            float m = args.moments[0][i] + (g - args.moments[0][i]) * args.mean_part;
            float v = args.moments[1][i] + (g * g - args.moments[1][i]) * args.variance_part;

            args.moments[0][i] = m;
            args.moments[1][i] = v;
            args.to[i] = w - m * args.rate / (sqrtf(v) + args.epsilon);
        } else if (args.kind == TUTTI_KERNEL_MOMENTUM) {
            float v = args.moments[0][i] * args.momentum - g * args.rate;
            float ahead = args.nesterov ? args.momentum : 1.0f;
            float again = args.nesterov ? args.rate : 0.0f;

            args.moments[0][i] = v;
            args.to[i] = w + (v * ahead - g * again);
        } else {
            args.to[i] = w - args.rate * g;
        }
    }
}

/* The outer optimizer: to: the average; moments: the last one, and the outer moment. */
T_KERNEL(tutti_train_outer)
{
    T_ITEMS(i, args.count)
    {
        float slope = args.moments[0][i] - args.to[i];
        float moment = args.momentum * args.moments[1][i] + slope;

        args.moments[1][i] = moment;
        args.to[i] = args.moments[0][i] - args.rate * (slope + args.momentum * moment);
        args.moments[0][i] = args.to[i];
    }
}

/* ---- products without cuBLAS ----------------------------------------------------------------- */

static P_DEV float train_a(const struct tutti_kernel_args *p, uint64_t row, uint64_t k)
{
    if (row >= p->rows || k >= p->depth)
        return 0.0f;
    return p->from[p->transpose_a ? k * p->rows + row : row * p->depth + k];
}

static P_DEV float train_b(const struct tutti_kernel_args *p, uint64_t k, uint64_t column)
{
    if (column >= p->columns || k >= p->depth)
        return 0.0f;
    return p->other[p->transpose_b ? column * p->depth + k : k * p->columns + column];
}

/* to = from other, or to += from other, as struct tutti_product; count: tiles of TILE x TILE. A
 * thread has TILE_SIDE x TILE_SIDE elements, summed in the order of the depth. */
T_KERNEL(tutti_train_product)
{
    T_SHARED float a[TILE_DEPTH][TILE];
    T_SHARED float b[TILE_DEPTH][TILE];
    const uint64_t across = (args.columns + TILE - 1) / TILE;

    T_BLOCKS(tile, args.count)
    {
        const uint64_t row = tile / across * TILE;
        const uint64_t column = tile % across * TILE;
        T_OWN(sums);

        T_THREADS(t)
        {
            for (int e = 0; e < TILE_OWN; e++) {
                uint64_t y = row + t / 16 * TILE_SIDE + (uint64_t)e / TILE_SIDE;
                uint64_t x = column + t % 16 * TILE_SIDE + (uint64_t)e % TILE_SIDE;

                T_MINE(sums, t)
                [e] = args.add && y < args.rows && x < args.columns ? args.to[y * args.columns + x]
                                                                    : 0.0f;
            }
        }
        for (uint64_t from = 0; from < args.depth; from += TILE_DEPTH) {
            T_MEET();
            T_THREADS(t)
            {
                /* Neighbours read what lies side by side, whichever way the matrix does. */
                for (uint32_t i = t; i < TILE_DEPTH * TILE; i += TILE_THREADS) {
                    uint32_t ay = args.transpose_a ? i % TILE : i / TILE_DEPTH;
                    uint32_t ak = args.transpose_a ? i / TILE : i % TILE_DEPTH;
                    uint32_t bx = args.transpose_b ? i / TILE_DEPTH : i % TILE;
                    uint32_t bk = args.transpose_b ? i % TILE_DEPTH : i / TILE;

                    a[ak][ay] = train_a(&args, row + ay, from + ak);
                    b[bk][bx] = train_b(&args, from + bk, column + bx);
                }
            }
            T_MEET();
            T_THREADS(t)
            {
                for (int k = 0; k < TILE_DEPTH; k++) {
                    P_UNROLL
                    for (int e = 0; e < TILE_OWN; e++)
                        T_MINE(sums, t)
                    [e] = T_FMA(a[k][t / 16 * TILE_SIDE + (uint32_t)e / TILE_SIDE],
                                b[k][t % 16 * TILE_SIDE + (uint32_t)e % TILE_SIDE],
                                T_MINE(sums, t)[e]);
                }
            }
        }
        T_THREADS(t)
        {
            for (int e = 0; e < TILE_OWN; e++) {
                uint64_t y = row + t / 16 * TILE_SIDE + (uint64_t)e / TILE_SIDE;
                uint64_t x = column + t % 16 * TILE_SIDE + (uint64_t)e % TILE_SIDE;

                if (y < args.rows && x < args.columns)
                    args.to[y * args.columns + x] = T_MINE(sums, t)[e];
            }
        }
    }
}

#endif
