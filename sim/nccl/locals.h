/* Which ports are a GPU's own, and which GPU is a port's. */
#ifndef TUTTI_SIM_NCCL_LOCALS_H
#define TUTTI_SIM_NCCL_LOCALS_H

#include <stdint.h>

#include "sim/nccl/rules.h"
#include "sim/nccl/system.h"

/* Those of kind `to` that `from` reaches at the highest rate and, of those, nearest; how many. */
uint32_t tutti_nccl_nearest_nics(const struct tutti_nccl_system *system,
                                 enum tutti_nccl_kind from_kind, uint32_t from,
                                 enum tutti_nccl_kind to_kind, uint32_t *ret);

/* The port that a GPU prefers for a channel. `scratch` has room for all GPUs and ports, twice. */
uint32_t tutti_nccl_local_net(const struct tutti_nccl_system *system,
                              const struct tutti_nccl_rules *rules, uint32_t gpu, uint32_t channel,
                              uint32_t *scratch);

/* The first GPU near the port that prefers it for some channel; -1: there is none. */
int32_t tutti_nccl_local_gpu(const struct tutti_nccl_system *system,
                             const struct tutti_nccl_rules *rules, uint32_t net, uint32_t *scratch);

#endif
