/* Reduction kernels for x86 processors with AVX-512 F, BW, VL and DQ; CMake gives the flags. */
#include <immintrin.h>
#include <string.h>

#include "build.h"
#include "runtime/exec/device/half.h"

#define KERNELS_ISA   "avx512"
#define KERNELS_TABLE tutti_kernels_avx512

static void widen_half(float *restrict to, const uint16_t *restrict from, size_t count)
{
    size_t i = 0;

    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
    for (; i < count; i++)
        to[i] = tutti_half_widen(from[i]);
}

static void narrow_half(uint16_t *restrict to, const float *restrict from, size_t count)
{
    size_t i = 0;

    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((void *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; i++)
        to[i] = tutti_half_narrow(from[i]);
}

/* A whole cache line in one store around the cache. */
static void stream(void *dst, const void *src, size_t bytes)
{
    char *d = dst;
    const char *s = src;
    size_t head = (size_t)(-(uintptr_t)dst & 63);

    if (head > bytes)
        head = bytes;
    memcpy(d, s, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64)
        _mm512_stream_si512((void *)(d + i), _mm512_loadu_si512((const void *)(s + i)));
    memcpy(d + i, s + i, bytes - i);
}

static void fence(void)
{
    _mm_sfence();
}

/* The string instruction: all processors with AVX-512 have it fast ("enhanced REP MOVSB", Intel's
 * optimisation manual, AMD's for family 19h), and its microcode knows that lines are written whole.
 * Sanitizers do not see it. */
#define WHOLE_BYTES_MIN (4 << 10)

static void whole(void *dst, const void *src, size_t bytes)
{
    if (TUTTI_BUILD_SANITIZE[0] != '\0')
        memcpy(dst, src, bytes);
    else
        __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}

#include "runtime/exec/device/kernels_template.h"
