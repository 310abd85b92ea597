/* What calls and messages of a step take by themselves: simulated once, and remembered. */
#ifndef TUTTI_SIM_STEP_PRICE_H
#define TUTTI_SIM_STEP_PRICE_H

#include "sim/step.h"
#include "sim/step/tuples.h"

struct tutti_step;

struct tutti_step_prices {
    const struct tutti_step_opts *opts;
    struct tutti_tuples calls; /* (callee, axis) */
    struct tutti_tuples messages;
    tutti_ps *call_ps; /* [number of the tuple] */
    tutti_ps *message_ps;
    uint32_t call_capacity;
    uint32_t message_capacity;
};

/* What a route is: latency of all its links, rate of the narrowest, and how many of which kind. */
enum { TUTTI_ROUTE_WORDS = 3 };
void tutti_step_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                      uint64_t words[TUTTI_ROUTE_WORDS]);

/* Callee `callee` played by all groups of axis `number` at once: until the last rank ends. */
int tutti_step_call_ps(struct tutti_step_prices *prices, uint32_t callee, uint32_t number,
                       tutti_ps *ret, struct tutti_err *err);
/* From the start of a SEND until its message has arrived, nothing else being under way. */
int tutti_step_message_ps(struct tutti_step_prices *prices, uint32_t from, uint32_t to,
                          uint64_t bytes, tutti_ps *ret, struct tutti_err *err);
void tutti_step_prices_done(struct tutti_step_prices *prices);

#endif
