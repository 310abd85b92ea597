/* NCCL's tree: a chain inside each host, and between hosts a double binary tree. */
#ifndef TUTTI_RUNTIME_COLL_TREE_HOSTS_H
#define TUTTI_RUNTIME_COLL_TREE_HOSTS_H

#include <stdint.h>

#include "runtime/coll/nccl_chains.h"

struct tree_plan;
struct tutti_arena;
struct tutti_err;

enum { TREE_CHILDREN_MAX = 3 };

struct tree_hosts {
    struct nccl_chains chains;
    uint8_t pattern; /* enum tutti_tree_pattern */
};

/* The neighbours of a rank in the tree of a channel. */
struct tree_family {
    uint32_t parent; /* TREE_NONE: the root */
    uint32_t child_count;
    uint32_t children[TREE_CHILDREN_MAX]; /* the next of the chain first */
};

/* Takes over chains and pattern of the plan; refuses what is none. */
int tutti_tree_hosts_init(struct tree_hosts *hosts, const struct tree_plan *plan,
                          uint32_t rank_count, struct tutti_arena *arena, struct tutti_err *err);

struct tree_family tutti_tree_family(const struct tree_hosts *hosts, uint32_t channel,
                                     uint32_t rank);

#endif
