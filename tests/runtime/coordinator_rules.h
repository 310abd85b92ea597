/* The rules that coordinators are held to, action by action. */
#ifndef TUTTI_TESTS_RUNTIME_COORDINATOR_RULES_H
#define TUTTI_TESTS_RUNTIME_COORDINATOR_RULES_H

#include "tests/runtime/coordinator_world.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void count_applied(struct world *w, uint64_t age)
{
    struct tutti_coordinator_stats *s = &w->counted;

    s->applied++;
    s->staleness_sum += age;
    s->staleness_max = larger(s->staleness_max, age);
    s->staleness[age < TUTTI_STALENESS_BINS ? age : TUTTI_STALENESS_BINS - 1]++;
}

/* ---- async ------------------------------------------------------------------------------------
 */

static uint64_t slowest_clock(const struct world *w, uint32_t without)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < w->params.member_count; i++)
        if (i != without && w->node[i].present && w->node[i].clock < least)
            least = w->node[i].clock;
    return least;
}

static void rule_async(struct world *w, const struct tutti_coord_action *a)
{
    struct node *node = a->member < NODES_MAX ? &w->node[a->member] : NULL;
    uint64_t slack = w->params.slack;
    uint64_t age;

    switch (a->kind) {
    case TUTTI_ACTION_START:
        node->step = w->step;
        node->joins_before = w->joins;
        if (slack > 0 && node->clock >= slowest_clock(w, TUTTI_MEMBER_NONE) + slack)
            blame(w, "member %u runs ahead of the slack", a->member);
        break;
    case TUTTI_ACTION_APPLY:
        age = w->step - node->step;
        if (w->params.staleness_max > 0 && age > w->params.staleness_max)
            blame(w, "a gradient of age %llu", (unsigned long long)age);
        if (slack > 0 && node->joins_before == w->joins &&
            age > (uint64_t)(w->params.member_count - 1) * (2 * (slack - 1) + 1))
            blame(w, "a gradient of age %llu in spite of the slack", (unsigned long long)age);
        if (a->step != ++w->step)
            blame(w, "step %llu follows %llu", (unsigned long long)a->step,
                  (unsigned long long)w->step - 1);
        count_applied(w, age);
        break;
    case TUTTI_ACTION_DROP: /* of an episode under way: see rule_done */
        w->counted.dropped_stale++;
        if (w->params.staleness_max == 0 || w->step - node->step <= w->params.staleness_max)
            blame(w, "a gradient is dropped that is not stale");
        break;
    default:
        break;
    }
}

/* ---- sync -------------------------------------------------------------------------------------
 */

/* The oldest token is of which step; UINT64_MAX: there is none. */
static uint64_t oldest_token(const struct world *w)
{
    uint64_t first = w->step < TOKEN_STEPS_KEPT ? 0 : w->step - TOKEN_STEPS_KEPT + 1;

    for (uint64_t step = first; step <= w->step; step++)
        if (w->token[step % TOKEN_STEPS_KEPT] > 0)
            return step;
    return UINT64_MAX;
}

static void take_token(struct world *w, const struct tutti_coord_action *a)
{
    uint64_t step = oldest_token(w);

    if (step == UINT64_MAX) {
        blame(w, "member %u starts without a token", a->member);
        return;
    }
    w->token[step % TOKEN_STEPS_KEPT]--;
    if (w->params.late == TUTTI_LATE_QUEUED && a->step != step)
        blame(w, "member %u starts at step %llu with a token of step %llu", a->member,
              (unsigned long long)a->step, (unsigned long long)step);
}

static void rule_sync(struct world *w, const struct tutti_coord_action *a, bool joined)
{
    struct node *node = a->member < NODES_MAX ? &w->node[a->member] : NULL;
    uint64_t goal = w->params.aggregate;
    bool aborts = w->params.late == TUTTI_LATE_ABORTED;

    switch (a->kind) {
    case TUTTI_ACTION_START:
        node->step = a->step;
        if (a->step > w->step || (w->params.late != TUTTI_LATE_QUEUED && a->step != w->step))
            blame(w, "member %u starts at step %llu, in step %llu", a->member,
                  (unsigned long long)a->step, (unsigned long long)w->step);
        if (!joined && !aborts)
            take_token(w, a);
        break;
    case TUTTI_ACTION_APPLY:
        if (node->step != w->step)
            blame(w, "a gradient of step %llu in step %llu", (unsigned long long)node->step,
                  (unsigned long long)w->step);
        if (++w->gathered > goal)
            blame(w, "%llu gradients in a step of %llu", (unsigned long long)w->gathered,
                  (unsigned long long)goal);
        count_applied(w, 0);
        break;
    case TUTTI_ACTION_DROP:
        w->counted.dropped_stale++;
        if (node->step == w->step)
            blame(w, "a gradient is dropped that is not stale");
        break;
    case TUTTI_ACTION_ADVANCE:
        if (w->gathered != goal || a->step != w->step + 1)
            blame(w, "step %llu follows %llu, on %llu gradients", (unsigned long long)a->step,
                  (unsigned long long)w->step, (unsigned long long)w->gathered);
        w->step++;
        w->gathered = 0;
        w->token[w->step % TOKEN_STEPS_KEPT] = larger(goal, w->params.member_count);
        break;
    default:
        break;
    }
}

