/* Folded play of trees in which one message goes over each edge, on one switch. */
#ifndef TUTTI_SIM_FOLD_TREES_H
#define TUTTI_SIM_FOLD_TREES_H

#include "sim/fold/fold.h"

/* -TUTTI_ELACK and why where it cannot be done. */
int tutti_trees_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                     struct tutti_folded *ret, struct tutti_err *err);

#endif
