/* What differs between versions of NCCL, as data: the constants of its tuning model and the rules
 * that came or went. */
#ifndef TUTTI_SIM_NCCL_VERSION_H
#define TUTTI_SIM_NCCL_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl.h"
#include "sim/nccl/env.h"

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
    /* LL128 of a ring by function, where generations did not count yet; 0: they do */
    double ll128_GBps_of[TUTTI_NCCL_FUNCTION_COUNT];
    /* Factors of the tree's bandwidth at 64 B, 128 B, ... */
    double tree_correction[TUTTI_NCCL_PROTOCOL_COUNT][TUTTI_NCCL_CORRECTIONS_MAX];
};

/* Rules that came or went; false is as in 2.28.9. */
struct tutti_nccl_changes {
    /* tables */
    bool no_blackwell;      /* those GPUs are taken for Hopper's */
    bool nvls_plain;        /* NVLS: a channel's least speed, 5/6 of it (before nvls_efficiency) */
    bool nvls_plain_gather; /* the 5/6 for all-gather and reduce-scatter too */
    bool nvls_plain_peers;  /* of those two the share that peers have, and 0.9 of the network */
    bool ring_ll_quarter;   /* LL: a quarter of the ring's speed, or a third, not half of it */
    bool ring_twice_nodes;  /* an all-reduce round several nodes crosses 2N times, not 2(N - 1) */
    bool ring_ll128_lone;   /* 0.7 for 0.92 where nodes have one rank */
    bool lone_by_algorithm; /* one rank a node: the algorithm's own network step, not the tree's */
    bool no_pat;
    bool no_nvls;
    bool no_nvls_tree;
    bool gathers_by_rings; /* no NVLS for all-gather and reduce-scatter */
    bool nvls_by_rings; /* NVLS by the ring's channels and speed, 3/4 of them; no step of its own */
    bool nvls_three_quarters; /* NVLS: 3/4 of a channel's speed, not 5/6 */
    bool nvls_tree_by_nodes;  /* NVLSTree: a step for each further node and not for each level */
    bool no_collnet;          /* as far as it is modelled here */
    bool no_collnet_chain;
    bool collnet_half_us;    /* CollNetDirect: 0.5 us, not 0.4, for each further peer */
    bool collnet_chain_slow; /* CollNetChain: 3/4 of its speed, the network's step not counted */
    bool bus_capped;         /* of all algorithms: 235 GB/s on Ampere, 370 on Hopper */
    bool tree_pattern_free;  /* trees whose parent is the one port lose nothing */
    bool ll_longer;          /* LL's steps inside nodes, if there are several: 1.8 times as long */
    bool no_posts;           /* no step inside a node waits for the CPU's posts */
    bool no_port_latency;    /* a port's latency counts for nothing */
    bool latency_instead;    /* a port's latency is for the network's step, not added to it */
    bool plateau_by_ranks;   /* a ring's plateau begins at 4 KiB a rank, Hopper's is lower */
    bool no_plateau;
    bool tree_by_totals;  /* trees: 0.9 of the bus, at most 110 GB/s, 80 beyond two nodes */
    bool tree_ll128_less; /* LL128 of trees between nodes: 0.915 of them, not 120/128 */
    /* LL: a third of trees and a quarter of rings; LL128: 7/9 of trees and 120/128 of rings, up to
     * a total; all steps of a ring over several nodes the network's. */
    bool as_in_2_6;
    bool ll128_by_nvlink;           /* LL128 only where GPUs of a host are neighbours by NVLink */
    bool ring_for_lack;             /* what NCCL_ALGO leaves without any algorithm runs as a ring */
    const uint32_t *ll128_computes; /* those with LL128, ending with 0; NULL: from 70 on */
    bool ll128_across_gpus;         /* between GPUs of several generations from Hopper on */
    bool nvls_tree_corrected;       /* tree's factors on NVLSTree, from Blackwell on, x86 */

    /* searching */
    bool duplicates_last; /* channels are doubled when all is done; rings stay at the speed that was
                             found first */

    /* channels, on several nodes, of Hopper with fast rings: doubled while less than 16 */
    bool channels_not_doubled;
    bool channels_doubled_to_32; /* 16 as well */

    /* cutting */
    bool tree_chunks_by_depth;    /* Simple: chunks for several to be in a tree at once */
    bool shares_in_turn;          /* channels take chunks in turn, all of them alike */
    bool traffic_rounded;         /* a channel's share rounds up to 16 bytes, without a minimum */
    bool nvls_tree_table;         /* channels and chunks of NVLS by port and ranks a node */
    bool p2p_ll_by_used_channels; /* LL up to 16 KiB a channel used, not a channel there is */
};

struct tutti_nccl_version {
    const char *name;
    uint32_t number;  /* NCCL_VERSION_CODE: 22809 */
    const char *note; /* what is taken over from another version; NULL: read in full */
    const struct tutti_nccl_constants *constants;
    uint32_t batch_count_max;   /* collectives whose latency is counted once when aggregated */
    uint32_t traffic_bytes_min; /* a channel's least share, in bytes that travel */
    bool speeds_45; /* Blackwell's search: 45 on one node, 86 and 80 on several are tried as well */
    bool amd_rates; /* between NUMA nodes of EPYC by its generation, not of all alike */
    struct tutti_nccl_changes changes;
};

#endif
