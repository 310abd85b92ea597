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

bool tutti_normal_factor(double *matrix, uint32_t size)
{
    for (uint32_t j = 0; j < size; j++) {
        double pivot = *at(matrix, size, j, j);

        for (uint32_t k = 0; k < j; k++)
            pivot -= *at(matrix, size, j, k) * *at(matrix, size, j, k);
        if (!(pivot > 0))
            return false;
        pivot = sqrt(pivot);
        *at(matrix, size, j, j) = pivot;
        for (uint32_t i = j + 1; i < size; i++) {
            double sum = *at(matrix, size, i, j);

            for (uint32_t k = 0; k < j; k++)
                sum -= *at(matrix, size, i, k) * *at(matrix, size, j, k);
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
