/* Routes in clusters of equal hosts: inside as one host routes, outside NIC, leaf, spine. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/graph.h"
#include "topo/routes/router.h"
#include "topo/routes/search.h"

/* Numbering, in this order. Nodes: the hosts one after the other, each like host 0; leaf switches,
 * group by group, a rail each; spines. Links: those inside the hosts, likewise; per host and rail
 * the cable NIC to leaf; per leaf and spine the cable leaf to spine (2 links a cable, up first). */
static void add_inside(const struct tutti_router *router, uint32_t host, uint32_t p,
                       struct tutti_path *path)
{
    for (uint32_t k = router->path_first[p]; k < router->path_first[p + 1]; k++)
        tutti_path_add(path, router->paths[k] + host * router->host_links);
}

static void cluster_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                          struct tutti_path *path)
{
    const struct tutti_router *router = topo->router;
    const uint32_t *plan = router->plan.args;
    uint32_t devices = router->host_devices;
    uint32_t a = from / devices;
    uint32_t b = to / devices;
    uint32_t from_rail = router->device_nic[from % devices];
    uint32_t to_rail = router->device_nic[to % devices];
    uint32_t from_leaf = a / plan[TUTTI_CLUSTER_GROUP_HOSTS] * plan[TUTTI_CLUSTER_NICS] + from_rail;
    uint32_t to_leaf = b / plan[TUTTI_CLUSTER_GROUP_HOSTS] * plan[TUTTI_CLUSTER_NICS] + to_rail;
    uint32_t square = devices * devices;

    if (a == b) {
        add_inside(router, a, from % devices * devices + to % devices, path);
        return;
    }
    add_inside(router, a, square + from % devices, path);
    tutti_path_add(path, router->net_first + 2 * (a * plan[TUTTI_CLUSTER_NICS] + from_rail));
    if (from_leaf != to_leaf) {
        /* Hosts of a group are spread over the spines by their position: two flows to different
         * hosts of a group never share a link between leaf and spine if there are enough spines. */
        uint32_t spine = b % plan[TUTTI_CLUSTER_GROUP_HOSTS] % plan[TUTTI_CLUSTER_SPINES];
        uint32_t uplinks =
            router->net_first + 2 * plan[TUTTI_CLUSTER_HOSTS] * plan[TUTTI_CLUSTER_NICS];

        if (router->drawn)
            spine = tutti_router_draw(router, a * plan[TUTTI_CLUSTER_NICS] + from_rail,
                                      b * plan[TUTTI_CLUSTER_NICS] + to_rail, 0,
                                      plan[TUTTI_CLUSTER_SPINES]);
        tutti_path_add(path, uplinks + 2 * (from_leaf * plan[TUTTI_CLUSTER_SPINES] + spine));
        tutti_path_add(path, uplinks + 2 * (to_leaf * plan[TUTTI_CLUSTER_SPINES] + spine) + 1);
    }
    tutti_path_add(path, router->net_first + 2 * (b * plan[TUTTI_CLUSTER_NICS] + to_rail) + 1);
    add_inside(router, b, square + devices + to % devices, path);
}

static int no_cluster(const char *why, uint64_t what, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL, "not a cluster of equal hosts: %s (at %" PRIu64 ")", why,
                      what);
}

static bool is_cable(const struct tutti_topo *topo, uint64_t link, uint64_t low, uint64_t high)
{
    struct tutti_link up = tutti_topo_link(topo, (uint32_t)link);
    struct tutti_link down = tutti_topo_link(topo, (uint32_t)link + 1);

    return up.from == low && up.to == high && down.from == high && down.to == low;
}

/* The NIC of host 0 that is on a rail: where the rail's cable begins. */
static uint32_t nic_node(const struct tutti_topo *topo, const struct tutti_router *router,
                         uint32_t rail)
{
    return tutti_topo_link(topo, router->net_first + 2 * rail).from;
}

