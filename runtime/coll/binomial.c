/* Binomial tree: all-reduce (up to rank 0 and down again), reduce, broadcast and barrier.
 *
 * Price for n ranks, M bytes, L = ceil(log2 n): reduce and broadcast take L messages one after
 * another (fewer for some n between powers of two); the root receives (sends) L * M bytes and
 * reduces as much, every other rank sends (receives) M once. All-reduce takes both. Thakur,
 * Rabenseifner & Gropp 2005, section 3. Best for short messages.
 *
 * Grain: chunk_bytes 0 sends the whole share at once; smaller chunks follow one another. */
#include "runtime/coll/generators.h"
#include "runtime/coll/tree.h"

int tutti_coll_binomial(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                        struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tree_plan plan = {.name = "binomial", .kind = TREE_BINOMIAL, .tree_count = 1};

    if (shape->rank_count <= 1)
        return tutti_coll_alone(plan.name, params, shape, ret, err);
    return tutti_tree_new(&plan, params, shape, ret, err);
}
