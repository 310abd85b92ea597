/* Clusters: one host copied, its NICs joined by rails of leaf switches and by spines. */
#include "topo/presets/cluster.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/graph/builder.h"
#include "topo/topo.h"

enum { NAME_BYTES = 64, SPINES_DEFAULT_MAX = 64 };

/* ---- the hosts ----------------------------------------------------------------------------- */

/* Would "gpu3" made "gpu2.3" be read as two things, or meet the names of the network? */
static bool is_ambiguous(const struct tutti_topo *host)
{
    for (uint32_t v = 0; v < host->node_count; v++) {
        const char *name = host->nodes[v].name;

        if (strchr(name, '.') != NULL || strncmp(name, "leaf", 4) == 0 ||
            strncmp(name, "spine", 5) == 0)
            return true;
    }
    return false;
}

/* "gpu3" of host 2 is "gpu2.3"; where that is ambiguous, "host2/NAME". */
static void copy_name(const char *name, uint32_t host, bool dotted, char *buf)
{
    size_t stem = strlen(name);

    while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
        stem--;
    if (dotted || stem == 0)
        (void)snprintf(buf, NAME_BYTES, "host%u/%s", host, name);
    else
        (void)snprintf(buf, NAME_BYTES, "%.*s%u%s%s", (int)stem, name, host,
                       name[stem] == '\0' ? "" : ".", name + stem);
}

static int add_hosts(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                     uint32_t host_count, struct tutti_err *err)
{
    bool dotted = is_ambiguous(host);
    int status = 0;

    for (uint32_t h = 0; h < host_count; h++) {
        for (uint32_t v = 0; v < host->node_count && status == 0; v++) {
            struct tutti_node node = host->nodes[v];
            char name[NAME_BYTES];

            copy_name(node.name, h, dotted, name);
            if (host_count > 1)
                node.name = name;
            node.host = h;
            if (node.kind == TUTTI_NODE_DEVICE)
                node.rank += h * host->rank_count;
            status = tutti_topo_add_node(builder, &node, NULL, err);
        }
    }
    for (uint32_t h = 0; h < host_count; h++) {
        for (uint32_t l = 0; l < host->link_count && status == 0; l++) {
            struct tutti_link link = host->links[l];

            link.from += h * host->node_count;
            link.to += h * host->node_count;
            status = tutti_topo_add_link(builder, &link, err);
        }
    }
    return status;
}

/* ---- the network --------------------------------------------------------------------------- */

/* The nodes of a host that have a cable to a leaf: NICs, or else CPUs, or else the first device. */
static uint32_t find_uplinks(const struct tutti_topo *host, uint32_t *nodes)
{
    static const uint8_t kinds[] = {TUTTI_NODE_NIC, TUTTI_NODE_CPU};
    uint32_t count = 0;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]) && count == 0; k++)
        for (uint32_t v = 0; v < host->node_count; v++)
            if (host->nodes[v].kind == kinds[k])
                nodes[count++] = v;
    if (count == 0)
        nodes[count++] = host->rank_node[0];
    return count;
}

struct network {
    const struct tutti_cluster *cluster;
    uint32_t *nics; /* in host 0 */
    uint32_t nic_count;
    uint32_t group_hosts;
    uint32_t group_count;
    uint32_t spine_count;
    uint32_t leaf_first; /* node index */
};

static int add_switches(struct tutti_topo_builder *builder, struct network *net,
                        struct tutti_err *err)
{
    char name[NAME_BYTES];
    struct tutti_node node = {.name = name, .kind = TUTTI_NODE_SWITCH, .host = UINT32_MAX};
    int status = 0;

    for (uint32_t g = 0; g < net->group_count; g++) {
        for (uint32_t i = 0; i < net->nic_count && status == 0; i++) {
            uint32_t index = 0;

            (void)snprintf(name, sizeof(name), "leaf%u.%u", i, g);
            status = tutti_topo_add_node(builder, &node, &index, err);
            if (g == 0 && i == 0)
                net->leaf_first = index;
        }
    }
    for (uint32_t s = 0; s < net->spine_count && status == 0; s++) {
        (void)snprintf(name, sizeof(name), "spine%u", s);
        status = tutti_topo_add_node(builder, &node, NULL, err);
    }
    return status;
}

uint64_t tutti_uplink_rate(const struct tutti_topo *host, uint32_t v)
{
    uint64_t port = 0;
    uint64_t widest = 0;

    for (uint32_t l = 0; l < host->link_count; l++) {
        const struct tutti_link *link = &host->links[l];

        if (link->from != v && link->to != v)
            continue;
        widest = link->bytes_per_s > widest ? link->bytes_per_s : widest;
        if (link->kind == TUTTI_LINK_NET && link->bytes_per_s > port)
            port = link->bytes_per_s;
    }
    return port > 0 ? port : widest;
}

static uint64_t nic_rate(const struct tutti_topo *host, const struct network *net, uint32_t rail)
{
    return net->cluster->nic_bytes_per_s > 0 ? net->cluster->nic_bytes_per_s
                                             : tutti_uplink_rate(host, net->nics[rail]);
}

