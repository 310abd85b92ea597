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

/* Another setting of what was asked; degrees that came as a struct are changed there. */
struct trial {
    struct tutti_footprint_params p;
    struct tutti_parallel degrees;
};

static void begin(struct trial *trial, const struct tutti_footprint_params *asked)
{
    trial->p = *asked;
    trial->degrees = (struct tutti_parallel){.size = sizeof(trial->degrees)};
    if (asked->parallel != NULL &&
        tutti_parallel_complete(asked->parallel, &trial->degrees, NULL) == 0)
        trial->p.parallel = &trial->degrees;
}

static void set_batch(struct trial *trial, uint64_t micro_batch, uint64_t micro_batches)
{
    trial->p.micro_batch = micro_batch;
    trial->p.micro_batches = (uint32_t)micro_batches;
    trial->degrees.micro_batch = (uint32_t)micro_batch;
    trial->degrees.micro_batches = (uint32_t)micro_batches;
}

static void set_sharding(struct trial *trial, enum tutti_sharding sharding)
{
    trial->p.sharding = sharding;
    trial->degrees.sharding = sharding;
    trial->degrees.keep_weights = sharding == TUTTI_SHARD_ZERO3 && trial->p.pipeline > 1;
}

static bool fits(struct trial *trial, struct tutti_footprint *f)
{
    return tutti_footprint_of(&trial->p, f, NULL) == 0 && f->fits;
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
    struct tutti_footprint f;
    struct trial trial;

    begin(&trial, asked);
    for (uint64_t by = 2; by <= asked->micro_batch && by <= DIVISORS_MAX; by++) {
        if (asked->micro_batch % by != 0)
            continue;
        set_batch(&trial, asked->micro_batch / by, asked->micro_batches * by);
        if (!fits(&trial, &f))
            continue;
        add(advice, &f, "micro-batch %" PRIu64, trial.p.micro_batch);
        return;
    }
}

static void try_recompute(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint f;
    struct trial trial;

    begin(&trial, asked);
    for (int mode = (int)asked->recompute + 1; mode < TUTTI_RECOMPUTE_COUNT; mode++) {
        trial.p.recompute = (enum tutti_recompute)mode;
        if (!fits(&trial, &f))
            continue;
        add(advice, &f, "recompute %s", tutti_recompute_name(trial.p.recompute));
        return;
    }
}

static void try_sharding(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint f;
    struct trial trial;

    begin(&trial, asked);
    for (int stage = (int)asked->sharding + 1; stage <= TUTTI_SHARD_ZERO3 && asked->data > 1;
         stage++) {
        set_sharding(&trial, (enum tutti_sharding)stage);
        if (!fits(&trial, &f))
            continue;
        add(advice, &f, "ZeRO-%d", stage);
        return;
    }
}

/* More replicas help who shards, as each then owns less; the sharding group is all of them. */
static bool try_replicas(struct trial *trial, struct advice *advice, const char *before)
{
    struct tutti_footprint f;
    uint64_t per_replica = (uint64_t)trial->p.tensor * trial->p.pipeline;

    trial->p.shard_ranks = 0;
    trial->degrees.shard_ranks = 0;
    while (trial->p.sharding != TUTTI_SHARD_NONE &&
           trial->p.data <= DEVICES_MAX / 2 / per_replica) {
        trial->p.data *= 2;
        trial->degrees.data *= 2;
        if (!fits(trial, &f))
            continue;
        add(advice, &f, "%s%" PRIu64 " devices", before, per_replica * trial->p.data);
        return true;
    }
    return false;
}

static void try_tensor(const struct tutti_footprint_params *asked, struct advice *advice)
{
    uint32_t heads = asked->model->transformer.heads;
    struct tutti_footprint f;
    struct trial trial;

    begin(&trial, asked);
    while (heads > 0 && trial.p.tensor <= heads / 2 && heads % (2 * trial.p.tensor) == 0) {
        trial.p.tensor *= 2;
        trial.degrees.tensor *= 2;
        if (trial.degrees.expert > 1)
            trial.degrees.sequence_parallel = true; /* as it must be */
        if (!fits(&trial, &f))
            continue;
        add(advice, &f, "%" PRIu64 " devices by tensor parallelism of %" PRIu32,
            (uint64_t)trial.p.tensor * trial.p.pipeline * trial.p.data, trial.p.tensor);
        return;
    }
}

/* Where nothing does alone. */
static void try_together(const struct tutti_footprint_params *asked, struct advice *advice)
{
    struct tutti_footprint f;
    struct trial trial;
    char before[64];

    begin(&trial, asked);
    set_batch(&trial, 1, asked->micro_batches * asked->micro_batch);
    trial.p.recompute = TUTTI_RECOMPUTE_FULL;
    if (fits(&trial, &f)) {
        add(advice, &f, "micro-batch 1 and recompute full");
        return;
    }
    set_sharding(&trial, TUTTI_SHARD_ZERO3);
    if (asked->data > 1 && fits(&trial, &f)) {
        add(advice, &f, "micro-batch 1, recompute full and ZeRO-3");
        return;
    }
    (void)snprintf(before, sizeof(before), "micro-batch 1, recompute full and ZeRO-3 on ");
    (void)try_replicas(&trial, advice, before);
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
    struct trial trial;
    char largest[160];
    int status = tutti_footprint_params_complete(params, &p, err);

    if (status == 0)
        status = tutti_footprint_of(&p, &f, err);
    if (status < 0 || f.fits)
        return status;
    try_batches(&p, &advice);
    try_recompute(&p, &advice);
    try_sharding(&p, &advice);
    begin(&trial, &p);
    (void)try_replicas(&trial, &advice, "");
    try_tensor(&p, &advice);
    if (advice.used == 0)
        try_together(&p, &advice);
    name_largest(&f, largest, sizeof(largest));
    return tutti_fail(err, TUTTI_EINVAL, "does not fit: %.1fGiB of %.1fGiB of '%s': %s; %s%s",
                      gibi(f.total_bytes), gibi(f.capacity_bytes), p.accelerator->name, largest,
                      advice.used > 0 ? "would fit: " : "no setting tried makes it fit",
                      advice.text);
}
