/* Clusters: one host copied, its NICs joined by rails of leaf switches and by spines. */
#include "topo/presets/cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "topo/graph/builder.h"
#include "topo/graph/rule.h"
#include "topo/topo.h"

enum { NAME_BYTES = 64, SPINES_DEFAULT_MAX = 64 };

/* ---- the host ------------------------------------------------------------------------------ */

/* Would "gpu3" made "gpu2.3" be read as two things, or meet the names of the network? */
static bool is_ambiguous(const struct tutti_topo *host)
{
    for (uint32_t v = 0; v < host->node_count; v++) {
        char buf[TUTTI_NODE_NAME_BYTES];
        const char *name = tutti_topo_node_name(host, v, buf);

        if (strpbrk(name, "./") != NULL || strncmp(name, "leaf", 4) == 0 ||
            strncmp(name, "spine", 5) == 0)
            return true;
    }
    return false;
}

/* Names that were made longer by as much as "host4294967295/" still fit. */
static int check_names(const struct tutti_topo *host, struct tutti_err *err)
{
    enum { LONGEST = TUTTI_NODE_NAME_BYTES - sizeof("host4294967295/") };

    for (uint32_t v = 0; v < host->node_count; v++) {
        char buf[TUTTI_NODE_NAME_BYTES];
        const char *name = tutti_topo_node_name(host, v, buf);

        if (strlen(name) > LONGEST)
            return tutti_fail(err, TUTTI_EINVAL,
                              "node name '%s' is too long for copies (at most %d characters)", name,
                              (int)LONGEST);
    }
    return 0;
}

/* The same machine with lists of its own, in the builder's arena. */
static int list_host(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                     struct tutti_topo *ret, struct tutti_err *err)
{
    struct tutti_arena *arena = builder->arena;
    struct tutti_graph *graph = tutti_arena_take(arena, 1, sizeof(*graph));
    struct tutti_node *nodes = tutti_arena_take(arena, host->node_count, sizeof(*nodes));
    struct tutti_link *links = tutti_arena_take(arena, host->link_count, sizeof(*links));
    uint32_t *rank_node = tutti_arena_take(arena, host->rank_count, sizeof(*rank_node));
    uint32_t *first = tutti_arena_take(arena, (size_t)host->node_count + 1, sizeof(*first));
    uint32_t *out = tutti_arena_take(arena, host->link_count, sizeof(*out));

    if (graph == NULL || nodes == NULL || links == NULL || rank_node == NULL || first == NULL ||
        out == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < host->node_count; v++) {
        char buf[TUTTI_NODE_NAME_BYTES];

        nodes[v] = tutti_topo_node(host, v);
        nodes[v].name = tutti_arena_copy_text(arena, tutti_topo_node_name(host, v, buf));
        if (nodes[v].name == NULL)
            return tutti_nomem(err);
        first[v + 1] = first[v] + tutti_topo_out_count(host, v);
        for (uint32_t k = first[v]; k < first[v + 1]; k++)
            out[k] = tutti_topo_out_link(host, v, k - first[v]);
    }
    for (uint32_t l = 0; l < host->link_count; l++)
        links[l] = tutti_topo_link(host, l);
    for (uint32_t r = 0; r < host->rank_count; r++)
        rank_node[r] = tutti_topo_rank_node(host, r);
    *graph = (struct tutti_graph){.nodes = nodes,
                                  .links = links,
                                  .rank_node = rank_node,
                                  .out_first = first,
                                  .out_links = out};
    *ret = *host;
    ret->arena = NULL;
    ret->graph = graph;
    ret->router = NULL;
    ret->shape.orders = NULL;
    ret->shape.order_count = 0;
    return 0;
}

