/* Ring orders with their inverse: which rank sits where on which ring. */
#ifndef TUTTI_RUNTIME_COLL_RING_ORDER_H
#define TUTTI_RUNTIME_COLL_RING_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct tutti_arena;
struct tutti_err;
struct tutti_shape;

/* Tables exist only where the shape names orders: the natural ring of a million ranks costs
 * nothing. */
struct ring_orders {
    uint32_t rank_count;
    uint32_t order_count; /* 0: the natural order 0, 1, ..., n-1 */
    uint32_t *order;      /* [order_count * rank_count]: rank at a position */
    uint32_t *position;   /* [order_count * rank_count]: position of a rank */
};

/* Copies the orders of the shape; refuses one that is not a permutation. */
int tutti_ring_orders_init(struct ring_orders *orders, const struct tutti_shape *shape,
                           struct tutti_arena *arena, struct tutti_err *err);

/* The ranks of a ring in order, or NULL for the natural order. */
static inline const uint32_t *ring_order(const struct ring_orders *orders, uint32_t ring)
{
    if (orders->order_count == 0)
        return NULL;
    return orders->order + (uint64_t)(ring % orders->order_count) * orders->rank_count;
}

static inline uint32_t ring_position(const struct ring_orders *orders, uint32_t ring, uint32_t rank)
{
    if (orders->order_count == 0)
        return rank;
    return orders->position[(uint64_t)(ring % orders->order_count) * orders->rank_count + rank];
}

static inline uint32_t ring_rank(const struct ring_orders *orders, uint32_t ring, uint32_t position)
{
    if (orders->order_count == 0)
        return position;
    return orders->order[(uint64_t)(ring % orders->order_count) * orders->rank_count + position];
}

#endif
