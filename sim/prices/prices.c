/* Prices: reading the file, and what devices for a time cost. */
#include "sim/prices.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/prices/builtin.h"
#include "topo/accelerator.h"

enum {
    LINE_BYTES = 512,
    WORD_BYTES = 64,
    DATE_BYTES = 16,
    ENTRIES_MAX = 256,
    DIGITS_MAX = 9,  /* before the point */
    FRACTION_MAX = 6 /* behind it */
};

#define MILLION     UINT64_C(1000000)
#define US_PER_HOUR UINT64_C(3600000000)

struct entry {
    const struct tutti_accelerator *device;
    bool is_host;
    struct tutti_amount price;
};

struct tutti_prices {
    struct tutti_arena *arena; /* of the sources */
    char date[DATE_BYTES];
    char currency[DATE_BYTES];
    struct tutti_amount electricity; /* source NULL: not given */
    struct tutti_amount pue;
    size_t entry_count;
    struct entry entries[ENTRIES_MAX];
};

/* ---- reading --------------------------------------------------------------------------------- */

/* A line that is being read: what comes next. */
struct line {
    const char *at;
    char word[WORD_BYTES];
};

/* The next word, cut where it is too long; false: none is left. */
static bool next_word(struct line *line)
{
    size_t bytes;

    line->at += strspn(line->at, " \t\r");
    bytes = strcspn(line->at, " \t\r");
    if (bytes == 0)
        return false;
    memcpy(line->word, line->at, bytes < WORD_BYTES ? bytes : WORD_BYTES - 1);
    line->word[bytes < WORD_BYTES ? bytes : WORD_BYTES - 1] = '\0';
    line->at += bytes;
    return true;
}

/* "2.95" in millionths; false: it is no amount. */
static bool read_amount(const char *word, uint64_t *ret)
{
    size_t whole = strspn(word, "0123456789");
    size_t fraction = word[whole] == '.' ? strspn(word + whole + 1, "0123456789") : 0;
    size_t end = whole + (word[whole] == '.' ? 1 + fraction : 0);
    uint64_t value = 0;

    if (whole == 0 || whole > DIGITS_MAX || fraction > FRACTION_MAX || word[end] != '\0' ||
        (word[whole] == '.' && fraction == 0))
        return false;
    for (size_t i = 0; i < whole; i++)
        value = 10 * value + (uint64_t)(word[i] - '0');
    for (size_t i = 0; i < FRACTION_MAX; i++)
        value = 10 * value + (i < fraction ? (uint64_t)(word[whole + 1 + i] - '0') : 0);
    *ret = value;
    return true;
}

/* AMOUNT [LOW HIGH] TEXT... */
static int read_price(struct tutti_prices *prices, struct line *line, struct tutti_amount *ret,
                      struct tutti_err *err)
{
    struct tutti_amount price = {0};
    struct line ahead;

    if (!next_word(line))
        return tutti_fail(err, TUTTI_EINVAL, "no amount (as 2.95)");
    if (!read_amount(line->word, &price.amount))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is no amount (as 2.95)", line->word);
    price.low = price.amount;
    price.high = price.amount;
    ahead = *line;
    if (next_word(&ahead) && read_amount(ahead.word, &price.low)) {
        if (!next_word(&ahead) || !read_amount(ahead.word, &price.high))
            return tutti_fail(err, TUTTI_EINVAL, "a low amount without a high one");
        *line = ahead;
    }
    if (price.low > price.amount || price.amount > price.high)
        return tutti_fail(err, TUTTI_EINVAL, "the amount is not between low and high");
    line->at += strspn(line->at, " \t\r");
    if (*line->at == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "an amount without its source");
    price.source = tutti_arena_copy_text(prices->arena, line->at);
    if (price.source == NULL)
        return tutti_nomem(err);
    *ret = price;
    return 0;
}

static int read_once(struct tutti_prices *prices, struct line *line, struct tutti_amount *ret,
                     struct tutti_err *err)
{
    if (ret->source != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "given twice (once)");
    return read_price(prices, line, ret, err);
}

