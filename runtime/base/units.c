/* The parser and the printer of human units; see runtime/units.h. */
#include "runtime/units.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"

struct unit {
    const char *suffix;
    uint64_t scale;   /* how many base units one of these is */
    uint64_t divisor; /* and divided by this: bits are an eighth of a byte */
};

static const struct unit size_units[] = {
    {"", 1, 1},
    {"B", 1, 1},
    {"K", 1ull << 10, 1},
    {"M", 1ull << 20, 1},
    {"G", 1ull << 30, 1},
    {"T", 1ull << 40, 1},
    {"KiB", 1ull << 10, 1},
    {"MiB", 1ull << 20, 1},
    {"GiB", 1ull << 30, 1},
    {"TiB", 1ull << 40, 1},
    {"kB", 1000ull, 1},
    {"MB", 1000000ull, 1},
    {"GB", 1000000000ull, 1},
    {"TB", 1000000000000ull, 1},
};

static const struct unit rate_units[] = {
    {"B/s", 1, 1},
    {"kB/s", 1000ull, 1},
    {"MB/s", 1000000ull, 1},
    {"GB/s", 1000000000ull, 1},
    {"TB/s", 1000000000000ull, 1},
    {"KiB/s", 1ull << 10, 1},
    {"MiB/s", 1ull << 20, 1},
    {"GiB/s", 1ull << 30, 1},
    {"b/s", 1, 8},
    {"kb/s", 1000ull, 8},
    {"Mb/s", 1000000ull, 8},
    {"Gb/s", 1000000000ull, 8},
    {"Tb/s", 1000000000000ull, 8},
};

static const struct unit time_units[] = {
    {"ps", 1, 1},
    {"ns", 1000ull, 1},
    {"us", 1000000ull, 1},
    {"ms", 1000000000ull, 1},
    {"s", 1000000000000ull, 1},
};

tutti_ps tutti_wire_ps(uint64_t bytes, uint64_t bytes_per_s)
{
    uint64_t ps;

    assert(bytes_per_s > 0);
    if (bytes <= INT64_MAX / TUTTI_PS_PER_S && bytes_per_s <= INT64_MAX) /* no need of 128 bits */
        return (tutti_ps)((bytes * TUTTI_PS_PER_S + bytes_per_s - 1) / bytes_per_s);
    ps = tutti_muldiv_wide(bytes, TUTTI_PS_PER_S, bytes_per_s - 1, bytes_per_s);
    return ps > INT64_MAX ? INT64_MAX : (tutti_ps)ps;
}

/* Reads digits[.digits] as mantissa / pow10; returns the rest of the text or NULL. */
static const char *read_decimal(const char *text, uint64_t *mantissa, uint64_t *pow10)
{
    const char *p = text;
    int digits = 0;

    *mantissa = 0;
    *pow10 = 1;
    for (; isdigit((unsigned char)*p); p++, digits++) {
        if (*mantissa > (UINT64_MAX - 9) / 10)
            return NULL;
        *mantissa = *mantissa * 10 + (uint64_t)(*p - '0');
    }
    if (*p == '.') {
        for (p++; isdigit((unsigned char)*p); p++, digits++) {
            if (*mantissa > (UINT64_MAX - 9) / 10 || *pow10 >= 1000000000000000000ull)
                return NULL;
            *mantissa = *mantissa * 10 + (uint64_t)(*p - '0');
            *pow10 *= 10;
        }
    }
    return digits > 0 ? p : NULL;
}

/* Exact to the unit, rounded to nearest; refuses what does not fit 63 bits. */
static int read_quantity(const char *text, const struct unit *units, size_t unit_count,
                         uint64_t *ret, const char *what, const char *base, const char *accepted,
                         struct tutti_err *err)
{
    uint64_t mantissa;
    uint64_t pow10;
    const char *rest = read_decimal(text, &mantissa, &pow10);

