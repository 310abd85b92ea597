/* The shape of a machine: what was declared is checked, what was not is read off the graph. */
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/builder.h"

static int check_product(const char *what, const uint32_t *factor, uint32_t count,
                         uint32_t rank_count, struct tutti_err *err)
{
    uint64_t product = 1;

    for (uint32_t i = 0; i < count; i++) {
        if (factor[i] == 0)
            return tutti_fail(err, TUTTI_EINVAL, "%s with a 0 (from 1)", what);
        product *= factor[i];
        if (product > rank_count)
            break;
    }
    if (count > 0 && product != rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "%s do not multiply to the %u devices", what,
                          rank_count);
    return 0;
}

static int check_order(const uint32_t *order, uint32_t rank_count, uint8_t *seen,
                       struct tutti_err *err)
{
    for (uint32_t i = 0; i < rank_count; i++)
        seen[i] = 0;
    for (uint32_t i = 0; i < rank_count; i++) {
        if (order[i] >= rank_count)
            return tutti_fail(err, TUTTI_EINVAL, "a ring order names rank %u (0 to %u)", order[i],
                              rank_count - 1);
        if (seen[order[i]])
            return tutti_fail(err, TUTTI_EINVAL, "a ring order visits rank %u twice", order[i]);
        seen[order[i]] = 1;
    }
    return 0;
}

static int check_orders(const struct tutti_shape *shape, uint32_t rank_count, struct tutti_err *err)
{
    uint8_t *seen;
    int status = 0;

    if (shape->order_count == 0)
        return 0;
    if (shape->rank_count != rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "ring orders of %u ranks for %u devices",
                          shape->rank_count, rank_count);
    seen = malloc(rank_count);
    if (seen == NULL)
        return tutti_nomem(err);
    for (uint32_t o = 0; o < shape->order_count && status == 0; o++)
        status = check_order(shape->orders + (size_t)o * rank_count, rank_count, seen, err);
    free(seen);
    return status;
}

/* Levels of hosts: where all hosts have equally many devices, and their ranks in one piece. */
static void levels_of_hosts(const struct tutti_topo *topo, struct tutti_shape *shape)
{
    uint32_t each = topo->host_count > 0 ? topo->rank_count / topo->host_count : 0;

    if (each == 0 || topo->rank_count % topo->host_count != 0)
        return;
    /* Rules number the ranks host by host. */
    for (uint32_t r = 0; r < topo->rank_count && topo->graph->rule == NULL; r++)
        if (tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).host != r / each)
            return;
    shape->level_count = 1;
    shape->level[0] = topo->rank_count;
    if (each > 1 && topo->host_count > 1) {
        shape->level_count = 2;
        shape->level[0] = each;
        shape->level[1] = topo->host_count;
    }
}

int tutti_freeze_shape(struct tutti_topo *topo, const struct tutti_shape *declared,
                       struct tutti_err *err)
{
    struct tutti_shape shape = *declared;
    int status = check_product("levels", shape.level, shape.level_count, topo->rank_count, err);

    if (status == 0)
        status = check_product("dims", shape.dim, shape.dim_count, topo->rank_count, err);
    if (status == 0)
        status = check_orders(&shape, topo->rank_count, err);
    if (status < 0)
        return status;
    shape.rank_count = topo->rank_count;
    if (shape.level_count == 0)
        levels_of_hosts(topo, &shape);
    if (shape.order_count == 0 && shape.dim_count == 0)
        status = tutti_find_orders(topo, &shape, err);
    if (status < 0)
        return status;
    topo->shape = shape;
    return 0;
}
