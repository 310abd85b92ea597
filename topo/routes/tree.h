/* The numbering of a fat tree: an extended generalised fat tree, XGFT (Oehring et al. 1995). */
#ifndef TUTTI_TOPO_ROUTES_TREE_H
#define TUTTI_TOPO_ROUTES_TREE_H

#include <stdint.h>

enum { TUTTI_TREE_LEVELS_MAX = 6 };

/* `arity` children a switch; each leaf switch has `uplinks` parents and all others `arity`. Nodes:
 * the arity^levels devices, then level 1 (leaf) switches, level 2, ... Cables in the same order:
 * each device to its leaf switch, then each level's switches to their parents. */
struct tutti_tree {
    uint32_t arity;
    uint32_t levels;
    uint32_t uplinks;
    uint64_t below[TUTTI_TREE_LEVELS_MAX + 1];       /* devices under a switch of level i */
    uint64_t copies[TUTTI_TREE_LEVELS_MAX + 1];      /* switches of level i over the same devices */
    uint64_t node_first[TUTTI_TREE_LEVELS_MAX + 2];  /* first node of level i; 0: devices */
    uint64_t cable_first[TUTTI_TREE_LEVELS_MAX + 1]; /* first cable from level i upwards */
};

/* Fills in the derived fields; levels 1 to TUTTI_TREE_LEVELS_MAX. */
struct tutti_tree tutti_tree_of(uint32_t arity, uint32_t levels, uint32_t uplinks);

/* Parents of a switch of level i (of a device: 1). */
static inline uint32_t tutti_tree_parents(const struct tutti_tree *tree, uint32_t level)
{
    return level == 0 ? 1 : level == 1 ? tree->uplinks : tree->arity;
}

/* Parent number p of item `index` of a level: its index in the level above. */
static inline uint64_t tutti_tree_parent(const struct tutti_tree *tree, uint32_t level,
                                         uint64_t index, uint32_t p)
{
    uint64_t subtree = index / tree->copies[level];
    uint64_t copy = index % tree->copies[level];

    return subtree / tree->arity * tree->copies[level + 1] + copy + p * tree->copies[level];
}

#endif
