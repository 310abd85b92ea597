/* Fuzzes files of prices: one that is read prices every device, low <= amount <= high; any other is
 * refused in one line. */
#include "sim/prices.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "topo/accelerator.h"

enum { BYTES_MAX = 20000 };

static void judge_price(const struct tutti_amount *price)
{
    if (price == NULL)
        return;
    JUDGE(price->low <= price->amount);
    JUDGE(price->amount <= price->high);
    JUDGE(price->source[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_prices *prices = NULL;
    struct tutti_err err = {""};
    const struct tutti_accelerator *devices;
    size_t count;
    int status;

    if (bytes > BYTES_MAX)
        return 0;
    status = tutti_prices_parse("fuzz", (const char *)data, bytes, &prices, &err);
    if (status < 0) {
        judge_refusal(status, &err);
        return 0;
    }
    JUDGE(tutti_prices_date(prices)[0] != '\0');
    JUDGE(tutti_prices_currency(prices)[0] != '\0');
    judge_price(tutti_prices_electricity(prices));
    judge_price(tutti_prices_pue(prices));
    devices = tutti_accelerators(&count);
    for (size_t i = 0; i < count; i++) {
        const struct tutti_cost cost = tutti_cost_of(prices, &devices[i], 1000, 86400000000);

        judge_price(tutti_prices_device(prices, &devices[i]));
        judge_price(tutti_prices_host(prices, &devices[i]));
        JUDGE(cost.money_low <= cost.money);
        JUDGE(cost.money <= cost.money_high);
        JUDGE(cost.has_money == (tutti_prices_device(prices, &devices[i]) != NULL));
    }
    tutti_prices_free(prices);
    return 0;
}
