/* Where ranks sit on the rings of a phase, in the direction in which messages go. */
#ifndef TUTTI_SIM_FOLD_RINGS_H
#define TUTTI_SIM_FOLD_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"

/* The rank on seat 0 of a ring; rings are counted by it. */
static inline uint32_t tutti_ring_base(const struct tutti_ring_phase *phase, uint32_t ring)
{
    return phase->stride == 1
               ? ring * phase->size
               : ring / phase->stride * phase->stride * phase->size + ring % phase->stride;
}

/* The rank on the seat after `count` hops from seat 0, count < size. */
static inline uint32_t tutti_ring_rank(const struct tutti_ring_phase *phase, uint32_t base,
                                       uint32_t count)
{
    uint32_t seat = phase->reversed && count > 0 ? phase->size - count : count;

    return phase->order != NULL ? phase->order[seat] : base + seat * phase->stride;
}

/* Messages go the same ways. */
static inline bool tutti_is_same_way(const struct tutti_ring_phase *a,
                                     const struct tutti_ring_phase *b)
{
    return a->size == b->size && a->stride == b->stride && a->order == b->order &&
           a->reversed == b->reversed;
}

#endif
