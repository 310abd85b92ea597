/* Who is waited for, and for how long; see lead.h. */
#include "runtime/servers/lead_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void tutti_lead_name(const struct tutti_servers_params *p, uint32_t trainer, char *buf,
                     size_t buf_bytes)
{
    if (trainer == LEAD_CHIEF && p->has_chief)
        (void)snprintf(buf, buf_bytes, "the chief");
    else
        (void)snprintf(buf, buf_bytes, "%sworker %u%s", trainer == LEAD_CHIEF ? "the chief (" : "",
                       trainer - (p->has_chief ? 1 : 0), trainer == LEAD_CHIEF ? ")" : "");
}

static uint32_t present_workers(const struct tutti_lead *l)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < l->params.worker_count; w++)
        count += lead_is_present(l, lead_trainer_of(l, w));
    return count;
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int fail_missing(const struct tutti_lead *l, uint32_t member, struct tutti_err *err)
{
    const double deadline_s = (double)l->params.deadline_ps / (double)TUTTI_PS_PER_S;
    char name[64];

    if (member >= l->trainer_count)
        (void)snprintf(name, sizeof(name), "parameter server %u", member - l->trainer_count);
    else
        tutti_lead_name(&l->params, member, name, sizeof(name));
    if (member >= l->trainer_count)
        return tutti_fail(err, TUTTI_ETIME, "%s at '%.200s' is not there for %.3g s (--deadline)",
                          name, l->params.servers[member - l->trainer_count], deadline_s);
    return tutti_fail(err, TUTTI_ETIME, "%s is not there for %.3g s (--deadline)", name,
                      deadline_s);
}

/* Workers that must be there: for a synchronous step R, or all where each gives several; else 1. */
static uint32_t least_workers(const struct tutti_servers_params *p)
{
    if (!p->synchronous)
        return 1;
    return p->aggregate > 0 && p->aggregate < p->worker_count ? p->aggregate : p->worker_count;
}

static int check_workers(const struct tutti_lead *l, double due_s, struct tutti_err *err)
{
    const uint32_t least = least_workers(&l->params);
    const uint32_t present = present_workers(l);
    int status = 0;

    for (uint32_t w = 0; w < l->params.worker_count && present < least && status == 0; w++)
        if (!lead_is_present(l, lead_trainer_of(l, w)) && l->lost_s[lead_trainer_of(l, w)] < due_s)
            status = fail_missing(l, lead_trainer_of(l, w), err);
    if (status < 0 && l->params.synchronous)
        (void)snprintf(err->text + strlen(err->text), sizeof(err->text) - strlen(err->text),
                       ", and a step is made of %u gradients", least);
    return status;
}

/* The chief says nothing while it reads a checkpoint; that it is there its connection tells. */
static double silence_s(const struct tutti_lead *l)
{
    enum { SET_UP_DEADLINES = 10 };
    const double deadline_s = (double)l->params.deadline_ps / (double)TUTTI_PS_PER_S;
    const bool sets_up =
        l->training == NULL && !l->halted &&
        tutti_coordinator_member(l->supervisor, LEAD_CHIEF)->state == TUTTI_MEMBER_WORKING;

    return sets_up ? SET_UP_DEADLINES * deadline_s : deadline_s;
}

/* Nobody has said anything that leads on: of those whose turn it is. */
static int fail_silent(const struct tutti_lead *l, struct tutti_err *err)
{
    char name[64];
    uint32_t who = LEAD_CHIEF;

    for (uint32_t w = 0; w < l->params.worker_count && l->training != NULL; w++)
        if (tutti_coordinator_member(l->training, w)->state == TUTTI_MEMBER_WORKING) {
            who = lead_trainer_of(l, w);
            break;
        }
    tutti_lead_name(&l->params, who, name, sizeof(name));
    return tutti_fail(err, TUTTI_ETIME, "step %" PRIu64 ": nothing from %s for %.3g s (--deadline)",
                      l->step, name, silence_s(l));
}

void tutti_lead_set_now(struct tutti_lead *l, double now_s)
{
    l->now_s = now_s;
}

int tutti_lead_check(struct tutti_lead *l, double now_s, struct tutti_err *err)
{
    const double due_s = now_s - (double)l->params.deadline_ps / (double)TUTTI_PS_PER_S;
    int status = 0;

    l->now_s = now_s;
    if (l->over)
        return 0;
    if (l->failed < 0) {
        *err = l->failure;
        return l->failed;
    }
    for (uint32_t s = 0; s < l->params.server_count && status == 0; s++)
        if (!lead_is_present(l, l->trainer_count + s) && l->lost_s[l->trainer_count + s] < due_s)
            status = fail_missing(l, l->trainer_count + s, err);
    if (status == 0 && !lead_is_present(l, LEAD_CHIEF) && l->lost_s[LEAD_CHIEF] < due_s)
        status = fail_missing(l, LEAD_CHIEF, err); /* without a server it is not there either */
    if (status == 0)
        status = check_workers(l, due_s, err);
    if (status == 0 && l->moved_s < now_s - silence_s(l))
        status = fail_silent(l, err);
    return status;
}

bool tutti_lead_is_over(const struct tutti_lead *l)
{
    return l->over;
}

uint64_t tutti_lead_generation(const struct tutti_lead *l)
{
    return l->generation;
}

void tutti_lead_result(const struct tutti_lead *l, struct tutti_servers_result *ret)
{
    *ret = l->result;
    if (l->training != NULL)
        tutti_lead_add_counts(ret, tutti_coordinator_stats(l->training));
    ret->steps = l->step;
    ret->stopped = l->stopped;
    ret->worker_count = l->params.worker_count;
}