/* What the hosts of a group can send on one rail, divided over the spines and by `over`. */
static struct tutti_link uplink_of(const struct network *net, uint64_t nic_bytes_per_s)
{
    const struct tutti_cluster *cluster = net->cluster;
    tutti_u128 rate = (tutti_u128)nic_bytes_per_s * net->group_hosts;
    uint32_t over = cluster->over == 0 ? 1 : cluster->over;
    struct tutti_link link = {.latency_ps = cluster->hop_latency_ps, .kind = cluster->kind};

    rate /= (tutti_u128)over * (net->spine_count == 0 ? 1 : net->spine_count);
    link.bytes_per_s = rate > INT64_MAX ? INT64_MAX : rate == 0 ? 1 : (uint64_t)rate;
    link.cable_count = (uint32_t)((rate + nic_bytes_per_s / 2) / nic_bytes_per_s);
    return link;
}

static int add_cables(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                      const struct network *net, struct tutti_err *err)
{
    const struct tutti_cluster *cluster = net->cluster;
    struct tutti_link nic = {
        .latency_ps = cluster->nic_latency_ps, .kind = cluster->kind, .cable_count = 1};
    uint32_t leaf_count = net->group_count * net->nic_count;
    int status = 0;

    for (uint32_t h = 0; h < cluster->host_count; h++) {
        for (uint32_t i = 0; i < net->nic_count && status == 0; i++) {
            nic.from = h * host->node_count + net->nics[i];
            nic.to = net->leaf_first + h / net->group_hosts * net->nic_count + i;
            nic.bytes_per_s = nic_rate(host, net, i);
            status = tutti_topo_add_cable(builder, &nic, err);
        }
    }
    for (uint32_t leaf = 0; leaf < leaf_count; leaf++) {
        struct tutti_link up = uplink_of(net, nic_rate(host, net, leaf % net->nic_count));

        for (uint32_t s = 0; s < net->spine_count && status == 0; s++) {
            up.from = net->leaf_first + leaf;
            up.to = net->leaf_first + leaf_count + s;
            status = tutti_topo_add_cable(builder, &up, err);
        }
    }
    return status;
}

/* Two ways: NICs to leaves, leaves to spines, and what is in the hosts. */
static int expect(const struct tutti_topo_builder *builder, const struct tutti_topo *host,
                  const struct network *net, struct tutti_err *err)
{
    uint64_t hosts = net->cluster->host_count;
    uint64_t leaves = (uint64_t)net->group_count * net->nic_count;

    return tutti_topo_expect(
        builder, hosts * host->node_count + leaves + net->spine_count,
        hosts * host->link_count + 2 * hosts * net->nic_count + 2 * leaves * net->spine_count, err);
}

static int plan_network(struct network *net, const struct tutti_topo *host, struct tutti_err *err)
{
    const struct tutti_cluster *cluster = net->cluster;

    net->nics = malloc(host->node_count * sizeof(*net->nics));
    if (net->nics == NULL)
        return tutti_nomem(err);
    net->nic_count = find_uplinks(host, net->nics);
    net->group_hosts = cluster->group_hosts;
    if (net->group_hosts == 0 || net->group_hosts > cluster->host_count)
        net->group_hosts = cluster->host_count;
    net->group_count = (cluster->host_count - 1) / net->group_hosts + 1;
    if (net->group_count > 1 || net->nic_count > 1) {
        net->spine_count = cluster->spine_count;
        if (net->spine_count == 0)
            net->spine_count =
                net->group_hosts < SPINES_DEFAULT_MAX ? net->group_hosts : SPINES_DEFAULT_MAX;
    }
    return 0;
}

/* The hosts and what joins them. */
static int add_hosts_and_network(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                                 const struct tutti_cluster *cluster, struct tutti_err *err)
{
    struct network net = {.cluster = cluster};
    struct tutti_routes routes = {.kind = TUTTI_ROUTES_CLUSTER};
    int status = plan_network(&net, host, err);

    if (status == 0)
        status = expect(builder, host, &net, err);
    if (status == 0)
        status = add_hosts(builder, host, cluster->host_count, err);
    if (status == 0)
        status = add_switches(builder, &net, err);
    if (status == 0)
        status = add_cables(builder, host, &net, err);
    free(net.nics);
    routes.args[0] = cluster->host_count;
    routes.args[1] = net.nic_count;
    routes.args[2] = net.group_hosts;
    routes.args[3] = net.spine_count;
    tutti_topo_set_routes(builder, &routes);
    return status;
}

/* ---- the shape ----------------------------------------------------------------------------- */

enum { ORDER_ENTRIES_MAX = 1 << 22 }; /* ring orders of larger clusters are left to be 0, 1, ... */