static int check_network(const struct tutti_topo *topo, const struct tutti_router *router,
                         struct tutti_err *err)
{
    const uint32_t *plan = router->plan.args;
    uint64_t leaf_first = (uint64_t)plan[TUTTI_CLUSTER_HOSTS] * router->host_nodes;
    uint64_t leaf_count = (uint64_t)router->group_count * plan[TUTTI_CLUSTER_NICS];
    uint64_t link = router->net_first;

    for (uint64_t h = 0; h < plan[TUTTI_CLUSTER_HOSTS]; h++) {
        for (uint32_t i = 0; i < plan[TUTTI_CLUSTER_NICS]; i++, link += 2) {
            uint64_t nic = h * router->host_nodes + nic_node(topo, router, i);
            uint64_t leaf =
                leaf_first + h / plan[TUTTI_CLUSTER_GROUP_HOSTS] * plan[TUTTI_CLUSTER_NICS] + i;

            if (nic_node(topo, router, i) >= router->host_nodes || !is_cable(topo, link, nic, leaf))
                return no_cluster("a host's cable to its leaf is not there", link, err);
        }
    }
    for (uint64_t leaf = 0; leaf < leaf_count; leaf++)
        for (uint32_t s = 0; s < plan[TUTTI_CLUSTER_SPINES]; s++, link += 2)
            if (!is_cable(topo, link, leaf_first + leaf, leaf_first + leaf_count + s))
                return no_cluster("a cable from leaf to spine is not there", link, err);
    assert(link == topo->link_count);
    return 0;
}

static int check_hosts(const struct tutti_topo *topo, const struct tutti_router *router,
                       struct tutti_err *err)
{
    for (uint32_t l = 0; l < router->net_first; l++) {
        struct tutti_link first = tutti_topo_link(topo, l % router->host_links);
        struct tutti_link link = tutti_topo_link(topo, l);
        uint32_t shift = l / router->host_links * router->host_nodes;

        if (first.from >= router->host_nodes || first.to >= router->host_nodes ||
            link.from != first.from + shift || link.to != first.to + shift)
            return no_cluster("hosts have different links", l, err);
    }
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t first = tutti_topo_rank_node(topo, r % router->host_devices);

        if (first >= router->host_nodes ||
            tutti_topo_rank_node(topo, r) != first + r / router->host_devices * router->host_nodes)
            return no_cluster("hosts have different ranks", r, err);
    }
    return 0;
}

/* Sizes from the plan and the counts of the graph. */
static int measure(const struct tutti_topo *topo, struct tutti_router *router,
                   struct tutti_err *err)
{
    const uint32_t *plan = router->plan.args;
    uint64_t hosts = plan[TUTTI_CLUSTER_HOSTS];
    uint64_t switches;
    uint64_t cables;

    for (int i = TUTTI_CLUSTER_HOSTS; i <= TUTTI_CLUSTER_SPINES; i++)
        if (plan[i] > topo->link_count || (plan[i] == 0 && i != TUTTI_CLUSTER_SPINES))
            return no_cluster("a count of the plan is out of range", plan[i], err);
    router->group_count = (plan[TUTTI_CLUSTER_HOSTS] - 1) / plan[TUTTI_CLUSTER_GROUP_HOSTS] + 1;
    if ((uint64_t)router->group_count * plan[TUTTI_CLUSTER_NICS] > topo->node_count ||
        hosts * plan[TUTTI_CLUSTER_NICS] > topo->link_count)
        return no_cluster("too many leaves", router->group_count, err);
    switches =
        (uint64_t)router->group_count * plan[TUTTI_CLUSTER_NICS] + plan[TUTTI_CLUSTER_SPINES];
    cables = hosts * plan[TUTTI_CLUSTER_NICS] +
             (uint64_t)router->group_count * plan[TUTTI_CLUSTER_NICS] * plan[TUTTI_CLUSTER_SPINES];
    if (plan[TUTTI_CLUSTER_SPINES] == 0 &&
        (uint64_t)router->group_count * plan[TUTTI_CLUSTER_NICS] > 1)
        return no_cluster("several leaves and no spine", switches, err);
    if (topo->node_count <= switches || (topo->node_count - switches) % hosts != 0 ||
        topo->link_count < 2 * cables || (topo->link_count - 2 * cables) % hosts != 0 ||
        topo->rank_count % hosts != 0)
        return no_cluster("nodes, links or ranks do not divide by the hosts", hosts, err);
    router->host_nodes = (uint32_t)((topo->node_count - switches) / hosts);
    router->host_links = (uint32_t)((topo->link_count - 2 * cables) / hosts);
    router->host_devices = (uint32_t)(topo->rank_count / hosts);
    router->net_first = (uint32_t)(topo->link_count - 2 * cables);
    return 0;
}

