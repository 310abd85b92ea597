/* The tables of arithmetic kernels, one per instruction set; private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_KERNELS_H
#define TUTTI_RUNTIME_EXEC_KERNELS_H

#include <stdbool.h>

#include "runtime/data.h"

/* dst[i] = acc[i] op src[i]; dst may be acc or src. */
typedef void tutti_kernel(void *dst, const void *acc, const void *src, size_t count);

struct tutti_kernels {
    const char *isa;
    tutti_kernel *reduce[TUTTI_DTYPE_COUNT][TUTTI_OP_COUNT];
    /* memcpy with stores that bypass the cache where the instruction set has them, and the fence
     * that orders them before whatever the caller stores next. */
    void (*stream)(void *dst, const void *src, size_t bytes);
    void (*fence)(void);
};

extern const struct tutti_kernels tutti_kernels_generic;
extern const struct tutti_kernels tutti_kernels_avx2;   /* x86 builds only */
extern const struct tutti_kernels tutti_kernels_avx512; /* x86 builds only */

/* The kernels that this processor can run: index 0 is the best, the last is generic; NULL past the
 * end. Asks the processor each time: a few loads, and no state. */
const struct tutti_kernels *tutti_kernels_at(size_t index);

/* As tutti_reduce, into dst_count >= 1 places at once: dsts[i] = acc op src. dsts[0] may be acc or
 * src. divide_by 0: no more than that; else as tutti_finish for so many ranks. `stream`: past the
 * cache, for results too large to stay there. */
void tutti_reduce_spread(enum tutti_dtype dtype, enum tutti_op op, void *const *dsts,
                         uint32_t dst_count, const void *acc, const void *src, size_t count,
                         uint32_t divide_by, bool stream);
/* As memcpy, past the cache. */
void tutti_copy_stream(void *dst, const void *src, size_t bytes);

#endif
