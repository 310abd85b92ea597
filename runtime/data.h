/* Data types and reduction operators, and the arithmetic on them. */
#ifndef TUTTI_RUNTIME_DATA_H
#define TUTTI_RUNTIME_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;

enum tutti_dtype {
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_FLOAT16,  /* IEEE binary16; summed in float32, rounded to nearest even after each step */
    TUTTI_BFLOAT16, /* upper half of float32; likewise */
    TUTTI_INT32,
    TUTTI_INT64,
    TUTTI_INT8,
    TUTTI_UINT8,
    TUTTI_DTYPE_COUNT
};

enum tutti_op {
    TUTTI_SUM,
    TUTTI_PROD,
    TUTTI_MIN,
    TUTTI_MAX,
    TUTTI_AVG, /* a sum; the step flagged TUTTI_STEP_LAST divides by the number of ranks */
    TUTTI_OP_COUNT
};

/* Element size in bytes: 4, 8, 2, 2, 4, 8, 1, 1. */
size_t tutti_dtype_bytes(enum tutti_dtype dtype);

/* Names as nccl-tests prints them: float double half bfloat16 int32 int64 int8 uint8; the readers
 * also take float32 float64 float16. Operators: sum prod min max avg. -TUTTI_EINVAL otherwise. */
const char *tutti_dtype_name(enum tutti_dtype dtype);
const char *tutti_op_name(enum tutti_op op);
int tutti_dtype_find(const char *name, enum tutti_dtype *ret, struct tutti_err *err);
int tutti_op_find(const char *name, enum tutti_op *ret, struct tutti_err *err);

/* dst[i] = acc[i] op src[i] for `count` elements (avg adds). `dst` may be `acc` or `src`, otherwise
 * the arrays must not overlap. Integers wrap modulo 2^bits. min and max of floats: a NaN in either
 * argument gives NaN. Uses the widest instruction set of this processor, chosen at run time; every
 * choice gives the same bits. Any alignment of at least the element's own. */
void tutti_reduce(enum tutti_dtype dtype, enum tutti_op op, void *dst, const void *acc,
                  const void *src, size_t count);

/* The finishing of an operator: avg divides `count` elements by `rank_count` in place (integers
 * truncate towards zero; float16 and bfloat16 through float32); all others do nothing. */
void tutti_finish(enum tutti_dtype dtype, enum tutti_op op, void *dst, size_t count,
                  uint32_t rank_count);

/* Name of the instruction set in use: "avx512", "avx2" or "generic"; for `tutti doctor`. */
const char *tutti_reduce_isa(void);

TUTTI_API_END

#endif
