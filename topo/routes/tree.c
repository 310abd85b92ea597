/* Routes in fat trees: up to the nearest common switch, down again; parents by destination. */
#include "topo/routes/tree.h"

#include <assert.h>

#include "runtime/status.h"
#include "topo/graph/graph.h"
#include "topo/routes/router.h"

struct tutti_tree tutti_tree_of(uint32_t arity, uint32_t levels, uint32_t uplinks)
{
    struct tutti_tree tree = {.arity = arity, .levels = levels, .uplinks = uplinks};
    uint64_t devices = 1;
    uint64_t cable = 0;

    assert(levels >= 1);
    assert(levels <= TUTTI_TREE_LEVELS_MAX);
    tree.below[0] = tree.copies[0] = 1;
    for (uint32_t i = 1; i <= levels; i++) {
        devices *= arity;
        tree.below[i] = devices;
        tree.copies[i] = tree.copies[i - 1] * tutti_tree_parents(&tree, i - 1);
    }
    for (uint32_t i = 0; i <= levels; i++) {
        uint64_t count = devices / tree.below[i] * tree.copies[i];

        tree.node_first[i + 1] = tree.node_first[i] + count;
        tree.cable_first[i] = cable;
        cable += i < levels ? count * tutti_tree_parents(&tree, i) : 0;
    }
    tree.cable_first[levels] = cable;
    return tree;
}

/* Going up, the parent is digit `level` of the destination in base arity ("d-mod-k", Zahavi 2010):
 * what goes to different devices of a leaf switch uses different spines. Going down there is one
 * way only: the switches that the destination itself would climb through. */
static void tree_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                       struct tutti_path *path)
{
    const struct tutti_tree *tree = &topo->router->tree;
    uint32_t top = 1;
    uint64_t index = from;
    uint64_t down[TUTTI_TREE_LEVELS_MAX + 1];
    uint64_t down_cable[TUTTI_TREE_LEVELS_MAX + 1];

    while (from / tree->below[top] != to / tree->below[top])
        top++;
    assert(top <= tree->levels);
    down[0] = to;
    for (uint32_t i = 0; i < top; i++) {
        uint32_t parents = tutti_tree_parents(tree, i);
        uint32_t p = i == 0 ? 0 : (uint32_t)(to / tree->below[i - 1] % parents);

        if (topo->router->drawn)
            p = tutti_router_draw(topo->router, from, to, i, parents);
        tutti_path_add(path, (uint32_t)(2 * (tree->cable_first[i] + index * parents + p)));
        index = tutti_tree_parent(tree, i, index, p);
        down_cable[i] = tree->cable_first[i] + down[i] * parents + p;
        down[i + 1] = tutti_tree_parent(tree, i, down[i], p);
    }
    assert(index == down[top]);
    for (uint32_t i = top; i-- > 0;)
        tutti_path_add(path, (uint32_t)(2 * down_cable[i] + 1));
}

static int check_cable(const struct tutti_topo *topo, uint64_t cable, uint64_t low, uint64_t high,
                       struct tutti_err *err)
{
    struct tutti_link up = tutti_topo_link(topo, (uint32_t)(2 * cable));
    struct tutti_link down = tutti_topo_link(topo, (uint32_t)(2 * cable + 1));
    char low_name[TUTTI_NODE_NAME_BYTES];
    char high_name[TUTTI_NODE_NAME_BYTES];

    if (up.from != low || up.to != high || down.from != high || down.to != low)
        return tutti_fail(err, TUTTI_EINVAL,
                          "not a fat tree: links %llu and %llu do not join '%s' "
                          "and '%s'",
                          (unsigned long long)(2 * cable), (unsigned long long)(2 * cable + 1),
                          tutti_topo_node_name(topo, (uint32_t)low, low_name),
                          tutti_topo_node_name(topo, (uint32_t)high, high_name));
    return 0;
}

static int check_cables(const struct tutti_topo *topo, const struct tutti_tree *tree,
                        struct tutti_err *err)
{
    for (uint32_t r = 0; r < topo->rank_count; r++)
        if (tutti_topo_rank_node(topo, r) != r)
            return tutti_fail(err, TUTTI_EINVAL, "not a fat tree: rank %u is not node %u", r, r);
    for (uint32_t i = 0; i < tree->levels; i++) {
        uint64_t count = tree->node_first[i + 1] - tree->node_first[i];
        uint32_t parents = tutti_tree_parents(tree, i);

        for (uint64_t c = 0; c < count * parents; c++) {
            uint64_t up = tutti_tree_parent(tree, i, c / parents, (uint32_t)(c % parents));
            int status =
                check_cable(topo, tree->cable_first[i] + c, tree->node_first[i] + c / parents,
                            tree->node_first[i + 1] + up, err);
            if (status < 0)
                return status;
        }
    }
    return 0;
}

int tutti_router_tree(const struct tutti_topo *topo, struct tutti_router *router,
                      struct tutti_err *err)
{
    uint32_t arity = router->plan.args[0];
    uint32_t levels = router->plan.args[1];
    uint32_t uplinks = router->plan.args[2];
    uint64_t devices = 1;
    struct tutti_tree tree;

    if (levels < 1 || levels > TUTTI_TREE_LEVELS_MAX || arity < 1 || uplinks < 1 || uplinks > arity)
        return tutti_fail(err, TUTTI_EINVAL, "not a fat tree: arity %u, levels %u, uplinks %u",
                          arity, levels, uplinks);
    for (uint32_t i = 0; i < levels && devices <= UINT32_MAX; i++)
        devices *= arity;
    if (devices != topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "not a fat tree: %u devices for arity %u, levels %u",
                          topo->rank_count, arity, levels);
    tree = tutti_tree_of(arity, levels, uplinks);
    if (tree.node_first[levels + 1] != topo->node_count ||
        2 * tree.cable_first[levels] != topo->link_count)
        return tutti_fail(err, TUTTI_EINVAL, "not a fat tree: %u nodes and %u links",
                          topo->node_count, topo->link_count);
    router->route = tree_route;
    router->tree = tree;
    return topo->graph->rule != NULL ? 0 : check_cables(topo, &tree, err); /* a rule is right */
}
