/* Normal equations by Cholesky's factorisation; see normal.h. */
#include "sim/fit/normal.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

static double *at(double *matrix, uint32_t size, uint32_t row, uint32_t column)
{
    return matrix + (size_t)row * size + column;
}

void tutti_normal_add(double *matrix, double *vector, uint32_t size, const double *row,
                      double weight, double residual)
{
    uint32_t full[TUTTI_NORMAL_ROW_MAX]; /* columns that are not zero */
    uint32_t count = 0;

    for (uint32_t i = 0; i < size; i++) {
        if (row[i] > 0 || row[i] < 0) {
            assert(count < TUTTI_NORMAL_ROW_MAX);
            full[count++] = i;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        double scaled = weight * row[full[i]];

        for (uint32_t j = 0; j <= i; j++)
            *at(matrix, size, full[i], full[j]) += scaled * row[full[j]];
        vector[full[i]] += scaled * residual;
    }
}

/* Four sums at a time, always the same ones: one alone would wait for each addition. */
static double dot(const double *a, const double *b, uint32_t count)
{
    double sums[4] = {0};
    uint32_t i = 0;

    for (; i + 4 <= count; i += 4) {
        sums[0] += a[i] * b[i];
        sums[1] += a[i + 1] * b[i + 1];
        sums[2] += a[i + 2] * b[i + 2];
        sums[3] += a[i + 3] * b[i + 3];
    }
    for (; i < count; i++)
        sums[0] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

bool tutti_normal_factor(double *matrix, uint32_t size)
{
    for (uint32_t j = 0; j < size; j++) {
        const double *row = at(matrix, size, j, 0);
        double pivot = *at(matrix, size, j, j) - dot(row, row, j);

        if (!(pivot > 0))
            return false;
        pivot = sqrt(pivot);
        *at(matrix, size, j, j) = pivot;
        for (uint32_t i = j + 1; i < size; i++) {
            double sum = *at(matrix, size, i, j) - dot(at(matrix, size, i, 0), row, j);

            *at(matrix, size, i, j) = sum / pivot;
        }
    }
    return true;
}

void tutti_normal_solve(const double *factor, uint32_t size, double *vector)
{
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t k = 0; k < i; k++)
            vector[i] -= factor[(size_t)i * size + k] * vector[k];
        vector[i] /= factor[(size_t)i * size + i];
    }
    for (uint32_t i = size; i-- > 0;) {
        for (uint32_t k = i + 1; k < size; k++)
            vector[i] -= factor[(size_t)k * size + i] * vector[k];
        vector[i] /= factor[(size_t)i * size + i];
    }
}
