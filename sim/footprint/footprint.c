/* The memory of a device, added up term by term. Sizes are rounded up to bytes where degrees do not
 * divide them, and saturate. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/footprint.h"
#include "sim/footprint/params.h"

#define MIB(count) ((uint64_t)(count) << 20)

enum {
    CONTEXT_VOLTA_MIB = 1271,  /* V100: bigscience chronicles of BLOOM */
    CONTEXT_AMPERE_MIB = 1573, /* A100 40 GB: likewise; later ones taken as this */
    NCCL_BUFFER_MIB = 4,       /* NCCL_BUFFSIZE, of a channel and peer */
    NCCL_CHANNELS = 16,        /* assumed: 12 to 24 on machines of NVLink */
    BATCHES_IN_FLIGHT = 2      /* the one in work and the next, being copied */
};

/* ---- sums ------------------------------------------------------------------------------------ */

static uint64_t times(uint64_t a, uint64_t b)
{
    return tutti_muldiv(a, b, 1);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t part(uint64_t value, uint64_t by)
{
    return value / by + (value % by != 0);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- params ---------------------------------------------------------------------------------- */

static bool is_mixed(const struct tutti_footprint_params *p)
{
    return p->precision != TUTTI_PRECISION_FP32 && p->precision != TUTTI_PRECISION_TF32;
}

/* Of activations, and of weights as they are gathered. */
static uint64_t element_bytes(const struct tutti_footprint_params *p)
{
    return is_mixed(p) ? 2 : 4;
}

static uint32_t at_least_one(uint32_t degree)
{
    return degree > 0 ? degree : 1;
}

static uint32_t equal_layers(const struct tutti_workload *model)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].is_transformer)
            count += model->layers[i].repeat;
    return count;
}

