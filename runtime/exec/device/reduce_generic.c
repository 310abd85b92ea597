/* Reduction kernels for any processor. */
#include <string.h>

#include "runtime/exec/device/half.h"

#define KERNELS_ISA   "generic"
#define KERNELS_TABLE tutti_kernels_generic

static void widen_half(float *restrict to, const uint16_t *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = tutti_half_widen(from[i]);
}

static void narrow_half(uint16_t *restrict to, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = tutti_half_narrow(from[i]);
}

static void stream(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

/* Plain stores: whatever publishes the result orders them. */
static void fence(void)
{
}

/* Left to the C library, which has a way of its own for copies of this size. */
#define WHOLE_BYTES_MIN (16 << 10)

static void whole(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

#include "runtime/exec/device/kernels_template.h"
