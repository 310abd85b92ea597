/* Who comes and goes, and what those that train say; see lead.h. */
#include "runtime/servers/lead_inside.h"

#include <assert.h>

/* ---- who comes and goes ---------------------------------------------------------------------- */

static void joined(struct tutti_lead *l, uint32_t member)
{
    l->moved_s = l->now_s;
    l->lost_s[member] = l->now_s;
    tutti_lead_supervise(l,
                         &(struct tutti_coord_event){.kind = TUTTI_EVENT_JOINED, .member = member});
}

static void lost(struct tutti_lead *l, uint32_t member)
{
    if (!lead_is_present(l, member))
        return;
    l->moved_s = l->now_s;
    l->lost_s[member] = l->now_s;
    tutti_lead_tell_supervisor(l, TUTTI_EVENT_LOST, member, 0);
}

void tutti_lead_trainer_joined(struct tutti_lead *l, uint32_t trainer)
{
    const struct tutti_server_head head = {.generation = l->generation, .step = l->step};

    assert(trainer < l->trainer_count);
    if (l->over) { /* it comes late */
        tutti_lead_finish(l, trainer, &head);
        return;
    }
    tutti_lead_trainer_lost(l, trainer);
    joined(l, trainer);
}

/* What still comes of it is dropped. */
static void end_generation(struct tutti_lead *l)
{
    tutti_lead_end_training(l);
    l->halted = false;
    l->generation++;
}

/* While the last checkpoint is written none is let in again, and may be lost all the same. */
static void lost_in_training(struct tutti_lead *l, uint32_t worker)
{
    const struct tutti_coord_member *m =
        l->training != NULL ? tutti_coordinator_member(l->training, worker) : NULL;

    if (m != NULL && m->state != TUTTI_MEMBER_ABSENT)
        tutti_lead_train(l, &(struct tutti_coord_event){.kind = TUTTI_EVENT_LOST,
                                                        .member = worker,
                                                        .incarnation = m->incarnation});
}

/* Without the chief nothing goes on, and what was done since the last checkpoint is lost; without
 * another worker the rest does. */
void tutti_lead_trainer_lost(struct tutti_lead *l, uint32_t trainer)
{
    if (l->over || !lead_is_present(l, trainer))
        return;
    if (trainer == LEAD_CHIEF)
        end_generation(l);
    else
        lost_in_training(l, lead_worker_of(l, trainer));
    lost(l, trainer);
}

/* A clock that was set back while server 0 was started anew must not make its generations older
 * than what another server has kept. */
void tutti_lead_server_joined(struct tutti_lead *l, uint32_t server, uint64_t generation)
{
    assert(server < l->params.server_count);
    if (l->over) /* nothing is set up any more */
        return;
    tutti_lead_server_lost(l, server);
    if (generation > l->generation)
        l->generation = generation; /* one more at each setting up */
    joined(l, l->trainer_count + server);
}

void tutti_lead_server_lost(struct tutti_lead *l, uint32_t server)
{
    if (l->over || !lead_is_present(l, l->trainer_count + server))
        return;
    end_generation(l);
    lost(l, l->trainer_count + server);
}

/* ---- what they say --------------------------------------------------------------------------- */

/* Of this generation, and while something is trained. */
static bool is_current(struct tutti_lead *l, uint32_t trainer, const struct tutti_server_head *head)
{
    if (lead_is_worker(l, trainer) && l->training != NULL && head->generation == l->generation)
        return true;
    l->result.dropped_late++;
    return false;
}

static struct tutti_coord_event event_of(const struct tutti_lead *l, uint32_t trainer,
                                         const struct tutti_server_head *head,
                                         enum tutti_coord_event_kind kind)
{
    return (struct tutti_coord_event){.kind = kind,
                                      .member = lead_worker_of(l, trainer),
                                      .incarnation = head->incarnation,
                                      .episode = head->episode};
}

void tutti_lead_trainer_alive(struct tutti_lead *l, uint32_t trainer)
{
    if (trainer == LEAD_CHIEF)
        l->moved_s = l->now_s;
}

