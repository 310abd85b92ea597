/* Writes the step of a strategy: forward and backward layer by layer, collectives beside them. */
#include "runtime/strategy.h"

#include <assert.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/workload/strategy_write.h"

#define NO_STEP UINT32_MAX

/* Appends a step that waits for step `after` of lane `of`, or for none; returns its number. */
static uint32_t append(struct tutti_step_writer *w, uint32_t lane, struct tutti_step step,
                       uint32_t of, uint32_t after)
{
    if (after != NO_STEP) {
        step.flags |= TUTTI_STEP_DEP;
        step.dep_lane = (uint16_t)of;
        step.dep_step = after;
    }
    (void)tutti_builder_add(w->builder, 0, lane, &step, NULL); /* finish tells */
    return w->step_count[lane]++;
}

static uint32_t work(struct tutti_step_writer *w, uint32_t entry, uint32_t of, uint32_t after)
{
    return append(w, TUTTI_LANE_WORK, tutti_step_compute(&w->work[entry], entry), of, after);
}

static uint32_t call(struct tutti_step_writer *w, uint32_t lane, const struct tutti_contract *c,
                     uint32_t axis, struct tutti_buf_at in, uint64_t out, uint32_t of,
                     uint32_t after)
{
    const struct tutti_step_callee *callee = tutti_writer_callee(w, c, axis);

    assert(callee != NULL);
    return append(w, lane,
                  tutti_step_call(callee->index, (uint8_t)axis, in,
                                  (struct tutti_buf_at){TUTTI_BUF_SCRATCH, out},
                                  w->staging_offset[lane]),
                  of, after);
}

static uint32_t gather(struct tutti_step_writer *w, const struct tutti_plan_pack *p, uint32_t after)
{
    const struct tutti_contract c = tutti_writer_gather(w, p);

    return call(w, TUTTI_LANE_GATHER, &c, tutti_writer_shard_axis(w),
                (struct tutti_buf_at){TUTTI_BUF_STATE, p->state_offset}, p->gather_offset,
                TUTTI_LANE_WORK, after);
}

/* The gather of a layer's weights, so many layers ahead of the work as is allowed, and not before
 * the work that used them last; the number of its step, or NO_STEP. */
static uint32_t gather_layer(struct tutti_step_writer *w, uint32_t layer)
{
    const struct tutti_plan_layer *l = &w->plan.layers[layer];
    uint32_t ahead = w->plan.strategy->prefetch + 1;
    uint32_t after = w->weights_user[layer];

    if (!tutti_writer_gathers_layers(w) || l->gather == UINT32_MAX)
        return NO_STEP;
    if (w->gather_count >= ahead) {
        uint32_t user = w->gather_user[w->gather_count % ahead];

        after = after == NO_STEP || user > after ? user : after;
    }
    return gather(w, &w->plan.packs[l->gather], after);
}

static void note_gather_user(struct tutti_step_writer *w, uint32_t layer, uint32_t gathered,
                             uint32_t step)
{
    w->weights_user[layer] = step;
    if (gathered != NO_STEP)
        w->gather_user[w->gather_count++ % (w->plan.strategy->prefetch + 1)] = step;
}

static void write_forward(struct tutti_step_writer *w, uint32_t micro_batch)
{
    bool first = micro_batch == 0;

    for (uint32_t i = 0; i < w->plan.layer_count; i++) {
        const struct tutti_plan_layer *l = &w->plan.layers[i];
        uint32_t gathered = gather_layer(w, i);
        uint32_t after = gathered;

        /* ZeRO-1 and -2: weights are gathered once, in forward order. */
        if (first && after == NO_STEP && w->step_count[TUTTI_LANE_GATHER] > 0 &&
            l->gather != UINT32_MAX)
            after = w->plan.strategy->overlap ? w->plan.pack_count - 1 - l->gather
                                              : w->step_count[TUTTI_LANE_GATHER] - 1;
        note_gather_user(w, i, gathered, work(w, 3 * i, TUTTI_LANE_GATHER, after));
    }
}

/* Before gradients are written anew, those of the micro-batch before have been reduced. */
static void wait_for_reduced(struct tutti_step_writer *w, uint32_t layer)
{
    for (uint32_t i = 0; i < w->plan.pack_count; i++)
        if (w->plan.packs[i].ready_layer == layer && w->reduced_step[i] != NO_STEP)
            (void)append(w, TUTTI_LANE_WORK,
                         tutti_step_copy((struct tutti_buf_at){TUTTI_BUF_SCRATCH, 0},
                                         (struct tutti_buf_at){TUTTI_BUF_SCRATCH, 0}, 0),
                         TUTTI_LANE_REDUCE, w->reduced_step[i]);
}

