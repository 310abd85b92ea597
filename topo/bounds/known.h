/* Machines for which theory says that the bounds of the family are reached. */
#ifndef TUTTI_TOPO_BOUNDS_KNOWN_H
#define TUTTI_TOPO_BOUNDS_KNOWN_H

#include <stdbool.h>

#include "runtime/schedule.h"
#include "topo/topo.h"

struct tutti_err;

/* Is `bandwidth_ps`, the bound over the family of partitions, reached in the limit of large sizes?
 * Only what is proved, in known.c, or shown by a ring that does it. O(links), and the routes of a
 * ring. */
int tutti_bound_is_reached(const struct tutti_topo *topo, const struct tutti_contract *contract,
                           tutti_ps bandwidth_ps, bool *ret, struct tutti_err *err);

#endif
