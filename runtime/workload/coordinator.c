/* The front of all coordinators: what comes too late is dropped here, the rest goes to its kind. */
#include "runtime/coordinator.h"

#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/workload/coordinate.h"

/* ---- what kinds are made of ------------------------------------------------------------------ */

struct tutti_coord_action *tutti_coordinate_act(struct tutti_coordinator *c,
                                                enum tutti_coord_action_kind kind, uint32_t member)
{
    struct tutti_coord_action *action;

    assert(c->action_count < c->action_limit);
    action = &c->action[c->action_count++];
    *action = (struct tutti_coord_action){.kind = kind, .member = member, .step = c->step};
    if (member < c->params.member_count) {
        action->incarnation = c->member[member].incarnation;
        action->episode = c->member[member].episode;
    }
    return action;
}

struct tutti_coord_action *tutti_coordinate_start(struct tutti_coordinator *c,
                                                  enum tutti_coord_action_kind kind,
                                                  uint32_t member, uint64_t step)
{
    struct tutti_coord_member *m = &c->member[member];
    struct tutti_coord_action *action;

    assert(m->state == TUTTI_MEMBER_WAITING);
    m->state = TUTTI_MEMBER_WORKING;
    m->episode = ++c->episode;
    m->step = step;
    c->stats.started++;
    action = tutti_coordinate_act(c, kind, member);
    action->step = step;
    return action;
}

void tutti_coordinate_abort(struct tutti_coordinator *c, uint32_t member)
{
    struct tutti_coord_member *m = &c->member[member];

    if (m->state != TUTTI_MEMBER_WORKING)
        return;
    tutti_coordinate_act(c, TUTTI_ACTION_ABORT, member);
    m->state = TUTTI_MEMBER_WAITING;
    c->stats.lost++;
}

void tutti_coordinate_wait(struct tutti_coordinator *c, uint32_t member)
{
    c->member[member].next = TUTTI_MEMBER_NONE;
    if (c->first_waiting == TUTTI_MEMBER_NONE)
        c->first_waiting = member;
    else
        c->member[c->last_waiting].next = member;
    c->last_waiting = member;
}

uint32_t tutti_coordinate_take(struct tutti_coordinator *c)
{
    uint32_t member = c->first_waiting;

    if (member != TUTTI_MEMBER_NONE)
        c->first_waiting = c->member[member].next;
    return member;
}

/* Out of the queue of those that wait, wherever it stands there. */
static void forget(struct tutti_coordinator *c, uint32_t member)
{
    uint32_t before = TUTTI_MEMBER_NONE;

    for (uint32_t i = c->first_waiting; i != TUTTI_MEMBER_NONE; i = c->member[i].next) {
        if (i == member) {
            if (before == TUTTI_MEMBER_NONE)
                c->first_waiting = c->member[i].next;
            else
                c->member[before].next = c->member[i].next;
            if (c->last_waiting == member)
                c->last_waiting = before;
            return;
        }
        before = i;
    }
}

void tutti_coordinate_finish(struct tutti_coordinator *c)
{
    c->first_waiting = TUTTI_MEMBER_NONE;
    for (uint32_t i = 0; i < c->params.member_count; i++) {
        struct tutti_coord_member *m = &c->member[i];

        if (m->state != TUTTI_MEMBER_WAITING && m->state != TUTTI_MEMBER_WORKING)
            continue;
        c->stats.unfinished += m->state == TUTTI_MEMBER_WORKING;
        m->state = TUTTI_MEMBER_FINISHED;
        tutti_coordinate_act(c, TUTTI_ACTION_FINISH, i);
    }
}

static void drop_late(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    struct tutti_coord_action *action = tutti_coordinate_act(c, TUTTI_ACTION_DROP, event->member);

    action->incarnation = event->incarnation;
    action->episode = event->episode;
    action->number = event->number;
    c->stats.dropped_late++;
}

void tutti_coordinate_save(struct tutti_coordinator *c, uint32_t member)
{
    if (c->saving != 0 || c->step <= c->saved_step)
        return;
    c->saving = c->step;
    c->saver = member;
    c->saving_episode = ++c->episode;
    tutti_coordinate_act(c, TUTTI_ACTION_SAVE, member)->episode = c->saving_episode;
}

bool tutti_coordinate_saved(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    if (c->saving == 0 || event->member != c->saver || event->episode != c->saving_episode) {
        drop_late(c, event);
        return false;
    }
    c->saved_step = c->saving;
    c->saving = 0;
    return true;
}

/* ---- the front --------------------------------------------------------------------------------
 */

static void lose(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    struct tutti_coord_member *m = &c->member[event->member];
    struct tutti_coord_event lost = *event;

    lost.kind = TUTTI_EVENT_LOST;
    c->was = m->state;
    if (m->state == TUTTI_MEMBER_WAITING)
        forget(c, event->member);
    c->stats.lost += m->state == TUTTI_MEMBER_WORKING;
    m->state = TUTTI_MEMBER_ABSENT;
    if (c->saving != 0 && c->saver == event->member)
        c->saving = 0;
    c->ops->event(c, &lost);
}