static uint32_t compression_entry(const struct tutti_step_writer *w, uint32_t pack, uint32_t what)
{
    return w->entries.compress + TUTTI_PLAN_COMPRESSIONS * pack + what;
}

/* Packs whose gradients are there after a layer's backward pass. */
static void compress_packs(struct tutti_step_writer *w, uint32_t layer)
{
    for (uint32_t i = 0; i < w->plan.pack_count; i++)
        if (w->plan.packs[i].compressed &&
            (w->plan.strategy->overlap ? w->plan.packs[i].ready_layer : 0) == layer)
            w->compressed_step[i] =
                work(w, compression_entry(w, i, TUTTI_PLAN_COMPRESS), 0, NO_STEP);
}

/* What came of the collectives becomes gradients again: once all of them are on their way. */
static void expand_packs(struct tutti_step_writer *w)
{
    for (uint32_t i = 0; i < w->plan.pack_count; i++)
        if (w->plan.packs[i].compressed)
            (void)work(w, compression_entry(w, i, TUTTI_PLAN_EXPAND), TUTTI_LANE_REDUCE,
                       w->reduced_step[i]);
}

static void write_backward(struct tutti_step_writer *w, uint32_t micro_batch)
{
    bool adds = micro_batch > 0 && !tutti_writer_at_every_micro_batch(w);

    if (micro_batch > 0 && tutti_writer_at_every_micro_batch(w) && w->plan.pack_count > 0 &&
        w->reduced_step[w->plan.pack_count - 1] != NO_STEP && !tutti_writer_gathers_layers(w))
        for (uint32_t i = 0; i < w->plan.layer_count; i++)
            wait_for_reduced(w, i);
    for (uint32_t i = w->plan.layer_count; i-- > 0;) {
        uint32_t gathered = w->plan.strategy->keep_weights ? NO_STEP : gather_layer(w, i);

        if (micro_batch > 0 && tutti_writer_gathers_layers(w))
            wait_for_reduced(w, i);
        w->backward_step[i] = work(w, 3 * i + 1 + adds, TUTTI_LANE_GATHER, gathered);
        note_gather_user(w, i, gathered, w->backward_step[i]);
        if (tutti_writer_compresses(w) && micro_batch + 1 == w->plan.micro_batches)
            compress_packs(w, i);
    }
}

/* What each micro-batch brings is added up. */
static void add_up(struct tutti_step_writer *w, uint32_t pack, uint32_t micro_batch)
{
    if (tutti_writer_adds_up(w) && !w->plan.packs[pack].sparse)
        (void)append(w, TUTTI_LANE_REDUCE,
                     tutti_step_compute(&w->work[w->entries.sum + 2 * pack],
                                        w->entries.sum + 2 * pack + (micro_batch > 0)),
                     0, NO_STEP);
}

/* Slices, once all know how many each has; or the second factors, made of the sum of the first once
 * they are orthogonal: as the lane has it. The number of the last step. */
static uint32_t write_second(struct tutti_step_writer *w, uint32_t index)
{
    const struct tutti_plan_pack *p = &w->plan.packs[index];
    const struct tutti_contract c = tutti_writer_reduction(w, p, 1);
    uint32_t entry = compression_entry(w, index, TUTTI_PLAN_ORTHOGONALIZE);

    if (p->compressed)
        (void)append(w, TUTTI_LANE_REDUCE, tutti_step_compute(&w->work[entry], entry), 0, NO_STEP);
    return call(w, TUTTI_LANE_REDUCE, &c, TUTTI_AXIS_ALL,
                (struct tutti_buf_at){TUTTI_BUF_SCRATCH, tutti_plan_sent(&w->plan, p, 1).offset},
                tutti_plan_result(&w->plan, p, 1).offset, 0, NO_STEP);
}

static void write_reduction(struct tutti_step_writer *w, uint32_t index, uint32_t micro_batch)
{
    const struct tutti_plan_pack *p = &w->plan.packs[index];
    struct tutti_contract c = tutti_writer_reduction(w, p, 0);
    uint32_t ready = p->compressed
                         ? w->compressed_step[index]
                         : w->backward_step[w->plan.strategy->overlap ? p->ready_layer : 0];
    struct tutti_buf_at in = {TUTTI_BUF_SCRATCH, tutti_plan_sent(&w->plan, p, 0).offset};

    if (tutti_writer_averages_weights(w)) {
        in = (struct tutti_buf_at){TUTTI_BUF_STATE, p->state_offset};
        ready = w->optimizer_step;
    }
    w->reduced_step[index] =
        call(w, TUTTI_LANE_REDUCE, &c, p->sparse ? TUTTI_AXIS_ALL : tutti_writer_shard_axis(w), in,
             p->result_offset, TUTTI_LANE_WORK, ready);
    if (p->sent[1] > 0)
        w->reduced_step[index] = write_second(w, index);
    add_up(w, index, micro_batch);
    if (tutti_writer_averages_weights(w))
        (void)append(w, TUTTI_LANE_REDUCE,
                     tutti_step_copy(in, (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->result_offset},
                                     p->elements * w->plan.params.weight_bytes),
                     0, NO_STEP);
    if (!tutti_writer_goes_across(w) || p->sparse || micro_batch + 1 < w->plan.micro_batches)
        return;
    c = tutti_writer_across(w, p);
    (void)call(w, TUTTI_LANE_ACROSS, &c, TUTTI_AXIS_ACROSS,
               (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->sum_offset}, p->sum_offset,
               TUTTI_LANE_REDUCE, w->step_count[TUTTI_LANE_REDUCE] - 1);
}

