/* Reads amounts; see amounts.h. */
#include "tools/plan/amounts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

struct suffix {
    const char *word;
    double factor;
};

/* A decimal that begins with a digit or a point, times the suffix that follows it. */
static bool read_suffixed(const char *text, const struct suffix *suffixes, size_t count,
                          double *ret)
{
    char *rest;
    double value;

    if ((!isdigit((unsigned char)*text) && *text != '.') || text[strcspn(text, "xX")] != '\0')
        return false;
    errno = 0;
    value = strtod(text, &rest);
    if (rest == text || errno != 0 || !isfinite(value))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rest, suffixes[i].word) == 0) {
            *ret = value * suffixes[i].factor;
            return true;
        }
    return false;
}

int tutti_amount_read(const char *text, uint64_t scale, uint64_t *ret, struct tutti_err *err)
{
    static const struct suffix suffixes[] = {{"", 1},    {"K", 1e3}, {"k", 1e3}, {"M", 1e6},
                                             {"G", 1e9}, {"B", 1e9}, {"T", 1e12}};
    double value = 0;

    if (!read_suffixed(text, suffixes, sizeof(suffixes) / sizeof(suffixes[0]), &value))
        return tutti_fail(err, TUTTI_EINVAL, "'%.40s' is no amount (300K, 10M, 1.5B, 15T)", text);
    value = floor(value * (double)scale + 0.5);
    if (value < 1 || value > 4e18)
        return tutti_fail(err, TUTTI_EINVAL, "'%.40s' is out of range (300K, 10M, 1.5B, 15T)",
                          text);
    *ret = (uint64_t)value;
    return 0;
}

int tutti_duration_read(const char *text, uint64_t *ret_us, struct tutti_err *err)
{
    static const struct suffix suffixes[] = {
        {"s", 1e6}, {"min", 60e6}, {"h", 3600e6}, {"d", 86400e6}, {"w", 7 * 86400e6}};
    double value = 0;

    if (!read_suffixed(text, suffixes, sizeof(suffixes) / sizeof(suffixes[0]), &value))
        return tutti_fail(err, TUTTI_EINVAL, "'%.40s' is no time (90s, 30min, 12h, 60d, 8w)", text);
    if (value < 1 || value > 4e18)
        return tutti_fail(err, TUTTI_EINVAL, "'%.40s' is out of range (90s, 30min, 12h, 60d, 8w)",
                          text);
    *ret_us = (uint64_t)value;
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int add_value(uint32_t value, uint32_t *ret, uint32_t capacity, uint32_t *count,
                     struct tutti_err *err)
{
    uint32_t at = *count;

    for (uint32_t i = 0; i < *count; i++)
        if (ret[i] == value)
            return 0;
    if (*count == capacity)
        return tutti_fail(err, TUTTI_EINVAL, "more than %u values", capacity);
    for (; at > 0 && ret[at - 1] > value; at--)
        ret[at] = ret[at - 1];
    ret[at] = value;
    (*count)++;
    return 0;
}

int tutti_values_read(const char *text, uint32_t *ret, uint32_t capacity, uint32_t *ret_count,
                      struct tutti_err *err)
{
    const char *at = text;
    uint32_t count = 0;
    int status = 0;

    while (status == 0) {
        char *end = (char *)at;
        unsigned long long from = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : 0;
        unsigned long long to = from;

        if (end != at && strncmp(end, "..", 2) == 0 && isdigit((unsigned char)end[2]))
            to = strtoull(end + 2, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || from == 0 || to < from ||
            to > UINT32_MAX / 2)
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%.40s' is no list of numbers (8, 1,2,8 or 1..16, doubling)", text);
        for (unsigned long long n = from; n <= to && status == 0; n *= 2)
            status = add_value((uint32_t)n, ret, capacity, &count, err);
        if (*end == '\0')
            break;
        at = end + 1;
    }
    *ret_count = count;
    return status;
}

int tutti_words_read(const char *text,
                     int (*find)(const char *name, uint32_t *ret, struct tutti_err *err),
                     uint32_t *ret_bits, struct tutti_err *err)
{
    uint32_t bits = 0;

    for (const char *at = text;; at++) {
        size_t bytes = strcspn(at, ",");
        uint32_t number = 0;
        char word[32];
        int status;

        (void)snprintf(word, sizeof(word), "%.*s", (int)(bytes < 31 ? bytes : 31), at);
        status = find(word, &number, err);
        if (status < 0)
            return status;
        bits |= 1u << number;
        at += bytes;
        if (*at == '\0')
            break;
    }
    *ret_bits = bits;
    return 0;
}

const char *tutti_duration_text(double seconds, char *buf)
{
    static const struct suffix units[] = {
        {"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"s", 1}};
    size_t i = 0;

    while (i < 3 && seconds < 2 * units[i].factor)
        i++;
    (void)snprintf(buf, TUTTI_DURATION_TEXT_BYTES, "%.4g %s", seconds / units[i].factor,
                   units[i].word);
    return buf;
}
