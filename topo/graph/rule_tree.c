/* The rule of fat trees, and of one switch. */
#include <assert.h>
#include <stdio.h>

#include "topo/graph/rule.h"

/* The level of a node, 0 for devices, or of the low end of a cable. */
static uint32_t level_of(const uint64_t *first, uint32_t levels, uint64_t index)
{
    uint32_t level = 0;

    while (level + 1 < levels && first[level + 1] <= index)
        level++;
    return level;
}

static struct tutti_node tree_node(const struct tutti_rule *rule, uint32_t v)
{
    if (v < rule->rank_count)
        return (struct tutti_node){.rank = v, .host = UINT32_MAX, .kind = TUTTI_NODE_DEVICE};
    return (struct tutti_node){.rank = TUTTI_RANK_NONE,
                               .host = UINT32_MAX,
                               .kind = TUTTI_NODE_SWITCH,
                               .reduces = rule->tree.reduces};
}

static void tree_name(const struct tutti_rule *rule, uint32_t v, char *buf)
{
    static const char *const level_name[] = {"dev", "leaf", "spine", "core"};
    const struct tutti_tree *tree = &rule->tree.tree;
    uint32_t level = level_of(tree->node_first, tree->levels + 1, v);
    unsigned long long number = v - tree->node_first[level];

    if (tree->levels == 1 && level == 1)
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "switch");
    else if (level < sizeof(level_name) / sizeof(level_name[0]))
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "%s%llu", level_name[level], number);
    else
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "core%u.%llu", level - 2, number);
}

static struct tutti_link tree_link(const struct tutti_rule *rule, uint32_t l)
{
    const struct tutti_tree *tree = &rule->tree.tree;
    uint32_t level = level_of(tree->cable_first, tree->levels, l / 2);
    uint32_t parents = tutti_tree_parents(tree, level);
    uint64_t cable = l / 2 - tree->cable_first[level];
    uint64_t above = tutti_tree_parent(tree, level, cable / parents, (uint32_t)(cable % parents));
    struct tutti_link link = level == 0 ? rule->tree.device : rule->tree.between;

    link.from = (uint32_t)(tree->node_first[level] + cable / parents);
    link.to = (uint32_t)(tree->node_first[level + 1] + above);
    if (l % 2 != 0) {
        uint32_t low = link.from;

        link.from = link.to;
        link.to = low;
        link.latency_ps = level == 0 ? rule->tree.device_down_ps : link.latency_ps;
    }
    return link;
}

static void tree_links(const struct tutti_rule *rule, uint32_t first, uint32_t count,
                       struct tutti_link *ret)
{
    for (uint32_t i = 0; i < count; i++)
        ret[i] = tree_link(rule, first + i);
}

static uint32_t tree_rank_node(const struct tutti_rule *rule, uint32_t rank)
{
    (void)rule;
    return rank;
}

static uint32_t tree_out_count(const struct tutti_rule *rule, uint32_t v)
{
    const struct tutti_tree *tree = &rule->tree.tree;
    uint32_t level = level_of(tree->node_first, tree->levels + 1, v);
    uint32_t up = level < tree->levels ? tutti_tree_parents(tree, level) : 0;

    return up + (level > 0 ? tree->arity : 0);
}

/* Downwards first: those cables were numbered earlier. */
static uint32_t tree_out_link(const struct tutti_rule *rule, uint32_t v, uint32_t k)
{
    const struct tutti_tree *tree = &rule->tree.tree;
    uint32_t level = level_of(tree->node_first, tree->levels + 1, v);
    uint64_t index = v - tree->node_first[level];
    uint32_t parents;

    if (level > 0 && k < tree->arity) {
        /* The inverse of tutti_tree_parent(): which subtree, and which of its copies. */
        uint64_t copies = tree->copies[level - 1];
        uint64_t copy = index % tree->copies[level] % copies;
        uint64_t p = index % tree->copies[level] / copies;
        uint64_t child = (index / tree->copies[level] * tree->arity + k) * copies + copy;

        parents = tutti_tree_parents(tree, level - 1);
        return (uint32_t)(2 * (tree->cable_first[level - 1] + child * parents + p) + 1);
    }
    k -= level > 0 ? tree->arity : 0;
    parents = tutti_tree_parents(tree, level);
    assert(level < tree->levels);
    assert(k < parents);
    return (uint32_t)(2 * (tree->cable_first[level] + index * parents + k));
}

/* Up and down of devices, then of the switches of each level. */
static bool tree_link_class(const struct tutti_rule *rule, uint32_t i, struct tutti_rule_class *ret)
{
    const struct tutti_tree *tree = &rule->tree.tree;

    if (i >= 2 * tree->levels)
        return false;
    ret->first = (uint32_t)(2 * tree->cable_first[i / 2] + i % 2);
    ret->count = (uint32_t)((tree->node_first[i / 2 + 1] - tree->node_first[i / 2]) *
                            tutti_tree_parents(tree, i / 2));
    ret->run = ret->count;
    ret->step = 2;
    ret->stride = 0;
    return true;
}

const struct tutti_rule_ops tutti_rule_tree = {
    .node = tree_node,
    .name = tree_name,
    .link = tree_link,
    .links = tree_links,
    .rank_node = tree_rank_node,
    .out_count = tree_out_count,
    .out_link = tree_out_link,
    .link_class = tree_link_class,
};

struct tutti_rule tutti_rule_of_tree(const struct tutti_tree_rule *tree)
{
    struct tutti_rule rule = {.ops = &tutti_rule_tree, .tree = *tree};

    rule.node_count = (uint32_t)tree->tree.node_first[tree->tree.levels + 1];
    rule.link_count = (uint32_t)(2 * tree->tree.cable_first[tree->tree.levels]);
    rule.rank_count = (uint32_t)tree->tree.node_first[1];
    return rule;
}
