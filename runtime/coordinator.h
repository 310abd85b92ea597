/* Coordinators: who does what next, where that is decided at run time and not by a schedule. */
#ifndef TUTTI_RUNTIME_COORDINATOR_H
#define TUTTI_RUNTIME_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* An episode is a static schedule on a few ranks: a worker's pull, compute and push; a closure; one
 * synchronous step. A coordinator decides which episodes there are. It is a pure function of its
 * state and an event: no clock, no I/O, no memory beyond what it was made with; the same events in
 * the same order give the same actions. A simulator feeds it virtual events, a run real ones.
 *
 * Whoever drives it delivers each event and carries out the actions in their order. A member that
 * joins is given an incarnation, and each episode a number; both go with every message. Messages of
 * a former incarnation, of an episode that is over, or that come twice are dropped and counted. */

enum tutti_coord_event_kind {
    TUTTI_EVENT_JOINED = 1, /* `member` is there; if it was before, that one is lost */
    TUTTI_EVENT_LOST,       /* it is gone */
    TUTTI_EVENT_LEAVING,    /* elastic: it would go at the end of a step */
    TUTTI_EVENT_PULLED,     /* async: it has read the weights, as they are now */
    TUTTI_EVENT_DONE,       /* its episode is done: the gradient is here, the closure has run */
    TUTTI_EVENT_FAILED,     /* queue: its closure raised an error */
    TUTTI_EVENT_PROGRESS,   /* supervisor: the global step is `number` */
    TUTTI_EVENT_SAVED,      /* supervisor, elastic: the checkpoint of step `number` is written */
    TUTTI_EVENT_SAVE_DUE,   /* supervisor, elastic: time for one (of nobody) */
    TUTTI_EVENT_SUBMITTED,  /* queue: one more closure, `number` (of nobody) */
};

struct tutti_coord_event {
    enum tutti_coord_event_kind kind;
    uint32_t member;
    uint32_t incarnation; /* of the member; not for JOINED */
    uint64_t episode;     /* PULLED, DONE, FAILED, PROGRESS: of START; SAVED: of SAVE */
    uint64_t number;
};

enum tutti_coord_action_kind {
    TUTTI_ACTION_WELCOME = 1, /* to a member that joined: its incarnation */
    TUTTI_ACTION_START,       /* to a member: begin `episode`, at `step`; queue: closure `number`;
                                 elastic: in group `number` of its present members */
    TUTTI_ACTION_ABORT,       /* to a member: end `episode`; nothing of it will be taken */
    TUTTI_ACTION_APPLY,   /* take the gradient of its episode: async into the weights, the global
                             step is now `step`; sync into the accumulators of step `step` */
    TUTTI_ACTION_ADVANCE, /* the step is complete, the global step is now `step`; sync: the average
                             of the accumulators goes into the weights */
    TUTTI_ACTION_DROP,    /* leave aside what has come */
    TUTTI_ACTION_INITIALISE, /* to a member: set the model up, as `episode` */
    TUTTI_ACTION_RESTORE,    /* to a member: as it was at `step`: supervisor from the checkpoint, as
                                `episode`; elastic its own copy, or (number 1) the checkpoint */
    TUTTI_ACTION_COPY,       /* elastic, to a member: take the state from member `number` */
    TUTTI_ACTION_SAVE,       /* to a member, beside what it does: write a checkpoint of `step` */
    TUTTI_ACTION_COMPLETE,   /* queue: closure `number` has run */
    TUTTI_ACTION_REFUSE,     /* queue: no room for closure `number`, or an error was pending */
    TUTTI_ACTION_CANCEL,     /* queue: `number` closures will never run, after an error */
    TUTTI_ACTION_FINISH,     /* to a member: there is nothing more to do */
};

struct tutti_coord_action {
    enum tutti_coord_action_kind kind;
    uint32_t member;
    uint32_t incarnation;
    uint64_t episode;
    uint64_t step;
    uint64_t number;
};

/* What becomes of workers that are late in a synchronous step. */
enum tutti_late {
    /* As TensorFlow's SyncReplicasOptimizer: max(T, R) tokens with the step's number go into a
     * queue, a worker takes the oldest for its next gradient; one of an older step makes a stale
     * gradient, even from new weights. */
    TUTTI_LATE_QUEUED,
    TUTTI_LATE_FRESH,   /* likewise, but a token is good for the step at which it is taken */
    TUTTI_LATE_ABORTED, /* no tokens: who is late is stopped and begins the next step with all; a
                           step takes as long as the R-th fastest of T (Chen et al. 2016) */
};