static const struct entry *find(const struct tutti_prices *prices,
                                const struct tutti_accelerator *device, bool is_host)
{
    for (size_t i = 0; i < prices->entry_count; i++)
        if (prices->entries[i].device == device && prices->entries[i].is_host == is_host)
            return &prices->entries[i];
    return NULL;
}

/* NAME AMOUNT [LOW HIGH] TEXT... */
static int read_entry(struct tutti_prices *prices, struct line *line, bool is_host,
                      struct tutti_err *err)
{
    struct entry entry = {.is_host = is_host};
    int status;

    if (!next_word(line))
        return tutti_fail(err, TUTTI_EINVAL, "no device is named");
    status = tutti_accelerator_find(line->word, &entry.device, err);
    if (status < 0)
        return status;
    if (find(prices, entry.device, is_host) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once)", entry.device->name);
    if (prices->entry_count == ENTRIES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "more than %d devices", ENTRIES_MAX);
    status = read_price(prices, line, &entry.price, err);
    if (status == 0)
        prices->entries[prices->entry_count++] = entry;
    return status;
}

/* DATE CURRENCY */
static int read_head(struct tutti_prices *prices, struct line *line, struct tutti_err *err)
{
    char *const texts[] = {prices->date, prices->currency};

    if (prices->date[0] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "given twice (once)");
    for (int i = 0; i < 2; i++) {
        if (!next_word(line) || strlen(line->word) >= DATE_BYTES)
            return tutti_fail(err, TUTTI_EINVAL, "no date and currency (as 2026-05 USD)");
        memcpy(texts[i], line->word, strlen(line->word) + 1);
    }
    if (next_word(line))
        return tutti_fail(err, TUTTI_EINVAL, "'%s' after date and currency", line->word);
    return 0;
}

static int read_line(struct tutti_prices *prices, const char *text, struct tutti_err *err)
{
    static const char all[] = "prices device electricity pue host";
    struct line line = {.at = text};
    char hint[TUTTI_HINT_BYTES];
    char word[WORD_BYTES];
    int status;

    if (!next_word(&line))
        return 0;
    memcpy(word, line.word, sizeof(word));
    if (strcmp(word, "prices") != 0 && prices->date[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "'%s' before 'prices DATE CURRENCY'", word);
    if (strcmp(word, "prices") == 0)
        status = read_head(prices, &line, err);
    else if (strcmp(word, "device") == 0)
        status = read_entry(prices, &line, false, err);
    else if (strcmp(word, "host") == 0)
        status = read_entry(prices, &line, true, err);
    else if (strcmp(word, "electricity") == 0)
        status = read_once(prices, &line, &prices->electricity, err);
    else if (strcmp(word, "pue") == 0)
        status = read_once(prices, &line, &prices->pue, err);
    else
        return tutti_fail(err, TUTTI_EINVAL, "unknown word '%s' (%s%s)", word,
                          tutti_nearest_hint(word, all, hint), all);
    return status < 0 ? tutti_wrap(err, status, "%s", word) : 0;
}

static int read_all(struct tutti_prices *prices, const char *text, size_t bytes,
                    struct tutti_err *err)
{
    const char *end = text + bytes;
    int status = 0;

    for (uint32_t number = 1; text < end && status == 0; number++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop != NULL ? stop : end) - text);
        char line[LINE_BYTES];

        if (length >= sizeof(line) || memchr(text, '\0', length) != NULL)
            return tutti_fail(err, TUTTI_EINVAL, "line %" PRIu32 ": %s", number,
                              length >= sizeof(line) ? "too long" : "a zero byte");
        memcpy(line, text, length);
        line[length] = '\0';
        length = strcspn(line, "#");
        while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL)
            length--;
        line[length] = '\0';
        status = read_line(prices, line, err);
        if (status < 0)
            (void)tutti_wrap(err, status, "line %" PRIu32, number);
        text = stop != NULL ? stop + 1 : end;
    }
    if (status == 0 && prices->date[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "no line 'prices DATE CURRENCY'");
    return status;
}

