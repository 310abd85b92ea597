/* Folded play of schedules in which everybody exchanges messages with everybody, under `fair`. */
#ifndef TUTTI_SIM_FOLD_EXCHANGE_H
#define TUTTI_SIM_FOLD_EXCHANGE_H

#include "sim/fold/fold.h"

/* -TUTTI_ELACK and why where it cannot be done. */
int tutti_exchange_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                        uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err);

#endif
