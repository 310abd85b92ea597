/* The ring: all-reduce in one direction and in both, and all that goes round or along a ring.
 *
 * Price for n ranks and M bytes: 2(n-1) messages one after another; each rank sends and receives
 * 2(n-1)/n * M bytes and reduces (n-1)/n * M: no schedule of point-to-point messages sends less
 * (Patarasuk & Yuan 2009). The steps are those of NCCL 2.28 all_reduce.h: with chunk i complete at
 * position i after the first half. Channel c runs on ring c mod order_count of the shape.
 *
 * Grain: a piece is n chunks, done like a small all-reduce of its own, next to its neighbours in
 * the pipeline; chunk_bytes 0 makes one piece, whose chunks are M/n.
 *
 * ring-bidirectional halves the data: one half goes round each way, over both directions of every
 * link; the same rounds and bytes per rank, half the bytes per direction. So do its reduce-scatter
 * and all-gather with each block, and its broadcast and reduce with a chain each way.
 *
 * Broadcast and reduce run along the ring as a pipelined chain from or to the root, as NCCL's do:
 * q chunks take n - 2 + q messages one after another; a rank sends and receives M bytes at most;
 * chunk_bytes 0 means 512 KiB, NCCL's chunk for Simple. */
#include "runtime/coll/bucket.h"
#include "runtime/coll/generators.h"
#include "runtime/coll/ring_blocks.h"
#include "runtime/coll/tree.h"

static int ring_allreduce(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                          struct tutti_schedule **ret, struct tutti_err *err)
{
    struct bucket_plan plan = {.name = "ring", .route_count = 1, .ordered = true};

    plan.route[0] =
        (struct route){.axis_count = 1, .axis = {{.size = shape->rank_count, .stride = 1}}};
    return tutti_bucket_new(&plan, params, shape, ret, err);
}

static int ring_chain(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                      uint32_t way_count, struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tree_plan plan = {.name = way_count == 1 ? "ring" : "ring-bidirectional",
                             .kind = TREE_CHAIN,
                             .tree_count = way_count,
                             .grain_bytes = 512 * 1024};

    return tutti_tree_new(&plan, params, shape, ret, err);
}

int tutti_coll_ring(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    if (shape->rank_count <= 1)
        return tutti_coll_alone("ring", params, shape, ret, err);
    switch (params->collective) {
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
        return tutti_ring_scatter_gather(params, shape, 1, ret, err);
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        return ring_chain(params, shape, 1, ret, err);
    case TUTTI_ALLTOALL:
        return tutti_ring_alltoall(params, shape, ret, err);
    case TUTTI_BARRIER:
        return tutti_ring_barrier(params, shape, ret, err);
    default:
        return ring_allreduce(params, shape, ret, err);
    }
}

static int both_ways_allreduce(const struct tutti_coll_params *params,
                               const struct tutti_shape *shape, struct tutti_schedule **ret,
                               struct tutti_err *err)
{
    struct bucket_plan plan = {.name = "ring-bidirectional", .route_count = 2, .ordered = true};

    for (uint32_t i = 0; i < 2; i++)
        plan.route[i] =
            (struct route){.axis_count = 1,
                           .axis = {{.size = shape->rank_count, .stride = 1, .reversed = i == 1}}};
    return tutti_bucket_new(&plan, params, shape, ret, err);
}

int tutti_coll_ring_bidirectional(const struct tutti_coll_params *params,
                                  const struct tutti_shape *shape, struct tutti_schedule **ret,
                                  struct tutti_err *err)
{
    if (shape->rank_count <= 1)
        return tutti_coll_alone("ring-bidirectional", params, shape, ret, err);
    switch (params->collective) {
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
        return tutti_ring_scatter_gather(params, shape, 2, ret, err);
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        return ring_chain(params, shape, 2, ret, err);
    default:
        return both_ways_allreduce(params, shape, ret, err);
    }
}
