/* A node of a job as NCCL's graph of it: GPUs, PCI switches, NVSwitches, NUMA nodes, NICs and their
 * ports, and the links between them. Rates and kinds: NCCL 2.28.9 topo.h, topo.cc. */
#ifndef TUTTI_SIM_NCCL_SYSTEM_H
#define TUTTI_SIM_NCCL_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl.h"

struct tutti_arena;
struct tutti_err;

enum tutti_nccl_kind {
    TUTTI_NCCL_GPU,
    TUTTI_NCCL_NVS, /* all NVSwitches are one */
    TUTTI_NCCL_CPU, /* a NUMA node */
    TUTTI_NCCL_NET, /* a port */
    TUTTI_NCCL_END_KINDS,
    TUTTI_NCCL_PCI = TUTTI_NCCL_END_KINDS, /* no paths start or end at these */
    TUTTI_NCCL_NIC,
    TUTTI_NCCL_KINDS
};

/* One direction of an edge. What a search takes from it is counted in thousandths of GB/s, as NCCL
 * rounds its floats after every step (search.cc SUB_ROUND). */
struct tutti_nccl_link {
    uint32_t to;   /* node */
    uint32_t back; /* the opposite direction, by place among the links of `to` */
    uint8_t type;  /* enum tutti_nccl_path_type: LOC, NVL, C2C, PIX (PCI), SYS, NET */
    int64_t kbyte_per_s;
    int64_t left_mbyte_per_s;
};

struct tutti_nccl_node {
    uint8_t kind;    /* enum tutti_nccl_kind */
    uint32_t host;   /* of a rack; else 0 */
    uint32_t place;  /* among the nodes of its kind */
    uint32_t source; /* its place in the hardware's array (PCI, GPU, CPU, NET) */
    uint64_t device_ids;
    uint32_t link_count, link_room;
    struct tutti_nccl_link *links; /* as NCCL sorts them: fastest first, the way up last */
};

enum { TUTTI_PATH_RATE_BITS = 13, TUTTI_PATH_HOP_BITS = 10 };

/* How to get from one end to another. */
struct tutti_nccl_path {
    uint8_t type; /* enum tutti_nccl_path_type; DIS: no way */
    uint16_t hop_count;
    uint32_t rank;       /* less is better: whole GB/s, then hops (TUTTI_PATH_*_BITS) */
    uint8_t type_back;   /* of the opposite way */
    bool pays_packets;   /* 6/5 on PCI: GPU to GPU or port through an Intel CPU */
    bool pays_back;      /* some hop takes of the opposite direction, too */
    int64_t kbyte_per_s; /* of the slowest link */
    struct tutti_nccl_link **hops;
};

struct tutti_nccl_system {
    const struct tutti_hardware *hardware;
    uint32_t host_count; /* of a rack; else 1 */
    uint32_t node_count;
    struct tutti_nccl_node *nodes;
    uint32_t counts[TUTTI_NCCL_KINDS];
    uint32_t *of[TUTTI_NCCL_KINDS]; /* [place]: node */
    uint32_t end_first[TUTTI_NCCL_END_KINDS];
    uint32_t end_count;
    struct tutti_nccl_path *paths; /* [from end][to end], filled by tutti_nccl_paths() */
    uint32_t *net_group;           /* [port]: the first port that it shares its rate with */
    int32_t *net_gpu;              /* [port]: the GPU it serves first, or -1 */
    int64_t max_kbyte_per_s, total_kbyte_per_s;
};

#define TUTTI_NCCL_LOCAL_KBYTE_PER_S INT64_C(5000000000) /* "no limit": 5000 GB/s */

/* What is in the graph. */
struct tutti_nccl_parts {
    const struct tutti_hardware *hardware;
    uint32_t host_count;  /* 1, or all hosts of a rack */
    const bool *gpu_kept; /* [host][gpu]; NULL: all */
    bool with_nets;
    bool amd_rates; /* as in struct tutti_nccl_version */
};

/* -TUTTI_EINVAL for links that do not go both ways. Memory is the arena's. */
int tutti_nccl_system_new(const struct tutti_nccl_parts *parts, struct tutti_arena *arena,
                          struct tutti_nccl_system **ret, struct tutti_err *err);

static inline struct tutti_nccl_node *tutti_nccl_node(const struct tutti_nccl_system *system,
                                                      enum tutti_nccl_kind kind, uint32_t place)
{
    return &system->nodes[system->of[kind][place]];
}

static inline struct tutti_nccl_path *tutti_nccl_path(const struct tutti_nccl_system *system,
                                                      enum tutti_nccl_kind from_kind, uint32_t from,
                                                      enum tutti_nccl_kind to_kind, uint32_t to)
{
    return &system->paths[(uint64_t)(system->end_first[from_kind] + from) * system->end_count +
                          system->end_first[to_kind] + to];
}

static inline const struct tutti_hw_gpu *tutti_nccl_gpu(const struct tutti_nccl_system *system,
                                                        uint32_t gpu)
{
    return &system->hardware->gpus[tutti_nccl_node(system, TUTTI_NCCL_GPU, gpu)->source];
}

static inline const struct tutti_hw_net *tutti_nccl_net(const struct tutti_nccl_system *system,
                                                        uint32_t net)
{
    return &system->hardware->nets[tutti_nccl_node(system, TUTTI_NCCL_NET, net)->source];
}

uint32_t tutti_nccl_sm_min(const struct tutti_nccl_system *system);

#endif
