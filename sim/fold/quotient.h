/* The quotient of a schedule on a machine: classes of lanes, of wires and of links that behave
 * alike under `fair`, each with how many there are and how they meet. */
#ifndef TUTTI_SIM_FOLD_QUOTIENT_H
#define TUTTI_SIM_FOLD_QUOTIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/protocol.h"

struct tutti_err;
struct tutti_programs;
struct tutti_topo;

/* A lane that stands for all of its class. */
struct tutti_quotient_lane {
    uint32_t rank;
    uint32_t lane;
    uint32_t size;      /* lanes of the class */
    uint32_t dep;       /* class of the lane of its rank that it waits for, or UINT32_MAX */
    uint32_t out_first; /* in out_wire: classes of the wires it sends over, in order of first use */
    uint32_t out_count;
    uint32_t in_first; /* in in_wire: those it receives over */
    uint32_t in_count;
};

/* A wire that stands for all of its class: connections of like lanes over like links. */
struct tutti_quotient_wire {
    uint32_t sender; /* class of lanes */
    uint32_t receiver;
    uint32_t out_count;  /* wires of the class that a sender has */
    uint32_t in_count;   /* that a receiver has */
    enum tutti_hop hop;  /* slowest kind of link on the way, see sim/protocol.h */
    tutti_ps latency_ps; /* of the links alone */
    uint32_t way_first;  /* in ways */
    uint32_t way_count;
};

/* A wire's way over the links of a class: each of these serves `weight` wires of its class. */
struct tutti_quotient_way {
    uint32_t link;
    uint32_t weight;
};

struct tutti_quotient {
    uint32_t lane_count;
    uint32_t wire_count;
    uint32_t link_count;
    uint32_t way_count;
    uint32_t rank_classes; /* different ranks, as far as lanes tell them apart */
    struct tutti_quotient_lane *lanes;
    struct tutti_quotient_wire *wires;
    struct tutti_quotient_way *ways;
    /* A link stands for all that serve the same: by kind, the rate of the narrowest of them, or 0
     * where there is none of the kind. */
    uint64_t (*link_rates)[TUTTI_HOP_COUNT];
    uint32_t *out_wire; /* indexed as lanes say */
    uint32_t *out_rank; /* the peers of the representative lanes, indexed likewise */
    uint32_t *in_wire;
    uint32_t *in_rank;
};

/* What crosses the busiest link of each kind takes it, as it is without a protocol. */
struct tutti_hop_loads {
    tutti_ps ps[TUTTI_HOP_COUNT];
};

/* Finds the coarsest in which like lanes have like wires in the same order of first use.
 * `ordered`: no two wires of a lane are alike; else those that lead to like lanes over like links
 * are. -TUTTI_ELACK and why if there is none worth it. */
int tutti_quotient_find(const struct tutti_topo *topo, const struct tutti_schedule *schedule,
                        bool ordered, struct tutti_quotient *ret, struct tutti_err *err);

/* The same of programs that were read, `per_rank` lanes of each rank; of what they say it matters
 * alone which are the same, and who sends to whom. */
int tutti_quotient_make(const struct tutti_topo *topo, const struct tutti_programs *programs,
                        uint32_t per_rank, bool ordered, struct tutti_quotient *ret,
                        struct tutti_err *err);
void tutti_quotient_done(struct tutti_quotient *quotient);

/* What a link carries in a second under a protocol (or NULL). */
uint64_t tutti_quotient_rate(const struct tutti_quotient *quotient,
                             const struct tutti_protocol *protocol, uint32_t link);

#endif
