/* A machine under construction: nodes and links are collected here until they are frozen. */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "topo/graph/builder.h"
#include "topo/graph/rule.h"
#include "topo/hardware.h"
#include "topo/topo.h"

enum { NAME_BYTES_MAX = TUTTI_NODE_NAME_BYTES - 1, CAPACITY_FIRST = 16 };

const char *tutti_node_kind_name(enum tutti_node_kind kind)
{
    static const char *const names[TUTTI_NODE_KIND_COUNT] = {"device", "switch", "nic", "cpu"};

    return (unsigned)kind < TUTTI_NODE_KIND_COUNT ? names[kind] : "?";
}

const char *tutti_link_kind_name(enum tutti_link_kind kind)
{
    static const char *const names[TUTTI_LINK_KIND_COUNT] = {
        "generic", "nvlink", "xgmi", "pcie", "c2c", "cpu", "net", "ici", "dcn"};

    return (unsigned)kind < TUTTI_LINK_KIND_COUNT ? names[kind] : "?";
}

const char *tutti_net_kind_name(enum tutti_net_kind kind)
{
    static const char *const names[TUTTI_NET_KIND_COUNT] = {"unknown",   "ib",  "roce", "efa",
                                                            "slingshot", "tcp", "tcpx", "tcpxo"};

    return (unsigned)kind < TUTTI_NET_KIND_COUNT ? names[kind] : "?";
}

int tutti_topo_builder_new(const char *name, const char *source, struct tutti_topo_builder **ret,
                           struct tutti_err *err)
{
    struct tutti_topo_builder *builder = calloc(1, sizeof(*builder));

    if (builder == NULL)
        return tutti_nomem(err);
    builder->arena = tutti_arena_new();
    if (builder->arena != NULL) {
        builder->name = tutti_arena_copy_text(builder->arena, name != NULL ? name : "machine");
        builder->source =
            tutti_arena_copy_text(builder->arena, source != NULL ? source : "not stated");
    }
    if (builder->arena == NULL || builder->name == NULL || builder->source == NULL) {
        tutti_topo_builder_free(builder);
        return tutti_nomem(err);
    }
    *ret = builder;
    return 0;
}

void tutti_topo_builder_free(struct tutti_topo_builder *builder)
{
    if (builder == NULL)
        return;
    tutti_arena_free(builder->arena);
    free(builder->nodes);
    free(builder->links);
    free(builder);
}

/* Room for one more item; doubles. Counts stay below UINT32_MAX, which means "none" elsewhere. */
static void *grown(void *items, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    uint32_t wanted = *capacity == 0 ? CAPACITY_FIRST : *capacity;
    void *moved;

    if (count < *capacity)
        return items;
    if (count >= UINT32_MAX / 2)
        return NULL;
    while (wanted <= count)
        wanted *= 2;
    moved = realloc(items, wanted * item_bytes);
    if (moved != NULL)
        *capacity = wanted;
    return moved;
}

int tutti_topo_expect(const struct tutti_topo_builder *builder, uint64_t nodes, uint64_t links,
                      struct tutti_err *err)
{
    if (nodes > TUTTI_TOPO_NODES_MAX || links > TUTTI_TOPO_LINKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' has %" PRIu64 " nodes and %" PRIu64
                          " links, too many (at most %d and %d)",
                          builder->name, nodes, links, TUTTI_TOPO_NODES_MAX, TUTTI_TOPO_LINKS_MAX);
    return 0;
}

/* Names are printed and read back by white space, and a # begins a comment. */
static bool name_is_good(const char *name)
{
    size_t length = 0;

    if (name == NULL)
        return false;
    for (; name[length] != '\0'; length++)
        if (!isgraph((unsigned char)name[length]) || name[length] == '#' ||
            length >= NAME_BYTES_MAX)
            return false;
    return length > 0;
}