static void join(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    struct tutti_coord_member *m = &c->member[event->member];

    if (m->state != TUTTI_MEMBER_ABSENT)
        lose(c, event);
    m->state = TUTTI_MEMBER_WAITING;
    m->incarnation++;
    tutti_coordinate_act(c, TUTTI_ACTION_WELCOME, event->member);
    c->ops->event(c, event);
}

/* Whether an event is of a member as it is now, and of what it is doing. */
static bool is_timely(const struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    const struct tutti_coord_member *m;

    if (event->kind == TUTTI_EVENT_SUBMITTED || event->kind == TUTTI_EVENT_SAVE_DUE)
        return true;
    if (event->member >= c->params.member_count)
        return false;
    m = &c->member[event->member];
    if (event->kind == TUTTI_EVENT_JOINED)
        return true;
    if (m->state == TUTTI_MEMBER_ABSENT || event->incarnation != m->incarnation)
        return false;
    if (event->kind == TUTTI_EVENT_LOST || event->kind == TUTTI_EVENT_LEAVING ||
        event->kind == TUTTI_EVENT_SAVED)
        return true;
    return m->state == TUTTI_MEMBER_WORKING && event->episode == m->episode;
}

const struct tutti_coord_action *tutti_coordinator_event(struct tutti_coordinator *c,
                                                         const struct tutti_coord_event *event,
                                                         uint32_t *ret_count)
{
    c->action_count = 0;
    if (!is_timely(c, event))
        drop_late(c, event);
    else if (event->kind == TUTTI_EVENT_JOINED)
        join(c, event);
    else if (event->kind == TUTTI_EVENT_LOST)
        lose(c, event);
    else
        c->ops->event(c, event);
    *ret_count = c->action_count;
    return c->action;
}

/* ---- making one -------------------------------------------------------------------------------
 */

static const struct tutti_coordinator_ops *const kinds[] = {
    &tutti_coordinate_async, &tutti_coordinate_sync, &tutti_coordinate_queue,
    &tutti_coordinate_supervisor, &tutti_coordinate_elastic};

const struct tutti_coordinator_ops *const *tutti_coordinators(size_t *ret_count)
{
    *ret_count = sizeof(kinds) / sizeof(kinds[0]);
    return kinds;
}

int tutti_coordinator_find(const char *name, const struct tutti_coordinator_ops **ret,
                           struct tutti_err *err)
{
    static const char names[] = "async, sync, queue, supervisor or elastic";
    char hint[TUTTI_HINT_BYTES];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i]->name) == 0) {
            *ret = kinds[i];
            return 0;
        }
    return tutti_fail(err, TUTTI_EINVAL, "unknown coordinator '%s' (%s%s)", name,
                      tutti_nearest_hint(name, names, hint), names);
}

static int take(struct tutti_coordinator *c, struct tutti_err *err)
{
    uint32_t count = c->params.member_count;

    if (count == 0 || count > TUTTI_MEMBERS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' members (1 to %d)", count, TUTTI_MEMBERS_MAX);
    c->member = tutti_arena_take(c->arena, count, sizeof(*c->member));
    c->action_limit = 8 * count + 16; /* two of these at most follow from one event */
    c->action = tutti_arena_take(c->arena, c->action_limit, sizeof(*c->action));
    if (c->member == NULL || c->action == NULL)
        return tutti_nomem(err);
    c->first_waiting = c->last_waiting = TUTTI_MEMBER_NONE;
    c->step = c->saved_step = c->params.first_step;
    return c->ops->init(c, err);
}

int tutti_coordinator_new(const struct tutti_coordinator_ops *ops,
                          const struct tutti_coordinator_params *params,
                          struct tutti_coordinator **ret, struct tutti_err *err)
{
    struct tutti_coordinator_params taken;
    struct tutti_arena *arena;
    struct tutti_coordinator *c;
    int status = tutti_take("tutti_coordinator_params", &taken, sizeof(taken), params,
                            TUTTI_BYTES_TO(struct tutti_coordinator_params, least_members), err);

    if (status < 0)
        return status;
    arena = tutti_arena_new();
    c = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*c));
    if (c == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    c->ops = ops;
    c->params = taken;
    c->arena = arena;
    status = take(c, err);
    if (status < 0) {
        tutti_arena_free(arena);
        return tutti_wrap(err, status, "coordinator %s", ops->name);
    }
    *ret = c;
    return 0;
}

void tutti_coordinator_free(struct tutti_coordinator *c)
{
    if (c != NULL)
        tutti_arena_free(c->arena);
}

uint64_t tutti_coordinator_step(const struct tutti_coordinator *c)
{
    return c->step;
}

uint64_t tutti_coordinator_saved(const struct tutti_coordinator *c)
{
    return c->saved_step;
}

uint64_t tutti_coordinator_queued(const struct tutti_coordinator *c)
{
    return c->closure_count;
}

const struct tutti_coord_member *tutti_coordinator_member(const struct tutti_coordinator *c,
                                                          uint32_t member)
{
    assert(member < c->params.member_count);
    return &c->member[member];
}

const struct tutti_coordinator_stats *tutti_coordinator_stats(const struct tutti_coordinator *c)
{
    return &c->stats;
}
