/* Who does what next, in virtual time: the coordinator of the servers, under a supervisor's where
 * there is one, and processes that are lost and come. */
#include <math.h>

#include "runtime/status.h"
#include "sim/servers/play.h"

enum { CHIEF = 0 };

static void feed(struct servers *s, enum tutti_coord_event_kind kind, uint32_t worker);
static void supervise(struct servers *s, enum tutti_coord_event_kind kind, uint32_t member,
                      uint64_t number);

/* ---- counts ---------------------------------------------------------------------------------- */

static void add_stats(struct tutti_coordinator_stats *sum,
                      const struct tutti_coordinator_stats *more)
{
    sum->started += more->started;
    sum->applied += more->applied;
    sum->dropped_stale += more->dropped_stale;
    sum->dropped_late += more->dropped_late;
    sum->lost += more->lost;
    sum->unfinished += more->unfinished;
    sum->staleness_sum += more->staleness_sum;
    if (more->staleness_max > sum->staleness_max)
        sum->staleness_max = more->staleness_max;
    for (uint32_t i = 0; i < TUTTI_STALENESS_BINS; i++)
        sum->staleness[i] += more->staleness[i];
}

struct tutti_coordinator_stats tutti_served_stats(const struct servers *s)
{
    struct tutti_coordinator_stats sum = s->before;

    if (s->coordinator != NULL)
        add_stats(&sum, tutti_coordinator_stats(s->coordinator));
    if (s->supervisor != NULL)
        sum.restored = tutti_coordinator_stats(s->supervisor)->restored;
    return sum;
}

uint64_t tutti_served_step(const struct servers *s)
{
    return tutti_coordinator_step(s->coordinator != NULL ? s->coordinator : s->supervisor);
}

/* Where all is as it was at the start the second half is measured, else all of it. */
static void note_half(struct servers *s, uint64_t step)
{
    const struct tutti_coordinator_params *p = &s->opts.params;

    if (s->half_ps == 0 && s->supervisor == NULL && s->opts.change_count == 0 &&
        step >= p->first_step + (p->last_step - p->first_step) / 2) {
        s->half_ps = s->now_ps;
        s->half_step = step;
        s->half_applied = tutti_coordinator_stats(s->coordinator)->applied;
    }
}

/* ---- the coordinator of the servers ---------------------------------------------------------- */

static void obey(struct servers *s, const struct tutti_coord_action *action)
{
    switch (action->kind) {
    case TUTTI_ACTION_START:
        s->worker[action->member].begin_ps = s->now_ps;
        tutti_served_transfer(s, action->member, PULLING);
        break;
    case TUTTI_ACTION_ABORT:
        tutti_served_stop(s, action->member, IDLE);
        break;
    case TUTTI_ACTION_FINISH:
        if (s->supervisor == NULL)
            s->finished = true;
        else
            tutti_served_stop(s, action->member, IDLE);
        break;
    default:
        break;
    }
}

static void feed(struct servers *s, enum tutti_coord_event_kind kind, uint32_t worker)
{
    const struct tutti_coord_member *member = tutti_coordinator_member(s->coordinator, worker);
    struct tutti_coord_event event = {kind, worker, member->incarnation, member->episode, 0};
    uint64_t step;
    uint32_t count;
    const struct tutti_coord_action *action =
        tutti_coordinator_event(s->coordinator, &event, &count);

    for (uint32_t i = 0; i < count; i++)
        obey(s, &action[i]);
    step = tutti_coordinator_step(s->coordinator);
    note_half(s, step);
    if (s->supervisor != NULL && step > s->reported) {
        s->reported = step;
        supervise(s, TUTTI_EVENT_PROGRESS, worker, step);
    }
}

void tutti_served_done(struct servers *s, uint32_t worker)
{
    feed(s, TUTTI_EVENT_DONE, worker);
}

/* ---- the supervisor -------------------------------------------------------------------------- */

