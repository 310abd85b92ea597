/* The rule of hypercubes: 2^d devices, a cable between two whose numbers differ in one bit. */
#include <assert.h>
#include <stdio.h>

#include "topo/graph/rule.h"

static struct tutti_node cube_node(const struct tutti_rule *rule, uint32_t v)
{
    (void)rule;
    return (struct tutti_node){.rank = v, .host = UINT32_MAX, .kind = TUTTI_NODE_DEVICE};
}

static void cube_name(const struct tutti_rule *rule, uint32_t v, char *buf)
{
    (void)rule;
    (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "dev%u", v);
}

/* Link v * d + b leads from device v over bit b. */
static struct tutti_link cube_link(const struct tutti_rule *rule, uint32_t l)
{
    struct tutti_link link = rule->cube.cable;

    link.from = l / rule->cube.dim_count;
    link.to = link.from ^ UINT32_C(1) << l % rule->cube.dim_count;
    return link;
}

static void cube_links(const struct tutti_rule *rule, uint32_t first, uint32_t count,
                       struct tutti_link *ret)
{
    for (uint32_t i = 0; i < count; i++)
        ret[i] = cube_link(rule, first + i);
}

static uint32_t cube_rank_node(const struct tutti_rule *rule, uint32_t rank)
{
    (void)rule;
    return rank;
}

static uint32_t cube_out_count(const struct tutti_rule *rule, uint32_t v)
{
    (void)v;
    return rule->cube.dim_count;
}

static uint32_t cube_out_link(const struct tutti_rule *rule, uint32_t v, uint32_t k)
{
    assert(k < rule->cube.dim_count);
    return v * rule->cube.dim_count + k;
}

static bool cube_link_class(const struct tutti_rule *rule, uint32_t i, struct tutti_rule_class *ret)
{
    *ret = (struct tutti_rule_class){.count = rule->link_count, .run = rule->link_count, .step = 1};
    return i == 0 && rule->link_count > 0;
}

const struct tutti_rule_ops tutti_rule_cube = {
    .node = cube_node,
    .name = cube_name,
    .link = cube_link,
    .links = cube_links,
    .rank_node = cube_rank_node,
    .out_count = cube_out_count,
    .out_link = cube_out_link,
    .link_class = cube_link_class,
};

struct tutti_rule tutti_rule_of_cube(uint32_t dim_count, const struct tutti_link *cable)
{
    struct tutti_rule rule = {.ops = &tutti_rule_cube,
                              .node_count = UINT32_C(1) << dim_count,
                              .rank_count = UINT32_C(1) << dim_count,
                              .link_count = dim_count << dim_count,
                              .cube = {.dim_count = dim_count, .cable = *cable}};

    return rule;
}
