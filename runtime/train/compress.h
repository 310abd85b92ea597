/* Gradients compressed: the largest of them, or factors of matrices. Pure functions, equal to the
 * bit wherever they are called: every sum has one order. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_COMPRESS_H
#define TUTTI_RUNTIME_TRAIN_COMPRESS_H

#include <stdint.h>

/* The `keep` values of largest magnitude and their indices, in the order of indices; of equal ones
 * those of least index. What is not finite is larger than all else, so that it is never left
 * out. 1 <= keep <= count < 2^32. Reads all values four times. */
void tutti_top_k(const float *values, uint64_t count, uint64_t keep, float *ret_values,
                 uint32_t *ret_indices);
/* to[indices[i]] += values[i], one after the other. */
void tutti_top_k_add(float *to, const float *values, const uint32_t *indices, uint64_t keep);

/* Matrices are row-major. First factor [rows][rank] = matrix [rows][columns] x [columns][rank]. */
void tutti_factor_first(const float *matrix, uint64_t rows, uint64_t columns, uint32_t rank,
                        const float *second, float *ret_first);
/* Second factor [columns][rank] = matrix transposed x [rows][rank]. */
void tutti_factor_second(const float *matrix, uint64_t rows, uint64_t columns, uint32_t rank,
                         const float *first, float *ret_second);
/* first x second transposed. */
void tutti_factor_product(const float *first, const float *second, uint64_t rows, uint64_t columns,
                          uint32_t rank, float *ret_matrix);
/* Columns become orthonormal, each orthogonal to those before it (Gram and Schmidt, twice, in
 * double precision); one that those before it span, to a part in 10^5, becomes zero. What is not
 * finite stays so. */
void tutti_orthogonalize(float *matrix, uint64_t rows, uint32_t rank);
/* Columns that are zero are drawn anew, from a seed of their own; then all are orthonormal. */
void tutti_factor_renew(float *factor, uint64_t rows, uint32_t rank, uint64_t seed);

#endif
