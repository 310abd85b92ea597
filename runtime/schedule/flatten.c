/* The same schedule without CALL steps: any round of it, computed from the caller, the callees and
 * the tables of flatten_plan.c. */
#include "runtime/schedule/flatten.h"

#include <assert.h>

#include "runtime/arena.h"
#include "runtime/status.h"

/* ---- without callees: a pass-through --------------------------------------------------------- */

/* A schedule without callees seen through another, so that both can be freed alike. */
struct passed_schedule {
    struct tutti_schedule base;
    struct tutti_schedule_ops ops;
    const struct tutti_schedule *inner;
};

static const struct tutti_schedule *passed_inner(const struct tutti_schedule *schedule)
{
    return ((const struct passed_schedule *)schedule)->inner;
}

static uint64_t passed_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->round_count(inner, rank, lane);
}

static void passed_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    inner->ops->emit(inner, rank, lane, round, out);
}

static void passed_emit_run(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            uint64_t round, uint32_t count, struct tutti_round *out)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    inner->ops->emit_run(inner, rank, lane, round, count, out);
}

static uint32_t passed_partners(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                                struct tutti_partners *out, uint32_t capacity)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->partners(inner, rank, lane, out, capacity);
}

static uint32_t passed_relays(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              uint64_t round, uint32_t count, struct tutti_relays *ret)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->relays(inner, rank, lane, round, count, ret);
}

static uint32_t passed_ring_phases(const struct tutti_schedule *schedule, uint32_t lane,
                                   struct tutti_ring_phase *out, uint32_t capacity)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->ring_phases(inner, lane, out, capacity);
}

static bool passed_ring_chunk(const struct tutti_schedule *schedule, uint32_t lane, uint32_t rank,
                              struct tutti_ring_phase *ret)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->ring_chunk(inner, lane, rank, ret);
}

static uint64_t passed_steady(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              uint64_t round, uint64_t *ret_period)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->steady(inner, rank, lane, round, ret_period);
}

static bool passed_exchange(const struct tutti_schedule *schedule, uint32_t lane, uint64_t part,
                            uint32_t rank, struct tutti_exchange *ret)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->exchange(inner, lane, part, rank, ret);
}

static uint64_t passed_program(const struct tutti_schedule *schedule, uint32_t rank)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    return inner->ops->program(inner, rank);
}

static void passed_sizes(const struct tutti_schedule *schedule, uint32_t rank,
                         struct tutti_buf_sizes *ret)
{
    const struct tutti_schedule *inner = passed_inner(schedule);

    inner->ops->sizes(inner, rank, ret);
}

/* All that the inner schedule says of itself, and no more. */
static struct tutti_schedule_ops passed_ops(const struct tutti_schedule_ops *inner)
{
    return (struct tutti_schedule_ops){
        .size = sizeof(struct tutti_schedule_ops),
        .round_count = passed_round_count,
        .emit = passed_emit,
        .emit_run = inner->emit_run == NULL ? NULL : passed_emit_run,
        .partners = inner->partners == NULL ? NULL : passed_partners,
        .relays = inner->relays == NULL ? NULL : passed_relays,
        .ring_phases = inner->ring_phases == NULL ? NULL : passed_ring_phases,
        .ring_chunk = inner->ring_chunk == NULL ? NULL : passed_ring_chunk,
        .steady = inner->steady == NULL ? NULL : passed_steady,
        .exchange = inner->exchange == NULL ? NULL : passed_exchange,
        .program = inner->program == NULL ? NULL : passed_program,
        .sizes = inner->sizes == NULL ? NULL : passed_sizes,
    };
}

