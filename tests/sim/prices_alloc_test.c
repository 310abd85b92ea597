/* Every allocation of prices made to fail once. */
#include "sim/prices.h"
#include "tests/alloc_fail.h"

static int use(struct tutti_err *err)
{
    struct tutti_prices *prices = NULL;
    int status = tutti_prices_builtin(&prices, err);

    tutti_prices_free(prices);
    return status;
}

TEST(prices_fail_cleanly)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(use(&err), err);
}
