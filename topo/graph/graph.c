/* Asking a frozen machine for its nodes and links; see graph.h. */
#include "topo/graph/graph.h"

#include <assert.h>

#include "topo/graph/rule.h"

struct tutti_node tutti_topo_node(const struct tutti_topo *topo, uint32_t node)
{
    const struct tutti_graph *graph = topo->graph;
    struct tutti_node answer;

    assert(node < topo->node_count);
    if (graph->rule != NULL)
        return graph->rule->ops->node(graph->rule, node);
    answer = graph->nodes[node];
    answer.name = NULL;
    return answer;
}

const char *tutti_topo_node_name(const struct tutti_topo *topo, uint32_t node,
                                 char buf[TUTTI_NODE_NAME_BYTES])
{
    const struct tutti_graph *graph = topo->graph;

    assert(node < topo->node_count);
    if (graph->rule == NULL)
        return graph->nodes[node].name;
    graph->rule->ops->name(graph->rule, node, buf);
    return buf;
}

uint32_t tutti_topo_rank_node(const struct tutti_topo *topo, uint32_t rank)
{
    const struct tutti_graph *graph = topo->graph;

    assert(rank < topo->rank_count);
    return graph->rule != NULL ? graph->rule->ops->rank_node(graph->rule, rank)
                               : graph->rank_node[rank];
}

uint32_t tutti_topo_out_count(const struct tutti_topo *topo, uint32_t node)
{
    const struct tutti_graph *graph = topo->graph;

    assert(node < topo->node_count);
    return graph->rule != NULL ? graph->rule->ops->out_count(graph->rule, node)
                               : graph->out_first[node + 1] - graph->out_first[node];
}

uint32_t tutti_topo_out_link(const struct tutti_topo *topo, uint32_t node, uint32_t k)
{
    const struct tutti_graph *graph = topo->graph;

    assert(node < topo->node_count);
    return graph->rule != NULL ? graph->rule->ops->out_link(graph->rule, node, k)
                               : graph->out_links[graph->out_first[node] + k];
}

struct tutti_link tutti_topo_link(const struct tutti_topo *topo, uint32_t link)
{
    const struct tutti_graph *graph = topo->graph;
    struct tutti_link answer;

    assert(link < topo->link_count);
    answer = graph->rule != NULL ? graph->rule->ops->link(graph->rule, link) : graph->links[link];
    if (graph->changes != NULL && tutti_link_changed(graph->changes, link) != NULL) {
        const struct tutti_link_value *value = tutti_link_changed(graph->changes, link);

        answer.bytes_per_s = value->bytes_per_s;
        answer.latency_ps = value->latency_ps;
    }
    return answer;
}

const struct tutti_rule *tutti_graph_rule(const struct tutti_topo *topo)
{
    return topo->graph->changes == NULL ? topo->graph->rule : NULL;
}

/* ---- classes of links ------------------------------------------------------------------------ */

static bool are_alike(const struct tutti_topo *topo, const struct tutti_link *a,
                      const struct tutti_link *b)
{
    return a->kind == b->kind && a->bytes_per_s == b->bytes_per_s &&
           a->latency_ps == b->latency_ps && a->cable_count == b->cable_count &&
           tutti_topo_node(topo, a->from).kind == tutti_topo_node(topo, b->from).kind &&
           tutti_topo_node(topo, a->to).kind == tutti_topo_node(topo, b->to).kind;
}

/* Some links more, of which the first comes after those of all before. */
static void add_class(const struct tutti_topo *topo, struct tutti_link_class some,
                      struct tutti_link_class *classes, uint32_t capacity, uint32_t *count,
                      uint32_t *more)
{
    struct tutti_link link = tutti_topo_link(topo, some.first);
    uint32_t c = 0;

    for (; c < *count; c++) {
        struct tutti_link first = tutti_topo_link(topo, classes[c].first);

        if (are_alike(topo, &first, &link))
            break;
    }
    if (c < *count) {
        classes[c].count += some.count;
    } else if (c < capacity) {
        classes[(*count)++] = some;
    } else {
        *more += some.count;
    }
}

uint32_t tutti_topo_link_classes(const struct tutti_topo *topo, struct tutti_link_class *classes,
                                 uint32_t capacity, uint32_t *ret_more)
{
    const struct tutti_rule *rule = tutti_graph_rule(topo);
    struct tutti_link_class some;
    uint32_t count = 0;

    *ret_more = 0;
    if (rule != NULL) {
        for (uint32_t i = 0; rule->ops->link_class(rule, i, &some); i++)
            add_class(topo, some, classes, capacity, &count, ret_more);
        return count;
    }
    for (uint32_t l = 0; l < topo->link_count; l++)
        add_class(topo, (struct tutti_link_class){.first = l, .count = 1}, classes, capacity,
                  &count, ret_more);
    return count;
}
