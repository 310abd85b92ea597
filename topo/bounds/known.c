/* Where the bounds over partitions are exact, and why.
 *
 * Star: devices round one switch that does not reduce, all links alike. All-reduce, all-gather and
 * reduce-scatter by the ring, broadcast and reduce by a pipelined chain, all-to-all and send/recv
 * directly keep every port busy with nothing but what the bound counts.
 *
 * Full mesh and grids (mesh, torus, twisted torus) of devices with links all alike, full duplex:
 *  - All-reduce: the optimum is M / tau, tau = min over partitions of (rate between the groups) /
 *    (groups - 1) (trees packed by Tutte and Nash-Williams, reduced up and broadcast down).
 *    In a connected vertex-transitive graph of degree D each group of a k-part partition has at
 *    least D links (Mader), so single devices are the worst. A product of a graph G for which that
 *    holds with a path or a ring has it too: a subgraph with v nodes in t layers has at most
 *    tau(G)(v - t) links in the layers and v - v/t between them (v in a ring if t is all layers),
 *    and that over v - 1 grows with v and t up to the whole product.
 *  - Broadcast and reduce: M over the least cut (Edmonds' arborescences), and all-gather and
 *    reduce-scatter: the largest |S| / cut(S) (ForestColl, Zhao et al. 2024). The least cut of
 *    these graphs is their least degree, so the worst S is all but one device.
 *  - All-to-all, grids without twist: routing axis by axis, both ways round where equally far,
 *    loads each link of an axis as the cut through the middle of that axis counts. Full mesh:
 *    directly. */
#include "topo/bounds/known.h"

#include "topo/graph/routes.h"

static bool links_alike(const struct tutti_topo *topo)
{
    for (uint32_t l = 1; l < topo->link_count; l++)
        if (topo->links[l].bytes_per_s != topo->links[0].bytes_per_s)
            return false;
    return topo->link_count > 0;
}

/* The only other node is a switch, and every device is tied to it, once and to nothing else. */
static bool is_star(const struct tutti_topo *topo)
{
    if (topo->node_count != topo->rank_count + 1 || topo->link_count != 2 * topo->rank_count)
        return false;
    for (uint32_t v = 0; v < topo->node_count; v++) {
        uint32_t out = topo->out_first[v + 1] - topo->out_first[v];

        if (topo->nodes[v].kind == TUTTI_NODE_DEVICE ? out != 1 : topo->nodes[v].reduces)
            return false;
    }
    for (uint32_t l = 0; l < topo->link_count; l++)
        if (topo->nodes[topo->links[l].from].kind == topo->nodes[topo->links[l].to].kind)
            return false;
    return true;
}

/* Freeze has refused links from a node to itself and merged those of one kind between a pair; a
 * second kind would show in the count of somebody's links. */
static bool is_full(const struct tutti_topo *topo)
{
    if (topo->node_count != topo->rank_count)
        return false;
    for (uint32_t v = 0; v < topo->node_count; v++) {
        if (topo->out_first[v + 1] - topo->out_first[v] != topo->node_count - 1)
            return false;
        for (uint32_t k = topo->out_first[v] + 1; k < topo->out_first[v + 1]; k++)
            if (topo->links[topo->out_links[k]].kind != topo->links[topo->out_links[k - 1]].kind)
                return false;
    }
    return true;
}

/* Freeze has made sure that the links of a grid are there; here that there are no others. */
static bool is_grid(const struct tutti_topo *topo, bool *ret_twisted)
{
    struct tutti_routes routes = tutti_topo_routes(topo);
    uint64_t links = 0;

    if (routes.kind != TUTTI_ROUTES_GRID || topo->node_count != topo->rank_count)
        return false;
    for (uint32_t d = 0; d < topo->shape.dim_count; d++) {
        uint64_t n = topo->shape.dim[d];
        uint64_t cables = topo->shape.wrap[d] && n > 2 ? n : n - 1;

        links += 2 * cables * (topo->rank_count / n);
    }
    *ret_twisted = false;
    for (uint32_t i = 0; i < TUTTI_ROUTES_ARGS_MAX; i++)
        *ret_twisted = *ret_twisted || routes.args[i] != 0;
    return links == topo->link_count;
}

bool tutti_bound_is_reached(const struct tutti_topo *topo, enum tutti_collective collective)
{
    bool twisted = false;
    bool direct;

    if (!links_alike(topo))
        return false;
    if (is_star(topo))
        return true;
    switch (collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        direct = is_full(topo) || is_grid(topo, &twisted);
        return direct;
    case TUTTI_ALLTOALL:
        direct = is_full(topo) || is_grid(topo, &twisted);
        return direct && !twisted;
    case TUTTI_SENDRECV:
    case TUTTI_BARRIER:
    case TUTTI_CUSTOM:
    case TUTTI_COLLECTIVE_COUNT:
        break;
    }
    return false;
}
