/* Answers in place of cuBLAS, beside the stand-in for the driver's library (cuda_standin.c), whose
 * streams do the products in their order; by own loops. What a test sets in the environment:
 *   TUTTI_STANDIN_CUDA  the stand-in for the driver's library, by its path
 *   TUTTI_STANDIN_FAIL  CALL:N: the N-th call of that name fails with status 14 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CALL(NAME, PARAMETERS)                                  \
    __attribute__((visibility("default"))) int NAME PARAMETERS; \
    int NAME PARAMETERS

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INTERNAL_ERROR = 14 };

struct handle {
    void *library;
    int (*put)(void *stream, void (*call)(const void *args), const void *args, size_t bytes);
    void *stream;
};

struct product {
    int transpose_a;
    int transpose_b;
    int rows;
    int columns;
    int depth;
    float alpha;
    float beta;
    const float *a;
    int a_stride;
    const float *b;
    int b_stride;
    float *c;
    int c_stride;
};

/* Whether this call is the one that is to fail. */
static bool fails(const char *call)
{
    static uint64_t calls;
    const char *wish = getenv("TUTTI_STANDIN_FAIL");
    size_t length = strlen(call);

    if (wish == NULL || strncmp(wish, call, length) != 0 || wish[length] != ':')
        return false;
    return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == strtoull(wish + length + 1, NULL, 0);
}

__attribute__((visibility("default"))) const char *cublasGetStatusName(int status);
const char *cublasGetStatusName(int status)
{
    return status == INTERNAL_ERROR    ? "CUBLAS_STATUS_INTERNAL_ERROR"
           : status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
                                       : "CUBLAS_STATUS_SUCCESS";
}

CALL(cublasCreate_v2, (void **ret))
{
    const char *name = getenv("TUTTI_STANDIN_CUDA");
    struct handle *handle;
    void *symbol;

    if (fails(__func__) || name == NULL)
        return INTERNAL_ERROR;
    handle = calloc(1, sizeof(*handle));
    if (handle == NULL)
        return NOT_INITIALIZED;
    handle->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    symbol = handle->library == NULL ? NULL : dlsym(handle->library, "standin_put");
    if (symbol == NULL) {
        free(handle);
        return NOT_INITIALIZED;
    }
    memcpy(&handle->put, &symbol, sizeof(symbol));
    *ret = handle;
    return SUCCESS;
}

CALL(cublasDestroy_v2, (void *data))
{
    struct handle *handle = data;

    (void)dlclose(handle->library);
    free(handle);
    return SUCCESS;
}

CALL(cublasSetStream_v2, (void *handle, void *stream))
{
    if (fails(__func__))
        return INTERNAL_ERROR;
    ((struct handle *)handle)->stream = stream;
    return SUCCESS;
}

/* Columns are the innermost: element (row, column) of C is c[column * c_stride + row]. */
static void multiply(const void *args)
{
    const struct product *p = args;
    const int b_step = p->transpose_b ? p->b_stride : 1;
    const int a_row = p->transpose_a ? p->a_stride : 1;
    const int a_step = p->transpose_a ? 1 : p->a_stride;

    for (int column = 0; column < p->columns; column++) {
        float *c = p->c + (size_t)column * (size_t)p->c_stride;
        const float *b = p->b + (size_t)column * (size_t)(p->transpose_b ? 1 : p->b_stride);

        for (int row = 0; row < p->rows; row++)
            c[row] = p->beta == 0 ? 0 : p->beta * c[row];
        for (int k = 0; k < p->depth; k++) {
            const float by = p->alpha * b[(size_t)k * (size_t)b_step];
            const float *a = p->a + (size_t)k * (size_t)a_step;

            for (int row = 0; row < p->rows; row++)
                c[row] += a[(size_t)row * (size_t)a_row] * by;
        }
    }
}

CALL(cublasSgemm_v2, (void *data, int transpose_a, int transpose_b, int rows, int columns,
                      int depth, const float *alpha, const float *a, int a_stride, const float *b,
                      int b_stride, const float *beta, float *c, int c_stride))
{
    struct handle *handle = data;
    const struct product product = {transpose_a, transpose_b, rows, columns,  depth, *alpha,  *beta,
                                    a,           a_stride,    b,    b_stride, c,     c_stride};

    if (fails(__func__))
        return INTERNAL_ERROR;
    return handle->put(handle->stream, multiply, &product, sizeof(product)) == 0 ? SUCCESS
                                                                                 : INTERNAL_ERROR;
}