static void write_reductions(struct tutti_step_writer *w, uint32_t micro_batch)
{
    for (uint32_t i = 0; i < w->plan.pack_count; i++)
        write_reduction(w, i, micro_batch);
}

/* ZeRO-1 and -2: in forward order, before or after everything else. */
static void write_gathers(struct tutti_step_writer *w, uint32_t after)
{
    for (uint32_t i = w->plan.pack_count; i-- > 0;)
        if (!w->plan.packs[i].sparse)
            (void)gather(w, &w->plan.packs[i], after);
}

static void write_optimizer(struct tutti_step_writer *w)
{
    uint32_t lane = w->step_count[TUTTI_LANE_ACROSS] > 0 && w->entries.report == UINT32_MAX
                        ? TUTTI_LANE_ACROSS
                        : TUTTI_LANE_REDUCE;
    uint32_t after = w->step_count[lane] > 0 ? w->step_count[lane] - 1 : NO_STEP;

    w->optimizer_step = work(w, w->entries.optimizer, lane, after);
}

/* What all have to say, before the optimizer: it waits for the sum of it. */
static void write_report(struct tutti_step_writer *w)
{
    const struct tutti_contract c = tutti_writer_report(w);
    uint32_t lane = w->step_count[TUTTI_LANE_ACROSS] > 0 ? TUTTI_LANE_ACROSS : TUTTI_LANE_REDUCE;
    uint32_t after = w->step_count[lane] > 0 ? w->step_count[lane] - 1 : NO_STEP;
    uint32_t said;

    if (w->entries.report == UINT32_MAX)
        return;
    said = work(w, w->entries.report, lane, after);
    if (w->plan.params.rank_count > 1)
        (void)call(w, TUTTI_LANE_REDUCE, &c, TUTTI_AXIS_ALL,
                   (struct tutti_buf_at){TUTTI_BUF_SCRATCH, w->plan.report.offset},
                   w->plan.report_sum.offset, TUTTI_LANE_WORK, said);
}

/* Local steps that are really done: all but the last, which is like any other step. */
static void write_local_steps(struct tutti_step_writer *w)
{
    if (w->plan.params.run == NULL)
        return;
    for (uint32_t k = 1; k < w->plan.strategy->local_steps; k++) {
        (void)work(w, w->entries.input, TUTTI_LANE_WORK, NO_STEP);
        for (uint32_t m = 0; m < w->plan.micro_batches; m++) {
            write_forward(w, m);
            write_backward(w, m);
        }
        (void)work(w, w->entries.local, TUTTI_LANE_WORK, NO_STEP);
    }
}

/* What becomes of the average: once all of it has been copied to where weights lie. */
static void write_outer(struct tutti_step_writer *w)
{
    if (w->entries.outer != UINT32_MAX)
        (void)work(w, w->entries.outer, TUTTI_LANE_REDUCE, w->step_count[TUTTI_LANE_REDUCE] - 1);
}

