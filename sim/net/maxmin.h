/* Max-min fair rates of flows over links, kept up as flows come and go. */
#ifndef TUTTI_SIM_NET_MAXMIN_H
#define TUTTI_SIM_NET_MAXMIN_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_memory;

/* A flow's stay on one link: a member of the list of active flows of that link. */
struct tutti_maxmin_hop {
    uint32_t link;
    uint32_t flow;
    uint32_t weight; /* flows that the flow stands for on this link */
    uint32_t next;   /* hop, or UINT32_MAX */
    uint32_t prev;
};

struct tutti_maxmin_flow {
    uint64_t hop_first; /* index in hops */
    uint32_t hop_count;
    uint32_t touched; /* number of the solve that saw it last */
    double rate;      /* bytes per second, as of the last solve that touched it */
    bool active;
    bool entered;  /* since the last solve */
    uint8_t state; /* enum tutti_maxmin_state, in the solve going on */
};

enum tutti_maxmin_state {
    TUTTI_MAXMIN_OPEN,   /* its rate is sought */
    TUTTI_MAXMIN_FROZEN, /* and found */
    TUTTI_MAXMIN_HELD,   /* it has the rate that it had, as far as is known */
    TUTTI_MAXMIN_BOOKED, /* and keeps it */
};

struct tutti_maxmin_link {
    double capacity;    /* bytes per second */
    double residual;    /* what the frozen flows leave */
    double level;       /* the rate at which it was full; infinite: it is not */
    uint32_t hop_first; /* of the list of active flows */
    uint32_t open_count;
    uint32_t fresh_count; /* flows frozen in this level */
    uint32_t touched;
    bool dirty; /* a flow came or went since the last solve */
};

/* Flows are numbers 0, 1, ... in the order of being added; only add takes memory. */
struct tutti_maxmin {
    struct tutti_maxmin_link *links;
    struct tutti_maxmin_flow *flows;
    struct tutti_maxmin_hop *hops;
    uint32_t *dirty;      /* [link_capacity] */
    uint32_t *some_links; /* [link_capacity] those of the solve going on */
    uint32_t *some_flows; /* [flow_capacity] the flows of the last solve that may have changed */
    uint32_t *held;       /* [flow_capacity] flows of the solve going on that keep their rates */
    uint32_t link_count;  /* those of flows of their own come last */
    uint32_t link_capacity;
    uint32_t flow_count;
    uint32_t flow_capacity;
    uint32_t some_capacity;
    uint32_t held_capacity;
    uint32_t held_count;
    uint32_t busy_count; /* links with active flows */
    uint32_t hop_count;
    uint32_t hop_capacity;
    uint32_t dirty_count;
    uint32_t some_flow_count;
    uint32_t solve_count;
    uint64_t look_count; /* at flows of links, in all solving since the reset */
    struct tutti_memory *memory;
};

int tutti_maxmin_init(struct tutti_maxmin *maxmin, const uint64_t *bytes_per_s, uint32_t count);
int tutti_maxmin_init_in(struct tutti_maxmin *maxmin, struct tutti_memory *memory,
                         const uint64_t *bytes_per_s, uint32_t count); /* sim/memory/memory.h */
void tutti_maxmin_done(struct tutti_maxmin *maxmin);
void tutti_maxmin_reset(struct tutti_maxmin *maxmin); /* all flows inactive */

/* One more flow, inactive, over links that are all different: 0 or -TUTTI_ENOMEM. It may stand for
 * a class of flows that come and go together: then `weights` (NULL: 1 each) are how many of the
 * class each link serves, a link stands for all that serve as many, and rates are those of the
 * single flows, bit for bit. A flow's rate can be limited (0: it is not): then it has one link
 * more, of that rate and its own. */
int tutti_maxmin_add(struct tutti_maxmin *maxmin, const uint32_t *links, const uint32_t *weights,
                     uint32_t link_count, uint64_t bytes_per_s_max);

void tutti_maxmin_enter(struct tutti_maxmin *maxmin, uint32_t flow);
void tutti_maxmin_leave(struct tutti_maxmin *maxmin, uint32_t flow);

/* Solves anew where flows entered or left since the last call; the flows whose rates may have
 * changed are in some_flows[0, some_flow_count). */
void tutti_maxmin_solve(struct tutti_maxmin *maxmin);

/* What solving is made of. Links whose shares differ by less than this freeze together: equal
 * shares that were computed in different ways differ in the last bits only. */
#define TUTTI_MAXMIN_SAME (1.0 + 1e-12)

static inline double tutti_maxmin_share(const struct tutti_maxmin_link *link)
{
    return link->residual / link->open_count;
}

/* Freezes a flow at `rate`; what it takes is booked when the level is closed. Closing keeps those
 * of some_links[0, count) that still have open flows, and returns how many. */
void tutti_maxmin_freeze(struct tutti_maxmin *maxmin, struct tutti_maxmin_flow *flow, double rate);
uint32_t tutti_maxmin_close_level(struct tutti_maxmin *maxmin, uint32_t count, double rate);

#endif
