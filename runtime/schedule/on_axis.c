/* A collective played by all groups of an axis at once. */
#include <assert.h>
#include <stdbool.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/schedule/axis.h"
#include "runtime/status.h"

enum { PHASES_MAX = 16 };

struct on_axis {
    struct tutti_schedule base;
    struct tutti_schedule_ops ops;
    const struct tutti_schedule *callee;
    struct tutti_axis axis;
    bool tiles; /* all ranks are in groups, in order: group and member follow from two divisions */
};

static const struct on_axis *of(const struct tutti_schedule *schedule)
{
    return (const struct on_axis *)schedule;
}

static uint64_t spread_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct on_axis *s = of(schedule);
    uint32_t group;
    uint32_t member;

    if (!tutti_axis_find(&s->axis, rank, &group, &member))
        return 0;
    return s->callee->ops->round_count(s->callee, member, lane);
}

static void name_peers(const struct on_axis *s, uint32_t group, struct tutti_round *out)
{
    for (uint32_t i = 0; i < out->step_count; i++) {
        struct tutti_step *step = &out->step[i];

        if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV)
            step->peer = tutti_axis_rank(&s->axis, group, step->peer);
        else if ((step->flags & TUTTI_STEP_LAST) != 0 && step->peer == 0)
            step->peer = s->axis.size; /* avg divides by the members */
    }
}

static void spread_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct on_axis *s = of(schedule);
    uint32_t group = 0;
    uint32_t member = 0;
    bool found = tutti_axis_find(&s->axis, rank, &group, &member);

    assert(found);
    s->callee->ops->emit(s->callee, member, lane, round, out);
    name_peers(s, group, out);
}

static void spread_emit_run(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            uint64_t round, uint32_t count, struct tutti_round *out)
{
    const struct on_axis *s = of(schedule);
    uint32_t group = 0;
    uint32_t member = 0;
    bool found = tutti_axis_find(&s->axis, rank, &group, &member);

    assert(found);
    s->callee->ops->emit_run(s->callee, member, lane, round, count, out);
    for (uint32_t i = 0; i < count; i++)
        name_peers(s, group, &out[i]);
}

static uint32_t spread_partners(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                                struct tutti_partners *out, uint32_t capacity)
{
    const struct on_axis *s = of(schedule);
    uint32_t group = 0;
    uint32_t member = 0;
    uint32_t count;

    if (!s->tiles || !tutti_axis_find(&s->axis, rank, &group, &member))
        return 0; /* programs differ */
    count = s->callee->ops->partners(s->callee, member, lane, out, capacity);
    for (uint32_t i = 0; i < count && i < capacity; i++) {
        out[i].to = tutti_axis_rank(&s->axis, group, out[i].to);
        out[i].from = tutti_axis_rank(&s->axis, group, out[i].from);
    }
    return count;
}

static uint32_t spread_relays(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              uint64_t round, uint32_t count, struct tutti_relays *ret)
{
    const struct on_axis *s = of(schedule);
    uint32_t group = 0;
    uint32_t member = 0;
    uint32_t relays;

    if (!tutti_axis_find(&s->axis, rank, &group, &member))
        return 0;
    relays = s->callee->ops->relays(s->callee, member, lane, round, count, ret);
    if (relays > 0) {
        ret->from = tutti_axis_rank(&s->axis, group, ret->from);
        ret->to = tutti_axis_rank(&s->axis, group, ret->to);
    }
    return relays;
}

/* Rings of members are rings of ranks, so many times as far apart; where the one ring of all has an
 * order of its own, there are several such rings now, which no phase can say. */
static uint32_t spread_ring_phases(const struct tutti_schedule *schedule, uint32_t lane,
                                   struct tutti_ring_phase *out, uint32_t capacity)
{
    const struct on_axis *s = of(schedule);
    struct tutti_ring_phase phases[PHASES_MAX];
    uint32_t count =
        s->tiles ? s->callee->ops->ring_phases(s->callee, lane, phases, PHASES_MAX) : 0;

    if (count > PHASES_MAX)
        return 0;
    for (uint32_t i = 0; i < count; i++) { /* of those that are only counted, too */
        if (phases[i].order != NULL ||
            s->axis.size % ((uint64_t)phases[i].size * phases[i].stride) != 0)
            return 0;
        phases[i].stride *= s->axis.stride;
        if (i < capacity)
            out[i] = phases[i];
    }
    return count;
}

static bool spread_ring_chunk(const struct tutti_schedule *schedule, uint32_t lane, uint32_t rank,
                              struct tutti_ring_phase *ret)
{
    const struct on_axis *s = of(schedule);
    uint32_t group = 0;
    uint32_t member = 0;

    if (!s->tiles || !tutti_axis_find(&s->axis, rank, &group, &member) ||
        !s->callee->ops->ring_chunk(s->callee, lane, member, ret) || ret->order != NULL ||
        s->axis.size % ((uint64_t)ret->size * ret->stride) != 0)
        return false;
    ret->stride *= s->axis.stride;
    return true;
}

static uint64_t spread_steady(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              uint64_t round, uint64_t *ret_period)
{
    const struct on_axis *s = of(schedule);
    uint32_t group = 0;
    uint32_t member = 0;

    if (!tutti_axis_find(&s->axis, rank, &group, &member))
        return 0;
    return s->callee->ops->steady(s->callee, member, lane, round, ret_period);
}

/* An exchange with all other ranks stays one only where the group is all of them. */
static struct tutti_schedule_ops spread_ops(const struct tutti_schedule_ops *callee)
{
    return (struct tutti_schedule_ops){
        .size = sizeof(struct tutti_schedule_ops),
        .round_count = spread_round_count,
        .emit = spread_emit,
        .emit_run = callee->emit_run == NULL ? NULL : spread_emit_run,
        .partners = callee->partners == NULL ? NULL : spread_partners,
        .relays = callee->relays == NULL ? NULL : spread_relays,
        .ring_phases = callee->ring_phases == NULL ? NULL : spread_ring_phases,
        .ring_chunk = callee->ring_chunk == NULL ? NULL : spread_ring_chunk,
        .steady = callee->steady == NULL ? NULL : spread_steady,
    };
}

int tutti_schedule_on_axis(const struct tutti_schedule *callee, const struct tutti_axis *axis,
                           uint32_t rank_count, struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_arena *arena;
    struct on_axis *s;
    int status = tutti_axis_valid(axis, rank_count, err);

    if (status < 0)
        return status;
    if (callee->rank_count != axis->size || callee->callee_count + callee->work_count > 0 ||
        callee->state_bytes > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "callee '%s' of '%u' ranks on axis '%s' (of %u ranks, without callees, "
                          "work or state)",
                          callee->name, callee->rank_count, axis->name, axis->size);
    arena = tutti_arena_new();
    s = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*s));
    if (s == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    *s = (struct on_axis){.base = *callee, .callee = callee, .axis = *axis};
    s->tiles = axis->first == 0 && axis->width == axis->stride &&
               axis->period == axis->stride * axis->size &&
               (uint64_t)axis->period * axis->repeat == rank_count;
    s->ops = spread_ops(callee->ops);
    s->base.ops = &s->ops;
    s->base.arena = arena;
    s->base.contract.collective = TUTTI_CUSTOM;
    s->base.contract.root = 0;
    s->base.rank_count = rank_count;
    s->base.chunk_count = 0;
    s->base.recipe = NULL;
    s->base.recipe_count = 0;
    *ret = &s->base;
    return 0;
}
