/* All ways to divide a model that may go together, each spelt once: what is the same as another one
 * (a schedule without a pipeline, ZeRO on one replica) is folded into it. */
#include "sim/net/net.h"
#include "sim/plan/search.h"

#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "topo/topo.h"

enum { CHUNKS_MAX = 16, MICRO_BATCH_MAX = 1024, VALUES_MAX = 512 };

struct values {
    uint32_t count;
    uint32_t values[VALUES_MAX];
};

struct walk {
    struct plan_field *field;
    struct plan_candidate now;
    struct tutti_plan_space space;
    uint32_t layers;      /* that pipelines are cut between */
    uint32_t stages_most; /* as many, and ends without any */
    int status;
    struct tutti_err *err;
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Those wanted that divide n, or all divisors of n up to `most`, rising. */
static void divisors(const struct tutti_plan_values *wanted, uint64_t n, uint64_t most,
                     struct values *ret)
{
    ret->count = 0;
    if (wanted->count > 0) {
        for (uint32_t i = 0; i < wanted->count; i++)
            if (wanted->values[i] > 0 && n % wanted->values[i] == 0)
                ret->values[ret->count++] = wanted->values[i];
        return;
    }
    for (uint64_t d = 1; d <= n && d <= most && ret->count < VALUES_MAX; d++)
        if (n % d == 0)
            ret->values[ret->count++] = (uint32_t)d;
}

static bool takes(const struct tutti_plan_values *wanted, uint32_t value)
{
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->values[i] == value)
            return true;
    return wanted->count == 0;
}

static uint32_t bits_or(uint32_t bits, uint32_t standard)
{
    return bits != 0 ? bits : standard;
}

static uint32_t bit_count(uint32_t bits)
{
    uint32_t count = 0;

    for (; bits != 0; bits &= bits - 1)
        count++;
    return count;
}

/* ---- the last choices ------------------------------------------------------------------------ */

static void add(struct walk *walk)
{
    struct plan_field *field = walk->field;

    if (walk->status < 0)
        return;
    if (field->count >= PLAN_CANDIDATES_MAX) {
        walk->status = tutti_fail(walk->err, TUTTI_EINVAL,
                                  "more than %d configurations on '%s' (say some of them: tensor, "
                                  "pipeline, micro-batch, ...)",
                                  PLAN_CANDIDATES_MAX, field->topo->name);
        return;
    }
    if (tutti_grow(&field->candidates, &field->capacity, (uint64_t)field->count + 1,
                   sizeof(*field->candidates)) < 0) {
        walk->status = tutti_nomem(walk->err);
        return;
    }
    walk->now.number = field->count;
    field->candidates[field->count++] = walk->now;
}

static void walk_sharding(struct walk *walk)
{
    const uint32_t all = 1u << TUTTI_SHARD_NONE | 1u << TUTTI_SHARD_ZERO1 |
                         1u << TUTTI_SHARD_ZERO2 | 1u << TUTTI_SHARD_ZERO3;
    uint32_t bits = bits_or(walk->space.shardings, all);
    bool alone = walk->now.data * walk->now.context == 1;

    if (alone) /* whoever shares with nobody has it all */
        walk->field->counts.folded += bit_count(bits) - 1;
    for (uint32_t s = 0; s <= TUTTI_SHARD_ZERO3; s++) {
        if ((bits & 1u << s) == 0)
            continue;
        walk->now.sharding = (uint8_t)(alone ? TUTTI_SHARD_NONE : s);
        add(walk);
        if (alone)
            return;
    }
}

/* With fused attention there are no matrices that `selective` would compute again. */
static void walk_recompute(struct walk *walk)
{
    uint32_t bits = bits_or(walk->space.recomputes, (1u << TUTTI_RECOMPUTE_COUNT) - 1);
    bool fused = walk->field->ask->use.fused_attention;
    bool none = (bits & 1u << TUTTI_RECOMPUTE_NONE) != 0;

    for (uint32_t r = 0; r < TUTTI_RECOMPUTE_COUNT; r++) {
        if ((bits & 1u << r) == 0)
            continue;
        if (r == TUTTI_RECOMPUTE_SELECTIVE && fused && none) {
            walk->field->counts.folded++;
            continue;
        }
        walk->now.recompute = (uint8_t)r;
        walk_sharding(walk);
    }
}

