/* Tests of prices: what the shipped file says, what is refused, and sums by hand. */
#include "runtime/status.h"
#include "sim/prices.h"
#include "tests/test.h"
#include "topo/accelerator.h"

#define US_PER_HOUR UINT64_C(3600000000)
#define MILLION     UINT64_C(1000000)

static const struct tutti_accelerator *device(const char *name)
{
    const struct tutti_accelerator *found = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_accelerator_find(name, &found, &err), err);
    return found;
}

TEST(the_shipped_file_is_read_and_dated)
{
    struct tutti_prices *prices = NULL;
    struct tutti_err err = {""};
    const struct tutti_amount *price;

    CHECK_OK(tutti_prices_builtin(&prices, &err), err);
    CHECK_TEXT(tutti_prices_date(prices), "2026-05");
    CHECK_TEXT(tutti_prices_currency(prices), "USD");
    price = tutti_prices_device(prices, device("H100"));
    CHECK_INT(price->amount, 2950000);
    CHECK_INT(price->low, 1470000);
    CHECK_INT(price->high, 6880000);
    CHECK(strstr(price->source, "37 providers") != NULL);
    price = tutti_prices_device(prices, device("tpu-v4"));
    CHECK_INT(price->amount, 3220000);
    CHECK_INT(price->high, 3220000);
    CHECK(tutti_prices_device(prices, device("p100")) == NULL); /* none is made up */
    CHECK_INT(tutti_prices_host(prices, device("gb300"))->amount, 475 * MILLION);
    CHECK(tutti_prices_host(prices, device("h100")) == NULL);
    CHECK_INT(tutti_prices_electricity(prices)->amount, 80600);
    CHECK_INT(tutti_prices_pue(prices)->low, 1100000);
    tutti_prices_free(prices);
}

/* 8 H100 for 10 hours: 80 device-hours; 700 W each, 1.2 for the building: 67.2 kWh. */
TEST(money_and_energy_by_hand)
{
    struct tutti_prices *prices = NULL;
    struct tutti_err err = {""};
    struct tutti_cost cost;

    CHECK_OK(tutti_prices_builtin(&prices, &err), err);
    cost = tutti_cost_of(prices, device("h100"), 8, 10 * US_PER_HOUR);
    CHECK(cost.has_money && cost.has_power && cost.has_electricity);
    CHECK_INT(cost.money, 236 * MILLION);
    CHECK_INT(cost.money_low, 117600000);
    CHECK_INT(cost.money_high, 550400000);
    CHECK_INT(cost.energy_mwh, 67200000);
    CHECK_INT(cost.electricity, 5416320); /* 67.2 x 0.0806 */
    /* With its host: (1400 + 475) x 1.2 = 2250 W. */
    cost = tutti_cost_of(prices, device("gb300"), 4, US_PER_HOUR);
    CHECK(!cost.has_money);
    CHECK_INT(cost.money, 0);
    CHECK_INT(cost.energy_mwh, 9000000);
    /* One step of 10 ms. */
    cost = tutti_cost_of(prices, device("h100"), 8, 10000);
    CHECK_INT(cost.money, 66);      /* 65.6 millionths of a dollar */
    CHECK_INT(cost.energy_mwh, 19); /* 18.7 */
    cost = tutti_cost_of(prices, device("tpu-v5p"), 64, US_PER_HOUR);
    CHECK_INT(cost.money, 64 * 4200000);
    CHECK(!cost.has_power); /* not published */
    CHECK_INT(cost.energy_mwh, 0);
    /* A million devices for a century are counted; more saturates. */
    cost = tutti_cost_of(prices, device("h100"), 1 << 20, 876600 * US_PER_HOUR);
    CHECK_INT(cost.money, (UINT64_C(876600) << 20) * 2950000);
    cost = tutti_cost_of(prices, device("h100"), UINT64_MAX, UINT64_MAX);
    CHECK_INT(cost.energy_mwh, UINT64_MAX);
    CHECK_INT(cost.money, UINT64_MAX);
    tutti_prices_free(prices);
}

static void check_refused(const char *text, const char *message)
{
    struct tutti_prices *prices = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_prices_parse("my.prices", text, strlen(text), &prices, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(prices == NULL);
}

#define HEAD "prices 2030-01 EUR\n"

TEST(bad_files_are_refused_by_line)
{
    check_refused("", "my.prices: no line 'prices DATE CURRENCY'");
    check_refused("device h100 1 x\n", "my.prices: line 1: 'device' before 'prices DATE CURRENCY'");
    check_refused(HEAD HEAD, "my.prices: line 2: prices: given twice (once)");
    check_refused("prices 2030-01\n",
                  "my.prices: line 1: prices: no date and currency (as 2026-05 USD)");
    check_refused("prices 2030-01 US dollars\n",
                  "my.prices: line 1: prices: 'dollars' after date and currency");
    check_refused(HEAD "devise h100 1 x\n",
                  "my.prices: line 2: unknown word 'devise' (did you mean 'device'? all: "
                  "prices device electricity pue host)");
    check_refused(HEAD "device h100 -1 x\n",
                  "my.prices: line 2: device: '-1' is no amount (as 2.95)");
    check_refused(HEAD "device h100 1. x\n",
                  "my.prices: line 2: device: '1.' is no amount (as 2.95)");
    check_refused(HEAD "device h100 1.2345678 x\n",
                  "my.prices: line 2: device: '1.2345678' is no amount (as 2.95)");
    check_refused(HEAD "device h100\n", "my.prices: line 2: device: no amount (as 2.95)");
    check_refused(HEAD "device h100 2 1\n",
                  "my.prices: line 2: device: a low amount without a high one");
    check_refused(HEAD "device h100 2 3 4 x\n",
                  "my.prices: line 2: device: the amount is not between low and high");
    check_refused(HEAD "\ndevice h100 2 # mine\n",
                  "my.prices: line 3: device: an amount without its source");
    check_refused(HEAD "device h100 2 x\ndevice H100 2 x\n",
                  "my.prices: line 3: device: 'h100' is given twice (once)");
    check_refused(HEAD "pue 1 x\npue 1 x\n", "my.prices: line 3: pue: given twice (once)");
    check_refused(HEAD "device\n", "my.prices: line 2: device: no device is named");
}
