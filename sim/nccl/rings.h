/* Rings that are given instead of searched for: what a graph file of NCCL holds (search.cc
 * ncclTopoGetGraphFromXml), of rings, on one node. NCCL_GRAPH_FILE names a file, and nothing here
 * reads one: it is given as "12:0-1-2-3/0-3-2-1", the GB/s of a channel and the GPUs of each, by
 * their number in the host. */
#ifndef TUTTI_SIM_NCCL_RINGS_H
#define TUTTI_SIM_NCCL_RINGS_H

#include <stdint.h>

#include "sim/nccl/candidate.h"

struct tutti_arena;
struct tutti_err;

enum { TUTTI_NCCL_RINGS_MAX = 16, TUTTI_NCCL_RING_GPUS_MAX = 16 };

struct tutti_nccl_rings {
    int64_t count; /* 0: none, they are searched for */
    int64_t gpu_count;
    int64_t kbyte_per_s;
    uint8_t gpus[TUTTI_NCCL_RINGS_MAX][TUTTI_NCCL_RING_GPUS_MAX];
};

/* -TUTTI_EINVAL unless each ring has the same GPUs, from 0 on, once. */
int tutti_nccl_read_rings(const char *value, struct tutti_nccl_rings *ret, struct tutti_err *err);

/* The graph of them. -TUTTI_EINVAL for a system with ports, or of other GPUs. */
int tutti_nccl_draw_rings(const struct tutti_nccl_system *system,
                          const struct tutti_nccl_rings *rings, struct tutti_arena *arena,
                          struct tutti_nccl_candidate *ret, struct tutti_err *err);

#endif