/* ---- queue ------------------------------------------------------------------------------------
 */

static void queue_push(struct world *w, uint64_t closure)
{
    w->queued[w->queued_count++] = closure;
}

static void rule_cancel(struct world *w, const struct tutti_coord_action *a)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < w->next_closure; i++)
        if (w->fate[i] == 1) {
            w->fate[i] = 3;
            count++;
        }
    w->queued_count = 0;
    w->error_pending = true;
    w->counted.cancelled += count;
    if (count != a->number)
        blame(w, "%llu closures are cancelled, not %llu", (unsigned long long)a->number,
              (unsigned long long)count);
}

static void rule_queue(struct world *w, const struct tutti_coord_action *a)
{
    switch (a->kind) {
    case TUTTI_ACTION_START:
        if (w->queued_count == 0 || w->queued[0] != a->number) {
            blame(w, "closure %llu runs out of turn", (unsigned long long)a->number);
            break;
        }
        memmove(w->queued, w->queued + 1, --w->queued_count * sizeof(w->queued[0]));
        w->node[a->member].step = a->number;
        if (!w->node[a->member].admitted)
            blame(w, "member %u starts before all lost ones are back", a->member);
        break;
    case TUTTI_ACTION_COMPLETE:
        if (a->number >= w->next_closure || w->fate[a->number] != 1 ||
            w->node[a->member].step != a->number)
            blame(w, "closure %llu is complete without having run", (unsigned long long)a->number);
        else
            w->fate[a->number] = 2;
        w->counted.completed++;
        break;
    case TUTTI_ACTION_REFUSE:
        w->counted.refused++;
        if (!w->error_pending && w->queued_count < w->params.queue_bound)
            blame(w, "a closure is refused with %u in the queue", w->queued_count);
        break;
    case TUTTI_ACTION_CANCEL:
        rule_cancel(w, a);
        break;
    case TUTTI_ACTION_DROP:
        blame(w, "a result is dropped");
        break;
    default:
        break;
    }
}

/* ---- supervisor -------------------------------------------------------------------------------
 */

static void rule_supervisor(struct world *w, const struct tutti_coord_action *a)
{
    switch (a->kind) {
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        if (a->member != 0 || a->step != w->saved || w->ready ||
            (a->kind == TUTTI_ACTION_RESTORE) != (w->saved > 0))
            blame(w, "the model is set up at step %llu, the checkpoint is of %llu",
                  (unsigned long long)a->step, (unsigned long long)w->saved);
        w->set_up = a->episode;
        w->step = a->step;
        break;
    case TUTTI_ACTION_START:
        if (!w->ready || a->step != w->step)
            blame(w, "member %u starts at step %llu of a model that is %s", a->member,
                  (unsigned long long)a->step, w->ready ? "elsewhere" : "not set up");
        break;
    case TUTTI_ACTION_SAVE:
        if (a->step <= w->saved || a->step != w->step || w->saving != 0)
            blame(w, "a checkpoint of step %llu", (unsigned long long)a->step);
        w->saving = a->episode;
        w->saving_step = a->step;
        w->saver = a->member;
        break;
    case TUTTI_ACTION_FINISH:
        if (w->saved < w->params.last_step)
            blame(w, "it finishes at step %llu", (unsigned long long)w->saved);
        break;
    default:
        break;
    }
}

/* ---- elastic ----------------------------------------------------------------------------------
 */

/* A group of one number has the same members, as long as it lasts. */
static void rule_group(struct world *w, const struct tutti_coord_action *a)
{
    struct node *node = &w->node[a->member];

    if (a->number > w->group) {
        w->group = a->number;
        w->group_event = w->event_count;
        for (uint32_t i = 0; i < w->params.member_count; i++)
            w->node[i].grouped = 0;
    }
    if (a->number == w->group && w->group_event == w->event_count)
        node->grouped = a->incarnation;
    if (a->number != w->group || node->grouped != a->incarnation)
        blame(w, "member %u starts in group %llu, of which it is not", a->member,
              (unsigned long long)a->number);
}

