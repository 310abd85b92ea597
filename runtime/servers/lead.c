/* Two coordinators led by messages: what follows from their actions; see lead.h. */
#include "runtime/servers/lead_inside.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/servers/store.h"

/* ---- what is sent ---------------------------------------------------------------------------- */

static struct tutti_server_head head_of(const struct tutti_lead *l,
                                        const struct tutti_coord_action *action)
{
    return (struct tutti_server_head){.generation = l->generation,
                                      .incarnation = action->incarnation,
                                      .member = action->member,
                                      .episode = action->episode,
                                      .step = action->step,
                                      .sequence = l->sequence};
}

static void pass_verdict(struct tutti_lead *l, const struct tutti_coord_action *action,
                         enum tutti_server_verdict verdict)
{
    struct tutti_server_head head;

    l->sequence++;
    head = head_of(l, action);
    head.number = verdict;
    l->calls.verdict(l->calls.context, &head);
}

/* ---- training -------------------------------------------------------------------------------- */

/* What a training that is over has counted is kept. */
void tutti_lead_add_counts(struct tutti_servers_result *r, const struct tutti_coordinator_stats *s)
{
    r->applied += s->applied;
    r->dropped_stale += s->dropped_stale;
    r->dropped_late += s->dropped_late;
    r->lost += s->lost;
    r->staleness_sum += s->staleness_sum;
    if (s->staleness_max > r->staleness_max)
        r->staleness_max = s->staleness_max;
    for (int i = 0; i < TUTTI_SERVERS_STALENESS_BINS; i++)
        r->staleness[i] += s->staleness[i];
}

void tutti_lead_end_training(struct tutti_lead *l)
{
    if (l->training == NULL)
        return;
    tutti_lead_add_counts(&l->result, tutti_coordinator_stats(l->training));
    tutti_coordinator_free(l->training);
    l->training = NULL;
}

/* From the global step on. What cannot be had now was had when the lead was made. */
int tutti_lead_begin_training(struct tutti_lead *l, struct tutti_err *err)
{
    const struct tutti_servers_params *p = &l->params;
    const struct tutti_coordinator_params params = {.size = sizeof(params),
                                                    .member_count = p->worker_count,
                                                    .first_step = l->step,
                                                    .last_step = p->steps,
                                                    .slack = p->slack,
                                                    .staleness_max = p->staleness_max,
                                                    .aggregate = p->aggregate,
                                                    .late = p->late};
    const struct tutti_coordinator_ops *kind;
    int status = tutti_coordinator_find(p->synchronous ? "sync" : "async", &kind, err);

    assert(l->training == NULL);
    l->told = (struct tutti_servers_told){.gradients = 0};
    return status < 0 ? status : tutti_coordinator_new(kind, &params, &l->training, err);
}

static void progress(struct tutti_lead *l);

/* A gradient is taken: asynchronous, it makes a step; synchronous, it is one of those that do. */
static void applied(struct tutti_lead *l, const struct tutti_coord_action *action)
{
    const struct tutti_server_report *report = &l->reports[action->member];
    struct tutti_servers_told *told = &l->told;

    l->result.by_worker[action->member]++;
    told->worker = action->member;
    told->gradients++;
    told->sums.loss += report->sums.loss;
    told->sums.correct += report->sums.correct;
    told->sums.examples += report->sums.examples;
    told->gradient_norm = report->gradient_norm;
    told->compute_s = report->compute_s;
}

static void made_step(struct tutti_lead *l, const struct tutti_coord_action *action)
{
    struct tutti_servers_told *told = &l->told;

    told->step = l->step = action->step;
    told->dropped = l->result.dropped_stale + tutti_coordinator_stats(l->training)->dropped_stale;
    told->at_s = l->now_s - l->begun_s;
    l->calls.told(l->calls.context, told);
    *told = (struct tutti_servers_told){.gradients = 0};
    l->moved_s = l->now_s;
}

