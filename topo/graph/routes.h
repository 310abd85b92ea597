/* How routes are found: the plan a builder is given, and what freeze makes of it. */
#ifndef TUTTI_TOPO_GRAPH_ROUTES_H
#define TUTTI_TOPO_GRAPH_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"

struct tutti_err;

enum tutti_routes_kind {
    TUTTI_ROUTES_SEARCH,  /* fewest hops, widest bottleneck, lowest link index */
    TUTTI_ROUTES_GRID,    /* dimension order, the shorter way round, ties to +1; see skew */
    TUTTI_ROUTES_CLUSTER, /* equal hosts, rails of leaf switches, spines: see cluster.h */
    TUTTI_ROUTES_CUBE,    /* 2^d ranks: the bits that differ, lowest first */
    TUTTI_ROUTES_TREE,    /* fat tree: up, then down; spines by destination */
    TUTTI_ROUTES_KIND_COUNT
};

enum { TUTTI_ROUTES_ARGS_MAX = 8 };

/* args of GRID: skew of a twisted torus: args[0]: crossing the wrap of axis 0 upwards moves
 * args[0] along axis 1 and args[1] along axis 2; crossing that of axis 1 moves args[2] along axis 2
 * (Camara et al. 2010, "Twisted torus topologies"). All 0: a plain torus or mesh.
 * args of TREE: arity, levels, uplinks of a leaf switch.
 * args of CLUSTER: hosts, NICs a host, hosts a leaf group, spines. */
struct tutti_routes {
    uint32_t kind; /* enum tutti_routes_kind */
    uint32_t args[TUTTI_ROUTES_ARGS_MAX];
};

/* Asks for closed-form routes. Freeze checks that the graph fits and refuses it otherwise. */
void tutti_topo_set_routes(struct tutti_topo_builder *builder, const struct tutti_routes *routes);

/* Whether routes leave a choice between spines: clusters with two and more, fat trees. */
bool tutti_topo_routes_choose(const struct tutti_topo *topo);

/* From now on the spine of a flow is drawn, by a hash of `key` and of the NICs (in fat trees the
 * devices) that it comes from and goes to, as switches with equal-cost multipath (ECMP, RFC 2992)
 * do: so some spines serve several flows, and others none. Without it flows are spread evenly, by
 * where they go. All that goes between two NICs is one flow, whatever its lane. -TUTTI_ENOMEM. */
int tutti_topo_routes_draw(struct tutti_topo *topo, uint64_t key, struct tutti_err *err);

/* Whether that was done. */
bool tutti_topo_routes_drawn(const struct tutti_topo *topo);

/* The plan a frozen machine was built with (SEARCH if none). */
struct tutti_routes tutti_topo_routes(const struct tutti_topo *topo);

#endif
