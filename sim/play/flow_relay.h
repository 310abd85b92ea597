/* The common round of a lane in a ring, receive and pass on, many at a time. */
#ifndef TUTTI_SIM_PLAY_FLOW_RELAY_H
#define TUTTI_SIM_PLAY_FLOW_RELAY_H

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct tutti_flow;

/* Plays the next rounds of a lane as long as they are relays, messages are there and slots are
 * free; the times are those that the steps one by one give. False: the lane waits for a message.
 * *ret_count: how many rounds are then to be written and played step by step; perhaps 0. */
bool tutti_flow_relay(struct tutti_flow *flow, struct lane *lane, uint32_t id, uint32_t *ret_count);

#endif
