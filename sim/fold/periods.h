/* Pipelines under `alphabeta` whose rounds repeat after a while. */
#ifndef TUTTI_SIM_FOLD_PERIODS_H
#define TUTTI_SIM_FOLD_PERIODS_H

#include "sim/fold/fold.h"

/* Plays every rank by the clock, and skips rounds once they repeat. -TUTTI_ELACK and why where they
 * do not in time, or it cannot be done; and without a word what is no such pipeline, or a short
 * one. ret->class_count is 0 where nothing was skipped. */
int tutti_periods_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err);

#endif
