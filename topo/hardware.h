/* The hardware of one host as NCCL's topology detection sees it: NUMA nodes, the PCI tree, GPUs
 * with their NVLinks, network ports. What NCCL decides is decided from this (sim/nccl.h), while the
 * nodes and links of a machine (topo.h) say what moving bytes costs. */
#ifndef TUTTI_TOPO_HARDWARE_H
#define TUTTI_TOPO_HARDWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

#define TUTTI_HW_NONE UINT32_MAX

enum tutti_hw_arch { TUTTI_ARCH_UNKNOWN, TUTTI_ARCH_X86_64, TUTTI_ARCH_ARM64, TUTTI_ARCH_PPC64 };

enum tutti_hw_vendor {
    TUTTI_VENDOR_UNKNOWN,
    TUTTI_VENDOR_INTEL,
    TUTTI_VENDOR_AMD,
    TUTTI_VENDOR_ZHAOXIN,
};

struct tutti_hw_cpu { /* a NUMA node */
    int32_t numa;
    uint8_t arch;    /* enum tutti_hw_arch */
    uint8_t vendor;  /* enum tutti_hw_vendor */
    uint16_t family; /* of CPUID */
    uint16_t model;
};

struct tutti_hw_pci { /* a switch or a function: one that no GPU or port names is a switch */
    uint32_t parent;  /* the PCI switch above it, by index, less than its own; or TUTTI_HW_NONE */
    uint32_t cpu;     /* the NUMA node above it all, by index */
    uint64_t bus_id;  /* dddd:bb:dd.f as 0xddddbbddf; orders what is alike */
    uint32_t lane_mbit_per_s; /* as NCCL counts: 1500, 3000, 6000, 12000, 24000, 48000: Gen1..6 */
    uint32_t lane_count;
    uint64_t device_ids; /* vendor, device, subsystem vendor, subsystem device: 16 bits each */
};

struct tutti_hw_gpu {
    uint32_t pci;
    uint32_t dev;  /* NVML's index */
    uint32_t rank; /* on the host, 0 .. gpu_count - 1 */
    /* Compute capability, 10 * major + minor; AMD: the number of gfx, 942 (gfx90a: 910, as RCCL
     * had it), all of which are 900 or more; 0: not known. */
    uint32_t sm;
    bool gdr;      /* GPUDirect RDMA */
    bool no_peers; /* other GPUs do not reach its memory by PCIe, nor it theirs: NVML tells NCCL */
};

enum tutti_hw_target { TUTTI_TARGET_GPU, TUTTI_TARGET_NVSWITCH, TUTTI_TARGET_CPU };

struct tutti_hw_nvlink { /* or xGMI: one direction of what a GPU says of its links */
    uint32_t gpu;
    uint8_t target_kind; /* enum tutti_hw_target */
    uint32_t target;     /* gpu or cpu, by index */
    uint32_t count;
};

struct tutti_hw_c2c { /* NVLink-C2C of a GPU to its CPU */
    uint32_t gpu;
    uint32_t mbyte_per_s; /* a link */
    uint32_t count;
};

struct tutti_hw_net { /* a network port */
    uint32_t pci;     /* its function; TUTTI_HW_NONE: a virtual one, directly under the CPU */
    uint32_t cpu;
    uint32_t dev;
    uint32_t mbit_per_s;
    uint32_t port;
    uint64_t guid; /* ports of equal guid and port share their rate */
    uint32_t latency_ns;
    bool gdr;
    bool coll;      /* in-network reduction (CollNet) */
    bool unordered; /* bytes may arrive out of order: its plugin has NCCL run Simple alone, where
                       NCCL_PROTO does not say otherwise (EFA's first generation) */
};

/* Arrays in document order, and whole: Broadcom's PEX switches stand there with both levels that
 * they show of themselves (their device_ids tell), ports that share a rate stand one by one.
 * Frozen; belongs to the machine that carries it. */
struct tutti_hardware {
    uint32_t cpu_count, pci_count, gpu_count, nvlink_count, c2c_count, net_count;
    const struct tutti_hw_cpu *cpus;
    const struct tutti_hw_pci *pcis;
    const struct tutti_hw_gpu *gpus;
    const struct tutti_hw_nvlink *nvlinks;
    const struct tutti_hw_c2c *c2cs;
    const struct tutti_hw_net *nets;
    /* Hosts of a rack that NVLink joins (MNNVL), all of which NCCL takes for one node: 18 in an
     * NVL72. 0: each host is a node of its own. */
    uint32_t rack;
};

