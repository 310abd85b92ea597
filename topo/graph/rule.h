/* Rules that say what the nodes and links of a regular machine are, instead of lists of them. */
#ifndef TUTTI_TOPO_GRAPH_RULE_H
#define TUTTI_TOPO_GRAPH_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/shape.h"
#include "topo/routes/tree.h"
#include "topo/topo.h"

struct tutti_arena;
struct tutti_err;
struct tutti_rule;

/* Links alike, also in the kinds of their ends: `run` of them `step` apart, and the next such run
 * `stride` after it. */
struct tutti_rule_class {
    uint32_t first;
    uint32_t count;
    uint32_t run;
    uint32_t step;
    uint32_t stride;
};

/* The questions of topo.h; nodes come without names. The answers are those of a machine that was
 * listed in the same order: tests/topo/rule_test.c. */
struct tutti_rule_ops {
    struct tutti_node (*node)(const struct tutti_rule *rule, uint32_t v);
    void (*name)(const struct tutti_rule *rule, uint32_t v, char *buf);
    struct tutti_link (*link)(const struct tutti_rule *rule, uint32_t l);
    /* One that differs from link l in its ends only. NULL: none is at hand. */
    const struct tutti_link *(*like)(const struct tutti_rule *rule, uint32_t l);
    /* Links [first, first + count), which are there. */
    void (*links)(const struct tutti_rule *rule, uint32_t first, uint32_t count,
                  struct tutti_link *ret);
    uint32_t (*rank_node)(const struct tutti_rule *rule, uint32_t rank);
    uint32_t (*out_count)(const struct tutti_rule *rule, uint32_t v);
    uint32_t (*out_link)(const struct tutti_rule *rule, uint32_t v, uint32_t k);
    /* Links number k, k + 1, ... of those that leave v: `count`, which are there. NULL: asked for
     * one by one. */
    void (*out_links)(const struct tutti_rule *rule, uint32_t v, uint32_t k, uint32_t count,
                      struct tutti_link *ret);
    /* Class number i of links that are alike; classes may be alike themselves. False: there are not
     * so many. */
    bool (*link_class)(const struct tutti_rule *rule, uint32_t i, struct tutti_rule_class *ret);
};

/* A grid whose axes are all rings of more than 2; axes of length 1 are left out. Rank r is node r.
 * Cables: rank by rank, and axis by axis to the next one up; links 2c (up) and 2c + 1 (down). */
struct tutti_grid_rule {
    uint32_t axis_count;
    uint32_t length[TUTTI_DIMS_MAX];
    uint32_t stride[TUTTI_DIMS_MAX];
    struct tutti_link cable; /* the ends are not used */
};

/* A hypercube: rank r is node r, and link r * dim_count + b leads to rank r ^ 1 << b. */
struct tutti_cube_rule {
    uint32_t dim_count;
    struct tutti_link cable; /* the ends are not used */
};

/* A fat tree as in routes/tree.h. */
struct tutti_tree_rule {
    struct tutti_tree tree;
    struct tutti_link device; /* to its leaf switch */
    tutti_ps device_down_ps;  /* the latency of the way back */
    struct tutti_link between;
    bool reduces; /* switches do */
};

/* Copies of a host and their network, numbered as in routes/cluster.c. */
struct tutti_cluster_rule {
    struct tutti_topo host; /* listed; its memory is that of the rule's machine */
    bool dotted;            /* names are "host2/gpu3", not "gpu2.3" */
    uint32_t host_count;
    uint32_t nic_count;
    uint32_t group_hosts;
    uint32_t group_count;
    uint32_t spine_count;
    bool reduces;                     /* leaves and spines do */
    const uint32_t *nics;             /* [nic_count]: nodes of host 0 */
    const uint32_t *node_nic;         /* [host nodes]: its number in nics, or UINT32_MAX */
    const struct tutti_link *cables;  /* [nic_count]: NIC to leaf; the ends are not used */
    const struct tutti_link *uplinks; /* [nic_count]: leaf of this rail to a spine */
};

struct tutti_rule {
    const struct tutti_rule_ops *ops;
    uint32_t node_count;
    uint32_t link_count;
    uint32_t rank_count;
    uint32_t host_count;
    struct tutti_grid_rule grid;
    struct tutti_cube_rule cube;
    struct tutti_tree_rule tree;
    struct tutti_cluster_rule cluster;
};

extern const struct tutti_rule_ops tutti_rule_grid;
extern const struct tutti_rule_ops tutti_rule_cube;
extern const struct tutti_rule_ops tutti_rule_tree;
extern const struct tutti_rule_ops tutti_rule_cluster;

/* Fill in counts and derived fields; sizes were checked. */
struct tutti_rule tutti_rule_of_grid(const struct tutti_shape *shape,
                                     const struct tutti_link *cable);
struct tutti_rule tutti_rule_of_cube(uint32_t dim_count, const struct tutti_link *cable);
struct tutti_rule tutti_rule_of_tree(const struct tutti_tree_rule *tree);
struct tutti_rule tutti_rule_of_cluster(const struct tutti_cluster_rule *cluster);

/* Is this a grid that the rule can say? */
bool tutti_rule_has_grid(const struct tutti_shape *shape);

/* Has one of its links a token bucket? */
bool tutti_rule_has_bursts(const struct tutti_rule *rule);

/* Gives the machine to be a rule for its nodes and links; nothing may be added to it. Copied, but
 * not what it points to: that lies in the builder's arena. */
int tutti_topo_set_rule(struct tutti_topo_builder *builder, const struct tutti_rule *rule,
                        struct tutti_err *err);

#endif
