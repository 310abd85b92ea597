/* What the coordinators of all kinds share: members, the queue of those that wait, actions. */
#ifndef TUTTI_RUNTIME_WORKLOAD_COORDINATE_H
#define TUTTI_RUNTIME_WORKLOAD_COORDINATE_H

#include <assert.h>

#include "runtime/coordinator.h"

enum { TOKEN_STEPS = 8 };

struct tutti_coordinator {
    const struct tutti_coordinator_ops *ops;
    struct tutti_coordinator_params params;
    struct tutti_arena *arena;
    struct tutti_coordinator_stats stats;
    uint64_t step;
    uint64_t episode; /* the last number given */
    struct tutti_coord_member *member;
    enum tutti_coord_member_state was; /* LOST: the state of the member before */
    /* Members that wait, the longest first. */
    uint32_t first_waiting;
    uint32_t last_waiting;
    struct tutti_coord_action *action;
    uint32_t action_count;
    uint32_t action_limit;
    /* sync */
    uint64_t accumulated; /* gradients of the present step */
    uint64_t token_step[TOKEN_STEPS];
    uint64_t token_count[TOKEN_STEPS];
    uint32_t token_kinds;
    /* queue: a ring of closures */
    uint64_t *closure;
    uint64_t closure_limit;
    uint64_t closure_first;
    uint64_t closure_count;
    uint32_t missing; /* members that were lost and are not yet back */
    bool failed;      /* an error that nobody has been told of */
    /* supervisor, elastic */
    int phase;
    uint64_t saved_step;
    uint64_t saving; /* step of the checkpoint being written; 0 none */
    uint64_t saving_episode;
    uint32_t saver;
    bool save_due;       /* elastic: at the end of the step */
    bool changed;        /* elastic: members since the group was formed */
    uint64_t group;      /* elastic: the number of the group */
    uint32_t group_size; /* members of it */
    uint32_t group_done; /* of them, those that have done the step */
};

extern const struct tutti_coordinator_ops tutti_coordinate_async;
extern const struct tutti_coordinator_ops tutti_coordinate_sync;
extern const struct tutti_coordinator_ops tutti_coordinate_queue;
extern const struct tutti_coordinator_ops tutti_coordinate_supervisor;
extern const struct tutti_coordinator_ops tutti_coordinate_elastic;

/* An action for a member, with its incarnation and episode. */
struct tutti_coord_action *tutti_coordinate_act(struct tutti_coordinator *c,
                                                enum tutti_coord_action_kind kind, uint32_t member);

/* Begins an episode of a member that waits and is in no queue. */
struct tutti_coord_action *tutti_coordinate_start(struct tutti_coordinator *c,
                                                  enum tutti_coord_action_kind kind,
                                                  uint32_t member, uint64_t step);

/* Ends the episode of a member, if there is one; it waits, in no queue. */
void tutti_coordinate_abort(struct tutti_coordinator *c, uint32_t member);

/* The queue of those that wait. Of `take`: TUTTI_MEMBER_NONE when there are none. */
void tutti_coordinate_wait(struct tutti_coordinator *c, uint32_t member);
uint32_t tutti_coordinate_take(struct tutti_coordinator *c);

/* FINISH for all that are present. */
void tutti_coordinate_finish(struct tutti_coordinator *c);

/* Checkpoints: the member that writes them, and what they say. */
void tutti_coordinate_save(struct tutti_coordinator *c, uint32_t member);
bool tutti_coordinate_saved(struct tutti_coordinator *c, const struct tutti_coord_event *event);

static inline bool coordinate_at_end(const struct tutti_coordinator *c)
{
    return c->params.last_step > 0 && c->step >= c->params.last_step;
}

static inline bool coordinate_is_present(const struct tutti_coordinator *c, uint32_t member)
{
    return c->member[member].state != TUTTI_MEMBER_ABSENT;
}

#endif
