/* Bounds by flows: the best of all cuts, and of all partitions, where the machine is small enough.
 */
#ifndef TUTTI_TOPO_BOUNDS_EXACT_H
#define TUTTI_TOPO_BOUNDS_EXACT_H

#include <stdbool.h>

#include "runtime/schedule.h"
#include "runtime/wide.h"
#include "topo/bounds/binding.h"

struct tutti_err;

/* A bound: of each byte of a rank's block, `bytes` must cross what takes `bytes_per_s`. */
struct tutti_exact {
    struct tutti_wide bytes;
    struct tutti_wide bytes_per_s;
    struct tutti_binding binding;
    bool exact;
};

/* Raises a bound (found otherwise; bytes_per_s > 0) to the best there is for the collective, and
 * says whether some schedule is known to reach it. Leaves alone machines that would take too long,
 * and collectives of which flows say nothing. What is done, at which price, and why it is right:
 * exact.c. */
int tutti_exact_raise(const struct tutti_topo *topo, enum tutti_collective collective,
                      uint32_t root, struct tutti_exact *bound, struct tutti_err *err);

#endif
