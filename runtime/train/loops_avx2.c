/* Loops of training for x86 processors with AVX2 and F16C; CMake gives this file the flags. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/exec/device/half.h"

#define LOOPS_ISA   "avx2"
#define LOOPS_TABLE tutti_loops_avx2

/* Of the product: so many floats a vector, so many rows of accumulators at once. */
enum { VECTOR = 8, TILE_ROWS = 6, TILE_VECTORS = 2 };

static void narrow_half(uint16_t *to, const float *from, size_t count)
{
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; i++)
        to[i] = tutti_half_narrow(from[i]);
}

static void widen_half(float *to, const uint16_t *from, size_t count)
{
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
    for (; i < count; i++)
        to[i] = tutti_half_widen(from[i]);
}

#include "runtime/train/loops_template.h"
