/* Random ways to divide a model, and what of it does not go together: the rules once more. */
#ifndef TUTTI_TESTS_SIM_PARALLEL_DRAWS_H
#define TUTTI_TESTS_SIM_PARALLEL_DRAWS_H

#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { DEVICES_MAX = 8 };

/* A combination: a model of its shape, and how it is divided. */
struct draw {
    struct tutti_transformer shape;
    uint64_t s;
    bool gpt; /* else a llama, of experts or none */
    bool full;
    uint32_t layers_of[2 * 3 * DEVICES_MAX]; /* where stages are cut by hand */
    struct tutti_parallel p;
    struct tutti_parallel d; /* the same, filled in */
    struct tutti_workload *model;
};

static uint32_t below(struct tutti_random *random, uint32_t count)
{
    return (uint32_t)tutti_random_below(random, count);
}

static uint32_t one_of(struct tutti_random *random, const uint32_t *values, uint32_t count)
{
    return values[below(random, count)];
}

#define ONE_OF(random, ...)                         \
    one_of(random, (const uint32_t[]){__VA_ARGS__}, \
           (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

static void draw_model(struct tutti_random *random, struct draw *w)
{
    struct tutti_model_params params = {.size = sizeof(params)};
    const uint32_t heads = ONE_OF(random, 4, 8, 8, 12);
    const uint32_t experts = ONE_OF(random, 0, 0, 4, 8);
    struct tutti_err err = {""};

    w->gpt = below(random, 3) == 0;
    w->s = ONE_OF(random, 48, 96, 96, 100);
    w->shape = (struct tutti_transformer){.layers = 4 + below(random, 9),
                                          .hidden = 8 * heads,
                                          .heads = heads,
                                          .kv_heads = w->gpt ? heads : ONE_OF(random, 4, heads),
                                          .feed_forward =
                                              w->gpt ? 32 * heads : ONE_OF(random, 96, 96, 96, 100),
                                          .experts = w->gpt ? 0 : experts,
                                          .active_experts = w->gpt || experts == 0 ? 0 : 2};
    params.sequence = (uint32_t)w->s;
    params.vocabulary = 240;
    params.transformer = w->shape;
    CHECK_OK(tutti_model_new(w->gpt ? "gpt" : "llama", &params, &w->model, &err), err);
    if (w->model == NULL)
        abort();
}

static void draw_order(struct tutti_random *random, uint8_t *order)
{
    for (uint8_t i = 0; i < TUTTI_DIM_COUNT; i++)
        order[i] = i;
    for (uint32_t i = below(random, 3) == 0 ? TUTTI_DIM_COUNT : 0; i > 1; i--) {
        const uint32_t other = below(random, i);
        const uint8_t kept = order[i - 1];

        order[i - 1] = order[other];
        order[other] = kept;
    }
}

/* Takes back what would be refused most often. */
static void tame(struct tutti_random *random, struct draw *w)
{
    struct tutti_parallel *p = &w->p;

    p->scatter_gather = p->scatter_gather && p->tensor > 1 && p->pipeline > 1;
    p->sequence_parallel = p->tensor > 1 && !p->scatter_gather;
    if (p->tensor == 3 && w->shape.heads != 12)
        p->tensor = 2;
    if (w->shape.experts == 0) {
        p->expert = 0;
        p->imbalance = 0;
    }
    if (p->pipeline > 1 && p->sharding == TUTTI_SHARD_ZERO2)
        p->sharding = TUTTI_SHARD_ZERO1;
    p->keep_weights =
        p->sharding == TUTTI_SHARD_ZERO3 && (p->pipeline > 1 || below(random, 2) == 0);
    if (p->sharding == TUTTI_SHARD_NONE || p->expert > 1)
        p->shard_ranks = 0;
    if (p->schedule != TUTTI_PIPELINE_INTERLEAVED || p->pipeline < 2)
        p->virtual_stages = 0;
    if (p->pipeline > 1)
        p->micro_batches = p->pipeline * (2 + below(random, 3));
    memset(p->order, 0, sizeof(p->order));
}

static struct draw draw(struct tutti_random *random)
{
    struct draw w = {.full = below(random, 2) > 0};
    struct tutti_parallel *p = &w.p;

    draw_model(random, &w);
    *p = (struct tutti_parallel){
        .size = sizeof(*p),
        .tensor = ONE_OF(random, 0, 1, 2, 2, 3, 4, 8),
        .context = ONE_OF(random, 0, 1, 1, 1, 2, 3, 4),
        .expert = ONE_OF(random, 0, 1, 1, 1, 2, 4, 8),
        .data = ONE_OF(random, 0, 1, 2, 2, 3, 4, 8),
        .pipeline = ONE_OF(random, 0, 1, 2, 2, 3, 4, 5),
        .schedule = (enum tutti_pipeline)below(random, TUTTI_PIPELINE_COUNT),
        .context_kind = (enum tutti_context_kind)below(random, TUTTI_CONTEXT_COUNT),
        .sharding = (enum tutti_sharding)ONE_OF(random, 0, 0, 1, 1, 2, 3),
        .shard_ranks = ONE_OF(random, 0, 0, 0, 0, 2),
        .micro_batches = ONE_OF(random, 0, 4, 6, 8, 12, 15, 20),
        .micro_batch = below(random, 4),
        .imbalance = ONE_OF(random, 0, 0, 0, 1, 2)};
    p->sequence_parallel = p->tensor > 1 ? below(random, 3) > 0 : below(random, 12) == 0;
    p->scatter_gather = below(random, 6) == 0;
    p->keep_weights =
        p->sharding == TUTTI_SHARD_ZERO3 ? below(random, 3) > 0 : below(random, 20) == 0;
    p->virtual_stages = p->pipeline > 1 && p->schedule == TUTTI_PIPELINE_INTERLEAVED
                            ? 2 + below(random, 2)
                            : ONE_OF(random, 0, 1, 1, 1, 1, 1, 2);
    draw_order(random, p->order);
    if (below(random, 2) == 0)
        tame(random, &w);
    if (below(random, 4) == 0) { /* any cut; one in four has a layer too many */
        const uint32_t stages = tutti_parallel_stage_count(p);
        const bool all = below(random, 3) > 0; /* between the ends have one, if there are enough */

        for (uint32_t i = 0; i < w.shape.layers; i++)
            w.layers_of[all && i + 2 < stages ? i + 1 : below(random, stages)]++;
        w.layers_of[0] += below(random, 4) == 0;
        p->stage_layers = w.layers_of;
    }
    return w;
}

/* ---- what does not go together --------------------------------------------------------------- */

struct rule {
    bool broken;
    const char *one; /* names of the pair in what is said */
    const char *other;
};

static bool stands_between(const struct tutti_parallel *d, int dim, uint32_t size, int a, int b)
{
    int at[TUTTI_DIM_COUNT];

    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        at[d->order[i]] = i;
    return size > 1 &&
           ((at[a] < at[dim] && at[dim] < at[b]) || (at[b] < at[dim] && at[dim] < at[a]));
}

static bool parts_block(const struct tutti_parallel *d, int a, int b)
{
    return stands_between(d, TUTTI_DIM_TENSOR, d->tensor, a, b) ||
           stands_between(d, TUTTI_DIM_PIPELINE, d->pipeline, a, b);
}

static bool divides(uint64_t part, uint64_t whole)
{
    return whole % part == 0;
}

static uint32_t layers_cut(const struct draw *w)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < w->d.pipeline * w->d.virtual_stages; i++)
        sum += w->layers_of[i];
    return sum;
}

