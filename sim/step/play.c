/* Plays one rank of each class of a step: when each step of it ends, by the rules of lanes,
 * dependencies, messages, slots and calls. Messages are played in any order that these allow; what
 * shares links or a device begins and ends in the order of time. */
#include "sim/step.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/step/play.h"
#include "topo/topo.h"

struct tutti_step_lane *tutti_step_lane_of(const struct tutti_step_player *p, uint32_t class_index,
                                           uint32_t lane)
{
    return &p->lanes[(size_t)class_index * p->s->lane_count + lane];
}

void tutti_step_enqueue(struct tutti_step_player *p, struct tutti_step_lane *lane)
{
    if (lane->queued)
        return;
    lane->queued = true;
    lane->next = NULL;
    if (p->queue_first == NULL)
        p->queue_first = lane;
    else
        p->queue_last->next = lane;
    p->queue_last = lane;
}

void tutti_step_wake(struct tutti_step_player *p, struct tutti_step_lane *lane)
{
    struct tutti_step_lane *waiter = lane->first_waiter;

    lane->first_waiter = NULL;
    while (waiter != NULL) {
        struct tutti_step_lane *next = waiter->next_waiter;

        tutti_step_enqueue(p, waiter);
        waiter = next;
    }
}

int tutti_step_fail_at(const struct tutti_step_lane *lane, const char *what, struct tutti_err *err)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    return tutti_fail(err, TUTTI_ECHECK, "rank %u, lane %u, step %" PRIu64 " (%s): %s", lane->rank,
                      lane->number, lane->index, tutti_step_text(lane->step, text), what);
}

void tutti_step_pass(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps end_ps,
                     tutti_ps from_ps)
{
    lane->under_way = false;
    lane->end_ps[lane->index] = end_ps;
    lane->now = tutti_later_ps(lane->now, from_ps);
    lane->index++;
    lane->step = tutti_cursor_next(&lane->cursor);
    tutti_step_wake(p, lane);
}

/* ---- other steps ----------------------------------------------------------------------------- */

static void note(const struct tutti_step_player *p, const struct tutti_step_lane *lane,
                 tutti_ps begin_ps, tutti_ps came_ps, tutti_ps end_ps)
{
    const struct tutti_step_note note = {.rank = lane->rank,
                                         .lane = lane->number,
                                         .index = lane->index,
                                         .step = lane->step,
                                         .begin_ps = begin_ps,
                                         .came_ps = came_ps,
                                         .end_ps = end_ps};

    if (p->opts->note != NULL)
        p->opts->note(p->opts->note_context, &note);
}

static uint32_t id_of(const struct tutti_step_player *p, const struct tutti_step_lane *lane)
{
    return (uint32_t)(lane - p->lanes);
}

static int work_ps(const struct tutti_step_player *p, const struct tutti_step_lane *lane,
                   tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    struct tutti_node device =
        tutti_topo_node(p->opts->topo, tutti_topo_rank_node(p->opts->topo, lane->rank));
    tutti_ps takes_ps = step->duration_ps;

    if (p->opts->compute_ps != NULL)
        takes_ps = p->opts->compute_ps(p->opts->compute_context, step);
    else if (takes_ps == 0 && step->flops > 0 && device.flops_per_s > 0)
        takes_ps = tutti_wire_ps(step->flops, device.flops_per_s);
    if (takes_ps < 0)
        return tutti_step_fail_at(lane, "takes less than no time", err);
    if (p->opts->compute_ps == NULL && step->duration_ps == 0 && step->flops > 0 &&
        device.flops_per_s == 0)
        return tutti_step_fail_at(lane, "the rate of its device is not known (a duration)", err);
    if (p->opts->pace_ppm != NULL)
        takes_ps =
            (tutti_ps)tutti_muldiv((uint64_t)takes_ps, p->opts->pace_ppm[lane->rank], TUTTI_PACE);
    *ret = takes_ps;
    return 0;
}

