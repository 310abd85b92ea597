/* Axes of grids that follow a rule, asked for as a whole. */
#include "topo/graph/graph.h"
#include "topo/graph/rule.h"

bool tutti_topo_axis_links(const struct tutti_topo *topo, uint32_t size, uint32_t stride,
                           bool reversed, struct tutti_axis_links *ret)
{
    const struct tutti_rule *rule = topo->graph->rule;
    const struct tutti_grid_rule *grid;
    uint32_t axis = 0;

    if (rule == NULL || rule->ops != &tutti_rule_grid)
        return false;
    grid = &rule->grid;
    while (axis < grid->axis_count && (grid->length[axis] != size || grid->stride[axis] != stride))
        axis++;
    if (axis == grid->axis_count)
        return false;
    *ret = (struct tutti_axis_links){.link = grid->cable,
                                     .first = 2 * axis + (reversed ? 1 : 0),
                                     .per_rank = 2 * grid->axis_count,
                                     .of_next = reversed,
                                     .changed = topo->graph->changes != NULL};
    return true;
}

bool tutti_topo_link_is_changed(const struct tutti_topo *topo, uint32_t link)
{
    return topo->graph->changes != NULL && tutti_link_changed(topo->graph->changes, link) != NULL;
}
