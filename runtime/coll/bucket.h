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

/* One share goes around the axes in this order: reduce-scatter inwards, all-gather outwards. */
struct route {
    uint32_t axis_count; /* >= 1; the product of the sizes is the number of ranks */
    struct axis axis[TUTTI_DIMS_MAX];
};

struct bucket_plan {
    const char *name;
    uint32_t route_count; /* a channel has a share for each route; <= 2 * TUTTI_DIMS_MAX */
    struct route route[2 * TUTTI_DIMS_MAX];
    bool turns;   /* the routes are turns of one, each in as many directions: see torus.c */
    bool ordered; /* the one axis of each route follows the ring orders of the shape */
};

int tutti_bucket_new(const struct bucket_plan *plan, const struct tutti_coll_params *params,
                     const struct tutti_shape *shape, struct tutti_schedule **ret,
                     struct tutti_err *err);

#endif