static void end_work(struct tutti_step_player *p, struct tutti_step_lane *lane)
{
    note(p, lane, lane->due_ps, lane->due_ps, p->now_ps);
    tutti_step_pass(p, lane, p->now_ps, p->now_ps);
    tutti_step_enqueue(p, lane);
}

static int begin_work(struct tutti_step_player *p, struct tutti_step_lane *lane,
                      struct tutti_err *err)
{
    struct tutti_activity *a = &p->sharing.activities[id_of(p, lane)];
    tutti_ps takes_ps = 0;
    int status = work_ps(p, lane, &takes_ps, err);

    if (status < 0)
        return status;
    if (takes_ps == 0) {
        end_work(p, lane);
        return 0;
    }
    lane->under_way = true;
    a->price = NULL;
    a->members = &lane->class_index;
    a->member_count = 1;
    tutti_sharing_begin(&p->sharing, id_of(p, lane), takes_ps, p->now_ps);
    return 0;
}

static int move(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps at_ps)
{
    struct tutti_step_connection *fused = lane->fused;

    if (p->opts->reduce_bytes_per_s > 0)
        at_ps = tutti_add_ps(at_ps, tutti_wire_ps(lane->step->bytes, p->opts->reduce_bytes_per_s));
    lane->fused = NULL;
    if (fused != NULL)
        tutti_step_complete(p, fused, at_ps);
    tutti_step_pass(p, lane, at_ps, at_ps);
    return 1;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* All go on together. */
static void end_call(struct tutti_step_player *p, struct tutti_step_meeting *m)
{
    struct tutti_step_lane *lane = m->first;
    tutti_ps begin_ps = m->begin_ps;

    *m = (struct tutti_step_meeting){.group = m->group};
    while (lane != NULL) {
        struct tutti_step_lane *next = lane->next_waiter;

        note(p, lane, begin_ps, lane->due_ps, p->now_ps);
        tutti_step_pass(p, lane, p->now_ps, p->now_ps);
        tutti_step_enqueue(p, lane);
        lane = next;
    }
}

/* The last class of a group has come. */
static int begin_call(struct tutti_step_player *p, struct tutti_step_meeting *m, uint32_t axis,
                      struct tutti_err *err)
{
    const struct tutti_step_classes *classes = &p->classes;
    uint32_t id = p->classes.count * p->s->lane_count + (uint32_t)(m - p->meetings);
    struct tutti_activity *a = &p->sharing.activities[id];
    int status = tutti_step_call_price(&p->prices, m->callee, axis, &a->price, err);

    if (status < 0)
        return status;
    m->begin_ps = p->now_ps;
    if (a->price->alone_ps == 0) {
        end_call(p, m);
        return 0;
    }
    a->members = &classes->members[classes->group_first[m->group]];
    a->member_count = classes->group_first[m->group + 1] - classes->group_first[m->group];
    tutti_sharing_begin(&p->sharing, id, a->price->alone_ps, p->now_ps);
    return 0;
}

static int come_to_call(struct tutti_step_player *p, struct tutti_step_lane *lane,
                        struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    uint32_t group = p->classes.group[(size_t)step->axis * p->s->rank_count + lane->rank];
    struct tutti_step_meeting *m;

    assert(group != UINT32_MAX); /* its program calls there */
    m = &p->meetings[(size_t)group * p->s->lane_count + lane->number];
    if (m->arrived > 0 && m->callee != step->peer)
        return tutti_step_fail_at(lane, "another member of its group calls another schedule", err);
    m->group = group;
    m->callee = step->peer;
    lane->under_way = true;
    lane->next_waiter = m->first;
    m->first = lane;
    return ++m->arrived < p->classes.kinds[group] ? 0 : begin_call(p, m, step->axis, err);
}

/* What shares a device or links with others begins when its time has come. */
static int fall_due(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps at_ps)
{
    lane->due = true;
    lane->due_ps = at_ps;
    tutti_queue_put(&p->events, id_of(p, lane), at_ps);
    return 0;
}

/* 1: the next step of the lane has been played, 0: it waits, or a negative status. */
static int advance(struct tutti_step_player *p, struct tutti_step_lane *lane, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    tutti_ps at_ps = lane->now;

    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        struct tutti_step_lane *other = tutti_step_lane_of(p, lane->class_index, step->dep_lane);

        if (step->dep_step >= other->step_count)
            return tutti_step_fail_at(lane, "depends on a step that is not there", err);
        if (other->end_ps[step->dep_step] == TUTTI_STEP_NOT_YET) {
            lane->next_waiter = other->first_waiter;
            other->first_waiter = lane;
            return 0;
        }
        at_ps = tutti_later_ps(at_ps, other->end_ps[step->dep_step]);
    }
    switch (step->kind) {
    case TUTTI_SEND:
        return tutti_step_send_at(p, lane, at_ps, err);
    case TUTTI_RECV:
        return tutti_step_recv_at(p, lane, at_ps, err);
    case TUTTI_COMPUTE:
    case TUTTI_CALL:
        return fall_due(p, lane, at_ps);
    default:
        return move(p, lane, at_ps);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int open_lane(struct tutti_step_player *p, struct tutti_step_lane *lane)
{
    const struct tutti_step *step;

    lane->step_count = tutti_schedule_step_count(p->s, lane->rank, lane->number);
    lane->end_ps = tutti_arena_take(p->arena, (size_t)lane->step_count, sizeof(*lane->end_ps));
    if (lane->end_ps == NULL)
        return -TUTTI_ENOMEM;
    for (uint64_t i = 0; i < lane->step_count; i++)
        lane->end_ps[i] = TUTTI_STEP_NOT_YET;
    tutti_cursor_open(&lane->cursor, p->s, lane->rank, lane->number);
    step = tutti_cursor_next(&lane->cursor);
    lane->step = step;
    if (step != NULL)
        tutti_step_enqueue(p, lane);
    return 0;
}

static int open_player(struct tutti_step_player *p, struct tutti_err *err)
{
    const uint32_t lane_count = p->s->lane_count;
    int status = tutti_step_classes_find(p->opts, &p->classes, err);

    if (status < 0)
        return status;
    p->prices.opts = p->opts;
    p->prices.arena = p->arena;
    p->lanes = tutti_arena_take(p->arena, (size_t)p->classes.count * lane_count, sizeof(*p->lanes));
    p->meetings = tutti_arena_take(p->arena, (size_t)p->classes.group_count * lane_count,
                                   sizeof(*p->meetings));
    if (p->lanes == NULL || p->meetings == NULL ||
        tutti_sharing_open(&p->sharing, &p->events, p->arena, p->classes.count, lane_count,
                           (p->classes.count + p->classes.group_count) * lane_count) < 0)
        return tutti_nomem(err);
    for (uint32_t c = 0; c < p->classes.count; c++) {
        for (uint32_t lane = 0; lane < lane_count; lane++) {
            *tutti_step_lane_of(p, c, lane) = (struct tutti_step_lane){
                .class_index = c, .rank = p->classes.first[c], .number = lane};
            if (open_lane(p, tutti_step_lane_of(p, c, lane)) < 0)
                return tutti_nomem(err);
        }
    }
    return 0;
}

/* All steps that need not wait for the clock. */
static int run_lanes(struct tutti_step_player *p, struct tutti_err *err)
{
    struct tutti_step_lane *lane;
    int status = 0;

    while (status >= 0 && (lane = p->queue_first) != NULL) {
        p->queue_first = lane->next;
        lane->queued = false;
        status = 1;
        while (status > 0 && lane->step != NULL && !lane->due && !lane->under_way)
            status = advance(p, lane, err);
    }
    return status < 0 ? status : 0;
}

static int handle(struct tutti_step_player *p, uint32_t id, struct tutti_err *err)
{
    uint32_t lanes = p->classes.count * p->s->lane_count;
    struct tutti_step_lane *lane = &p->lanes[id];

    if (id >= lanes) {
        tutti_sharing_end(&p->sharing, id);
        end_call(p, &p->meetings[id - lanes]);
        return 0;
    }
    if (lane->due) {
        lane->due = false;
        return lane->step->kind == TUTTI_CALL ? come_to_call(p, lane, err)
                                              : begin_work(p, lane, err);
    }
    tutti_sharing_end(&p->sharing, id);
    end_work(p, lane);
    return 0;
}

static int run(struct tutti_step_player *p, struct tutti_err *err)
{
    tutti_ps next_ps = 0;
    int status = run_lanes(p, err);

    while (status == 0) {
        if (!tutti_queue_next(&p->events, &next_ps) || next_ps > p->now_ps)
            tutti_sharing_settle(&p->sharing, p->now_ps);
        if (!tutti_queue_next(&p->events, &next_ps))
            return 0;
        p->now_ps = next_ps;
        status = handle(p, tutti_queue_pop(&p->events), err);
        if (status == 0)
            status = run_lanes(p, err);
    }
    return status;
}

/* The last end of a lane's steps; a lane that is not at its end waits for ever. */
static int end_of(const struct tutti_step_player *p, const struct tutti_step_lane *lane,
                  tutti_ps *end_ps, struct tutti_err *err)
{
    (void)p;
    if (lane->step != NULL)
        return tutti_step_fail_at(lane,
                                  lane->under_way
                                      ? "waits for ever for another member of its group"
                                      : "waits for ever (tutti_schedule_check says why)",
                                  err);
    *end_ps = tutti_later_ps(*end_ps, lane->now);
    for (uint64_t i = 0; i < lane->step_count; i++)
        *end_ps = tutti_later_ps(*end_ps, lane->end_ps[i]);
    return 0;
}

static int finish(const struct tutti_step_player *p, struct tutti_stepped *ret,
                  struct tutti_err *err)
{
    const uint32_t lane_count = p->s->lane_count;
    tutti_ps *ends = tutti_arena_take(p->arena, p->classes.count, sizeof(*ends));
    int status = ends == NULL ? tutti_nomem(err) : 0;

    for (uint32_t c = 0; c < p->classes.count && status == 0; c++)
        for (uint32_t lane = 0; lane < lane_count && status == 0; lane++)
            status = end_of(p, tutti_step_lane_of(p, c, lane), &ends[c], err);
    if (status < 0)
        return status;
    *ret = (struct tutti_stepped){.class_count = p->classes.count,
                                  .price_count = p->prices.calls.count,
                                  .step_count = p->classes.step_count};
    for (uint32_t c = 0; c < p->classes.count; c++)
        ret->total_ps = tutti_later_ps(ret->total_ps, ends[c]);
    for (uint32_t rank = 0; p->opts->end_ps != NULL && rank < p->s->rank_count; rank++)
        p->opts->end_ps[rank] = ends[p->classes.of[rank]];
    return 0;
}

int tutti_step_play(const struct tutti_step_opts *opts, struct tutti_stepped *ret,
                    struct tutti_err *err)
{
    struct tutti_step_opts own;
    struct tutti_step_player player = {.opts = &own};
    int status = tutti_take("tutti_step_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_step_opts, end_ps), err);

    if (status < 0)
        return status;
    opts = &own;
    player.s = own.schedule;
    player.arena = tutti_arena_new();
    if (player.arena == NULL)
        return tutti_nomem(err);
    if (opts->schedule->rank_count != opts->topo->rank_count)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "schedule '%s' has '%u' ranks, but topology '%s' has %u (as many)",
                            opts->schedule->name, opts->schedule->rank_count, opts->topo->name,
                            opts->topo->rank_count);
    else
        status = open_player(&player, err);
    if (status == 0)
        status = run(&player, err);
    if (status == 0)
        status = finish(&player, ret, err);
    tutti_queue_done(&player.events);
    tutti_step_prices_done(&player.prices);
    tutti_step_classes_done(&player.classes);
    tutti_arena_free(player.arena);
    return status;
}