/* The chief or a server is lost: what was done since the checkpoint is lost with it. */
static void stop_all(struct servers *s)
{
    if (s->coordinator != NULL) {
        s->repeated +=
            tutti_coordinator_step(s->coordinator) - tutti_coordinator_saved(s->supervisor);
        add_stats(&s->before, tutti_coordinator_stats(s->coordinator));
        tutti_coordinator_free(s->coordinator);
        s->coordinator = NULL;
        s->stood_ps = s->now_ps;
    }
    for (uint32_t i = 0; i <= servers_saver(s); i++)
        if (s->worker[i].phase != AWAY)
            tutti_served_stop(s, i, IDLE);
    s->saving = 0;
    s->save_ps = INT64_MAX;
}

/* The servers take gradients, from step `step` on. */
static void start_all(struct servers *s, uint64_t step)
{
    struct tutti_coordinator_params params = s->opts.params;

    params.first_step = s->reported = step;
    s->status = tutti_coordinator_new(s->opts.ops, &params, &s->coordinator, s->err);
    s->standing_ps += s->now_ps - s->stood_ps;
    if (s->opts.save_every_ps > 0)
        s->save_ps = s->now_ps + s->opts.save_every_ps;
}

static void obey_supervisor(struct servers *s, const struct tutti_coord_action *action)
{
    tutti_ps read_ps = 0;

    switch (action->kind) {
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        if (action->kind == TUTTI_ACTION_RESTORE && s->opts.save_bytes_per_s > 0)
            read_ps = tutti_wire_ps(s->bytes, s->opts.save_bytes_per_s);
        tutti_served_turn(s, CHIEF, READING, s->now_ps + read_ps);
        break;
    case TUTTI_ACTION_START:
        if (s->coordinator == NULL && s->status == 0)
            start_all(s, action->step);
        if (s->status == 0)
            feed(s, TUTTI_EVENT_JOINED, action->member);
        break;
    case TUTTI_ACTION_SAVE:
        s->saving = action->episode;
        tutti_served_transfer(s, servers_saver(s), PULLING);
        break;
    case TUTTI_ACTION_FINISH:
        s->finished = true;
        break;
    default: /* ABORT: stop_all() has */
        break;
    }
}

static void supervise(struct servers *s, enum tutti_coord_event_kind kind, uint32_t member,
                      uint64_t number)
{
    const struct tutti_coord_member *m = tutti_coordinator_member(s->supervisor, member);
    struct tutti_coord_event event = {kind, member, m->incarnation,
                                      kind == TUTTI_EVENT_SAVED ? s->saving : m->episode, number};
    uint32_t count;
    const struct tutti_coord_action *action =
        tutti_coordinator_event(s->supervisor, &event, &count);

    for (uint32_t i = 0; i < count; i++)
        obey_supervisor(s, &action[i]);
}

void tutti_served_set_up(struct servers *s)
{
    supervise(s, TUTTI_EVENT_DONE, CHIEF, 0);
}

void tutti_served_saved(struct servers *s)
{
    s->checkpoints++;
    supervise(s, TUTTI_EVENT_SAVED, CHIEF, 0);
}

/* ---- processes ------------------------------------------------------------------------------- */

static tutti_ps life_ps(struct servers *s)
{
    double life;

    if (s->opts.mtbf_ps == 0)
        return INT64_MAX;
    life = -log(1 - tutti_random_unit(&s->random)) * (double)s->opts.mtbf_ps;
    return life < 4e18 ? s->now_ps + (tutti_ps)life + 1 : INT64_MAX;
}

static bool is_of(const struct servers *s, const struct tutti_servers_change *change,
                  uint32_t process)
{
    return (change->is_server ? servers_workers(s) : 0) + change->index == process;
}

