/* Lays out calls: finds the call sites of every rank and decides which steps go where. */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/flatten.h"
#include "runtime/schedule/step.h"
#include "runtime/status.h"

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

uint64_t tutti_flat_part_steps(const struct tutti_flat_part *part)
{
    return part->step_count == 0 ? 0 : 1 + part->step_count + part->join_count;
}

uint64_t tutti_flat_part_rounds(const struct tutti_flat_part *part)
{
    if (part->step_count == 0)
        return 0;
    return 1 + part->round_count + div_up(part->join_count, TUTTI_ROUND_STEPS_MAX);
}

const struct tutti_flat_part *tutti_flat_part_of(const struct tutti_flat_schedule *flat,
                                                 const struct tutti_flat_site *site, uint32_t lane)
{
    const struct tutti_flat_callee *callee = &flat->callees[site->call.peer];

    if (lane >= callee->schedule->lane_count)
        return NULL;
    return &callee->parts[(size_t)site->member * callee->schedule->lane_count + lane];
}

/* ---- callees --------------------------------------------------------------------------------- */

static int check_callee(const struct tutti_schedule *caller, const struct tutti_schedule *callee,
                        struct tutti_err *err)
{
    if (callee->callee_count > 0)
        return tutti_fail(err, TUTTI_EINVAL, "callee '%s' has callees itself (one level)",
                          callee->name);
    if (callee->work_count > 0 || callee->state_bytes > 0 || callee->axis_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "callee '%s' has work, state or axes of its own (the caller's alone)",
                          callee->name);
    if (callee->rank_count > caller->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "callee '%s' has '%u' ranks (at most %u, the caller's)", callee->name,
                          callee->rank_count, caller->rank_count);
    if (callee->slot_count != caller->slot_count)
        return tutti_fail(err, TUTTI_EINVAL, "callee '%s' has '%u' slots (%u, as the caller)",
                          callee->name, callee->slot_count, caller->slot_count);
    return 0;
}

/* That the step a dependency names is there; its lane is valid. `counts` are steps by lane. */
static int check_dependency(const uint64_t *counts, uint32_t rank, uint32_t lane, uint64_t index,
                            const struct tutti_step *step, struct tutti_err *err)
{
    char where[TUTTI_STEP_WHERE_BYTES];

    if ((step->flags & TUTTI_STEP_DEP) == 0 || step->dep_step < counts[step->dep_lane])
        return 0;
    return tutti_fail(err, TUTTI_ECHECK,
                      "%s: depends on step '%u' of lane %u (which has %" PRIu64 " steps)",
                      tutti_step_where(rank, lane, index, step, where), step->dep_step,
                      step->dep_lane, counts[step->dep_lane]);
}

/* Every rule that the steps of a rank obey by themselves. */
static int check_rank(const struct tutti_schedule *s, uint32_t rank, const uint64_t *counts,
                      struct tutti_err *err)
{
    int status = 0;

    for (uint32_t lane = 0; lane < s->lane_count && status == 0; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        if (counts[lane] >= UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "rank %u, lane %u has 2^32 steps or more", rank,
                              lane);
        tutti_cursor_open(&cursor, s, rank, lane);
        while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
            status = tutti_step_valid(s, rank, lane, cursor.step_index - 1, step, err);
            if (status == 0)
                status = check_dependency(counts, rank, lane, cursor.step_index - 1, step, err);
        }
    }
    return status;
}

static int check_steps(const struct tutti_schedule *s, struct tutti_err *err)
{
    uint64_t *counts = calloc(s->lane_count, sizeof(*counts));
    int status = counts == NULL ? tutti_nomem(err) : 0;

    for (uint32_t rank = 0; rank < s->rank_count && status == 0; rank++) {
        for (uint32_t lane = 0; lane < s->lane_count; lane++)
            counts[lane] = tutti_schedule_step_count(s, rank, lane);
        status = check_rank(s, rank, counts, err);
    }
    free(counts);
    return status;
}

/* The last SEND to each peer, in the order of their first SENDs, behind those found before. */
struct joins {
    uint32_t *found; /* indices of SENDs, growing */
    size_t count;
    size_t capacity;
    size_t *of_peer; /* [rank]: position in `found`, or SIZE_MAX */
};

