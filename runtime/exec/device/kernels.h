/* The tables of arithmetic kernels, one per instruction set; private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_DEVICE_KERNELS_H
#define TUTTI_RUNTIME_EXEC_DEVICE_KERNELS_H

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
    /* memcpy that claims cache lines whole, without fetching what another processor has of them;
     * below whole_bytes_min there is nothing to gain. */
    void (*whole)(void *dst, const void *src, size_t bytes);
    size_t whole_bytes_min;
};

extern const struct tutti_kernels tutti_kernels_generic;
extern const struct tutti_kernels tutti_kernels_avx2;   /* x86 builds only */
extern const struct tutti_kernels tutti_kernels_avx512; /* x86 builds only */

/* The kernels that this processor can run: index 0 is the best, the last is generic; NULL past the
 * end. Asks the processor each time: a few loads, and no state. */
const struct tutti_kernels *tutti_kernels_at(size_t index);

/* A reduction of several operands into several places at once: every dsts[i] becomes
 * (acc op srcs[0]) op srcs[1] ..., as by one tutti_reduce after another. dsts[0] may be acc. */
struct tutti_spread {
    enum tutti_dtype dtype;
    enum tutti_op op;
    size_t count; /* elements */
    const void *acc;
    const void *const *srcs; /* [src_count], at least one */
    void *const *dsts;       /* [dst_count], at least one */
    uint32_t src_count;
    uint32_t dst_count;
    uint32_t divide_by; /* 0: no more than that; else as tutti_finish for so many ranks */
    bool stream;        /* past the cache, for results too large to stay there */
    bool handed;        /* another processor reads the result, and has what was there before */
};

void tutti_reduce_spread(const struct tutti_spread *spread);
/* As memcpy, past the cache. */
void tutti_copy_stream(void *dst, const void *src, size_t bytes);

#endif
