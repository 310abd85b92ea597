/* The bucket engine: all-reduce over a nest of rings, the common form of ring, hierarchical and
 * torus. */
#ifndef TUTTI_RUNTIME_COLL_BUCKET_H
#define TUTTI_RUNTIME_COLL_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/coll/emit.h"

/* A family of rings: rank r sits at coordinate (r / stride) mod size of its ring. */
struct axis {
    uint32_t size; /* >= 2 */
    uint32_t stride;
    bool reversed; /* messages go towards smaller coordinates */
};

enum { BUCKET_ROUTES_MAX = 64, BUCKET_PHASES_MAX = 2 * TUTTI_DIMS_MAX - 1 };
#define BUCKET_ROUTE_NONE UINT32_MAX

/* A phase of a route. */
struct turn {
    uint32_t route; /* or BUCKET_ROUTE_NONE */
    uint32_t phase;
};

/* One share goes around the axes in this order: reduce-scatter inwards, all-gather outwards. */
struct route {
    uint32_t axis_count; /* >= 1; the product of the sizes is the number of ranks */
    struct axis axis[TUTTI_DIMS_MAX];
    uint64_t weight;                      /* of its share, if the plan is weighted; >= 1 */
    struct turn after[BUCKET_PHASES_MAX]; /* likewise: what each phase waits for */
};

struct bucket_plan {
    const char *name;
    uint32_t route_count; /* a channel has a share for each route */
    struct route route[BUCKET_ROUTES_MAX];
    bool turns;    /* the routes are turns of one, each in as many directions: see torus.c */
    bool weighted; /* shares differ, and phases wait for what the routes say: see torus_turns.c */
    bool ordered;  /* the one axis of each route follows the ring orders of the shape */
};

int tutti_bucket_new(const struct bucket_plan *plan, const struct tutti_coll_params *params,
                     const struct tutti_shape *shape, struct tutti_schedule **ret,
                     struct tutti_err *err);

#endif
