/* The memory of a device, added up term by term. Sizes are rounded up to bytes where degrees do not
 * divide them, and saturate. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/footprint/params.h"

#define MIB(count) ((uint64_t)(count) << 20)

enum {
    CONTEXT_VOLTA_MIB = 1271,  /* V100: bigscience chronicles of BLOOM */
    CONTEXT_AMPERE_MIB = 1573, /* A100 40 GB: likewise; later ones taken as this */
    NCCL_BUFFER_MIB = 4,       /* NCCL_BUFFSIZE, of a channel and peer */
    NCCL_CHANNELS = 16         /* assumed: 12 to 24 on machines of NVLink */
};

/* ---- params ---------------------------------------------------------------------------------- */

static uint32_t at_least_one(uint32_t degree)
{
    return degree > 0 ? degree : 1;
}

static int check(const struct tutti_footprint_params *p, struct tutti_err *err)
{
    const uint32_t layers = tutti_footprint_equal_layers(p->model);
    const uint64_t stages = (uint64_t)p->pipeline * p->virtual_stages;
    uint64_t divided = 0;

    if (p->micro_batch == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a micro-batch of 0 samples (at least 1)");
    if (p->shard_ranks > p->data || (p->shard_ranks > 0 && p->data % p->shard_ranks != 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " ranks that share states do not divide %" PRIu32 " replicas",
                          p->shard_ranks, p->data);
    if (p->pipeline > 1 && (layers == 0 || p->pipeline > tutti_parallel_stages_most(p->model)))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " pipeline stages of a model of %" PRIu32 " equal layers",
                          p->pipeline, layers);
    if (p->stage >= p->pipeline)
        return tutti_fail(err, TUTTI_EINVAL, "stage %" PRIu32 " of %" PRIu32, p->stage,
                          p->pipeline);
    for (uint32_t i = 0; i < p->pipeline && p->stage_layers != NULL; i++)
        divided += p->stage_layers[i];
    if (p->stage_layers != NULL && (divided != layers || p->virtual_stages > 1))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu64 " layers on stages of a model of %" PRIu32 " equal layers%s",
                          divided, layers, p->virtual_stages > 1 ? ", in chunks" : "");
    if (p->virtual_stages > 1 && layers % stages != 0 &&
        (stages < layers || stages > tutti_parallel_stages_most(p->model)))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " layers do not divide into %" PRIu32 " stages of %" PRIu32
                          " chunks",
                          layers, p->pipeline, p->virtual_stages);
    return 0;
}

/* Replicas of the states are all ranks that reduce gradients together. */
static int take_parallel(struct tutti_footprint_params *p, struct tutti_err *err)
{
    struct tutti_parallel degrees;
    int status = tutti_parallel_check(p->parallel, p->model, err);

    if (status == 0)
        status = tutti_parallel_complete(p->parallel, &degrees, err);
    if (status < 0)
        return status;
    p->micro_batch = degrees.micro_batch;
    p->micro_batches = degrees.micro_batches;
    p->tensor = degrees.tensor;
    p->pipeline = degrees.pipeline;
    p->data = degrees.context * degrees.data;
    p->expert = degrees.expert;
    p->sequence_parallel = degrees.sequence_parallel;
    p->sharding = degrees.sharding;
    p->shard_ranks = degrees.shard_ranks;
    p->virtual_stages = degrees.virtual_stages;
    p->stage_layers = NULL;
    p->keeps_weights = degrees.keep_weights;
    if (p->stage >= p->pipeline)
        return tutti_fail(err, TUTTI_EINVAL, "stage %" PRIu32 " of %" PRIu32, p->stage,
                          p->pipeline);
    return 0;
}

int tutti_footprint_params_complete(const struct tutti_footprint_params *params,
                                    struct tutti_footprint_params *ret, struct tutti_err *err)
{
    struct tutti_footprint_params p;
    size_t count;
    int status = tutti_take("tutti_footprint_params", &p, sizeof(p), params,
                            TUTTI_BYTES_TO(struct tutti_footprint_params, stage_layers), err);

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
    status = p.parallel != NULL ? take_parallel(&p, err) : check(&p, err);
    if (status < 0)
        return status;
    *ret = p;
    return 0;
}

/* ---- what a stage holds ---------------------------------------------------------------------- */

struct counts {
    uint64_t shared;  /* parameters that all replicas have */
    uint64_t experts; /* those of expert parallelism */
    uint64_t kept;    /* not trained */
};

static void count_variable(const struct tutti_footprint_params *p,
                           const struct tutti_variable *variable, uint64_t repeats,
                           struct counts *counts)
{
    const uint64_t elements =
        times(tutti_variable_part(variable, p->model, p->tensor, p->expert), repeats);

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
    bytes = plus(bytes, tutti_muldiv(elements, p->framework->reduced_millibytes, 1000));
    if (p->keeps_errors)
        bytes = plus(bytes, times(elements, 4));
    f->bytes[TUTTI_MEMORY_BUCKETS] = bytes;
}

