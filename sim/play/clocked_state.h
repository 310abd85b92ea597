/* What a play by the clock remembers: lanes with their next steps, connections, messages. */
#ifndef TUTTI_SIM_PLAY_CLOCKED_STATE_H
#define TUTTI_SIM_PLAY_CLOCKED_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/net/net.h"
#include "sim/play/step_check.h"
#include "sim/play/wires.h"
#include "sim/queue/queue.h"

struct tutti_clocked_steady;
struct tutti_record;
struct tutti_sim_opts;

#define NONE UINT32_MAX

enum { STEPS_KEPT = 4 }; /* of the round that a lane is at: few rounds have more */

/* Of a step what matters for time. */
struct brief {
    uint64_t bytes; /* COMPUTE: picoseconds */
    uint32_t peer;
    uint32_t dep_step;
    uint16_t dep_lane;
    uint8_t kind;
    uint8_t flags;
};

struct lane {
    uint64_t index; /* of the step it is at */
    uint64_t round; /* the next one to be written */
    uint64_t round_count;
    tutti_ps since_ps; /* the step was begun */
    uint32_t fused;    /* wire whose oldest message the coming REDUCE reads, or NONE */
    uint32_t to_wire;  /* of the last SEND and RECV, or NONE */
    uint32_t from_wire;
    uint32_t send_first; /* its SENDs that are not complete, oldest first; with dependencies */
    uint32_t send_last;
    uint32_t waiter_first; /* lanes whose next step waits for a step of this one */
    uint32_t waiter_next;  /* links the list that this lane waits in */
    uint8_t brief_at;      /* the step it is at, among those kept */
    uint8_t brief_count;
    uint8_t written; /* steps of the round that have been kept so far */
    bool held;       /* its rank has not begun */
    struct brief brief[STEPS_KEPT];
};

/* A connection; its number is that in `wires`. */
struct wire {
    tutti_ps latency_ps;
    uint64_t sent_count;
    uint32_t send_lane;
    uint32_t recv_lane;
    uint32_t to;
    uint32_t from;
    uint32_t first; /* oldest message that is not taken, or NONE */
    uint32_t last;
    uint32_t under_way;
    uint32_t next_to;   /* the wire that send_lane sent over next, the last time, or NONE */
    uint32_t next_from; /* the one that recv_lane received from next */
    bool send_waits;    /* for a slot */
    bool recv_waits;    /* for the oldest message */
};

/* From the time its SEND got a slot until it is taken; with dependencies, until its lane knows. */
struct message {
    uint64_t bytes;
    uint64_t index; /* of its SEND */
    tutti_ps start_ps;
    uint32_t wire;
    uint32_t next;      /* of the wire, or of those that are free */
    uint32_t next_send; /* of the lane */
    uint32_t prev_send;
    bool arrived;
};

struct tutti_clocked {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_net *net;
    uint64_t *link_rates;  /* [link_count] */
    uint32_t *link_bursts; /* [link_count], or NULL: no link has a token bucket */
    struct tutti_wires table;
    struct wire *wires;
    uint32_t wire_count;
    uint32_t wire_capacity;
    struct message *messages;
    uint32_t message_count; /* given out at least once */
    uint32_t message_capacity;
    uint32_t message_free;
    struct lane *lanes;
    uint32_t lane_count;
    struct tutti_queue timers; /* ids are lanes: their ranks begin, steps that take time end */
    /* What has completed at this instant and has not been followed up, first come first served: a
     * lane is through with its step; or, as lane_count + message, its lane is told of a SEND. */
    uint32_t *done;
    uint32_t done_first;
    uint32_t done_count;
    uint32_t done_capacity; /* a power of 2 */
    uint32_t *woken;        /* [lane_count] lanes to be tried next */
    uint32_t woken_count;
    uint32_t lanes_left;   /* that have not ended */
    uint32_t under_way;    /* messages */
    bool has_dependencies; /* then lanes keep lists of their SENDs */
    bool begin_anew;       /* for that was not known */
    bool unsuited;
    struct rooms rooms;
    tutti_ps now;
    tutti_ps launched_ps;
    tutti_ps drain_ps_max; /* the most that a message took beyond its latency */
    uint64_t seed;
    uint64_t jitter_q32;
    uint64_t step_count;
    struct tutti_record *record;
    struct tutti_clocked_steady *steady; /* what it skips; NULL: nothing */
    struct tutti_round round;
};

#endif