static void write_all(struct tutti_step_writer *w)
{
    bool alone = w->plan.params.rank_count == 1;
    bool once = tutti_writer_shares(w) && !tutti_writer_gathers_layers(w) && !alone;
    /* A step that is really done computes on what it has gathered itself: none came before the
     * first. Without overlap all of it waits, and the step takes as long as if it had gathered at
     * its end. */
    bool at_head = w->plan.strategy->overlap || w->plan.params.run != NULL;

    write_local_steps(w);
    if (w->plan.params.input_ps > 0 || w->plan.params.run != NULL)
        (void)work(w, w->entries.input, TUTTI_LANE_WORK, NO_STEP);
    if (once && at_head)
        write_gathers(w, NO_STEP);
    for (uint32_t m = 0; m < w->plan.micro_batches; m++) {
        write_forward(w, m);
        write_backward(w, m);
        if (!alone && !tutti_writer_averages_weights(w) &&
            (tutti_writer_at_every_micro_batch(w) || m + 1 == w->plan.micro_batches))
            write_reductions(w, m);
    }
    if (tutti_writer_compresses(w))
        expand_packs(w);
    write_report(w);
    write_optimizer(w);
    if (once && !at_head)
        write_gathers(w, w->optimizer_step);
    if (tutti_writer_averages_weights(w) && !alone)
        write_reductions(w, w->plan.micro_batches - 1);
    write_outer(w);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int open_builder(struct tutti_step_writer *w, struct tutti_err *err)
{
    const struct tutti_plan *plan = &w->plan;
    uint64_t scratch = plan->scratch_bytes;
    struct tutti_schedule_desc desc = {.name = plan->strategy->name,
                                       .contract = {.collective = TUTTI_CUSTOM},
                                       .rank_count = plan->params.rank_count,
                                       .lane_count = TUTTI_STRATEGY_LANES,
                                       .state_bytes = plan->state_bytes,
                                       .axes = w->axes,
                                       .axis_count = w->axis_count,
                                       .work = w->work,
                                       .work_count = w->work_count,
                                       .program_count = 1};
    int status;

    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++) {
        w->staging_offset[lane] = scratch;
        scratch += w->staging_bytes[lane];
    }
    desc.scratch_bytes = scratch;
    status = tutti_builder_new(&desc, &w->builder, err);
    for (uint32_t i = 0; i < w->callee_count && status == 0; i++) {
        status =
            tutti_builder_add_callee(w->builder, w->callees[i].schedule, &w->callees[i].index, err);
        if (status == 0)
            w->callees[i].schedule = NULL;
    }
    return status;
}

static int write_step(struct tutti_step_writer *w, struct tutti_schedule **ret,
                      struct tutti_err *err)
{
    struct tutti_arena *arena = w->plan.arena;
    const uint32_t sizes[2] = {w->plan.params.rank_count / w->plan.shard_ranks,
                               w->plan.shard_ranks};
    int status;

    w->callees = tutti_arena_take(arena, TUTTI_WRITER_CALLEES_MAX, sizeof(*w->callees));
    w->backward_step = tutti_arena_take(arena, w->plan.layer_count, sizeof(*w->backward_step));
    w->reduced_step = tutti_arena_take(arena, w->plan.pack_count, sizeof(*w->reduced_step));
    w->compressed_step = tutti_arena_take(arena, w->plan.pack_count, sizeof(*w->compressed_step));
    w->gather_user =
        tutti_arena_take(arena, w->plan.strategy->prefetch + (size_t)1, sizeof(*w->gather_user));
    w->weights_user = tutti_arena_take(arena, w->plan.layer_count, sizeof(*w->weights_user));
    if (w->weights_user == NULL || w->callees == NULL || w->backward_step == NULL ||
        w->reduced_step == NULL || w->compressed_step == NULL || w->gather_user == NULL ||
        !tutti_writer_list_work(w))
        return tutti_nomem(err);
    for (uint32_t i = 0; i < w->plan.pack_count; i++)
        w->reduced_step[i] = NO_STEP;
    for (uint32_t i = 0; i < w->plan.layer_count; i++)
        w->weights_user[i] = NO_STEP;
    if (tutti_writer_goes_across(w)) {
        w->axes[0] = tutti_mesh_axis("shard", 0, sizes, 2, 1);
        w->axes[1] = tutti_mesh_axis("across", 0, sizes, 2, 0);
        w->axis_count = 2;
    }
    status = w->plan.params.rank_count > 1 ? tutti_writer_need_all(w, err) : 0;
    if (status == 0)
        status = open_builder(w, err);
    if (status < 0)
        return status;
    write_all(w);
    status = tutti_builder_finish(w->builder, ret, err);
    w->builder = NULL;
    return status;
}

int tutti_strategy_schedule(const struct tutti_strategy_params *params, struct tutti_schedule **ret,
                            struct tutti_err *err)
{
    struct tutti_strategy_params own;
    struct tutti_step_writer w = {.builder = NULL};
    struct tutti_arena *arena;
    int status = tutti_take("tutti_strategy_params", &own, sizeof(own), params,
                            TUTTI_BYTES_TO(struct tutti_strategy_params, context), err);

    if (status < 0)
        return status;
    arena = tutti_arena_new();
    if (arena == NULL)
        return tutti_nomem(err);
    status = tutti_plan_make(&own, arena, &w.plan, err);
    if (status == 0)
        status = write_step(&w, ret, err);
    tutti_builder_free(w.builder);
    for (uint32_t i = 0; i < w.callee_count; i++)
        tutti_schedule_free(w.callees[i].schedule);
    tutti_arena_free(arena);
    return status;
}
