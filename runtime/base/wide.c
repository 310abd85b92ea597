/* What is the same with and without a type of 128 bits; see runtime/wide.h. */
#include "runtime/wide.h"

/* Four products of words, of which two reach beyond 128 bits unless they are 0 or small. */
bool tutti_wide_multiply(struct tutti_wide a, struct tutti_wide b, struct tutti_wide *ret)
{
    struct tutti_wide low = tutti_wide_product(a.low, b.low);
    struct tutti_wide left = tutti_wide_product(a.high, b.low);
    struct tutti_wide right = tutti_wide_product(a.low, b.high);
    bool over = (a.high != 0 && b.high != 0) || left.high != 0 || right.high != 0;

    over |= __builtin_add_overflow(low.high, left.low, &low.high);
    over |= __builtin_add_overflow(low.high, right.low, &low.high);
    *ret = low;
    return over;
}
