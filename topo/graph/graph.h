/* How a frozen machine keeps its nodes and links: listed one by one, or by a rule. */
#ifndef TUTTI_TOPO_GRAPH_GRAPH_H
#define TUTTI_TOPO_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo/topo.h"

struct tutti_rule;

struct tutti_link_value {
    uint64_t bytes_per_s;
    tutti_ps latency_ps;
};

/* Links whose rate and latency are not those of the list or the rule. A bit a link says which, so
 * that asking for one of the others costs next to nothing. */
struct tutti_link_changes {
    uint32_t count;
    bool latencies;         /* not only rates were changed */
    const uint64_t *bits;   /* [link_count / 64 + 1] */
    const uint32_t *before; /* [link_count / 64 + 1]: bits set in earlier words */
    const uint32_t *value;  /* [count], by link: index in values */
    uint32_t value_count;
    const struct tutti_link_value *values;
};

struct tutti_graph {
    const struct tutti_rule *rule; /* NULL: all of these are listed */
    const struct tutti_node *nodes;
    const struct tutti_link *links;
    const uint32_t *rank_node;
    const uint32_t *out_first; /* [node_count + 1]: out_links[out_first[v] ..] leave node v */
    const uint32_t *out_links; /* by `from`, then by index */
    const struct tutti_link_changes *changes; /* NULL: none */
};

/* The changed rate and latency of a link, or NULL. */
static inline const struct tutti_link_value *
tutti_link_changed(const struct tutti_link_changes *changes, uint32_t link)
{
    uint64_t word = changes->bits[link / 64];
    uint64_t bit = UINT64_C(1) << link % 64;

    if ((word & bit) == 0)
        return NULL;
    return &changes->values[changes->value[changes->before[link / 64] +
                                           (uint32_t)__builtin_popcountll(word & (bit - 1))]];
}

/* Up to `capacity` of the links that leave a node, from number `first` on; returns how many there
 * were. Changed links are as changed. */
uint32_t tutti_graph_out_links(const struct tutti_topo *topo, uint32_t node, uint32_t first,
                               struct tutti_link *links, uint32_t capacity);

/* Spines that are all alike, to which each leaf has one cable each: of links from `link_first` on,
 * number 2 * (leaf * count + spine) is up, the next down. No spines: count is 1, and link_first the
 * count of all links. */
struct tutti_spines {
    uint32_t node_first;
    uint32_t count;
    uint32_t link_first;
};
struct tutti_spines tutti_graph_spines(const struct tutti_topo *topo);

/* Hosts that are copies of one: host h has nodes h * node_count .. (h + 1) * node_count - 1, and
 * the same of ranks, and of the links inside it. No such hosts: host_count is 0. */
struct tutti_copies {
    uint32_t host_count;
    uint32_t node_count; /* of a host */
    uint32_t rank_count; /* at least 1 */
    uint32_t link_count; /* both ends in the host */
};
struct tutti_copies tutti_graph_copies(const struct tutti_topo *topo);

/* Is any of links [first, first + count) changed? O(1). */
bool tutti_graph_any_changed(const struct tutti_topo *topo, uint32_t first, uint32_t count);

/* The rule of a machine whose links are all as it says; NULL: none, or links were changed. */
const struct tutti_rule *tutti_graph_rule(const struct tutti_topo *topo);

#endif
