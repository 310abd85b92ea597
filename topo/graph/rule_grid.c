/* The rule of grids whose axes are rings: tori, and rings themselves. */
#include <assert.h>
#include <stdio.h>

#include "topo/graph/rule.h"

static struct tutti_node grid_node(const struct tutti_rule *rule, uint32_t v)
{
    (void)rule;
    return (struct tutti_node){.rank = v, .host = UINT32_MAX, .kind = TUTTI_NODE_DEVICE};
}

static void grid_name(const struct tutti_rule *rule, uint32_t v, char *buf)
{
    (void)rule;
    (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "dev%u", v);
}

/* The device before (or after) v on an axis. */
static uint32_t beside(const struct tutti_grid_rule *grid, uint32_t v, uint32_t axis, bool up)
{
    uint32_t n = grid->length[axis];
    uint32_t stride = grid->stride[axis];
    uint32_t x = v / stride % n;

    if (up)
        return x + 1 < n ? v + stride : v - x * stride;
    return x > 0 ? v - stride : v + (n - 1) * stride;
}

static struct tutti_link grid_link(const struct tutti_rule *rule, uint32_t l)
{
    const struct tutti_grid_rule *grid = &rule->grid;
    struct tutti_link link = grid->cable;
    uint32_t low = l / 2 / grid->axis_count;
    uint32_t high = beside(grid, low, l / 2 % grid->axis_count, true);

    link.from = l % 2 == 0 ? low : high;
    link.to = l % 2 == 0 ? high : low;
    return link;
}

static void grid_links(const struct tutti_rule *rule, uint32_t first, uint32_t count,
                       struct tutti_link *ret)
{
    const struct tutti_grid_rule *grid = &rule->grid;
    uint32_t low = first / 2 / grid->axis_count;
    uint32_t axis = first / 2 % grid->axis_count;
    uint32_t high = beside(grid, low, axis, true);

    for (uint32_t i = 0; i < count; i++) {
        bool down = (first + i) % 2 != 0;

        ret[i] = grid->cable;
        ret[i].from = down ? high : low;
        ret[i].to = down ? low : high;
        if (!down)
            continue;
        axis = axis + 1 < grid->axis_count ? axis + 1 : 0;
        low += axis == 0;
        high = beside(grid, low, axis, true);
    }
}

static uint32_t grid_rank_node(const struct tutti_rule *rule, uint32_t rank)
{
    (void)rule;
    return rank;
}

static uint32_t grid_out_count(const struct tutti_rule *rule, uint32_t v)
{
    (void)v;
    return 2 * rule->grid.axis_count;
}

/* Both links of each axis, of which number k by index is the one with k below it. */
static uint32_t grid_out_link(const struct tutti_rule *rule, uint32_t v, uint32_t k)
{
    const struct tutti_grid_rule *grid = &rule->grid;
    uint32_t count = 2 * grid->axis_count;
    uint32_t links[2 * TUTTI_DIMS_MAX];

    assert(k < count);
    for (uint32_t a = 0; a < grid->axis_count; a++) {
        links[2 * a] = 2 * (v * grid->axis_count + a);
        links[2 * a + 1] = 2 * (beside(grid, v, a, false) * grid->axis_count + a) + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t below = 0;

        for (uint32_t j = 0; j < count; j++)
            below += links[j] < links[i];
        if (below == k)
            return links[i];
    }
    return UINT32_MAX;
}

static bool grid_link_class(const struct tutti_rule *rule, uint32_t i, struct tutti_rule_class *ret)
{
    *ret = (struct tutti_rule_class){.count = rule->link_count, .run = rule->link_count, .step = 1};
    return i == 0 && rule->link_count > 0;
}

const struct tutti_rule_ops tutti_rule_grid = {
    .node = grid_node,
    .name = grid_name,
    .link = grid_link,
    .links = grid_links,
    .rank_node = grid_rank_node,
    .out_count = grid_out_count,
    .out_link = grid_out_link,
    .link_class = grid_link_class,
};

bool tutti_rule_has_grid(const struct tutti_shape *shape)
{
    bool has_axis = false;

    for (uint32_t d = 0; d < shape->dim_count; d++) {
        if (shape->dim[d] != 1 && (!shape->wrap[d] || shape->dim[d] == 2))
            return false;
        has_axis = has_axis || shape->dim[d] > 1;
    }
    return has_axis;
}

struct tutti_rule tutti_rule_of_grid(const struct tutti_shape *shape,
                                     const struct tutti_link *cable)
{
    struct tutti_rule rule = {.ops = &tutti_rule_grid};
    struct tutti_grid_rule *grid = &rule.grid;
    uint32_t stride = 1;

    assert(tutti_rule_has_grid(shape));
    for (uint32_t d = 0; d < shape->dim_count; d++) {
        if (shape->dim[d] == 1)
            continue;
        grid->length[grid->axis_count] = shape->dim[d];
        grid->stride[grid->axis_count++] = stride;
        stride *= shape->dim[d];
    }
    grid->cable = *cable;
    rule.node_count = rule.rank_count = stride;
    rule.link_count = 2 * grid->axis_count * stride;
    return rule;
}