static void check_refusal(const struct draw *w, int status, const char *text)
{
    const struct tutti_parallel *d = &w->d;
    const struct tutti_transformer *t = &w->shape;
    const uint32_t c = d->context, e = d->expert, p = d->pipeline, m = d->micro_batches;
    const uint32_t v = d->virtual_stages, n = c * d->data, k = d->tensor;
    const uint32_t heads_held = k * c;
    const enum tutti_pipeline kind = d->schedule;
    const bool ulysses = c > 1 && d->context_kind == TUTTI_CONTEXT_ULYSSES;
    const bool chunks = kind == TUTTI_PIPELINE_INTERLEAVED ? v < 2
                        : kind == TUTTI_PIPELINE_ZBV       ? v != 2
                                                           : v > 1;
    const uint32_t least = kind == TUTTI_PIPELINE_ZB_H1   ? p
                           : kind == TUTTI_PIPELINE_ZB_H2 ? 2 * p - 1
                           : kind == TUTTI_PIPELINE_ZBV   ? 2 * p - 2
                                                          : 1;
    const struct rule rules[] = {
        {d->sequence_parallel && k == 1, "sequence parallelism", "tensor 1"},
        {d->scatter_gather && k == 1, "scatter-gather", "tensor 1"},
        {d->scatter_gather && p == 1, "scatter-gather", "pipeline 1"},
        {d->scatter_gather && d->sequence_parallel, "scatter-gather", "sequence parallelism"},
        {e > 1 && k > 1 && !d->sequence_parallel, "expert", "no sequence parallelism"},
        {c > 1 && d->data > 1 && parts_block(d, TUTTI_DIM_CONTEXT, TUTTI_DIM_DATA), "order",
         "between 'cp' and 'dp'"},
        {e > 1 && c > 1 && parts_block(d, TUTTI_DIM_EXPERT, TUTTI_DIM_CONTEXT), "order",
         "between 'ep' and 'cp'"},
        {e > 1 && d->data > 1 && parts_block(d, TUTTI_DIM_EXPERT, TUTTI_DIM_DATA), "order",
         "between 'ep' and 'dp'"},
        {!divides(e, n), "expert", "x data"},
        {!divides(d->shard_ranks, n), "states shared", "x data"},
        {d->shard_ranks < n && d->sharding == TUTTI_SHARD_NONE, "states shared", "without ZeRO"},
        {d->shard_ranks < n && e > 1, "states shared", "with expert"},
        {d->keep_weights && d->sharding != TUTTI_SHARD_ZERO3, "weights", "without ZeRO-3"},
        {p > 1 && d->sharding == TUTTI_SHARD_ZERO2, "ZeRO-2", "pipeline"},
        {p > 1 && d->sharding == TUTTI_SHARD_ZERO3 && !d->keep_weights, "ZeRO-3", "pipeline"},
        {w->gpt && p > 1 && d->sharding == TUTTI_SHARD_ZERO3 && kind != TUTTI_PIPELINE_ZBV,
         "ZeRO-3", "tied"},
        {p == 1 && v > 1, "virtual stages", "pipeline 1"},
        {p > 1 && chunks, "pipeline", "chunks"},
        {p > 1 && kind == TUTTI_PIPELINE_INTERLEAVED && !divides(p, m), "interleaved",
         "micro-batches"},
        {p > 1 && m < least, "pipeline", "micro-batches"},
        {!divides(k, t->heads), "tensor", "heads"},
        {t->kv_heads % k != 0 && k % t->kv_heads != 0, "tensor", "heads of keys and values"},
        {t->feed_forward % k != 0, "tensor", t->experts > 0 ? "experts of" : "rows of"},
        {d->sequence_parallel && !divides((uint64_t)k * c, w->s), "sequence parallelism", "tokens"},
        {c > 1 && !ulysses && !divides(2 * c, w->s), "context", "tokens"},
        {ulysses && !divides(c, w->s), "context", "tokens"},
        {ulysses && !divides(heads_held, t->heads), "Ulysses x tensor", "heads"},
        {ulysses && t->kv_heads % heads_held != 0 && heads_held % t->kv_heads != 0,
         "Ulysses x tensor", "heads of keys and values"},
        {e > 1 && t->experts == 0, "expert", "dense"},
        {d->imbalance > 1 && t->experts == 0, "imbalance", "dense"},
        {t->experts > 0 && !divides(e, t->experts), "expert", "experts of"},
        {d->stage_layers == NULL && p * v > t->layers + 2, "virtual stages", "layers"},
        {d->stage_layers != NULL && layers_cut(w) != t->layers, "layers on", "layers of"},
    };
    bool broken = false;
    bool named = false;

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        broken = broken || rules[i].broken;
        named = named || (rules[i].broken && strstr(text, rules[i].one) != NULL &&
                          strstr(text, rules[i].other) != NULL);
    }
    if (broken != (status < 0) || broken != named || strchr(text, '\n') != NULL)
        TEST_FAIL("tp %u cp %u ep %u dp %u pp %u x %u %s: status %d '%s'", k, c, e, d->data, p, v,
                  tutti_pipeline_name(kind), status, text);
}

#endif
