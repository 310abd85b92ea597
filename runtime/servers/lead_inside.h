/* The inside of what lead.h opens. Private to this room. */
#ifndef TUTTI_RUNTIME_SERVERS_LEAD_INSIDE_H
#define TUTTI_RUNTIME_SERVERS_LEAD_INSIDE_H

#include "runtime/servers/lead.h"
#include "runtime/status.h"

enum { LEAD_CHIEF = 0 }; /* of those that train */

struct tutti_lead {
    struct tutti_servers_params params;
    struct tutti_lead_calls calls;
    struct tutti_coordinator *supervisor;
    struct tutti_coordinator *training; /* NULL: nobody computes */
    uint32_t trainer_count;
    uint64_t generation;
    uint64_t sequence;
    uint64_t step;        /* the global one */
    uint64_t set_up_step; /* from which this generation went on */
    uint64_t saved_steps; /* at the last time that a save was due by them */
    double begun_s;
    double now_s;
    double moved_s; /* when something last went on */
    double *lost_s; /* [trainers and servers] since when it is not there */
    bool stopping;
    bool halted; /* for it: training was under way */
    bool stopped;
    bool over;
    bool acting; /* on an event of the supervisor */
    int failed;  /* 0, or a status, and why: */
    struct tutti_err failure;
    struct tutti_server_report *reports; /* [worker] of its last gradient */
    struct tutti_servers_told told;      /* synchronous: of the step that is being made */
    struct tutti_servers_result
        result; /* of trainings that are over, and what no coordinator has */
};

static inline uint32_t lead_worker_of(const struct tutti_lead *l, uint32_t trainer)
{
    return trainer - (l->params.has_chief ? 1 : 0);
}

static inline uint32_t lead_trainer_of(const struct tutti_lead *l, uint32_t worker)
{
    return worker + (l->params.has_chief ? 1 : 0);
}

static inline bool lead_is_worker(const struct tutti_lead *l, uint32_t trainer)
{
    return trainer < l->trainer_count && (trainer != LEAD_CHIEF || !l->params.has_chief);
}

static inline bool lead_is_present(const struct tutti_lead *l, uint32_t member)
{
    return tutti_coordinator_member(l->supervisor, member)->state != TUTTI_MEMBER_ABSENT;
}

/* An event, and all that follows from it. */
void tutti_lead_train(struct tutti_lead *lead, const struct tutti_coord_event *event);
void tutti_lead_supervise(struct tutti_lead *lead, const struct tutti_coord_event *event);
/* Of a member as the supervisor has it now. */
void tutti_lead_tell_supervisor(struct tutti_lead *lead, enum tutti_coord_event_kind kind,
                                uint32_t member, uint64_t number);
/* Training from the global step on, and its end. */
int tutti_lead_begin_training(struct tutti_lead *lead, struct tutti_err *err);
void tutti_lead_end_training(struct tutti_lead *lead);
/* To one that trains: that all is over. */
void tutti_lead_finish(struct tutti_lead *lead, uint32_t trainer,
                       const struct tutti_server_head *head);
/* What a training has counted, on top of *to. */
void tutti_lead_add_counts(struct tutti_servers_result *to,
                           const struct tutti_coordinator_stats *stats);

#endif
