/* From facts to the hardware of a host. */
#ifndef TUTTI_TOPO_LOCAL_SCAN_H
#define TUTTI_TOPO_LOCAL_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/hardware/builder.h"
#include "topo/local/facts.h"
#include "topo/topo.h"

enum {
    TUTTI_SCAN_NODES_MAX = 1024,
    TUTTI_SCAN_GPUS_MAX = 256,
    TUTTI_SCAN_PORTS_MAX = 1024,
    TUTTI_SCAN_NOTES_BYTES = 640,
};

/* A function of PCI, or a switch above one. */
struct tutti_scan_place {
    const char *path; /* below the root, "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0" */
    uint32_t cpu;
    uint32_t index; /* of its struct tutti_hw_pci, once they are in order */
    bool is_port;
    uint32_t gpu; /* its NVML index; TUTTI_HW_NONE */
};

struct tutti_scan {
    struct tutti_facts *facts;
    struct tutti_arena *arena;
    struct tutti_hw_builder hw;
    struct tutti_err *err;

    uint32_t *core_counts; /* [NUMA node] */
    uint32_t *numas;       /* [NUMA node]: its number for the kernel */
    uint32_t node_count;
    struct tutti_scan_place *places;
    uint32_t place_count;
    uint32_t place_capacity;
    uint32_t gpu_count;
    const char **gpu_names;  /* [NVML index] */
    const char **gpu_paths;  /* [NVML index] */
    const char **port_paths; /* [port]; NULL: not on PCI */
    uint32_t port_count;
    struct tutti_hw_net *ports; /* their pci and cpu are set when functions are in order */
    enum tutti_net_kind net_kind;

    /* What is not known, and what stands for it; clauses that each begin with "; ". */
    char notes[TUTTI_SCAN_NOTES_BYTES];
    uint32_t width_count; /* functions of PCI whose speed or width is not known */
};

/* Each part in turn: */
int tutti_scan_cpus(struct tutti_scan *scan);
int tutti_scan_gpus(struct tutti_scan *scan);
int tutti_scan_ports(struct tutti_scan *scan);
/* Puts the functions found and the switches above them in order, and adds them. */
int tutti_scan_pcis(struct tutti_scan *scan);
/* GPUs, their links and the ports, which know their functions then. */
int tutti_scan_parts(struct tutti_scan *scan);

/* A function at that path; what is above it comes with it. */
int tutti_scan_place(struct tutti_scan *scan, const char *path, bool is_port, uint32_t gpu);
/* NULL: there is none. */
const struct tutti_scan_place *tutti_scan_find(const struct tutti_scan *scan, const char *path);

/* The path up to its last function of PCI, in the arena; NULL: it has none, or no memory. */
const char *tutti_scan_function(struct tutti_scan *scan, const char *path);
/* "0000:18:00.0" as 0x0000180000 and so on, of the end of a path. */
uint64_t tutti_scan_bus(const char *path);

__attribute__((format(printf, 2, 3))) void tutti_scan_note(struct tutti_scan *scan,
                                                           const char *format, ...);

#endif
