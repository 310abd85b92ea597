/* What NVLS and NVLSTree cost: all-reduces whose sums NVSwitch makes and multicasts, as a pipeline
 * of stages with a closed form; the simulator has no message that a switch adds up. */
#ifndef TUTTI_SIM_NCCL_NVLS_H
#define TUTTI_SIM_NCCL_NVLS_H

#include <stdint.h>

#include "runtime/units.h"

struct tutti_nccl_comm;

/* Rates are of bytes of data, one way, after what is lost on the links. */
struct tutti_nvls {
    uint64_t bytes;         /* of a rank */
    uint32_t head_count;    /* GPUs of a host, each of which owns a share of every loop */
    uint32_t channel_count; /* that share the data */
    uint32_t host_count;
    uint64_t chunk_bytes;      /* of a channel and a head in one loop */
    uint64_t gpu_bytes_per_s;  /* between a GPU and the NVSwitches */
    uint64_t port_bytes_per_s; /* between a head and the heads of other hosts; one host: any */
    uint64_t lane_bytes_per_s; /* that a channel scatters, and gathers as fast; 0: any */
    uint64_t tree_bytes_per_s; /* of all heads together, what the kernel passes on; 0: any */
    tutti_ps launch_ps;        /* once */
    tutti_ps stage_ps;         /* from a stage to the next, in latency */
    tutti_ps loop_ps;          /* that each loop occupies the channels beside its bytes */
    tutti_ps net_ps;           /* a message between hosts, in latency, and */
    tutti_ps net_loop_ps;      /* that each loop occupies the way to other hosts beside its bytes */
};

/* The time of the operation. Stages of NCCL 2.28 all_reduce.h (RunWorkColl<AllReduce, NVLS> and
 * NVLS_TREE): scatter into the slots of the heads; the switch adds and multicasts (with other
 * hosts: up and down a double binary tree of each head, whose levels are stages); gather. A loop
 * takes head_count chunks of a channel; all stages work on successive loops: the first loop takes
 * the time of all of them, each other one that of the slowest.
 *   - NVSwitch: a GPU sends and receives bytes * (1 + 1/heads): all of its slots, and as a head the
 *     sum of its own;
 *   - the threads of a channel copy its share of the bytes into the slots, and others of them out
 *     of the slots, no faster than a block of threads copies messages;
 *   - a port carries bytes / heads each way with 2 hosts, and twice that with more: of the two
 *     trees a host is an inner node of one (3 sends: up and to two below), a leaf of the other (1).
 */
tutti_ps tutti_nvls_time(const struct tutti_nvls *nvls);

/* Of a rank, what the channels of NVLSTree pass on together by NCCL's own table of what they reach,
 * whatever links could carry (perChMaxNVLSTreeBws of tuning.cc, 2.28.9 where the version has none:
 * 57.7 GB/s a head of bus bandwidth for two hosts of H100, 45.5 for more). 0: it has no figure. */
uint64_t tutti_nvls_tree_rate(const struct tutti_nccl_comm *comm, uint32_t head_count);

#endif