int tutti_prices_parse(const char *name, const char *text, size_t bytes, struct tutti_prices **ret,
                       struct tutti_err *err)
{
    struct tutti_prices *prices = calloc(1, sizeof(*prices));
    int status;

    if (prices == NULL)
        return tutti_nomem(err);
    prices->arena = tutti_arena_new();
    status = prices->arena == NULL ? tutti_nomem(err) : read_all(prices, text, bytes, err);
    if (status < 0) {
        tutti_prices_free(prices);
        return status == -TUTTI_ENOMEM ? status : tutti_wrap(err, status, "%s", name);
    }
    *ret = prices;
    return 0;
}

int tutti_prices_builtin(struct tutti_prices **ret, struct tutti_err *err)
{
    return tutti_prices_parse(tutti_prices_text.name, tutti_prices_text.text,
                              tutti_prices_text.bytes, ret, err);
}

void tutti_prices_free(struct tutti_prices *prices)
{
    if (prices != NULL)
        tutti_arena_free(prices->arena);
    free(prices);
}

/* ---- asking ---------------------------------------------------------------------------------- */

const char *tutti_prices_date(const struct tutti_prices *prices)
{
    return prices->date;
}

const char *tutti_prices_currency(const struct tutti_prices *prices)
{
    return prices->currency;
}

const struct tutti_amount *tutti_prices_device(const struct tutti_prices *prices,
                                               const struct tutti_accelerator *device)
{
    const struct entry *entry = find(prices, device, false);

    return entry != NULL ? &entry->price : NULL;
}

const struct tutti_amount *tutti_prices_host(const struct tutti_prices *prices,
                                             const struct tutti_accelerator *device)
{
    const struct entry *entry = find(prices, device, true);

    return entry != NULL ? &entry->price : NULL;
}

const struct tutti_amount *tutti_prices_electricity(const struct tutti_prices *prices)
{
    return prices->electricity.source != NULL ? &prices->electricity : NULL;
}

const struct tutti_amount *tutti_prices_pue(const struct tutti_prices *prices)
{
    return prices->pue.source != NULL ? &prices->pue : NULL;
}

/* `amount` for each hour of each device. */
static uint64_t money_of(uint64_t amount, uint64_t device_count, uint64_t time_us)
{
    return tutti_muldiv_near(tutti_muldiv(amount, device_count, 1), time_us, US_PER_HOUR);
}

struct tutti_cost tutti_cost_of(const struct tutti_prices *prices,
                                const struct tutti_accelerator *device, uint64_t device_count,
                                uint64_t time_us)
{
    const struct tutti_amount *rent = tutti_prices_device(prices, device);
    const struct tutti_amount *host = tutti_prices_host(prices, device);
    uint64_t pue = prices->pue.source != NULL ? prices->pue.amount : MILLION;
    uint64_t draw = device->watts * MILLION + (host != NULL ? host->amount : 0);
    struct tutti_cost cost = {.has_money = rent != NULL, .has_power = device->watts > 0};

    if (rent != NULL) {
        cost.money = money_of(rent->amount, device_count, time_us);
        cost.money_low = money_of(rent->low, device_count, time_us);
        cost.money_high = money_of(rent->high, device_count, time_us);
    }
    if (!cost.has_power)
        return cost;
    /* Millionths of a W, with the building's share, times hours, in thousandths of a Wh. */
    draw = tutti_muldiv(tutti_muldiv_near(draw, pue, MILLION), device_count, 1);
    cost.energy_mwh = tutti_muldiv_near(draw, time_us, US_PER_HOUR * 1000);
    cost.has_electricity = prices->electricity.source != NULL;
    if (cost.has_electricity)
        cost.electricity = tutti_muldiv_near(cost.energy_mwh, prices->electricity.amount, MILLION);
    return cost;
}