static void rule_elastic_start(struct world *w, const struct tutti_coord_action *a)
{
    struct node *node = &w->node[a->member];

    if (a->step != w->step)
        blame(w, "member %u starts step %llu in step %llu", a->member, (unsigned long long)a->step,
              (unsigned long long)w->step);
    if (node->alive && node->incarnation == a->incarnation && node->weights != WEIGHTS_LOST &&
        node->weights != (int64_t)a->step)
        blame(w, "member %u starts step %llu from the weights of %lld", a->member,
              (unsigned long long)a->step, (long long)node->weights);
    node->reported = false;
    node->before = node->weights;
    if (node->weights >= 0)
        node->weights++; /* sooner or later */
    if (node->leaving)
        blame(w, "member %u starts, which would leave", a->member);
    rule_group(w, a);
}

static void rule_elastic_advance(struct world *w, const struct tutti_coord_action *a)
{
    uint32_t reported = 0;

    for (uint32_t i = 0; i < w->params.member_count; i++) {
        struct node *node = &w->node[i];

        if (node->busy != 0)
            blame(w, "the step is over, and member %u still at it", i);
        reported += node->reported;
        if (node->reported)
            node->before = node->weights;
        node->reported = false;
    }
    if (reported < w->params.least_members || reported == 0 || a->step != w->step + 1)
        blame(w, "step %llu follows %llu, done by %u", (unsigned long long)a->step,
              (unsigned long long)w->step, reported);
    w->step++;
}

static void rule_elastic(struct world *w, const struct tutti_coord_action *a)
{
    struct node *node = a->member < NODES_MAX ? &w->node[a->member] : NULL;
    const struct node *source;

    switch (a->kind) {
    case TUTTI_ACTION_START:
        rule_elastic_start(w, a);
        break;
    case TUTTI_ACTION_ADVANCE:
        rule_elastic_advance(w, a);
        break;
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        if (a->number == 1 || a->kind == TUTTI_ACTION_INITIALISE) {
            w->step = w->saved;
            node->weights = (int64_t)w->saved;
        } else {
            node->weights = node->before;
            node->reported = false;
        }
        if (a->step != w->step)
            blame(w, "member %u goes back to step %llu, not %llu", a->member,
                  (unsigned long long)a->step, (unsigned long long)w->step);
        break;
    case TUTTI_ACTION_COPY:
        source = &w->node[a->number];
        node->weights = WEIGHTS_LOST;
        if (source->alive && source->incarnation == source->welcomed)
            node->weights = source->weights;
        if (node->weights >= 0 && node->weights != (int64_t)w->step)
            blame(w, "member %u takes weights of step %lld", a->member, (long long)node->weights);
        break;
    case TUTTI_ACTION_SAVE:
        if (a->step != w->step || a->step <= w->saved || w->saving != 0)
            blame(w, "a checkpoint of step %llu", (unsigned long long)a->step);
        w->saving = a->episode;
        w->saving_step = a->step;
        w->saver = a->member;
        break;
    default:
        break;
    }
}

/* ---- all --------------------------------------------------------------------------------------
 */

/* Who comes late holds nobody up; closures are for who comes, or not before all are back. */
static void rule_joined(struct world *w, uint32_t member)
{
    uint64_t least = slowest_clock(w, member);
    bool all = true;

    w->node[member].clock = least == UINT64_MAX ? 0 : least;
    w->node[member].over = false;
    w->node[member].missing = false;
    w->node[member].admitted = false;
    w->node[member].leaving = false;
    w->joins++;
    for (uint32_t i = 0; i < w->params.member_count; i++)
        all &= !w->node[i].missing;
    for (uint32_t i = 0; i < w->params.member_count && (all || !w->params.wait_for_all); i++)
        w->node[i].admitted = true;
}

/* Before its actions: what an event is to the rules. */
static void rule_event(struct world *w, const struct tutti_coord_event *event, bool timely)
{
    struct node *node = &w->node[event->member];
    bool gone = timely && (event->kind == TUTTI_EVENT_LOST || event->kind == TUTTI_EVENT_JOINED);

    if (gone && node->present) {
        if (w->kind == QUEUE && node->busy != 0)
            queue_push(w, node->step);
        if (w->kind == SUPERVISOR &&
            (event->member == 0 ||
             event->member >= w->params.member_count - w->params.server_count)) {
            w->ready = false;
            w->saving = 0;
            w->step = w->saved;
        }
        if (w->saver == event->member)
            w->saving = 0;
        node->busy = 0;
        node->reported = false;
        node->present = false;
        node->missing = true;
    }
    if (event->kind == TUTTI_EVENT_JOINED)
        rule_joined(w, event->member);
    if (timely && event->kind == TUTTI_EVENT_LEAVING && !node->over)
        node->leaving = true;
    if (event->kind == TUTTI_EVENT_SAVE_DUE)
        w->save_due = true;
    if (timely && event->kind == TUTTI_EVENT_PULLED)
        node->step = w->step;
    if (timely && event->kind == TUTTI_EVENT_PROGRESS && w->ready && w->step < w->params.last_step)
        w->step = larger(w->step, event->number);
    if (timely && event->kind == TUTTI_EVENT_SAVED) {
        w->saved = w->saving_step;
        w->saving = 0;
    }
    if (timely && event->kind == TUTTI_EVENT_DONE && event->episode == w->set_up &&
        w->kind == SUPERVISOR)
        w->ready = true;
    if (timely && event->kind == TUTTI_EVENT_DONE)
        node->reported = true;
    if (timely && (event->kind == TUTTI_EVENT_DONE || event->kind == TUTTI_EVENT_FAILED))
        node->busy = 0;
}

