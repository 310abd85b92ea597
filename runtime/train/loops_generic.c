/* Loops of training in plain C, for every processor. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/exec/device/half.h"

#define LOOPS_ISA   "generic"
#define LOOPS_TABLE tutti_loops_generic

/* Of the product: so many floats a vector, so many rows of accumulators at once. */
enum { VECTOR = 4, TILE_ROWS = 4, TILE_VECTORS = 2 };

static void narrow_half(uint16_t *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = tutti_half_narrow(from[i]);
}

static void widen_half(float *to, const uint16_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = tutti_half_widen(from[i]);
}

#include "runtime/train/loops_template.h"
