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
    struct tutti_flat_part *parts; /* [rank of the callee * lane_count + lane] */
    uint32_t *joins;               /* indices of SENDs in their lane */
    /* What its REDUCEs say in a schedule of another contract, or of more ranks; 0: nothing. */
    uint8_t reduction;
    uint32_t divisor;
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
    uint32_t group;        /* of the axis */
    uint32_t member;       /* the rank's number in it: its rank in the callee */
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

/* The sites of one axis on a lane, which share lanes, in program order. */
struct tutti_flat_turns {
    size_t *sites; /* numbers of sites of the lane */
    size_t count;
};

struct tutti_flat_lane {
    struct tutti_flat_site *sites; /* in program order */
    size_t site_count;
    struct tutti_flat_turns *turns;      /* [axis, 0 for all ranks]; none if there are no sites */
    struct tutti_flat_segment *segments; /* none if there are no sites */
    size_t segment_count;
    uint64_t round_count;
};

/* Calls of one axis from one lane come one after another at every member, so they share lanes:
 * block b = lane * axis_count + axis has the lanes first[b] .. first[b] + width[b] - 1 for the
 * lanes of its callees, whatever the group. */
struct tutti_flat_schedule {
    struct tutti_schedule base;
    const struct tutti_schedule *inner;
    struct tutti_axis *axes; /* [0] all ranks, then those of `inner` */
    uint32_t axis_count;     /* 1 and those of `inner` */
    struct tutti_flat_callee *callees;
    struct tutti_flat_lane *lanes; /* [rank * inner->lane_count + lane] */
    uint32_t *first;               /* [block] */
    uint32_t *width;
    uint32_t *owner; /* [lane - inner->lane_count]: the block it belongs to */
};

/* The block of a site on a lane of the caller. */
static inline uint32_t tutti_flat_block(const struct tutti_flat_schedule *flat, uint32_t lane,
                                        const struct tutti_flat_site *site)
{
    return lane * flat->axis_count + site->call.axis;
}

/* Steps and rounds of a part once it is laid out. */
uint64_t tutti_flat_part_steps(const struct tutti_flat_part *part);
uint64_t tutti_flat_part_rounds(const struct tutti_flat_part *part);

/* The part of lane `lane` of the site's callee at its rank; NULL if the callee has no such lane. */
const struct tutti_flat_part *tutti_flat_part_of(const struct tutti_flat_schedule *flat,
                                                 const struct tutti_flat_site *site, uint32_t lane);

/* Checks callees and call sites, and fills all tables, from flat->base.arena. */
int tutti_flat_plan(struct tutti_flat_schedule *flat, struct tutti_err *err);

#endif
