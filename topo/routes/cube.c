/* Routes on hypercubes: the bits in which two ranks differ, from the lowest on (e-cube; Sullivan &
 * Bashkow 1977, "A large scale, homogeneous, fully distributed parallel machine"). */
#include "runtime/status.h"
#include "topo/graph/graph.h"
#include "topo/graph/rule.h"
#include "topo/routes/router.h"

/* The link is known by the device that it leaves and the bit: nothing is looked up. */
static void rule_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                       struct tutti_path *path)
{
    const uint32_t dim_count = topo->graph->rule->cube.dim_count;

    for (uint32_t bit = 0; bit < dim_count; bit++) {
        if (((from ^ to) >> bit & 1) == 0)
            continue;
        tutti_path_add(path, from * dim_count + bit);
        from ^= UINT32_C(1) << bit;
    }
}

/* Of a machine that was listed, as one from a file is: the link from one rank's device to
 * another's; UINT32_MAX: none. */
static uint32_t link_between(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    uint32_t v = tutti_topo_rank_node(topo, from);
    uint32_t w = tutti_topo_rank_node(topo, to);

    for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++) {
        uint32_t link = tutti_topo_out_link(topo, v, k);

        if (tutti_topo_link(topo, link).to == w)
            return link;
    }
    return UINT32_MAX;
}

static void listed_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                         struct tutti_path *path)
{
    for (uint32_t bit = 0; (from ^ to) >> bit != 0; bit++) {
        if (((from ^ to) >> bit & 1) == 0)
            continue;
        tutti_path_add(path, link_between(topo, from, from ^ UINT32_C(1) << bit));
        from ^= UINT32_C(1) << bit;
    }
}

int tutti_router_cube(const struct tutti_topo *topo, struct tutti_router *router,
                      struct tutti_err *err)
{
    uint32_t n = topo->rank_count;

    if ((n & (n - 1)) != 0)
        return tutti_fail(err, TUTTI_EINVAL, "routes on a cube of '%u' ranks (1, 2, 4, 8, ...)", n);
    if (topo->graph->rule != NULL) {
        router->route = rule_route;
        return 0;
    }
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t bit = 1; bit < n; bit <<= 1)
            if (link_between(topo, from, from ^ bit) == UINT32_MAX)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "not a cube: no link from rank '%u' to rank %u", from,
                                  from ^ bit);
    router->route = listed_route;
    return 0;
}