static int note_send(struct joins *joins, size_t first, const struct tutti_step *step,
                     uint64_t index)
{
    size_t *at = &joins->of_peer[step->peer];

    /* Positions before `first` belong to lanes that were walked before. */
    if (*at != SIZE_MAX && *at >= first) {
        joins->found[*at] = (uint32_t)index;
        return 0;
    }
    if (joins->count == joins->capacity) {
        size_t capacity = joins->capacity == 0 ? 64 : joins->capacity * 2;
        uint32_t *found = realloc(joins->found, capacity * sizeof(*found));

        if (found == NULL)
            return -TUTTI_ENOMEM;
        joins->found = found;
        joins->capacity = capacity;
    }
    *at = joins->count;
    joins->found[joins->count++] = (uint32_t)index;
    return 0;
}

static int measure_part(const struct tutti_schedule *s, uint32_t rank, uint32_t lane,
                        struct joins *joins, struct tutti_flat_part *part)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    size_t first = joins->count;

    tutti_cursor_open(&cursor, s, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL)
        if (step->kind == TUTTI_SEND && note_send(joins, first, step, cursor.step_index - 1) < 0)
            return -TUTTI_ENOMEM;
    *part = (struct tutti_flat_part){.step_count = cursor.step_index,
                                     .round_count = s->ops->round_count(s, rank, lane),
                                     .first_join = first,
                                     .join_count = (uint32_t)(joins->count - first)};
    return 0;
}

static int measure_callee(struct tutti_flat_callee *callee, struct tutti_arena *arena,
                          struct joins *joins)
{
    const struct tutti_schedule *s = callee->schedule;
    size_t part = 0;

    callee->parts =
        tutti_arena_take(arena, (size_t)s->rank_count * s->lane_count, sizeof(*callee->parts));
    if (callee->parts == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        joins->of_peer[rank] = SIZE_MAX;
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint32_t lane = 0; lane < s->lane_count; lane++, part++)
            if (measure_part(s, rank, lane, joins, &callee->parts[part]) < 0)
                return -TUTTI_ENOMEM;
    callee->joins = tutti_arena_take(arena, joins->count, sizeof(*callee->joins));
    for (size_t i = 0; i < joins->count && callee->joins != NULL; i++)
        callee->joins[i] = joins->found[i];
    return callee->joins == NULL ? -TUTTI_ENOMEM : 0;
}

static int plan_callee(struct tutti_flat_schedule *flat, struct tutti_flat_callee *callee,
                       struct tutti_err *err)
{
    const struct tutti_schedule *s = callee->schedule;
    struct joins joins = {.of_peer = calloc(s->rank_count, sizeof(*joins.of_peer))};
    const struct tutti_contract *ours = &flat->inner->contract;
    int status = check_callee(flat->inner, s, err);

    if (status == 0) {
        status = check_steps(s, err);
        if (status < 0)
            status = tutti_wrap(err, status, "callee '%s'", s->name);
    }
    if (s->contract.dtype != ours->dtype || s->contract.op != ours->op)
        callee->reduction = tutti_reduction_code(s->contract.dtype, s->contract.op);
    if (s->rank_count != flat->inner->rank_count)
        callee->divisor = s->rank_count;
    if (status == 0 &&
        (joins.of_peer == NULL || measure_callee(callee, flat->base.arena, &joins) < 0))
        status = tutti_nomem(err);
    free(joins.of_peer);
    free(joins.found);
    return status;
}

/* ---- the caller ------------------------------------------------------------------------------ */

static struct tutti_flat_lane *lane_of(const struct tutti_flat_schedule *flat, uint32_t rank,
                                       uint32_t lane)
{
    return &flat->lanes[(size_t)rank * flat->inner->lane_count + lane];
}

/* Counts the sites of a lane, and how many lanes the callees of each block have at most. */
static void count_sites(struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;

    tutti_cursor_open(&cursor, flat->inner, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        uint32_t *width = &flat->width[lane * flat->axis_count + step->axis];
        uint32_t wide;

        if (step->kind != TUTTI_CALL)
            continue;
        wide = flat->callees[step->peer].schedule->lane_count;
        lane_of(flat, rank, lane)->site_count++;
        *width = *width > wide ? *width : wide;
    }
}

