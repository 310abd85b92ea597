/* The hardware of a host from a few words about it: how many GPUs, CPUs, switches and NICs, and
 * where they sit. For presets, so that what NCCL would see agrees with the nodes and links. */
#ifndef TUTTI_TOPO_PRESETS_PLAN_H
#define TUTTI_TOPO_PRESETS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/hardware/builder.h"
#include "topo/presets/models.h"

struct tutti_topo_builder;

enum tutti_gpu_wiring {
    TUTTI_WIRING_PCIE,     /* nothing beside PCIe */
    TUTTI_WIRING_NVSWITCH, /* all links of a GPU into one switch */
    TUTTI_WIRING_MESH,     /* every two of them, the links shared out evenly */
    TUTTI_WIRING_PAIRS,    /* GPUs 0 and 1, 2 and 3, ...: by all links */
    TUTTI_WIRING_TABLE,    /* plan->links */
};

struct tutti_gpu_plan {
    const struct tutti_gpu_model *gpu;
    uint8_t wiring;           /* enum tutti_gpu_wiring */
    bool gdr;                 /* GPUs and NICs can do GPUDirect RDMA */
    bool no_peers;            /* GPUs do not reach each other's memory by PCIe */
    uint8_t net_kind;         /* enum tutti_net_kind: what NCCL is told of its NICs */
    bool net_reduces;         /* they reach switches that add up (CollNet) */
    bool nics_at_cpu;         /* NICs lie under the NUMA nodes, beside the switches */
    uint8_t pcie_generation;  /* of switches and GPUs */
    uint8_t nic_generation;   /* of NICs, x16 */
    uint32_t board_count;     /* GPUs that there are */
    uint32_t gpu_count;       /* the first of them, which are used */
    uint32_t nic_count;       /* NICs that there are */
    uint32_t nic_used;        /* the first of them, which NCCL may see */
    uint32_t nvlink_count;    /* of a GPU */
    const uint8_t *links;     /* [board_count][board_count] */
    struct tutti_hw_cpu cpu;  /* numa counts them */
    uint32_t cpu_count;       /* NUMA nodes, over which switches or GPUs and NICs are spread */
    uint32_t switch_count;    /* PCIe switches; 0: GPUs lie under the NUMA nodes */
    uint64_t nic_bytes_per_s; /* of a port */
    uint32_t rack;            /* as in struct tutti_hardware */
};

/* Vendor, family and model of the CPU that is sold with such PCIe: what NCCL reckons its speed
 * from. */
struct tutti_hw_cpu tutti_gpu_plan_cpu(enum tutti_gpu_cpu cpu, uint32_t pcie_generation);

/* The PCIe generation that feeds a NIC of that rate on 16 lanes, at most `most`. */
uint8_t tutti_gpu_nic_generation(uint64_t bytes_per_s, uint8_t most);

/* NVLinks between two GPUs of the board. */
uint32_t tutti_gpu_plan_links(const struct tutti_gpu_plan *plan, uint32_t a, uint32_t b);

/* Where GPU g and NIC i of the plan lie: a switch if there are any, else a NUMA node. */
uint32_t tutti_gpu_plan_gpu_place(const struct tutti_gpu_plan *plan, uint32_t g);
uint32_t tutti_gpu_plan_nic_place(const struct tutti_gpu_plan *plan, uint32_t i);
/* The NUMA node of a switch. */
uint32_t tutti_gpu_plan_switch_cpu(const struct tutti_gpu_plan *plan, uint32_t s);

/* Gives the machine the hardware of the plan: GPUs in order of rank, NUMA node by NUMA node. */
int tutti_gpu_plan_set(const struct tutti_gpu_plan *plan, struct tutti_topo_builder *builder,
                       struct tutti_err *err);

#endif
