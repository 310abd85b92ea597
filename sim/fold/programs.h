/* The programs of all lanes of all ranks, read once: which are the same but for names, and between
 * which lanes messages go. */
#ifndef TUTTI_SIM_FOLD_PROGRAMS_H
#define TUTTI_SIM_FOLD_PROGRAMS_H

#include <stdint.h>

#include "runtime/schedule.h"

struct tutti_err;

/* Lane l of rank r has the number r * schedule->lane_count + l. The k-th wire of a lane leads to
 * the k-th rank that it sends to, in the order of first use; those it receives from likewise. */
struct tutti_programs {
    uint32_t lane_count; /* of all ranks */
    uint32_t wire_count; /* as many messages' ways out as in */
    uint32_t *kind;      /* [lane]: lanes of equal numbers run one program but for names */
    uint32_t *dep_lane;  /* [lane]: another lane of the rank that it waits for, or UINT32_MAX */
    uint32_t *out_first; /* [lane + 1] in out_lane */
    uint32_t *out_lane;  /* [wire]: the lane it leads to */
    uint32_t *in_first;  /* [lane + 1] in in_wire */
    uint32_t *in_wire;   /* wires */
};

/* -TUTTI_ELACK and why where they are too long, too different, or do not match. */
int tutti_programs_read(const struct tutti_schedule *schedule, struct tutti_programs *ret,
                        struct tutti_err *err);
void tutti_programs_done(struct tutti_programs *programs);

#endif
