/* Colour refinement of lanes, wires and links together: what a quotient is made of. */
#ifndef TUTTI_SIM_FOLD_COLOURS_H
#define TUTTI_SIM_FOLD_COLOURS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"
#include "sim/fold/programs.h"
#include "sim/protocol.h"

struct tutti_topo;

struct tutti_wire_type {
    tutti_ps latency_ps; /* of the links alone */
    enum tutti_hop hop;  /* slowest kind of link */
};

/* All wires with their ways over the links in use, and the colours: numbers 0, 1, ... in the order
 * of the first lane, wire or link that has them. */
struct tutti_colours {
    const struct tutti_programs *programs;
    const struct tutti_topo *topo;
    uint32_t *out_place; /* [wire]: among those of its sender; NULL: order does not count */
    uint32_t *in_place;
    uint32_t *sender;    /* [wire]: lane */
    uint32_t *way_first; /* [wire + 1] */
    uint32_t *way;       /* links, numbered by first use */
    uint32_t way_capacity;
    uint32_t *links;   /* [number]: link of the machine */
    uint32_t *numbers; /* [link of the machine]: number + 1, or 0 */
    uint32_t link_count;
    uint32_t link_capacity;
    struct tutti_wire_type types[1024];
    uint32_t type_count;
    uint32_t *type; /* [wire] */
    uint32_t *lane;
    uint32_t *wire;
    uint32_t *link;
    uint32_t lane_colours;
    uint32_t wire_colours;
    uint32_t link_colours;
};

/* Routes all wires and refines until nothing changes. The colours come from hashes of sums: they
 * are the coarsest equitable ones unless two hashes meet, so whoever relies on that checks it. */
int tutti_colours_find(const struct tutti_topo *topo, const struct tutti_programs *programs,
                       bool ordered, struct tutti_colours *ret, struct tutti_err *err);
void tutti_colours_done(struct tutti_colours *colours);

#endif