struct tutti_coordinator_params {
    size_t size;           /* sizeof(struct tutti_coordinator_params): runtime/api.h */
    uint32_t member_count; /* workers; supervisor: and servers, after them; elastic: at most */
    uint64_t first_step;   /* the global step at the start, of a checkpoint */
    uint64_t last_step;    /* done once the global step is this; 0: never */
    /* async: a worker may begin only while it has done at most so many episodes less one more than
     * the slowest present (stale synchronous parallel, Ho et al. 2013; 1: all in step); 0: any */
    uint32_t slack;
    uint32_t staleness_max; /* async: gradients of older weights are dropped; 0: none are */
    uint32_t aggregate;     /* sync: R gradients make a step; 0: as many as members */
    enum tutti_late late;   /* sync */
    uint32_t queue_bound;   /* queue: closures waiting; 0: 262144, as ClusterCoordinator */
    bool wait_for_all;      /* queue: who comes back gets nothing until all lost ones are back */
    uint32_t server_count;  /* supervisor: the last of the members; member 0 is the chief */
    uint32_t least_members; /* elastic: the fewest that a group may have; 0: 1 */
    uint32_t first_members; /* elastic: so many, if that is more, make the first group; 0: 1 */
};

enum { TUTTI_MEMBERS_MAX = 1 << 16, TUTTI_CLOSURES_MAX = 1 << 24, TUTTI_STALENESS_BINS = 64 };

/* Counted from the start. */
struct tutti_coordinator_stats {
    uint64_t started;       /* episodes */
    uint64_t applied;       /* gradients taken */
    uint64_t dropped_stale; /* gradients left aside for their age */
    uint64_t dropped_late;  /* messages of lost members and of episodes that were over */
    uint64_t lost;          /* episodes under way that were lost with their member, or aborted */
    uint64_t unfinished;    /* episodes under way when all was over */
    /* Of the gradients applied: updates of the weights between their reading and their update. */
    uint64_t staleness_sum;
    uint64_t staleness_max;
    uint64_t staleness[TUTTI_STALENESS_BINS]; /* how many had so much; the last: that or more */
    uint64_t submitted;                       /* closures; those refused are not in it */
    uint64_t completed;
    uint64_t cancelled;
    uint64_t refused;
    uint64_t restored; /* times that the state was set back, or set up */
};

enum tutti_coord_member_state {
    TUTTI_MEMBER_ABSENT,
    TUTTI_MEMBER_WAITING,
    TUTTI_MEMBER_WORKING,
    TUTTI_MEMBER_FINISHED,
};

struct tutti_coord_member {
    enum tutti_coord_member_state state;
    uint32_t incarnation;
    uint64_t episode; /* WORKING: which; */
    uint64_t step;    /* and of what step, or which closure */
    uint64_t clock;   /* async: episodes done; elastic: group that it is in, 0 none */
    bool flag;        /* queue: lost, not yet back; elastic: would leave */
    bool holds;       /* elastic: has the weights of the global step */
    uint32_t next;    /* in the queue of those that wait; TUTTI_MEMBER_NONE at the end */
};

#define TUTTI_MEMBER_NONE UINT32_MAX

struct tutti_coordinator;

/* One kind. `init` finds all fields set and the members absent; `event` gets events of members that
 * are present and of episodes under way only (JOINED: already present; LOST: no more). */
struct tutti_coordinator_ops {
    size_t size; /* sizeof(struct tutti_coordinator_ops) */
    const char *name;
    const char *summary;
    int (*init)(struct tutti_coordinator *coordinator, struct tutti_err *err);
    void (*event)(struct tutti_coordinator *coordinator, const struct tutti_coord_event *event);
};

/* All kinds: async, sync, queue, supervisor, elastic. find: -TUTTI_EINVAL with all of them. */
const struct tutti_coordinator_ops *const *tutti_coordinators(size_t *ret_count);
int tutti_coordinator_find(const char *name, const struct tutti_coordinator_ops **ret,
                           struct tutti_err *err);

int tutti_coordinator_new(const struct tutti_coordinator_ops *ops,
                          const struct tutti_coordinator_params *params,
                          struct tutti_coordinator **ret, struct tutti_err *err);
void tutti_coordinator_free(struct tutti_coordinator *coordinator); /* NULL is a no-op */

/* What follows from an event: *ret_count actions, the coordinator's own until the next event. */
const struct tutti_coord_action *tutti_coordinator_event(struct tutti_coordinator *coordinator,
                                                         const struct tutti_coord_event *event,
                                                         uint32_t *ret_count);

/* Elastic: what a coordinator has come to, as numbers, by which another of the same parameters goes
 * on as this one would: that of a member that comes later. Its statistics are its own.
 * -TUTTI_EINVAL: of another number of members; -TUTTI_ELACK: another kind. */
size_t tutti_coordinator_image_count(const struct tutti_coordinator *coordinator);
void tutti_coordinator_image(const struct tutti_coordinator *coordinator, uint64_t *ret);
int tutti_coordinator_take_image(struct tutti_coordinator *coordinator, const uint64_t *image,
                                 struct tutti_err *err);

/* For looking at. */
uint64_t tutti_coordinator_step(const struct tutti_coordinator *coordinator); /* the global one */
uint64_t tutti_coordinator_saved(const struct tutti_coordinator *coordinator);
uint64_t tutti_coordinator_queued(const struct tutti_coordinator *coordinator); /* closures */
const struct tutti_coord_member *
tutti_coordinator_member(const struct tutti_coordinator *coordinator, uint32_t member);
const struct tutti_coordinator_stats *
tutti_coordinator_stats(const struct tutti_coordinator *coordinator);

TUTTI_API_END

#endif
