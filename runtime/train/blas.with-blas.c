/* OpenBLAS by dlopen: the name that it has everywhere, then the file that configuration found. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "build.h"
#include "runtime/train/products.h"

/* A function of that name; C has no cast from an object's address to a function's. */
static bool find(void *library, const char *name, void *ret_function)
{
    void *address = dlsym(library, name);

    memcpy(ret_function, &address, sizeof(address));
    return address != NULL;
}

bool tutti_blas_open(struct tutti_blas *ret)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    void *library = dlopen("libopenblas.so.0", flags);
    struct tutti_blas blas;
    bool complete;

    if (library == NULL)
        library = dlopen(TUTTI_BUILD_BLAS, flags);
    if (library == NULL)
        return false;
    complete = find(library, "cblas_sgemm", &blas.sgemm) &&
               find(library, "openblas_get_num_threads", &blas.get_threads) &&
               find(library, "openblas_set_num_threads", &blas.set_threads) &&
               find(library, "openblas_get_config", &blas.config) &&
               find(library, "openblas_get_corename", &blas.kernels);
    (void)dlclose(library); /* one count less; it stays */
    if (complete)
        *ret = blas;
    return complete;
}
