/* No OpenBLAS in this build. */
#include "runtime/train/products.h"

bool tutti_blas_open(struct tutti_blas *ret)
{
    (void)ret;
    return false;
}
