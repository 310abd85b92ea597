/* Normal equations by Cholesky's factorisation; see normal.h. */
#include "sim/fit/normal.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static double *at(double *matrix, uint32_t size, uint32_t row, uint32_t column)
{
    return matrix + (size_t)row * size + column;
}

static bool is_zero(double x)
{
    return x >= 0 && x <= 0; /* what is no number is not */
}

enum { EIGHT = 8 };

/* By their bits: most of a row is zeros, and to compare each takes longer than all the rest. */
static bool are_zero(const double *row)
{
    uint64_t bits[EIGHT], all = 0;

    memcpy(bits, row, sizeof(bits));
    for (int i = 0; i < EIGHT; i++)
        all |= bits[i];
    return all << 1 == 0; /* but for the sign */
}

void tutti_normal_add(double *matrix, double *vector, uint32_t size, const double *row,
                      double weight, double residual)
{
    uint32_t full[TUTTI_NORMAL_ROW_MAX]; /* columns that are not zero */
    uint32_t count = 0;

    assert(size <= TUTTI_NORMAL_ROW_MAX);
    for (uint32_t i = 0; i < size; i++) {
        while (i + EIGHT <= size && are_zero(row + i))
            i += EIGHT;
        if (i < size && !is_zero(row[i]))
            full[count++] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        double scaled = weight * row[full[i]];

        for (uint32_t j = 0; j <= i; j++)
            *at(matrix, size, full[i], full[j]) += scaled * row[full[j]];
        vector[full[i]] += scaled * residual;
    }
}

/* From the last row to the first, and only what is not zero: a parameter that comes late is of few
 * points, and fills in little where it goes first. Each entry is changed by one product at a time,
 * in an order that no compiler changes. */
bool tutti_normal_factor(double *matrix, uint32_t size)
{
    uint32_t full[TUTTI_NORMAL_ROW_MAX];
    double values[TUTTI_NORMAL_ROW_MAX];

    assert(size <= TUTTI_NORMAL_ROW_MAX);
    for (uint32_t k = size; k-- > 0;) {
        double *row = at(matrix, size, k, 0);
        uint32_t count = 0;

        if (!(row[k] > 0))
            return false;
        row[k] = sqrt(row[k]);
        for (uint32_t i = 0; i < k; i++) {
            if (!is_zero(row[i])) {
                row[i] /= row[k];
                full[count] = i;
                values[count++] = row[i];
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            double *other = at(matrix, size, full[i], 0);

            for (uint32_t j = 0; j <= i; j++)
                other[full[j]] -= values[i] * values[j];
        }
    }
    return true;
}

void tutti_normal_solve(const double *factor, uint32_t size, double *vector)
{
    for (uint32_t k = size; k-- > 0;) {
        const double *row = factor + (size_t)k * size;

        vector[k] /= row[k];
        for (uint32_t i = 0; i < k && !is_zero(vector[k]); i++)
            vector[i] -= row[i] * vector[k];
    }
    for (uint32_t k = 0; k < size; k++) {
        const double *row = factor + (size_t)k * size;

        for (uint32_t i = 0; i < k; i++)
            vector[k] -= row[i] * vector[i];
        vector[k] /= row[k];
    }
}
