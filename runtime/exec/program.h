/* The programs of some ranks, walked once: checked for what would crash a player, counted, and
 * stored where they are small. Private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_PROGRAM_H
#define TUTTI_RUNTIME_EXEC_PROGRAM_H

#include "runtime/schedule.h"

struct tutti_program_lane {
    const struct tutti_step *steps; /* all of them, or NULL: generate them again with a cursor */
    uint64_t step_count;
    uint64_t sends_max; /* SENDs that can be posted and not yet finished at any one time */
};

struct tutti_program {
    struct tutti_program_lane *lanes; /* [rank_count * lane_count], rank by rank */
    uint64_t step_count;              /* of all lanes */
    uint64_t sends_max;               /* sum over the lanes */
    struct tutti_step *stored;        /* backs lanes[].steps */
};

/* Walks ranks [first_rank, first_rank + rank_count). Programs of up to `store_bytes` in all are
 * stored, so that they are generated once however often they are played. -TUTTI_ECHECK (rank, lane
 * and step named) for a step that addresses bytes outside its buffers, writes `in`, reduces parts
 * of elements, names a peer or lane that is not there, or is a CALL. */
int tutti_program_open(struct tutti_program *program, const struct tutti_schedule *schedule,
                       uint32_t first_rank, uint32_t rank_count, size_t store_bytes,
                       struct tutti_err *err);
void tutti_program_close(struct tutti_program *program); /* a zeroed one is a no-op */

#endif
