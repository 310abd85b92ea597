/* The ring for collectives whose data are blocks, one a rank. */
#ifndef TUTTI_RUNTIME_COLL_RING_BLOCKS_H
#define TUTTI_RUNTIME_COLL_RING_BLOCKS_H

#include <stdint.h>

struct tutti_coll_params;
struct tutti_err;
struct tutti_schedule;
struct tutti_shape;

/* way_count 2: half of each block goes round each way. */
int tutti_ring_scatter_gather(const struct tutti_coll_params *params,
                              const struct tutti_shape *shape, uint32_t way_count,
                              struct tutti_schedule **ret, struct tutti_err *err);
int tutti_ring_alltoall(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                        struct tutti_schedule **ret, struct tutti_err *err);
int tutti_ring_barrier(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                       struct tutti_schedule **ret, struct tutti_err *err);

#endif
