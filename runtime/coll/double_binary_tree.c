/* Double binary tree all-reduce: two binary trees, each for half of the data, in which the inner
 * ranks of one are mostly leaves of the other.
 *
 * Sanders, Speck & Traeff 2009; construction and pipeline as in NCCL 2.28 trees.cc and
 * all_reduce.h. Price for n ranks, M bytes in q items a tree: every item takes at most
 * 2 (floor(log2(n - 1)) + 1) messages one after another, up and down; a rank sends and receives at
 * most 2M bytes, whatever n, and reduces M; the q items follow one another in a pipeline.
 *
 * Grain: an item is chunk_bytes, cut into slices; 0 means 512 KiB, NCCL's chunk for Simple. */
#include "runtime/coll/generators.h"
#include "runtime/coll/tree.h"

int tutti_coll_double_binary_tree(const struct tutti_coll_params *params,
                                  const struct tutti_shape *shape, struct tutti_schedule **ret,
                                  struct tutti_err *err)
{
    struct tree_plan plan = {.name = "double-binary-tree",
                             .kind = TREE_BALANCED,
                             .tree_count = 2,
                             .grain_bytes = 512 * 1024};

    if (shape->rank_count <= 1)
        return tutti_coll_alone(plan.name, params, shape, ret, err);
    return tutti_tree_new(&plan, params, shape, ret, err);
}