/* Ring orders: those of the host, one host after the other. */
static int set_orders(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                      uint32_t host_count, struct tutti_shape *shape, struct tutti_err *err)
{
    size_t devices = host->rank_count;
    size_t count = (size_t)host->shape.order_count * shape->rank_count;
    uint32_t *orders;
    int status;

    if (count == 0 || count > ORDER_ENTRIES_MAX)
        return tutti_topo_set_shape(builder, shape, err);
    orders = malloc(count * sizeof(*orders));
    if (orders == NULL)
        return tutti_nomem(err);
    for (size_t o = 0; o < host->shape.order_count; o++)
        for (size_t h = 0; h < host_count; h++)
            for (size_t d = 0; d < devices; d++)
                orders[(o * host_count + h) * devices + d] =
                    (uint32_t)(h * devices + host->shape.orders[o * devices + d]);
    shape->order_count = host->shape.order_count;
    shape->orders = orders;
    status = tutti_topo_set_shape(builder, shape, err);
    free(orders);
    return status;
}

int tutti_cluster_build(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                        const struct tutti_cluster *cluster, struct tutti_err *err)
{
    struct tutti_shape shape = {.rank_count = cluster->host_count * host->rank_count};
    struct tutti_routes routes = tutti_topo_routes(host);
    int status;

    assert(cluster->host_count >= 1);
    if (cluster->host_count == 1) {
        status = add_hosts(builder, host, 1, err);
        tutti_topo_set_routes(builder, &routes);
        return status < 0 ? status : tutti_topo_set_shape(builder, &host->shape, err);
    }
    status = add_hosts_and_network(builder, host, cluster, err);
    return status < 0 ? status : set_orders(builder, host, cluster->host_count, &shape, err);
}

/* ---- the plain host ------------------------------------------------------------------------ */

static int add_plain_nodes(struct tutti_topo_builder *builder, const struct tutti_host *host,
                           struct tutti_err *err)
{
    char name[NAME_BYTES];
    struct tutti_node node = {.name = name, .rank = TUTTI_RANK_NONE};
    int status = 0;

    node.flops_per_s = host->flops_per_s;
    node.mem_bytes_per_s = host->mem_bytes_per_s;
    for (uint32_t d = 0; d < host->device_count && status == 0; d++) {
        (void)snprintf(name, sizeof(name), "gpu%u", d);
        status = tutti_topo_add_node(builder, &node, NULL, err);
    }
    node = (struct tutti_node){
        .name = host->switch_name, .kind = TUTTI_NODE_SWITCH, .reduces = host->reduces};
    if (status == 0)
        status = tutti_topo_add_node(builder, &node, NULL, err);
    node = (struct tutti_node){.name = name, .kind = TUTTI_NODE_NIC};
    for (uint32_t i = 0; i < host->nic_count && status == 0; i++) {
        (void)snprintf(name, sizeof(name), "nic%u", i);
        status = tutti_topo_add_node(builder, &node, NULL, err);
    }
    return status;
}

static int add_plain_links(struct tutti_topo_builder *builder, const struct tutti_host *host,
                           struct tutti_err *err)
{
    struct tutti_link up = {.bytes_per_s = host->link_bytes_per_s,
                            .latency_ps = host->link_latency_ps / 2,
                            .kind = host->link_kind,
                            .cable_count = host->link_cables};
    struct tutti_link nic = {.bytes_per_s = host->nic_bytes_per_s,
                             .latency_ps = host->nic_latency_ps,
                             .kind = host->nic_kind,
                             .cable_count = 1};
    int status = 0;

    for (uint32_t d = 0; d < host->device_count && status == 0; d++) {
        struct tutti_link down = up;

        up.from = down.to = d;
        up.to = down.from = host->device_count;
        down.latency_ps = host->link_latency_ps - up.latency_ps;
        status = tutti_topo_add_link(builder, &up, err);
        if (status == 0)
            status = tutti_topo_add_link(builder, &down, err);
    }
    /* With fewer NICs than devices, neighbours share one. */
    for (uint32_t d = 0; d < host->device_count && host->nic_count > 0 && status == 0; d++) {
        nic.from = d;
        nic.to =
            host->device_count + 1 + (uint32_t)((uint64_t)d * host->nic_count / host->device_count);
        status = tutti_topo_add_cable(builder, &nic, err);
    }
    return status;
}

int tutti_host_build(const struct tutti_host *host, struct tutti_topo **ret, struct tutti_err *err)
{
    struct tutti_topo_builder *builder = NULL;
    int status = tutti_topo_builder_new("host", NULL, &builder, err);

    assert(host->nic_count <= host->device_count);
    if (status < 0)
        return status;
    status = add_plain_nodes(builder, host, err);
    if (status == 0)
        status = add_plain_links(builder, host, err);
    if (status < 0) {
        tutti_topo_builder_free(builder);
        return status;
    }
    return tutti_topo_freeze(builder, ret, err);
}

int tutti_cluster_of(struct tutti_topo_builder *builder, const struct tutti_host *host,
                     const struct tutti_cluster *cluster, struct tutti_err *err)
{
    struct tutti_topo *frozen = NULL;
    int status = tutti_host_build(host, &frozen, err);

    if (status < 0)
        return status;
    status = tutti_cluster_build(builder, frozen, cluster, err);
    tutti_topo_free(frozen);
    return status;
}