static void carry_out(struct tutti_lead *l, const struct tutti_coord_action *action)
{
    struct tutti_server_head head = head_of(l, action);

    switch (action->kind) {
    case TUTTI_ACTION_START:
        l->calls.send(l->calls.context, lead_trainer_of(l, action->member), TUTTI_MESSAGE_START,
                      &head);
        break;
    case TUTTI_ACTION_ABORT:
        l->calls.send(l->calls.context, lead_trainer_of(l, action->member), TUTTI_MESSAGE_ABORT,
                      &head);
        break;
    case TUTTI_ACTION_APPLY:
        pass_verdict(l, action, TUTTI_VERDICT_APPLY);
        applied(l, action);
        if (!l->params.synchronous)
            made_step(l, action);
        break;
    case TUTTI_ACTION_ADVANCE:
        pass_verdict(l, action, TUTTI_VERDICT_ADVANCE);
        made_step(l, action);
        break;
    case TUTTI_ACTION_DROP:
        pass_verdict(l, action, TUTTI_VERDICT_DROP);
        break;
    default: /* WELCOME; FINISH: it is the supervisor who ends, once all is saved */
        break;
    }
}

void tutti_lead_train(struct tutti_lead *l, const struct tutti_coord_event *event)
{
    const uint64_t before = l->step;
    const struct tutti_coord_action *actions;
    uint32_t count;

    if (l->training == NULL)
        return;
    if (event->kind == TUTTI_EVENT_DONE) /* for what the staleness was */
        l->told.staleness = l->step - tutti_coordinator_member(l->training, event->member)->step;
    if (l->params.synchronous)
        l->told.staleness = 0;
    actions = tutti_coordinator_event(l->training, event, &count);
    for (uint32_t i = 0; i < count; i++)
        carry_out(l, &actions[i]);
    if (l->step != before)
        progress(l);
}

/* ---- the supervisor -------------------------------------------------------------------------- */

void tutti_lead_tell_supervisor(struct tutti_lead *l, enum tutti_coord_event_kind kind,
                                uint32_t member, uint64_t number)
{
    const struct tutti_coord_member *m = tutti_coordinator_member(l->supervisor, member);
    const struct tutti_coord_event event = {.kind = kind,
                                            .member = member,
                                            .incarnation = m->incarnation,
                                            .episode = m->episode,
                                            .number = number};

    tutti_lead_supervise(l, &event);
}

/* The global step has gone on. */
static void progress(struct tutti_lead *l)
{
    const uint64_t every = l->params.save_steps;
    const uint64_t step = l->step;

    tutti_lead_tell_supervisor(l, TUTTI_EVENT_PROGRESS, LEAD_CHIEF, step);
    if (every > 0 && step / every > l->saved_steps / every && step < l->params.steps)
        tutti_lead_save_due(l);
    l->saved_steps = step;
}

/* Of a worker that the supervisor lets train. */
static void begin_worker(struct tutti_lead *l, uint32_t trainer)
{
    if (lead_is_worker(l, trainer))
        tutti_lead_train(l, &(struct tutti_coord_event){.kind = TUTTI_EVENT_JOINED,
                                                        .member = lead_worker_of(l, trainer)});
}

void tutti_lead_finish(struct tutti_lead *l, uint32_t member, const struct tutti_server_head *head)
{
    l->over = true;
    if (member < l->trainer_count)
        l->calls.send(l->calls.context, member, TUTTI_MESSAGE_FINISH, head);
}

