/* The shape a schedule is laid out on: ring orders, groups, dimensions. Pure numbers: topo/
 * computes shapes from machines, generators take shapes and know no machine. */
#ifndef TUTTI_RUNTIME_SHAPE_H
#define TUTTI_RUNTIME_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

enum { TUTTI_DIMS_MAX = 8, TUTTI_LEVELS_MAX = 8 };

struct tutti_shape {
    uint32_t rank_count;

    /* Rings: order_count permutations of the ranks, one after another; channel c runs on ring
     * c mod order_count. order_count 0: one ring 0, 1, ..., n-1. */
    uint32_t order_count;
    const uint32_t *orders; /* [order_count * rank_count], borrowed; outlives users of the shape */

    /* Hierarchy, innermost first: level[0] ranks share the closest switch, level[1] such groups the
     * next, ...; the product is rank_count. Rank r sits at r mod level[0] in its group, and so on.
     * level_count 0: one flat level. */
    uint32_t level_count;
    uint32_t level[TUTTI_LEVELS_MAX];

    /* Grid: rank r has coordinate r mod dim[0], (r / dim[0]) mod dim[1], ...; the product is
     * rank_count. dim_count 0: not a grid. */
    uint32_t dim_count;
    uint32_t dim[TUTTI_DIMS_MAX];
    bool wrap[TUTTI_DIMS_MAX]; /* this axis is a ring, not a line */
};

/* A flat shape of n ranks: one ring, one level, no grid. */
struct tutti_shape tutti_shape_flat(uint32_t rank_count);

TUTTI_API_END

#endif
