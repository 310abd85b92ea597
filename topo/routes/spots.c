/* Where ranks and links of a cluster of equal hosts lie: hosts in groups, groups in the cluster.
 * Routes name hosts, leaves and spines by these two numbers alone (topo/routes/cluster.c): a
 * permutation of the hosts in all groups takes the spines along, which are chosen by the place of
 * the receiver in its group, one spine a place. */
#include <assert.h>

#include "topo/routes/router.h"

#define NONE UINT32_MAX

static bool are_alike(const struct tutti_topo *topo, uint32_t a_link, uint32_t b_link)
{
    struct tutti_link a = tutti_topo_link(topo, a_link);
    struct tutti_link b = tutti_topo_link(topo, b_link);

    return a.bytes_per_s == b.bytes_per_s && a.latency_ps == b.latency_ps && a.kind == b.kind &&
           a.burst_bytes == b.burst_bytes;
}

/* The link of the same kind at the first places. */
static uint32_t first_like(const struct tutti_router *router, uint32_t link)
{
    const uint32_t *plan = router->plan.args;
    uint32_t cables = router->net_first + 2 * plan[TUTTI_CLUSTER_HOSTS] * plan[TUTTI_CLUSTER_NICS];

    if (link < router->net_first)
        return link % router->host_links;
    if (link < cables)
        return router->net_first + (link - router->net_first) % (2 * plan[TUTTI_CLUSTER_NICS]);
    return cables +
           (link - cables) % (2 * plan[TUTTI_CLUSTER_NICS] * plan[TUTTI_CLUSTER_SPINES]) /
               (2 * plan[TUTTI_CLUSTER_SPINES]) * (2 * plan[TUTTI_CLUSTER_SPINES]) +
           (link - cables) % 2;
}

bool tutti_topo_axes(const struct tutti_topo *topo, uint32_t lengths[TUTTI_AXES])
{
    const struct tutti_router *router = topo->router;
    const uint32_t *plan = router->plan.args;

    if (router->drawn || router->plan.kind != TUTTI_ROUTES_CLUSTER ||
        plan[TUTTI_CLUSTER_HOSTS] % plan[TUTTI_CLUSTER_GROUP_HOSTS] != 0 ||
        (plan[TUTTI_CLUSTER_SPINES] != 0 &&
         plan[TUTTI_CLUSTER_SPINES] < plan[TUTTI_CLUSTER_GROUP_HOSTS]))
        return false;
    for (uint32_t link = 0; link < topo->link_count; link++) {
        if (!are_alike(topo, link, first_like(router, link)))
            return false;
    }
    lengths[0] = plan[TUTTI_CLUSTER_GROUP_HOSTS];
    lengths[1] = plan[TUTTI_CLUSTER_HOSTS] / plan[TUTTI_CLUSTER_GROUP_HOSTS];
    return true;
}

struct tutti_spot tutti_topo_rank_spot(const struct tutti_topo *topo, uint32_t rank)
{
    const struct tutti_router *router = topo->router;
    uint32_t host = rank / router->host_devices;
    uint32_t group_hosts = router->plan.args[TUTTI_CLUSTER_GROUP_HOSTS];

    return (struct tutti_spot){.along = {host % group_hosts, host / group_hosts},
                               .kind = rank % router->host_devices};
}

struct tutti_spot tutti_topo_link_spot(const struct tutti_topo *topo, uint32_t link)
{
    const struct tutti_router *router = topo->router;
    const uint32_t *plan = router->plan.args;
    uint32_t cables = router->net_first + 2 * plan[TUTTI_CLUSTER_HOSTS] * plan[TUTTI_CLUSTER_NICS];
    struct tutti_spot place;

    if (link < cables) {
        bool inside = link < router->net_first;
        uint32_t each = inside ? router->host_links : 2 * plan[TUTTI_CLUSTER_NICS];
        uint32_t index = inside ? link : link - router->net_first;

        place.along[0] = index / each % plan[TUTTI_CLUSTER_GROUP_HOSTS];
        place.along[1] = index / each / plan[TUTTI_CLUSTER_GROUP_HOSTS];
        place.kind = index % each + (inside ? 0 : router->host_links);
        return place;
    }
    assert(plan[TUTTI_CLUSTER_SPINES] > 0);
    place.along[0] = (link - cables) / 2 % plan[TUTTI_CLUSTER_SPINES];
    place.along[1] = (link - cables) / (2 * plan[TUTTI_CLUSTER_SPINES]) / plan[TUTTI_CLUSTER_NICS];
    place.kind = router->host_links + 2 * plan[TUTTI_CLUSTER_NICS] +
                 (link - cables) / (2 * plan[TUTTI_CLUSTER_SPINES]) % plan[TUTTI_CLUSTER_NICS] * 2 +
                 link % 2;
    if (place.along[0] >= plan[TUTTI_CLUSTER_GROUP_HOSTS]) { /* a spine that no route takes */
        place.kind += 2 * plan[TUTTI_CLUSTER_NICS];
        place.along[0] = NONE;
    }
    return place;
}