static void walk_sequence(struct walk *walk)
{
    uint32_t bits = bits_or(walk->space.sequence_parallel, 3);

    if (walk->now.tensor == 1) {
        walk->field->counts.folded += bit_count(bits) - 1;
        walk->now.sequence_parallel = false;
        walk_recompute(walk);
        return;
    }
    for (uint32_t on = 2; on-- > 0;) {
        if ((bits & 1u << on) == 0)
            continue;
        walk->now.sequence_parallel = on > 0;
        walk_recompute(walk);
    }
}

static void walk_micro_batch(struct walk *walk)
{
    uint64_t share = walk->field->ask->global_batch / walk->now.data;
    struct values micro;

    divisors(&walk->space.micro_batch, share, MICRO_BATCH_MAX, &micro);
    for (uint32_t i = micro.count; i-- > 0;) {
        if (share / micro.values[i] > UINT32_MAX)
            continue;
        walk->now.micro_batch = micro.values[i];
        walk->now.micro_batches = (uint32_t)(share / micro.values[i]);
        walk_sequence(walk);
    }
}

/* ---- pipelines ------------------------------------------------------------------------------- */

static void walk_chunks(struct walk *walk)
{
    uint32_t p = walk->now.pipeline;

    for (uint32_t v = 2; v <= CHUNKS_MAX && (uint64_t)p * v <= walk->stages_most; v++) {
        bool even = walk->layers % (p * v) == 0 || p * v > walk->layers;

        if (!takes(&walk->space.virtual_stages, v) ||
            (walk->space.virtual_stages.count == 0 && !even && (v & (v - 1)) != 0))
            continue;
        walk->now.virtual_stages = (uint16_t)v;
        walk_micro_batch(walk);
    }
}

static void walk_schedule(struct walk *walk)
{
    uint32_t bits = bits_or(walk->space.schedules,
                            1u << TUTTI_PIPELINE_1F1B | 1u << TUTTI_PIPELINE_INTERLEAVED);

    walk->now.virtual_stages = 1;
    walk->now.schedule = TUTTI_PIPELINE_1F1B;
    if (walk->now.pipeline == 1) {
        walk->field->counts.folded += bit_count(bits) - 1;
        if (takes(&walk->space.virtual_stages, 1))
            walk_micro_batch(walk);
        return;
    }
    for (uint32_t s = 0; s < TUTTI_PIPELINE_COUNT; s++) {
        uint32_t chunks = s == TUTTI_PIPELINE_ZBV ? 2 : 1;

        if ((bits & 1u << s) == 0)
            continue;
        walk->now.schedule = (uint8_t)s;
        if (s == TUTTI_PIPELINE_INTERLEAVED) {
            walk_chunks(walk);
        } else if (takes(&walk->space.virtual_stages, chunks)) {
            walk->now.virtual_stages = (uint16_t)chunks;
            walk_micro_batch(walk);
        }
    }
}

/* ---- degrees --------------------------------------------------------------------------------- */

static void walk_expert(struct walk *walk)
{
    uint32_t experts = walk->field->ask->model->transformer.experts;
    struct values expert;

    divisors(&walk->space.expert, (uint64_t)walk->now.data * walk->now.context,
             experts > 0 ? experts : 1, &expert);
    for (uint32_t i = 0; i < expert.count; i++) {
        if (experts > 0 && experts % expert.values[i] != 0)
            continue;
        walk->now.expert = expert.values[i];
        walk_schedule(walk);
    }
}

