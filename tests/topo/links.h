/* Links of a machine taken out as an array, made slower, and put back. */
#ifndef TUTTI_TESTS_TOPO_LINKS_H
#define TUTTI_TESTS_TOPO_LINKS_H

#include <stdlib.h>

#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"

static inline struct tutti_link *take_links(const struct tutti_topo *topo)
{
    struct tutti_link *links = calloc((size_t)topo->link_count + 1, sizeof(*links));

    for (uint32_t l = 0; links != NULL && l < topo->link_count; l++)
        links[l] = tutti_topo_link(topo, l);
    return links;
}

static inline void link_from_array(const void *context, uint32_t index,
                                   struct tutti_link_change *ret)
{
    const struct tutti_link *link = (const struct tutti_link *)context + index;

    *ret = (struct tutti_link_change){
        .link = index, .bytes_per_s = link->bytes_per_s, .latency_ps = link->latency_ps};
}

/* Rates and latencies may be others now. Frees the array. */
static inline void put_links(struct tutti_topo *topo, struct tutti_link *links)
{
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_topo_change_links(topo, topo->link_count, link_from_array, links, &err), err);
    free(links);
}

#endif
