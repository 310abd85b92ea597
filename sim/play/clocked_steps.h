/* How steps begin and end in a play by the clock. */
#ifndef TUTTI_SIM_PLAY_CLOCKED_STEPS_H
#define TUTTI_SIM_PLAY_CLOCKED_STEPS_H

#include <stdbool.h>
#include <stdint.h>

struct lane;
struct tutti_clocked;
struct tutti_err;

/* These return 0 or -TUTTI_ENOMEM; what else may be wrong ends the attempt. */

/* Begins the step that a lane is at. */
int tutti_clocked_begin(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err);

/* The time of a lane has come: its rank begins, or the step it was busy with is complete. */
int tutti_clocked_ring(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err);

int tutti_clocked_arrive(struct tutti_clocked *clocked, uint32_t message, struct tutti_err *err);

/* A lane is told that a SEND of it is complete: the message is no more. */
void tutti_clocked_forget(struct tutti_clocked *clocked, uint32_t message);

/* Takes lane and steps from the round they are at: true, or false if the lane has ended. */
bool tutti_clocked_next_step(struct tutti_clocked *clocked, uint32_t id);

#endif