static int pass(const struct tutti_schedule *schedule, struct tutti_schedule **ret,
                struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct passed_schedule *passed =
        arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*passed));

    if (passed == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    passed->base = *schedule;
    passed->ops = passed_ops(schedule->ops);
    passed->base.ops = &passed->ops;
    passed->base.arena = arena;
    passed->base.recipe_count = 0; /* that is the inner one's */
    passed->inner = schedule;
    *ret = &passed->base;
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static const struct tutti_flat_lane *lane_of(const struct tutti_flat_schedule *flat, uint32_t rank,
                                             uint32_t lane)
{
    return &flat->lanes[(size_t)rank * flat->inner->lane_count + lane];
}

/* Moves no bytes: waits for a step, and is waited for. */
static struct tutti_step wait_for(uint32_t lane, uint64_t index)
{
    return (struct tutti_step){.kind = TUTTI_COPY,
                               .flags = TUTTI_STEP_DEP,
                               .dep_lane = (uint16_t)lane,
                               .dep_step = (uint32_t)index};
}

static void put(struct tutti_round *out, struct tutti_step step)
{
    assert(out->step_count < TUTTI_ROUND_STEPS_MAX);
    out->step[out->step_count++] = step;
}

/* Where step `index` of a caller's lane stands now; a CALL: its last join, which is its end. */
static uint64_t moved(const struct tutti_flat_lane *l, uint64_t index)
{
    size_t low = 0;
    size_t high = l->site_count;

    while (low < high) { /* the first site behind the step */
        size_t middle = low + (high - low) / 2;

        if (l->sites[middle].index <= index)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return index;
    return index + l->sites[low - 1].extra_before + l->sites[low - 1].part_count;
}

static struct tutti_step move_dependency(const struct tutti_flat_schedule *flat, uint32_t rank,
                                         struct tutti_step step)
{
    if ((step.flags & TUTTI_STEP_DEP) != 0)
        step.dep_step = (uint32_t)moved(lane_of(flat, rank, step.dep_lane), step.dep_step);
    return step;
}

/* ---- the caller's lanes ---------------------------------------------------------------------- */

/* Steps [skip, skip + room of the round) of those that a CALL becomes. */
static void emit_call(const struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                      const struct tutti_flat_site *site, uint64_t skip, struct tutti_round *out)
{
    uint32_t first = flat->first[tutti_flat_block(flat, lane, site)];
    uint64_t at = 1;

    if (skip == 0) {
        struct tutti_step fork = {.kind = TUTTI_COPY,
                                  .flags = site->call.flags,
                                  .dep_lane = site->call.dep_lane,
                                  .dep_step = site->call.dep_step};

        put(out, move_dependency(flat, rank, fork));
    }
    for (uint32_t d = 0; at <= site->part_count && out->step_count < TUTTI_ROUND_STEPS_MAX; d++) {
        const struct tutti_flat_part *part = tutti_flat_part_of(flat, site, d);

        if (part->step_count > 0 && at++ >= skip)
            put(out,
                wait_for(first + d, site->places[d].first_step + tutti_flat_part_steps(part) - 1));
    }
}

/* 16 steps at a time of a round that has calls. */
static void emit_expanded(const struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                          const struct tutti_flat_segment *segment, uint64_t round,
                          struct tutti_round *out)
{
    const struct tutti_flat_site *site = &lane_of(flat, rank, lane)->sites[segment->site];
    uint64_t skip = (round - segment->first_round) * TUTTI_ROUND_STEPS_MAX;
    struct tutti_round batch;

    batch.step_count = 0;
    flat->inner->ops->emit(flat->inner, rank, lane, segment->inner_round, &batch);
    for (uint32_t i = 0; i < batch.step_count && out->step_count < TUTTI_ROUND_STEPS_MAX; i++) {
        bool call = batch.step[i].kind == TUTTI_CALL;
        uint64_t length = call ? 1 + (uint64_t)site->part_count : 1;

        if (skip < length) {
            if (call)
                emit_call(flat, rank, lane, site, skip, out);
            else
                put(out, move_dependency(flat, rank, batch.step[i]));
            length = skip;
        }
        skip -= length;
        site += call;
    }
}

static void emit_caller(const struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct tutti_flat_lane *l = lane_of(flat, rank, lane);
    const struct tutti_flat_segment *segment;
    size_t low = 0;
    size_t high = l->segment_count;

    while (high - low > 1) { /* the last segment that begins at this round or before */
        size_t middle = low + (high - low) / 2;

        if (l->segments[middle].first_round <= round)
            low = middle;
        else
            high = middle;
    }
    segment = l->segment_count == 0 ? NULL : &l->segments[low];
    if (segment != NULL && segment->expanded) {
        emit_expanded(flat, rank, lane, segment, round, out);
        return;
    }
    if (segment != NULL)
        round = round - segment->first_round + segment->inner_round;
    flat->inner->ops->emit(flat->inner, rank, lane, round, out);
    for (uint32_t i = 0; i < out->step_count; i++)
        out->step[i] = move_dependency(flat, rank, out->step[i]);
}

/* ---- the callees' lanes ---------------------------------------------------------------------- */

/* A place in a buffer of the callee is one in a buffer of the caller. */
static void move_place(const struct tutti_step *call, uint8_t *buf, uint64_t *offset)
{
    switch (*buf) {
    case TUTTI_BUF_IN:
        *buf = call->src_buf;
        *offset += call->src_offset;
        break;
    case TUTTI_BUF_OUT:
        *buf = call->dst_buf;
        *offset += call->dst_offset;
        break;
    case TUTTI_BUF_SCRATCH:
        *offset += call->acc_offset;
        break;
    default:
        break;
    }
}

static struct tutti_step move_step(const struct tutti_flat_schedule *flat, uint32_t caller_lane,
                                   const struct tutti_flat_site *site, struct tutti_step step)
{
    const struct tutti_flat_callee *callee = &flat->callees[site->call.peer];
    bool last = (step.flags & TUTTI_STEP_LAST) != 0;

    if ((step.flags & TUTTI_STEP_DEP) != 0) { /* behind the fork */
        step.dep_step = (uint32_t)(site->places[step.dep_lane].first_step + 1 + step.dep_step);
        step.dep_lane =
            (uint16_t)(flat->first[tutti_flat_block(flat, caller_lane, site)] + step.dep_lane);
    }
    if (step.kind == TUTTI_SEND || step.kind == TUTTI_RECV)
        step.peer = tutti_axis_rank(&flat->axes[site->call.axis], site->group, step.peer);
    if ((step.kind == TUTTI_REDUCE || last) && step.reduction == 0)
        step.reduction = callee->reduction;
    if (last && step.peer == 0)
        step.peer = callee->divisor;
    if (step.kind == TUTTI_RECV || step.kind == TUTTI_REDUCE || step.kind == TUTTI_COPY)
        move_place(&site->call, &step.dst_buf, &step.dst_offset);
    if (step.kind == TUTTI_SEND || step.kind == TUTTI_REDUCE || step.kind == TUTTI_COPY)
        move_place(&site->call, &step.src_buf, &step.src_offset);
    if (step.kind == TUTTI_REDUCE)
        move_place(&site->call, &step.acc_buf, &step.acc_offset);
    /* Called in place, what an algorithm copies from in to out may lie there already. */
    if (step.kind == TUTTI_COPY && !last && step.dst_buf == step.src_buf &&
        step.dst_offset == step.src_offset)
        step.bytes = 0;
    return step;
}

/* The last site of an axis whose part of lane d begins at this round or before; parts without
 * rounds begin where the next one does. */
static const struct tutti_flat_site *site_of(const struct tutti_flat_lane *l, uint32_t axis,
                                             uint32_t d, uint64_t round)
{
    const struct tutti_flat_turns *turns = &l->turns[axis];
    size_t low = 0;
    size_t high = turns->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (l->sites[turns->sites[middle]].places[d].first_round <= round)
            low = middle;
        else
            high = middle;
    }
    return &l->sites[turns->sites[low]];
}

static void emit_callee(const struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    uint32_t block = flat->owner[lane - flat->inner->lane_count];
    uint32_t caller_lane = block / flat->axis_count;
    uint32_t d = lane - flat->first[block];
    const struct tutti_flat_lane *l = lane_of(flat, rank, caller_lane);
    const struct tutti_flat_site *site = site_of(l, block % flat->axis_count, d, round);
    const struct tutti_flat_place *place = &site->places[d];
    const struct tutti_flat_part *part = tutti_flat_part_of(flat, site, d);
    const struct tutti_flat_callee *callee = &flat->callees[site->call.peer];
    uint64_t q = round - place->first_round;
    uint64_t join;

    assert(part != NULL && q < tutti_flat_part_rounds(part));
    if (q == 0) {
        put(out, wait_for(caller_lane, site->index + site->extra_before));
        return;
    }
    if (q <= part->round_count) {
        callee->schedule->ops->emit(callee->schedule, site->member, d, q - 1, out);
        for (uint32_t i = 0; i < out->step_count; i++)
            out->step[i] = move_step(flat, caller_lane, site, out->step[i]);
        return;
    }
    join = (q - 1 - part->round_count) * TUTTI_ROUND_STEPS_MAX;
    for (; join < part->join_count && out->step_count < TUTTI_ROUND_STEPS_MAX; join++)
        put(out, wait_for(lane, place->first_step + 1 + callee->joins[part->first_join + join]));
}

/* ---- the whole ------------------------------------------------------------------------------- */

static uint64_t flat_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                 uint32_t lane)
{
    const struct tutti_flat_schedule *flat = (const struct tutti_flat_schedule *)schedule;
    const struct tutti_flat_part *part;
    const struct tutti_flat_lane *l;
    const struct tutti_flat_turns *turns;
    const struct tutti_flat_site *last;
    uint32_t block;
    uint32_t d;

    if (lane < flat->inner->lane_count) {
        l = lane_of(flat, rank, lane);
        return l->site_count > 0 ? l->round_count
                                 : flat->inner->ops->round_count(flat->inner, rank, lane);
    }
    block = flat->owner[lane - flat->inner->lane_count];
    l = lane_of(flat, rank, block / flat->axis_count);
    turns = l->site_count == 0 ? NULL : &l->turns[block % flat->axis_count];
    if (turns == NULL || turns->count == 0)
        return 0;
    d = lane - flat->first[block];
    last = &l->sites[turns->sites[turns->count - 1]];
    part = tutti_flat_part_of(flat, last, d);
    return last->places[d].first_round + (part == NULL ? 0 : tutti_flat_part_rounds(part));
}

