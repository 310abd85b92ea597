/* Plays one rank of each class of a step: when each step of it ends, by the rules of lanes,
 * dependencies, messages, slots and calls, in any order that these allow. */
#include "sim/step.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/step/classes.h"
#include "sim/step/price.h"
#include "topo/topo.h"

enum { NOT_YET = -1 };

/* Messages of a class's lane to the ranks of another class: one in the place of many. */
struct connection {
    struct lane *from;
    struct lane *to; /* once it has asked */
    uint32_t to_rank;
    bool sender_waits;
    bool receiver_waits;
    uint64_t sent_count;
    uint64_t received_count;
    uint64_t completed_count;
    uint64_t capacity;
    tutti_ps *arrive_ps;     /* [sent] */
    tutti_ps *complete_ps;   /* [completed] */
    uint64_t *send;          /* [sent]: the step of its lane */
    struct connection *next; /* of the same sender */
};

struct lane {
    uint32_t class_index;
    uint32_t rank; /* that is played */
    uint32_t number;
    bool queued;
    bool arrived; /* at its CALL */
    uint64_t index;
    uint64_t step_count;
    const struct tutti_step *step; /* the next; NULL at the end */
    tutti_ps now;                  /* what comes next starts no earlier */
    tutti_ps *end_ps;              /* [step]; NOT_YET */
    struct tutti_cursor cursor;
    struct connection *connections; /* that it sends over */
    struct connection *in;          /* of the last RECV */
    struct connection *fused;       /* received, and complete with the REDUCE that comes next */
    struct lane *first_waiter;
    struct lane *next_waiter;
    struct lane *next; /* in the queue */
};

/* Where the classes of a group meet. */
struct meeting {
    uint32_t arrived;
    uint32_t callee;
    tutti_ps latest_ps;
    struct lane *first; /* of those that wait, by next_waiter */
};

struct player {
    const struct tutti_step_opts *opts;
    const struct tutti_schedule *s;
    struct tutti_arena *arena;
    struct tutti_step_classes classes;
    struct tutti_step_prices prices;
    struct lane *lanes;       /* [class * lane_count + lane] */
    struct meeting *meetings; /* [group class * lane_count + lane] */
    struct lane *queue_first;
    struct lane *queue_last;
};

static struct lane *lane_of(const struct player *p, uint32_t class_index, uint32_t lane)
{
    return &p->lanes[(size_t)class_index * p->s->lane_count + lane];
}

static void enqueue(struct player *p, struct lane *lane)
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

/* Lanes of the class that wait for a step of this one look again. */
static void wake(struct player *p, struct lane *lane)
{
    struct lane *waiter = lane->first_waiter;

    lane->first_waiter = NULL;
    while (waiter != NULL) {
        struct lane *next = waiter->next_waiter;

        enqueue(p, waiter);
        waiter = next;
    }
}

static int fail_at(const struct lane *lane, const char *what, struct tutti_err *err)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    return tutti_fail(err, TUTTI_ECHECK, "rank %u, lane %u, step %" PRIu64 " (%s): %s", lane->rank,
                      lane->number, lane->index, tutti_step_text(lane->step, text), what);
}