/* Its next change of the list; passes over those that say what it is already. */
static void find_change(struct servers *s, uint32_t process)
{
    struct process *p = &s->process[process];

    p->change_ps = INT64_MAX;
    for (; p->next_change < s->opts.change_count; p->next_change++) {
        const struct tutti_servers_change *change = &s->opts.changes[p->next_change];

        if (!is_of(s, change, process) || change->comes == p->is_present)
            continue;
        p->change_ps = change->at_ps;
        p->next_change++;
        return;
    }
}

static void next_life(struct servers *s, uint32_t process)
{
    struct process *p = &s->process[process];

    if (s->opts.change_count > 0)
        find_change(s, process);
    else
        p->change_ps = p->is_present ? life_ps(s) : s->now_ps + s->opts.restart_ps;
}

static void lose(struct servers *s, uint32_t process)
{
    bool is_worker = process < servers_workers(s);

    s->failures++;
    if (s->supervisor != NULL && (process == CHIEF || !is_worker))
        stop_all(s);
    if (is_worker) {
        tutti_served_stop(s, process, AWAY);
        s->worker[process].has_weights = false;
    }
    s->process[process].is_present = false;
    next_life(s, process);
    if (s->supervisor != NULL)
        supervise(s, TUTTI_EVENT_LOST, process, 0);
    if (s->coordinator != NULL && is_worker)
        feed(s, TUTTI_EVENT_LOST, process);
}

static void come(struct servers *s, uint32_t process)
{
    s->process[process].is_present = true;
    next_life(s, process);
    if (process < servers_workers(s))
        tutti_served_turn(s, process, IDLE, INT64_MAX);
    if (s->supervisor != NULL)
        supervise(s, TUTTI_EVENT_JOINED, process, 0);
    else
        feed(s, TUTTI_EVENT_JOINED, process);
}

void tutti_served_change(struct servers *s, uint32_t process)
{
    if (s->process[process].change_ps > s->now_ps)
        return;
    if (s->process[process].is_present)
        lose(s, process);
    else
        come(s, process);
}

void tutti_served_save_due(struct servers *s)
{
    if (s->save_ps > s->now_ps)
        return;
    s->save_ps += s->opts.save_every_ps;
    supervise(s, TUTTI_EVENT_SAVE_DUE, CHIEF, 0);
}

static bool comes_later(const struct servers *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->opts.change_count; i++)
        if (is_of(s, &s->opts.changes[i], process))
            return s->opts.changes[i].comes;
    return false;
}

void tutti_served_begin(struct servers *s)
{
    uint32_t count = servers_processes(s);

    s->save_ps = INT64_MAX;
    for (uint32_t i = 0; i <= servers_saver(s); i++) {
        s->worker[i].phase = i < servers_workers(s) && comes_later(s, i) ? AWAY : IDLE;
        s->worker[i].end_ps = INT64_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        s->process[i].change_ps = INT64_MAX;
        s->process[i].is_present = !comes_later(s, i);
        if (i < servers_workers(s) || s->supervisor != NULL)
            next_life(s, i);
    }
    for (uint32_t i = 0; i < count && s->status == 0; i++)
        if (s->process[i].is_present && s->supervisor != NULL)
            supervise(s, TUTTI_EVENT_JOINED, i, 0);
        else if (s->process[i].is_present && i < servers_workers(s))
            feed(s, TUTTI_EVENT_JOINED, i);
}

int tutti_served_lead(struct servers *s, struct tutti_err *err)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_coordinator_params params = {.size = sizeof(params),
                                              .member_count = servers_processes(s),
                                              .server_count = s->opts.server_count,
                                              .first_step = s->opts.params.first_step,
                                              .last_step = s->opts.params.last_step};
    int status;

    s->err = err;
    if (!s->opts.supervised)
        return tutti_coordinator_new(s->opts.ops, &s->opts.params, &s->coordinator, err);
    status = tutti_coordinator_find("supervisor", &ops, err);
    return status < 0 ? status : tutti_coordinator_new(ops, &params, &s->supervisor, err);
}
