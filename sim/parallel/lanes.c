/* Gradients that are reduced beside the backward pass, and weights that are gathered beside the
 * forward pass: a lane of collectives beside the work of a device, layer by layer. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/parallel/run.h"
#include "sim/step.h"

enum { MEGA = 1000000, LAYERS_MAX = 1 << 20 };

/* Elements of gradients or weights that wait for enough of them to be sent at once. */
struct pack {
    uint64_t dense;
    uint64_t experts;
};

enum { GRADIENTS, WEIGHTS, LANES };

struct lanes {
    struct tutti_cut_run *run;
    struct tutti_err *err;
    int status;      /* of the first that failed */
    double sum_ps;   /* of all collectives so far */
    uint32_t *order; /* layers of the device, repeats counted, as forward passes go */
    uint32_t *chunk; /* [as `order`]: which of the device's they are of */
    uint32_t count;
    tutti_ps work_ps;        /* until then the device works, */
    tutti_ps lane_ps[LANES]; /* collectives of a lane run, */
    tutti_ps wire_ps;        /* and the links that all share are busy */
    tutti_ps busy_ps;        /* what collectives took */
    tutti_ps slowed_ps;      /* what the work took longer, since they hold a part of the device */
};

/* ---- layers of a device ---------------------------------------------------------------------- */

static int list_layers(struct lanes *l, uint32_t d)
{
    const struct tutti_cut_run *run = l->run;
    const uint32_t kinds = run->ask.model->layer_count;
    uint64_t count = 0;

    for (int fills = 0; fills < 2; fills++) {
        if (fills == 1) {
            if (count > LAYERS_MAX)
                return tutti_fail(l->err, TUTTI_EINVAL,
                                  "a device of '%" PRIu64 "' layers (at most %d)", count,
                                  LAYERS_MAX);
            l->order = calloc(2 * (size_t)count + 2, sizeof(*l->order));
            if (l->order == NULL)
                return tutti_nomem(l->err);
            l->chunk = l->order + count + 1;
        }
        for (uint32_t chunk = 0; chunk < run->p.virtual_stages; chunk++) {
            const uint32_t stage = tutti_pipeline_stage(&run->pipeline, d, chunk);
            const uint32_t *repeats = run->repeats + (size_t)stage * kinds;

            for (uint32_t i = 0; i < kinds; i++) {
                count += fills == 0 ? repeats[i] : 0;
                for (uint32_t k = 0; k < repeats[i] && fills == 1; k++) {
                    l->chunk[l->count] = chunk;
                    l->order[l->count++] = i;
                }
            }
        }
    }
    return 0;
}

static tutti_ps forward_ps(const struct lanes *l, uint32_t at)
{
    return tutti_pass_sum(&l->run->layers[l->order[at]].pass[TUTTI_PASS_FORWARD]);
}

static tutti_ps backward_ps(const struct lanes *l, uint32_t at)
{
    const struct tutti_passes *passes = &l->run->layers[l->order[at]];

    return tutti_pass_sum(&passes->pass[TUTTI_PASS_BACKWARD]) +
           tutti_pass_sum(&passes->pass[TUTTI_PASS_WEIGHTS]);
}

/* What a device of an interleaved pipeline does between its last micro-batch of one chunk and that
 * of the next: those before it, of as many as there are devices. */
static tutti_ps between_ps(const struct lanes *l, uint32_t chunk, bool backward)
{
    const struct tutti_parallel *p = &l->run->p;
    const uint32_t group = p->pipeline < p->micro_batches ? p->pipeline : p->micro_batches;
    tutti_ps sum = 0;

    if (l->run->pipeline.pipeline != TUTTI_PIPELINE_INTERLEAVED)
        return 0;
    for (uint32_t at = 0; at < l->count; at++)
        if (l->chunk[at] == chunk)
            sum += backward ? backward_ps(l, at) : forward_ps(l, at);
    return sum * (tutti_ps)(group - 1);
}

