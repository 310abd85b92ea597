/* Steps of a play by data flow that depend on others: when those were complete. */
#ifndef TUTTI_SIM_PLAY_FLOW_AWAIT_H
#define TUTTI_SIM_PLAY_FLOW_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct tutti_flow;
struct tutti_step;

/* Lets a lane wait, if it must, for what its next step depends on. True: it goes on, its time set
 * forward; false: it has to wait until it is woken, or the attempt is over. */
bool tutti_flow_await(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                      const struct tutti_step *step);

/* Wakes the lanes that wait for a step of this one: it has got on, or a SEND of it was taken. */
void tutti_flow_wake_waiters(struct tutti_flow *flow, struct lane *lane);

#endif