int tutti_topo_add_node(struct tutti_topo_builder *builder, const struct tutti_node *node,
                        uint32_t *ret, struct tutti_err *err)
{
    struct tutti_node *nodes;
    struct tutti_node copy = *node;

    assert(builder->rule == NULL);
    if (!name_is_good(node->name))
        return tutti_fail(err, TUTTI_EINVAL,
                          "bad node name '%.80s' (1 to %d visible characters, no '#')",
                          node->name != NULL ? node->name : "", NAME_BYTES_MAX);
    if (node->kind >= TUTTI_NODE_KIND_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "node '%s' is of no known kind", node->name);
    if (node->reduces && node->kind != TUTTI_NODE_SWITCH)
        return tutti_fail(err, TUTTI_EINVAL, "node '%s' cannot reduce (only switches do)",
                          node->name);
    nodes = grown(builder->nodes, builder->node_count, &builder->node_capacity, sizeof(*nodes));
    if (nodes == NULL)
        return tutti_nomem(err);
    builder->nodes = nodes;
    copy.name = tutti_arena_copy_text(builder->arena, node->name);
    if (copy.name == NULL)
        return tutti_nomem(err);
    copy.reserved = 0;
    if (copy.kind != TUTTI_NODE_DEVICE)
        copy.rank = TUTTI_RANK_NONE;
    if (ret != NULL)
        *ret = builder->node_count;
    nodes[builder->node_count++] = copy;
    return 0;
}

int tutti_topo_add_link(struct tutti_topo_builder *builder, const struct tutti_link *link,
                        struct tutti_err *err)
{
    struct tutti_link *links;
    const char *from;

    if (link->from >= builder->node_count || link->to >= builder->node_count)
        return tutti_fail(err, TUTTI_EINVAL, "link from node %u to node %u (there are %u nodes)",
                          link->from, link->to, builder->node_count);
    from = builder->nodes[link->from].name;
    if (link->from == link->to)
        return tutti_fail(err, TUTTI_EINVAL, "link from '%s' to itself", from);
    if (link->bytes_per_s == 0 || link->bytes_per_s > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "link from '%s' to '%s' has no rate (more than 0)",
                          from, builder->nodes[link->to].name);
    if (link->latency_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "link from '%s' to '%s' has a negative latency", from,
                          builder->nodes[link->to].name);
    if (link->kind >= TUTTI_LINK_KIND_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "link from '%s' to '%s' is of no known kind", from,
                          builder->nodes[link->to].name);
    links = grown(builder->links, builder->link_count, &builder->link_capacity, sizeof(*links));
    if (links == NULL)
        return tutti_nomem(err);
    builder->links = links;
    links[builder->link_count] = *link;
    if (link->cable_count == 0)
        links[builder->link_count].cable_count = 1;
    builder->link_count++;
    return 0;
}

int tutti_topo_add_cable(struct tutti_topo_builder *builder, const struct tutti_link *link,
                         struct tutti_err *err)
{
    struct tutti_link back = *link;
    int status = tutti_topo_add_link(builder, link, err);

    back.from = link->to;
    back.to = link->from;
    return status < 0 ? status : tutti_topo_add_link(builder, &back, err);
}

int tutti_topo_set_shape(struct tutti_topo_builder *builder, const struct tutti_shape *shape,
                         struct tutti_err *err)
{
    uint64_t entries = (uint64_t)shape->order_count * shape->rank_count;
    uint32_t *orders = NULL;

    if (shape->level_count > TUTTI_LEVELS_MAX || shape->dim_count > TUTTI_DIMS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a shape of %u levels and %u dims (at most %d and %d)",
                          shape->level_count, shape->dim_count, TUTTI_LEVELS_MAX, TUTTI_DIMS_MAX);
    if (shape->order_count > 0) {
        orders = tutti_arena_take(builder->arena, tutti_size(entries), sizeof(*orders));
        if (orders == NULL)
            return tutti_nomem(err);
        memcpy(orders, shape->orders, (size_t)entries * sizeof(*orders));
    }
    builder->shape = *shape;
    builder->shape.orders = orders;
    return 0;
}

int tutti_topo_set_rule(struct tutti_topo_builder *builder, const struct tutti_rule *rule,
                        struct tutti_err *err)
{
    struct tutti_rule *copy = tutti_arena_take(builder->arena, 1, sizeof(*copy));

    assert(builder->node_count == 0);
    if (copy == NULL)
        return tutti_nomem(err);
    *copy = *rule;
    builder->rule = copy;
    return 0;
}

bool tutti_rule_has_bursts(const struct tutti_rule *rule)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    bool has = rule->grid.cable.burst_bytes > 0 || rule->tree.device.burst_bytes > 0 ||
               rule->tree.between.burst_bytes > 0 || cluster->host.has_bursts;

    for (uint32_t i = 0; i < cluster->nic_count; i++)
        has = has || cluster->cables[i].burst_bytes > 0 || cluster->uplinks[i].burst_bytes > 0;
    return has;
}

