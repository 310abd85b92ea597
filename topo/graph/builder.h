/* The inside of a machine under construction, and the passes that freeze it. */
#ifndef TUTTI_TOPO_GRAPH_BUILDER_H
#define TUTTI_TOPO_GRAPH_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/graph/graph.h"
#include "topo/graph/routes.h"
#include "topo/topo.h"

struct tutti_topo_builder {
    struct tutti_arena *arena; /* names and orders; becomes the arena of the frozen machine */
    const char *name;
    const char *source;
    struct tutti_node *nodes; /* malloc, growing */
    struct tutti_link *links;
    uint32_t node_count;
    uint32_t node_capacity;
    uint32_t link_count;
    uint32_t link_capacity;
    struct tutti_shape shape; /* what was declared; orders copied to the arena */
    struct tutti_routes routes;
    const struct tutti_rule *rule;         /* NULL: nodes and links are added one by one */
    const struct tutti_hardware *hardware; /* in the arena */
    enum tutti_net_kind net_kind;
};

/* What is about to be added, before anything is: refuses what would not fit in memory (links are
 * directed). A machine of the most links takes about 7 GB. */
enum { TUTTI_TOPO_NODES_MAX = 1 << 25, TUTTI_TOPO_LINKS_MAX = 1 << 26 };
int tutti_topo_expect(const struct tutti_topo_builder *builder, uint64_t nodes, uint64_t links,
                      struct tutti_err *err);

/* Lay out nodes, ranks and merged links of the builder in `graph`, and count them in `topo`. */
int tutti_freeze_nodes(struct tutti_topo_builder *builder, struct tutti_topo *topo,
                       struct tutti_graph *graph, struct tutti_err *err);
int tutti_freeze_links(struct tutti_topo_builder *builder, struct tutti_topo *topo,
                       struct tutti_graph *graph, struct tutti_err *err);
/* Makes topo->router from the plan; refuses a machine in which a rank cannot reach another. */
int tutti_freeze_routes(struct tutti_topo *topo, const struct tutti_routes *routes,
                        struct tutti_err *err);
/* Checks what was declared of the shape and derives the rest. */
int tutti_freeze_shape(struct tutti_topo *topo, const struct tutti_shape *declared,
                       struct tutti_err *err);
/* Looks for ring orders where devices of one host are wired directly; none found is no error. */
int tutti_find_orders(const struct tutti_topo *topo, struct tutti_shape *shape,
                      struct tutti_err *err);

#endif
