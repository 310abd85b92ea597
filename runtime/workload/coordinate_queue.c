/* A queue of closures that any worker may run: each at least once, one at a time a worker, and
 * again from the tail if its worker is lost. TensorFlow's ClusterCoordinator. */
#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/workload/coordinate.h"

enum { QUEUE_BOUND = 262144 };

static void push(struct tutti_coordinator *c, uint64_t closure)
{
    assert(c->closure_count < c->closure_limit);
    c->closure[(c->closure_first + c->closure_count) % c->closure_limit] = closure;
    c->closure_count++;
}

static void start_ready(struct tutti_coordinator *c)
{
    while (c->closure_count > 0 && c->first_waiting != TUTTI_MEMBER_NONE) {
        uint64_t closure = c->closure[c->closure_first];
        struct tutti_coord_action *action =
            tutti_coordinate_start(c, TUTTI_ACTION_START, tutti_coordinate_take(c), closure);

        action->step = c->step;
        action->number = closure;
        c->closure_first = (c->closure_first + 1) % c->closure_limit;
        c->closure_count--;
    }
}

/* TensorFlow refreshes its view of the cluster only once all lost workers are back. */
static void join(struct tutti_coordinator *c, uint32_t member)
{
    struct tutti_coord_member *m = &c->member[member];

    if (m->flag) {
        m->flag = false;
        c->missing--;
    }
    m->clock = 1; /* back, but not yet in the queue */
    if (c->params.wait_for_all && c->missing > 0)
        return;
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (c->member[i].clock == 1) {
            c->member[i].clock = 0;
            tutti_coordinate_wait(c, i);
        }
}

static void lose(struct tutti_coordinator *c, uint32_t member)
{
    struct tutti_coord_member *m = &c->member[member];

    if (c->was == TUTTI_MEMBER_WORKING)
        push(c, m->step);
    m->clock = 0;
    m->flag = true;
    c->missing++;
}

/* An error cancels all that waits, and stops what runs. */
static void fail(struct tutti_coordinator *c, uint32_t member)
{
    uint64_t cancelled = c->closure_count + 1; /* its own closure will not be complete either */

    c->closure_count = 0;
    c->failed = true;
    c->member[member].state = TUTTI_MEMBER_WAITING;
    tutti_coordinate_wait(c, member);
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (c->member[i].state == TUTTI_MEMBER_WORKING) {
            tutti_coordinate_abort(c, i);
            tutti_coordinate_wait(c, i);
            cancelled++;
        }
    c->stats.cancelled += cancelled;
    tutti_coordinate_act(c, TUTTI_ACTION_CANCEL, TUTTI_MEMBER_NONE)->number = cancelled;
}

static void submit(struct tutti_coordinator *c, uint64_t closure)
{
    if (c->failed || c->closure_count >= c->params.queue_bound) {
        c->failed = false; /* now it has been told */
        c->stats.refused++;
        tutti_coordinate_act(c, TUTTI_ACTION_REFUSE, TUTTI_MEMBER_NONE)->number = closure;
        return;
    }
    c->stats.submitted++;
    push(c, closure);
}

static int queue_init(struct tutti_coordinator *c, struct tutti_err *err)
{
    if (c->params.queue_bound == 0)
        c->params.queue_bound = QUEUE_BOUND;
    if (c->params.queue_bound > TUTTI_CLOSURES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a queue of '%u' closures (at most %d)",
                          c->params.queue_bound, TUTTI_CLOSURES_MAX);
    c->closure_limit = (uint64_t)c->params.queue_bound + c->params.member_count; /* put back */
    c->closure = tutti_arena_take(c->arena, (size_t)c->closure_limit, sizeof(*c->closure));
    return c->closure == NULL ? tutti_nomem(err) : 0;
}

static void queue_event(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    switch (event->kind) {
    case TUTTI_EVENT_JOINED:
        join(c, event->member);
        break;
    case TUTTI_EVENT_LOST:
        lose(c, event->member);
        break;
    case TUTTI_EVENT_DONE:
        c->stats.completed++;
        tutti_coordinate_act(c, TUTTI_ACTION_COMPLETE, event->member)->number =
            c->member[event->member].step;
        c->member[event->member].state = TUTTI_MEMBER_WAITING;
        tutti_coordinate_wait(c, event->member);
        break;
    case TUTTI_EVENT_FAILED:
        fail(c, event->member);
        break;
    case TUTTI_EVENT_SUBMITTED:
        submit(c, event->number);
        break;
    default:
        break;
    }
    start_ready(c);
}

const struct tutti_coordinator_ops tutti_coordinate_queue = {
    .size = sizeof(struct tutti_coordinator_ops),
    .name = "queue",
    .summary = "a bounded queue of closures, each run at least once",
    .init = queue_init,
    .event = queue_event,
};
