/* Routes in fat trees: up to the nearest common switch, down again; parents by destination. */
#include "topo/routes/tree.h"

#include <assert.h>

#include "runtime/status.h"
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

static struct tutti_tree planned(const struct tutti_routes *plan)
{
    return tutti_tree_of(plan->args[0], plan->args[1], plan->args[2]);
}

/* Going up, the parent is digit `level` of the destination in base arity ("d-mod-k", Zahavi 2010):
 * what goes to different devices of a leaf switch uses different spines. Going down there is one
 * way only: the switches that the destination itself would climb through. */
static void tree_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                       struct tutti_path *path)
{
    struct tutti_tree tree = planned(&topo->router->plan);
    uint32_t top = 1;
    uint64_t index = from;
    uint64_t down[TUTTI_TREE_LEVELS_MAX + 1];
    uint64_t down_cable[TUTTI_TREE_LEVELS_MAX + 1];

    while (from / tree.below[top] != to / tree.below[top])
        top++;
    assert(top <= tree.levels);
    down[0] = to;
    for (uint32_t i = 0; i < top; i++) {
        uint32_t parents = tutti_tree_parents(&tree, i);
        uint32_t p = i == 0 ? 0 : (uint32_t)(to / tree.below[i - 1] % parents);

        tutti_path_add(path, (uint32_t)(2 * (tree.cable_first[i] + index * parents + p)));
        index = tutti_tree_parent(&tree, i, index, p);
        down_cable[i] = tree.cable_first[i] + down[i] * parents + p;
        down[i + 1] = tutti_tree_parent(&tree, i, down[i], p);
    }
    assert(index == down[top]);
    for (uint32_t i = top; i-- > 0;)
        tutti_path_add(path, (uint32_t)(2 * down_cable[i] + 1));
}

static int check_cable(const struct tutti_topo *topo, uint64_t cable, uint64_t low, uint64_t high,
                       struct tutti_err *err)
{
    const struct tutti_link *up = &topo->links[2 * cable];

    if (up[0].from != low || up[0].to != high || up[1].from != high || up[1].to != low)
        return tutti_fail(err, TUTTI_EINVAL,
                          "not a fat tree: links %llu and %llu do not join '%s' "
                          "and '%s'",
                          (unsigned long long)(2 * cable), (unsigned long long)(2 * cable + 1),
                          topo->nodes[low].name, topo->nodes[high].name);
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
    tree = planned(&router->plan);
    if (tree.node_first[levels + 1] != topo->node_count ||
        2 * tree.cable_first[levels] != topo->link_count)
        return tutti_fail(err, TUTTI_EINVAL, "not a fat tree: %u nodes and %u links",
                          topo->node_count, topo->link_count);
    for (uint32_t r = 0; r < topo->rank_count; r++)
        if (topo->rank_node[r] != r)
            return tutti_fail(err, TUTTI_EINVAL, "not a fat tree: rank %u is not node %u", r, r);
    for (uint32_t i = 0; i < levels; i++) {
        uint64_t count = tree.node_first[i + 1] - tree.node_first[i];
        uint32_t parents = tutti_tree_parents(&tree, i);

        for (uint64_t c = 0; c < count * parents; c++) {
            uint64_t up = tutti_tree_parent(&tree, i, c / parents, (uint32_t)(c % parents));
            int status =
                check_cable(topo, tree.cable_first[i] + c, tree.node_first[i] + c / parents,
                            tree.node_first[i + 1] + up, err);
            if (status < 0)
                return status;
        }
    }
    router->route = tree_route;
    return 0;
}