/* ---- the inside of a host -------------------------------------------------------------------- */

struct inside {
    const struct tutti_topo *topo;
    struct tutti_router *router;
    struct tutti_route_search search;
    uint32_t *beside; /* [NIC]: see device_beside() */
    uint32_t relayed_count;
    uint32_t *paths; /* growing; NULL while lengths are counted */
};

/* Hops, then width, of the way from node `from` to the last target; direct ways first. */
static uint32_t way_length(const struct inside *in, uint32_t from, uint32_t to, uint64_t *width)
{
    uint32_t link = tutti_route_search_first(&in->search, from);
    uint32_t hops = 0;

    *width = UINT64_MAX;
    for (uint32_t v = from; v != to; hops++) {
        struct tutti_link taken;

        if (v != from)
            link = in->search.next[v];
        if (link == UINT32_MAX)
            return UINT32_MAX;
        taken = tutti_topo_link(in->topo, link);
        *width = taken.bytes_per_s < *width ? taken.bytes_per_s : *width;
        v = taken.to;
    }
    return hops;
}

/* Searches towards `to`, with devices passing on only if `from` cannot do without. */
static bool search_pair(struct inside *in, uint32_t from, uint32_t to)
{
    if (from == to)
        return true;
    tutti_route_search_to(&in->search, to, false);
    if (tutti_route_search_first(&in->search, from) == UINT32_MAX)
        tutti_route_search_to(&in->search, to, true);
    return tutti_route_search_first(&in->search, from) != UINT32_MAX;
}

/* Adds a way to those of number p, which end with it so far (or only counts it). */
static int add_part(struct inside *in, uint32_t p, uint32_t from, uint32_t to,
                    struct tutti_err *err)
{
    uint32_t *first = in->router->path_first;
    uint32_t used = first[p + 1];
    char from_name[TUTTI_NODE_NAME_BYTES];
    char to_name[TUTTI_NODE_NAME_BYTES];

    if (!search_pair(in, from, to))
        return tutti_fail(err, TUTTI_EINVAL, "no route from '%s' to '%s' inside their host",
                          tutti_topo_node_name(in->topo, from, from_name),
                          tutti_topo_node_name(in->topo, to, to_name));
    for (uint32_t v = from; v != to;) {
        uint32_t link = v == from ? tutti_route_search_first(&in->search, v) : in->search.next[v];

        if (in->paths != NULL)
            in->paths[used] = link;
        used++;
        v = tutti_topo_link(in->topo, link).to;
    }
    first[p + 1] = used;
    return 0;
}

static int add_way(struct inside *in, uint32_t p, uint32_t from, uint32_t to, struct tutti_err *err)
{
    in->router->path_first[p + 1] = in->router->path_first[p];
    return add_part(in, p, from, to, err);
}

static uint32_t device_node(const struct inside *in, uint32_t device)
{
    return tutti_topo_rank_node(in->topo, device);
}

/* What the way from node `from` to the last target goes over. */
struct kinds {
    bool reaches, cpu, other_than_nvlink;
};

static struct kinds way_kinds(struct inside *in, uint32_t from, uint32_t to)
{
    struct kinds kinds = {.reaches = search_pair(in, from, to)};

