/* Ring orders by search: rings of devices wired directly that use each link as often as it is fast.
 *
 * Rates are counted in units of the slowest link. A ring takes one unit of each link that it goes
 * over. Rings are looked for depth first, widest links first, one after the other until there are
 * no more; then all over again in other orders, and the most rings win. It finds the 6 rings of a
 * DGX-1 with V100s. */
#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "topo/graph/builder.h"

enum {
    DEVICES_MAX = 16, /* of one host; more are behind switches */
    RINGS_MAX = 16,
    TRIES = 32,
    STEPS_MAX = 4000, /* of one search for one ring */
    UNITS_MAX = 16,
};

struct hunt {
    uint32_t count; /* devices */
    uint32_t attempt;
    uint8_t units[DEVICES_MAX][DEVICES_MAX]; /* left, one way */
    uint32_t ring_count;
    uint32_t rings[RINGS_MAX][DEVICES_MAX];
};

static bool is_wire(const struct tutti_topo *topo, const struct tutti_link *link)
{
    return (link->kind == TUTTI_LINK_NVLINK || link->kind == TUTTI_LINK_XGMI) &&
           tutti_topo_node(topo, link->from).kind == TUTTI_NODE_DEVICE &&
           tutti_topo_node(topo, link->to).kind == TUTTI_NODE_DEVICE;
}

/* Fills in the units; false: nothing is wired. */
static bool measure(const struct tutti_topo *topo, struct hunt *hunt)
{
    uint64_t unit = UINT64_MAX;

    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        if (is_wire(topo, &link) && link.bytes_per_s < unit)
            unit = link.bytes_per_s;
    }
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        uint32_t from = tutti_topo_node(topo, link.from).rank;
        uint64_t units = link.bytes_per_s / unit;

        if (is_wire(topo, &link))
            hunt->units[from][tutti_topo_node(topo, link.to).rank] =
                (uint8_t)(units < UNITS_MAX ? units : UNITS_MAX);
    }
    return unit != UINT64_MAX;
}

/* The best device to go on to from path[depth - 1] that comes after `last` in the order of this
 * attempt: more units first, then by chance (the first attempt: by rank). UINT32_MAX: none. */
static uint64_t next_step(const struct hunt *hunt, const uint32_t *path, uint32_t depth,
                          uint32_t visited, uint64_t last)
{
    uint32_t from = path[depth - 1];
    uint64_t best = UINT64_MAX;

    for (uint32_t to = 0; to < hunt->count; to++) {
        uint64_t chance = hunt->attempt == 0
                              ? 0
                              : tutti_random_hash(hunt->attempt, from, to, hunt->ring_count) % 251;
        uint64_t key = (uint64_t)(UNITS_MAX - hunt->units[from][to]) << 32 | chance << 8 | to;

        if ((visited >> to & 1) == 0 && hunt->units[from][to] > 0 && key < best &&
            (last == UINT64_MAX || key > last))
            best = key;
    }
    return best;
}

/* One ring from device 0 into `path`, over links with units left. */
static bool find_ring(const struct hunt *hunt, uint32_t *path)
{
    uint64_t last[DEVICES_MAX + 1];
    uint32_t visited = 1;
    uint32_t depth = 1;

    path[0] = 0;
    last[1] = UINT64_MAX;
    for (uint32_t step = 0; step < STEPS_MAX && depth > 0; step++) {
        uint64_t next;

        if (depth == hunt->count && hunt->units[path[depth - 1]][0] > 0)
            return true;
        next = next_step(hunt, path, depth, visited, last[depth]);
        if (next == UINT64_MAX) {
            visited &= ~(1u << path[--depth]);
            continue;
        }
        last[depth] = next;
        path[depth] = (uint32_t)(next & 0xff);
        visited |= 1u << path[depth];
        last[++depth] = UINT64_MAX;
    }
    return false;
}

static bool is_free(const struct hunt *hunt, const uint32_t *ring)
{
    for (uint32_t i = 0; i < hunt->count; i++)
        if (hunt->units[ring[i]][ring[i + 1 < hunt->count ? i + 1 : 0]] == 0)
            return false;
    return true;
}

static void take(struct hunt *hunt, const uint32_t *ring)
{
    assert(hunt->ring_count < RINGS_MAX);
    for (uint32_t i = 0; i < hunt->count; i++)
        hunt->units[ring[i]][ring[i + 1 < hunt->count ? i + 1 : 0]]--;
    memcpy(hunt->rings[hunt->ring_count++], ring, sizeof(hunt->rings[0]));
}

/* Rings one after the other, and in every other attempt each backwards as well, if that is free: a
 * good guess where links are as fast back as there, but not always the most (an odd number). */
static void find_rings(struct hunt *hunt)
{
    uint32_t ring[DEVICES_MAX] = {0};
    uint32_t back[DEVICES_MAX] = {0};

    while (hunt->ring_count < RINGS_MAX && find_ring(hunt, ring)) {
        take(hunt, ring);
        for (uint32_t i = 0; i < hunt->count; i++)
            back[i] = ring[i == 0 ? 0 : hunt->count - i];
        if (hunt->attempt % 2 == 0 && hunt->ring_count < RINGS_MAX && is_free(hunt, back))
            take(hunt, back);
    }
}

/* No more rings than the poorest device has units, out or in. */
static uint32_t rings_at_most(const struct hunt *hunt)
{
    uint32_t most = RINGS_MAX;

    for (uint32_t a = 0; a < hunt->count; a++) {
        uint32_t out = 0;
        uint32_t in = 0;

        for (uint32_t b = 0; b < hunt->count; b++) {
            out += hunt->units[a][b];
            in += hunt->units[b][a];
        }
        most = out < most ? out : most;
        most = in < most ? in : most;
    }
    return most;
}

int tutti_find_orders(const struct tutti_topo *topo, struct tutti_shape *shape,
                      struct tutti_err *err)
{
    struct hunt start = {.count = topo->rank_count};
    struct hunt best = {.count = 0};
    uint32_t most;
    uint32_t *orders;

    if (topo->host_count > 1 || topo->rank_count < 3 || topo->rank_count > DEVICES_MAX ||
        !measure(topo, &start))
        return 0;
    most = rings_at_most(&start);
    for (uint32_t attempt = 0; attempt < TRIES && best.ring_count < most; attempt++) {
        struct hunt hunt = start;

        hunt.attempt = attempt;
        find_rings(&hunt);
        if (hunt.ring_count > best.ring_count)
            best = hunt;
        if (hunt.ring_count == 0)
            break; /* the first ring does not depend on the attempt, but for its steps */
    }
    if (best.ring_count == 0)
        return 0;
    orders = tutti_arena_take(topo->arena, (size_t)best.ring_count * best.count, sizeof(*orders));
    if (orders == NULL)
        return tutti_nomem(err);
    for (uint32_t o = 0; o < best.ring_count; o++)
        memcpy(orders + (size_t)o * best.count, best.rings[o], best.count * sizeof(*orders));
    shape->order_count = best.ring_count;
    shape->orders = orders;
    return 0;
}
