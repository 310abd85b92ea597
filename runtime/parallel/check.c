/* What does not go together, each said by the names of the two and with what would. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/model.h"
#include "runtime/parallel/parts.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { NEAR_BYTES = 48 };

/* "2 or 4": the divisors of `count` below and above a degree that is none. */
static const char *near_divisors(uint32_t count, uint64_t degree, char *text)
{
    uint32_t below = degree < count ? (uint32_t)degree : count;
    uint64_t above = degree + 1;

    while (below > 1 && count % below != 0)
        below--;
    while (above <= count && count % above != 0)
        above++;
    if (above <= count)
        (void)snprintf(text, NEAR_BYTES, "%" PRIu32 " or %" PRIu64, below, above);
    else
        (void)snprintf(text, NEAR_BYTES, "%" PRIu32 " at most", below);
    return text;
}

/* ---- without a model ------------------------------------------------------------------------- */

static int check_kinds(const struct tutti_parallel *p, struct tutti_err *err)
{
    if ((unsigned)p->schedule >= TUTTI_PIPELINE_COUNT ||
        (unsigned)p->context_kind >= TUTTI_CONTEXT_COUNT ||
        (unsigned)p->sharding > TUTTI_SHARD_ZERO3)
        return tutti_fail(err, TUTTI_EINVAL,
                          "parallelism with a pipeline, context or sharding of an unknown kind");
    if (!(p->imbalance >= 1) || p->imbalance > 1e6)
        return tutti_fail(err, TUTTI_EINVAL,
                          "an imbalance of experts of '%g' (the busiest one over the mean: 1 or "
                          "more)",
                          p->imbalance);
    return 0;
}

static int check_tensor_options(const struct tutti_parallel *p, struct tutti_err *err)
{
    if (p->sequence_parallel && p->tensor == 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "sequence parallelism with tensor 1 (tensor 2 or more, whose ranks then "
                          "divide the tokens)");
    if (p->scatter_gather && (p->tensor == 1 || p->pipeline == 1))
        return tutti_fail(err, TUTTI_EINVAL, "scatter-gather with %s 1 (2 or more)",
                          p->tensor == 1 ? "tensor" : "pipeline");
    if (p->scatter_gather && p->sequence_parallel)
        return tutti_fail(err, TUTTI_EINVAL,
                          "scatter-gather with sequence parallelism, by which messages between "
                          "stages are divided already (one of them)");
    if (p->expert > 1 && p->tensor > 1 && !p->sequence_parallel)
        return tutti_fail(err, TUTTI_EINVAL,
                          "expert %" PRIu32 " with tensor %" PRIu32
                          " and no sequence parallelism (with it, as Megatron asks; or tensor 1)",
                          p->expert, p->tensor);
    return 0;
}

/* Whether a dimension of more ranks than one stands between two others in the order. */
static bool stands_between(const struct tutti_parallel *p, enum tutti_dimension dim,
                           enum tutti_dimension a, enum tutti_dimension b)
{
    int at[TUTTI_DIM_COUNT] = {0};

    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        at[p->order[i]] = i;
    return tutti_parallel_size_of(p, dim) > 1 && (at[dim] > at[a]) == (at[dim] < at[b]);
}

static int refuse_order(const struct tutti_parallel *p, enum tutti_dimension dim,
                        enum tutti_dimension a, enum tutti_dimension b, struct tutti_err *err)
{
    char order[32] = "";
    size_t used = 0;

    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        used += (size_t)snprintf(order + used, sizeof(order) - used, "%s%s", i > 0 ? "," : "",
                                 tutti_dimension_name(p->order[i]));
    return tutti_fail(err, TUTTI_EINVAL,
                      "order '%s' with '%s' between '%s' and '%s', whose ranks reduce gradients "
                      "together (beside each other; tp,cp,ep,dp,pp)",
                      order, tutti_dimension_name(dim), tutti_dimension_name(a),
                      tutti_dimension_name(b));
}

/* Gradients are reduced over context and data together, and experts cut these: groups are axes only
 * where nothing stands between. */
