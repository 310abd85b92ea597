/* What layers and stages take for one micro-batch: the device, the collectives within a layer that
 * nothing hides, and what the host adds. Which collectives those are: enum tutti_traffic_kind. */
#include <math.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/parallel/run.h"

enum { PPM = 1000000, FLOAT_BYTES = 4, LOSS_CALLS = 3 /* maximum, sum, the target's logit */ };

/* Forward and backward: enum tutti_pass. */
enum { WAYS = 2 };

/* The collectives of a layer, by what they are of. */
struct calls {
    struct tutti_cut_run *run;
    struct tutti_err *err;
    int status; /* of the first that failed */
    tutti_ps ps[WAYS][TUTTI_PART_COUNT];
    tutti_ps hideable_ps; /* of backward's of tensor parallelism: beside gradients of weights */
    double host_us[WAYS];
};

tutti_ps tutti_pass_sum(const struct tutti_pass_cost *cost)
{
    tutti_ps sum = 0;

    for (int i = 0; i < TUTTI_PART_COUNT; i++)
        sum += cost->ps[i];
    return sum;
}

static uint32_t activation_bytes(const struct calls *c)
{
    return c->run->ask.use.precision <= TUTTI_PRECISION_TF32 ? 4 : 2;
}

/* Of a pass: elements of a sample, of the part of its tokens that a rank has. */
static uint64_t of_pass(const struct calls *c, uint64_t elements)
{
    return tutti_muldiv_up(elements, c->run->p.micro_batch, c->run->p.context);
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What the host needs for a collective, as long as its device has nothing to do with it. */
static double host_us(const struct tutti_cut_run *run, uint32_t ranks)
{
    const struct tutti_framework *f = run->ask.use.framework;
    const bool staged = run->p.pipeline > 1 && run->ask.topo->host_count > 1;

    return f->collective_us * log2(ranks) + (staged ? f->staged_collective_us * ranks : 0);
}

static tutti_ps add(struct calls *c, enum tutti_pass way, enum tutti_pass_part part,
                    enum tutti_parallel_group group, enum tutti_collective collective,
                    uint64_t count, uint32_t element_bytes)
{
    const uint32_t ranks = c->run->groups.shapes[group].axis.size;
    const double wait_us = c->run->ask.use.framework->wait_us * sqrt(ranks);
    struct tutti_group_price price = {.ps = 0};

    if (c->status < 0 || ranks <= 1 || count == 0)
        return 0;
    c->status = tutti_groups_price(
        &c->run->groups, (struct tutti_group_call){group, collective, count, element_bytes}, &price,
        c->err);
    price.ps += (tutti_ps)llround(wait_us * (double)TUTTI_PS_PER_US);
    c->ps[way][part] += price.ps;
    c->host_us[way] += host_us(c->run, ranks);
    return price.ps;
}

static tutti_ps add_reduced(struct calls *c, enum tutti_pass way, uint64_t elements)
{
    return add(c, way, TUTTI_PART_TENSOR, TUTTI_GROUP_TENSOR, TUTTI_ALLREDUCE, elements,
               activation_bytes(c));
}

static tutti_ps add_half(struct calls *c, enum tutti_pass way, enum tutti_collective collective,
                         uint64_t elements)
{
    return add(c, way, TUTTI_PART_TENSOR, TUTTI_GROUP_TENSOR, collective,
               divide_up(elements, c->run->p.tensor), activation_bytes(c));
}

/* ---- tensor ---------------------------------------------------------------------------------- */

/* What a product divided by columns reads is whole on each rank. With sequence parallelism it is
 * gathered before, and again for the gradient of its weights. */
static void add_whole_input(struct calls *c, uint64_t elements)
{
    if (!c->run->p.sequence_parallel) {
        c->hideable_ps += add_reduced(c, TUTTI_PASS_BACKWARD, elements);
        return;
    }
    (void)add_half(c, TUTTI_PASS_FORWARD, TUTTI_ALLGATHER, elements);
    c->hideable_ps += add_half(c, TUTTI_PASS_BACKWARD, TUTTI_ALLGATHER, elements);
    c->hideable_ps += add_half(c, TUTTI_PASS_BACKWARD, TUTTI_REDUCESCATTER, elements);
}

/* What is a partial sum on each rank, of a product divided by rows or of a lookup. */
static void add_partial_output(struct calls *c, uint64_t elements)
{
    if (!c->run->p.sequence_parallel) {
        (void)add_reduced(c, TUTTI_PASS_FORWARD, elements);
        return;
    }
    (void)add_half(c, TUTTI_PASS_FORWARD, TUTTI_REDUCESCATTER, elements);
    (void)add_half(c, TUTTI_PASS_BACKWARD, TUTTI_ALLGATHER, elements);
}

static void add_vocabulary(struct calls *c, const struct tutti_operation *operation)
{
    if (operation->kind == TUTTI_WORK_EMBEDDING)
        add_partial_output(c, of_pass(c, operation->out_elements));
    if (operation->kind == TUTTI_WORK_MATMUL)
        add_whole_input(c, of_pass(c, operation->in_elements));
    for (int i = 0; i < LOSS_CALLS && operation->kind == TUTTI_WORK_LOSS; i++)
        (void)add(c, TUTTI_PASS_FORWARD, TUTTI_PART_TENSOR, TUTTI_GROUP_TENSOR, TUTTI_ALLREDUCE,
                  of_pass(c, operation->out_elements), FLOAT_BYTES);
}

/* Products of one layer that read the same have it whole once. */
static void add_tensor(struct calls *c, const struct tutti_layer *layer)
{
    uint64_t whole = 0; /* elements of what is whole at the moment */

    for (uint32_t i = 0; i < layer->operation_count && c->run->p.tensor > 1; i++) {
        const struct tutti_operation *operation = &layer->operations[i];

        if (operation->split == TUTTI_SPLIT_VOCAB)
            add_vocabulary(c, operation);
        if (operation->kind != TUTTI_WORK_MATMUL)
            continue;
        if (operation->split == TUTTI_SPLIT_COLUMNS && operation->in_elements != whole) {
            whole = operation->in_elements;
            add_whole_input(c, of_pass(c, whole));
        }
        if (operation->split == TUTTI_SPLIT_ROWS) {
            whole = 0;
            add_partial_output(c, of_pass(c, operation->out_elements));
        }
    }
}

/* ---- experts --------------------------------------------------------------------------------- */

/* Elements of a sample that are sent to experts and come back, for all experts of a token. */
struct visits {
    uint64_t in_elements;
    uint64_t out_elements;
    uint32_t active; /* 0: the layer has none */
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

/* Each expert divided over `tensor`: as any product by columns and then rows. Where experts are
 * divided as well, what was dispatched is gathered: of each visit, not of each token. */
static void add_expert_tensor(struct calls *c, const struct visits *visits, uint32_t ppm)
{
    const uint64_t copies = c->run->p.expert > 1 ? 1 : visits->active;
    const uint64_t in = tutti_muldiv_up(of_pass(c, visits->in_elements / copies), ppm, PPM);
    const uint64_t out = tutti_muldiv_up(of_pass(c, visits->out_elements / copies), ppm, PPM);

    if (!c->run->p.sequence_parallel) {
        (void)add_reduced(c, TUTTI_PASS_FORWARD, out);
        (void)add_reduced(c, TUTTI_PASS_BACKWARD, in);
        return;
    }
    (void)add_half(c, TUTTI_PASS_FORWARD, TUTTI_ALLGATHER, in);
    (void)add_half(c, TUTTI_PASS_FORWARD, TUTTI_REDUCESCATTER, out);
    (void)add_half(c, TUTTI_PASS_BACKWARD, TUTTI_ALLGATHER, out);
    (void)add_half(c, TUTTI_PASS_BACKWARD, TUTTI_REDUCESCATTER, in);
}

/* Tokens to their experts and back. The rank with the busiest expert holds up all others. */
static void add_dispatch(struct calls *c, uint64_t elements, uint32_t ppm)
{
    const uint64_t local = divide_up(of_pass(c, elements), c->run->p.tensor);
    const uint64_t busiest = tutti_muldiv_up(local, ppm, PPM);

    for (int way = 0; way < WAYS; way++)
        (void)add(c, (enum tutti_pass)way, TUTTI_PART_EXPERT, TUTTI_GROUP_EXPERT, TUTTI_ALLTOALL,
                  divide_up(busiest, c->run->p.expert), activation_bytes(c));
}

static void add_experts(struct calls *c, const struct tutti_layer *layer)
{
    const struct visits visits = visits_of(layer);
    const uint32_t ppm = tutti_parallel_imbalance_ppm(&c->run->p, c->run->ask.model);

    if (visits.active == 0)
        return;
    if (c->run->p.tensor > 1)
        add_expert_tensor(c, &visits, ppm);
    if (c->run->p.expert > 1) {
        add_dispatch(c, visits.in_elements, ppm);
        add_dispatch(c, visits.out_elements, ppm);
    }
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

/* One hop less than there are blocks, each beside the attention of the block before; backward,
 * where gradients go along, of twice the bytes. */
static void add_ring(struct calls *c, uint64_t kv_elements, const struct tutti_layer_parts *parts)
{
    const tutti_ps attention_ps[WAYS] = {parts->attention_forward_ps, parts->attention_backward_ps};
    const uint32_t heads = c->run->ask.model->transformer.kv_heads;
    const uint32_t ranks = c->run->p.tensor < heads ? c->run->p.tensor : heads;
    const uint64_t block =
        tutti_times(divide_up(of_pass(c, kv_elements), ranks), activation_bytes(c));
    const uint32_t hops = c->run->p.context - 1;

    for (int way = 0; way < WAYS && c->status == 0; way++) {
        tutti_ps hop_ps = 0;

        c->status = tutti_groups_hop(&c->run->groups, TUTTI_GROUP_CONTEXT,
                                     block * (uint64_t)(way + 1), &hop_ps, c->err);
        hop_ps += (tutti_ps)llround(c->run->ask.use.framework->message_us * TUTTI_PS_PER_US);
        hop_ps -= attention_ps[way] / c->run->p.context;
        hop_ps = hop_ps > 0 ? hop_ps : 0;
        if (c->status == 0)
            c->status = tutti_cut_check_length((double)hop_ps * hops, c->err);
        c->ps[way][TUTTI_PART_CONTEXT] += c->status == 0 ? hop_ps * hops : 0;
        c->host_us[way] += host_us(c->run, 2) * hops;
    }
}

/* Queries, keys, values, output; of keys and values heads are repeated until each rank has one. */
static void add_ulysses(struct calls *c, const struct tutti_operation *operation,
                        uint64_t kv_elements)
{
    const uint32_t heads = c->run->ask.model->transformer.kv_heads;
    const uint64_t ranks = (uint64_t)c->run->p.tensor * c->run->p.context;
    const uint64_t kv = ranks > heads ? tutti_muldiv(kv_elements, ranks, heads) : kv_elements;
    const uint64_t exchanged[] = {operation->in_elements - kv_elements, kv / 2, kv / 2,
                                  operation->out_elements};

    for (int way = 0; way < WAYS; way++)
        for (size_t i = 0; i < sizeof(exchanged) / sizeof(exchanged[0]); i++)
            (void)add(
                c, (enum tutti_pass)way, TUTTI_PART_CONTEXT, TUTTI_GROUP_CONTEXT, TUTTI_ALLTOALL,
                divide_up(divide_up(of_pass(c, exchanged[i]), c->run->p.tensor), c->run->p.context),
                activation_bytes(c));
}

static void add_context(struct calls *c, const struct tutti_layer *layer,
                        const struct tutti_layer_parts *parts)
{
    for (uint32_t i = 0; i < layer->operation_count && c->run->p.context > 1; i++) {
        const struct tutti_operation *operation = &layer->operations[i];
        uint64_t kv_elements;

        if (operation->kind != TUTTI_WORK_ATTENTION)
            continue;
        kv_elements = keys_and_values(&c->run->ask.model->transformer, operation);
        if (c->run->p.context_kind == TUTTI_CONTEXT_RING)
            add_ring(c, kv_elements, parts);
        else
            add_ulysses(c, operation, kv_elements);
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

static tutti_ps ps_of_us(double us)
{
    return (tutti_ps)llround(us * (double)TUTTI_PS_PER_US);
}

/* Full recomputation sends again what is sent forward. */
static void send_again(struct calls *c, const struct tutti_layer *layer)
{
    const struct tutti_device_use *use = &c->run->ask.use;

    if (use->recompute != TUTTI_RECOMPUTE_FULL || !(layer->is_transformer || use->recompute_all))
        return;
    for (int part = 0; part < TUTTI_PART_COUNT; part++)
        c->ps[TUTTI_PASS_BACKWARD][part] += c->ps[TUTTI_PASS_FORWARD][part];
    c->host_us[TUTTI_PASS_BACKWARD] += c->host_us[TUTTI_PASS_FORWARD];
}

static void hide_way(struct calls *c, enum tutti_pass way, double share, tutti_ps hideable_ps,
                     tutti_ps beside_ps)
{
    const tutti_ps most = hideable_ps < beside_ps ? hideable_ps : beside_ps;

    c->ps[way][TUTTI_PART_TENSOR] -= (tutti_ps)llround(share * (double)most);
}

/* What runs beside the products of gradients of weights, and beside parts of those that need it. */
static void hide(struct calls *c, const struct tutti_layer_parts *parts)
{
    const struct tutti_framework *f = c->run->ask.use.framework;

    if (!c->run->p.async_tensor)
        return;
    hide_way(c, TUTTI_PASS_FORWARD, f->async_forward, c->ps[TUTTI_PASS_FORWARD][TUTTI_PART_TENSOR],
             parts->forward_ps);
    hide_way(c, TUTTI_PASS_BACKWARD, f->async_tensor, c->hideable_ps, parts->weights_ps);
}

static void put_together(const struct calls *c, const struct tutti_layer *layer,
                         const struct tutti_layer_parts *parts, struct tutti_passes *ret)
{
    const tutti_ps device_ps[WAYS] = {parts->forward_ps, parts->backward_ps + parts->weights_ps};
    const tutti_ps host_ps[WAYS] = {parts->host_forward_ps, parts->host_backward_ps};
    struct tutti_passes passes = {0};

    for (int way = 0; way < (layer->is_frozen ? 1 : WAYS); way++) {
        struct tutti_pass_cost *cost = &passes.pass[way];
        tutti_ps issue_ps = host_ps[way] + ps_of_us(c->host_us[way]);

        for (int part = 0; part < TUTTI_PART_COUNT; part++)
            cost->ps[part] = c->ps[way][part];
        cost->ps[TUTTI_PART_COMPUTE] = device_ps[way];
        issue_ps -= tutti_pass_sum(cost);
        cost->ps[TUTTI_PART_HOST] = issue_ps > 0 ? issue_ps : 0;
    }
    *ret = passes;
}

/* Gradients of weights become a pass of their own, with their part of what the host adds. */
static void divide_backward(const struct tutti_layer_parts *parts, struct tutti_passes *passes)
{
    struct tutti_pass_cost *backward = &passes->pass[TUTTI_PASS_BACKWARD];
    struct tutti_pass_cost *weights = &passes->pass[TUTTI_PASS_WEIGHTS];
    const tutti_ps all_ps = parts->backward_ps + parts->weights_ps;

    if (all_ps <= 0)
        return;
    weights->ps[TUTTI_PART_COMPUTE] = parts->weights_ps;
    weights->ps[TUTTI_PART_HOST] = (tutti_ps)tutti_muldiv(
        (uint64_t)backward->ps[TUTTI_PART_HOST], (uint64_t)parts->weights_ps, (uint64_t)all_ps);
    backward->ps[TUTTI_PART_COMPUTE] -= weights->ps[TUTTI_PART_COMPUTE];
    backward->ps[TUTTI_PART_HOST] -= weights->ps[TUTTI_PART_HOST];
}

static int time_layer(struct tutti_cut_run *run, const struct tutti_layer *layer,
                      struct tutti_passes *ret, struct tutti_err *err)
{
    struct calls c = {.run = run, .err = err};
    struct tutti_layer_parts parts;
    int status = tutti_device_layer_parts(&run->ask.use, layer, &parts, err);

    if (status < 0)
        return status;
    add_tensor(&c, layer);
    add_experts(&c, layer);
    add_context(&c, layer, &parts);
    if (c.status < 0)
        return c.status;
    send_again(&c, layer);
    hide(&c, &parts);
    put_together(&c, layer, &parts, ret);
    if (tutti_pipeline_splits(&run->pipeline))
        divide_backward(&parts, ret);
    return 0;
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Devices in step with each other take as long as the slowest. */
static double slowness(const struct tutti_cut_run *run)
{
    const uint32_t ranks = run->ask.topo->rank_count;
    const double pace = run->ask.pace > 0 ? run->ask.pace : 1;

    if (ranks == 1)
        return pace;
    return pace * tutti_device_slowest(run->ask.use.framework, ranks, run->p.micro_batches,
                                       run->ask.synthetic);
}

static void slow_down(struct tutti_passes *passes, uint64_t ppm)
{
    static const enum tutti_pass_part of_device[] = {TUTTI_PART_COMPUTE, TUTTI_PART_HOST};

    for (int pass = 0; pass < TUTTI_PASSES; pass++)
        for (size_t i = 0; i < sizeof(of_device) / sizeof(of_device[0]); i++) {
            tutti_ps *ps = &passes->pass[pass].ps[of_device[i]];
            const uint64_t slow_ps = tutti_muldiv_near((uint64_t)*ps, ppm, PPM);

            *ps = slow_ps < INT64_MAX / 16 ? (tutti_ps)slow_ps : INT64_MAX / 16; /* refused */
        }
}

static void add_layers(struct tutti_passes *sum, const struct tutti_passes *layer, uint32_t repeats)
{
    for (int pass = 0; pass < TUTTI_PASSES; pass++)
        for (int part = 0; part < TUTTI_PART_COUNT; part++)
            sum->pass[pass].ps[part] += layer->pass[pass].ps[part] * repeats;
}

/* Of one micro-batch on a stage. */
static double stage_ps(const struct tutti_cut_run *run, uint32_t stage)
{
    const uint32_t layers = run->ask.model->layer_count;
    double sum_ps = 0;

    for (uint32_t i = 0; i < layers; i++)
        for (int pass = 0; pass < TUTTI_PASSES; pass++)
            sum_ps += (double)tutti_pass_sum(&run->layers[i].pass[pass]) *
                      run->repeats[(size_t)stage * layers + i];
    return sum_ps;
}

/* All micro-batches on the device that has most to do, and one on the way through all stages,
 * before any of it is added up. */
static int check_stages(const struct tutti_cut_run *run, struct tutti_err *err)
{
    double most_ps = 0;
    double through_ps = 0;

    for (uint32_t d = 0; d < run->p.pipeline; d++) {
        double device_ps = 0;

        for (uint32_t chunk = 0; chunk < run->p.virtual_stages; chunk++)
            device_ps += stage_ps(run, tutti_pipeline_stage(&run->pipeline, d, chunk));
        most_ps = fmax(most_ps, device_ps);
        through_ps += device_ps;
    }
    return tutti_cut_check_length(most_ps * (run->p.micro_batches - 1.0) + through_ps, err);
}

int tutti_cut_time_stages(struct tutti_cut_run *run, struct tutti_err *err)
{
    const uint32_t layers = run->ask.model->layer_count;
    const uint64_t ppm = (uint64_t)llround(slowness(run) * PPM);
    int status = 0;

    for (uint32_t i = 0; i < layers && status == 0; i++) {
        status = time_layer(run, &run->ask.model->layers[i], &run->layers[i], err);
        slow_down(&run->layers[i], ppm);
    }
    if (status == 0)
        status = check_stages(run, err);
    for (uint32_t s = 0; s < run->stage_count && status == 0; s++) {
        struct tutti_passes *passes = &run->passes[s];

        for (uint32_t i = 0; i < layers; i++)
            add_layers(passes, &run->layers[i], run->repeats[(size_t)s * layers + i]);
        run->stages[s] = (struct tutti_stage_times){
            .forward_ps = tutti_pass_sum(&passes->pass[TUTTI_PASS_FORWARD]),
            .backward_ps = tutti_pass_sum(&passes->pass[TUTTI_PASS_BACKWARD]),
            .weights_ps = tutti_pass_sum(&passes->pass[TUTTI_PASS_WEIGHTS])};
    }
    return status;
}
