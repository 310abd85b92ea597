/* The family of partitions that bounds are taken over, from single devices to halves. */
#ifndef TUTTI_TOPO_BOUNDS_FAMILY_H
#define TUTTI_TOPO_BOUNDS_FAMILY_H

#include <stdint.h>

#include "topo/bounds/partition.h"

enum tutti_family_kind {
    TUTTI_FAMILY_DEVICES, /* each rank alone */
    TUTTI_FAMILY_HOSTS,
    TUTTI_FAMILY_LEVEL,  /* groups of level index */
    TUTTI_FAMILY_LEAVES, /* hosts under the same leaf switches */
    TUTTI_FAMILY_PLANE,  /* ranks of equal coordinate on axis index */
    TUTTI_FAMILY_HALF,   /* the two halves of axis index */
    TUTTI_FAMILY_LINE,   /* ranks that differ on axis index alone */
    TUTTI_FAMILY_FAST,   /* what links faster than bytes_per_s join */
    TUTTI_FAMILY_TWIG,   /* subtrees of `index` levels: what hangs under one switch */
    TUTTI_FAMILY_SET,    /* any set of devices: of up to TUTTI_FAMILY_SMALL wired directly */
    TUTTI_FAMILY_KIND_COUNT
};

enum { TUTTI_FAMILY_SMALL = 8 };

struct tutti_family_member {
    enum tutti_family_kind kind;
    uint32_t index;
    uint64_t bytes_per_s;
};

/* Calls `visit` with each partition of at least two groups, cut and counted; devices first. Equal
 * partitions may come twice. O(links) each, and at most a few dozen; of machines that follow a rule
 * what is alike is counted together (regular.h), and of clusters whose links were changed the hosts
 * that are as the rule says; rank_group then says nothing. The group with rank `root` stands by
 * itself. */
int tutti_family_visit(const struct tutti_topo *topo, uint32_t root,
                       void (*visit)(const struct tutti_partition *partition,
                                     const struct tutti_family_member *member, void *context),
                       void *context, struct tutti_err *err);

#endif
