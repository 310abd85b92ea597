/* Reads what is changed of a strategy; see strategy.h. */
#include "tools/train/strategy.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

/* "top-k:0.1", of a hundred; "power-sgd:4"; with ",forget" without error feedback. */
static int read_compression(const char *text, struct tutti_strategy *s, struct tutti_err *err)
{
    bool largest = text != NULL && strncmp(text, "top-k:", 6) == 0;
    bool factors = text != NULL && strncmp(text, "power-sgd:", 10) == 0;
    char *end = NULL;
    double number = 0;

    if (text == NULL || strcmp(text, "none") == 0)
        return 0;
    if (largest || factors)
        number = strtod(text + (largest ? 6 : 10), &end);
    if (end != NULL && strcmp(end, ",forget") == 0) {
        s->forgets = true;
        end += strlen(end);
    }
    if (end == NULL || *end != '\0' || !(number >= (largest ? 0.0001 : 1)) ||
        number > (largest ? 100 : 4096) || (factors && number != (double)(uint32_t)number))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--compress': '%.40s' (none, top-k:PERCENT of 0.0001 to 100, or "
                          "power-sgd:RANK of 1 to 4096)",
                          text);
    s->compression = largest ? TUTTI_COMPRESS_TOP_K : TUTTI_COMPRESS_POWER_SGD;
    s->keep_ppm = largest ? (uint32_t)(number * 1e4 + 0.5) : 0;
    s->factor_rank = factors ? (uint32_t)number : 0;
    return 0;
}

/* Options of one kind of strategy, given to another. */
static int check(const struct tutti_args *args, const struct tutti_strategy *s,
                 struct tutti_err *err)
{
    const bool by_layer = s->sharding == TUTTI_SHARD_ZERO3;
    const struct {
        const char *name;
        bool fits;
        const char *whose;
    } options[] = {
        {"local-steps", s->local_steps > 0, "local-sgd and diloco"},
        {"shard", s->sharding != TUTTI_SHARD_NONE, "zero1, zero2, fsdp and hsdp"},
        {"gather-ahead", by_layer, "fsdp and hsdp"},
        {"keep-weights", by_layer, "fsdp and hsdp"},
        {"shard-update", strcmp(s->name, "tpu") == 0, "tpu"},
        {"num-packs", !by_layer, "strategies whose packs are no layers"},
        {"bytes-per-pack", !by_layer, "strategies whose packs are no layers"},
        {"bucket", !by_layer, "strategies whose packs are no layers"},
    };
    static const char *const packs[] = {"num-packs", "bytes-per-pack", "bucket"};
    const char *first = NULL;

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (tutti_args_given(args, options[i].name) && !options[i].fits)
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' is of %s, not of '%s'",
                              options[i].name, options[i].whose, s->name);
    for (size_t i = 0; i < sizeof(packs) / sizeof(packs[0]); i++) {
        if (!tutti_args_given(args, packs[i]))
            continue;
        if (first != NULL)
            return tutti_fail(err, TUTTI_EINVAL,
                              "options '--%s' and '--%s' both say what goes together (one of them)",
                              first, packs[i]);
        first = packs[i];
    }
    return 0;
}

static void read_packs(const struct tutti_args *args, struct tutti_strategy *s)
{
    if (tutti_args_given(args, "num-packs")) {
        s->rule = TUTTI_PACK_PIECES;
        s->limit = tutti_args_number(args, "num-packs");
        s->overlap = s->limit == 0;
    }
    if (tutti_args_given(args, "bytes-per-pack")) {
        s->rule = TUTTI_PACK_EXCEED;
        s->limit = tutti_args_number(args, "bytes-per-pack");
    }
    if (tutti_args_given(args, "bucket")) {
        s->rule = TUTTI_PACK_REACH;
        s->limit = tutti_args_number(args, "bucket");
        s->first_limit = s->limit < s->first_limit ? s->limit : s->first_limit;
    }
}

int tutti_train_strategy_read(const struct tutti_args *args, struct tutti_strategy *s,
                              struct tutti_err *err)
{
    int status = check(args, s, err);

    if (status < 0)
        return status;
    read_packs(args, s);
    if (tutti_args_flag(args, "shard-update")) { /* and gathered before the next step begins */
        s->sharding = TUTTI_SHARD_ZERO1;
        s->overlap = false;
    }
    if (tutti_args_given(args, "overlap"))
        s->overlap = tutti_args_is(args, "overlap", "on");
    if (tutti_args_given(args, "gather-ahead"))
        s->prefetch = (uint32_t)tutti_args_number(args, "gather-ahead");
    s->keep_weights = tutti_args_flag(args, "keep-weights");
    s->densify = tutti_args_is(args, "sparse", "dense");
    if (tutti_args_given(args, "local-steps"))
        s->local_steps = (uint32_t)tutti_args_number(args, "local-steps");
    return read_compression(tutti_args_text(args, "compress"), s, err);
}