static void walk_context(struct walk *walk, uint64_t ranks)
{
    const struct tutti_workload *model = walk->field->ask->model;
    uint32_t kinds = bits_or(walk->space.context_kinds, 1u << TUTTI_CONTEXT_RING);
    struct values context;

    divisors(&walk->space.context, ranks, model->transformer.layers > 0 ? model->sequence : 1,
             &context);
    for (uint32_t i = 0; i < context.count; i++) {
        uint64_t data = ranks / context.values[i];

        if (!takes(&walk->space.data, (uint32_t)data))
            continue;
        walk->now.context = context.values[i];
        walk->now.data = (uint32_t)data;
        if (walk->field->ask->global_batch % data != 0) {
            walk->field->counts.tried++;
            walk->field->counts.refused++;
            continue;
        }
        for (uint32_t k = 0; k < TUTTI_CONTEXT_COUNT; k++) {
            if ((kinds & 1u << k) == 0)
                continue;
            walk->now.context_kind = (uint8_t)(walk->now.context > 1 ? k : TUTTI_CONTEXT_RING);
            walk_expert(walk);
            if (walk->now.context == 1)
                break;
        }
    }
}

static uint32_t host_devices(const struct tutti_topo *topo)
{
    return topo->host_count > 0 ? topo->rank_count / topo->host_count : topo->rank_count;
}

int plan_enumerate(struct plan_field *field, struct tutti_err *err)
{
    const struct tutti_plan_ask *ask = field->ask;
    uint64_t devices = field->topo->rank_count;
    struct walk walk = {.field = field,
                        .err = err,
                        .layers = tutti_parallel_layers(ask->model),
                        .stages_most = tutti_parallel_stages_most(ask->model)};
    struct values pipeline;
    struct values tensor;

    walk.status = plan_space_take(ask->space, &walk.space, err);
    if (walk.status < 0)
        return walk.status;
    divisors(&walk.space.pipeline, devices, walk.stages_most, &pipeline);
    for (uint32_t i = 0; i < pipeline.count; i++) {
        walk.now.pipeline = pipeline.values[i];
        divisors(&walk.space.tensor, devices / walk.now.pipeline,
                 ask->model->transformer.heads > 0 ? host_devices(field->topo) : 1, &tensor);
        for (uint32_t k = 0; k < tensor.count && walk.status == 0; k++) {
            walk.now.tensor = tensor.values[k];
            walk_context(&walk, devices / walk.now.pipeline / walk.now.tensor);
        }
    }
    return walk.status;
}

/* Of ZeRO-3 with a pipeline FSDP of PyTorch alone goes together, which gathers weights once a step
 * (runtime/parallel/check.c); with other frameworks it is tried where ZeRO-3 was asked for. */
static bool has_sharded_pipelines(const struct tutti_plan_ask *ask)
{
    const char *name = ask->use.framework->name;

    return (ask->space != NULL && (ask->space->shardings & 1u << TUTTI_SHARD_ZERO3) != 0) ||
           strcmp(name, "pytorch") == 0 || strcmp(name, "compiled") == 0;
}

/* ---- back ------------------------------------------------------------------------------------ */

void plan_of_candidate(const struct plan_field *field, const struct plan_candidate *candidate,
                       struct tutti_plan_setting *ret)
{
    if (field->ask->given != NULL) {
        *ret = field->ask->given[candidate->number];
        return;
    }
    *ret = (struct tutti_plan_setting){
        .machine = field->machine,
        .parallel = {.size = sizeof(ret->parallel),
                     .tensor = candidate->tensor,
                     .context = candidate->context,
                     .expert = candidate->expert,
                     .data = candidate->data,
                     .pipeline = candidate->pipeline,
                     .virtual_stages = candidate->virtual_stages,
                     .schedule = (enum tutti_pipeline)candidate->schedule,
                     .sequence_parallel = candidate->sequence_parallel,
                     .context_kind = (enum tutti_context_kind)candidate->context_kind,
                     .sharding = (enum tutti_sharding)candidate->sharding,
                     .keep_weights = candidate->sharding == TUTTI_SHARD_ZERO3 &&
                                     candidate->pipeline > 1 && has_sharded_pipelines(field->ask),
                     .micro_batches = candidate->micro_batches,
                     .micro_batch = candidate->micro_batch},
        .recompute = (enum tutti_recompute)candidate->recompute};
}
