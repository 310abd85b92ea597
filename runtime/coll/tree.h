/* The tree engine: reduce up a tree, broadcast down it, item by item; and the trees themselves. */
#ifndef TUTTI_RUNTIME_COLL_TREE_H
#define TUTTI_RUNTIME_COLL_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/coll/emit.h"

struct tutti_chains;
struct tutti_nccl_params;

enum tree_kind {
    TREE_BINOMIAL, /* parent: clear the lowest set bit */
    TREE_CHAIN,    /* parent: the node before */
    TREE_STAR,     /* parent: the root */
    TREE_BALANCED, /* NCCL's binary tree, in-order numbered, node 0 above it */
    TREE_HOSTS,    /* chains inside hosts, joined by a double binary tree; see tree_hosts.h */
};

#define TREE_NONE UINT32_MAX

/* Of the first four kinds. Trees over nodes 0 .. n-1, root 0, n >= 2. */
uint32_t tutti_tree_parent(enum tree_kind kind, uint32_t n, uint32_t node); /* TREE_NONE: root */
uint32_t tutti_tree_child_count(enum tree_kind kind, uint32_t n, uint32_t node);
uint32_t tutti_tree_child(enum tree_kind kind, uint32_t n, uint32_t node, uint32_t index);

/* The two trees of the double binary tree: which node rank plays in tree 0 or 1, and back. */
uint32_t tutti_tree_double_node(uint32_t tree, uint32_t n, uint32_t rank);
uint32_t tutti_tree_double_rank(uint32_t tree, uint32_t n, uint32_t node);

struct tree_plan {
    const char *name;
    enum tree_kind kind;
    uint32_t tree_count;  /* 1, or 2 for the double tree and for chains both ways round the ring: a
                             channel has a share for each */
    uint64_t grain_bytes; /* default of chunk_bytes */
    const struct tutti_nccl_params *nccl; /* TREE_HOSTS: how the data are cut, */
    const struct tutti_chains *chains;    /* and the chains; both borrowed for the call */
};

/* Serves allreduce and barrier (up and down, two lanes a share), reduce (up) and broadcast (down).
 */
int tutti_tree_new(const struct tree_plan *plan, const struct tutti_coll_params *params,
                   const struct tutti_shape *shape, struct tutti_schedule **ret,
                   struct tutti_err *err);

#endif
