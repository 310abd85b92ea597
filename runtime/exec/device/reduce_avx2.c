/* Reduction kernels for x86 processors with AVX2 and F16C; CMake gives this file the flags. */
#include <immintrin.h>
#include <string.h>

#include "runtime/exec/device/half.h"

#define KERNELS_ISA   "avx2"
#define KERNELS_TABLE tutti_kernels_avx2

static void widen_half(float *restrict to, const uint16_t *restrict from, size_t count)
{
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
    for (; i < count; i++)
        to[i] = tutti_half_widen(from[i]);
}

static void narrow_half(uint16_t *restrict to, const float *restrict from, size_t count)
{
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; i++)
        to[i] = tutti_half_narrow(from[i]);
}

/* Whole cache lines are written around the cache, so each is filled by two stores at once. */
static void stream(void *dst, const void *src, size_t bytes)
{
    char *d = dst;
    const char *s = src;
    size_t head = (size_t)(-(uintptr_t)dst & 63);

    if (head > bytes)
        head = bytes;
    memcpy(d, s, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
        __m256i low = _mm256_loadu_si256((const void *)(s + i));
        __m256i high = _mm256_loadu_si256((const void *)(s + i + 32));
        _mm256_stream_si256((void *)(d + i), low);
        _mm256_stream_si256((void *)(d + i + 32), high);
    }
    memcpy(d + i, s + i, bytes - i);
}

static void fence(void)
{
    _mm_sfence();
}

/* Left to the C library, which has a way of its own for copies of this size. */
#define WHOLE_BYTES_MIN (16 << 10)

static void whole(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

#include "runtime/exec/device/kernels_template.h"
