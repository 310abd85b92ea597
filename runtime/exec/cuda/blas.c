/* Opens cuBLAS, and multiplies by it; see blas.h. */
#include "runtime/exec/cuda/blas.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/products.h"

static const struct {
    const char *symbol;
    size_t offset;
} calls[] = {
    {"cublasCreate_v2", offsetof(struct tutti_cublas, create)},
    {"cublasDestroy_v2", offsetof(struct tutti_cublas, destroy)},
    {"cublasSetStream_v2", offsetof(struct tutti_cublas, set_stream)},
    {"cublasSgemm_v2", offsetof(struct tutti_cublas, sgemm)},
    {"cublasGetStatusName", offsetof(struct tutti_cublas, status_name)},
};

static int find_calls(struct tutti_cublas *blas, struct tutti_err *err)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol = dlsym(blas->library, calls[i].symbol);

        if (symbol == NULL)
            return tutti_fail(err, TUTTI_ELACK, "'%s' has no '%s' (cuBLAS 11.4 or later)",
                              blas->name, calls[i].symbol);
        memcpy((char *)blas + calls[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

int tutti_cublas_open(struct tutti_cublas *ret, int other_driver, struct tutti_err *err)
{
    static const char *const known[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
    const char *named = getenv("TUTTI_CUBLAS_LIBRARY");
    struct tutti_cublas made = {.name = named};
    int status;

    *ret = made;
    if (named != NULL ? strcmp(named, "none") == 0 : other_driver)
        return 0;
    if (named != NULL)
        made.library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0;
         named == NULL && made.library == NULL && i < sizeof(known) / sizeof(known[0]); i++) {
        made.name = known[i];
        made.library = dlopen(made.name, RTLD_NOW | RTLD_LOCAL);
    }
    if (made.library == NULL)
        return named == NULL ? 0
                             : tutti_fail(err, TUTTI_ELACK,
                                          "cannot open cuBLAS: %s (or TUTTI_CUBLAS_LIBRARY=none: "
                                          "own kernels multiply)",
                                          dlerror());
    status = find_calls(&made, err);
    if (status < 0) {
        tutti_cublas_close(&made);
        return status;
    }
    *ret = made;
    return 0;
}

void tutti_cublas_close(struct tutti_cublas *blas)
{
    if (blas->library != NULL)
        (void)dlclose(blas->library);
    *blas = (struct tutti_cublas){.library = NULL};
}

static int check(const struct tutti_cublas *blas, int result, const char *call,
                 struct tutti_err *err)
{
    const char *name;

    if (result == 0)
        return 0;
    name = blas->status_name(result);
    return tutti_fail(err, TUTTI_EIO, "%s: %s (%d)", call,
                      name != NULL ? name : "an error it has no name for", result);
}

int tutti_cublas_handle(const struct tutti_cublas *blas, void *stream, void **ret,
                        struct tutti_err *err)
{
    void *handle = NULL;
    int status = check(blas, blas->create(&handle), "cublasCreate", err);

    if (status < 0)
        return status;
    status = check(blas, blas->set_stream(handle, stream), "cublasSetStream", err);
    if (status < 0) {
        (void)blas->destroy(handle);
        return status;
    }
    *ret = handle;
    return 0;
}

/* Columns are the innermost there: C^T = B^T A^T. */
int tutti_cublas_multiply(const struct tutti_cublas *blas, void *handle,
                          const struct tutti_product *p, struct tutti_err *err)
{
    const float alpha = 1;
    const float beta = p->add ? 1 : 0;
    int rows = (int)p->rows;
    int columns = (int)p->columns;
    int depth = (int)p->depth;

    assert(p->rows <= INT_MAX && p->columns <= INT_MAX);
    assert(p->depth <= INT_MAX);
    return check(blas,
                 blas->sgemm(handle, p->transpose_b, p->transpose_a, columns, rows, depth, &alpha,
                             p->b, p->transpose_b ? depth : columns, p->a,
                             p->transpose_a ? rows : depth, &beta, p->c, columns),
                 "cublasSgemm", err);
}
