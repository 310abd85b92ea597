/* How ends of a graph get to each other: NCCL's paths. */
#ifndef TUTTI_SIM_NCCL_PATHS_H
#define TUTTI_SIM_NCCL_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/rules.h"
#include "sim/nccl/system.h"

/* Fills system->ways, net_gpu: shortest ways first, the wider of equal ones; then what must go
 * through the CPU (no peer access, no GPUDirect) or may go through a neighbour (PXN). 2.28.9
 * paths.cc. */
int tutti_nccl_paths(struct tutti_nccl_system *system, const struct tutti_nccl_rules *rules,
                     struct tutti_arena *arena, struct tutti_err *err);

/* Whether some GPUs may not reach each other's memory: what they send then lies in the host's. */
bool tutti_nccl_uses_host_memory(const struct tutti_nccl_system *system,
                                 const struct tutti_nccl_rules *rules);

/* Ranks a rate among paths: the higher the rate, the lower the number, of TUTTI_PATH_RATE_BITS
 * bits. */
uint32_t tutti_nccl_rate_rank(int64_t whole_GBps);

/* Fills max and total rates, the bounds of a search (search.cc ncclTopoSearchInit). */
void tutti_nccl_rates(struct tutti_nccl_system *system);

/* Groups of GPUs that reach each other without the network: [GPU]: the lowest GPU of its group. */
void tutti_nccl_domains(const struct tutti_nccl_system *system, uint32_t *ret);

/* Whether exactly two sets of two GPUs or more are joined by NVLink within, but not to each other.
 */
bool tutti_nccl_nvlink_is_split(const struct tutti_nccl_system *system, uint32_t *scratch);

/* The nearest and the farthest type of all ways from GPUs to other GPUs, or to ports. */
uint8_t tutti_nccl_type_min(const struct tutti_nccl_system *system, enum tutti_nccl_kind to);
uint8_t tutti_nccl_type_max(const struct tutti_nccl_system *system, enum tutti_nccl_kind to);

#endif
