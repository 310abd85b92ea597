/* Turns for tori of unequal axes: how much of the data goes which way, and who comes first. */
#ifndef TUTTI_RUNTIME_COLL_TORUS_TURNS_H
#define TUTTI_RUNTIME_COLL_TORUS_TURNS_H

#include <stdbool.h>

#include "runtime/coll/bucket.h"

/* Writes the routes of a plan, in both directions each, for a grid with all axes closed and not all
 * of the same length, so that every link is busy to the end, or nearly. `axes` names the axes.
 * False where no such turns are known. About a millisecond. */
bool tutti_torus_turns(const struct route *axes, struct bucket_plan *plan);

#endif
