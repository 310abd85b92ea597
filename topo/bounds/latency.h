/* The shortest latency between ranks that must hear of each other. */
#ifndef TUTTI_TOPO_BOUNDS_LATENCY_H
#define TUTTI_TOPO_BOUNDS_LATENCY_H

#include <stdint.h>

#include "runtime/schedule.h"
#include "topo/topo.h"

struct tutti_err;

/* A pair of ranks one of which must hear of the other before the collective is done, and the
 * shortest latency between them over any path: the farthest such pair that a few searches find, so
 * a bound that is valid, and as near as trees and grids need. O(links log links). */
struct tutti_latency {
    tutti_ps latency_ps;
    uint32_t from;
    uint32_t to;
};
int tutti_latency_bound(const struct tutti_topo *topo, enum tutti_collective collective,
                        uint32_t root, struct tutti_latency *ret, struct tutti_err *err);

#endif