/* Whether an event is of a member as it is and of what it does, as the rules have it. */
static bool is_timely_event(const struct world *w, const struct tutti_coord_event *event)
{
    const struct node *node = &w->node[event->member];

    switch (event->kind) {
    case TUTTI_EVENT_JOINED:
    case TUTTI_EVENT_SUBMITTED:
    case TUTTI_EVENT_SAVE_DUE:
        return true;
    case TUTTI_EVENT_LOST:
    case TUTTI_EVENT_LEAVING:
        return node->present && event->incarnation == node->welcomed;
    case TUTTI_EVENT_SAVED:
        return node->present && event->incarnation == node->welcomed &&
               event->episode == w->saving && event->episode != 0;
    default:
        return node->present && event->incarnation == node->welcomed &&
               event->episode == node->busy;
    }
}

static void rule_common(struct world *w, const struct tutti_coord_action *a)
{
    struct node *node = a->member < NODES_MAX ? &w->node[a->member] : NULL;

    switch (a->kind) {
    case TUTTI_ACTION_WELCOME:
        if (a->incarnation != node->welcomed + 1)
            blame(w, "incarnation %u follows %u", a->incarnation, node->welcomed);
        node->welcomed = a->incarnation;
        node->present = true;
        break;
    case TUTTI_ACTION_START:
        if (!node->present || node->busy != 0 || node->welcomed != a->incarnation)
            blame(w, "member %u starts while it is %s", a->member,
                  node->busy != 0 ? "at work" : "absent");
        if (a->episode <= w->episode)
            blame(w, "episode %llu follows %llu", (unsigned long long)a->episode,
                  (unsigned long long)w->episode);
        w->episode = a->episode;
        node->busy = a->episode;
        w->counted.started++;
        break;
    case TUTTI_ACTION_ABORT:
        node->busy = 0;
        break;
    case TUTTI_ACTION_FINISH:
        node->busy = 0;
        node->over = true;
        break;
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        if (w->kind == SUPERVISOR) {
            node->busy = a->episode;
            w->counted.started++;
        }
        break;
    default:
        break;
    }
}

/* What may be taken: a gradient that has just come, of an episode under way, once. */
static void rule_done(struct world *w, const struct tutti_coord_action *a,
                      const struct tutti_coord_event *event, bool timely, uint32_t *taken)
{
    bool takes = a->kind == TUTTI_ACTION_APPLY || a->kind == TUTTI_ACTION_COMPLETE;

    if (!takes && a->kind != TUTTI_ACTION_DROP)
        return;
    if (takes && (!timely || event->kind != TUTTI_EVENT_DONE || a->member != event->member))
        blame(w, "something is taken that has not come, or too late");
    if (!takes && timely && event->kind != TUTTI_EVENT_DONE && event->kind != TUTTI_EVENT_SAVED)
        blame(w, "a timely message is dropped");
    if (++*taken > 1)
        blame(w, "a gradient is taken twice");
    if (w->kind == ASYNC && timely)
        w->node[a->member].clock++;
}

static void hold_to_rules(struct world *w, const struct tutti_coord_action *a,
                          const struct tutti_coord_event *event, bool timely, uint32_t *taken)
{
    rule_common(w, a);
    rule_done(w, a, event, timely, taken);
    if (a->kind == TUTTI_ACTION_DROP && !timely) {
        w->counted.dropped_late++;
        return;
    }
    switch (w->kind) {
    case ASYNC:
        rule_async(w, a);
        break;
    case SYNC:
        rule_sync(w, a, event->kind == TUTTI_EVENT_JOINED && event->member == a->member);
        break;
    case QUEUE:
        rule_queue(w, a);
        break;
    case SUPERVISOR:
        rule_supervisor(w, a);
        break;
    default:
        rule_elastic(w, a);
        break;
    }
}

#endif
