/* The words of a list of perturbations; grammar in topo/perturb.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/perturb.h"

enum { WHOLE_PLACES = 7, PLACES = 6, MILLION = 1000000, FACTOR_MAX = 1000000 };

static const struct {
    const char *name;
    const char *form; /* what would have been accepted */
} kinds[TUTTI_PERTURB_KIND_COUNT] = {
    [TUTTI_PERTURB_RATES] = {"rates", "rates=F/F/F, factors of the rate such as 1/0.9/0.5"},
    [TUTTI_PERTURB_SLOW_NODE] = {"slow-node",
                                 "slow-node=N:F, N%:F or NAME:F; F times slower, from 1"},
    [TUTTI_PERTURB_SLOW_LINK] = {"slow-link",
                                 "slow-link=N:F, N%:F or NODE-NODE:F; F times slower, from 1"},
    [TUTTI_PERTURB_LATENCY] = {"latency", "latency=LOW..HIGH, factors such as 1..1.2"},
    [TUTTI_PERTURB_START] = {"start", "start=TIME, such as 10us"},
    [TUTTI_PERTURB_ECMP] = {"ecmp", "ecmp=hash, a spine drawn for each flow"},
};

const char *tutti_perturb_kind_name(enum tutti_perturb_kind kind)
{
    return (unsigned)kind < TUTTI_PERTURB_KIND_COUNT ? kinds[kind].name : "?";
}

/* A part of a word. */
struct part {
    const char *text;
    size_t bytes;
};

static struct part part_of(const char *text, size_t bytes)
{
    return (struct part){.text = text, .bytes = bytes};
}

/* Splits at the first `mark`: *left is what is before it, *part what is behind; false: none. */
static bool split(struct part *part, const char *mark, struct part *left)
{
    const char *at = memmem(part->text, part->bytes, mark, strlen(mark));

    if (at == NULL)
        return false;
    *left = part_of(part->text, (size_t)(at - part->text));
    *part = part_of(at + strlen(mark), part->bytes - left->bytes - strlen(mark));
    return true;
}

/* Digits from *at on, at most `places` of them, as a number; returns how many there were. */
static size_t read_digits(struct part part, size_t *at, size_t places, uint64_t *ret)
{
    size_t count = 0;

    *ret = 0;
    for (; *at < part.bytes && isdigit((unsigned char)part.text[*at]) && count < places; ++*at) {
        *ret = *ret * 10 + (uint64_t)(part.text[*at] - '0');
        count++;
    }
    return count;
}

/* "1.25" in millionths, from 0 to FACTOR_MAX; false: it is not such a number. */
static bool read_millionths(struct part part, uint64_t *ret)
{
    uint64_t whole = 0;
    uint64_t fraction = 0;
    size_t places = 0;
    size_t at = 0;

    if (read_digits(part, &at, WHOLE_PLACES, &whole) == 0)
        return false;
    if (at < part.bytes && part.text[at] == '.') {
        at++;
        places = read_digits(part, &at, PLACES, &fraction);
        if (places == 0)
            return false;
    }
    for (; places < PLACES; places++)
        fraction *= 10;
    *ret = whole * MILLION + fraction;
    return at == part.bytes && *ret <= (uint64_t)FACTOR_MAX * MILLION;
}

static int refuse(const struct tutti_perturb_item *item, const char *what, struct part part,
                  struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL, "'%s': %s '%.*s' (%s)", item->text, what, (int)part.bytes,
                      part.text, kinds[item->kind].form);
}

static int read_factor(struct tutti_perturb_item *item, struct part part, uint64_t least,
                       struct tutti_err *err)
{
    uint64_t factor = 0;

    if (item->factor_count == TUTTI_PERTURB_FACTORS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%s': more than %d factors", item->text,
                          TUTTI_PERTURB_FACTORS_MAX);
    if (!read_millionths(part, &factor) || factor < least)
        return refuse(item, "not a factor", part, err);
    item->factors[item->factor_count++] = factor;
    return 0;
}

/* "3", "0.5%", or a name. */
static int read_whom(struct tutti_perturb_item *item, struct part part, struct tutti_err *err)
{
    bool percent = part.bytes > 0 && part.text[part.bytes - 1] == '%';
    struct part number = part_of(part.text, part.bytes - percent);

    if (part.bytes == 0)
        return refuse(item, "nobody is named", part, err);
    if (!read_millionths(number, &item->number)) {
        item->whom = TUTTI_PERTURB_NAMED;
        memcpy(item->name, part.text, part.bytes);
        return percent && isdigit((unsigned char)part.text[0])
                   ? refuse(item, "not a share", part, err)
                   : 0;
    }
    item->whom = percent ? TUTTI_PERTURB_PERCENT : TUTTI_PERTURB_COUNT;
    if (percent && item->number > (uint64_t)100 * MILLION)
        return refuse(item, "more than all", part, err);
    if (!percent && item->number % MILLION != 0)
        return refuse(item, "not a whole number", part, err);
    if (!percent)
        item->number /= MILLION;
    return 0;
}

/* WHOM:FACTOR; names may have a ':' in them, so it is the last that counts. */
static int read_slow(struct tutti_perturb_item *item, struct part part, struct tutti_err *err)
{
    const char *colon = memrchr(part.text, ':', part.bytes);
    size_t whom_bytes;
    int status;

    if (colon == NULL)
        return refuse(item, "no factor behind", part, err);
    whom_bytes = (size_t)(colon - part.text);
    status = read_whom(item, part_of(part.text, whom_bytes), err);
    if (status < 0)
        return status;
    return read_factor(item, part_of(colon + 1, part.bytes - whom_bytes - 1), MILLION, err);
}

