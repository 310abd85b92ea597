/* In which order a walk looks at ports and GPUs. */
#ifndef TUTTI_SIM_NCCL_NEXT_H
#define TUTTI_SIM_NCCL_NEXT_H

#include "sim/nccl/walk.h"

/* The ports to try for a GPU (or, for the number of GPUs, for all of them) within the type allowed,
 * preferred ones first; how many. `ret` may be NULL. */
uint32_t tutti_nccl_net_list(const struct tutti_nccl_walk *walk, uint32_t gpu,
                             const uint32_t **ret);

/* Writes the list of the level on top of the stack: the GPUs to try after `gpu`, number `step` of
 * the channel, which leaves the node at step `to_net` (-1: never, or it has left). */
uint32_t tutti_nccl_next_gpus(struct tutti_nccl_walk *walk, uint32_t gpu, int32_t step,
                              int32_t to_net);

/* Makes the lists for walk->now.type_inter, once a type. -TUTTI_ENOMEM. */
int tutti_nccl_lists_make(struct tutti_nccl_walk *walk);

/* What a port has near, what a GPU prefers: once a walk. */
int tutti_nccl_lists_init(struct tutti_nccl_walk *walk);

#endif
