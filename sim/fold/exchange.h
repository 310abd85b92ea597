/* Folded play of schedules in which everybody exchanges messages with everybody, under `fair`. */
#ifndef TUTTI_SIM_FOLD_EXCHANGE_H
#define TUTTI_SIM_FOLD_EXCHANGE_H

#include "sim/fold/fold.h"

struct tutti_known_axes;

/* -TUTTI_ELACK and why where it cannot be done. `axes`: of the machine, see sim/fold/orbits.h. */
int tutti_exchange_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                        uint64_t step_count_max, struct tutti_known_axes *axes,
                        struct tutti_folded *ret, struct tutti_err *err);

#endif