static int place_lanes(struct tutti_flat_schedule *flat, struct tutti_err *err)
{
    const uint32_t block_count = flat->inner->lane_count * flat->axis_count;
    uint64_t next = flat->inner->lane_count;

    for (uint32_t block = 0; block < block_count; block++) {
        flat->first[block] = (uint32_t)next;
        next += flat->width[block];
        if (next > TUTTI_LANES_MAX)
            return tutti_fail(err, TUTTI_EINVAL,
                              "schedule '%s' with its calls laid out has more than '%d' lanes",
                              flat->inner->name, TUTTI_LANES_MAX);
    }
    flat->base.lane_count = (uint32_t)next;
    flat->owner = tutti_arena_take(flat->base.arena, (size_t)next - flat->inner->lane_count,
                                   sizeof(*flat->owner));
    if (flat->owner == NULL)
        return tutti_nomem(err);
    for (uint32_t block = 0; block < block_count; block++)
        for (uint32_t i = 0; i < flat->width[block]; i++)
            flat->owner[flat->first[block] - flat->inner->lane_count + i] = block;
    return 0;
}

/* Where the site begins in the lanes of its block: where the one before it there, `turn`, ends. */
static int place_parts(struct tutti_flat_schedule *flat, uint32_t lane,
                       struct tutti_flat_site *site, const struct tutti_flat_site *turn,
                       struct tutti_err *err)
{
    const struct tutti_flat_part *part;
    uint32_t width = flat->width[tutti_flat_block(flat, lane, site)];

    site->places = tutti_arena_take(flat->base.arena, width, sizeof(*site->places));
    if (site->places == NULL)
        return tutti_nomem(err);
    for (uint32_t d = 0; d < width; d++) {
        struct tutti_flat_place *place = &site->places[d];

        if (turn != NULL) {
            *place = turn->places[d];
            part = tutti_flat_part_of(flat, turn, d);
            place->first_step += part == NULL ? 0 : tutti_flat_part_steps(part);
            place->first_round += part == NULL ? 0 : tutti_flat_part_rounds(part);
        }
        part = tutti_flat_part_of(flat, site, d);
        site->part_count += part != NULL && part->step_count > 0;
        if (part != NULL && place->first_step + tutti_flat_part_steps(part) >= UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL,
                              "the calls of lane %u, laid out, have 2^32 steps or more", lane);
    }
    return 0;
}

/* The next site of a lane, which is at number l->site_count. */
static int place_site(struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                      const struct tutti_step *call, uint64_t index, struct tutti_err *err)
{
    struct tutti_flat_lane *l = lane_of(flat, rank, lane);
    struct tutti_flat_site *site = &l->sites[l->site_count];
    struct tutti_flat_turns *turns = &l->turns[call->axis];
    const struct tutti_flat_site *turn =
        turns->count == 0 ? NULL : &l->sites[turns->sites[turns->count - 1]];
    int status;

    site->call = *call;
    site->index = index;
    (void)tutti_axis_find(&flat->axes[call->axis], rank, &site->group, &site->member);
    if (l->site_count > 0)
        site->extra_before = site[-1].extra_before + site[-1].part_count;
    status = place_parts(flat, lane, site, turn, err);
    turns->sites[turns->count++] = l->site_count++;
    return status < 0 ? tutti_wrap(err, status, "rank %u", rank) : 0;
}

/* Notes the sites of a round and the segment it belongs to; `round` is the caller's. */
static int plan_round(struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                      uint64_t round, uint64_t *step_index, struct tutti_err *err)
{
    struct tutti_flat_lane *l = lane_of(flat, rank, lane);
    struct tutti_flat_segment segment = {
        .first_round = l->round_count, .inner_round = round, .site = l->site_count};
    struct tutti_round batch;
    uint64_t steps = 0;
    int status = 0;

    batch.step_count = 0;
    flat->inner->ops->emit(flat->inner, rank, lane, round, &batch);
    for (uint32_t i = 0; i < batch.step_count && status == 0; i++, steps++, ++*step_index) {
        if (batch.step[i].kind != TUTTI_CALL)
            continue;
        status = place_site(flat, rank, lane, &batch.step[i], *step_index, err);
        steps += l->sites[l->site_count - 1].part_count;
        segment.expanded = true;
    }
    if (segment.expanded || l->segment_count == 0 || l->segments[l->segment_count - 1].expanded)
        l->segments[l->segment_count++] = segment;
    l->round_count += segment.expanded ? div_up(steps, TUTTI_ROUND_STEPS_MAX) : 1;
    return status;
}

