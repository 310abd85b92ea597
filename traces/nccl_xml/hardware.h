/* The hardware of a host (topo/hardware.h) from the elements of a topology file. */
#ifndef TUTTI_TRACES_NCCL_XML_HARDWARE_H
#define TUTTI_TRACES_NCCL_XML_HARDWARE_H

#include <stdint.h>

#include "topo/hardware.h"

struct tutti_xml_build;
struct tutti_xml_gpu;

/* What is collected, by part; each array has room for all elements of the file. */
struct tutti_xml_hardware {
    struct tutti_hw_cpu *cpus;
    struct tutti_hw_pci *pcis;
    struct tutti_hw_gpu *gpus;
    struct tutti_hw_nvlink *nvlinks;
    struct tutti_hw_c2c *c2cs;
    struct tutti_hw_net *nets;
    uint32_t cpu_count, pci_count, gpu_count, nvlink_count, c2c_count, net_count;
    uint32_t *index; /* by element: its place in its array */
};

int tutti_xml_hardware_init(struct tutti_xml_build *build);
void tutti_xml_hardware_done(struct tutti_xml_build *build);

/* Collects what the tree of the first host holds: before links are. */
int tutti_xml_hardware_tree(struct tutti_xml_build *build);

/* Collects a link of a GPU, once it is known what is at its other end (`peer`: of a GPU). */
void tutti_xml_hardware_nvlink(struct tutti_xml_build *build, const struct tutti_xml_gpu *gpu,
                               enum tutti_hw_target kind, const struct tutti_xml_gpu *peer,
                               uint32_t count);
void tutti_xml_hardware_c2c(struct tutti_xml_build *build, const struct tutti_xml_gpu *gpu,
                            uint32_t mbyte_per_s, uint32_t count);

/* Gives it to the machine; nothing where the hosts of the file are not alike in their numbers of
 * NUMA nodes, PCI functions, GPUs and ports. */
int tutti_xml_hardware_set(struct tutti_xml_build *build);

#endif
