/* Asynchronous parameter servers: each gradient is applied as it comes, to weights that others have
 * updated since it read them; with a slack, or a bound on its age, if asked for. */
#include "runtime/workload/coordinate.h"

/* How many episodes the slowest of those present has done. */
static uint64_t slowest(const struct tutti_coordinator *c, uint32_t without)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (i != without && coordinate_is_present(c, i) && c->member[i].clock < least)
            least = c->member[i].clock;
    return least;
}

/* Starts those that wait and may go on, the longest waiting first. */
static void start_ready(struct tutti_coordinator *c)
{
    uint64_t bound = UINT64_MAX;
    uint32_t held = TUTTI_MEMBER_NONE;
    uint32_t member;

    if (c->first_waiting == TUTTI_MEMBER_NONE)
        return;
    if (c->params.slack > 0)
        bound = slowest(c, TUTTI_MEMBER_NONE) + c->params.slack - 1;
    while (c->first_waiting != held && (member = tutti_coordinate_take(c)) != TUTTI_MEMBER_NONE) {
        if (c->member[member].clock <= bound) {
            tutti_coordinate_start(c, TUTTI_ACTION_START, member, c->step);
            continue;
        }
        tutti_coordinate_wait(c, member);
        held = held == TUTTI_MEMBER_NONE ? member : held;
    }
}

static void apply(struct tutti_coordinator *c, uint32_t member)
{
    struct tutti_coord_member *m = &c->member[member];
    uint64_t staleness = c->step - m->step;
    uint64_t bin = staleness < TUTTI_STALENESS_BINS ? staleness : TUTTI_STALENESS_BINS - 1;

    if (c->params.staleness_max > 0 && staleness > c->params.staleness_max) {
        c->stats.dropped_stale++;
        tutti_coordinate_act(c, TUTTI_ACTION_DROP, member);
        return;
    }
    c->step++;
    c->stats.applied++;
    c->stats.staleness_sum += staleness;
    c->stats.staleness[bin]++;
    if (staleness > c->stats.staleness_max)
        c->stats.staleness_max = staleness;
    tutti_coordinate_act(c, TUTTI_ACTION_APPLY, member);
}

static int async_init(struct tutti_coordinator *c, struct tutti_err *err)
{
    (void)c;
    (void)err;
    return 0;
}

static void async_event(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    struct tutti_coord_member *m = &c->member[event->member];
    uint64_t least;

    switch (event->kind) {
    case TUTTI_EVENT_JOINED:
        least = slowest(c, event->member);
        m->clock = least == UINT64_MAX ? 0 : least; /* who comes late holds nobody up */
        tutti_coordinate_wait(c, event->member);
        break;
    case TUTTI_EVENT_PULLED:
        m->step = c->step;
        break;
    case TUTTI_EVENT_DONE:
        apply(c, event->member);
        m->clock++;
        m->state = TUTTI_MEMBER_WAITING;
        tutti_coordinate_wait(c, event->member);
        break;
    default: /* LOST: the others may have waited for it */
        break;
    }
    if (coordinate_at_end(c))
        tutti_coordinate_finish(c);
    else
        start_ready(c);
}

const struct tutti_coordinator_ops tutti_coordinate_async = {
    .size = sizeof(struct tutti_coordinator_ops),
    .name = "async",
    .summary = "parameter servers that apply each gradient as it comes",
    .init = async_init,
    .event = async_event,
};
