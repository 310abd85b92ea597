/* A schedule whose calls are laid out: the tables from which any round of it is computed. */
#ifndef TUTTI_RUNTIME_SCHEDULE_FLATTEN_H
#define TUTTI_RUNTIME_SCHEDULE_FLATTEN_H

#include "runtime/schedule.h"

/* One lane of a callee at one rank. Laid out it is a fork (a COPY of 0 bytes that waits for the
 * call), the callee's steps, and a join for each peer that it sends to (a COPY of 0 bytes that
 * waits for the last SEND to it): its end is the end of all its steps. Nothing if it has none. */
struct tutti_flat_part {
    uint64_t step_count; /* of the callee's own */
    uint64_t round_count;
    size_t first_join; /* in tutti_flat_callee.joins */
    uint32_t join_count;
};

struct tutti_flat_callee {
    const struct tutti_schedule *schedule;
    struct tutti_flat_part *parts; /* [rank * lane_count + lane] */
    uint32_t *joins;               /* indices of SENDs in their lane */
};

/* Where a lane of a callee begins in the lane it is laid out in. */
struct tutti_flat_place {
    uint64_t first_step;
    uint64_t first_round;
};

/* A CALL. In the caller's lane it becomes a fork and a join for each lane of the callee that has
 * steps at this rank. */
struct tutti_flat_site {
    struct tutti_step call;
    uint64_t index;        /* in the caller's lane */
    uint64_t extra_before; /* steps by which the calls before it have lengthened the lane */
    uint32_t part_count;   /* lanes of the callee with steps: steps by which this one does */
    struct tutti_flat_place *places; /* [lane of the callee, up to the width] */
};

/* Rounds of a caller's lane that are alike: without calls, one to one; or one round with calls. */
struct tutti_flat_segment {
    uint64_t first_round;
    uint64_t inner_round;
    size_t site; /* the first of the round's */
    bool expanded;
};

struct tutti_flat_lane {
    struct tutti_flat_site *sites; /* in program order */
    size_t site_count;
    struct tutti_flat_segment *segments; /* none if there are no sites */
    size_t segment_count;
    uint64_t round_count;
};

/* Calls of one lane come one after another at every rank, so they share lanes: caller's lane l has
 * the lanes base[l] .. base[l] + width[l] - 1 for the lanes of its callees. */
struct tutti_flat_schedule {
    struct tutti_schedule base;
    const struct tutti_schedule *inner;
    struct tutti_flat_callee *callees;
    struct tutti_flat_lane *lanes; /* [rank * inner->lane_count + lane] */
    uint32_t *first;               /* [lane of the caller] */
    uint32_t *width;
    uint32_t *owner; /* [lane - inner->lane_count]: the caller's lane it belongs to */
};

/* Steps and rounds of a part once it is laid out. */
uint64_t tutti_flat_part_steps(const struct tutti_flat_part *part);
uint64_t tutti_flat_part_rounds(const struct tutti_flat_part *part);

/* The part of lane `lane` of the site's callee at `rank`; NULL if the callee has no such lane. */
const struct tutti_flat_part *tutti_flat_part_of(const struct tutti_flat_schedule *flat,
                                                 const struct tutti_flat_site *site, uint32_t rank,
                                                 uint32_t lane);

/* Checks callees and call sites, and fills all tables, from flat->base.arena. */
int tutti_flat_plan(struct tutti_flat_schedule *flat, struct tutti_err *err);

#endif
