/* What differs between versions of NCCL, as data: the constants of its tuning model and the rules
 * that came or went. */
#ifndef TUTTI_SIM_NCCL_VERSION_H
#define TUTTI_SIM_NCCL_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl.h"

enum { TUTTI_WIRE_NVLINK, TUTTI_WIRE_PCI, TUTTI_WIRE_NET, TUTTI_WIRE_COUNT };
enum {
    TUTTI_GPU_VOLTA,
    TUTTI_GPU_AMPERE,
    TUTTI_GPU_HOPPER,
    TUTTI_GPU_BLACKWELL,
    TUTTI_GPU_CLASS_COUNT
};
enum { TUTTI_NCCL_ONE_NODE, TUTTI_NCCL_TWO_NODES, TUTTI_NCCL_MANY_NODES, TUTTI_NCCL_SCALES };
enum { TUTTI_NCCL_CORRECTIONS_MAX = 24 };

/* NCCL's tables (graph/tuning.cc); us and GB/s. */
struct tutti_nccl_constants {
    double base_us[TUTTI_NCCL_ALGORITHM_COUNT][TUTTI_NCCL_PROTOCOL_COUNT];
    double step_us[TUTTI_WIRE_COUNT][TUTTI_NCCL_ALGORITHM_COUNT][TUTTI_NCCL_PROTOCOL_COUNT];
    double ll_GBps[TUTTI_GPU_CLASS_COUNT]
                  [TUTTI_NCCL_SCALES]; /* of a communicator; the others a channel */
    double ring_ll128_GBps[TUTTI_GPU_CLASS_COUNT][TUTTI_NCCL_SCALES];
    double tree_ll128_GBps[TUTTI_GPU_CLASS_COUNT][TUTTI_NCCL_SCALES];
    double tree_GBps[TUTTI_GPU_CLASS_COUNT][TUTTI_NCCL_SCALES];
    double nvls_tree_GBps[TUTTI_GPU_CLASS_COUNT][TUTTI_NCCL_SCALES];
    double nvls_efficiency[TUTTI_GPU_CLASS_COUNT];
    /* Factors of the tree's bandwidth at 64 B, 128 B, ... */
    double tree_correction[TUTTI_NCCL_PROTOCOL_COUNT][TUTTI_NCCL_CORRECTIONS_MAX];
};

struct tutti_nccl_version {
    const char *name;
    uint32_t number; /* NCCL_VERSION_CODE: 22809 */
    const struct tutti_nccl_constants *constants;
    const char *note;             /* what is taken over from another version; NULL: read in full */
    uint32_t batch_count_max;     /* collectives whose latency is counted once when aggregated */
    uint32_t traffic_bytes_min;   /* a channel's share, in bytes that travel */
    bool traffic_rounded;         /* a channel's share is rounded up to 16 bytes, not kept above
                                     traffic_bytes_min */
    bool ll128_across_gpus;       /* LL128 between GPUs of several generations from Hopper on */
    bool nvls_tree_corrected;     /* the tree's factors on NVLSTree, from Blackwell on, x86 */
    bool nvls_tree_table;         /* channels and chunks of NVLS by NIC and ranks a node */
    bool p2p_ll_by_used_channels; /* LL up to 16 KiB a channel used, not a channel there is */
    bool speeds_45; /* Blackwell's search tries 45 on one node, 86 and 80 on several */
};

#endif
