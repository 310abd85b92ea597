/* The tables of arithmetic kernels, one per instruction set; private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_KERNELS_H
#define TUTTI_RUNTIME_EXEC_KERNELS_H

#include "runtime/data.h"

/* dst[i] = acc[i] op src[i]; dst may be acc or src. */
typedef void tutti_kernel(void *dst, const void *acc, const void *src, size_t count);

struct tutti_kernels {
    const char *isa;
    tutti_kernel *reduce[TUTTI_DTYPE_COUNT][TUTTI_OP_COUNT];
    /* memcpy with stores that bypass the cache where the instruction set has them; the stores are
     * ordered before whatever the caller stores next. */
    void (*stream)(void *dst, const void *src, size_t bytes);
};

extern const struct tutti_kernels tutti_kernels_generic;
extern const struct tutti_kernels tutti_kernels_avx2;   /* x86 builds only */
extern const struct tutti_kernels tutti_kernels_avx512; /* x86 builds only */

/* The kernels that this processor can run: index 0 is the best, the last is generic; NULL past the
 * end. Asks the processor each time: a few loads, and no state. */
const struct tutti_kernels *tutti_kernels_at(size_t index);

/* As tutti_reduce and memcpy, but past the cache: for large work whose result is not read soon. */
void tutti_reduce_stream(enum tutti_dtype dtype, enum tutti_op op, void *dst, const void *acc,
                         const void *src, size_t count);
void tutti_copy_stream(void *dst, const void *src, size_t bytes);

#endif
