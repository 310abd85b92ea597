/* Hierarchical all-reduce: reduce-scatter in the innermost groups, then on the shards across these
 * groups, level by level; all-reduce at the top; all-gather back out. A ring inside each level.
 *
 * Price for levels g_0 .. g_{L-1}, n their product, M bytes: 2 * sum (g_k - 1) messages one after
 * another; a rank sends 2 (g_k - 1)/g_k * M / (g_0 ... g_{k-1}) bytes on level k, together
 * 2(n-1)/n * M, and reduces (n-1)/n * M. Two levels: the usual hierarchical all-reduce; any number:
 * BlueConnect (Cho, Finkler & Kung 2019). With one level, or none, it is the plain ring.
 *
 * Grain: a piece is g_0 chunks; chunk_bytes 0 makes one piece. */
#include "runtime/coll/bucket.h"
#include "runtime/coll/generators.h"

static int plan_levels(const struct tutti_shape *shape, struct route *route, struct tutti_err *err)
{
    uint64_t product = 1;

    assert(shape->level_count <= TUTTI_LEVELS_MAX);
    for (uint32_t i = 0; i < shape->level_count; i++) {
        uint32_t size = shape->level[i];

        if (size > 1)
            route->axis[route->axis_count++] =
                (struct axis){.size = size, .stride = (uint32_t)product};
        product *= size;
        if (size == 0 || product > shape->rank_count)
            return tutti_fail(err, TUTTI_EINVAL,
                              "level %u of '%u' groups does not fit: the levels must multiply out "
                              "to the number of ranks (%u)",
                              i, size, shape->rank_count);
    }
    if (product != shape->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the %u levels multiply out to '%llu' ranks, not to the %u there are",
                          shape->level_count, (unsigned long long)product, shape->rank_count);
    return 0;
}

int tutti_coll_hierarchical(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                            struct tutti_schedule **ret, struct tutti_err *err)
{
    struct bucket_plan plan = {.name = "hierarchical", .route_count = 1};
    int status = 0;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(plan.name, params, shape, ret, err);
    if (shape->level_count >= 1)
        status = plan_levels(shape, &plan.route[0], err);
    if (status < 0)
        return status;
    if (plan.route[0].axis_count <= 1) {
        plan.ordered = true;
        plan.route[0] =
            (struct route){.axis_count = 1, .axis = {{.size = shape->rank_count, .stride = 1}}};
    }
    return tutti_bucket_new(&plan, params, shape, ret, err);
}
