/* Whether a step fits, and if not, what would make it: found by trying. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/footprint.h"
#include "sim/footprint/params.h"

enum { TEXT_BYTES = 640, SHOWN = 3, DIVISORS_MAX = 1 << 16, DEVICES_MAX = 1 << 20 };

/* What was tried, and what fits of it: "micro-batch 2 (61.3GiB), ZeRO-1 (...)". */
struct advice {
    char text[TEXT_BYTES];
    size_t used;
};

static double gibi(uint64_t bytes)
{
    return (double)bytes / 0x1p30;
}

static bool fits(const struct tutti_footprint_params *p, struct tutti_footprint *f)
{
    return tutti_footprint_of(p, f, NULL) == 0 && f->fits;
}

__attribute__((format(printf, 3, 4))) static void
add(struct advice *advice, const struct tutti_footprint *f, const char *format, ...)
{
    char what[96];
    va_list arguments;
    int bytes;

    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    bytes = snprintf(advice->text + advice->used, TEXT_BYTES - advice->used, "%s%s (%.1fGiB)",
                     advice->used > 0 ? "; " : "", what, gibi(f->total_bytes));
    if (bytes > 0 && (size_t)bytes < TEXT_BYTES - advice->used)
        advice->used += (size_t)bytes;
    else
        advice->text[advice->used] = '\0';
}

/* The largest micro-batch that divides this one; the step keeps its samples. */
static void try_batches(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint_params p = *asked;
    struct tutti_footprint f;

    for (uint64_t by = 2; by <= asked->micro_batch && by <= DIVISORS_MAX; by++) {
        if (asked->micro_batch % by != 0)
            continue;
        p.micro_batch = asked->micro_batch / by;
        p.micro_batches = (uint32_t)(asked->micro_batches * by);
        if (!fits(&p, &f))
            continue;
        add(advice, &f, "micro-batch %" PRIu64, p.micro_batch);
        return;
    }
}

static void try_recompute(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint_params p = *asked;
    struct tutti_footprint f;

    for (int mode = (int)asked->recompute + 1; mode < TUTTI_RECOMPUTE_COUNT; mode++) {
        p.recompute = (enum tutti_recompute)mode;
        if (!fits(&p, &f))
            continue;
        add(advice, &f, "recompute %s", tutti_recompute_name(p.recompute));
        return;
    }
}

static void try_sharding(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint_params p = *asked;
    struct tutti_footprint f;

    for (int stage = (int)asked->sharding + 1; stage <= TUTTI_SHARD_ZERO3 && asked->data > 1;
         stage++) {
        p.sharding = (enum tutti_sharding)stage;
        if (!fits(&p, &f))
            continue;
        add(advice, &f, "ZeRO-%d", stage);
        return;
    }
}

/* More replicas help who shards, as each then owns less; the sharding group is all of them. */
static bool try_replicas(const struct tutti_footprint_params *asked, struct advice *advice,
                         const char *before)
{
    struct tutti_footprint_params p = *asked;
    struct tutti_footprint f;
    uint64_t per_replica = (uint64_t)p.tensor * p.pipeline;

    p.shard_ranks = 0;
    while (p.sharding != TUTTI_SHARD_NONE && p.data <= DEVICES_MAX / 2 / per_replica) {
        p.data *= 2;
        if (!fits(&p, &f))
            continue;
        add(advice, &f, "%s%" PRIu64 " devices", before, per_replica * p.data);
        return true;
    }
    return false;
}

static void try_tensor(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint_params p = *asked;
    struct tutti_footprint f;
    uint32_t heads = p.model->transformer.heads;

    while (heads > 0 && p.tensor <= heads / 2 && heads % (2 * p.tensor) == 0) {
        p.tensor *= 2;
        if (!fits(&p, &f))
            continue;
        add(advice, &f, "%" PRIu64 " devices by tensor parallelism of %" PRIu32,
            (uint64_t)p.tensor * p.pipeline * p.data, p.tensor);
        return;
    }
}

/* Where nothing does alone. */
static void try_together(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint_params p = *asked;
    struct tutti_footprint f;
    char before[64];

    p.micro_batches = (uint32_t)(p.micro_batches * p.micro_batch);
    p.micro_batch = 1;
    p.recompute = TUTTI_RECOMPUTE_FULL;
    if (fits(&p, &f)) {
        add(advice, &f, "micro-batch 1 and recompute full");
        return;
    }
    p.sharding = TUTTI_SHARD_ZERO3;
    if (p.data > 1 && fits(&p, &f)) {
        add(advice, &f, "micro-batch 1, recompute full and ZeRO-3");
        return;
    }
    (void)snprintf(before, sizeof(before), "micro-batch 1, recompute full and ZeRO-3 on ");
    (void)try_replicas(&p, advice, before);
}

/* "optimizer 12.0GiB, weights 3.1GiB and logits 2.0GiB" */
static void name_largest(const struct tutti_footprint *f, char *text, size_t text_bytes)
{
    static const char *const before[SHOWN] = {"", ", ", " and "};
    bool shown[TUTTI_MEMORY_TERM_COUNT] = {false};
    size_t used = 0;

    for (int i = 0; i < SHOWN && used < text_bytes; i++) {
        int most = -1;

        for (int t = 0; t < TUTTI_MEMORY_TERM_COUNT; t++)
            if (!shown[t] && (most < 0 || f->bytes[t] > f->bytes[most]))
                most = t;
        shown[most] = true;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s %.1fGiB", before[i],
                                 tutti_memory_term_name((enum tutti_memory_term)most),
                                 gibi(f->bytes[most]));
    }
}

int tutti_footprint_check(const struct tutti_footprint_params *params, struct tutti_err *err)
{
    struct tutti_footprint_params p;
    struct tutti_footprint f;
    struct advice advice = {.used = 0};
    char largest[160];
    int status = tutti_footprint_params_complete(params, &p, err);

    if (status == 0)
        status = tutti_footprint_of(&p, &f, err);
    if (status < 0 || f.fits)
        return status;
    try_batches(&p, &advice);
    try_recompute(&p, &advice);
    try_sharding(&p, &advice);
    (void)try_replicas(&p, &advice, "");
    try_tensor(&p, &advice);
    if (advice.used == 0)
        try_together(&p, &advice);
    name_largest(&f, largest, sizeof(largest));
    return tutti_fail(err, TUTTI_EINVAL, "does not fit: %.1fGiB of %.1fGiB of '%s': %s; %s%s",
                      gibi(f.total_bytes), gibi(f.capacity_bytes), p.accelerator->name, largest,
                      advice.used > 0 ? "would fit: " : "no setting tried makes it fit",
                      advice.text);
}
