/* Searched routes: fewest hops, then the widest bottleneck, then the lowest link index. */
#ifndef TUTTI_TOPO_ROUTES_SEARCH_H
#define TUTTI_TOPO_ROUTES_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"

struct tutti_err;

/* Scratch memory of searches towards one node at a time, among nodes [begin, end) only. */
struct tutti_search {
    const struct tutti_topo *topo;
    uint32_t begin;
    uint32_t end;
    bool nics_forward;  /* else NICs are ends only: inside a host, they lead nowhere */
    uint32_t *in_first; /* [end - begin + 1]: like topo->out_first, for links that arrive */
    uint32_t *in_links;
    uint32_t *queue; /* nodes reached, nearest first */
    uint32_t reached;
    uint32_t *hops; /* by node - begin; UINT32_MAX: not reached */
    uint32_t *next; /* the link a node passes it on over; UINT32_MAX: none */
    uint64_t *width;
};

int tutti_search_open(struct tutti_search *search, const struct tutti_topo *topo, uint32_t begin,
                      uint32_t end, struct tutti_err *err);
void tutti_search_close(struct tutti_search *search);

/* Finds how every node passes on what is for node `to`. Devices do so only if `devices_forward`,
 * and then only from and to links of direct networks (nvlink, xgmi, ici, generic). */
void tutti_search_to(struct tutti_search *search, uint32_t to, bool devices_forward);

/* The first link from node `from`, as an origin, towards the last `to`; UINT32_MAX: no route. */
uint32_t tutti_search_first(const struct tutti_search *search, uint32_t from);

#endif
