/* When the last rank of a ring gets through a phase, where links are busier than hops are long. */
#ifndef TUTTI_SIM_FOLD_RING_LAST_H
#define TUTTI_SIM_FOLD_RING_LAST_H

#include "runtime/units.h"
#include "sim/fold/ring_times.h"

/* 1: *ret_ps is the latest time of the ring. 0: it is not of a kind for which that is known, or it
 * would take `price_max` updates or more. -TUTTI_ENOMEM. */
int tutti_ring_last(struct tutti_ring_context *context, const struct tutti_ring *ring,
                    uint64_t price_max, tutti_ps *ret_ps);

#endif
