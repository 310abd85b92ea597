/* cuBLAS, opened at run time: what multiplies matrices on a GPU. Private to runtime/exec/cuda. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_BLAS_H
#define TUTTI_RUNTIME_EXEC_CUDA_BLAS_H

struct tutti_err;
struct tutti_product;

/* Its calls, as far as they are used; statuses and operations as cublas_api.h numbers them. */
struct tutti_cublas {
    void *library; /* NULL: there is none, and own kernels multiply */
    const char *name;
    int (*create)(void **ret);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*sgemm)(void *handle, int transpose_a, int transpose_b, int rows, int columns, int depth,
                 const float *alpha, const float *a, int a_stride, const float *b, int b_stride,
                 const float *beta, float *c, int c_stride);
    const char *(*status_name)(int status);
};

/* What TUTTI_CUBLAS_LIBRARY names ("none": none), or else the newest that the machine has. Where
 * `other_driver`, the driver is not NVIDIA's own, whose library would not go with it: none but the
 * one that is named. -TUTTI_ELACK: what is named cannot be opened, or lacks a call. */
int tutti_cublas_open(struct tutti_cublas *ret, int other_driver, struct tutti_err *err);
void tutti_cublas_close(struct tutti_cublas *blas); /* a zeroed one is a no-op */

/* A handle a stream: results are then the same in every run. */
int tutti_cublas_handle(const struct tutti_cublas *blas, void *stream, void **ret,
                        struct tutti_err *err);
int tutti_cublas_multiply(const struct tutti_cublas *blas, void *handle,
                          const struct tutti_product *product, struct tutti_err *err);

#endif
