/* Products of matrices of float32, row by row in memory, one behind the other: by OpenBLAS where
 * it is, else by the loops of this tree; private to runtime/train.
 *
 * What is summed in which order: the loops take the depth in its order, whatever the sizes, so
 * that a row of the result is the same to the bit in a batch of any size, on any processor.
 * OpenBLAS chooses kernels and blocks by processor, sizes and version: the same call gives the
 * same bits on one machine (its threads are bounded, and divide rows and columns, never the
 * depth), but rows of a batch of 32 may differ from those of a batch of 128 in the last place. */
#ifndef TUTTI_RUNTIME_TRAIN_PRODUCTS_H
#define TUTTI_RUNTIME_TRAIN_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_loops;

/* C = A B, or C += A B. A is [rows x depth], with transpose_a stored as [depth x rows]; B is
 * [depth x columns], with transpose_b stored as [columns x depth]. No size is 0 but the depth: C
 * is 0 then. / */
struct tutti_product {
    size_t rows;
    size_t columns;
    size_t depth;
    const float *a;
    const float *b;
    float *c;
    bool transpose_a;
    bool transpose_b;
    bool add;
};

/* OpenBLAS, as far as it is used. */
struct tutti_blas {
    void (*sgemm)(int order, int transpose_a, int transpose_b, int rows, int columns, int depth,
                  float alpha, const float *a, int a_stride, const float *b, int b_stride,
                  float beta, float *c, int c_stride);
    int (*get_threads)(void);
    void (*set_threads)(int count);
    const char *(*config)(void);  /* "OpenBLAS 0.3.21 ..." */
    const char *(*kernels)(void); /* "Haswell" */
};

/* False: this build or this machine has none. Loaded on first use, for that takes 20 ms and starts
 * threads of its own; it stays until the process ends. */
bool tutti_blas_open(struct tutti_blas *ret);

struct tutti_products {
    /* May be called by several threads at once. */
    void (*multiply)(const struct tutti_products *products, const struct tutti_product *product);
    const char *name; /* "openblas" or "loops" */
    const struct tutti_loops *loops;
    struct tutti_blas blas;
    int threads_before; /* 0: not to be put back */
};

/* OpenBLAS bounded to so many threads a product (0: 1), else the loops. The bound is the process's:
 * whoever opens two at a time closes the later one first. */
void tutti_products_open(uint32_t thread_count, struct tutti_products *ret);
/* Puts the bound back that was there before. */
void tutti_products_close(struct tutti_products *products);
/* The loops, whatever there is beside. */
void tutti_products_by_loops(const struct tutti_loops *loops, struct tutti_products *ret);

#endif
