/* Searched routes of a whole machine, kept in tables so that asking needs no memory. */
#include <assert.h>
#include <inttypes.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/routes/router.h"
#include "topo/routes/search.h"

/* 8 to 12 bytes an entry: at most 384 MiB. Larger machines say how they route. */
enum { TABLE_ENTRIES_MAX = 1 << 25 };

static const uint32_t relayed_bit = UINT32_C(1) << 31;

static void walk(const struct tutti_topo *topo, uint32_t from, uint32_t to, struct tutti_path *path)
{
    const struct tutti_router *router = topo->router;
    uint32_t first = router->first[(size_t)to * topo->rank_count + from];
    const uint32_t *next = (first & relayed_bit) != 0
                               ? router->relayed[to]
                               : router->direct + (size_t)to * topo->node_count;
    uint32_t link = first & ~relayed_bit;

    for (;;) {
        uint32_t node = tutti_topo_link(topo, link).to;

        tutti_path_add(path, link);
        assert(path->count <= topo->node_count);
        if (node == tutti_topo_rank_node(topo, to))
            break;
        link = next[node];
    }
}

static int no_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                    struct tutti_err *err)
{
    char from_name[TUTTI_NODE_NAME_BYTES];
    char to_name[TUTTI_NODE_NAME_BYTES];

    return tutti_fail(err, TUTTI_EINVAL,
                      "no route from '%s' to '%s' (devices pass on only over nvlink, xgmi, ici and "
                      "generic links)",
                      tutti_topo_node_name(topo, tutti_topo_rank_node(topo, from), from_name),
                      tutti_topo_node_name(topo, tutti_topo_rank_node(topo, to), to_name));
}

/* All routes to rank `to` of those ranks that have none without devices that pass on. */
static int relay(const struct tutti_topo *topo, struct tutti_route_search *search, uint32_t to,
                 struct tutti_router *router, struct tutti_err *err)
{
    uint32_t *first = router->first + (size_t)to * topo->rank_count;
    uint32_t *next = tutti_arena_take(topo->arena, topo->node_count, sizeof(*next));

    if (next == NULL)
        return tutti_nomem(err);
    tutti_route_search_to(search, tutti_topo_rank_node(topo, to), true);
    for (uint32_t v = 0; v < topo->node_count; v++)
        next[v] = search->next[v];
    router->relayed[to] = next;
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        if (r == to || first[r] != UINT32_MAX)
            continue;
        first[r] = tutti_route_search_first(search, tutti_topo_rank_node(topo, r));
        if (first[r] == UINT32_MAX)
            return no_route(topo, r, to, err);
        first[r] |= relayed_bit;
    }
    return 0;
}

static int routes_to(const struct tutti_topo *topo, struct tutti_route_search *search, uint32_t to,
                     struct tutti_router *router, struct tutti_err *err)
{
    uint32_t *first = router->first + (size_t)to * topo->rank_count;
    uint32_t *next = router->direct + (size_t)to * topo->node_count;
    bool missing = false;

    tutti_route_search_to(search, tutti_topo_rank_node(topo, to), false);
    for (uint32_t v = 0; v < topo->node_count; v++)
        next[v] = search->next[v];
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        first[r] =
            r == to ? UINT32_MAX : tutti_route_search_first(search, tutti_topo_rank_node(topo, r));
        missing = missing || (r != to && first[r] == UINT32_MAX);
    }
    return missing ? relay(topo, search, to, router, err) : 0;
}

int tutti_router_search(const struct tutti_topo *topo, struct tutti_router *router,
                        struct tutti_err *err)
{
    size_t ranks = topo->rank_count;
    struct tutti_route_search search;
    int status;

    if (ranks * topo->node_count > TABLE_ENTRIES_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "too large to search routes: %zu ranks times %" PRIu32
                          " nodes (at most %d; grids and clusters need no search)",
                          ranks, topo->node_count, TABLE_ENTRIES_MAX);
    router->route = walk;
    router->first = tutti_arena_take(topo->arena, ranks * ranks, sizeof(uint32_t));
    router->direct = tutti_arena_take(topo->arena, ranks * topo->node_count, sizeof(uint32_t));
    router->relayed = tutti_arena_take(topo->arena, ranks, sizeof(uint32_t *));
    if (router->first == NULL || router->direct == NULL || router->relayed == NULL)
        return tutti_nomem(err);
    status = tutti_route_search_open(&search, topo, 0, topo->node_count, err);
    if (status < 0)
        return status;
    for (uint32_t to = 0; to < topo->rank_count && status == 0; to++)
        status = routes_to(topo, &search, to, router, err);
    tutti_route_search_close(&search);
    return status;
}
