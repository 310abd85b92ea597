/* Bytes that a rank of a pipeline's device sends in a step, counted layer by layer and pass by
 * pass. */
#include <inttypes.h>

#include "runtime/model.h"
#include "runtime/parallel/parts.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { PPM = 1000000, FLOAT_BYTES = 4, LOSS_FLOATS = 3 /* maximum, sum, the target's logit */ };

struct count {
    const struct tutti_parallel_traffic_params *asked;
    struct tutti_parallel p;
    struct tutti_pipeline_params pipeline;
    struct tutti_parallel_traffic *ret;
    uint64_t forwards; /* of the layer at hand in a step: micro-batches x repeats, twice where it */
    uint64_t backwards; /* is recomputed; and backward */
    bool equal_layers;  /* recomputed are these alone */
};

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static void add(struct count *c, enum tutti_traffic_kind kind, uint64_t bytes, uint64_t calls,
                uint64_t times)
{
    struct tutti_parallel_traffic *t = c->ret;

    t->bytes[kind] = tutti_plus(t->bytes[kind], tutti_times(bytes, times));
    t->calls[kind] = tutti_plus(t->calls[kind], tutti_times(calls, times));
}

/* ---- tensor ---------------------------------------------------------------------------------- */

/* Of a pass: elements of a sample, here of the part of its tokens that a group of tensor
 * parallelism has. */
static uint64_t of_pass(const struct count *c, uint64_t elements)
{
    return tutti_muldiv_up(elements, c->p.micro_batch, c->p.context);
}

static void add_reduced(struct count *c, enum tutti_traffic_kind kind, uint64_t elements,
                        uint64_t times)
{
    add(c, kind, tutti_ring_sent_max(elements, c->asked->activation_bytes, c->p.tensor), 1, times);
}

/* An all-gather or a reduce-scatter. */
static void add_half(struct count *c, enum tutti_traffic_kind kind, uint64_t elements,
                     uint64_t times)
{
    const uint64_t part = tutti_times(divide_up(elements, c->p.tensor), c->p.tensor - 1);

    add(c, kind, tutti_times(part, c->asked->activation_bytes), 1, times);
}

/* What a product divided by columns reads is whole on each rank. With sequence parallelism it is
 * gathered before, and again for the gradient of its weights. */
static void add_whole_input(struct count *c, enum tutti_traffic_kind kind, uint64_t elements)
{
    if (!c->p.sequence_parallel) {
        add_reduced(c, kind, elements, c->backwards);
        return;
    }
    add_half(c, kind, elements, c->forwards);
    add_half(c, kind, elements, 2 * c->backwards);
}

/* What is a partial sum on each rank, of a product divided by rows or of a lookup. */
static void add_partial_output(struct count *c, enum tutti_traffic_kind kind, uint64_t elements)
{
    if (!c->p.sequence_parallel) {
        add_reduced(c, kind, elements, c->forwards);
        return;
    }
    add_half(c, kind, elements, c->forwards);
    add_half(c, kind, elements, c->backwards);
}

static void add_vocabulary(struct count *c, const struct tutti_operation *operation)
{
    if (operation->kind == TUTTI_WORK_EMBEDDING)
        add_partial_output(c, TUTTI_TRAFFIC_EMBEDDING, of_pass(c, operation->out_elements));
    if (operation->kind == TUTTI_WORK_MATMUL)
        add_whole_input(c, TUTTI_TRAFFIC_HEAD, of_pass(c, operation->in_elements));
    if (operation->kind == TUTTI_WORK_LOSS)
        add(c, TUTTI_TRAFFIC_LOSS,
            LOSS_FLOATS *
                tutti_ring_sent_max(of_pass(c, operation->out_elements), FLOAT_BYTES, c->p.tensor),
            LOSS_FLOATS, c->forwards);
}

/* Products of one layer that read the same have it whole once. */
static void add_tensor(struct count *c, const struct tutti_layer *layer)
{
    uint64_t whole = 0; /* elements of what is whole at the moment */

    for (uint32_t i = 0; i < layer->operation_count && c->p.tensor > 1; i++) {
        const struct tutti_operation *operation = &layer->operations[i];

        if (operation->split == TUTTI_SPLIT_VOCAB)
            add_vocabulary(c, operation);
        if (operation->kind != TUTTI_WORK_MATMUL)
            continue;
        if (operation->split == TUTTI_SPLIT_COLUMNS && operation->in_elements != whole) {
            whole = operation->in_elements;
            add_whole_input(c, TUTTI_TRAFFIC_TENSOR, of_pass(c, whole));
        }
        if (operation->split == TUTTI_SPLIT_ROWS) {
            whole = 0;
            add_partial_output(c, TUTTI_TRAFFIC_TENSOR, of_pass(c, operation->out_elements));
        }
    }
}

