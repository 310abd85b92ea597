/* Of all partitions of a few devices, wired directly, the one with the least rate between its
 * groups for each group beyond the first. */
#ifndef TUTTI_TOPO_BOUNDS_LEAST_PARTITION_H
#define TUTTI_TOPO_BOUNDS_LEAST_PARTITION_H

#include <stdint.h>

struct tutti_topo;

/* Of at most TUTTI_FAMILY_SMALL ranks, each a node, and no other nodes: writes the group of each
 * rank, and returns how many groups there are. All partitions are looked at. */
uint32_t tutti_least_partition(const struct tutti_topo *topo, uint32_t *group);

#endif