static int plan_lane(struct tutti_flat_schedule *flat, uint32_t rank, uint32_t lane,
                     struct tutti_err *err)
{
    struct tutti_flat_lane *l = lane_of(flat, rank, lane);
    struct tutti_arena *arena = flat->base.arena;
    uint64_t round_count = flat->inner->ops->round_count(flat->inner, rank, lane);
    uint64_t step_index = 0;
    size_t count = l->site_count;
    int status = 0;

    if (count == 0)
        return 0;
    l->site_count = 0;
    l->sites = tutti_arena_take(arena, count, sizeof(*l->sites));
    /* A segment for each round with sites, and one before, between and after them. */
    l->segments = tutti_arena_take(arena, 2 * count + 1, sizeof(*l->segments));
    l->turns = tutti_arena_take(arena, flat->axis_count, sizeof(*l->turns));
    if (l->sites == NULL || l->segments == NULL || l->turns == NULL)
        return tutti_nomem(err);
    for (uint32_t axis = 0; axis < flat->axis_count; axis++) {
        /* Axes that are not called from here need none. */
        size_t most = flat->width[lane * flat->axis_count + axis] > 0 ? count : 0;

        l->turns[axis].sites = tutti_arena_take(arena, most, sizeof(*l->turns[axis].sites));
        if (l->turns[axis].sites == NULL)
            return tutti_nomem(err);
    }
    for (uint64_t round = 0; round < round_count && status == 0; round++)
        status = plan_round(flat, rank, lane, round, &step_index, err);
    if (status == 0 &&
        step_index + l->sites[count - 1].extra_before + l->sites[count - 1].part_count >=
            UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "rank %u, lane %u has 2^32 steps or more", rank, lane);
    return status;
}

static int plan_caller(struct tutti_flat_schedule *flat, struct tutti_err *err)
{
    const struct tutti_schedule *s = flat->inner;
    int status;

    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint32_t lane = 0; lane < s->lane_count; lane++)
            count_sites(flat, rank, lane);
    status = place_lanes(flat, err);
    for (uint32_t rank = 0; rank < s->rank_count && status == 0; rank++)
        for (uint32_t lane = 0; lane < s->lane_count && status == 0; lane++)
            status = plan_lane(flat, rank, lane, err);
    return status;
}

static int take_tables(struct tutti_flat_schedule *flat)
{
    const struct tutti_schedule *s = flat->inner;
    struct tutti_arena *arena = flat->base.arena;
    size_t block_count;

    flat->axis_count = s->axis_count + 1;
    block_count = (size_t)s->lane_count * flat->axis_count;
    flat->axes = tutti_arena_take(arena, flat->axis_count, sizeof(*flat->axes));
    flat->callees = tutti_arena_take(arena, s->callee_count, sizeof(*flat->callees));
    flat->lanes =
        tutti_arena_take(arena, (size_t)s->rank_count * s->lane_count, sizeof(*flat->lanes));
    flat->first = tutti_arena_take(arena, block_count, sizeof(*flat->first));
    flat->width = tutti_arena_take(arena, block_count, sizeof(*flat->width));
    if (flat->axes == NULL || flat->callees == NULL || flat->lanes == NULL || flat->first == NULL ||
        flat->width == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t axis = 0; axis < flat->axis_count; axis++)
        flat->axes[axis] = tutti_schedule_axis(s, axis);
    return 0;
}

int tutti_flat_plan(struct tutti_flat_schedule *flat, struct tutti_err *err)
{
    const struct tutti_schedule *s = flat->inner;
    int status = 0;

    if (take_tables(flat) < 0)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < s->callee_count && status == 0; i++) {
        flat->callees[i].schedule = s->callees[i];
        status = plan_callee(flat, &flat->callees[i], err);
    }
    if (status == 0)
        status = check_steps(s, err);
    return status < 0 ? status : plan_caller(flat, err);
}