static int check_order(const struct tutti_parallel *p, struct tutti_err *err)
{
    static const enum tutti_dimension others[] = {TUTTI_DIM_TENSOR, TUTTI_DIM_PIPELINE};
    static const enum tutti_dimension block[] = {TUTTI_DIM_CONTEXT, TUTTI_DIM_DATA};

    for (int i = 0; i < 2; i++) {
        if (p->context > 1 && p->data > 1 &&
            stands_between(p, others[i], TUTTI_DIM_CONTEXT, TUTTI_DIM_DATA))
            return refuse_order(p, others[i], TUTTI_DIM_CONTEXT, TUTTI_DIM_DATA, err);
        for (int k = 0; k < 2 && p->expert > 1; k++)
            if (tutti_parallel_size_of(p, block[k]) > 1 &&
                stands_between(p, others[i], TUTTI_DIM_EXPERT, block[k]))
                return refuse_order(p, others[i], TUTTI_DIM_EXPERT, block[k], err);
    }
    return 0;
}

static int check_replicas(const struct tutti_parallel *p, struct tutti_err *err)
{
    const uint32_t replicas = p->context * p->data;
    char near[NEAR_BYTES];

    if (replicas % p->expert != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "expert %" PRIu32 " with context %" PRIu32 " x data %" PRIu32
                          " (a divisor of their %" PRIu32 " ranks: %s)",
                          p->expert, p->context, p->data, replicas,
                          near_divisors(replicas, p->expert, near));
    if (replicas % p->shard_ranks != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "states shared by %" PRIu32 " ranks with context %" PRIu32
                          " x data %" PRIu32 " (a divisor of their %" PRIu32 " ranks: %s)",
                          p->shard_ranks, p->context, p->data, replicas,
                          near_divisors(replicas, p->shard_ranks, near));
    if (p->shard_ranks < replicas && p->sharding == TUTTI_SHARD_NONE)
        return tutti_fail(err, TUTTI_EINVAL,
                          "states shared by %" PRIu32 " ranks without ZeRO (ZeRO-1 to 3)",
                          p->shard_ranks);
    if (p->shard_ranks < replicas && p->expert > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "states shared by %" PRIu32 " of %" PRIu32 " ranks with expert %" PRIu32
                          ": not modelled (shared by all of them, or expert 1)",
                          p->shard_ranks, replicas, p->expert);
    return 0;
}

/* ZeRO-2 and -3 reduce gradients in the backward pass of every micro-batch. DeepSpeed refuses both
 * (runtime/pipe/engine.py: "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"). PyTorch
 * has FSDP with pipelines: weights are gathered once a step, and gradients reduced with the last
 * micro-batch (torch/distributed/pipelining/stage.py); Llama 3 was trained so. */
static int check_sharding(const struct tutti_parallel *p, struct tutti_err *err)
{
    if (p->keep_weights && p->sharding != TUTTI_SHARD_ZERO3)
        return tutti_fail(err, TUTTI_EINVAL,
                          "weights that are kept once they are gathered, without ZeRO-3");
    if (p->pipeline == 1)
        return 0;
    if (p->sharding == TUTTI_SHARD_ZERO2)
        return tutti_fail(err, TUTTI_EINVAL,
                          "ZeRO-2 with pipeline %" PRIu32
                          ", whose gradients are whole until the last micro-batch (ZeRO-1)",
                          p->pipeline);
    if (p->sharding == TUTTI_SHARD_ZERO3 && !p->keep_weights)
        return tutti_fail(err, TUTTI_EINVAL,
                          "ZeRO-3 with pipeline %" PRIu32
                          ", of which each pass would gather weights (ZeRO-1, or weights kept for "
                          "a step, as FSDP of PyTorch does)",
                          p->pipeline);
    return 0;
}

static int check_pipeline(const struct tutti_parallel *p, struct tutti_err *err)
{
    struct tutti_pipeline_params params;

    if (p->pipeline == 1 && p->virtual_stages > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " virtual stages with pipeline 1 (pipeline 2 or more)",
                          p->virtual_stages);
    if (p->pipeline == 1)
        return 0;
    params = tutti_parallel_pipeline(p);
    return tutti_pipeline_check(&params, err);
}

/* ---- with a model ---------------------------------------------------------------------------- */

static bool is_divided(const struct tutti_workload *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t v = 0; v < model->layers[i].variable_count; v++)
            if (model->layers[i].variables[v].split == TUTTI_SPLIT_COLUMNS)
                return true;
    return false;
}

