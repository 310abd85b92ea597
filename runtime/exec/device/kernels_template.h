/* The kernels, written once and compiled once per instruction set: a file that includes this has
 * defined KERNELS_ISA (a string), KERNELS_TABLE (the table's name), WHOLE_BYTES_MIN and the
 * functions widen_half, narrow_half, stream, fence and whole. Plain loops: the compiler vectorises
 * them with that file's flags.
 *
 * Every instruction set gives the same bits: no contraction (-ffp-contract=off), no reassociation,
 * and every NaN result is the one canonical quiet NaN, because which payload survives x + y depends
 * on the order in which a compiler happens to place the operands. */
#ifndef TUTTI_RUNTIME_EXEC_DEVICE_KERNELS_TEMPLATE_H
#define TUTTI_RUNTIME_EXEC_DEVICE_KERNELS_TEMPLATE_H

#include <stdint.h>

#include "runtime/exec/device/kernels.h"

/* "omp simd" promises what the caller promises: dst is acc or src, or does not overlap them. */
#define LOOP(TYPE, VALUE) \
    TYPE *d = dst;        \
    const TYPE *a = acc;  \
    const TYPE *b = src;  \
    _Pragma("omp simd") for (size_t i = 0; i < count; i++) d[i] = (TYPE)(VALUE)

#define KERNEL(NAME, TYPE, VALUE)                                               \
    static void NAME(void *dst, const void *acc, const void *src, size_t count) \
    {                                                                           \
        LOOP(TYPE, VALUE);                                                      \
    }

#define SAME_NAN32(X) ((X) == (X) ? (X) : __builtin_nanf(""))
#define SAME_NAN64(X) ((X) == (X) ? (X) : __builtin_nan(""))

#define FLOAT_KERNELS(T, TYPE, NAN_VALUE, SAME_NAN)                                     \
    KERNEL(sum_##T, TYPE, SAME_NAN(a[i] + b[i]))                                        \
    KERNEL(prod_##T, TYPE, SAME_NAN(a[i] * b[i]))                                       \
    KERNEL(min_##T, TYPE,                                                               \
           __builtin_isunordered(a[i], b[i]) ? NAN_VALUE : (a[i] < b[i] ? a[i] : b[i])) \
    KERNEL(max_##T, TYPE,                                                               \
           __builtin_isunordered(a[i], b[i]) ? NAN_VALUE : (a[i] > b[i] ? a[i] : b[i]))

FLOAT_KERNELS(f32, float, __builtin_nanf(""), SAME_NAN32)
FLOAT_KERNELS(f64, double, __builtin_nan(""), SAME_NAN64)

/* Signed overflow is undefined in C, so sums and products are taken in UNSIGNED. */
#define INTEGER_KERNELS(T, TYPE, UNSIGNED)                  \
    KERNEL(sum_##T, TYPE, (UNSIGNED)a[i] + (UNSIGNED)b[i])  \
    KERNEL(prod_##T, TYPE, (UNSIGNED)a[i] * (UNSIGNED)b[i]) \
    KERNEL(min_##T, TYPE, a[i] < b[i] ? a[i] : b[i])        \
    KERNEL(max_##T, TYPE, a[i] > b[i] ? a[i] : b[i])

INTEGER_KERNELS(i32, int32_t, uint32_t)
INTEGER_KERNELS(i64, int64_t, uint64_t)
INTEGER_KERNELS(i8, int8_t, uint8_t)
INTEGER_KERNELS(u8, uint8_t, uint8_t)

/* bfloat16 is the upper half of a float32; rounding to nearest even adds just under half a unit in
 * the last place. Results never are a NaN with another payload (SAME_NAN), so no NaN rounds to
 * infinity. */
static void widen_brain(float *restrict to, const uint16_t *restrict from, size_t count)
{
    union {
        uint32_t u;
        float f;
    } value;

    _Pragma("omp simd") for (size_t i = 0; i < count; i++)
    {
        value.u = (uint32_t)from[i] << 16;
        to[i] = value.f;
    }
}

static void narrow_brain(uint16_t *restrict to, const float *restrict from, size_t count)
{
    union {
        float f;
        uint32_t u;
    } value;

    _Pragma("omp simd") for (size_t i = 0; i < count; i++)
    {
        value.f = from[i];
        to[i] = (uint16_t)((value.u + 0x7fff + (value.u >> 16 & 1)) >> 16);
    }
}

/* 16-bit floats go through blocks of float32 that stay in the first-level cache. */
enum { BLOCK = 256 };

#define WIDE_KERNEL(NAME, WIDE, WIDEN, NARROW)                                  \
    static void NAME(void *dst, const void *acc, const void *src, size_t count) \
    {                                                                           \
        float x[BLOCK];                                                         \
        float y[BLOCK];                                                         \
        uint16_t *d = dst;                                                      \
        const uint16_t *a = acc;                                                \
        const uint16_t *b = src;                                                \
        for (size_t at = 0; at < count; at += BLOCK) {                          \
            size_t now = count - at < BLOCK ? count - at : BLOCK;               \
            WIDEN(x, a + at, now);                                              \
            WIDEN(y, b + at, now);                                              \
            WIDE(x, x, y, now);                                                 \
            NARROW(d + at, x, now);                                             \
        }                                                                       \
    }

#define WIDE_KERNELS(T, WIDEN, NARROW)             \
    WIDE_KERNEL(sum_##T, sum_f32, WIDEN, NARROW)   \
    WIDE_KERNEL(prod_##T, prod_f32, WIDEN, NARROW) \
    WIDE_KERNEL(min_##T, min_f32, WIDEN, NARROW)   \
    WIDE_KERNEL(max_##T, max_f32, WIDEN, NARROW)

WIDE_KERNELS(f16, widen_half, narrow_half)
WIDE_KERNELS(b16, widen_brain, narrow_brain)

#define ROW(T)                                                                 \
    {                                                                          \
        [TUTTI_SUM] = sum_##T, [TUTTI_PROD] = prod_##T, [TUTTI_MIN] = min_##T, \
        [TUTTI_MAX] = max_##T, [TUTTI_AVG] = sum_##T,                          \
    }

const struct tutti_kernels KERNELS_TABLE = {
    .isa = KERNELS_ISA,
    .reduce =
        {
            [TUTTI_FLOAT32] = ROW(f32),
            [TUTTI_FLOAT64] = ROW(f64),
            [TUTTI_FLOAT16] = ROW(f16),
            [TUTTI_BFLOAT16] = ROW(b16),
            [TUTTI_INT32] = ROW(i32),
            [TUTTI_INT64] = ROW(i64),
            [TUTTI_INT8] = ROW(i8),
            [TUTTI_UINT8] = ROW(u8),
        },
    .stream = stream,
    .fence = fence,
    .whole = whole,
    .whole_bytes_min = WHOLE_BYTES_MIN,
};

#endif