enum { TUTTI_HW_ITEMS_MAX = 1 << 16 }; /* of each array */

/* -TUTTI_EINVAL for what is no host: no GPU or NUMA node, an index out of range, a parent that is
 * no earlier switch of the same NUMA node, two GPUs of one function or rank, a lane rate that no
 * PCIe generation has, links or ports without a rate. */
int tutti_hardware_check(const struct tutti_hardware *hardware, struct tutti_err *err);

/* A checked copy whose memory is the arena's. */
int tutti_hardware_copy(struct tutti_arena *arena, const struct tutti_hardware *hardware,
                        const struct tutti_hardware **ret, struct tutti_err *err);

/* What NCCL sees where a communicator has only the `gpu_count` GPUs of lowest rank of a host: the
 * links to the others are gone, and so are NUMA nodes and switches without a GPU or a port below
 * them, but all ports stay (NCCL 2.28 xml.cc). The rest keeps its order. The memory is the arena's;
 * -TUTTI_EINVAL for no GPU or more than there are. */
int tutti_hardware_keep(struct tutti_arena *arena, const struct tutti_hardware *hardware,
                        uint32_t gpu_count, const struct tutti_hardware **ret,
                        struct tutti_err *err);

/* What the catalogue of host:gpu= knows of a GPU by the name that drivers print: 90 of "NVIDIA H100
 * 80GB HBM3", as in struct tutti_hw_gpu; 0: it names none. */
uint32_t tutti_hw_device_sm(const char *device);

/* Writes the SPEC of hosts that have so many each of the GPU which drivers call so, as such hosts
 * usually are: "host:gpu=a100-pcie-40g,gpus=8,nodes=2,net=roce" for "NVIDIA A100-PCIE-40GB". GPUs
 * that are sold in racks are taken as trays of one. `net`: a word of net=, "" for the usual one.
 * -TUTTI_EINVAL: no GPU of the catalogue, or more trays than a rack has. */
int tutti_hw_device_spec(const char *device, uint32_t gpu_count, uint32_t host_count,
                         const char *net, char *spec, size_t spec_bytes, struct tutti_err *err);

/* Mb/s of a lane of PCIe 1 to 6 as NCCL counts, and back; 0: there is no such generation. */
uint32_t tutti_hw_lane_mbit_per_s(uint32_t generation);
uint32_t tutti_hw_pcie_generation(uint32_t lane_mbit_per_s);
/* What 16 lanes of PCIe 1 to 6 carry one way, in bytes a second: 2.5 and 5 GT/s times 8/10; 8, 16
 * and 32 GT/s times 128/130; Gen6's 64 GT/s in flits of 242 payload bytes in 256. 0 as above. */
uint64_t tutti_hw_pcie_bytes_per_s(uint32_t generation);
/* One NVLink of a GPU of compute capability `sm`, one way; after data sheets, as in the presets. */
uint64_t tutti_hw_nvlink_bytes_per_s(uint32_t sm);
/* Between this NUMA node and another of its host, of which no vendor states a payload rate: what
 * NCCL 2.28 reckons with (topo.h, topo.cc). */
uint64_t tutti_hw_cpu_bytes_per_s(const struct tutti_hw_cpu *cpu);
/* Broadcom's PEX switches show one device as two levels: whether `child`, directly below `parent`,
 * is the lower level of it. Both are device_ids. */
bool tutti_hw_is_one_switch(uint64_t parent, uint64_t child);

/* No vendor publishes latencies of links in a host: assumed, the same as in the presets of GPU
 * machines (topo/presets/gpu.inc says why). */
#define TUTTI_HW_NVSWITCH_PS (250 * TUTTI_PS_PER_NS) /* GPU to NVSwitch; 500 ns GPU to GPU */
#define TUTTI_HW_GPU_PS      (500 * TUTTI_PS_PER_NS) /* NVLink or xGMI from GPU to GPU */
#define TUTTI_HW_PCIE_PS     (125 * TUTTI_PS_PER_NS) /* one PCIe hop */
#define TUTTI_HW_CPU_PS      (200 * TUTTI_PS_PER_NS) /* between NUMA nodes; NVLink-C2C */

TUTTI_API_END

#endif