/* ZeRO-3: weights of the layer in work and those gathered ahead, or of all layers where they stay,
 * and gradients of the one in work. */
static void add_gathered(const struct tutti_footprint_params *p, const struct counts *all,
                         struct tutti_footprint *f)
{
    uint64_t elements = 0;
    uint64_t whole = plus(all->shared, all->experts);
    uint64_t weights;

    if (p->sharding < TUTTI_SHARD_ZERO3)
        return;
    for (uint32_t i = 0; i < p->model->layer_count; i++) {
        struct counts counts = count_layer(p, &p->model->layers[i], 1);

        elements = larger(elements, plus(counts.shared, counts.experts));
    }
    weights = times(elements, p->gathered_layers > 0 ? p->gathered_layers : 2);
    if (p->keeps_weights || weights > whole)
        weights = whole;
    if (p->pipeline > 1 && p->parallel != NULL) /* whole until the last micro-batch is back */
        elements = whole;
    f->bytes[TUTTI_MEMORY_GATHERED] =
        plus(times(weights, element_bytes(p)), times(elements, gradient_bytes(p)));
}

/* ---- beside the allocator -------------------------------------------------------------------- */

static bool has_convolutions(const struct tutti_workload *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t o = 0; o < model->layers[i].operation_count; o++)
            if (model->layers[i].operations[o].kind == TUTTI_WORK_CONVOLUTION)
                return true;
    return false;
}

static void add_device(const struct tutti_footprint_params *p, struct tutti_footprint *f)
{
    const struct tutti_accelerator *device = p->accelerator;
    const uint32_t groups[] = {p->tensor, p->pipeline, p->data, context_of(p),
                               p->parallel != NULL ? p->expert : 1};

    f->bytes[TUTTI_MEMORY_WORKSPACE] = has_convolutions(p->model) ? p->framework->convolution_bytes
                                                                  : p->framework->workspace_bytes;
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

/* What a stage has, of all layers in it. */
static struct counts count_stage(const struct tutti_footprint_params *p, uint32_t stage)
{
    uint32_t equal = tutti_footprint_equal_layers(p->model);
    struct counts counts = {0};
    uint32_t first = 0;

    if (p->parallel != NULL) {
        struct tutti_parallel_share share;

        tutti_parallel_share_of(p->parallel, p->model, stage, &share);
        return (struct counts){share.dense, share.experts, share.unreduced};
    }
    for (uint32_t i = 0; i < p->model->layer_count; i++) {
        const struct tutti_layer *layer = &p->model->layers[i];

        add_counts(&counts,
                   count_layer(p, layer, tutti_footprint_repeats(p, stage, layer, first, equal)));
        first += layer->is_transformer ? layer->repeat : 0;
    }
    if (p->pipeline > 1 && stage == p->pipeline - 1 && p->model->transformer.tied)
        add_counts(&counts, count_tied(p));
    return counts;
}

static int stage_of(const struct tutti_footprint_params *p, uint32_t stage,
                    struct tutti_footprint *ret, struct tutti_err *err)
{
    struct tutti_footprint f = {.stage = stage};
    const struct counts counts = count_stage(p, stage);
    int status;

    add_states(p, &counts, &f);
    add_buckets(p, &counts, &f);
    add_gathered(p, &counts, &f);
    status = tutti_footprint_activations(p, stage, &f, err);
    if (status < 0)
        return status;
    add_device(p, &f);
    add_up(p, &f);
    *ret = f;
    return 0;
}

int tutti_footprint_of(const struct tutti_footprint_params *params, struct tutti_footprint *ret,
                       struct tutti_err *err)
{
    struct tutti_footprint_params p;
    struct tutti_footprint most;
    int status = tutti_footprint_params_complete(params, &p, err);

    if (status == 0)
        status = stage_of(&p, p.one_stage ? p.stage : 0, &most, err);
    for (uint32_t stage = 1; status == 0 && stage < p.pipeline && !p.one_stage; stage++) {
        struct tutti_footprint f;

        status = stage_of(&p, stage, &f, err);
        if (status == 0 && f.total_bytes > most.total_bytes)
            most = f;
    }
    if (status == 0)
        *ret = most;
    return status;
}

int tutti_footprint_stages(const struct tutti_footprint_params *params, struct tutti_footprint *ret,
                           struct tutti_err *err)
{
    struct tutti_footprint_params p;
    int status = tutti_footprint_params_complete(params, &p, err);

    for (uint32_t stage = 0; status == 0 && stage < p.pipeline; stage++)
        status = stage_of(&p, stage, &ret[stage], err);
    return status;
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
