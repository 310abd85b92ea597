/* What the busiest link of a machine needs for what a schedule sends over it: a time below which no
 * play of it ends, at a fraction of the price of one. */
#ifndef TUTTI_SIM_PLAY_BUSIEST_H
#define TUTTI_SIM_PLAY_BUSIEST_H

#include <stdint.h>

#include "runtime/units.h"

struct tutti_err;
struct tutti_schedule;
struct tutti_sim_opts;

/* Counts what each link of opts->topo carries, in bytes of messages: by the model, under
 * `alphabeta` first links alone, as others serve any number of messages at once. It walks all
 * programs. The caller frees *ret [link_count]. */
int tutti_busiest_loads(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                        uint64_t **ret, struct tutti_err *err);

/* No play under opts->protocol takes less. 0 where links have token buckets, which hold more. */
tutti_ps tutti_busiest_least_ps(const struct tutti_sim_opts *opts, const uint64_t *loads);

#endif