    for (uint32_t v = from; v != to && kinds.reaches;) {
        struct tutti_link link = tutti_topo_link(
            in->topo, v == from ? tutti_route_search_first(&in->search, v) : in->search.next[v]);

        v = link.to;
        kinds.cpu |= tutti_topo_node(in->topo, v).kind == TUTTI_NODE_CPU;
        kinds.other_than_nvlink |= link.kind != TUTTI_LINK_NVLINK && link.kind != TUTTI_LINK_XGMI;
    }
    return kinds;
}

/* The first device beside a NIC, no CPU between; UINT32_MAX: none. */
static uint32_t device_beside(struct inside *in, uint32_t nic)
{
    for (uint32_t d = 0; d < in->router->host_devices; d++) {
        struct kinds kinds = way_kinds(in, device_node(in, d), nic);

        if (kinds.reaches && !kinds.cpu)
            return d;
    }
    return UINT32_MAX;
}

/* The device over which NCCL lets another one out by a NIC that this reaches through a CPU only
 * (PXN, 2.12 and later; 2.28 paths.cc): the one beside the NIC, if NVLink leads there. The device
 * itself: none, or no need. What arrives goes to the device at once. */
static uint32_t relay_of(struct inside *in, uint32_t d, uint32_t rail)
{
    uint32_t by = in->beside[rail];
    struct kinds kinds;

    if (by == UINT32_MAX || by == d ||
        !way_kinds(in, device_node(in, d), nic_node(in->topo, in->router, rail)).cpu)
        return d;
    kinds = way_kinds(in, device_node(in, d), device_node(in, by));
    return kinds.reaches && !kinds.other_than_nvlink ? by : d;
}

static int add_way_out(struct inside *in, uint32_t p, uint32_t d, struct tutti_err *err)
{
    uint32_t nic = nic_node(in->topo, in->router, in->router->device_nic[d]);
    uint32_t by = relay_of(in, d, in->router->device_nic[d]);
    int status = add_way(in, p, device_node(in, d), device_node(in, by), err);

    return status < 0 ? status : add_part(in, p, device_node(in, by), nic, err);
}

static int add_ways(struct inside *in, struct tutti_err *err)
{
    const struct tutti_router *router = in->router;
    uint32_t devices = router->host_devices;
    int status = 0;

    for (uint32_t p = 0; p < devices * devices && status == 0; p++)
        status = add_way(in, p, device_node(in, p / devices), device_node(in, p % devices), err);
    for (uint32_t d = 0; d < devices && status == 0; d++)
        status = add_way_out(in, devices * devices + d, d, err);
    for (uint32_t d = 0; d < devices && status == 0; d++)
        status =
            add_way(in, devices * devices + devices + d,
                    nic_node(in->topo, router, router->device_nic[d]), device_node(in, d), err);
    return status;
}

/* The bits of a number below a power of two in reverse. */
static uint32_t mirrored(uint32_t value, uint32_t power)
{
    uint32_t reversed = 0;

    for (uint32_t bit = 1, to = power / 2; bit < power; bit *= 2, to /= 2)
        reversed |= (value & bit) != 0 ? to : 0;
    return reversed;
}

/* Those beside it or over a neighbour before those behind a CPU; then fewest hops, then widest, but
 * all over neighbours are alike. Of NICs alike the one that NCCL takes (2.28 topo.cc,
 * ncclTopoGetLocalNet()): devices go round, by their number on the host, its bits reversed where
 * NICs are a power of two. So it may not share them out evenly, where other devices are nearer to
 * one of them. Over neighbours they go round by themselves: a ring of NCCL leaves by the NIC that
 * it came in by, from the device before the one beside that. */
