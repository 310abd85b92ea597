/* Normal equations: symmetric positive definite systems, stored as if dense, mostly zeros. */
#ifndef TUTTI_SIM_FIT_NORMAL_H
#define TUTTI_SIM_FIT_NORMAL_H

#include <stdbool.h>
#include <stdint.h>

/* Adds weight * row * row^T to the lower triangle of `matrix` and weight * row * residual to
 * `vector`. Rows are mostly zeros:
 * at most so many are not. */
enum { TUTTI_NORMAL_ROW_MAX = 4096 };
void tutti_normal_add(double *matrix, double *vector, uint32_t size, const double *row,
                      double weight, double residual);

/* Cholesky in place, from the last row: the lower triangle becomes L with matrix = L^T L. False
 * where it is not positive definite. Price: for each row the square of how many entries are not
 * zero by then, so rows of little belong at the end. */
bool tutti_normal_factor(double *matrix, uint32_t size);

/* Solves L^T L x = vector in place. */
void tutti_normal_solve(const double *factor, uint32_t size, double *vector);

#endif