/* One copy alone: the host itself, all of it in host 0. */
static int add_host(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                    struct tutti_err *err)
{
    int status = 0;

    for (uint32_t v = 0; v < host->node_count && status == 0; v++) {
        struct tutti_node node = tutti_topo_node(host, v);
        char buf[TUTTI_NODE_NAME_BYTES];

        node.name = tutti_topo_node_name(host, v, buf);
        node.host = 0;
        status = tutti_topo_add_node(builder, &node, NULL, err);
    }
    for (uint32_t l = 0; l < host->link_count && status == 0; l++) {
        struct tutti_link link = tutti_topo_link(host, l);

        status = tutti_topo_add_link(builder, &link, err);
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
            if (tutti_topo_node(host, v).kind == kinds[k])
                nodes[count++] = v;
    if (count == 0)
        nodes[count++] = tutti_topo_rank_node(host, 0);
    return count;
}

uint64_t tutti_uplink_rate(const struct tutti_topo *host, uint32_t v)
{
    uint64_t port = 0;
    uint64_t widest = 0;

    for (uint32_t l = 0; l < host->link_count; l++) {
        struct tutti_link link = tutti_topo_link(host, l);

        if (link.from != v && link.to != v)
            continue;
        widest = link.bytes_per_s > widest ? link.bytes_per_s : widest;
        if (link.kind == TUTTI_LINK_NET && link.bytes_per_s > port)
            port = link.bytes_per_s;
    }
    return port > 0 ? port : widest;
}

/* What the hosts of a group can send on one rail, divided over the spines and by `over`. */
static struct tutti_link uplink_of(const struct tutti_cluster_rule *rule,
                                   const struct tutti_cluster *cluster, uint64_t nic_bytes_per_s)
{
    uint32_t over = cluster->over == 0 ? 1 : cluster->over;
    uint64_t shares = (uint64_t)over * (rule->spine_count == 0 ? 1 : rule->spine_count);
    uint64_t rate = tutti_muldiv(nic_bytes_per_s, rule->group_hosts, shares);
    struct tutti_link link = {.latency_ps = cluster->hop_latency_ps, .kind = cluster->kind};

    link.bytes_per_s = rate > INT64_MAX ? INT64_MAX : rate == 0 ? 1 : rate;
    link.cable_count = (uint32_t)(tutti_plus(rate, nic_bytes_per_s / 2) / nic_bytes_per_s);
    link.cable_count += link.cable_count == 0;
    return link;
}

/* Which nodes of the host are NICs, and the links of each rail. */
static int set_rails(struct tutti_topo_builder *builder, struct tutti_cluster_rule *rule,
                     const struct tutti_cluster *cluster, uint32_t *nics, struct tutti_err *err)
{
    const struct tutti_topo *host = &rule->host;
    uint32_t *node_nic = tutti_arena_take(builder->arena, host->node_count, sizeof(*node_nic));
    struct tutti_link *cables = tutti_arena_take(builder->arena, rule->nic_count, sizeof(*cables));
    struct tutti_link *uplinks =
        tutti_arena_take(builder->arena, rule->nic_count, sizeof(*uplinks));

    if (node_nic == NULL || cables == NULL || uplinks == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < host->node_count; v++)
        node_nic[v] = UINT32_MAX;
    for (uint32_t i = 0; i < rule->nic_count; i++) {
        uint64_t rate = cluster->nic_bytes_per_s > 0 ? cluster->nic_bytes_per_s
                                                     : tutti_uplink_rate(host, nics[i]);

        if (rate == 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%s' has no links, so no rate to a network (a machine with links)",
                              host->name);
        node_nic[nics[i]] = i;
        cables[i] = (struct tutti_link){.latency_ps = cluster->nic_latency_ps,
                                        .bytes_per_s = rate,
                                        .kind = cluster->kind,
                                        .cable_count = 1};
        uplinks[i] = uplink_of(rule, cluster, rate);
    }
    rule->nics = nics;
    rule->node_nic = node_nic;
    rule->cables = cables;
    rule->uplinks = uplinks;
    return 0;
}

/* Two ways: NICs to leaves, leaves to spines, and what is in the hosts. */
static int expect(const struct tutti_topo_builder *builder, const struct tutti_cluster_rule *rule,
                  struct tutti_err *err)
{
    uint64_t hosts = rule->host_count;
    uint64_t leaves = (uint64_t)rule->group_count * rule->nic_count;

    return tutti_topo_expect(builder, hosts * rule->host.node_count + leaves + rule->spine_count,
                             hosts * rule->host.link_count + 2 * hosts * rule->nic_count +
                                 2 * leaves * rule->spine_count,
                             err);
}

static void plan_switches(const struct tutti_cluster *cluster, struct tutti_cluster_rule *rule)
{
    rule->group_hosts = cluster->group_hosts;
    if (rule->group_hosts == 0 || rule->group_hosts > rule->host_count)
        rule->group_hosts = rule->host_count;
    rule->group_count = (rule->host_count - 1) / rule->group_hosts + 1;
    if (rule->group_count > 1 || rule->nic_count > 1) {
        rule->spine_count = cluster->spine_count;
        if (rule->spine_count == 0)
            rule->spine_count =
                rule->group_hosts < SPINES_DEFAULT_MAX ? rule->group_hosts : SPINES_DEFAULT_MAX;
    }
}

/* The hosts and what joins them. */
static int set_hosts_and_network(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                                 const struct tutti_cluster *cluster, struct tutti_err *err)
{
    struct tutti_cluster_rule rule = {.host_count = cluster->host_count,
                                      .reduces = cluster->reduces,
                                      .dotted = is_ambiguous(host)};
    struct tutti_routes routes = {.kind = TUTTI_ROUTES_CLUSTER};
    uint32_t *nics = tutti_arena_take(builder->arena, host->node_count, sizeof(*nics));
    int status = nics == NULL ? tutti_nomem(err) : check_names(host, err);

    if (status == 0)
        status = list_host(builder, host, &rule.host, err);
    if (status < 0)
        return status;
    rule.nic_count = find_uplinks(host, nics);
    plan_switches(cluster, &rule);
    status = expect(builder, &rule, err);
    if (status == 0)
        status = set_rails(builder, &rule, cluster, nics, err);
    if (status == 0) {
        struct tutti_rule whole = tutti_rule_of_cluster(&rule);

        status = tutti_topo_set_rule(builder, &whole, err);
    }
    routes.args[0] = rule.host_count;
    routes.args[1] = rule.nic_count;
    routes.args[2] = rule.group_hosts;
    routes.args[3] = rule.spine_count;
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

static int build_cluster(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                         const struct tutti_cluster *cluster, struct tutti_err *err)
{
    struct tutti_shape shape = {.rank_count = cluster->host_count * host->rank_count};
    struct tutti_routes routes = tutti_topo_routes(host);
    int status;

    assert(cluster->host_count >= 1);
    if (cluster->host_count == 1) {
        status = add_host(builder, host, err);
        tutti_topo_set_routes(builder, &routes);
        return status < 0 ? status : tutti_topo_set_shape(builder, &host->shape, err);
    }
    status = set_hosts_and_network(builder, host, cluster, err);
    return status < 0 ? status : set_orders(builder, host, cluster->host_count, &shape, err);
}

int tutti_cluster_build(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                        const struct tutti_cluster *cluster, struct tutti_err *err)
{
    int status = build_cluster(builder, host, cluster, err);

    tutti_topo_set_net_kind(builder, (enum tutti_net_kind)cluster->net_kind);
    return status < 0 ? status : tutti_topo_set_hardware(builder, host->hardware, err);
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
