/* Taking a channel's rate from the links of a way, and giving it back. */
#ifndef TUTTI_SIM_NCCL_TAKE_H
#define TUTTI_SIM_NCCL_TAKE_H

#include "sim/nccl/walk.h"

/* An end of a way. */
struct tutti_nccl_end {
    enum tutti_nccl_kind kind;
    uint32_t place;
};

/* Takes `numerator`/`denominator` of the channel's rate (within the node or to ports, by what the
 * ends are) from every link; false, and nothing is taken, where the type is not allowed or a link
 * has less left. Types count for whole rates only (search.cc ncclTopoFollowPath). */
bool tutti_nccl_reserve(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                        struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator);
void tutti_nccl_give(struct tutti_nccl_walk *walk, struct tutti_nccl_end from,
                     struct tutti_nccl_end to, uint32_t numerator, uint32_t denominator);

#endif
