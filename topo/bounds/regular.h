/* The family of partitions of machines that follow a rule, without looking at every link. */
#ifndef TUTTI_TOPO_BOUNDS_REGULAR_H
#define TUTTI_TOPO_BOUNDS_REGULAR_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/bounds/family.h"

/* The same visits as tutti_family_visit() would make, groups that differ in nothing counted
 * together. *ret_done: false where the machine follows no rule, or none of these: grids of rings,
 * one switch, clusters that have a sample (sample.h). Price: that of a few hundred links. */
int tutti_regular_visit(const struct tutti_topo *topo, uint32_t root,
                        void (*visit)(const struct tutti_partition *partition,
                                      const struct tutti_family_member *member, void *context),
                        void *context, bool *ret_done, struct tutti_err *err);

#endif
