/* Machines for which theory says that the bounds of the family are reached. */
#ifndef TUTTI_TOPO_BOUNDS_KNOWN_H
#define TUTTI_TOPO_BOUNDS_KNOWN_H

#include <stdbool.h>

#include "runtime/schedule.h"
#include "topo/topo.h"

/* Is the bandwidth bound over the family of partitions reached, in the limit of large sizes, for
 * this collective on this machine? Only what is proved; the proofs are in known.c. O(links). */
bool tutti_bound_is_reached(const struct tutti_topo *topo, enum tutti_collective collective);

#endif
