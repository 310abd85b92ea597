/* Gradients compressed: the largest of them, or factors of matrices. */
#include "runtime/train/compress.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/random.h"

/* ---- the largest ----------------------------------------------------------------------------- */

/* Magnitudes in the order of their bits: infinities above all numbers, and NaNs above those. */
static uint32_t key_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits & UINT32_C(0x7fffffff);
}

/* The key of the value that has *left - 1 larger ones, digit by digit from the top; of those that
 * have that key, *left are among the largest. */
static uint32_t threshold(const float *values, uint64_t count, uint64_t *left)
{
    enum { DIGITS = 3, BITS = 11, BINS = 1 << BITS };
    static const uint32_t shifts[DIGITS] = {20, 9, 0};
    uint64_t bins[BINS];
    uint32_t key = 0;
    uint32_t mask = 0;

    for (int d = 0; d < DIGITS; d++) {
        const uint32_t digits = (d + 1 < DIGITS ? BINS : 1 << 9) - 1;
        uint32_t digit = digits;

        memset(bins, 0, sizeof(bins));
        for (uint64_t i = 0; i < count; i++) {
            uint32_t k = key_of(values[i]);

            if ((k & mask) == key)
                bins[k >> shifts[d] & digits]++;
        }
        while (bins[digit] < *left)
            *left -= bins[digit--];
        key |= digit << shifts[d];
        mask |= digits << shifts[d];
    }
    return key;
}

void tutti_top_k(const float *values, uint64_t count, uint64_t keep, float *ret_values,
                 uint32_t *ret_indices)
{
    uint64_t left = keep;
    uint64_t found = 0;
    uint32_t least;

    assert(keep >= 1);
    assert(keep <= count && count <= UINT32_MAX);
    least = threshold(values, count, &left);
    for (uint64_t i = 0; i < count && found < keep; i++) {
        uint32_t key = key_of(values[i]);

        if (key < least || (key == least && left == 0))
            continue;
        left -= key == least;
        ret_values[found] = values[i];
        ret_indices[found++] = (uint32_t)i;
    }
    assert(found == keep);
}

void tutti_top_k_add(float *to, const float *values, const uint32_t *indices, uint64_t keep)
{
    for (uint64_t i = 0; i < keep; i++)
        to[indices[i]] += values[i];
}

/* ---- factors --------------------------------------------------------------------------------- */

void tutti_factor_first(const float *matrix, uint64_t rows, uint64_t columns, uint32_t rank,
                        const float *second, float *ret_first)
{
    memset(ret_first, 0, rows * rank * sizeof(float));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < columns; k++)
            for (uint32_t j = 0; j < rank; j++)
                ret_first[i * rank + j] += matrix[i * columns + k] * second[k * rank + j];
}

void tutti_factor_second(const float *matrix, uint64_t rows, uint64_t columns, uint32_t rank,
                         const float *first, float *ret_second)
{
    memset(ret_second, 0, columns * rank * sizeof(float));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < columns; k++)
            for (uint32_t j = 0; j < rank; j++)
                ret_second[k * rank + j] += matrix[i * columns + k] * first[i * rank + j];
}

void tutti_factor_product(const float *first, const float *second, uint64_t rows, uint64_t columns,
                          uint32_t rank, float *ret_matrix)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < columns; k++) {
            float sum = 0;

            for (uint32_t j = 0; j < rank; j++)
                sum += first[i * rank + j] * second[k * rank + j];
            ret_matrix[i * columns + k] = sum;
        }
}

static double product_of(const float *matrix, uint64_t rows, uint32_t rank, uint32_t a, uint32_t b)
{
    double sum = 0;

    for (uint64_t i = 0; i < rows; i++)
        sum += (double)matrix[i * rank + a] * (double)matrix[i * rank + b];
    return sum;
}

/* Column `at` becomes orthogonal to those before it, which are orthonormal or zero. */
static void make_orthogonal(float *matrix, uint64_t rows, uint32_t rank, uint32_t at)
{
    for (uint32_t before = 0; before < at; before++) {
        double part = product_of(matrix, rows, rank, before, at);

        for (uint64_t i = 0; i < rows; i++)
            matrix[i * rank + at] =
                (float)((double)matrix[i * rank + at] - part * (double)matrix[i * rank + before]);
    }
}

static void scale_column(float *matrix, uint64_t rows, uint32_t rank, uint32_t at, double by)
{
    for (uint64_t i = 0; i < rows; i++)
        matrix[i * rank + at] = (float)((double)matrix[i * rank + at] * by);
}

void tutti_orthogonalize(float *matrix, uint64_t rows, uint32_t rank)
{
    const double least = 1e-5;

    for (uint32_t at = 0; at < rank; at++) {
        double before = sqrt(product_of(matrix, rows, rank, at, at));
        double after;

        if (before > 0)
            scale_column(matrix, rows, rank, at, 1 / before);
        make_orthogonal(matrix, rows, rank, at);
        after = sqrt(product_of(matrix, rows, rank, at, at));
        if (after <= least) {
            scale_column(matrix, rows, rank, at, 0);
            continue;
        }
        scale_column(matrix, rows, rank, at, 1 / after);
        make_orthogonal(matrix, rows, rank, at);
        scale_column(matrix, rows, rank, at, 1 / sqrt(product_of(matrix, rows, rank, at, at)));
    }
}

/* Six uniform numbers have a sum that is nearly normal. */
static float draw(struct tutti_random *random)
{
    double sum = -3;

    for (int i = 0; i < 6; i++)
        sum += tutti_random_unit(random);
    return (float)sum;
}

void tutti_factor_renew(float *factor, uint64_t rows, uint32_t rank, uint64_t seed)
{
    tutti_orthogonalize(factor, rows, rank);
    for (uint32_t at = 0; at < rank; at++) {
        struct tutti_random random;

        if (product_of(factor, rows, rank, at, at) > 0.5)
            continue;
        tutti_random_seed(&random, tutti_random_hash(seed, at, rank, rows));
        for (uint64_t i = 0; i < rows; i++)
            factor[i * rank + at] = draw(&random);
    }
    tutti_orthogonalize(factor, rows, rank);
}
