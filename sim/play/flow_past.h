/* What a lane remembers of its own SENDs, for later steps of the lane that wait for them. */
#ifndef TUTTI_SIM_PLAY_FLOW_PAST_H
#define TUTTI_SIM_PLAY_FLOW_PAST_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

enum { PASTS = 32 }; /* SENDs that a lane remembers */

struct past {
    uint64_t number;  /* index in the lane + 1; 0: none */
    tutti_ps done_ps; /* -1: not yet taken */
};

struct memory {
    uint64_t forgotten; /* the highest number of a SEND that is remembered no more */
    struct past past[PASTS];
};

/* A SEND has started. */
static inline void past_started(struct memory *memory, uint64_t index)
{
    struct past *past = &memory->past[index % PASTS];

    if (past->number > memory->forgotten)
        memory->forgotten = past->number;
    *past = (struct past){.number = index + 1, .done_ps = -1};
}

static inline void past_done(struct memory *memory, uint64_t index, tutti_ps done_ps)
{
    struct past *past = &memory->past[index % PASTS];

    if (past->number == index + 1)
        past->done_ps = done_ps;
}

/* When an earlier step of the lane was complete: -1 if it is not; 0, no later than the lane itself
 * is, if it was no SEND. False: forgotten. */
static inline bool past_find(const struct memory *memory, uint64_t index, tutti_ps *ret_ps)
{
    const struct past *past = &memory->past[index % PASTS];

    *ret_ps = past->number == index + 1 ? past->done_ps : 0;
    return past->number == index + 1 || index + 1 > memory->forgotten;
}

#endif
