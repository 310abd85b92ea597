/* Routes: by the machine's own rule where it has one, else looked up in tables of a search. */
#include <assert.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "topo/graph/builder.h"
#include "topo/routes/router.h"

int tutti_freeze_routes(struct tutti_topo *topo, const struct tutti_routes *routes,
                        struct tutti_err *err)
{
    static int (*const make[TUTTI_ROUTES_KIND_COUNT])(const struct tutti_topo *,
                                                      struct tutti_router *, struct tutti_err *) = {
        [TUTTI_ROUTES_SEARCH] = tutti_router_search,   [TUTTI_ROUTES_GRID] = tutti_router_grid,
        [TUTTI_ROUTES_CLUSTER] = tutti_router_cluster, [TUTTI_ROUTES_CUBE] = tutti_router_cube,
        [TUTTI_ROUTES_TREE] = tutti_router_tree,
    };
    struct tutti_router *router = tutti_arena_take(topo->arena, 1, sizeof(*router));
    int status;

    if (router == NULL)
        return tutti_nomem(err);
    assert(routes->kind < TUTTI_ROUTES_KIND_COUNT);
    router->plan = *routes;
    status = make[routes->kind](topo, router, err);
    if (status == 0)
        topo->router = router;
    return status;
}

bool tutti_topo_routes_choose(const struct tutti_topo *topo)
{
    const struct tutti_routes *plan = &topo->router->plan;

    return (plan->kind == TUTTI_ROUTES_CLUSTER && plan->args[TUTTI_CLUSTER_SPINES] > 1) ||
           (plan->kind == TUTTI_ROUTES_TREE && topo->router->tree.levels > 1);
}

int tutti_topo_routes_draw(struct tutti_topo *topo, uint64_t key, struct tutti_err *err)
{
    struct tutti_router *drawn = tutti_arena_take(topo->arena, 1, sizeof(*drawn));

    if (drawn == NULL)
        return tutti_nomem(err);
    *drawn = *topo->router;
    drawn->drawn = true;
    drawn->key = key;
    topo->router = drawn;
    return 0;
}

bool tutti_topo_routes_drawn(const struct tutti_topo *topo)
{
    return topo->router->drawn;
}

uint32_t tutti_router_draw(const struct tutti_router *router, uint32_t from, uint32_t to,
                           uint32_t level, uint32_t count)
{
    uint64_t hash = tutti_random_hash(router->key, from, to, level);

    /* hash * count / 2^64, by halves of the hash: neither product overflows. */
    return (uint32_t)(((hash >> 32) * count + ((hash & UINT32_MAX) * count >> 32)) >> 32);
}

struct tutti_routes tutti_topo_routes(const struct tutti_topo *topo)
{
    return topo->router->plan;
}

uint32_t tutti_topo_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                          uint32_t *links, uint32_t capacity)
{
    struct tutti_path path = {.links = links, .capacity = capacity};

    assert(from < topo->rank_count);
    assert(to < topo->rank_count);
    if (from != to)
        topo->router->route(topo, from, to, &path);
    assert(path.count <= topo->node_count);
    return path.count;
}
