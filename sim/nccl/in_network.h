/* What collectives cost whose sums switches make: NVLS and NVLSTree (NVSwitch adds and multicasts),
 * CollNetDirect and CollNetChain (switches of the network add). Pipelines with a closed form: the
 * simulator has no message that a switch adds up. */
#ifndef TUTTI_SIM_NCCL_IN_NETWORK_H
#define TUTTI_SIM_NCCL_IN_NETWORK_H

#include <stdint.h>

#include "runtime/units.h"

struct tutti_nccl_comm;

enum tutti_in_network_form {
    TUTTI_IN_NETWORK_NVLS,           /* one host, or heads whose sums switches of the network add */
    TUTTI_IN_NETWORK_NVLS_TREE,      /* several hosts: double binary trees of heads between them */
    TUTTI_IN_NETWORK_COLLNET_DIRECT, /* heads add what their host sends them */
    TUTTI_IN_NETWORK_COLLNET_CHAIN,  /* a channel is a chain of GPUs, the first at a port */
};

/* What of a sum is wanted: all of it everywhere, or as in reduce-scatter, or nothing added up. */
enum tutti_in_network_part {
    TUTTI_IN_NETWORK_ALL, /* all-reduce */
    TUTTI_IN_NETWORK_SCATTERED,
    TUTTI_IN_NETWORK_GATHERED,
};

/* Rates are of bytes of data, one way, after what is lost on the links. */
struct tutti_in_network {
    uint8_t form;           /* enum tutti_in_network_form */
    uint8_t part;           /* enum tutti_in_network_part; other than all: NVLS on one host alone */
    uint8_t hop;            /* enum tutti_hop between GPUs of a host, by whose costs; not NVLS */
    uint64_t bytes;         /* of a rank; of all ranks together where gathered or scattered */
    uint32_t gpu_count;     /* of a host: what is not NVLS */
    uint32_t head_count;    /* GPUs of a host that own a share of every loop; chains: its ports */
    uint32_t channel_count; /* that share the data */
    uint32_t host_count;
    uint64_t chunk_bytes;      /* of a channel (and, but for chains, a head) in one loop */
    uint64_t gpu_bytes_per_s;  /* between a GPU and the NVSwitches; chains: to the next GPU */
    uint64_t port_bytes_per_s; /* between a head and the network; one host: any */
    uint64_t lane_bytes_per_s; /* that a channel scatters, and gathers as fast; 0: any */
    uint64_t tree_bytes_per_s; /* of all heads together, what the kernel passes on; 0: any */
    tutti_ps launch_ps;        /* once */
    tutti_ps stage_ps;         /* from a stage to the next, in latency */
    tutti_ps loop_ps;          /* that each loop occupies the channels beside its bytes */
    tutti_ps net_ps;           /* a message between hosts, in latency, and */
    tutti_ps net_loop_ps;      /* that each loop occupies the way to other hosts beside its bytes */
};

/* The time of the operation. Stages of NCCL 2.28 all_reduce.h (RunWorkColl<AllReduce, ...> of NVLS,
 * NVLS_TREE, COLLNET_DIRECT and COLLNET_CHAIN), all_gather.h and reduce_scatter.h (NVLS). All
 * stages work on successive loops: the first loop takes the time of all of them, each other one
 * that of the slowest.
 *   - NVLS: scatter into the slots of the heads; the switch adds and multicasts; gather. All-gather
 *     multicasts what heads have, and gathers; reduce-scatter scatters, and adds. A loop takes
 *     head_count chunks of a channel. By NVSwitch a GPU sends and receives bytes * (1 + 1/heads):
 *     all of its slots, and as a head the sum of its own; bytes, where the one or the other is left
 *     out.
 *   - The threads of a channel copy its share of the bytes into the slots, and others of them out
 *     of the slots, no faster than a block of threads copies messages.
 *   - NVLSTree: up and down a double binary tree of each head, whose levels are stages. A port
 *     carries bytes / heads each way with 2 hosts, and twice that with more: of the two trees a
 *     host is an inner node of one (3 sends: up and to two below), a leaf of the other (1).
 *   - Switches of the network that add (NCCL_COLLNET_ENABLE; SHARP): heads send bytes / heads into
 *     them and receive as many, whatever the number of hosts; one way through the network and back.
 *   - CollNetDirect: every GPU sends each head its chunk, and heads send the sums to all: of a
 *     loop's bytes a GPU that is a head sends (heads - 1) / heads, and again (GPUs - 1) / heads.
 *   - CollNetChain: from the last GPU to the first, adding, and back: twice a GPU's link, each GPU
 *     a stage on either way.
 * INT64_MAX: it takes longer than that. */
tutti_ps tutti_in_network_time(const struct tutti_in_network *in_network);

/* Of a rank, what the channels of NVLSTree pass on together by NCCL's own table of what they reach,
 * whatever links could carry (perChMaxNVLSTreeBws of tuning.cc, 2.28.9 where the version has none:
 * 57.7 GB/s a head of bus bandwidth for two hosts of H100, 45.5 for more). 0: it has no figure. */
uint64_t tutti_nvls_tree_rate(const struct tutti_nccl_comm *comm, uint32_t head_count);

#endif