static int check_heads(const struct tutti_parallel *p, const struct tutti_workload *model,
                       struct tutti_err *err)
{
    const struct tutti_transformer *t = &model->transformer;
    char near[NEAR_BYTES];

    if (t->heads % p->tensor != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "tensor %" PRIu32 " with the %" PRIu32 " heads of '%s' (a divisor: %s)",
                          p->tensor, t->heads, model->name,
                          near_divisors(t->heads, p->tensor, near));
    if (t->kv_heads > 0 && t->kv_heads % p->tensor != 0 && p->tensor % t->kv_heads != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "tensor %" PRIu32 " with the %" PRIu32
                          " heads of keys and values of '%s' (a divisor, or a multiple, by which "
                          "they are held more than once)",
                          p->tensor, t->kv_heads, model->name);
    return 0;
}

/* Each rank has equally many rows of a product whose partial sums are added. */
static int check_rows(const struct tutti_parallel *p, const struct tutti_workload *model,
                      struct tutti_err *err)
{
    const struct tutti_transformer *t = &model->transformer;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        for (uint32_t o = 0; o < model->layers[i].operation_count; o++) {
            const struct tutti_operation *operation = &model->layers[i].operations[o];

            if (operation->split == TUTTI_SPLIT_ROWS && operation->depth % p->tensor != 0)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "tensor %" PRIu32 " with the %" PRIu64
                                  " rows of '%s' of '%s' (a divisor of them)",
                                  p->tensor, operation->depth, operation->name, model->name);
        }
    }
    if (t->experts > 0 && t->feed_forward % p->tensor != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "tensor %" PRIu32 " with experts of '%s' of %" PRIu32
                          " columns (a divisor of them)",
                          p->tensor, model->name, t->feed_forward);
    return 0;
}

static int check_tensor(const struct tutti_parallel *p, const struct tutti_workload *model,
                        struct tutti_err *err)
{
    int status;

    if (p->tensor == 1)
        return 0;
    if (!is_divided(model))
        return tutti_fail(err, TUTTI_EINVAL,
                          "tensor %" PRIu32 " with '%s', of which it divides nothing (a "
                          "transformer; or data)",
                          p->tensor, model->name);
    status = check_heads(p, model, err);
    if (status == 0)
        status = check_rows(p, model, err);
    if (status < 0 || !p->sequence_parallel)
        return status;
    if (model->sequence % ((uint64_t)p->tensor * p->context) != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "sequence parallelism of tensor %" PRIu32 " x context %" PRIu32
                          " with samples of %" PRIu32 " tokens (a divisor of them)",
                          p->tensor, p->context, model->sequence);
    return 0;
}

/* Ulysses gives each rank whole heads; those of keys and values are repeated where there are fewer,
 * as ALST does (Bekman et al. 2025, arXiv 2506.13996). */
static int check_ulysses(const struct tutti_parallel *p, const struct tutti_workload *model,
                         struct tutti_err *err)
{
    const struct tutti_transformer *t = &model->transformer;
    const uint64_t ranks = (uint64_t)p->tensor * p->context;
    char near[NEAR_BYTES];

    if (t->heads % ranks != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "context %" PRIu32 " by Ulysses x tensor %" PRIu32 " with the %" PRIu32
                          " heads of '%s' (together a divisor: %s; ring)",
                          p->context, p->tensor, t->heads, model->name,
                          near_divisors(t->heads, ranks, near));
    if (t->kv_heads % ranks != 0 && ranks % t->kv_heads != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "context %" PRIu32 " by Ulysses x tensor %" PRIu32 " with the %" PRIu32
                          " heads of keys and values of '%s' (together a divisor or a multiple; "
                          "ring)",
                          p->context, p->tensor, t->kv_heads, model->name);
    return 0;
}

static int check_context(const struct tutti_parallel *p, const struct tutti_workload *model,
                         struct tutti_err *err)
{
    const bool ring = p->context_kind == TUTTI_CONTEXT_RING;
    const uint64_t parts = (uint64_t)p->context * (ring ? 2 : 1); /* zig-zag: one of each half */

