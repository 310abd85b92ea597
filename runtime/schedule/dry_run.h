/* A run without clock or data: all programs executed in some order that obeys lanes, dependencies,
 * matching and slots. What a run is made of (clocks, sets of contributions) its user hangs onto it.
 */
#ifndef TUTTI_RUNTIME_SCHEDULE_DRY_RUN_H
#define TUTTI_RUNTIME_SCHEDULE_DRY_RUN_H

#include "runtime/schedule.h"

struct tutti_dry_run_connection;

/* A SEND that has started and not yet completed. */
struct tutti_dry_run_message {
    struct tutti_dry_run_connection *connection;
    uint64_t index;         /* of the SEND in its lane */
    struct tutti_step step; /* the SEND itself */
    bool received;
    struct tutti_dry_run_message
        *next; /* in the connection: sent, not received; or in the free list */
    struct tutti_dry_run_message *previous_sent; /* of the same chain, in program order */
    struct tutti_dry_run_message *next_sent;
    void *payload; /* the user's; NULL at first */
};

/* A CALL of a group on a lane: it takes place once all members have come to theirs. */
struct tutti_dry_run_meeting {
    uint32_t number; /* of the axis: 0 all ranks */
    struct tutti_axis axis;
    uint32_t group;
    uint32_t lane;
    uint32_t arrived;
    struct tutti_dry_run_chain **members; /* [axis.size]: those that have come, else NULL */
    struct tutti_dry_run_meeting *next;   /* in its bucket */
};

/* A lane of a rank that has steps. */
struct tutti_dry_run_chain {
    uint32_t number; /* counts the chains, by rank, then lane */
    uint32_t rank;
    uint32_t lane;
    bool queued;
    uint64_t step_count;
    uint64_t index;                   /* of `step` */
    const struct tutti_step *step;    /* what comes next; NULL at the end */
    struct tutti_dry_run_chain *next; /* in the queue of those that may go on */
    struct tutti_dry_run_chain
        *first_waiter; /* chains whose next step depends on one of this chain */
    struct tutti_dry_run_chain *next_waiter;
    struct tutti_dry_run_message *first_sent; /* not completed */
    struct tutti_dry_run_message *last_sent;
    struct tutti_dry_run_meeting *meeting; /* at its CALL: where it waits for the others */
    struct tutti_dry_run_message *fused;   /* received with FUSE: completes with the next step */
    struct tutti_cursor cursor;
};

/* All messages of one lane from one rank to another. */
struct tutti_dry_run_connection {
    struct tutti_dry_run_chain *from;
    struct tutti_dry_run_chain *to; /* NULL: the receiving rank has no such lane */
    uint32_t to_rank;
    bool sender_waits;
    bool receiver_waits;
    uint64_t sent_count;
    uint64_t completed_count;
    struct tutti_dry_run_message *first; /* sent, not received */
    struct tutti_dry_run_message *last;
    struct tutti_dry_run_connection *next; /* in its bucket */
    void *payload;                         /* the user's; NULL at first */
};

struct tutti_dry_run {
    const struct tutti_schedule *schedule;
    struct tutti_arena *arena;
    uint32_t *chain_numbers; /* [rank * lane_count + lane]: number + 1, or 0 for an empty lane */
    struct tutti_dry_run_chain *chains;
    uint32_t chain_count;
    size_t dependency_count; /* steps that depend on another */
    struct tutti_dry_run_connection **buckets;
    struct tutti_dry_run_meeting **meetings; /* in buckets too */
    size_t bucket_max;                       /* a power of two minus one */
    struct tutti_dry_run_chain *queue_first;
    struct tutti_dry_run_chain *queue_last;
    struct tutti_dry_run_message *free_messages;
};

struct tutti_dry_run_ops {
    /* Executes chain->step. SEND: `message` has just been sent; RECV: it is being received. */
    int (*step)(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                struct tutti_dry_run_message *message, struct tutti_err *err);
    /* The message has completed: `receiver` has executed its RECV (with FUSE the REDUCE too). */
    int (*complete)(void *user, struct tutti_dry_run *run, struct tutti_dry_run_chain *receiver,
                    struct tutti_dry_run_message *message, struct tutti_err *err);
    /* A call takes place: the steps of all members, which are of one callee, execute at once. NULL:
     * of flat schedules, which have none. */
    int (*call)(void *user, struct tutti_dry_run *run, struct tutti_dry_run_meeting *meeting,
                struct tutti_err *err);
};

/* Checks every step by itself (tutti_step_valid) and gets ready. */
int tutti_dry_run_new(const struct tutti_schedule *schedule, struct tutti_dry_run **ret,
                      struct tutti_err *err);
void tutti_dry_run_free(struct tutti_dry_run *run);

/* Executes everything, or says who cannot go on and why (-TUTTI_ECHECK). */
int tutti_dry_run_play(struct tutti_dry_run *run, const struct tutti_dry_run_ops *ops, void *user,
                       struct tutti_err *err);

/* The chain of a lane, or NULL if the lane is empty. */
struct tutti_dry_run_chain *tutti_dry_run_chain_of(const struct tutti_dry_run *run, uint32_t rank,
                                                   uint32_t lane);

/* Whether step `index` of the chain has completed; a SEND: has been received. */
bool tutti_dry_run_completed(const struct tutti_dry_run_chain *chain, uint64_t index);

/* The connection over which `from` sends to `to_rank`; made if new; NULL: no memory. */
struct tutti_dry_run_connection *tutti_dry_run_connect(struct tutti_dry_run *run,
                                                       struct tutti_dry_run_chain *from,
                                                       uint32_t to_rank);

/* The member that a chain at its CALL waits for: the first that has not come. */
uint32_t tutti_dry_run_awaited(const struct tutti_dry_run_meeting *meeting);

/* Why a run that came to rest is not at its end: an error that names the culprit, or 0. */
int tutti_dry_run_stuck(struct tutti_dry_run *run, struct tutti_err *err);

/* "rank 1, lane 0, step 3 (RECV ...)": the next step of the chain; TUTTI_STEP_WHERE_BYTES. */
const char *tutti_dry_run_where(const struct tutti_dry_run_chain *chain, char *buf);

/* The rules that a step obeys by itself. */
int tutti_step_valid(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                     uint64_t index, const struct tutti_step *step, struct tutti_err *err);

/* The rules of a step and the one before it in its lane (FUSE); either may be NULL: start, end. */
int tutti_step_follows(uint32_t rank, uint32_t lane, uint64_t index,
                       const struct tutti_step *before, const struct tutti_step *step,
                       struct tutti_err *err);

#endif
