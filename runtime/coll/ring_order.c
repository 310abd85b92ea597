/* Copies and checks the ring orders of a shape. */
#include "runtime/coll/ring_order.h"

#include <stddef.h>

#include "runtime/arena.h"
#include "runtime/shape.h"
#include "runtime/status.h"

static int invert(struct ring_orders *orders, uint32_t ring, struct tutti_err *err)
{
    uint32_t n = orders->rank_count;
    const uint32_t *order = orders->order + (size_t)ring * n;
    uint32_t *position = orders->position + (size_t)ring * n;

    for (uint32_t i = 0; i < n; i++)
        position[i] = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] >= n)
            return tutti_fail(err, TUTTI_EINVAL, "ring order %u names rank '%u' (0 to %u)", ring,
                              order[i], n - 1);
        if (position[order[i]] != UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL,
                              "ring order %u names rank '%u' twice (every rank once)", ring,
                              order[i]);
        position[order[i]] = i;
    }
    return 0;
}

int tutti_ring_orders_init(struct ring_orders *orders, const struct tutti_shape *shape,
                           struct tutti_arena *arena, struct tutti_err *err)
{
    size_t total = (size_t)shape->order_count * shape->rank_count;
    int status = 0;

    *orders =
        (struct ring_orders){.rank_count = shape->rank_count, .order_count = shape->order_count};
    if (shape->order_count == 0)
        return 0;
    orders->order = tutti_arena_take(arena, total, sizeof(uint32_t));
    orders->position = tutti_arena_take(arena, total, sizeof(uint32_t));
    if (orders->order == NULL || orders->position == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < total; i++)
        orders->order[i] = shape->orders[i];
    for (uint32_t ring = 0; ring < shape->order_count && status == 0; ring++)
        status = invert(orders, ring, err);
    return status;
}
