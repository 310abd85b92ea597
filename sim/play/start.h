/* When each rank begins. */
#ifndef TUTTI_SIM_PLAY_START_H
#define TUTTI_SIM_PLAY_START_H

#include "sim/net/net.h"
#include "sim/sim.h"

/* On a clock on which ranks that are not late begin at `launched_ps`. */
static inline tutti_ps tutti_rank_begin_ps(const struct tutti_sim_opts *opts, uint32_t rank,
                                           tutti_ps launched_ps)
{
    return opts->start_ps == NULL ? launched_ps : tutti_add_ps(launched_ps, opts->start_ps[rank]);
}

#endif
