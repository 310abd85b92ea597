/* Partitions of the ranks into groups, and what can leave and enter each group: cuts. */
#ifndef TUTTI_TOPO_BOUNDS_PARTITION_H
#define TUTTI_TOPO_BOUNDS_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/wide.h"
#include "topo/graph/graph.h"
#include "topo/topo.h"

struct tutti_err;

/* One group of a partition: some ranks, and the switches and NICs that were put to them; or, in a
 * regular machine, `count` groups that differ in nothing else, of which this is the first. */
struct tutti_bound_group {
    uint32_t count;
    bool has_root;
    uint32_t rank_count;
    uint32_t first;        /* its lowest rank */
    uint32_t follow_count; /* ranks r of it whose rank r + 1 (mod n) is not in it */
    uint32_t link_count;   /* links out, their kinds as bits 1 << enum tutti_link_kind, */
    uint32_t link_kinds;
    uint32_t link_out; /* and one of them; the same of links in */
    uint32_t link_in_count;
    uint32_t link_in;
    uint64_t out; /* bytes a second over all links that leave it; UINT64_MAX: that or more */
    uint64_t in;
};

/* Memory for one partition at a time. The caller writes the group of each rank to rank_group and
 * asks for the cuts. */
struct tutti_partition {
    const struct tutti_topo *topo;
    struct tutti_spines spines; /* only the first of those is looked at */
    struct tutti_copies copies; /* hosts in one group are passed over */
    uint32_t *rank_group;       /* [rank_count]: 0 .. group_count - 1 */
    uint32_t group_count;       /* set with it */
    uint32_t root;              /* a rank, or more than there are: none */
    struct tutti_bound_group
        *groups;           /* [rank_count], the first kind_count filled in, by lowest rank */
    uint32_t kind_count;   /* group_count, or less where groups are counted together */
    uint32_t *label;       /* [node_count]: the node's group; UINT32_MAX: between the groups */
    uint32_t *host_group;  /* [host_count]: of all its ranks; UINT32_MAX: of several */
    bool between_reduces;  /* a switch that reduces lies between the groups */
    struct tutti_wide out; /* of all groups together */
    struct tutti_wide in;
};

int tutti_partition_open(struct tutti_partition *partition, const struct tutti_topo *topo,
                         struct tutti_err *err);
void tutti_partition_close(struct tutti_partition *partition);

/* Puts each switch, NIC and CPU to the group that it is tied to most, or between the groups, and
 * adds up the links that cross. Any placing gives a cut, so what can flow out of the group is this
 * or less; the placing only decides how near it comes. O(links). */
void tutti_partition_cut(struct tutti_partition *partition);

/* Hosts of a cluster, of which those that are left out are like `plain`: each of their links, and
 * of their NICs', is as the rule says. */
struct tutti_told_hosts {
    uint32_t count;       /* 0: this is no such cluster */
    uint32_t *host;       /* [count], in order */
    uint32_t plain;       /* one of them, or UINT32_MAX */
    uint32_t plain_count; /* hosts like that, itself included */
};

/* Lists the hosts that differ, that of the root among them. It is empty where groups that each lie
 * within one host could be tied to a leaf switch. O(hosts). */
int tutti_told_hosts_find(const struct tutti_partition *partition, struct tutti_told_hosts *ret,
                          struct tutti_err *err);

/* The same as tutti_partition_cut() of a partition whose groups each lie within one host:
 * group[i * ranks of a host + d] is that of rank d of told host i, counted from 0 in each host in
 * order of ranks. rank_group is not looked at; hosts like the plain one are counted with it.
 * O(links of those that are told). */
void tutti_partition_cut_hosts(struct tutti_partition *partition,
                               const struct tutti_told_hosts *told, const uint32_t *group);

#endif
