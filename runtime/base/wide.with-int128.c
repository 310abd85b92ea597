/* Products and quotients by the compiler's own type of 128 bits. */
#include <assert.h>

#include "runtime/wide.h"

__extension__ typedef unsigned __int128 u128;

static struct tutti_wide wide_of(u128 value)
{
    return (struct tutti_wide){.high = (uint64_t)(value >> 64), .low = (uint64_t)value};
}

static u128 value_of(struct tutti_wide wide)
{
    return (u128)wide.high << 64 | wide.low;
}

uint64_t tutti_muldiv_wide(uint64_t a, uint64_t b, uint64_t more, uint64_t c)
{
    u128 quotient = ((u128)a * b + more) / c;

    return quotient > UINT64_MAX ? UINT64_MAX : (uint64_t)quotient;
}

struct tutti_wide tutti_wide_product(uint64_t a, uint64_t b)
{
    return wide_of((u128)a * b);
}

struct tutti_wide tutti_wide_divide(struct tutti_wide a, struct tutti_wide b,
                                    struct tutti_wide *ret_rest)
{
    u128 quotient;

    assert(!tutti_wide_is_zero(b));
    quotient = value_of(a) / value_of(b);
    *ret_rest = wide_of(value_of(a) - quotient * value_of(b));
    return wide_of(quotient);
}