    if (p->context == 1)
        return 0;
    if (model->transformer.heads == 0 || model->sequence <= 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "context %" PRIu32 " with '%s', which has no attention to divide (a "
                          "transformer; or data)",
                          p->context, model->name);
    if (model->sequence % parts != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "context %" PRIu32 " by %s with samples of %" PRIu32
                          " tokens (%s divides "
                          "them)",
                          p->context, ring ? "a ring" : "Ulysses", model->sequence,
                          ring ? "twice the degree" : "the degree");
    return ring ? 0 : check_ulysses(p, model, err);
}

static int check_experts(const struct tutti_parallel *p, const struct tutti_workload *model,
                         struct tutti_err *err)
{
    const struct tutti_transformer *t = &model->transformer;
    char near[NEAR_BYTES];

    if (t->experts == 0 && p->expert > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "expert %" PRIu32 " with the dense model '%s' (expert 1)", p->expert,
                          model->name);
    if (t->experts == 0 && p->imbalance > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "an imbalance of experts of '%g' with the dense model '%s' (1)",
                          p->imbalance, model->name);
    if (t->experts == 0)
        return 0;
    if (t->experts % p->expert != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "expert %" PRIu32 " with the %" PRIu32 " experts of '%s' (a divisor: %s)",
                          p->expert, t->experts, model->name,
                          near_divisors(t->experts, p->expert, near));
    if (p->imbalance * t->active_experts > t->experts)
        return tutti_fail(err, TUTTI_EINVAL,
                          "an imbalance of experts of '%g' with '%s', of whose %" PRIu32
                          " experts a token uses %" PRIu32 " (at most %g)",
                          p->imbalance, model->name, t->experts, t->active_experts,
                          (double)t->experts / t->active_experts);
    return 0;
}

static int check_stages(const struct tutti_parallel *p, const struct tutti_workload *model,
                        struct tutti_err *err)
{
    const uint32_t stages = p->pipeline * p->virtual_stages;
    const uint32_t layers = tutti_parallel_layers(model);
    const uint32_t most = tutti_parallel_stages_most(model);
    uint64_t divided = 0;

    if (p->stage_layers == NULL && stages > 1 && stages > most)
        return tutti_fail(err, TUTTI_EINVAL,
                          "pipeline %" PRIu32 " x %" PRIu32 " virtual stages with the %" PRIu32
                          " layers of '%s' (at most %" PRIu32 " stages%s)",
                          p->pipeline, p->virtual_stages, layers, model->name, most,
                          most > layers ? ", with embedding and head by themselves" : "");
    for (uint32_t i = 0; i < stages && p->stage_layers != NULL; i++)
        divided += p->stage_layers[i];
    if (p->stage_layers != NULL && divided != layers)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu64 " layers on %" PRIu32 " stages with the %" PRIu32
                          " layers of '%s' (all of them)",
                          divided, stages, layers, model->name);
    return 0;
}

/* Torchtitan, which has FSDP with pipelines, refuses weight tying there. */
static int check_tied(const struct tutti_parallel *p, const struct tutti_workload *model,
                      struct tutti_err *err)
{
    if (p->sharding != TUTTI_SHARD_ZERO3 || !tutti_parallel_ties(p, model))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "ZeRO-3 with pipeline %" PRIu32
                      " of '%s', whose embedding and head are tied over two stages (ZeRO-1)",
                      p->pipeline, model->name);
}

int tutti_parallel_check(const struct tutti_parallel *parallel, const struct tutti_workload *model,
                         struct tutti_err *err)
{
    static int (*const checks[])(const struct tutti_parallel *, struct tutti_err *) = {
        check_kinds,    check_tensor_options, check_order,
        check_replicas, check_sharding,       check_pipeline};
    static int (*const model_checks[])(const struct tutti_parallel *, const struct tutti_workload *,
                                       struct tutti_err *) = {
        check_tensor, check_context, check_experts, check_stages, check_tied};
    struct tutti_parallel p;
    int status = tutti_parallel_complete(parallel, &p, err);

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && status == 0; i++)
        status = checks[i](&p, err);
    for (size_t i = 0; i < sizeof(model_checks) / sizeof(model_checks[0]); i++)
        if (status == 0 && model != NULL)
            status = model_checks[i](&p, model, err);
    return status;
}
