/* What a machine is, in figures: its nodes and links by kind, and what it can carry. */
#ifndef TUTTI_TOPO_DESCRIBE_H
#define TUTTI_TOPO_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/api.h"
#include "topo/topo.h"

TUTTI_API_BEGIN

struct tutti_err;

enum { TUTTI_NODE_GROUPS_MAX = 32, TUTTI_LINK_GROUPS_MAX = 64 };

/* Nodes alike in kind, peak, memory rate and reducing. */
struct tutti_node_group {
    uint32_t first; /* node index */
    uint32_t count;
};

/* Both lists in order of first appearance; what does not fit any more is only counted. */
struct tutti_description {
    uint32_t node_group_count;
    uint32_t node_more;
    struct tutti_node_group node_groups[TUTTI_NODE_GROUPS_MAX];
    uint32_t link_group_count;
    uint32_t link_more;
    struct tutti_link_class link_groups[TUTTI_LINK_GROUPS_MAX];
    uint32_t node_kind_count[TUTTI_NODE_KIND_COUNT];

    uint64_t bisection_bytes_per_s; /* see tutti_topo_bisection() */
    uint64_t rank_out_min;          /* bytes a second that all links of a device can send: */
    uint64_t rank_out_max;          /* of the poorest and of the richest */
    uint64_t host_out_min;          /* the same of a host's links to outside; 0: one host or none */
    uint64_t host_out_max;
    uint32_t host_ranks_min; /* devices in a host; 0: no hosts */
    uint32_t host_ranks_max;
    tutti_ps far_ps; /* the longest of the shortest latencies between two ranks, or nearly so: */
    uint32_t far_from;
    uint32_t far_to;
};

/* Fills in *ret. O(links log links). */
int tutti_topo_describe(const struct tutti_topo *topo, struct tutti_description *ret,
                        struct tutti_err *err);

TUTTI_API_END

#endif