/* The step has ended; the lane goes on with the next, which starts no earlier than `from_ps`. */
static void pass(struct player *p, struct lane *lane, tutti_ps end_ps, tutti_ps from_ps)
{
    lane->end_ps[lane->index] = end_ps;
    lane->now = tutti_later_ps(lane->now, from_ps);
    lane->index++;
    lane->step = tutti_cursor_next(&lane->cursor);
    wake(p, lane);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct connection *connect(struct player *p, struct lane *from, uint32_t to_rank)
{
    struct connection *c = from->connections;

    while (c != NULL && c->to_rank != to_rank)
        c = c->next;
    if (c != NULL)
        return c;
    c = tutti_arena_take(p->arena, 1, sizeof(*c));
    if (c == NULL)
        return NULL;
    *c = (struct connection){.from = from, .to_rank = to_rank, .next = from->connections};
    from->connections = c;
    return c;
}

static bool make_room(struct player *p, struct connection *c)
{
    uint64_t capacity = 2 * c->capacity + 8;
    tutti_ps *times;
    uint64_t *send;

    if (c->sent_count < c->capacity)
        return true;
    times = tutti_arena_take(p->arena, (size_t)(2 * capacity), sizeof(*times));
    send = tutti_arena_take(p->arena, (size_t)capacity, sizeof(*send));
    if (times == NULL || send == NULL)
        return false;
    for (uint64_t i = 0; i < c->sent_count; i++) {
        times[i] = c->arrive_ps[i];
        times[capacity + i] = c->complete_ps[i];
        send[i] = c->send[i];
    }
    c->arrive_ps = times;
    c->complete_ps = times + capacity;
    c->send = send;
    c->capacity = capacity;
    return true;
}

/* The rank that the class of `peer` plays sends to some rank where `peer` sends to `rank`: the one
 * of the same number in the order of first use. UINT32_MAX: it sends it nothing. */
static uint32_t counterpart(const struct player *p, uint32_t peer, uint32_t rank, uint32_t lane)
{
    uint32_t played = p->classes.first[p->classes.of[peer]];
    const struct tutti_step *theirs;
    const struct tutti_step *ours;
    struct tutti_cursor theirs_at;
    struct tutti_cursor ours_at;

    tutti_cursor_open(&theirs_at, p->s, peer, lane);
    tutti_cursor_open(&ours_at, p->s, played, lane);
    /* Both run one program: the step in which `peer` first sends to `rank` is the same. */
    while ((theirs = tutti_cursor_next(&theirs_at)) != NULL) {
        ours = tutti_cursor_next(&ours_at);
        assert(ours != NULL && ours->kind == theirs->kind);
        if (theirs->kind == TUTTI_SEND && theirs->peer == rank)
            return ours->peer;
    }
    return UINT32_MAX;
}

static int send(struct player *p, struct lane *lane, tutti_ps at_ps, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    struct connection *c = connect(p, lane, step->peer);
    tutti_ps takes_ps = 0;
    int status;

    if (c == NULL || !make_room(p, c))
        return tutti_nomem(err);
    c->sender_waits = c->sent_count - c->completed_count >= p->s->slot_count;
    if (c->sender_waits)
        return 0;
    if (c->sent_count >= p->s->slot_count)
        at_ps = tutti_later_ps(at_ps, c->complete_ps[c->sent_count - p->s->slot_count]);
    status = tutti_step_message_ps(&p->prices, lane->rank, step->peer, step->bytes, &takes_ps, err);
    if (status < 0)
        return status;
    c->arrive_ps[c->sent_count] = tutti_add_ps(at_ps, takes_ps);
    c->send[c->sent_count++] = lane->index;
    if (c->receiver_waits)
        enqueue(p, c->to);
    c->receiver_waits = false;
    pass(p, lane, NOT_YET, at_ps);
    return 1;
}

/* The oldest message has been used up. */
static void complete(struct player *p, struct connection *c, tutti_ps at_ps)
{
    struct lane *from = c->from;

    from->end_ps[c->send[c->completed_count]] = at_ps;
    c->complete_ps[c->completed_count++] = at_ps;
    if (c->sender_waits)
        enqueue(p, from);
    c->sender_waits = false;
    wake(p, from);
}

static int recv(struct player *p, struct lane *lane, tutti_ps at_ps, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    struct lane *from = lane_of(p, p->classes.of[step->peer], lane->number);
    uint32_t to = counterpart(p, step->peer, lane->rank, lane->number);
    struct connection *c;

    if (to == UINT32_MAX)
        return fail_at(lane, "nobody sends it", err);
    c = connect(p, from, to);
    if (c == NULL)
        return tutti_nomem(err);
    c->to = lane;
    c->receiver_waits = c->received_count == c->sent_count;
    if (c->receiver_waits)
        return 0;
    at_ps = tutti_later_ps(at_ps, c->arrive_ps[c->received_count++]);
    if ((step->flags & TUTTI_STEP_FUSE) != 0)
        lane->fused = c;
    else
        complete(p, c, at_ps);
    pass(p, lane, at_ps, at_ps);
    return 1;
}

/* ---- other steps ----------------------------------------------------------------------------- */

static int work(struct player *p, struct lane *lane, tutti_ps at_ps, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    struct tutti_node device =
        tutti_topo_node(p->opts->topo, tutti_topo_rank_node(p->opts->topo, lane->rank));
    tutti_ps takes_ps = step->duration_ps;

    if (takes_ps < 0)
        return fail_at(lane, "takes less than no time", err);
    if (takes_ps == 0 && step->flops > 0 && device.flops_per_s == 0)
        return fail_at(lane, "the rate of its device is not known (a duration)", err);
    if (takes_ps == 0 && step->flops > 0)
        takes_ps = tutti_wire_ps(step->flops, device.flops_per_s);
    if (p->opts->pace_ppm != NULL)
        takes_ps =
            (tutti_ps)tutti_muldiv((uint64_t)takes_ps, p->opts->pace_ppm[lane->rank], TUTTI_PACE);
    at_ps = tutti_add_ps(at_ps, takes_ps);
    pass(p, lane, at_ps, at_ps);
    return 1;
}

static int move(struct player *p, struct lane *lane, tutti_ps at_ps)
{
    struct connection *fused = lane->fused;

    if (p->opts->reduce_bytes_per_s > 0)
        at_ps = tutti_add_ps(at_ps, tutti_wire_ps(lane->step->bytes, p->opts->reduce_bytes_per_s));
    lane->fused = NULL;
    if (fused != NULL)
        complete(p, fused, at_ps);
    pass(p, lane, at_ps, at_ps);
    return 1;
}

/* The last class of a group has come: all go on together. */
static int gather(struct player *p, struct meeting *m, uint32_t axis, struct tutti_err *err)
{
    tutti_ps takes_ps = 0;
    int status = tutti_step_call_ps(&p->prices, m->callee, axis, &takes_ps, err);
    struct lane *lane = m->first;
    tutti_ps end_ps = tutti_add_ps(m->latest_ps, takes_ps);

    *m = (struct meeting){.arrived = 0};
    while (lane != NULL && status == 0) {
        struct lane *next = lane->next_waiter;

        lane->arrived = false;
        pass(p, lane, end_ps, end_ps);
        enqueue(p, lane);
        lane = next;
    }
    return status;
}

static int call(struct player *p, struct lane *lane, tutti_ps at_ps, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    uint32_t group = p->classes.group[(size_t)step->axis * p->s->rank_count + lane->rank];
    struct meeting *m;

    assert(group != UINT32_MAX); /* its program calls there */
    m = &p->meetings[(size_t)group * p->s->lane_count + lane->number];
    if (m->arrived > 0 && m->callee != step->peer)
        return fail_at(lane, "another member of its group calls another schedule", err);
    m->callee = step->peer;
    m->latest_ps = tutti_later_ps(m->latest_ps, at_ps);
    lane->arrived = true;
    lane->next_waiter = m->first;
    m->first = lane;
    return ++m->arrived < p->classes.kinds[group] ? 0 : gather(p, m, step->axis, err);
}

/* 1: the next step of the lane has been played, 0: it waits, or a negative status. */
static int advance(struct player *p, struct lane *lane, struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    tutti_ps at_ps = lane->now;

    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        struct lane *other = lane_of(p, lane->class_index, step->dep_lane);

        if (step->dep_step >= other->step_count)
            return fail_at(lane, "depends on a step that is not there", err);
        if (other->end_ps[step->dep_step] == NOT_YET) {
            lane->next_waiter = other->first_waiter;
            other->first_waiter = lane;
            return 0;
        }
        at_ps = tutti_later_ps(at_ps, other->end_ps[step->dep_step]);
    }
    switch (step->kind) {
    case TUTTI_SEND:
        return send(p, lane, at_ps, err);
    case TUTTI_RECV:
        return recv(p, lane, at_ps, err);
    case TUTTI_COMPUTE:
        return work(p, lane, at_ps, err);
    case TUTTI_CALL:
        return call(p, lane, at_ps, err);
    default:
        return move(p, lane, at_ps);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int open_lane(struct player *p, struct lane *lane)
{
    const struct tutti_step *step;

    lane->step_count = tutti_schedule_step_count(p->s, lane->rank, lane->number);
    lane->end_ps = tutti_arena_take(p->arena, (size_t)lane->step_count, sizeof(*lane->end_ps));
    if (lane->end_ps == NULL)
        return -TUTTI_ENOMEM;
    for (uint64_t i = 0; i < lane->step_count; i++)
        lane->end_ps[i] = NOT_YET;
    tutti_cursor_open(&lane->cursor, p->s, lane->rank, lane->number);
    step = tutti_cursor_next(&lane->cursor);
    lane->step = step;
    if (step != NULL)
        enqueue(p, lane);
    return 0;
}

static int open_player(struct player *p, struct tutti_err *err)
{
    const uint32_t lane_count = p->s->lane_count;
    int status = tutti_step_classes_find(p->opts, &p->classes, err);

    if (status < 0)
        return status;
    p->prices.opts = p->opts;
    p->lanes = tutti_arena_take(p->arena, (size_t)p->classes.count * lane_count, sizeof(*p->lanes));
    p->meetings = tutti_arena_take(p->arena, (size_t)p->classes.group_count * lane_count,
                                   sizeof(*p->meetings));
    if (p->lanes == NULL || p->meetings == NULL)
        return tutti_nomem(err);
    for (uint32_t c = 0; c < p->classes.count; c++) {
        for (uint32_t lane = 0; lane < lane_count; lane++) {
            *lane_of(p, c, lane) =
                (struct lane){.class_index = c, .rank = p->classes.first[c], .number = lane};
            if (open_lane(p, lane_of(p, c, lane)) < 0)
                return tutti_nomem(err);
        }
    }
    return 0;
}

static int run(struct player *p, struct tutti_err *err)
{
    struct lane *lane;
    int status = 0;

    while (status >= 0 && (lane = p->queue_first) != NULL) {
        p->queue_first = lane->next;
        lane->queued = false;
        status = 1;
        while (status > 0 && lane->step != NULL && !lane->arrived)
            status = advance(p, lane, err);
    }
    return status < 0 ? status : 0;
}

/* The last end of a lane's steps; a lane that is not at its end waits for ever. */
static int end_of(const struct player *p, const struct lane *lane, tutti_ps *end_ps,
                  struct tutti_err *err)
{
    (void)p;
    if (lane->step != NULL)
        return fail_at(lane,
                       lane->arrived ? "waits for ever for another member of its group"
                                     : "waits for ever (tutti_schedule_check says why)",
                       err);
    *end_ps = tutti_later_ps(*end_ps, lane->now);
    for (uint64_t i = 0; i < lane->step_count; i++)
        *end_ps = tutti_later_ps(*end_ps, lane->end_ps[i]);
    return 0;
}

static int finish(const struct player *p, struct tutti_stepped *ret, struct tutti_err *err)
{
    const uint32_t lane_count = p->s->lane_count;
    tutti_ps *ends = tutti_arena_take(p->arena, p->classes.count, sizeof(*ends));
    int status = ends == NULL ? tutti_nomem(err) : 0;

    for (uint32_t c = 0; c < p->classes.count && status == 0; c++)
        for (uint32_t lane = 0; lane < lane_count && status == 0; lane++)
            status = end_of(p, lane_of(p, c, lane), &ends[c], err);
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
    struct player player = {.opts = &own};
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
    tutti_step_prices_done(&player.prices);
    tutti_step_classes_done(&player.classes);
    tutti_arena_free(player.arena);
    return status;
}