/* ---- experts --------------------------------------------------------------------------------- */

/* What is sent to the experts of a layer and what comes back, for all experts of a token; 0 where
 * it has none. */
struct visits {
    uint64_t in_elements;
    uint64_t out_elements;
    uint32_t active;
};

static struct visits visits_of(const struct tutti_layer *layer)
{
    struct visits visits = {0};

    for (uint32_t i = 0; i < layer->operation_count; i++) {
        const struct tutti_operation *operation = &layer->operations[i];

        if (operation->split != TUTTI_SPLIT_EXPERTS || operation->kind != TUTTI_WORK_MATMUL)
            continue;
        if (visits.active == 0)
            visits.in_elements = operation->in_elements;
        visits.out_elements = operation->out_elements;
        visits.active = operation->count > 0 ? operation->count : 1;
    }
    return visits;
}

/* Experts that all ranks have, each a part of each: as any product divided by columns and then
 * rows, but for the second gather. Where they are divided, what was dispatched is gathered. */
static void add_expert_tensor(struct count *c, const struct visits *visits, uint32_t ppm)
{
    const bool divided = c->p.expert > 1;
    const uint64_t copies = divided ? 1 : visits->active; /* a token is there once */
    const uint64_t in = tutti_muldiv_up(of_pass(c, visits->in_elements / copies), ppm, PPM);
    const uint64_t out = tutti_muldiv_up(of_pass(c, visits->out_elements / copies), ppm, PPM);

    if (!c->p.sequence_parallel) {
        add_reduced(c, TUTTI_TRAFFIC_TENSOR, out, c->forwards);
        add_reduced(c, TUTTI_TRAFFIC_TENSOR, in, c->backwards);
        return;
    }
    add_half(c, TUTTI_TRAFFIC_TENSOR, in, c->forwards);
    add_half(c, TUTTI_TRAFFIC_TENSOR, out, c->forwards);
    add_half(c, TUTTI_TRAFFIC_TENSOR, out, c->backwards);
    add_half(c, TUTTI_TRAFFIC_TENSOR, in, c->backwards);
}

/* The rank of the busiest expert, which has `ppm` millionths of the mean: of its own tokens more
 * stay, and it has more to send back. */
static void add_dispatch(struct count *c, const struct visits *visits, uint32_t ppm)
{
    const uint64_t all = (uint64_t)c->p.expert * PPM;
    const uint64_t in = divide_up(of_pass(c, visits->in_elements), c->p.tensor);
    const uint64_t out = divide_up(of_pass(c, visits->out_elements), c->p.tensor);
    const uint64_t away = all - ppm; /* of what it sends to experts, of `all` parts */
    const uint64_t back = (uint64_t)ppm * (c->p.expert - 1);
    const uint32_t bytes = c->asked->activation_bytes;

    add(c, TUTTI_TRAFFIC_EXPERT, tutti_times(tutti_muldiv_up(in, away, all), bytes), 1,
        c->forwards);
    add(c, TUTTI_TRAFFIC_EXPERT, tutti_times(tutti_muldiv_up(out, back, all), bytes), 1,
        c->forwards);
    add(c, TUTTI_TRAFFIC_EXPERT, tutti_times(tutti_muldiv_up(out, away, all), bytes), 1,
        c->backwards);
    add(c, TUTTI_TRAFFIC_EXPERT, tutti_times(tutti_muldiv_up(in, back, all), bytes), 1,
        c->backwards);
}

static void add_experts(struct count *c, const struct tutti_layer *layer)
{
    const struct visits visits = visits_of(layer);
    const uint32_t ppm = tutti_parallel_imbalance_ppm(&c->p, c->asked->model);

    if (visits.active == 0)
        return;
    if (c->p.tensor > 1)
        add_expert_tensor(c, &visits, ppm);
    if (c->p.expert > 1)
        add_dispatch(c, &visits, ppm);
}

/* ---- context --------------------------------------------------------------------------------- */

/* Elements of keys and values of a sample. Where there are as many heads of them as of queries,
 * these are as large as keys, however large values are (latent attention). */
