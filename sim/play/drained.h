/* What a play of all ranks tells who plays the same schedule under other protocols. */
#ifndef TUTTI_SIM_PLAY_DRAINED_H
#define TUTTI_SIM_PLAY_DRAINED_H

#include "runtime/units.h"

struct tutti_backend;

/* The most that a message took beyond its latency in the last play of a simulator, which is open;
 * -1: that is not known. */
tutti_ps tutti_sim_drain_ps_max(const struct tutti_backend *backend);

#endif
