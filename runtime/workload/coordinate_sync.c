/* Synchronous parameter servers: the first R gradients of a step make it, of T workers; those of an
 * older step are dropped. One accumulator stands for those that TensorFlow has a variable each. */
#include "runtime/status.h"
#include "runtime/workload/coordinate.h"

static uint64_t more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* `count` tokens of the present step. Workers that were lost and came back may have left more of
 * them than are ever taken: of more than TOKEN_STEPS steps, those of the oldest go. */
static void add_tokens(struct tutti_coordinator *c, uint64_t count)
{
    if (count == 0)
        return;
    if (c->token_kinds == TOKEN_STEPS) {
        for (uint32_t i = 1; i < TOKEN_STEPS; i++) {
            c->token_step[i - 1] = c->token_step[i];
            c->token_count[i - 1] = c->token_count[i];
        }
        c->token_kinds--;
    }
    c->token_step[c->token_kinds] = c->step;
    c->token_count[c->token_kinds++] = count;
}

/* The oldest token; false: there is none. */
static bool take_token(struct tutti_coordinator *c, uint64_t *ret_step)
{
    if (c->token_kinds == 0)
        return false;
    *ret_step = c->token_step[0];
    if (--c->token_count[0] == 0) {
        c->token_kinds--;
        for (uint32_t i = 0; i < c->token_kinds; i++) {
            c->token_step[i] = c->token_step[i + 1];
            c->token_count[i] = c->token_count[i + 1];
        }
    }
    return true;
}

/* Those that wait, the longest first, as far as there are tokens. */
static void start_ready(struct tutti_coordinator *c)
{
    bool fresh = c->params.late == TUTTI_LATE_FRESH;
    uint64_t step;

    while (c->first_waiting != TUTTI_MEMBER_NONE && take_token(c, &step))
        tutti_coordinate_start(c, TUTTI_ACTION_START, tutti_coordinate_take(c),
                               fresh ? c->step : step);
}

static void advance(struct tutti_coordinator *c)
{
    bool aborts = c->params.late == TUTTI_LATE_ABORTED;

    c->accumulated = 0;
    c->step++;
    tutti_coordinate_act(c, TUTTI_ACTION_ADVANCE, TUTTI_MEMBER_NONE);
    if (coordinate_at_end(c))
        return;
    if (!aborts) {
        add_tokens(c, more(c->params.member_count, c->params.aggregate));
        return;
    }
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (c->member[i].state == TUTTI_MEMBER_WORKING) {
            tutti_coordinate_abort(c, i);
            tutti_coordinate_wait(c, i);
        }
    while (c->first_waiting != TUTTI_MEMBER_NONE)
        tutti_coordinate_start(c, TUTTI_ACTION_START, tutti_coordinate_take(c), c->step);
}

static void take_gradient(struct tutti_coordinator *c, uint32_t member)
{
    struct tutti_coord_member *m = &c->member[member];

    if (m->step < c->step) {
        c->stats.dropped_stale++;
        tutti_coordinate_act(c, TUTTI_ACTION_DROP, member);
    } else {
        c->stats.applied++;
        c->stats.staleness[0]++;
        c->accumulated++;
        tutti_coordinate_act(c, TUTTI_ACTION_APPLY, member);
    }
    m->state = TUTTI_MEMBER_WAITING;
    /* Fewer workers than gradients: each gives several. */
    if (c->params.late == TUTTI_LATE_ABORTED && c->accumulated < c->params.aggregate &&
        c->params.member_count < c->params.aggregate)
        tutti_coordinate_start(c, TUTTI_ACTION_START, member, c->step);
    else
        tutti_coordinate_wait(c, member);
    if (c->accumulated == c->params.aggregate)
        advance(c);
}

static int sync_init(struct tutti_coordinator *c, struct tutti_err *err)
{
    if (c->params.late > TUTTI_LATE_ABORTED)
        return tutti_fail(err, TUTTI_EINVAL, "late workers are treated in no known way");
    if (c->params.aggregate == 0)
        c->params.aggregate = c->params.member_count;
    /* Workers begin without one; with R > T some need to give a second gradient of the first step.
     */
    if (c->params.aggregate > c->params.member_count && c->params.late != TUTTI_LATE_ABORTED)
        add_tokens(c, c->params.aggregate - c->params.member_count);
    return 0;
}

static void sync_event(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    switch (event->kind) {
    case TUTTI_EVENT_JOINED: /* begins at the global step, without a token */
        if (!coordinate_at_end(c))
            tutti_coordinate_start(c, TUTTI_ACTION_START, event->member, c->step);
        break;
    case TUTTI_EVENT_DONE:
        take_gradient(c, event->member);
        break;
    default: /* LOST: its token is lost with it, and it comes back without one */
        break;
    }
    if (coordinate_at_end(c))
        tutti_coordinate_finish(c);
    else
        start_ready(c);
}

const struct tutti_coordinator_ops tutti_coordinate_sync = {
    .size = sizeof(struct tutti_coordinator_ops),
    .name = "sync",
    .summary = "parameter servers that average the first R gradients of T workers",
    .init = sync_init,
    .event = sync_event,
};
