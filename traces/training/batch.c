/* The batch of a device where a cell holds two: some tables state both precisions in one. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "traces/training/reading.h"

static const char accepted[] =
    "a number; or two, of mixed precision and of full, where precision says which";

enum precision { UNKNOWN, FULL, MIXED };

static enum precision precision_of(const char *text, size_t bytes)
{
    static const struct {
        const char *word;
        enum precision precision;
    } words[] = {
        {"mixed", MIXED}, {"AMP", MIXED}, {"fp16", MIXED}, {"bf16", MIXED},
        {"fp32", FULL},   {"TF32", FULL}, {"TF", FULL},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i].word) == bytes && strncasecmp(text, words[i].word, bytes) == 0)
            return words[i].precision;
    }
    return UNKNOWN;
}

struct pair {
    int count; /* 0: neither a number nor two */
    double value[2];
    enum precision label[2]; /* "128 (FP32) / 256 (AMP)" */
};

/* A number with commas between thousands or without: "131,072", not "64,32". */
static const char *take_number(const char *at, double *ret)
{
    size_t digits = strspn(at, "0123456789");
    double value = digits > 0 && digits <= 15 ? strtod(at, NULL) : 0;

    if (value <= 0)
        return NULL;
    at += digits;
    while (digits <= 3 && *at == ',' && strspn(at + 1, "0123456789") == 3) {
        value = value * 1000 + strtod(at + 1, NULL);
        at += 4;
    }
    *ret = value;
    return at;
}

static const char *take_label(const char *at, enum precision *ret)
{
    size_t bytes;

    if (*at != '(')
        return at;
    bytes = strcspn(at + 1, ")");
    *ret = precision_of(at + 1, bytes);
    at += 1 + bytes;
    return at + (*at == ')');
}

/* What stands between two numbers. */
static const char *take_between(const char *at)
{
    if (strncmp(at, "and ", 4) == 0)
        return at + 4;
    return *at == ',' || *at == '/' || *at == ':' ? at + 1 : NULL;
}

/* "60 , 32 ; 61440 , 65536": behind the semicolon stands what all passes of a step make. */
static struct pair read_pair(const char *at)
{
    struct pair pair = {.count = 0};
    double value = 0;

    if (tutti_training_number(at, &value) && value > 0)
        return (struct pair){.count = 1, .value = {value}};
    for (int i = 0; i < 2; i++) {
        at = take_number(at + strspn(at, " "), &pair.value[i]);
        if (at == NULL)
            return (struct pair){.count = 0};
        at = take_label(at + strspn(at, " "), &pair.label[i]);
        at += strspn(at, " ");
        pair.count++;
        if (*at == '\0' || *at == ';')
            return pair;
        at = i == 0 ? take_between(at) : NULL;
        if (at == NULL)
            return (struct pair){.count = 0};
    }
    return (struct pair){.count = 0};
}

/* Whether all passes of a step make about the same of either: two precisions of one training do,
 * two phases of it do not. */
static bool makes_the_same(const struct pair *batch, const struct pair *accum)
{
    double first = batch->value[0] * accum->value[0];
    double second = batch->value[1] * accum->value[1];

    return accum->count < 2 || fabs(first - second) <= 0.15 * (first < second ? second : first);
}

/* Which of two is of the row's precision; -1: nothing says so. Mixed precision has room for
 * more. */
static int choose(const struct tutti_training_row_settings *settings, const struct pair *batch,
                  const struct pair *accum)
{
    enum precision own = precision_of(settings->precision, strlen(settings->precision));
    int larger = batch->value[1] > batch->value[0];

    for (int i = 0; i < 2; i++) {
        if (own != UNKNOWN && batch->label[i] == own)
            return i;
    }
    if (batch->label[0] != UNKNOWN || batch->label[1] != UNKNOWN || !makes_the_same(batch, accum))
        return -1;
    if (!larger && batch->value[0] <= batch->value[1])
        return 0; /* the same of both */
    return own == UNKNOWN ? -1 : own == MIXED ? larger : !larger;
}

void tutti_training_read_batch(struct tutti_training_reading *reading)
{
    struct tutti_training_row_settings *settings = &reading->row->settings;
    struct pair batch = read_pair(reading->batch);
    struct pair accum = read_pair(reading->accum);
    int which = batch.count == 2 ? choose(settings, &batch, &accum) : 0;

    if (reading->batch[0] != '\0') {
        if (batch.count == 0 || which < 0)
            tutti_training_problem(reading, "batch_per_gpu", "'%.60s' (%s)", reading->batch,
                                   accepted);
        else
            settings->batch_per_gpu = batch.value[which];
    }
    if (reading->accum[0] != '\0') {
        bool chosen = accum.count == 1 || (accum.count == 2 && batch.count == 2 && which >= 0);
        double value = chosen ? accum.value[accum.count == 2 ? which : 0] : 0;

        if (value < 1 || value > floor(value))
            tutti_training_problem(reading, "grad_accum",
                                   "'%.60s' (a whole number from 1, or two "
                                   "as batch_per_gpu has)",
                                   reading->accum);
        else
            settings->grad_accum = (int64_t)value;
    }
}
