/* What devices for a time cost, in money and energy: by a dated file that its users may replace.
 *
 * One statement a line; words are separated by blanks; # begins a comment; amounts are decimal, up
 * to six digits behind the point. What follows the amounts says where they come from.
 *
 *   prices DATE CURRENCY               first: "prices 2026-05 USD"
 *   device NAME AMOUNT [LOW HIGH] TEXT...  an hour of one device (topo/accelerator.h), on demand
 *   electricity AMOUNT [LOW HIGH] TEXT...  a kWh
 *   pue FACTOR [LOW HIGH] TEXT...      power of the building over that of its hosts; 1: not given
 *   host NAME WATTS [LOW HIGH] TEXT... what a host draws beside each device of that name */
#ifndef TUTTI_SIM_PRICES_H
#define TUTTI_SIM_PRICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_accelerator;
struct tutti_err;
struct tutti_prices; /* read-only once it is made */

/* In millionths; low <= amount <= high, all equal where no range was given. */
struct tutti_amount {
    uint64_t amount;
    uint64_t low;
    uint64_t high;
    const char *source;
};

/* `name` is the file's, of messages, which name the line. -TUTTI_EINVAL. */
int tutti_prices_parse(const char *name, const char *text, size_t bytes, struct tutti_prices **ret,
                       struct tutti_err *err);
int tutti_prices_builtin(struct tutti_prices **ret, struct tutti_err *err);
void tutti_prices_free(struct tutti_prices *prices); /* NULL is a no-op */

const char *tutti_prices_date(const struct tutti_prices *prices);     /* "2026-05" */
const char *tutti_prices_currency(const struct tutti_prices *prices); /* "USD" */
/* NULL: not known. */
const struct tutti_amount *tutti_prices_device(const struct tutti_prices *prices,
                                               const struct tutti_accelerator *device);
const struct tutti_amount *tutti_prices_host(const struct tutti_prices *prices,
                                             const struct tutti_accelerator *device);
const struct tutti_amount *tutti_prices_electricity(const struct tutti_prices *prices);
const struct tutti_amount *tutti_prices_pue(const struct tutti_prices *prices);

/* Of some devices for some time, saturating. Energy is what they draw at most: devices under work
 * at less than their power limits draw less; hosts only where the file says what they draw. */
struct tutti_cost {
    bool has_money; /* the file has a price of the device */
    bool has_power; /* the catalogue has its watts */
    bool has_electricity;
    uint64_t money; /* of renting them, millionths of the currency; and by the low and high price */
    uint64_t money_low;
    uint64_t money_high;
    uint64_t energy_mwh;  /* thousandths of a Wh, with the building's share */
    uint64_t electricity; /* the price of that energy, in millionths: of who owns the devices */
};
struct tutti_cost tutti_cost_of(const struct tutti_prices *prices,
                                const struct tutti_accelerator *device, uint64_t device_count,
                                uint64_t time_us);

TUTTI_API_END

#endif
