/* The common round of a lane in a ring, receive and pass on, many at a time. */
#ifndef TUTTI_SIM_PLAY_FLOW_RELAY_H
#define TUTTI_SIM_PLAY_FLOW_RELAY_H

#include <stdint.h>

struct lane;
struct tutti_flow;
struct tutti_round;

/* Plays of rounds[0, count), the next of the lane, those that come first, have that form, and need
 * wait for no other lane; returns how many. The times are those that the steps one by one give. */
uint32_t tutti_flow_relay(struct tutti_flow *flow, struct lane *lane,
                          const struct tutti_round *rounds, uint32_t count);

#endif
