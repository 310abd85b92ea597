/* Products and quotients for compilers without a type of 128 bits: schoolbook, in halves of words.
 */
#include <assert.h>

#include "runtime/wide.h"

#define HALF UINT64_C(0xffffffff)

struct tutti_wide tutti_wide_product(uint64_t a, uint64_t b)
{
    uint64_t low = (a & HALF) * (b & HALF);
    uint64_t left = (a >> 32) * (b & HALF);
    uint64_t right = (a & HALF) * (b >> 32);
    uint64_t middle = (low >> 32) + (left & HALF) + (right & HALF);

    return (struct tutti_wide){.high = (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) +
                                       (middle >> 32),
                               .low = middle << 32 | (low & HALF)};
}

/* The next half word of a quotient: `rest`, less than b, followed by the half word `next`, divided
 * by b, of which the top bit is set. A guess by the upper half of b is at most 2 too large. */
static uint64_t next_half(uint64_t *rest, uint64_t next, uint64_t b)
{
    uint64_t guess = *rest / (b >> 32);
    uint64_t left = *rest % (b >> 32);

    while (guess > HALF || guess * (b & HALF) > (left << 32 | next)) {
        guess--;
        left += b >> 32;
        if (left > HALF)
            break;
    }
    *rest = (*rest << 32 | next) - guess * b; /* modulo 2^64 */
    return guess;
}

/* a / b, with a.high less than b (Knuth, The Art of Computer Programming 2, 4.3.1, D). */
static uint64_t divide_by_word(struct tutti_wide a, uint64_t b, uint64_t *ret_rest)
{
    int shift = __builtin_clzll(b);
    uint64_t quotient;

    assert(a.high < b);
    if (shift > 0) {
        a.high = a.high << shift | a.low >> (64 - shift);
        a.low <<= shift;
        b <<= shift;
    }
    quotient = next_half(&a.high, a.low >> 32, b) << 32;
    quotient |= next_half(&a.high, a.low & HALF, b);
    *ret_rest = a.high >> shift;
    return quotient;
}

uint64_t tutti_muldiv_wide(uint64_t a, uint64_t b, uint64_t more, uint64_t c)
{
    struct tutti_wide sum = tutti_wide_add_word(tutti_wide_product(a, b), more);
    uint64_t rest;

    return sum.high >= c ? UINT64_MAX : divide_by_word(sum, c, &rest);
}

/* By more than a word: bit by bit. */
static uint64_t divide_by_wide(struct tutti_wide a, struct tutti_wide b,
                               struct tutti_wide *ret_rest)
{
    int shift = __builtin_clzll(b.high);
    uint64_t quotient = 0;

    for (int i = 0; i < shift; i++)
        b = tutti_wide_add(b, b);
    for (int i = shift; i >= 0; i--) {
        quotient <<= 1;
        if (!tutti_wide_less(a, b)) {
            a = tutti_wide_subtract(a, b);
            quotient |= 1;
        }
        b = tutti_wide_half(b);
    }
    *ret_rest = a;
    return quotient;
}

struct tutti_wide tutti_wide_divide(struct tutti_wide a, struct tutti_wide b,
                                    struct tutti_wide *ret_rest)
{
    struct tutti_wide quotient = {.high = 0};
    uint64_t rest;

    assert(!tutti_wide_is_zero(b));
    if (b.high > 0) {
        quotient.low = divide_by_wide(a, b, ret_rest);
        return quotient;
    }
    quotient.high = a.high / b.low;
    a.high %= b.low;
    quotient.low = divide_by_word(a, b.low, &rest);
    *ret_rest = tutti_wide_of(rest);
    return quotient;
}
