/* What calls and messages of a step take by themselves: simulated once, and remembered. */
#ifndef TUTTI_SIM_STEP_PRICE_H
#define TUTTI_SIM_STEP_PRICE_H

#include "sim/step.h"
#include "sim/step/tuples.h"

struct tutti_arena;
struct tutti_step;

struct tutti_step_prices {
    const struct tutti_step_opts *opts;
    struct tutti_tuples calls; /* (callee, axis) */
    struct tutti_tuples messages;
    struct tutti_call_price **call; /* [number of the tuple], in the arena */
    tutti_ps *message_ps;
    uint32_t call_capacity;
    uint32_t message_capacity;
    struct tutti_arena *arena; /* borrowed */
};

/* What a route is: latency of all its links, rate of the narrowest, and how many of which kind. */
enum { TUTTI_ROUTE_WORDS = 3 };
void tutti_step_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                      uint64_t words[TUTTI_ROUTE_WORDS]);

/* Callee `callee` played by all groups of axis `number` at once: until the last rank ends, and what
 * it uses. *ret lasts as long as the prices. */
int tutti_step_call_price(struct tutti_step_prices *prices, uint32_t callee, uint32_t number,
                          const struct tutti_call_price **ret, struct tutti_err *err);
/* The same, simulated: by the callee as it stands, whoever else says prices. */
int tutti_step_simulate_call(struct tutti_step_prices *prices, uint32_t callee, uint32_t number,
                             struct tutti_call_price *ret, struct tutti_err *err);
/* From the start of a SEND until its message has arrived, nothing else being under way. */
int tutti_step_message_ps(struct tutti_step_prices *prices, uint32_t from, uint32_t to,
                          uint64_t bytes, tutti_ps *ret, struct tutti_err *err);
/* The link shares of a schedule of all ranks that takes `ret->alone_ps`: of the links that leave
 * the hosts of some ranks (a rank in no host: its own), what crosses them at the rate they have. */
int tutti_step_link_shares(const struct tutti_step_opts *opts,
                           const struct tutti_schedule *schedule, struct tutti_call_price *ret,
                           struct tutti_err *err);
void tutti_step_prices_done(struct tutti_step_prices *prices);

#endif
