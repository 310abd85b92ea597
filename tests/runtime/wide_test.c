/* Arithmetic beyond 64 bits: with and without a type of 128 bits the same, and both right. */
#include "runtime/random.h"
#include "runtime/wide.h"
#include "tests/test.h"

/* Whichever of the two the library has, here is the one for compilers without the type. */
#define tutti_wide_product portable_product
#define tutti_wide_divide  portable_divide
#define tutti_muldiv_wide  portable_muldiv_wide
struct tutti_wide portable_product(uint64_t a, uint64_t b);
struct tutti_wide portable_divide(struct tutti_wide a, struct tutti_wide b,
                                  struct tutti_wide *ret_rest);
uint64_t portable_muldiv_wide(uint64_t a, uint64_t b, uint64_t more, uint64_t c);
#include "runtime/base/wide.without-int128.c"
#undef tutti_wide_product
#undef tutti_wide_divide
#undef tutti_muldiv_wide

/* Words of all lengths, with runs of ones and noughts. */
static uint64_t word(uint64_t number)
{
    uint64_t value = tutti_random_hash(test_seed, number, 0, 0);
    uint64_t shape = tutti_random_hash(test_seed, number, 1, 0);

    value >>= shape % 64;
    if (shape >> 8 & 1)
        value = ~value;
    return shape >> 9 & 1 ? value & ~UINT64_C(0xffffffff) : value;
}

static void same(struct tutti_wide a, struct tutti_wide b)
{
    CHECK_INT(a.high, b.high);
    CHECK_INT(a.low, b.low);
}

TEST(by_hand)
{
    struct tutti_wide rest;
    struct tutti_wide big = tutti_wide_product(UINT64_MAX, UINT64_MAX);

    same(big, (struct tutti_wide){.high = UINT64_MAX - 1, .low = 1});
    same(tutti_wide_divide(big, tutti_wide_of(UINT64_MAX), &rest), tutti_wide_of(UINT64_MAX));
    same(rest, tutti_wide_of(0));
    CHECK(tutti_wide_multiply(big, tutti_wide_of(2), &rest));
    CHECK(!tutti_wide_multiply(tutti_wide_half(big), tutti_wide_of(2), &rest));
    CHECK_INT(tutti_muldiv(UINT64_MAX, 3, 3), UINT64_MAX);
    CHECK_INT(tutti_muldiv(UINT64_MAX, 3, 2), UINT64_MAX); /* more than that */
    CHECK_INT(tutti_muldiv(UINT64_MAX, 10, 20), UINT64_MAX / 2);
    CHECK_INT(tutti_muldiv_up(UINT64_MAX, 10, 20), UINT64_MAX / 2 + 1);
    CHECK_INT(tutti_muldiv_near(7, 1, 2), 4);
    CHECK_INT(tutti_times(UINT64_C(1) << 32, UINT64_C(1) << 32), UINT64_MAX);
    CHECK_INT(tutti_plus(UINT64_MAX, 1), UINT64_MAX);
    CHECK(tutti_wide_double((struct tutti_wide){.high = 3, .low = 0}) == 3 * 0x1p64);
}

TEST(both_ways_the_same)
{
    for (uint64_t i = 0; i < 200000; i++) {
        struct tutti_wide a = {.high = word(4 * i), .low = word(4 * i + 1)};
        struct tutti_wide b = {.high = i % 3 == 0 ? 0 : word(4 * i + 2), .low = word(4 * i + 3)};
        struct tutti_wide rest[2];
        struct tutti_wide quotient;
        struct tutti_wide back;

        same(tutti_wide_product(a.low, b.low), portable_product(a.low, b.low));
        if (b.low > 0)
            CHECK_INT(tutti_muldiv_wide(a.low, a.high, b.high, b.low),
                      portable_muldiv_wide(a.low, a.high, b.high, b.low));
        if (tutti_wide_is_zero(b))
            continue;
        quotient = tutti_wide_divide(a, b, &rest[0]);
        same(portable_divide(a, b, &rest[1]), quotient);
        same(rest[0], rest[1]);
        CHECK(tutti_wide_less(rest[0], b));
        CHECK(!tutti_wide_multiply(quotient, b, &back));
        same(tutti_wide_add(back, rest[0]), a);
        same(tutti_wide_subtract(a, back), rest[0]);
        if (quotient.high > 0 && b.high > 0)
            TEST_FAIL("a quotient of %d bits and more", 64);
    }
}