static void add_variable(const struct lanes *l, const struct tutti_variable *v, struct pack *pack)
{
    const struct tutti_parallel *p = &l->run->p;
    const bool expert = v->split == TUTTI_SPLIT_EXPERTS;
    const uint64_t elements =
        v->unreduced ? 0 : tutti_variable_part(v, l->run->ask.model, p->tensor, p->expert);

    if (expert)
        pack->experts = tutti_plus(pack->experts, elements);
    else
        pack->dense = tutti_plus(pack->dense, elements);
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void add_price(struct lanes *l, enum tutti_parallel_group group,
                      enum tutti_collective collective, uint64_t elements, uint32_t element_bytes,
                      struct tutti_group_price *sum)
{
    const uint32_t ranks = l->run->groups.shapes[group].axis.size;
    const bool whole = collective == TUTTI_ALLREDUCE;
    const uint64_t count = whole ? elements : elements / ranks + (elements % ranks != 0);
    struct tutti_group_price price = {.ps = 0};

    if (l->status < 0 || ranks <= 1 || elements == 0)
        return;
    l->status = tutti_groups_price(
        &l->run->groups, (struct tutti_group_call){group, collective, count, element_bytes}, &price,
        l->err);
    if (l->run->groups.shapes[group].host_count != 1)
        price.ps +=
            (tutti_ps)llround(l->run->ask.use.framework->rank_us * ranks * (double)TUTTI_PS_PER_US);
    if (price.share < TUTTI_SHARE_ONE)
        l->slowed_ps +=
            (tutti_ps)tutti_muldiv((uint64_t)price.ps, price.share, TUTTI_SHARE_ONE - price.share);
    sum->ps += price.ps;
    sum->wire_ps += price.wire_ps;
}

/* Of experts the ranks that have the same ones; states that fewer share than reduce are reduced
 * across as well. */
static void add_reduction(struct lanes *l, uint64_t elements, bool experts,
                          struct tutti_group_price *sum)
{
    const struct tutti_cut_run *run = l->run;
    const bool divided = experts && run->p.expert > 1;
    const enum tutti_parallel_group all = divided ? TUTTI_GROUP_EXPERT_DATA : TUTTI_GROUP_DATA;
    const enum tutti_parallel_group shard = divided ? TUTTI_GROUP_EXPERT_DATA : TUTTI_GROUP_SHARD;
    const uint32_t bytes = run->ask.gradient_bytes;

    if (run->p.sharding == TUTTI_SHARD_NONE || run->ask.full_reduce) {
        add_price(l, all, TUTTI_ALLREDUCE, elements, bytes, sum);
        return;
    }
    add_price(l, shard, TUTTI_REDUCESCATTER, elements, bytes, sum);
    if (!divided)
        add_price(l, TUTTI_GROUP_ACROSS, TUTTI_ALLREDUCE,
                  elements / run->p.shard_ranks + (elements % run->p.shard_ranks != 0), bytes, sum);
}

static struct tutti_group_price price_of(struct lanes *l, const struct pack *pack, int lane)
{
    const bool divided = l->run->p.expert > 1;
    const uint32_t bytes = l->run->ask.weight_bytes;
    struct tutti_group_price sum = {.ps = 0};

    if (lane == GRADIENTS) {
        add_reduction(l, pack->dense, false, &sum);
        add_reduction(l, pack->experts, true, &sum);
        return sum;
    }
    add_price(l, TUTTI_GROUP_SHARD, TUTTI_ALLGATHER, pack->dense, bytes, &sum);
    add_price(l, divided ? TUTTI_GROUP_EXPERT_DATA : TUTTI_GROUP_SHARD, TUTTI_ALLGATHER,
              pack->experts, bytes, &sum);
    return sum;
}

static tutti_ps later(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

/* A collective begins when its lane is free, and not before `ready_ps`; what its links are needed
 * for waits for what those of the other lane have begun before. */
static tutti_ps send(struct lanes *l, int lane, const struct tutti_group_price *price,
                     tutti_ps ready_ps)
{
    const tutti_ps begin_ps = later(l->lane_ps[lane], ready_ps);

    l->sum_ps += (double)price->ps;
    if (l->status == 0)
        l->status = tutti_cut_check_length(l->sum_ps, l->err);
    if (l->status < 0)
        return begin_ps;
    l->wire_ps = later(l->wire_ps, begin_ps) + price->wire_ps;
    l->lane_ps[lane] = later(begin_ps + price->ps, l->wire_ps);
    l->busy_ps += price->ps;
    return l->lane_ps[lane];
}

static tutti_ps send_pack(struct lanes *l, struct pack *pack, int lane, tutti_ps ready_ps)
{
    const struct tutti_group_price price = price_of(l, pack, lane);

    *pack = (struct pack){0};
    return send(l, lane, &price, ready_ps);
}

/* Whether enough is there: packs are as large as the framework's, and never cut variables. */
static bool is_full(const struct lanes *l, const struct pack *pack, uint32_t element_bytes)
{
    const struct tutti_framework *f = l->run->ask.use.framework;
    const uint32_t ranks = l->run->groups.shapes[TUTTI_GROUP_DATA].axis.size;
    const double bucket = fmax(f->bucket_MB, f->bucket_rank_MB * ranks) * MEGA;

    return f->bucket_MB > 0 &&
           (double)tutti_plus(pack->dense, pack->experts) * (double)element_bytes >= bucket;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The backward pass of one micro-batch, and what is reduced beside it. */
static void go_backward(struct lanes *l)
{
    const uint32_t bytes = l->run->ask.gradient_bytes;
    struct pack pack = {0};

    for (uint32_t at = l->count; at-- > 0;) {
        const struct tutti_layer *layer = &l->run->ask.model->layers[l->order[at]];

        if (at + 1 < l->count && l->chunk[at] != l->chunk[at + 1])
            l->work_ps += between_ps(l, l->chunk[at], true);
        l->work_ps += backward_ps(l, at);
        for (uint32_t v = layer->variable_count; v-- > 0;) {
            add_variable(l, &layer->variables[v], &pack);
            if (is_full(l, &pack, bytes))
                (void)send_pack(l, &pack, GRADIENTS, l->work_ps);
        }
    }
    if (pack.dense + pack.experts > 0)
        (void)send_pack(l, &pack, GRADIENTS, l->work_ps);
}

/* What the framework hides of what it could. */
static tutti_ps in_part(tutti_ps shown_ps, tutti_ps all_ps, double overlap)
{
    return all_ps - (tutti_ps)llround(overlap * (double)(all_ps - shown_ps));
}

static tutti_ps reduce_gradients(struct lanes *l)
{
    const struct tutti_cut_run *run = l->run;
    const double overlap = run->ask.no_overlap ? 0 : run->ask.use.framework->overlap;
    const bool each = run->p.sharding == TUTTI_SHARD_ZERO2;
    tutti_ps pass_ps = 0;
    tutti_ps shown_ps;
    tutti_ps early_ps;

    for (uint32_t at = 0; at < l->count; at++)
        pass_ps += forward_ps(l, at);
    go_backward(l);
    shown_ps =
        in_part(later(l->lane_ps[GRADIENTS] - l->work_ps, l->slowed_ps), l->busy_ps, overlap);
    /* ZeRO-2: gradients of all micro-batches, each before those of the next one come. */
    early_ps = in_part(later(l->lane_ps[GRADIENTS] - l->work_ps - pass_ps, l->slowed_ps),
                       l->busy_ps, overlap);
    if (l->status == 0)
        l->status = tutti_cut_check_length((double)early_ps * run->p.micro_batches, l->err);
    if (l->status < 0 || !each)
        return shown_ps;
    return shown_ps + early_ps * (tutti_ps)(run->p.micro_batches - 1);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Layers up to `end`, whose weights are there from `there_ps` on. */
static tutti_ps go_forward(struct lanes *l, uint32_t *first, uint32_t end, tutti_ps there_ps)
{
    tutti_ps alone_ps = 0;

    for (; *first < end; ++*first) {
        if (*first > 0 && l->chunk[*first] != l->chunk[*first - 1]) {
            const tutti_ps ps = between_ps(l, l->chunk[*first - 1], false);

            l->work_ps += ps;
            alone_ps += ps;
        }
        l->work_ps = later(l->work_ps, there_ps) + forward_ps(l, *first);
        alone_ps += forward_ps(l, *first);
    }
    return alone_ps;
}

/* Once a step, in the order of the forward pass; a layer begins once the pack is there that has the
 * last of its weights. */
static tutti_ps gather_weights(struct lanes *l)
{
    const double overlap = l->run->ask.no_overlap ? 0 : l->run->ask.use.framework->overlap_next;
    struct pack pack = {0};
    tutti_ps alone_ps = 0;
    tutti_ps there_ps = 0;
    uint32_t first = 0; /* layer that has not begun */

    l->work_ps = l->wire_ps = l->busy_ps = l->slowed_ps = 0;
    for (uint32_t at = 0; at < l->count; at++) {
        const struct tutti_layer *layer = &l->run->ask.model->layers[l->order[at]];

        for (uint32_t v = 0; v < layer->variable_count; v++) {
            add_variable(l, &layer->variables[v], &pack);
            if (!is_full(l, &pack, l->run->ask.gradient_bytes))
                continue;
            there_ps = send_pack(l, &pack, WEIGHTS, 0);
            alone_ps += go_forward(l, &first, at, there_ps);
        }
        if (pack.dense + pack.experts == 0)
            alone_ps += go_forward(l, &first, at + 1, there_ps);
    }
    if (pack.dense + pack.experts > 0)
        there_ps = send_pack(l, &pack, WEIGHTS, 0);
    alone_ps += go_forward(l, &first, l->count, there_ps);
    return in_part(later(l->work_ps - alone_ps, l->slowed_ps), l->busy_ps, overlap);
}

/* ---- both, layer by layer -------------------------------------------------------------------- */

/* Of a layer: what it takes, and what the work beside it takes longer. */
struct layer_calls {
    struct tutti_group_price price[LANES];
    tutti_ps slows_ps[LANES];
};

static void price_layers(struct lanes *l, struct layer_calls *calls)
{
    double sum_ps = 0;

    for (uint32_t at = 0; at < l->count; at++) {
        const struct tutti_layer *layer = &l->run->ask.model->layers[l->order[at]];
        struct pack pack = {0};

        if (at > 0 && l->order[at] == l->order[at - 1]) {
            calls[at] = calls[at - 1];
        } else {
            for (uint32_t v = 0; v < layer->variable_count; v++)
                add_variable(l, &layer->variables[v], &pack);
            for (int lane = layer->is_frozen ? WEIGHTS : GRADIENTS; lane < LANES; lane++) {
                l->slowed_ps = 0;
                calls[at].price[lane] = price_of(l, &pack, lane);
                calls[at].slows_ps[lane] = l->slowed_ps;
            }
        }
        for (int lane = 0; lane < LANES; lane++)
            sum_ps += (double)calls[at].price[lane].ps + (double)calls[at].slows_ps[lane];
    }
    if (l->status == 0)
        l->status = tutti_cut_check_length(2 * sum_ps * l->run->p.micro_batches, l->err);
}

/* One micro-batch: while a layer is in work the weights of the next one are gathered, and gradients
 * of the one before reduced. *gathered_ps: when those of the first
 * layer are there, then of the first layer of the next micro-batch. */
static void go_both_ways(struct lanes *l, const struct layer_calls *calls, tutti_ps *gathered_ps)
{
    const bool again = !l->run->p.keep_weights;
    const uint32_t tasks = 2 * l->count;
    tutti_ps beside_ps = 0;

    for (uint32_t i = 0; i < tasks; i++) {
        const bool backward = i >= l->count;
        const uint32_t at = backward ? tasks - 1 - i : i;
        const uint32_t next = i + 1 == tasks ? 0 : i + 1 < l->count ? i + 1 : tasks - 2 - i;
        const bool gathers = again || i + 1 < l->count || i + 1 == tasks;
        const tutti_ps begin_ps = later(l->work_ps, *gathered_ps);

        *gathered_ps = gathers ? send(l, WEIGHTS, &calls[next].price[WEIGHTS], begin_ps) : begin_ps;
        l->work_ps = begin_ps + beside_ps + (backward ? backward_ps(l, at) : forward_ps(l, at)) +
                     (gathers ? calls[next].slows_ps[WEIGHTS] : 0);
        beside_ps = backward ? calls[at].slows_ps[GRADIENTS] : 0;
        if (backward)
            (void)send(l, GRADIENTS, &calls[at].price[GRADIENTS], l->work_ps);
    }
}

/* All micro-batches. Once one leaves the lanes as the one before has, all others do. *ret_waits:
 * what the passes take longer; the rest of gradients behind them comes back. */
static tutti_ps go_through(struct lanes *l, const struct layer_calls *calls, tutti_ps *ret_waits)
{
    enum { STATE = 5 };
    const uint32_t micro_batches = l->run->p.micro_batches;
    tutti_ps gathered_ps;
    tutti_ps alone_ps = 0;
    tutti_ps before[STATE] = {-1}; /* what it took, and how it left lanes and links */

    for (uint32_t at = 0; at < l->count; at++)
        alone_ps += forward_ps(l, at) + backward_ps(l, at);
    gathered_ps = send(l, WEIGHTS, &calls[0].price[WEIGHTS], 0);
    for (uint32_t i = 0; i < micro_batches; i++) {
        const tutti_ps from_ps = l->work_ps;
        tutti_ps now[STATE];

        go_both_ways(l, calls, &gathered_ps);
        now[0] = l->work_ps - from_ps;
        now[1] = later(l->lane_ps[GRADIENTS] - l->work_ps, 0);
        now[2] = l->lane_ps[WEIGHTS] - l->work_ps;
        now[3] = gathered_ps - l->work_ps;
        now[4] = later(l->wire_ps - l->work_ps, 0);
        if (memcmp(now, before, sizeof(now)) == 0) {
            const tutti_ps rest_ps = now[0] * (tutti_ps)(micro_batches - 1 - i);

            l->work_ps += rest_ps;
            l->lane_ps[GRADIENTS] += rest_ps;
            break;
        }
        memcpy(before, now, sizeof(now));
    }
    *ret_waits = l->work_ps - alone_ps * (tutti_ps)micro_batches;
    return later(l->lane_ps[GRADIENTS] - l->work_ps, 0);
}

/* One after the other: weights before each pass of a layer, gradients behind it. */
static void go_apart(const struct lanes *l, const struct layer_calls *calls,
                     struct tutti_cut_lanes *ret)
{
    const tutti_ps gathers = l->run->p.keep_weights ? 1 : 2;

    for (uint32_t at = 0; at < l->count; at++) {
        ret->passes_ps += gathers * calls[at].price[WEIGHTS].ps * l->run->p.micro_batches;
        ret->reduce_ps += calls[at].price[GRADIENTS].ps * l->run->p.micro_batches;
    }
}

static int go_by_layers(struct lanes *l, struct tutti_cut_lanes *ret)
{
    struct layer_calls *calls = calloc((size_t)l->count + 1, sizeof(*calls));

    if (calls == NULL)
        return tutti_nomem(l->err);
    price_layers(l, calls);
    if (l->status == 0 && l->run->ask.no_overlap)
        go_apart(l, calls, ret);
    else if (l->count > 0 && l->status == 0)
        ret->reduce_ps = go_through(l, calls, &ret->passes_ps);
    free(calls);
    return l->status;
}

/* ---- a device -------------------------------------------------------------------------------- */

int tutti_cut_time_lanes(struct tutti_cut_run *run, uint32_t d, struct tutti_cut_lanes *ret,
                         struct tutti_err *err)
{
    struct lanes l = {.run = run, .err = err};
    struct tutti_cut_lanes lanes = {0};
    int status;

    if (run->p.context * run->p.data == 1) {
        *ret = lanes;
        return 0;
    }
    status = list_layers(&l, d);
    if (status == 0 && run->p.sharding == TUTTI_SHARD_ZERO3 && run->p.pipeline == 1) {
        status = go_by_layers(&l, &lanes);
    } else if (status == 0) {
        lanes.reduce_ps = reduce_gradients(&l);
        if (run->p.sharding != TUTTI_SHARD_NONE)
            lanes.gather_ps = gather_weights(&l);
        status = l.status;
    }
    free(l.order);
    *ret = lanes;
    return status;
}