    for (size_t i = 0; rest != NULL && i < unit_count; i++) {
        uint64_t value;
        uint64_t divisor = pow10 * units[i].divisor; /* at most 8e18 */

        if (strcmp(rest, units[i].suffix) != 0)
            continue;
        value = tutti_muldiv_near(mantissa, units[i].scale, divisor);
        if (value > INT64_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "%s '%s' is too large (less than 2^63 %s)", what,
                              text, base);
        *ret = value;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "not a %s '%s' (%s)", what, text, accepted);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int tutti_read_size(const char *text, uint64_t *ret_bytes, struct tutti_err *err)
{
    return read_quantity(text, size_units, COUNT(size_units), ret_bytes, "size", "bytes",
                         "bytes such as 12345, 4K, 16M, 1G", err);
}

int tutti_read_rate(const char *text, uint64_t *ret_bytes_per_s, struct tutti_err *err)
{
    uint64_t rate = 0;
    int status = read_quantity(text, rate_units, COUNT(rate_units), &rate, "rate", "bytes a second",
                               "a unit is needed: 50GB/s is bytes, 400Gb/s is bits", err);

    if (status == 0 && rate == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "rate '%s' is zero (more than 0)", text);
    if (status == 0)
        *ret_bytes_per_s = rate;
    return status;
}

int tutti_read_time(const char *text, tutti_ps *ret_ps, struct tutti_err *err)
{
    uint64_t ps = 0;
    int status = read_quantity(text, time_units, COUNT(time_units), &ps, "time", "ps, 106 days",
                               "a unit is needed: 500ns, 1.5us, 2ms, 1s", err);

    if (status == 0)
        *ret_ps = (tutti_ps)ps;
    return status;
}

int tutti_read_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                     struct tutti_err *err)
{
    uint64_t value = 0;
    const char *first = text + (*text == '-');
    const char *p = first;
    bool fits = *text != '-';

    for (; isdigit((unsigned char)*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        fits = fits && value <= (UINT64_MAX - digit) / 10;
        value = fits ? value * 10 + digit : value;
    }
    if (p == first || *p != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "not a number '%s' (%" PRIu64 " to %" PRIu64 ")", text,
                          min, max);
    if (!fits || value < min || value > max)
        return tutti_fail(err, TUTTI_EINVAL, "out of range '%s' (%" PRIu64 " to %" PRIu64 ")", text,
                          min, max);
    *ret = value;
    return 0;
}

const char *tutti_print_size(uint64_t bytes, char *buf)
{
    static const char *const suffix[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t power = 0;
    uint64_t value = bytes;

    while (power < 4 && value != 0 && value % 1024 == 0) {
        value /= 1024;
        power++;
    }
    (void)snprintf(buf, TUTTI_UNIT_TEXT_BYTES, "%" PRIu64 "%s", value, suffix[power]);
    return buf;
}

/* value / 10^digits without trailing zeros. */
static void print_fixed(char *buf, uint64_t value, int digits, const char *suffix)
{
    uint64_t pow10 = 1;
    int kept = digits;

    for (int i = 0; i < digits; i++)
        pow10 *= 10;
    if (value % pow10 == 0) {
        (void)snprintf(buf, TUTTI_UNIT_TEXT_BYTES, "%" PRIu64 "%s", value / pow10, suffix);
        return;
    }
    uint64_t part = value % pow10;
    for (; part % 10 == 0; part /= 10)
        kept--;
    (void)snprintf(buf, TUTTI_UNIT_TEXT_BYTES, "%" PRIu64 ".%0*" PRIu64 "%s", value / pow10, kept,
                   part, suffix);
}

const char *tutti_print_rate(uint64_t bytes_per_s, char *buf)
{
    if (bytes_per_s >= 1000000000 || bytes_per_s == 0)
        print_fixed(buf, bytes_per_s, 9, "GB/s");
    else if (bytes_per_s >= 1000000)
        print_fixed(buf, bytes_per_s, 6, "MB/s");
    else
        print_fixed(buf, bytes_per_s, 3, "kB/s");
    return buf;
}

const char *tutti_print_time(tutti_ps ps, char *buf)
{
    static const struct {
        tutti_ps at_least;
        int digits;
        const char *suffix;
    } step[] = {
        {TUTTI_PS_PER_S, 12, "s"},
        {TUTTI_PS_PER_MS, 9, "ms"},
        {TUTTI_PS_PER_US, 6, "us"},
        {TUTTI_PS_PER_NS, 3, "ns"},
        {0, 0, "ps"},
    };
    size_t i = 0;

    assert(ps >= 0);
    while (ps < step[i].at_least)
        i++;
    print_fixed(buf, (uint64_t)ps, step[i].digits, step[i].suffix);
    return buf;
}