static uint64_t keys_and_values(const struct tutti_transformer *t,
                                const struct tutti_operation *operation)
{
    if (t->kv_heads == t->heads)
        return (operation->in_elements + operation->out_elements) / 2;
    return operation->in_elements - operation->out_elements;
}

static void add_ring(struct count *c, uint64_t kv_elements)
{
    const uint32_t heads = c->asked->model->transformer.kv_heads;
    const uint32_t ranks = c->p.tensor < heads ? c->p.tensor : heads;
    const uint64_t block =
        tutti_times(divide_up(of_pass(c, kv_elements), ranks), c->asked->activation_bytes);
    const uint32_t hops = c->p.context - 1;

    add(c, TUTTI_TRAFFIC_CONTEXT, tutti_times(block, hops), hops, c->forwards);
    add(c, TUTTI_TRAFFIC_CONTEXT, tutti_times(block, 2 * (uint64_t)hops), 2 * (uint64_t)hops,
        c->backwards);
}

/* Queries, keys, values, output; of keys and values heads are repeated until each rank has one. */
static void add_ulysses(struct count *c, const struct tutti_operation *operation,
                        uint64_t kv_elements)
{
    enum { EXCHANGES = 4 };
    const uint32_t heads = c->asked->model->transformer.kv_heads;
    const uint64_t ranks = (uint64_t)c->p.tensor * c->p.context;
    const uint64_t kv = ranks > heads ? tutti_muldiv(kv_elements, ranks, heads) : kv_elements;
    const uint64_t queries = operation->in_elements - kv_elements;
    const uint64_t sample = tutti_plus(tutti_plus(queries, operation->out_elements), kv);
    const uint64_t local = divide_up(of_pass(c, sample), c->p.tensor);
    const uint64_t bytes = tutti_times(tutti_muldiv_up(local, c->p.context - 1, c->p.context),
                                       c->asked->activation_bytes);

    add(c, TUTTI_TRAFFIC_CONTEXT, bytes, EXCHANGES, tutti_plus(c->forwards, c->backwards));
}

static void add_context(struct count *c, const struct tutti_layer *layer)
{
    for (uint32_t i = 0; i < layer->operation_count && c->p.context > 1; i++) {
        const struct tutti_operation *operation = &layer->operations[i];
        uint64_t kv_elements;

        if (operation->kind != TUTTI_WORK_ATTENTION)
            continue;
        kv_elements = keys_and_values(&c->asked->model->transformer, operation);
        if (c->p.context_kind == TUTTI_CONTEXT_RING)
            add_ring(c, kv_elements);
        else
            add_ulysses(c, operation, kv_elements);
    }
}

/* ---- pipeline -------------------------------------------------------------------------------- */

/* Of a pass, into a stage that is not the first: the input of the first layer there, or of one
 * behind it where it has none. */
static uint64_t boundary_elements(const struct count *c, uint32_t stage)
{
    const struct tutti_workload *model = c->asked->model;

    for (; stage < c->p.pipeline * c->p.virtual_stages; stage++) {
        struct tutti_stage_cut cut = tutti_parallel_cut(&c->p, model, stage);

        for (uint32_t i = 0; i < model->layer_count; i++)
            if (tutti_parallel_next_repeats(&cut) > 0)
                return of_pass(c, model->layers[i].saved.input_elements);
    }
    return of_pass(c, model->logits);
}

/* Between a stage and the one behind it, of which one is the device's: it sends outputs, or their
 * gradients, and gathers what comes. */
static void add_boundary(struct count *c, uint32_t device, uint32_t behind)
{
    const uint64_t elements = boundary_elements(c, behind);
    const bool divided = c->p.sequence_parallel || c->p.scatter_gather;
    const uint64_t part = divided ? divide_up(elements, c->p.tensor) : elements;
    uint32_t here;
    uint32_t there;
    uint32_t chunk;

    tutti_pipeline_place(&c->pipeline, behind - 1, &here, &chunk);
    tutti_pipeline_place(&c->pipeline, behind, &there, &chunk);
    if (here == there || (here != device && there != device))
        return;
    add(c, TUTTI_TRAFFIC_PIPELINE, tutti_times(part, c->asked->activation_bytes), 1,
        c->p.micro_batches);
    if (c->p.scatter_gather)
        add_half(c, TUTTI_TRAFFIC_PIPELINE_GATHER, elements, c->p.micro_batches);
}

