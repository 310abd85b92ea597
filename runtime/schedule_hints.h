/* What a generator may declare of its steps beside them: for the simulator, which folds by it. The
 * functions that declare it stand in struct tutti_schedule_ops (runtime/schedule.h). */
#ifndef TUTTI_RUNTIME_SCHEDULE_HINTS_H
#define TUTTI_RUNTIME_SCHEDULE_HINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

/* The k-th connection of a lane of a rank, both ways: it sends to `to`, whose k-th `from` it is. */
struct tutti_partners {
    uint32_t to;
    uint32_t from;
};

enum { TUTTI_RELAYS_MAX = 16 };

/* Rounds that pass on what they receive, all between the same peers: a RECV from `from`, with
 * `reduces` a fused one and the REDUCE, then a SEND of as many bytes to `to`; no dependencies. */
struct tutti_relays {
    uint32_t from;
    uint32_t to;
    bool reduces;
    uint64_t bytes[TUTTI_RELAYS_MAX]; /* by round */
};

#define TUTTI_LANE_NONE UINT32_MAX

/* A stretch of a lane in which data goes around rings of ranks. Each rank sends `transfer_count`
 * messages of `bytes` to the next seat of its ring and receives as many from the seat before, one
 * round after the other: SEND; RECV, SEND; ...; RECV. Of those it receives the first `reduce_count`
 * are fused with a REDUCE. */
struct tutti_ring_phase {
    uint32_t size;         /* ranks of a ring, >= 2 */
    uint32_t stride;       /* rank r has seat (r / stride) mod size of its ring */
    const uint32_t *order; /* NULL, or [size]: the rank on each seat of the one ring of all ranks */
    bool reversed;         /* the next seat is the one before */
    uint64_t transfer_count;
    uint64_t reduce_count;
    uint64_t bytes;
    uint32_t after_lane; /* the first SEND waits until the last that this lane of the same rank
                            makes in the phase before this one is complete; or TUTTI_LANE_NONE */
};

/* A part of a lane in which its rank sends one message to each other rank, or receives one from
 * each, in any order, and does nothing else that takes time but reduce. */
struct tutti_exchange {
    bool sends;
    bool by_sender; /* a message's length depends on who sends it, else on who receives it */
    uint64_t bytes; /* of messages that the rank asked about decides on */
};

/* A tree over all ranks, over each edge of which one message goes up, or one down, or both. On
 * `up_lane` a rank receives from each of its children, each time with a fused REDUCE if there are
 * data, and then sends to its parent; on `down_lane` it receives from its parent and sends to each
 * child, and the root may copy its own data after that. The root's first SEND down waits for its
 * last step up. */
struct tutti_rank_tree {
    uint32_t root;
    uint32_t up_lane; /* or TUTTI_LANE_NONE */
    uint32_t down_lane;
    uint32_t tree_count; /* of the schedule, on lanes of their own */
    bool alternates;     /* a rank has children in one of these trees at most */
};

TUTTI_API_END

#endif
