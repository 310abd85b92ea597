/* The simulator as a shaper (runtime/shaper.h): its network models, routes and protocol costs for a
 * backend that really moves data and keeps this machine's time. */
#ifndef TUTTI_SIM_SHAPER_H
#define TUTTI_SIM_SHAPER_H

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_shaper;
struct tutti_sim_opts;

/* A message takes what it takes in the simulator with these options: latency of its route and
 * protocol, slice and rate of its connection, and its share of the links; so do launch, REDUCE and
 * COPY. Of the options topo (borrowed, must outlive), model, protocol (likewise),
 * reduce_bytes_per_s and compute_ps count; -TUTTI_EINVAL for jitter and start times, which are not
 * modelled. */
int tutti_sim_shaper_open(const struct tutti_sim_opts *opts, struct tutti_shaper **ret,
                          struct tutti_err *err);

TUTTI_API_END

#endif
