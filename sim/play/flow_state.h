/* What a play by data flow remembers: lanes, connections with slots, links and their owners. */
#ifndef TUTTI_SIM_PLAY_FLOW_STATE_H
#define TUTTI_SIM_PLAY_FLOW_STATE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/net/net.h"
#include "sim/play/flow_turns.h"
#include "sim/play/step_check.h"
#include "sim/play/wires.h"

struct tutti_record;
struct tutti_sim_opts;

#define NONE UINT32_MAX

enum {
    MEMO_SIZE = 64,      /* a power of 2 */
    FLOW_SLOTS_MAX = 64, /* every connection has memory for all its slots */
    WIRES_TRIED = 4,     /* before the table of all */
    ROUNDS_MAX = 16,     /* written at a time; they should stay in the first-level cache */
};

/* A message in a slot. */
struct slot {
    tutti_ps at_ps; /* it arrives; once it was taken: since when the slot is free, 0 at first */
    uint64_t bytes;
    uint64_t index; /* of its SEND */
};

struct wire {
    uint64_t sent_count;
    uint64_t bytes_per_s; /* of its links: in `fair` as it is paced, else the narrowest one's */
    struct tutti_pace pace;
    tutti_ps latency_ps;
    tutti_ps free_ps;    /* when it has sent what it was given, at its own pace */
    uint64_t slot_first; /* in slots */
    uint32_t sent_slot;  /* of the next message: sent_count mod slot_count */
    uint32_t taken_slot; /* of the oldest message */
    uint32_t under_way;  /* sent and not taken */
    uint32_t user_first; /* of the first link; in `fair` those of the others follow */
    uint32_t user_count;
    uint32_t send_lane;
    uint32_t recv_lane;
    uint32_t next_to;   /* of send_lane's */
    uint32_t next_from; /* of recv_lane's */
    bool send_waits;
    bool recv_waits;
    bool is_awaited; /* lanes wait for one of its SENDs to complete */
    bool again;      /* its lane has sent over no other since it sent over this one */
};

struct lane {
    tutti_ps now_ps; /* the next step can start */
    uint64_t round;
    uint64_t round_count;
    uint64_t index;    /* of the next step */
    uint32_t position; /* in the round */
    uint32_t fused;    /* wire whose oldest message the coming REDUCE reads, or NONE */
    uint32_t to;       /* peer and wire of the last SEND and RECV: programs repeat themselves */
    uint32_t to_wire;
    uint32_t from;
    uint32_t from_wire;
    uint32_t to_first;     /* wires that it sends over, the newest first */
    uint32_t from_first;   /* wires that it receives from */
    uint32_t waiter_first; /* lanes whose next step waits for a step of this one */
    uint32_t waiter_next;  /* links the list that this lane waits in */
};

/* Times that were computed lately: the division by the rate is the dearest thing here. */
struct memo {
    uint64_t bytes;
    uint64_t bytes_per_s;
    tutti_ps ps;
};

struct tutti_flow {
    struct tutti_net net; /* so that wires tell us the routes of new connections */
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_wires wires;
    struct wire *flow_wires; /* by the numbers of `wires` */
    uint32_t wire_count;
    uint32_t wire_capacity;
    uint32_t slot_count;
    struct rooms rooms;
    struct slot *slots; /* [wire * slot_count + message mod slot_count] */
    uint32_t slot_capacity;
    tutti_ps *starts; /* the same, for the record: when the SEND started */
    uint32_t start_capacity;
    struct flow_links links;
    struct lane *lanes;
    uint32_t lane_count;
    uint32_t *ready; /* ring of lanes to be run; each at most once */
    uint32_t ready_first;
    uint32_t ready_count;
    uint32_t sender; /* lane that sends over the connection being made */
    bool unsuited;
    uint64_t step_count;
    tutti_ps end_ps;
    tutti_ps drain_ps_max; /* the most that a message took beyond its latency */
    uint64_t seed;
    uint64_t jitter_q32;
    struct tutti_record *record;
    struct memo memo[MEMO_SIZE];
    uint32_t round_count; /* written at a time */
    struct tutti_round rounds[ROUNDS_MAX];
};

/* Below this a double holds every whole number, and `fair` reckons as with whole numbers. */
#define EXACT (UINT64_C(1) << 53)

static inline void wake(struct tutti_flow *flow, uint32_t lane)
{
    uint32_t at = flow->ready_first + flow->ready_count;

    assert(flow->ready_count < flow->lane_count);
    flow->ready[at < flow->lane_count ? at : at - flow->lane_count] = lane;
    flow->ready_count++;
}

static inline __attribute__((always_inline)) tutti_ps wire_ps(struct tutti_flow *flow,
                                                              uint64_t bytes, uint64_t bytes_per_s)
{
    uint64_t mixed = (bytes ^ bytes_per_s << 1) * UINT64_C(0x9e3779b97f4a7c15);
    struct memo *memo = &flow->memo[mixed >> 58];

    _Static_assert(MEMO_SIZE == 1 << (64 - 58), "the top bits of the product are the place");
    if (memo->bytes != bytes || memo->bytes_per_s != bytes_per_s)
        *memo = (struct memo){bytes, bytes_per_s, tutti_wire_ps(bytes, bytes_per_s)};
    return memo->ps;
}

/* Under alphabeta: has the connection a pace of its own? */
static inline bool is_paced(const struct wire *wire)
{
    return wire->pace.slice_ps > 0 || wire->pace.bytes_per_s < wire->bytes_per_s;
}

/* When the links of a connection have sent what it gave them. */
static inline tutti_ps free_of(const struct tutti_flow *flow, const struct wire *wire)
{
    return flow->links.users[wire->user_first].free_ps;
}

/* A message of a connection, or several, takes its links from `begin_ps` to `end_ps`; that ends the
 * attempt where others want them at the same time. */
static inline void use_links(struct tutti_flow *flow, struct wire *wire, tutti_ps begin_ps,
                             tutti_ps end_ps)
{
    for (uint32_t i = 0; i < wire->user_count; i++)
        flow->unsuited |=
            !flow_links_use(&flow->links, wire->user_first + i, wire->again, begin_ps, end_ps);
    wire->again = true;
}

static inline uint32_t next_slot(const struct tutti_flow *flow, uint32_t slot)
{
    return slot + 1 < flow->slot_count ? slot + 1 : 0;
}

#endif
