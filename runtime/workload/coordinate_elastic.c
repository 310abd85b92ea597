/* An elastic group: synchronous steps of whoever is there. Who comes is taken in, who would leave
 * is let go, at the end of a step; a member that is lost breaks the step off, which the others
 * repeat from the weights that they had before it. */
#include "runtime/status.h"
#include "runtime/workload/coordinate.h"

static bool is_in_group(const struct tutti_coordinator *c, uint32_t member)
{
    return c->member[member].clock != 0;
}

static uint32_t waiting_count(const struct tutti_coordinator *c)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < c->params.member_count; i++)
        count += c->member[i].state == TUTTI_MEMBER_WAITING;
    return count;
}

/* Somebody who has the weights; if nobody has, the first sets them up. */
static uint32_t find_source(struct tutti_coordinator *c)
{
    uint32_t first = TUTTI_MEMBER_NONE;
    struct tutti_coord_action *action;

    for (uint32_t i = 0; i < c->params.member_count; i++) {
        if (c->member[i].state != TUTTI_MEMBER_WAITING)
            continue;
        if (c->member[i].holds)
            return i;
        first = first == TUTTI_MEMBER_NONE ? i : first;
    }
    assert(first != TUTTI_MEMBER_NONE);
    c->step = c->saved_step;
    c->stats.restored++;
    action = tutti_coordinate_act(
        c, c->saved_step > 0 ? TUTTI_ACTION_RESTORE : TUTTI_ACTION_INITIALISE, first);
    action->number = 1;
    return first;
}

/* Begins a step with all that wait, if they are enough. */
static void form(struct tutti_coordinator *c)
{
    uint32_t count = waiting_count(c);
    uint32_t source;

    assert(c->group_size == 0);
    if (count < c->params.least_members || (c->group == 0 && count < c->params.first_members))
        return;
    source = find_source(c);
    c->group += c->changed;
    c->changed = false;
    c->group_size = count;
    c->group_done = 0;
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (c->member[i].state == TUTTI_MEMBER_WAITING && !c->member[i].holds && i != source)
            tutti_coordinate_act(c, TUTTI_ACTION_COPY, i)->number = source;
    for (uint32_t i = 0; i < c->params.member_count; i++) {
        if (c->member[i].state != TUTTI_MEMBER_WAITING)
            continue;
        c->member[i].clock = c->group;
        tutti_coordinate_start(c, TUTTI_ACTION_START, i, c->step)->number = c->group;
    }
}

static void let_go(struct tutti_coordinator *c, uint32_t member)
{
    struct tutti_coord_member *m = &c->member[member];

    m->state = TUTTI_MEMBER_FINISHED;
    m->flag = false;
    m->holds = false;
    m->clock = 0;
    c->changed = true;
    tutti_coordinate_act(c, TUTTI_ACTION_FINISH, member);
}

/* The members have all done the step. */
static void advance(struct tutti_coordinator *c)
{
    uint32_t saver = TUTTI_MEMBER_NONE;

    c->step++;
    c->stats.applied += c->group_size;
    c->stats.staleness[0] += c->group_size;
    c->group_size = 0;
    tutti_coordinate_act(c, TUTTI_ACTION_ADVANCE, TUTTI_MEMBER_NONE);
    for (uint32_t i = 0; i < c->params.member_count; i++) {
        c->member[i].holds = is_in_group(c, i);
        if (c->member[i].holds && !c->member[i].flag && saver == TUTTI_MEMBER_NONE)
            saver = i;
    }
    if (c->save_due && saver != TUTTI_MEMBER_NONE) {
        tutti_coordinate_save(c, saver);
        c->save_due = false;
    }
    if (coordinate_at_end(c))
        return;
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (c->member[i].flag && is_in_group(c, i))
            let_go(c, i);
    form(c);
}

/* A member of the group is lost: a step under way is broken off. Those who had the weights before
 * it go back to them; those who were to get them may not have. */
static void lose(struct tutti_coordinator *c, uint32_t member)
{
    bool was_in_group = is_in_group(c, member);

    c->member[member].clock = 0;
    c->member[member].holds = false;
    c->member[member].flag = false;
    if (!was_in_group)
        return;
    c->changed = true;
    for (uint32_t i = 0; c->group_size > 0 && i < c->params.member_count; i++) {
        if (!is_in_group(c, i))
            continue;
        tutti_coordinate_abort(c, i);
        if (c->member[i].holds)
            tutti_coordinate_act(c, TUTTI_ACTION_RESTORE, i);
        else
            c->member[i].clock = 0;
    }
    c->group_size = 0;
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (c->member[i].flag)
            let_go(c, i);
    form(c);
}

static void leave(struct tutti_coordinator *c, uint32_t member)
{
    enum tutti_coord_member_state state = c->member[member].state;

    if (state == TUTTI_MEMBER_FINISHED)
        return;
    if (c->group_size > 0 && is_in_group(c, member))
        c->member[member].flag = true;
    else
        let_go(c, member);
}

static int elastic_init(struct tutti_coordinator *c, struct tutti_err *err)
{
    if (c->params.least_members == 0)
        c->params.least_members = 1;
    if (c->params.least_members > c->params.member_count)
        return tutti_fail(err, TUTTI_EINVAL, "a group of at least '%u' of %u members",
                          c->params.least_members, c->params.member_count);
    if (c->params.first_members > c->params.member_count)
        return tutti_fail(err, TUTTI_EINVAL, "a first group of '%u' of %u members",
                          c->params.first_members, c->params.member_count);
    return 0;
}

static void elastic_event(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    switch (event->kind) {
    case TUTTI_EVENT_JOINED:
        c->changed = true;
        if (c->group_size == 0 && !coordinate_at_end(c))
            form(c);
        break;
    case TUTTI_EVENT_LOST:
        if (!coordinate_at_end(c))
            lose(c, event->member);
        break;
    case TUTTI_EVENT_LEAVING:
        leave(c, event->member);
        break;
    case TUTTI_EVENT_DONE:
        c->member[event->member].state = TUTTI_MEMBER_WAITING;
        if (++c->group_done == c->group_size)
            advance(c);
        break;
    case TUTTI_EVENT_SAVE_DUE:
        c->save_due = true;
        break;
    case TUTTI_EVENT_SAVED:
        tutti_coordinate_saved(c, event);
        break;
    default:
        break;
    }
    if (coordinate_at_end(c))
        tutti_coordinate_finish(c);
}

const struct tutti_coordinator_ops tutti_coordinate_elastic = {
    .size = sizeof(struct tutti_coordinator_ops),
    .name = "elastic",
    .summary = "synchronous steps of whoever is there; members come and go between them",
    .init = elastic_init,
    .event = elastic_event,
};
