/* A chief, servers and workers, as TensorFlow's Supervisor has them: the chief sets the model up or
 * restores it, workers wait for that; without the chief or a server nobody goes on, and all begins
 * again from the last checkpoint; a worker may come and go. */
#include "runtime/status.h"
#include "runtime/workload/coordinate.h"

enum { CHIEF = 0 };

enum phase {
    FORMING,    /* the chief or a server is not there */
    SETTING_UP, /* the chief is at it */
    RUNNING,
    SAVING_LAST, /* the last step is done; its checkpoint is not yet written */
    OVER,
};

static uint32_t worker_count(const struct tutti_coordinator *c)
{
    return c->params.member_count - c->params.server_count;
}

static bool is_needed(const struct tutti_coordinator *c, uint32_t member)
{
    return member == CHIEF || member >= worker_count(c);
}

static void set_up(struct tutti_coordinator *c)
{
    for (uint32_t i = 0; i < c->params.member_count; i++)
        if (is_needed(c, i) && !coordinate_is_present(c, i))
            return;
    c->phase = SETTING_UP;
    c->step = c->saved_step;
    c->stats.restored++;
    tutti_coordinate_start(c, c->saved_step > 0 ? TUTTI_ACTION_RESTORE : TUTTI_ACTION_INITIALISE,
                           CHIEF, c->step);
}

static void run(struct tutti_coordinator *c)
{
    c->phase = RUNNING;
    for (uint32_t i = 0; i < worker_count(c); i++)
        if (c->member[i].state == TUTTI_MEMBER_WAITING)
            tutti_coordinate_start(c, TUTTI_ACTION_START, i, c->step);
}

/* What was done since the last checkpoint is lost. */
static void stop(struct tutti_coordinator *c)
{
    for (uint32_t i = 0; i < worker_count(c); i++)
        tutti_coordinate_abort(c, i);
    c->phase = FORMING;
    c->saving = 0;
    c->step = c->saved_step;
}

/* All is done but the checkpoint of it. */
static void end(struct tutti_coordinator *c)
{
    c->phase = SAVING_LAST;
    tutti_coordinate_save(c, CHIEF);
    if (c->saved_step >= c->step) {
        c->phase = OVER;
        tutti_coordinate_finish(c);
    }
}

static void join(struct tutti_coordinator *c, uint32_t member)
{
    if (c->phase == OVER)
        tutti_coordinate_finish(c);
    else if (c->phase == FORMING)
        set_up(c);
    else if (c->phase == RUNNING && member < worker_count(c))
        tutti_coordinate_start(c, TUTTI_ACTION_START, member, c->step);
}

/* The chief has set the model up; or a worker has no more input. */
static void done(struct tutti_coordinator *c, uint32_t member)
{
    if (member == CHIEF) {
        c->member[member].state = TUTTI_MEMBER_WAITING;
        if (c->phase == SETTING_UP && !coordinate_at_end(c))
            run(c);
        else
            end(c);
    } else {
        c->member[member].state = TUTTI_MEMBER_FINISHED;
        tutti_coordinate_act(c, TUTTI_ACTION_FINISH, member);
    }
}

static int supervisor_init(struct tutti_coordinator *c, struct tutti_err *err)
{
    if (c->params.server_count >= c->params.member_count)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' servers of %u members leave no chief",
                          c->params.server_count, c->params.member_count);
    return 0;
}

static void supervisor_event(struct tutti_coordinator *c, const struct tutti_coord_event *event)
{
    switch (event->kind) {
    case TUTTI_EVENT_JOINED:
        join(c, event->member);
        break;
    case TUTTI_EVENT_LOST:
        if (is_needed(c, event->member) && c->phase != OVER)
            stop(c);
        break;
    case TUTTI_EVENT_DONE:
        done(c, event->member);
        break;
    case TUTTI_EVENT_PROGRESS:
        if (c->phase == RUNNING && event->number > c->step)
            c->step = event->number;
        if (c->phase == RUNNING && coordinate_at_end(c))
            end(c);
        break;
    case TUTTI_EVENT_SAVE_DUE:
        if (c->phase == RUNNING)
            tutti_coordinate_save(c, CHIEF);
        break;
    case TUTTI_EVENT_SAVED:
        if (tutti_coordinate_saved(c, event) && c->phase == SAVING_LAST)
            end(c);
        break;
    default:
        break;
    }
}

const struct tutti_coordinator_ops tutti_coordinate_supervisor = {
    .size = sizeof(struct tutti_coordinator_ops),
    .name = "supervisor",
    .summary = "a chief that sets up, saves and restores for workers and servers",
    .init = supervisor_init,
    .event = supervisor_event,
};
