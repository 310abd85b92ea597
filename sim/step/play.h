/* A step while it is being played: lanes, the connections between them, and where groups meet. */
#ifndef TUTTI_SIM_STEP_PLAY_H
#define TUTTI_SIM_STEP_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "sim/queue/queue.h"
#include "sim/step.h"
#include "sim/step/classes.h"
#include "sim/step/price.h"
#include "sim/step/sharing.h"

enum { TUTTI_STEP_NOT_YET = -1 };

/* Messages of a class's lane to the ranks of another class: one in the place of many. */
struct tutti_step_connection {
    struct tutti_step_lane *from;
    struct tutti_step_lane *to; /* once it has asked */
    uint32_t to_rank;
    bool sender_waits;
    bool receiver_waits;
    uint64_t sent_count;
    uint64_t received_count;
    uint64_t completed_count;
    uint64_t capacity;
    tutti_ps *arrive_ps;                /* [sent] */
    tutti_ps *complete_ps;              /* [completed] */
    uint64_t *send;                     /* [sent]: the step of its lane */
    struct tutti_step_connection *next; /* of the same sender */
};

struct tutti_step_lane {
    uint32_t class_index;
    uint32_t rank; /* that is played */
    uint32_t number;
    bool queued;
    bool due;       /* its COMPUTE or CALL is in the queue of events, to begin at `due_ps` */
    bool under_way; /* it has begun */
    tutti_ps due_ps;
    uint64_t index;
    uint64_t step_count;
    const struct tutti_step *step; /* the next; NULL at the end */
    tutti_ps now;                  /* what comes next starts no earlier */
    tutti_ps *end_ps;              /* [step]; TUTTI_STEP_NOT_YET */
    struct tutti_cursor cursor;
    struct tutti_step_connection *connections; /* that it sends over */
    struct tutti_step_connection *in;          /* of the last RECV */
    struct tutti_step_connection
        *fused; /* received, and complete with the REDUCE that comes next */
    struct tutti_step_lane *first_waiter;
    struct tutti_step_lane *next_waiter;
    struct tutti_step_lane *next; /* in the queue */
};

/* Where the classes of a group meet. */
struct tutti_step_meeting {
    uint32_t group; /* its class */
    uint32_t arrived;
    uint32_t callee;
    tutti_ps begin_ps;
    struct tutti_step_lane *first; /* of those that wait, by next_waiter */
};

struct tutti_step_player {
    const struct tutti_step_opts *opts;
    const struct tutti_schedule *s;
    struct tutti_arena *arena;
    struct tutti_step_classes classes;
    struct tutti_step_prices prices;
    struct tutti_step_lane *lanes;       /* [class * lane_count + lane] */
    struct tutti_step_meeting *meetings; /* [group class * lane_count + lane] */
    struct tutti_step_lane *queue_first;
    struct tutti_step_lane *queue_last;
    struct tutti_queue events; /* of lanes, then of meetings */
    struct tutti_sharing sharing;
    tutti_ps now_ps;
};

struct tutti_step_lane *tutti_step_lane_of(const struct tutti_step_player *p, uint32_t class_index,
                                           uint32_t lane);
/* The lane looks at its next step again. */
void tutti_step_enqueue(struct tutti_step_player *p, struct tutti_step_lane *lane);
/* Lanes of the class that wait for a step of this one look again. */
void tutti_step_wake(struct tutti_step_player *p, struct tutti_step_lane *lane);
/* The step has ended; the lane goes on with the next, which starts no earlier than `from_ps`. */
void tutti_step_pass(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps end_ps,
                     tutti_ps from_ps);
/* -TUTTI_ECHECK with the step that the lane is at. */
int tutti_step_fail_at(const struct tutti_step_lane *lane, const char *what, struct tutti_err *err);

/* A SEND or RECV that may begin at `at_ps`: 1, 0 if it waits, or a negative status. */
int tutti_step_send_at(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps at_ps,
                       struct tutti_err *err);
int tutti_step_recv_at(struct tutti_step_player *p, struct tutti_step_lane *lane, tutti_ps at_ps,
                       struct tutti_err *err);
/* The oldest message of a connection has been used up. */
void tutti_step_complete(struct tutti_step_player *p, struct tutti_step_connection *c,
                         tutti_ps at_ps);

#endif