/* ---- gradients and weights ------------------------------------------------------------------- */

static int add_states(struct count *c, uint64_t parameters, uint32_t ranks, uint32_t shard_ranks,
                      enum tutti_traffic_kind gradients, struct tutti_err *err)
{
    const bool sharded = c->p.sharding != TUTTI_SHARD_NONE;
    const struct tutti_traffic_params params = {.size = sizeof(params),
                                                .sharding = c->p.sharding,
                                                .rank_count = ranks,
                                                .shard_ranks = shard_ranks,
                                                .gradient_bytes = c->asked->gradient_bytes,
                                                .weight_bytes = c->asked->weight_bytes,
                                                .parameters = parameters,
                                                .micro_batches =
                                                    c->p.pipeline > 1 ? 1 : c->p.micro_batches,
                                                .keep_weights = c->p.keep_weights};
    const uint64_t micro_batches = params.micro_batches;
    const bool eager = c->p.sharding >= TUTTI_SHARD_ZERO2;
    struct tutti_traffic traffic;
    int status = tutti_traffic_of(&params, &traffic, err);

    if (status < 0 || parameters == 0)
        return status;
    if (sharded && ranks / shard_ranks > 1)
        add(c, TUTTI_TRAFFIC_ACROSS, traffic.all_reduce_bytes, 1, 1);
    if (sharded && shard_ranks > 1) {
        add(c, gradients, traffic.reduce_scatter_bytes, eager ? micro_batches : 1, 1);
        add(c, gradients + 1, traffic.all_gather_bytes,
            c->p.sharding < TUTTI_SHARD_ZERO3 ? 1 : micro_batches * (c->p.keep_weights ? 1 : 2), 1);
    }
    if (!sharded && ranks > 1)
        add(c, gradients, traffic.all_reduce_bytes, 1, 1);
    return 0;
}

static int add_gradients(struct count *c, struct tutti_err *err)
{
    const uint32_t replicas = c->p.context * c->p.data;
    const uint32_t copies = replicas / c->p.expert;
    const uint32_t gradient_bytes = c->asked->gradient_bytes;
    const uint32_t device = c->asked->device;
    struct tutti_parallel_share share;
    int status;

    tutti_parallel_share_of(&c->p, c->asked->model, device, &share);
    if (c->p.sequence_parallel)
        add(c, TUTTI_TRAFFIC_WHOLE, tutti_ring_sent_max(share.whole, gradient_bytes, c->p.tensor),
            1, 1);
    if (share.repeated > 0)
        add(c, TUTTI_TRAFFIC_WHOLE,
            tutti_ring_sent_max(share.repeated, gradient_bytes,
                                tutti_parallel_kv_axis(&c->p, c->asked->model).size),
            1, 1);
    if (tutti_parallel_ties(&c->p, c->asked->model) && (device == 0 || share.tied > 0)) {
        tutti_parallel_share_of(&c->p, c->asked->model, c->p.pipeline - 1, &share);
        add(c, TUTTI_TRAFFIC_TIED, tutti_ring_sent_max(share.tied, gradient_bytes, 2), 1, 1);
        tutti_parallel_share_of(&c->p, c->asked->model, device, &share);
    }
    status = add_states(c, share.dense, replicas, c->p.shard_ranks, TUTTI_TRAFFIC_GRADIENTS, err);
    if (status == 0)
        status = add_states(c, share.experts, copies, copies, TUTTI_TRAFFIC_EXPERT_GRADIENTS, err);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void add_stage(struct count *c, uint32_t stage)
{
    const struct tutti_workload *model = c->asked->model;
    struct tutti_stage_cut cut = tutti_parallel_cut(&c->p, model, stage);

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];
        const bool again = c->asked->full_recompute && (layer->is_transformer || !c->equal_layers);
        const uint32_t repeats = tutti_parallel_next_repeats(&cut);

        c->backwards = tutti_times(repeats, c->p.micro_batches);
        c->forwards = c->backwards * (again ? 2 : 1);
        if (repeats == 0)
            continue;
        add_tensor(c, layer);
        add_experts(c, layer);
        add_context(c, layer);
    }
    if (stage > 0)
        add_boundary(c, c->asked->device, stage);
    if (stage + 1 < c->p.pipeline * c->p.virtual_stages)
        add_boundary(c, c->asked->device, stage + 1);
}

static uint32_t or_else(uint32_t value, uint32_t usual)
{
    return value > 0 ? value : usual;
}