static int check(const struct tutti_footprint_params *p, struct tutti_err *err)
{
    uint32_t layers = equal_layers(p->model);

    if (p->micro_batch == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a micro-batch of 0 samples (at least 1)");
    if (p->shard_ranks > p->data || (p->shard_ranks > 0 && p->data % p->shard_ranks != 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " ranks that share states do not divide %" PRIu32 " replicas",
                          p->shard_ranks, p->data);
    if (p->pipeline > 1 && (layers == 0 || p->pipeline > layers))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " pipeline stages of a model of %" PRIu32 " equal layers",
                          p->pipeline, layers);
    if (p->stage >= p->pipeline)
        return tutti_fail(err, TUTTI_EINVAL, "stage %" PRIu32 " of %" PRIu32, p->stage,
                          p->pipeline);
    if (p->virtual_stages > 1 && layers % ((uint64_t)p->pipeline * p->virtual_stages) != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " layers do not divide into %" PRIu32 " stages of %" PRIu32
                          " chunks",
                          layers, p->pipeline, p->virtual_stages);
    return 0;
}

int tutti_footprint_params_complete(const struct tutti_footprint_params *params,
                                    struct tutti_footprint_params *ret, struct tutti_err *err)
{
    struct tutti_footprint_params p;
    size_t count;
    int status = tutti_take("tutti_footprint_params", &p, sizeof(p), params,
                            TUTTI_BYTES_TO(struct tutti_footprint_params, channels), err);

    if (status < 0)
        return status;
    p.size = sizeof(p);
    p.framework = p.framework != NULL ? p.framework : tutti_memory_frameworks(&count);
    p.micro_batches = at_least_one(p.micro_batches);
    p.tensor = at_least_one(p.tensor);
    p.pipeline = at_least_one(p.pipeline);
    p.data = at_least_one(p.data);
    p.expert = at_least_one(p.expert);
    p.virtual_stages = at_least_one(p.virtual_stages);
    p.channels = p.channels > 0 ? p.channels : NCCL_CHANNELS;
    *ret = p;
    return check(&p, err);
}

/* ---- what a stage holds ---------------------------------------------------------------------- */

/* How many of the repeats of a layer a stage has, over all of its chunks; `first` of the `equal`
 * layers come before it. */
static uint32_t repeats_of(const struct tutti_footprint_params *p, uint32_t stage,
                           const struct tutti_layer *layer, uint32_t first, uint32_t equal)
{
    uint32_t width = (uint32_t)part(equal, (uint64_t)p->pipeline * p->virtual_stages);
    uint32_t count = 0;

    if (!layer->is_transformer)
        return stage == (first == 0 ? 0 : p->pipeline - 1) ? layer->repeat : 0;
    for (uint32_t chunk = 0; chunk < p->virtual_stages; chunk++) {
        uint64_t low = ((uint64_t)chunk * p->pipeline + stage) * width;
        uint64_t high = low + width;

        low = larger(low, first);
        high = high < (uint64_t)first + layer->repeat ? high : (uint64_t)first + layer->repeat;
        count += high > low ? (uint32_t)(high - low) : 0;
    }
    return count;
}

/* Micro-batches that a stage holds: times `virtual_stages`, so that it counts chunks. */
static uint64_t held_of(const struct tutti_footprint_params *p, uint32_t stage)
{
    uint64_t after = p->pipeline - stage;
    uint64_t chunks;

    if (p->held > 0)
        return times(p->held, p->virtual_stages);
    if (p->virtual_stages == 1)
        return after < p->micro_batches ? after : p->micro_batches;
    chunks = 2 * (after - 1) + (uint64_t)(p->virtual_stages - 1) * p->pipeline + 1;
    return chunks < times(p->micro_batches, p->virtual_stages)
               ? chunks
               : times(p->micro_batches, p->virtual_stages);
}

struct counts {
    uint64_t shared;  /* parameters that all replicas have */
    uint64_t experts; /* those of expert parallelism */
    uint64_t kept;    /* not trained */
};

static void count_variable(const struct tutti_footprint_params *p,
                           const struct tutti_variable *variable, uint64_t repeats,
                           struct counts *counts)
{
    uint64_t by = variable->split == TUTTI_SPLIT_NONE ? 1 : p->tensor;
    uint64_t elements;

    if (variable->split == TUTTI_SPLIT_EXPERTS)
        by *= p->expert;
    elements = times(part(variable->elements, by), repeats);
    if (variable->unreduced)
        counts->kept = plus(counts->kept, elements);
    else if (variable->split == TUTTI_SPLIT_EXPERTS)
        counts->experts = plus(counts->experts, elements);
    else
        counts->shared = plus(counts->shared, elements);
}

static struct counts count_layer(const struct tutti_footprint_params *p,
                                 const struct tutti_layer *layer, uint64_t repeats)
{
    struct counts counts = {0};

    for (uint32_t v = 0; v < layer->variable_count; v++)
        count_variable(p, &layer->variables[v], repeats, &counts);
    return counts;
}

/* Tied weights of a pipeline are held twice: by the embedding and, on the last stage, the head. */
static struct counts count_tied(const struct tutti_footprint_params *p)
{
    const struct tutti_layer *layer = &p->model->layers[0];
    struct counts counts = {0};

    for (uint32_t v = 0; v < layer->variable_count; v++)
        if (layer->variables[v].split == TUTTI_SPLIT_VOCAB)
            count_variable(p, &layer->variables[v], 1, &counts);
    return counts;
}

static void add_counts(struct counts *sum, struct counts more)
{
    sum->shared = plus(sum->shared, more.shared);
    sum->experts = plus(sum->experts, more.experts);
    sum->kept = plus(sum->kept, more.kept);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Bytes of all parameters, divided among the ranks that share them. Experts are on fewer replicas.
 */
static uint64_t state(const struct tutti_footprint_params *p, const struct counts *counts,
                      uint64_t bytes, bool divided)
{
    uint64_t ranks = !divided ? 1 : p->shard_ranks > 0 ? p->shard_ranks : p->data;
    uint64_t fewer = larger(ranks / p->expert, 1);

    return plus(part(times(counts->shared, bytes), ranks),
                part(times(counts->experts, bytes), fewer));
}

static uint32_t gradient_bytes(const struct tutti_footprint_params *p)
{
    if (p->gradient_bytes > 0)
        return p->gradient_bytes;
    return is_mixed(p) ? p->framework->gradient_bytes : 4;
}

static void add_states(const struct tutti_footprint_params *p, const struct counts *counts,
                       struct tutti_footprint *f)
{
    static const uint8_t optimizer_bytes[TUTTI_OPTIMIZER_COUNT] = {0, 4, 8};
    bool mixed = is_mixed(p);
    uint64_t weight = mixed ? p->framework->weight_bytes + (uint64_t)p->framework->cast_bytes : 4;
    uint64_t master = mixed ? p->framework->master_bytes : 0;

    f->bytes[TUTTI_MEMORY_WEIGHTS] =
        plus(state(p, counts, weight, p->sharding >= TUTTI_SHARD_ZERO3), times(counts->kept, 4));
    f->bytes[TUTTI_MEMORY_GRADIENTS] =
        state(p, counts, gradient_bytes(p), p->sharding >= TUTTI_SHARD_ZERO2);
    f->bytes[TUTTI_MEMORY_OPTIMIZER] =
        state(p, counts, master + optimizer_bytes[p->optimizer], p->sharding >= TUTTI_SHARD_ZERO1);
}

static void add_buckets(const struct tutti_footprint_params *p, const struct counts *counts,
                        struct tutti_footprint *f)
{
    uint64_t elements = plus(counts->shared, counts->experts);
    uint64_t fixed =
        elements < p->framework->bucket_elements ? elements : p->framework->bucket_elements;
    uint64_t bytes = 0;

    if (p->data == 1)
        return;
    if (p->framework->bucket_use == TUTTI_BUCKETS_COPY && p->sharding <= TUTTI_SHARD_ZERO1)
        bytes = times(elements, gradient_bytes(p));
    if (p->framework->bucket_use == TUTTI_BUCKETS_FIXED)
        bytes = times(fixed, gradient_bytes(p));
    if (p->framework->bucket_use == TUTTI_BUCKETS_FIXED && p->sharding != TUTTI_SHARD_NONE)
        bytes = plus(bytes, times(fixed, is_mixed(p) ? 2 : 4)); /* weights being gathered */
    f->bytes[TUTTI_MEMORY_BUCKETS] = bytes;
}

/* ZeRO-3: the layer in work and the one gathered ahead, and gradients of the one in work. */
static void add_gathered(const struct tutti_footprint_params *p, struct tutti_footprint *f)
{
    uint64_t elements = 0;

    if (p->sharding < TUTTI_SHARD_ZERO3)
        return;
    for (uint32_t i = 0; i < p->model->layer_count; i++) {
        struct counts counts = count_layer(p, &p->model->layers[i], 1);

        elements = larger(elements, plus(counts.shared, counts.experts));
    }
    f->bytes[TUTTI_MEMORY_GATHERED] = times(elements, 2 * element_bytes(p) + gradient_bytes(p));
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Of the s x s matrices of one sample. */
static uint64_t attention_bytes(const struct tutti_footprint_params *p,
                                const struct tutti_saved *saved)
{
    return part(plus(times(saved->attention_elements, element_bytes(p)), saved->attention_bytes),
                p->tensor);
}

/* Of one sample, with nothing recomputed but the matrices of attention. */
static uint64_t saved_bytes(const struct tutti_footprint_params *p, const struct tutti_saved *saved)
{
    uint64_t by = p->sequence_parallel ? p->tensor : 1;
    uint64_t whole = plus(times(saved->whole_elements, element_bytes(p)), saved->whole_bytes);
    uint64_t split = plus(times(saved->split_elements, element_bytes(p)), saved->split_bytes);

    return part(times(plus(part(whole, by), part(split, p->tensor)), p->framework->saved_percent),
                100);
}

/* What one sample takes in a layer, saved and, while the layer is recomputed, again. */
struct taken {
    uint64_t saved;
    uint64_t recomputed;
};

static struct taken taken_by(const struct tutti_footprint_params *p,
                             const struct tutti_layer *layer, bool has_equal)
{
    uint64_t matrices = p->fused_attention ? 0 : attention_bytes(p, &layer->saved);
    uint64_t rest = saved_bytes(p, &layer->saved);
    uint64_t input = times(layer->saved.input_elements, element_bytes(p));

    if (p->recompute == TUTTI_RECOMPUTE_FULL && (layer->is_transformer || !has_equal))
        return (struct taken){part(input, p->sequence_parallel ? p->tensor : 1),
                              plus(rest, matrices)};
    if (p->recompute == TUTTI_RECOMPUTE_NONE)
        return (struct taken){plus(rest, matrices), 0};
    return (struct taken){rest, matrices};
}

/* Inputs and outputs of the largest operation beside the loss and what computes its logits. */
static uint64_t largest_operation(const struct tutti_footprint_params *p,
                                  const struct tutti_layer *layer)
{
    uint64_t elements = 0;

    for (uint32_t i = 0; i < layer->operation_count; i++) {
        const struct tutti_operation *operation = &layer->operations[i];
        uint64_t by = operation->split == TUTTI_SPLIT_NONE ? 1 : p->tensor;

        if (operation->kind == TUTTI_WORK_LOSS || operation->split == TUTTI_SPLIT_VOCAB)
            continue;
        elements =
            larger(elements, part(plus(operation->in_elements, operation->out_elements), by));
    }
    return times(elements, element_bytes(p));
}

static void add_logits(const struct tutti_footprint_params *p, uint32_t stage,
                       struct tutti_footprint *f)
{
    uint64_t count = times(p->model->logits, p->micro_batch);
    uint64_t milli = is_mixed(p) ? p->framework->logit_millibytes : 12000; /* three of 4 bytes */
    uint64_t whole = p->framework->logit_whole_millibytes;

    if (stage != p->pipeline - 1)
        return;
    f->bytes[TUTTI_MEMORY_LOGITS] = plus(tutti_muldiv_up(part(count, p->tensor), milli, 1000),
                                         tutti_muldiv_up(count - count / p->tensor, whole, 1000));
}

static void add_activations(const struct tutti_footprint_params *p, uint32_t stage,
                            struct tutti_footprint *f)
{
    uint32_t equal = equal_layers(p->model);
    uint64_t held = times(held_of(p, stage), p->micro_batch);
    uint64_t temporary = 0;
    uint32_t first = 0;

    for (uint32_t i = 0; i < p->model->layer_count; i++) {
        const struct tutti_layer *layer = &p->model->layers[i];
        uint64_t repeats = repeats_of(p, stage, layer, first, equal);
        struct taken taken = taken_by(p, layer, equal > 0);

        first += layer->is_transformer ? layer->repeat : 0;
        if (repeats == 0)
            continue;
        f->bytes[TUTTI_MEMORY_ACTIVATIONS] =
            plus(f->bytes[TUTTI_MEMORY_ACTIVATIONS],
                 part(times(times(taken.saved, repeats), held), p->virtual_stages));
        f->bytes[TUTTI_MEMORY_RECOMPUTED] =
            larger(f->bytes[TUTTI_MEMORY_RECOMPUTED], times(taken.recomputed, p->micro_batch));
        temporary = larger(temporary, times(largest_operation(p, layer), p->micro_batch));
    }
    add_logits(p, stage, f);
    if (temporary > f->bytes[TUTTI_MEMORY_LOGITS])
        f->bytes[TUTTI_MEMORY_TEMPORARIES] = temporary - f->bytes[TUTTI_MEMORY_LOGITS];
    if (stage == 0)
        f->bytes[TUTTI_MEMORY_INPUT] =
            times(times(p->model->sample_bytes, p->micro_batch), BATCHES_IN_FLIGHT);
}

/* ---- beside the allocator -------------------------------------------------------------------- */

static void add_device(const struct tutti_footprint_params *p, struct tutti_footprint *f)
{
    const struct tutti_accelerator *device = p->accelerator;
    const uint32_t groups[] = {p->tensor, p->pipeline, p->data};

    f->bytes[TUTTI_MEMORY_WORKSPACE] = p->framework->workspace_bytes;
    if (device == NULL || strcmp(device->vendor, "NVIDIA") != 0)
        return; /* of others neither is known */
    f->bytes[TUTTI_MEMORY_CONTEXT] = device->flops_per_s[TUTTI_PRECISION_TF32] > 0
                                         ? MIB(CONTEXT_AMPERE_MIB)
                                         : MIB(CONTEXT_VOLTA_MIB);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        uint64_t peers = groups[i] > 2 ? 2 : groups[i] - 1; /* of a ring */

        f->bytes[TUTTI_MEMORY_COLLECTIVES] +=
            MIB(NCCL_BUFFER_MIB) * (p->channels < 64 ? p->channels : 64) * peers;
    }
}

static void add_up(const struct tutti_footprint_params *p, struct tutti_footprint *f)
{
    for (int i = 0; i < TUTTI_MEMORY_CONTEXT; i++)
        f->allocated_bytes = plus(f->allocated_bytes, f->bytes[i]);
    f->bytes[TUTTI_MEMORY_FRAGMENTATION] =
        tutti_muldiv(f->allocated_bytes, p->framework->fragment_permille, 1000);
    f->total_bytes = f->allocated_bytes;
    for (int i = TUTTI_MEMORY_CONTEXT; i < TUTTI_MEMORY_TERM_COUNT; i++)
        f->total_bytes = plus(f->total_bytes, f->bytes[i]);
    f->capacity_bytes = p->accelerator != NULL ? p->accelerator->mem_bytes : 0;
    f->fits = f->capacity_bytes == 0 || f->total_bytes <= f->capacity_bytes;
}

static struct tutti_footprint stage_of(const struct tutti_footprint_params *p, uint32_t stage)
{
    struct tutti_footprint f = {.stage = stage};
    uint32_t equal = equal_layers(p->model);
    struct counts counts = {0};
    uint32_t first = 0;

    for (uint32_t i = 0; i < p->model->layer_count; i++) {
        const struct tutti_layer *layer = &p->model->layers[i];

        add_counts(&counts, count_layer(p, layer, repeats_of(p, stage, layer, first, equal)));
        first += layer->is_transformer ? layer->repeat : 0;
    }
    if (p->pipeline > 1 && stage == p->pipeline - 1 && p->model->transformer.tied)
        add_counts(&counts, count_tied(p));
    add_states(p, &counts, &f);
    add_buckets(p, &counts, &f);
    add_gathered(p, &f);
    add_activations(p, stage, &f);
    add_device(p, &f);
    add_up(p, &f);
    return f;
}

int tutti_footprint_of(const struct tutti_footprint_params *params, struct tutti_footprint *ret,
                       struct tutti_err *err)
{
    struct tutti_footprint_params p;
    struct tutti_footprint most;
    int status = tutti_footprint_params_complete(params, &p, err);

    if (status < 0)
        return status;
    most = stage_of(&p, p.stage);
    for (uint32_t stage = 0; stage < p.pipeline && !p.one_stage; stage++) {
        struct tutti_footprint f = stage_of(&p, stage);

        if (f.total_bytes > most.total_bytes || stage == 0)
            most = f;
    }
    *ret = most;
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *tutti_memory_term_name(enum tutti_memory_term term)
{
    static const char *const names[TUTTI_MEMORY_TERM_COUNT] = {
        "weights",   "gradients",   "optimizer",   "activations",     "recomputed layer",
        "logits",    "temporaries", "buckets",     "gathered layers", "input",
        "workspace", "context",     "collectives", "fragmentation"};

    return names[term];
}

static int find_word(const char *what, const char *const *names, int count, const char *name,
                     int *ret, struct tutti_err *err)
{
    char all[64] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (int i = 0; i < count; i++) {
        if (strcasecmp(name, names[i]) == 0) {
            *ret = i;
            return 0;
        }
        used +=
            (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? " " : "", names[i]);
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown %s '%.40s' (%s%s)", what, name,
                      tutti_nearest_hint(name, all, hint), all);
}

static const char *const optimizers[] = {"sgd", "momentum", "adam"};
static const char *const recomputes[] = {"none", "selective", "full"};

const char *tutti_optimizer_name(enum tutti_optimizer optimizer)
{
    return optimizers[optimizer];
}

int tutti_optimizer_find(const char *name, enum tutti_optimizer *ret, struct tutti_err *err)
{
    int index = 0;
    int status = find_word("optimizer", optimizers, TUTTI_OPTIMIZER_COUNT, name, &index, err);

    if (status == 0)
        *ret = (enum tutti_optimizer)index;
    return status;
}

const char *tutti_recompute_name(enum tutti_recompute recompute)
{
    return recomputes[recompute];
}

int tutti_recompute_find(const char *name, enum tutti_recompute *ret, struct tutti_err *err)
{
    int index = 0;
    int status = find_word("recomputation", recomputes, TUTTI_RECOMPUTE_COUNT, name, &index, err);

    if (status == 0)
        *ret = (enum tutti_recompute)index;
    return status;
}
