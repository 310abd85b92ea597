/* Finds out what the hosts of a machine are to each other and to their devices. */
#include "sim/train/hosts.h"

#include <stdlib.h>

#include "runtime/status.h"

enum { WAY_MAX = 16 }; /* links from a device to its host's memory */

static bool is_of_first(const struct tutti_topo *topo, uint32_t node)
{
    return topo->host_count > 0 ? tutti_topo_node(topo, node).host == 0
                                : node == tutti_topo_rank_node(topo, 0);
}

/* Not what joins devices alone. */
static bool is_network(const struct tutti_link *link)
{
    return link->kind == TUTTI_LINK_NET || link->kind == TUTTI_LINK_DCN ||
           link->kind == TUTTI_LINK_GENERIC;
}

/* The fastest cable that leaves the first host. */
static uint64_t card_of(const struct tutti_topo *topo)
{
    uint64_t most = 0;

    for (uint32_t node = 0; node < topo->node_count; node++) {
        if (!is_of_first(topo, node))
            continue;
        for (uint32_t k = 0; k < tutti_topo_out_count(topo, node); k++) {
            struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, node, k));
            uint64_t rate = link.bytes_per_s / (link.cable_count > 0 ? link.cable_count : 1);

            if (!is_of_first(topo, link.to) && is_network(&link) && rate > most)
                most = rate;
        }
    }
    return most;
}

/* ---- to the host's memory -------------------------------------------------------------------- */

struct search {
    const struct tutti_topo *topo;
    uint32_t *came_by; /* [node]: the link that was taken to it, + 1; 0: not reached */
    uint32_t *queue;
    uint32_t *users; /* [link]: devices of the first host whose way it is on */
};

static bool is_inner(const struct tutti_link *link)
{
    return link->kind == TUTTI_LINK_PCIE || link->kind == TUTTI_LINK_C2C;
}

/* The first CPU that is reached in the fewest links, or UINT32_MAX. */
static uint32_t nearest_cpu(struct search *s, uint32_t device)
{
    uint32_t first = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->topo->node_count; i++)
        s->came_by[i] = 0;
    s->queue[count++] = device;
    while (first < count) {
        uint32_t node = s->queue[first++];

        if (tutti_topo_node(s->topo, node).kind == TUTTI_NODE_CPU)
            return node;
        for (uint32_t k = 0; k < tutti_topo_out_count(s->topo, node); k++) {
            uint32_t index = tutti_topo_out_link(s->topo, node, k);
            struct tutti_link link = tutti_topo_link(s->topo, index);

            if (!is_inner(&link) || link.to == device || s->came_by[link.to] > 0)
                continue;
            s->came_by[link.to] = index + 1;
            s->queue[count++] = link.to;
        }
    }
    return UINT32_MAX;
}

/* The rate of a device's way: of each link its share, once all ways are known. */
static uint64_t walk(struct search *s, uint32_t device, bool count)
{
    uint64_t least = UINT64_MAX;
    uint32_t node = nearest_cpu(s, device);

    if (node == UINT32_MAX)
        return 0;
    for (uint32_t i = 0; node != device && i < WAY_MAX; i++) {
        uint32_t index = s->came_by[node] - 1;
        struct tutti_link link = tutti_topo_link(s->topo, index);

        s->users[index] += count;
        if (s->users[index] > 0 && link.bytes_per_s / s->users[index] < least)
            least = link.bytes_per_s / s->users[index];
        node = link.from;
    }
    return node == device ? least : 0;
}

static int copy_rate(const struct tutti_topo *topo, uint32_t devices, uint64_t *ret,
                     struct tutti_err *err)
{
    struct search s = {.topo = topo};
    uint64_t least = UINT64_MAX;
    int status = 0;

    s.came_by = calloc(topo->node_count, sizeof(uint32_t));
    s.queue = calloc(topo->node_count, sizeof(uint32_t));
    s.users = calloc((size_t)topo->link_count + 1, sizeof(uint32_t));
    if (s.came_by == NULL || s.queue == NULL || s.users == NULL)
        status = tutti_nomem(err);
    for (uint32_t pass = 0; pass < 2 && status == 0; pass++)
        for (uint32_t rank = 0; rank < devices; rank++) {
            uint64_t rate = walk(&s, tutti_topo_rank_node(topo, rank), pass == 0);

            if (pass == 1 && rate < least)
                least = rate;
        }
    free(s.came_by);
    free(s.queue);
    free(s.users);
    if (status == 0)
        *ret = least;
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static tutti_ps latency_of(const struct tutti_topo *topo, uint32_t devices)
{
    uint32_t links[64];
    uint32_t count;
    tutti_ps sum = 0;

    if (topo->rank_count <= devices)
        return 0;
    count = tutti_topo_route(topo, 0, devices, links, 64);
    for (uint32_t i = 0; i < count && i < 64; i++)
        sum += tutti_topo_link(topo, links[i]).latency_ps;
    return sum;
}

int tutti_server_hosts_of(const struct tutti_topo *topo, struct tutti_server_hosts *ret,
                          struct tutti_err *err)
{
    struct tutti_server_hosts hosts = {.host_count = topo->host_count > 0 ? topo->host_count
                                                                          : topo->rank_count};
    int status;

    if (topo->rank_count % hosts.host_count != 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has %u devices on %u hosts (as many on each)",
                          topo->name, topo->rank_count, hosts.host_count);
    hosts.devices = topo->rank_count / hosts.host_count;
    if (hosts.host_count > 1)
        hosts.card_bytes_per_s = card_of(topo);
    hosts.latency_ps = latency_of(topo, hosts.devices);
    status = copy_rate(topo, hosts.devices, &hosts.copy_bytes_per_s, err);
    if (status == 0)
        *ret = hosts;
    return status;
}