static int choose_nic(struct inside *in, uint32_t d, uint32_t *near, struct tutti_err *err)
{
    enum { BESIDE, RELAYED, BEHIND };
    uint32_t from = device_node(in, d);
    char buf[TUTTI_NODE_NAME_BYTES];
    int best_place = BEHIND;
    uint32_t best_hops = UINT32_MAX;
    uint64_t best_width = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < in->router->plan.args[TUTTI_CLUSTER_NICS]; i++) {
        uint32_t nic = nic_node(in->topo, in->router, i);
        int place = relay_of(in, d, i) != d ? RELAYED : BEHIND;
        uint64_t width = UINT64_MAX;
        uint32_t hops = 0;

        if (place != RELAYED && way_kinds(in, from, nic).reaches && !way_kinds(in, from, nic).cpu)
            place = BESIDE;
        if (!search_pair(in, from, nic))
            continue;
        if (from != nic && place != RELAYED)
            hops = way_length(in, from, nic, &width);
        if (place > best_place || (place == best_place && hops > best_hops) ||
            (place == best_place && hops == best_hops && width < best_width))
            continue;
        if (place < best_place || hops < best_hops || width > best_width)
            count = 0;
        best_place = place;
        best_hops = hops;
        best_width = width;
        near[count++] = i;
    }
    if (count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "device '%s' reaches no NIC of its host",
                          tutti_topo_node_name(in->topo, from, buf));
    in->router->device_nic[d] = near[best_place == RELAYED        ? in->relayed_count++ % count
                                     : (count & (count - 1)) == 0 ? mirrored(d, count)
                                                                  : d % count];
    return 0;
}

enum { HOST_DEVICES_MAX = 256 }; /* the table of ways has a square of entries */

static int fill_in(struct inside *in, struct tutti_err *err)
{
    const struct tutti_topo *topo = in->topo;
    struct tutti_router *router = in->router;
    size_t devices = router->host_devices;
    size_t ways = devices * devices + 2 * devices;
    uint32_t *near = calloc(router->plan.args[TUTTI_CLUSTER_NICS], sizeof(*near));
    int status = near == NULL ? tutti_nomem(err) : 0;

    router->device_nic = tutti_arena_take(topo->arena, devices, sizeof(uint32_t));
    router->path_first = tutti_arena_take(topo->arena, ways + 1, sizeof(uint32_t));
    in->beside = calloc(router->plan.args[TUTTI_CLUSTER_NICS], sizeof(*in->beside));
    if (router->device_nic == NULL || router->path_first == NULL || in->beside == NULL)
        status = tutti_nomem(err);
    for (uint32_t i = 0; i < router->plan.args[TUTTI_CLUSTER_NICS] && status == 0; i++)
        in->beside[i] = device_beside(in, nic_node(topo, router, i));
    for (uint32_t d = 0; d < devices && status == 0; d++)
        status = choose_nic(in, d, near, err);
    free(near);
    if (status == 0)
        status = add_ways(in, err);
    if (status < 0)
        return status;
    in->paths = tutti_arena_take(topo->arena, router->path_first[ways], sizeof(uint32_t));
    if (in->paths == NULL)
        return tutti_nomem(err);
    router->paths = in->paths;
    return add_ways(in, err);
}

int tutti_router_cluster(const struct tutti_topo *topo, struct tutti_router *router,
                         struct tutti_err *err)
{
    struct inside in = {.topo = topo, .router = router};
    int status = measure(topo, router, err);

    if (status == 0 && router->host_devices > HOST_DEVICES_MAX)
        status = tutti_fail(err, TUTTI_EINVAL, "%" PRIu32 " devices in a host (at most %d)",
                            router->host_devices, HOST_DEVICES_MAX);
    /* A rule says nothing else. */
    if (status == 0 && topo->graph->rule == NULL)
        status = check_hosts(topo, router, err);
    if (status == 0 && topo->graph->rule == NULL)
        status = check_network(topo, router, err);
    if (status == 0)
        status = tutti_route_search_open(&in.search, topo, 0, router->host_nodes, err);
    if (status < 0)
        return status;
    in.search.nics_forward = false;
    status = fill_in(&in, err);
    free(in.beside);
    tutti_route_search_close(&in.search);
    router->route = cluster_route;
    return status;
}
