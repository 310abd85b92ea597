/* Who multiplies in real training, for `tutti doctor`. */
#ifndef TUTTI_RUNTIME_BLAS_H
#define TUTTI_RUNTIME_BLAS_H

#include <stdbool.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

enum { TUTTI_BLAS_NAME_BYTES = 96 };

/* Loads OpenBLAS, if this build uses it and this machine has it: "OpenBLAS 0.3.21 (Haswell)", the
 * kernels that it has chosen in brackets, in `buf` of TUTTI_BLAS_NAME_BYTES. False: products are by
 * loops of Tutti's own. */
bool tutti_blas_name(char *buf);

TUTTI_API_END

#endif