int tutti_parallel_traffic_of(const struct tutti_parallel_traffic_params *params,
                              struct tutti_parallel_traffic *ret, struct tutti_err *err)
{
    struct tutti_parallel_traffic_params asked;
    struct tutti_parallel_traffic traffic = {0};
    struct count c = {.asked = &asked, .ret = &traffic};
    int status = tutti_take("tutti_parallel_traffic_params", &asked, sizeof(asked), params,
                            TUTTI_BYTES_TO(struct tutti_parallel_traffic_params, scalars), err);

    if (status == 0)
        status = tutti_parallel_check(asked.parallel, asked.model, err);
    if (status == 0)
        status = tutti_parallel_complete(asked.parallel, &c.p, err);
    if (status < 0)
        return status;
    if (asked.device >= c.p.pipeline)
        return tutti_fail(err, TUTTI_EINVAL, "device %" PRIu32 " of pipeline %" PRIu32,
                          asked.device, c.p.pipeline);
    asked.activation_bytes = or_else(asked.activation_bytes, 2);
    asked.gradient_bytes = or_else(asked.gradient_bytes, 4);
    asked.weight_bytes = or_else(asked.weight_bytes, 2);
    c.pipeline = tutti_parallel_pipeline(&c.p);
    c.equal_layers = tutti_parallel_has_equal_layers(asked.model);
    for (uint32_t chunk = 0; chunk < c.p.virtual_stages; chunk++)
        add_stage(&c, tutti_pipeline_stage(&c.pipeline, asked.device, chunk));
    status = add_gradients(&c, err);
    if (status < 0)
        return status;
    if (tutti_parallel_ranks(&c.p) > 1)
        add(&c, TUTTI_TRAFFIC_SCALARS, FLOAT_BYTES, 1, asked.scalars);
    for (int kind = 0; kind < TUTTI_TRAFFIC_KIND_COUNT; kind++)
        traffic.sum_bytes = tutti_plus(traffic.sum_bytes, traffic.bytes[kind]);
    *ret = traffic;
    return 0;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum tutti_parallel_group group;
} kinds[TUTTI_TRAFFIC_KIND_COUNT] = {
    [TUTTI_TRAFFIC_TENSOR] = {"tensor", TUTTI_GROUP_TENSOR},
    [TUTTI_TRAFFIC_EMBEDDING] = {"embedding", TUTTI_GROUP_TENSOR},
    [TUTTI_TRAFFIC_HEAD] = {"head", TUTTI_GROUP_TENSOR},
    [TUTTI_TRAFFIC_LOSS] = {"loss", TUTTI_GROUP_TENSOR},
    [TUTTI_TRAFFIC_WHOLE] = {"whole gradients", TUTTI_GROUP_TENSOR},
    [TUTTI_TRAFFIC_CONTEXT] = {"context", TUTTI_GROUP_CONTEXT},
    [TUTTI_TRAFFIC_EXPERT] = {"expert", TUTTI_GROUP_EXPERT},
    [TUTTI_TRAFFIC_PIPELINE] = {"pipeline", TUTTI_GROUP_PIPELINE},
    [TUTTI_TRAFFIC_PIPELINE_GATHER] = {"pipeline gather", TUTTI_GROUP_TENSOR},
    [TUTTI_TRAFFIC_GRADIENTS] = {"gradients", TUTTI_GROUP_SHARD},
    [TUTTI_TRAFFIC_WEIGHTS] = {"weights", TUTTI_GROUP_SHARD},
    [TUTTI_TRAFFIC_EXPERT_GRADIENTS] = {"expert gradients", TUTTI_GROUP_EXPERT_DATA},
    [TUTTI_TRAFFIC_EXPERT_WEIGHTS] = {"expert weights", TUTTI_GROUP_EXPERT_DATA},
    [TUTTI_TRAFFIC_ACROSS] = {"across", TUTTI_GROUP_ACROSS},
    [TUTTI_TRAFFIC_TIED] = {"tied", TUTTI_GROUP_TIED},
    [TUTTI_TRAFFIC_SCALARS] = {"scalars", TUTTI_GROUP_ALL},
};

const char *tutti_traffic_kind_name(enum tutti_traffic_kind kind)
{
    return kinds[kind].name;
}

enum tutti_parallel_group tutti_traffic_group(enum tutti_traffic_kind kind)
{
    return kinds[kind].group;
}
