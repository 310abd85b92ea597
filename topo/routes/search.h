/* Searched routes: fewest hops, then the widest bottleneck, then the lowest link index. */
#ifndef TUTTI_TOPO_ROUTES_SEARCH_H
#define TUTTI_TOPO_ROUTES_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"

struct tutti_err;

/* A link as a search sees it, from either end; only links among the nodes of the search. */
struct tutti_arc {
    uint32_t link;
    uint32_t node; /* the other end, as node - begin */
    uint64_t bytes_per_s;
    bool forwards; /* of a direct network: devices pass on from and to it */
};

/* Scratch memory of searches towards one node at a time, among nodes [begin, end) only. */
struct tutti_route_search {
    const struct tutti_topo *topo;
    uint32_t begin;
    uint32_t end;
    bool nics_forward;   /* else NICs are ends only: inside a host, they lead nowhere */
    uint8_t *kind;       /* [end - begin]: enum tutti_node_kind */
    uint32_t *out_first; /* [end - begin + 1]: outs[out_first[v] ..] leave v, by index */
    uint32_t *in_first;  /* the same of ins, which arrive */
    struct tutti_arc *outs;
    struct tutti_arc *ins;
    uint32_t *queue; /* node - begin of those reached, nearest first */
    uint32_t reached;
    uint32_t *hops; /* by node - begin; UINT32_MAX: not reached */
    uint32_t *next; /* the link a node passes it on over; UINT32_MAX: none */
    uint64_t *width;
};

int tutti_route_search_open(struct tutti_route_search *search, const struct tutti_topo *topo,
                            uint32_t begin, uint32_t end, struct tutti_err *err);
void tutti_route_search_close(struct tutti_route_search *search);

/* Finds how every node passes on what is for node `to`. Devices do so only if `devices_forward`,
 * and then only from and to links of direct networks (nvlink, xgmi, ici, generic). */
void tutti_route_search_to(struct tutti_route_search *search, uint32_t to, bool devices_forward);

/* The first link from node `from`, as an origin, towards the last `to`; UINT32_MAX: no route. */
uint32_t tutti_route_search_first(const struct tutti_route_search *search, uint32_t from);

#endif
