/* Reduce to one and broadcast: every rank sends all its data to rank 0, which adds it up and sends
 * the sum back to each; what a parameter server, or TensorFlow's ReductionToOneDevice, does.
 *
 * Price for n ranks, M bytes: 2 messages one after another; rank 0 receives and sends (n-1) M bytes
 * and reduces as much, every other rank sends and receives M.
 *
 * Grain: chunk_bytes 0 sends the whole share at once; smaller chunks follow one another. */
#include "runtime/coll/generators.h"
#include "runtime/coll/tree.h"

int tutti_coll_reduce_broadcast(const struct tutti_coll_params *params,
                                const struct tutti_shape *shape, struct tutti_schedule **ret,
                                struct tutti_err *err)
{
    struct tree_plan plan = {.name = "reduce-broadcast", .kind = TREE_STAR, .tree_count = 1};

    if (shape->rank_count <= 1)
        return tutti_coll_alone(plan.name, params, shape, ret, err);
    return tutti_tree_new(&plan, params, shape, ret, err);
}