static int read_latency(struct tutti_perturb_item *item, struct part part, struct tutti_err *err)
{
    struct part low = part;
    int status;

    (void)split(&part, "..", &low); /* else one factor stands for both */
    status = read_factor(item, low, 0, err);
    if (status == 0)
        status = read_factor(item, part, 0, err);
    if (status == 0 && item->factors[0] > item->factors[1])
        status = refuse(item, "the highest is below the lowest:", part, err);
    return status;
}

static int read_rates(struct tutti_perturb_item *item, struct part part, struct tutti_err *err)
{
    struct part left;
    int status = 0;

    while (status == 0 && split(&part, "/", &left))
        status = read_factor(item, left, 1, err);
    return status < 0 ? status : read_factor(item, part, 1, err);
}

static int read_start(struct tutti_perturb_item *item, struct part part, struct tutti_err *err)
{
    char text[TUTTI_PERTURB_TEXT_BYTES] = "";
    int status;

    memcpy(text, part.text, part.bytes);
    status = tutti_read_time(text, &item->start_ps_max, err);
    return status < 0 ? tutti_wrap(err, status, "'%s'", item->text) : 0;
}

static int read_ecmp(struct tutti_perturb_item *item, struct part part, struct tutti_err *err)
{
    static const char hash[] = "hash";

    if (part.bytes != strlen(hash) || memcmp(part.text, hash, part.bytes) != 0)
        return refuse(item, "not a way to spread flows", part, err);
    return 0;
}

static int read_kind(const char *word, struct part *part, enum tutti_perturb_kind *ret,
                     struct tutti_err *err)
{
    static const char words[] = "slow-link=, slow-node=, latency=, rates=, start= or ecmp=";
    struct part name = *part;
    bool valued = split(part, "=", &name);
    char typed[TUTTI_PERTURB_TEXT_BYTES];
    char hint[TUTTI_HINT_BYTES];

    for (unsigned k = 0; k < TUTTI_PERTURB_KIND_COUNT; k++) {
        if (strlen(kinds[k].name) != name.bytes ||
            memcmp(kinds[k].name, name.text, name.bytes) != 0)
            continue;
        if (!valued || part->bytes == 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' says nothing (%s)", word, kinds[k].form);
        *ret = (enum tutti_perturb_kind)k;
        return 0;
    }
    (void)snprintf(typed, sizeof(typed), "%.*s", (int)name.bytes, name.text);
    return tutti_fail(err, TUTTI_EINVAL, "unknown perturbation '%s' (%s%s)", word,
                      tutti_nearest_hint(typed, words, hint), words);
}

/* Whether both mean the same, however their numbers are written. */
static bool same(const struct tutti_perturb_item *a, const struct tutti_perturb_item *b)
{
    return a->kind == b->kind && a->whom == b->whom && a->number == b->number &&
           strcmp(a->name, b->name) == 0 && a->factor_count == b->factor_count &&
           memcmp(a->factors, b->factors, sizeof(a->factors)) == 0;
}

static int read_item(const struct tutti_perturb *perturb, struct part part,
                     struct tutti_perturb_item *item, struct tutti_err *err)
{
    if (part.bytes >= sizeof(item->text))
        return tutti_fail(err, TUTTI_EINVAL, "too long '%.40s...' (at most %d characters)",
                          part.text, TUTTI_PERTURB_TEXT_BYTES - 1);
    memcpy(item->text, part.text, part.bytes);
    part.text = item->text;
    if (read_kind(item->text, &part, &item->kind, err) < 0)
        return -TUTTI_EINVAL;
    for (uint32_t i = 0; i < perturb->item_count; i++)
        item->turn += perturb->items[i].kind == item->kind;
    if (item->kind == TUTTI_PERTURB_SLOW_NODE || item->kind == TUTTI_PERTURB_SLOW_LINK)
        return read_slow(item, part, err);
    if (item->turn > 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' comes after another '%s=' (one)", item->text,
                          kinds[item->kind].name);
    switch (item->kind) {
    case TUTTI_PERTURB_RATES:
        return read_rates(item, part, err);
    case TUTTI_PERTURB_LATENCY:
        return read_latency(item, part, err);
    case TUTTI_PERTURB_ECMP:
        return read_ecmp(item, part, err);
    default:
        return read_start(item, part, err);
    }
}

int tutti_perturb_add(struct tutti_perturb *perturb, const char *words, struct tutti_err *err)
{
    struct part rest = part_of(words, strlen(words));
    bool more = true;

    while (more) {
        struct tutti_perturb_item item = {.whom = TUTTI_PERTURB_ALL};
        struct part part = rest;
        int status;

        more = split(&rest, ",", &part);
        if (part.bytes == 0)
            return tutti_fail(err, TUTTI_EINVAL, "an empty word in '%s' (WHAT=VALUE,...)", words);
        if (perturb->item_count == TUTTI_PERTURB_ITEMS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "too many perturbations (at most %d)",
                              TUTTI_PERTURB_ITEMS_MAX);
        status = read_item(perturb, part, &item, err);
        if (status < 0)
            return status;
        for (uint32_t i = 0; i < perturb->item_count; i++) {
            if (same(&perturb->items[i], &item))
                return tutti_fail(err, TUTTI_EINVAL, "'%s' is given twice (once, or another %s)",
                                  item.text, kinds[item.kind].name);
        }
        perturb->items[perturb->item_count++] = item;
    }
    return 0;
}

const struct tutti_perturb_item *tutti_perturb_find(const struct tutti_perturb *perturb,
                                                    enum tutti_perturb_kind kind)
{
    for (uint32_t i = 0; i < perturb->item_count; i++) {
        if (perturb->items[i].kind == kind)
            return &perturb->items[i];
    }
    return NULL;
}