static void carry_out_supervisor(struct tutti_lead *l, const struct tutti_coord_action *action)
{
    struct tutti_server_head head;

    switch (action->kind) {
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        tutti_lead_end_training(l);
        l->generation++;
        l->result.set_up++;
        head = head_of(l, action);
        l->calls.send(l->calls.context, LEAD_CHIEF, TUTTI_MESSAGE_SET_UP, &head);
        break;
    case TUTTI_ACTION_START:
        begin_worker(l, action->member);
        break;
    case TUTTI_ACTION_SAVE:
        pass_verdict(l, action, TUTTI_VERDICT_MARK);
        head = head_of(l, action);
        l->calls.send(l->calls.context, LEAD_CHIEF, TUTTI_MESSAGE_SAVE, &head);
        break;
    case TUTTI_ACTION_DROP:
        l->result.dropped_late++;
        break;
    case TUTTI_ACTION_FINISH:
        head = head_of(l, action);
        tutti_lead_finish(l, action->member, &head);
        break;
    case TUTTI_ACTION_ABORT: /* of what it computes, whose generation is over */
        head = (struct tutti_server_head){.generation = l->generation - 1,
                                          .episode = TUTTI_SERVER_ALL_EPISODES};
        if (lead_is_worker(l, action->member))
            l->calls.send(l->calls.context, action->member, TUTTI_MESSAGE_ABORT, &head);
        break;
    default: /* WELCOME */
        break;
    }
}

/* What is carried out here leads to no other event of the supervisor: a training that is joined
 * makes no step by that alone. */
void tutti_lead_supervise(struct tutti_lead *l, const struct tutti_coord_event *event)
{
    const struct tutti_coord_action *actions;
    uint32_t count;

    assert(!l->acting);
    l->acting = true;
    actions = tutti_coordinator_event(l->supervisor, event, &count);
    for (uint32_t i = 0; i < count; i++)
        carry_out_supervisor(l, &actions[i]);
    l->acting = false;
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Above those of any server 0 that was there before, whose messages may still be under way. */
static uint64_t first_generation(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000) << 20;
}

static int open_coordinators(struct tutti_lead *l, struct tutti_err *err)
{
    const struct tutti_coordinator_params params = {.size = sizeof(params),
                                                    .member_count =
                                                        l->trainer_count + l->params.server_count,
                                                    .last_step = l->params.steps,
                                                    .server_count = l->params.server_count};
    const struct tutti_coordinator_ops *kind;
    int status = tutti_coordinator_find("supervisor", &kind, err);

    if (status == 0)
        status = tutti_coordinator_new(kind, &params, &l->supervisor, err);
    if (status == 0)
        status = tutti_lead_begin_training(l, err); /* whether its parameters will do */
    if (status == 0) {
        tutti_coordinator_free(l->training);
        l->training = NULL;
    }
    return status;
}

int tutti_lead_new(const struct tutti_servers_params *params, const struct tutti_lead_calls *calls,
                   double now_s, struct tutti_lead **ret, struct tutti_err *err)
{
    struct tutti_lead *l = calloc(1, sizeof(*l));
    int status;

    if (l == NULL)
        return tutti_nomem(err);
    l->params = *params;
    l->calls = *calls;
    l->trainer_count = lead_trainer_count(params);
    l->generation = first_generation();
    l->begun_s = l->now_s = l->moved_s = now_s;
    l->reports = calloc(params->worker_count, sizeof(l->reports[0]));
    l->result.by_worker = calloc(params->worker_count, sizeof(uint64_t));
    l->lost_s = calloc((size_t)l->trainer_count + params->server_count, sizeof(double));
    if (l->reports == NULL || l->result.by_worker == NULL || l->lost_s == NULL)
        status = tutti_nomem(err);
    else
        status = open_coordinators(l, err);
    for (uint32_t i = 0; i < l->trainer_count + params->server_count && status == 0; i++)
        l->lost_s[i] = now_s;
    if (status < 0)
        tutti_lead_free(l);
    else
        *ret = l;
    return status;
}

void tutti_lead_free(struct tutti_lead *l)
{
    if (l == NULL)
        return;
    tutti_coordinator_free(l->training);
    tutti_coordinator_free(l->supervisor);
    free(l->result.by_worker);
    free(l->reports);
    free(l->lost_s);
    free(l);
}
