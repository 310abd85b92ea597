/* Arithmetic beyond 64 bits: products divided again, saturating sums, and whole numbers of 128 bits
 * as a pair of words, on every compiler alike (32-bit ones have no such type). */
#ifndef TUTTI_RUNTIME_WIDE_H
#define TUTTI_RUNTIME_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

/* ---- 64 bits in, 64 bits out ---------------------------------------------------------------- */

/* a * b and a + b; UINT64_MAX where they are more. */
static inline uint64_t tutti_times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t tutti_plus(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* A count for calloc() and its like; SIZE_MAX, of which there never is memory, where it is more. */
static inline size_t tutti_size(uint64_t value)
{
    return (size_t)value == value ? (size_t)value : SIZE_MAX;
}

/* (a * b + more) / c rounded down, by way of 128 bits; UINT64_MAX where it is more. c is not 0. */
uint64_t tutti_muldiv_wide(uint64_t a, uint64_t b, uint64_t more, uint64_t c);

/* The same; the wide division is the rare case. */
static inline uint64_t tutti_muldiv_add(uint64_t a, uint64_t b, uint64_t more, uint64_t c)
{
    uint64_t sum;

    if (!__builtin_mul_overflow(a, b, &sum) && !__builtin_add_overflow(sum, more, &sum))
        return sum / c;
    return tutti_muldiv_wide(a, b, more, c);
}

/* a * b / c rounded down, up, and to the nearest. */
static inline uint64_t tutti_muldiv(uint64_t a, uint64_t b, uint64_t c)
{
    return tutti_muldiv_add(a, b, 0, c);
}

static inline uint64_t tutti_muldiv_up(uint64_t a, uint64_t b, uint64_t c)
{
    return tutti_muldiv_add(a, b, c - 1, c);
}

static inline uint64_t tutti_muldiv_near(uint64_t a, uint64_t b, uint64_t c)
{
    return tutti_muldiv_add(a, b, c / 2, c);
}

/* ---- 128 bits ------------------------------------------------------------------------------- */

struct tutti_wide {
    uint64_t high; /* times 2^64 */
    uint64_t low;
};

static inline struct tutti_wide tutti_wide_of(uint64_t value)
{
    struct tutti_wide wide;

    wide.high = 0;
    wide.low = value;
    return wide;
}

/* a + b and a - b, modulo 2^128. */
static inline struct tutti_wide tutti_wide_add(struct tutti_wide a, struct tutti_wide b)
{
    a.high += b.high + __builtin_add_overflow(a.low, b.low, &a.low);
    return a;
}

static inline struct tutti_wide tutti_wide_subtract(struct tutti_wide a, struct tutti_wide b)
{
    a.high -= b.high + __builtin_sub_overflow(a.low, b.low, &a.low);
    return a;
}

static inline struct tutti_wide tutti_wide_add_word(struct tutti_wide a, uint64_t b)
{
    return tutti_wide_add(a, tutti_wide_of(b));
}

static inline bool tutti_wide_is_zero(struct tutti_wide a)
{
    return (a.high | a.low) == 0;
}

static inline bool tutti_wide_equal(struct tutti_wide a, struct tutti_wide b)
{
    return a.high == b.high && a.low == b.low;
}

static inline bool tutti_wide_less(struct tutti_wide a, struct tutti_wide b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}

/* a / 2, rounded down. */
static inline struct tutti_wide tutti_wide_half(struct tutti_wide a)
{
    a.low = a.low >> 1 | a.high << 63;
    a.high >>= 1;
    return a;
}

/* The value; UINT64_MAX where it is more. */
static inline uint64_t tutti_wide_word(struct tutti_wide a)
{
    return a.high > 0 ? UINT64_MAX : a.low;
}

static inline double tutti_wide_double(struct tutti_wide a)
{
    return (double)a.high * 18446744073709551616.0 + (double)a.low; /* 2^64 */
}

/* a * b, all of it. */
struct tutti_wide tutti_wide_product(uint64_t a, uint64_t b);

/* a / b, rounded down, and what is left over. b is not 0. */
struct tutti_wide tutti_wide_divide(struct tutti_wide a, struct tutti_wide b,
                                    struct tutti_wide *ret_rest);

/* a * b modulo 2^128; true where that is not all of it. */
bool tutti_wide_multiply(struct tutti_wide a, struct tutti_wide b, struct tutti_wide *ret);

static inline struct tutti_wide tutti_wide_times(struct tutti_wide a, uint64_t b)
{
    struct tutti_wide product = tutti_wide_product(a.low, b);

    product.high += a.high * b;
    return product;
}

TUTTI_API_END

#endif