void tutti_topo_set_routes(struct tutti_topo_builder *builder, const struct tutti_routes *routes)
{
    builder->routes = *routes;
}

int tutti_topo_set_title(struct tutti_topo_builder *builder, const char *name, const char *source,
                         struct tutti_err *err)
{
    const char *name_copy = tutti_arena_copy_text(builder->arena, name != NULL ? name : "");
    const char *source_copy = tutti_arena_copy_text(builder->arena, source != NULL ? source : "");

    if (name_copy == NULL || source_copy == NULL)
        return tutti_nomem(err);
    if (name != NULL)
        builder->name = name_copy;
    if (source != NULL)
        builder->source = source_copy;
    return 0;
}

int tutti_topo_set_hardware(struct tutti_topo_builder *builder,
                            const struct tutti_hardware *hardware, struct tutti_err *err)
{
    if (hardware != NULL)
        return tutti_hardware_copy(builder->arena, hardware, &builder->hardware, err);
    builder->hardware = NULL;
    return 0;
}

void tutti_topo_set_net_kind(struct tutti_topo_builder *builder, enum tutti_net_kind kind)
{
    assert(kind < TUTTI_NET_KIND_COUNT);
    builder->net_kind = kind;
}

uint32_t tutti_topo_hardware_hosts(const struct tutti_topo *topo)
{
    return topo->hardware == NULL ? 0 : topo->rank_count / topo->hardware->gpu_count;
}

static int check_hardware(const struct tutti_topo *topo, struct tutti_err *err)
{
    uint64_t hosts = topo->host_count == 0 ? 1 : topo->host_count;
    uint64_t gpus = topo->hardware == NULL ? 0 : topo->hardware->gpu_count;

    /* What stands here as a host may be a rack of them. */
    if (topo->hardware != NULL && gpus * hosts != topo->rank_count &&
        gpus * hosts * topo->hardware->rack != topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the hardware of a host has %" PRIu64 " GPUs, but there are %" PRIu32
                          " ranks on %" PRIu64 " hosts (as many GPUs as ranks on each host)",
                          gpus, topo->rank_count, hosts);
    return 0;
}

/* All passes in order; on failure the caller frees what there is. */
static int freeze(struct tutti_topo_builder *builder, struct tutti_topo *topo,
                  struct tutti_err *err)
{
    struct tutti_graph *graph = tutti_arena_take(topo->arena, 1, sizeof(*graph));
    int status = 0;

    if (graph == NULL)
        return tutti_nomem(err);
    topo->graph = graph;
    if (builder->rule != NULL) {
        graph->rule = builder->rule;
        topo->node_count = graph->rule->node_count;
        topo->link_count = graph->rule->link_count;
        topo->rank_count = graph->rule->rank_count;
        topo->host_count = graph->rule->host_count;
        topo->has_bursts = tutti_rule_has_bursts(graph->rule);
    } else {
        status = tutti_freeze_nodes(builder, topo, graph, err);
        if (status == 0)
            status = tutti_freeze_links(builder, topo, graph, err);
    }
    if (status == 0)
        status = check_hardware(topo, err);
    if (status == 0)
        status = tutti_freeze_shape(topo, &builder->shape, err);
    if (status == 0)
        status = tutti_freeze_routes(topo, &builder->routes, err);
    return status;
}

int tutti_topo_freeze(struct tutti_topo_builder *builder, struct tutti_topo **ret,
                      struct tutti_err *err)
{
    struct tutti_topo *topo = tutti_arena_take(builder->arena, 1, sizeof(*topo));
    int status = topo == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        topo->arena = builder->arena;
        topo->name = builder->name;
        topo->source = builder->source;
        topo->hardware = builder->hardware;
        topo->net_kind = (uint8_t)builder->net_kind;
        status = freeze(builder, topo, err);
    }
    if (status == 0) {
        builder->arena = NULL;
        *ret = topo;
    }
    tutti_topo_builder_free(builder);
    return status;
}

void tutti_topo_free(struct tutti_topo *topo)
{
    if (topo != NULL)
        tutti_arena_free(topo->arena);
}
