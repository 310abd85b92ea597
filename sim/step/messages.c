/* Messages of a step between the classes that are played. */
#include <assert.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/step/play.h"

static struct tutti_step_connection *connect(struct tutti_step_player *p,
                                             struct tutti_step_lane *from, uint32_t to_rank)
{
    struct tutti_step_connection *c = from->connections;

    while (c != NULL && c->to_rank != to_rank)
        c = c->next;
    if (c != NULL)
        return c;
    c = tutti_arena_take(p->arena, 1, sizeof(*c));
    if (c == NULL)
        return NULL;
    *c =
        (struct tutti_step_connection){.from = from, .to_rank = to_rank, .next = from->connections};
    from->connections = c;
    return c;
}

static bool make_room(struct tutti_step_player *p, struct tutti_step_connection *c)
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
static uint32_t counterpart(const struct tutti_step_player *p, uint32_t peer, uint32_t rank,
                            uint32_t lane)
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

int tutti_step_send_at(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps at_ps,
                       struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    struct tutti_step_connection *c = connect(p, lane, step->peer);
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
        tutti_step_enqueue(p, c->to);
    c->receiver_waits = false;
    tutti_step_pass(p, lane, TUTTI_STEP_NOT_YET, at_ps);
    return 1;
}

void tutti_step_complete(struct tutti_step_player *p, struct tutti_step_connection *c,
                         tutti_ps at_ps)
{
    struct tutti_step_lane *from = c->from;

    from->end_ps[c->send[c->completed_count]] = at_ps;
    c->complete_ps[c->completed_count++] = at_ps;
    if (c->sender_waits)
        tutti_step_enqueue(p, from);
    c->sender_waits = false;
    tutti_step_wake(p, from);
}

int tutti_step_recv_at(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps at_ps,
                       struct tutti_err *err)
{
    const struct tutti_step *step = lane->step;
    struct tutti_step_lane *from = tutti_step_lane_of(p, p->classes.of[step->peer], lane->number);
    uint32_t to = counterpart(p, step->peer, lane->rank, lane->number);
    struct tutti_step_connection *c;

    if (to == UINT32_MAX)
        return tutti_step_fail_at(lane, "nobody sends it", err);
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
        tutti_step_complete(p, c, at_ps);
    tutti_step_pass(p, lane, at_ps, at_ps);
    return 1;
}