void tutti_lead_pulled(struct tutti_lead *l, uint32_t trainer, const struct tutti_server_head *head)
{
    const struct tutti_coord_event event = event_of(l, trainer, head, TUTTI_EVENT_PULLED);

    if (l->training != NULL && head->generation == l->generation && !l->params.synchronous)
        tutti_lead_train(l, &event);
}

void tutti_lead_done(struct tutti_lead *l, uint32_t trainer, const struct tutti_server_head *head,
                     const struct tutti_server_report *report)
{
    const struct tutti_coord_event event = event_of(l, trainer, head, TUTTI_EVENT_DONE);

    if (!is_current(l, trainer, head))
        return;
    l->reports[event.member] = *report;
    tutti_lead_train(l, &event);
}

void tutti_lead_set_up(struct tutti_lead *l, uint32_t trainer, const struct tutti_server_head *head)
{
    const struct tutti_coord_member *chief = tutti_coordinator_member(l->supervisor, LEAD_CHIEF);

    l->moved_s = l->now_s;
    if (l->over || trainer != LEAD_CHIEF || head->generation != l->generation ||
        l->training != NULL || chief->state != TUTTI_MEMBER_WORKING ||
        head->episode != chief->episode) {
        l->result.dropped_late++;
        return;
    }
    l->step = l->saved_steps = l->set_up_step = head->step;
    if (l->stopping) { /* all is as it was saved */
        tutti_lead_stop(l);
        return;
    }
    l->failed = tutti_lead_begin_training(l, &l->failure);
    if (l->failed < 0)
        return;
    tutti_lead_tell_supervisor(l, TUTTI_EVENT_DONE, LEAD_CHIEF, 0);
    if (l->step > 0) /* of a checkpoint that this server has not seen written */
        tutti_lead_tell_supervisor(l, TUTTI_EVENT_PROGRESS, LEAD_CHIEF, l->step);
}

void tutti_lead_saved(struct tutti_lead *l, uint32_t trainer, const struct tutti_server_head *head)
{
    const struct tutti_coord_event event = {
        .kind = TUTTI_EVENT_SAVED,
        .member = trainer,
        .incarnation = tutti_coordinator_member(l->supervisor, trainer)->incarnation,
        .episode = head->episode,
        .number = head->step};

    l->moved_s = l->now_s;
    if (l->over || head->generation != l->generation) {
        l->result.dropped_late++;
        return;
    }
    tutti_lead_supervise(l, &event);
    if (l->stopping && !l->over)
        tutti_lead_stop(l);
}

void tutti_lead_save_due(struct tutti_lead *l)
{
    if (l->training != NULL)
        tutti_lead_supervise(l, &(struct tutti_coord_event){.kind = TUTTI_EVENT_SAVE_DUE});
}

/* Nobody is started any more; what there is is saved, and then all are told that it is over. Where
 * nothing is trained just now there is nothing newer than the last checkpoint. */
void tutti_lead_stop(struct tutti_lead *l)
{
    struct tutti_server_head head = {.generation = l->generation};

    l->stopping = true;
    if (l->over)
        return;
    l->halted = l->halted || l->training != NULL;
    tutti_lead_end_training(l);
    if (l->halted && lead_is_present(l, LEAD_CHIEF) &&
        tutti_coordinator_saved(l->supervisor) < l->step) {
        tutti_lead_supervise(l, &(struct tutti_coord_event){.kind = TUTTI_EVENT_SAVE_DUE});
        if (tutti_coordinator_saved(l->supervisor) < l->step)
            return; /* again, once it is */
    }
    if (!l->halted) /* what was done since is lost */
        l->step = tutti_coordinator_saved(l->supervisor) > l->set_up_step
                      ? tutti_coordinator_saved(l->supervisor)
                      : l->set_up_step;
    l->stopped = l->step < l->params.steps;
    head.step = l->step;
    for (uint32_t t = 0; t < l->trainer_count; t++)
        if (lead_is_present(l, t))
            tutti_lead_finish(l, t, &head);
    l->over = true;
}
