/* Which algorithm and protocol AWS's tuner takes, by bytes and ranks: the figures of aws-ofi-nccl,
 * src/tuner/nccl_ofi_regions.cpp of 2025, for 8 GPUs a host. Where it draws an outer side on, up
 * to 100 GiB or 2^20 ranks, the end stands here. */
#ifndef TUTTI_SIM_NCCL_PLUGIN_REGIONS_H
#define TUTTI_SIM_NCCL_PLUGIN_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#include "sim/nccl/plugin.h"

enum { TUTTI_NCCL_VERTICES_MAX = 19 };

struct tutti_nccl_vertex {
    double bytes, ranks;
};

/* A polygon of bytes and ranks, straight where both are logarithms. */
struct tutti_nccl_region {
    uint8_t algorithm, protocol, vertex_count;
    struct tutti_nccl_vertex vertices[TUTTI_NCCL_VERTICES_MAX];
};

struct tutti_nccl_layout {
    const struct tutti_nccl_region *regions; /* the first that holds a point counts */
    size_t count;
};

/* Of an operation (enum tutti_nccl_function); none: no regions. */
const struct tutti_nccl_layout *tutti_nccl_plugin_layout(enum tutti_nccl_plugin plugin,
                                                         uint32_t function);

#endif
