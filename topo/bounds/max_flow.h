/* Maximum flows on exact integers: what two sides of a machine can have between them. */
#ifndef TUTTI_TOPO_BOUNDS_FLOW_H
#define TUTTI_TOPO_BOUNDS_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/wide.h"

struct tutti_err;

#define TUTTI_MAX_FLOW_NONE UINT32_MAX

/* One direction; that of the pair e is e ^ 1. */
struct tutti_max_flow_arc {
    uint32_t from;
    uint32_t to;
    uint32_t next;          /* arc of the same `from`, or TUTTI_MAX_FLOW_NONE */
    struct tutti_wide most; /* what it can take, */
    struct tutti_wide left; /* and what of it is left */
};

/* A network and the memory to find flows in it. */
struct tutti_max_flow {
    uint32_t node_count;
    uint32_t arc_count;
    uint32_t arc_capacity;
    struct tutti_max_flow_arc *arcs; /* [arc_capacity] */
    uint32_t *first;                 /* [node_count]: its first arc */
    uint32_t *level; /* [node_count]: after a search, TUTTI_MAX_FLOW_NONE: beyond the least cut */
    uint32_t *at;    /* [node_count]: the arc to try next */
    uint32_t *queue; /* [node_count] */
    uint32_t *path;  /* [node_count]: arcs */
};

/* Room for `pair_count` pairs of arcs. */
int tutti_max_flow_open(struct tutti_max_flow *flow, uint32_t node_count, uint32_t pair_count,
                        struct tutti_err *err);
void tutti_max_flow_close(struct tutti_max_flow *flow);
/* Takes all arcs out again. */
void tutti_max_flow_clear(struct tutti_max_flow *flow);
/* Adds an arc, `back` what its pair takes. Returns its index. Sums of all must stay below 2^127. */
uint32_t tutti_max_flow_add(struct tutti_max_flow *flow, uint32_t from, uint32_t to,
                            struct tutti_wide most, struct tutti_wide back);

/* The largest flow from one node to another with nothing flowing before. Afterwards, node v is on
 * the side of `from` of a least cut where level[v] is not TUTTI_MAX_FLOW_NONE: of all least cuts
 * the one with the fewest there. Dinic 1970: O(nodes^2 arcs) at worst, far from it as a rule. */
struct tutti_wide tutti_max_flow_between(struct tutti_max_flow *flow, uint32_t from, uint32_t to);

#endif
