/* Freezing the nodes: ranks, hosts and names that must be different. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/builder.h"

/* FNV-1a, only to find equal names: nothing is ever done in the order of the hashes. */
static uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

static int check_names(const struct tutti_topo_builder *builder, struct tutti_err *err)
{
    size_t slots = 16;
    uint32_t *table; /* node index + 1 */
    int status = 0;

    while (slots < (size_t)builder->node_count * 2)
        slots *= 2;
    table = calloc(slots, sizeof(*table));
    if (table == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < builder->node_count && status == 0; v++) {
        const char *name = builder->nodes[v].name;
        size_t slot = (size_t)text_hash(name) & (slots - 1);

        for (; table[slot] != 0 && status == 0; slot = (slot + 1) & (slots - 1))
            if (strcmp(builder->nodes[table[slot] - 1].name, name) == 0)
                status = tutti_fail(err, TUTTI_EINVAL, "two nodes are named '%s'", name);
        table[slot] = v + 1;
    }
    free(table);
    return status;
}

/* Gives the devices their ranks: 0, 1, ... where none was set, else as set. */
static int number_ranks(struct tutti_node *nodes, uint32_t node_count, uint32_t rank_count,
                        uint32_t *rank_node, struct tutti_err *err)
{
    uint32_t set_count = 0;
    uint32_t next = 0;

    for (uint32_t v = 0; v < node_count; v++)
        set_count += nodes[v].kind == TUTTI_NODE_DEVICE && nodes[v].rank != TUTTI_RANK_NONE;
    for (uint32_t r = 0; r < rank_count; r++)
        rank_node[r] = UINT32_MAX;
    for (uint32_t v = 0; v < node_count; v++) {
        struct tutti_node *node = &nodes[v];

        if (node->kind != TUTTI_NODE_DEVICE)
            continue;
        if (set_count == 0)
            node->rank = next++;
        if (node->rank == TUTTI_RANK_NONE)
            return tutti_fail(err, TUTTI_EINVAL, "device '%s' has no rank (all devices or none)",
                              node->name);
        if (node->rank >= rank_count)
            return tutti_fail(err, TUTTI_EINVAL, "device '%s' has rank %u (0 to %u)", node->name,
                              node->rank, rank_count - 1);
        if (rank_node[node->rank] != UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "devices '%s' and '%s' both have rank %u",
                              nodes[rank_node[node->rank]].name, node->name, node->rank);
        rank_node[node->rank] = v;
    }
    return 0;
}

int tutti_freeze_nodes(struct tutti_topo_builder *builder, struct tutti_topo *topo,
                       struct tutti_graph *graph, struct tutti_err *err)
{
    struct tutti_node *nodes;
    uint32_t *rank_node;
    int status = check_names(builder, err);

    if (status < 0)
        return status;
    for (uint32_t v = 0; v < builder->node_count; v++) {
        const struct tutti_node *node = &builder->nodes[v];

        topo->rank_count += node->kind == TUTTI_NODE_DEVICE;
        if (node->host == UINT32_MAX)
            continue;
        if (node->host >= builder->node_count)
            return tutti_fail(err, TUTTI_EINVAL, "node '%s' is in host %u (0 to %u)", node->name,
                              node->host, builder->node_count - 1);
        if (node->host >= topo->host_count)
            topo->host_count = node->host + 1;
    }
    if (topo->rank_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no devices (at least 1)");
    nodes = tutti_arena_take(topo->arena, builder->node_count, sizeof(*nodes));
    rank_node = tutti_arena_take(topo->arena, topo->rank_count, sizeof(*rank_node));
    if (nodes == NULL || rank_node == NULL)
        return tutti_nomem(err);
    memcpy(nodes, builder->nodes, builder->node_count * sizeof(*nodes));
    topo->node_count = builder->node_count;
    graph->nodes = nodes;
    graph->rank_node = rank_node;
    return number_ranks(nodes, topo->node_count, topo->rank_count, rank_node, err);
}
