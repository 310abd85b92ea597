/* Folded play of rings whose chunks are so short that none ever waits for another, under `fair`. */
#ifndef TUTTI_SIM_FOLD_CHAINS_H
#define TUTTI_SIM_FOLD_CHAINS_H

#include "sim/fold/fold.h"

/* -TUTTI_ELACK and why where it cannot be done. */
int tutti_chains_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err);

#endif