static void flat_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                      uint64_t round, struct tutti_round *out)
{
    const struct tutti_flat_schedule *flat = (const struct tutti_flat_schedule *)schedule;

    if (lane < flat->inner->lane_count)
        emit_caller(flat, rank, lane, round, out);
    else
        emit_callee(flat, rank, lane, round, out);
}

static void flat_sizes(const struct tutti_schedule *schedule, uint32_t rank,
                       struct tutti_buf_sizes *ret)
{
    tutti_schedule_buf_sizes(((const struct tutti_flat_schedule *)schedule)->inner, rank, ret);
}

static const struct tutti_schedule_ops flat_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = flat_round_count,
    .emit = flat_emit,
    .sizes = flat_sizes,
};

int tutti_schedule_flatten(const struct tutti_schedule *schedule, struct tutti_schedule **ret,
                           struct tutti_err *err)
{
    struct tutti_arena *arena;
    struct tutti_flat_schedule *flat;
    int status;

    if (schedule->callee_count == 0)
        return pass(schedule, ret, err);
    arena = tutti_arena_new();
    flat = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*flat));
    if (flat == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    flat->base = *schedule;
    flat->base.ops = &flat_ops;
    flat->base.arena = arena;
    flat->base.recipe_count = 0;
    flat->base.callee_count = 0;
    flat->base.callees = NULL;
    flat->inner = schedule;
    status = tutti_flat_plan(flat, err);
    if (status < 0) {
        tutti_arena_free(arena);
        return status;
    }
    *ret = &flat->base;
    return 0;
}
