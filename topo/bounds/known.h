/* Machines for which theory says that the bounds of the family are reached. */
#ifndef TUTTI_TOPO_BOUNDS_KNOWN_H
#define TUTTI_TOPO_BOUNDS_KNOWN_H

#include <stdbool.h>

#include "runtime/schedule.h"
#include "topo/topo.h"

struct tutti_err;

/* Is the bound over the family of partitions, in seconds for each byte of a rank's block, reached
 * in the limit of large sizes? Only what is proved, in known.c, or shown by a ring that does it.
 * O(links), and the routes of a ring. */
int tutti_bound_is_reached(const struct tutti_topo *topo, enum tutti_collective collective,
                           double s_per_byte, bool *ret, struct tutti_err *err);

#endif
