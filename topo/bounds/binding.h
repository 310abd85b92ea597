/* What binds, in words for people. */
#ifndef TUTTI_TOPO_BOUNDS_BINDING_H
#define TUTTI_TOPO_BOUNDS_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo/bounds/family.h"
#include "topo/bounds/partition.h"

/* The groups of a partition, all together or one alone, that take the longest. */
struct tutti_binding {
    struct tutti_family_member member;
    struct tutti_bound_group group; /* that binds; one of them where all do */
    uint32_t group_count;
    uint64_t together; /* bytes a second of all groups */
    bool all_groups;   /* all together bind, not one alone */
    bool inward;       /* what enters binds, not what leaves */
    bool alike;        /* the groups can all send and take the same, */
    bool even;         /* and have as many ranks */
};

/* "each device: 450GB/s out", "the 8 NICs of each host: 400GB/s out", "link a -> b: 1GB/s". Cut
 * where it is longer than buf_bytes. */
void tutti_binding_name(const struct tutti_topo *topo, const struct tutti_binding *binding,
                        char *buf, size_t buf_bytes);

#endif
