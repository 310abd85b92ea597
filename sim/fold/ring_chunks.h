/* Rings whose chunks are of different lengths, as where the data cannot be cut into equal parts or
 * are fewer than the ranks: the longest way of a chunk around its ring. */
#ifndef TUTTI_SIM_FOLD_RING_CHUNKS_H
#define TUTTI_SIM_FOLD_RING_CHUNKS_H

#include "runtime/units.h"

struct tutti_err;
struct tutti_folded;
struct tutti_hops;
struct tutti_schedule;
struct tutti_sim_opts;

/* As tutti_fold_play. -TUTTI_ELACK where something else may hold chunks up, and what. `known`: hops
 * that were found before, and that go back there; NULL: none. */
int tutti_ring_chunks_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                           struct tutti_hops *known, struct tutti_folded *ret,
                           struct tutti_err *err);

/* Writes a time that every play takes at least, beside the launch, whatever else goes over the
 * links: 0 where the schedule is no such ring. 0 or -TUTTI_ENOMEM. */
int tutti_ring_chunks_least(const struct tutti_sim_opts *opts,
                            const struct tutti_schedule *schedule, struct tutti_hops *known,
                            tutti_ps *ret);

#endif
