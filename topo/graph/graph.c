/* Asking a frozen machine for its nodes and links; see graph.h. */
#include "topo/graph/graph.h"

#include <assert.h>
#include <string.h>

#include "topo/graph/rule.h"

enum { MANY = 16 }; /* links that are asked after together */

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

static void change(const struct tutti_link_changes *changes, uint32_t index,
                   struct tutti_link *link)
{
    const struct tutti_link_value *value = tutti_link_changed(changes, index);

    if (value == NULL)
        return;
    link->bytes_per_s = value->bytes_per_s;
    link->latency_ps = value->latency_ps;
}

struct tutti_link tutti_topo_link(const struct tutti_topo *topo, uint32_t link)
{
    const struct tutti_graph *graph = topo->graph;
    struct tutti_link answer;

    assert(link < topo->link_count);
    answer = graph->rule != NULL ? graph->rule->ops->link(graph->rule, link) : graph->links[link];
    if (graph->changes != NULL)
        change(graph->changes, link, &answer);
    return answer;
}

struct tutti_link tutti_topo_link_figures(const struct tutti_topo *topo, uint32_t link)
{
    const struct tutti_rule *rule = topo->graph->rule;
    struct tutti_link answer;

    if (rule == NULL || rule->ops->like == NULL)
        return tutti_topo_link(topo, link);
    assert(link < topo->link_count);
    answer = *rule->ops->like(rule, link);
    if (topo->graph->changes != NULL)
        change(topo->graph->changes, link, &answer);
    return answer;
}

struct tutti_link_likeness tutti_topo_link_likeness(const struct tutti_topo *topo, uint32_t link)
{
    const struct tutti_graph *graph = topo->graph;

    if (graph->rule == NULL || graph->rule->ops->like == NULL)
        return (struct tutti_link_likeness){.rule = NULL};
    assert(link < topo->link_count);
    return (struct tutti_link_likeness){
        .rule = graph->rule->ops->like(graph->rule, link),
        .change = graph->changes != NULL ? tutti_link_changed(graph->changes, link) : NULL};
}

/* The changed ones of [first, first + count). */
static void change_some(const struct tutti_link_changes *changes, uint32_t first, uint32_t count,
                        struct tutti_link *links)
{
    for (uint32_t i = 0; i < count; i++) {
        if (changes->bits[(first + i) / 64] == 0) {
            i += 63 - (first + i) % 64; /* none up to the end of this word */
            continue;
        }
        change(changes, first + i, &links[i]);
    }
}

uint32_t tutti_topo_links(const struct tutti_topo *topo, uint32_t first, struct tutti_link *links,
                          uint32_t capacity)
{
    const struct tutti_graph *graph = topo->graph;
    uint32_t count = first < topo->link_count ? topo->link_count - first : 0;

    count = count < capacity ? count : capacity;
    if (graph->rule != NULL)
        graph->rule->ops->links(graph->rule, first, count, links);
    else if (count > 0)
        memcpy(links, graph->links + first, count * sizeof(*links));
    if (graph->changes != NULL)
        change_some(graph->changes, first, count, links);
    return count;
}

/* Changed links of number less than `link`. */
static uint32_t changed_before(const struct tutti_link_changes *changes, uint32_t link)
{
    uint64_t lower = (UINT64_C(1) << link % 64) - 1;

    return changes->before[link / 64] +
           (uint32_t)__builtin_popcountll(changes->bits[link / 64] & lower);
}

bool tutti_graph_any_changed(const struct tutti_topo *topo, uint32_t first, uint32_t count)
{
    const struct tutti_link_changes *changes = topo->graph->changes;

    assert(first <= topo->link_count && count <= topo->link_count - first);
    return changes != NULL &&
           changed_before(changes, first + count) > changed_before(changes, first);
}

/* Is none of MANY links that leave a node changed, from number `first` on? They are in order. */
static bool many_unchanged(const struct tutti_topo *topo, uint32_t node, uint32_t first)
{
    uint32_t low = tutti_topo_out_link(topo, node, first);
    uint32_t high = tutti_topo_out_link(topo, node, first + MANY - 1);

    return !tutti_graph_any_changed(topo, low, high - low + 1);
}

static void change_out(const struct tutti_topo *topo, uint32_t node, uint32_t first, uint32_t count,
                       struct tutti_link *links)
{
    uint32_t some;

    for (uint32_t done = 0; done < count; done += some) {
        some = count - done < MANY ? count - done : MANY;
        if (some == MANY && many_unchanged(topo, node, first + done))
            continue;
        for (uint32_t i = done; i < done + some; i++)
            change(topo->graph->changes, tutti_topo_out_link(topo, node, first + i), &links[i]);
    }
}

uint32_t tutti_graph_out_links(const struct tutti_topo *topo, uint32_t node, uint32_t first,
                               struct tutti_link *links, uint32_t capacity)
{
    const struct tutti_graph *graph = topo->graph;
    const struct tutti_rule *rule = graph->rule;
    uint32_t count = tutti_topo_out_count(topo, node);

    count = first < count ? count - first : 0;
    count = count < capacity ? count : capacity;
    if (rule != NULL && rule->ops->out_links != NULL) {
        rule->ops->out_links(rule, node, first, count, links);
        if (graph->changes != NULL)
            change_out(topo, node, first, count, links);
        return count;
    }
    for (uint32_t i = 0; i < count; i++)
        links[i] = tutti_topo_link(topo, tutti_topo_out_link(topo, node, first + i));
    return count;
}

struct tutti_spines tutti_graph_spines(const struct tutti_topo *topo)
{
    const struct tutti_rule *rule = topo->graph->rule;
    const struct tutti_link_changes *changes = topo->graph->changes;
    struct tutti_spines none = {.node_first = topo->node_count, .count = 1};
    struct tutti_spines spines;

    none.link_first = topo->link_count;
    if (rule == NULL || rule->ops != &tutti_rule_cluster || rule->cluster.spine_count < 2)
        return none;
    spines.count = rule->cluster.spine_count;
    spines.node_first = topo->node_count - spines.count;
    spines.link_first =
        topo->link_count - 2 * rule->cluster.group_count * rule->cluster.nic_count * spines.count;
    for (uint32_t w = spines.link_first / 64; changes != NULL && w <= topo->link_count / 64; w++) {
        uint32_t before = w == spines.link_first / 64 ? spines.link_first % 64 : 0;

        if (changes->bits[w] >> before != 0)
            return none;
    }
    return spines;
}

struct tutti_copies tutti_graph_copies(const struct tutti_topo *topo)
{
    const struct tutti_rule *rule = topo->graph->rule;

    if (rule == NULL || rule->ops != &tutti_rule_cluster || rule->cluster.host.rank_count == 0)
        return (struct tutti_copies){.host_count = 0};
    return (struct tutti_copies){.host_count = rule->cluster.host_count,
                                 .node_count = rule->cluster.host.node_count,
                                 .rank_count = rule->cluster.host.rank_count,
                                 .link_count = rule->cluster.host.link_count};
}

const struct tutti_rule *tutti_graph_rule(const struct tutti_topo *topo)
{
    return topo->graph->changes == NULL ? topo->graph->rule : NULL;
}
