/* From the hardware of one host to the nodes and links of a machine. */
#ifndef TUTTI_TOPO_HARDWARE_GRAPH_H
#define TUTTI_TOPO_HARDWARE_GRAPH_H

#include <stdint.h>

#include "topo/hardware.h"

struct tutti_err;
struct tutti_topo_builder;

/* Adds one host to the builder: a NUMA node becomes "cpuN", a PCI switch "pciN" (both levels of a
 * Broadcom PEX are one), a GPU the device "gpuR", R its rank, a function with ports the switch
 * "cardN" (functions of one card share it), each port the NIC "nicN", all NVSwitches one
 * "nvswitch", which reduces if all GPUs are of sm 90 or newer: nodes and links are those of the
 * same host in NCCL's XML (traces/nccl_xml.h). Rates are those of data sheets, latencies assumed.
 * `names`: what the driver calls each GPU, [gpu_count], for peaks and memory; NULL: not known.
 * `ret_cpus`: [cpu_count], the nodes of the NUMA nodes; NULL: nobody asks. Hardware without a GPU
 * is taken as well. */
int tutti_hw_graph(struct tutti_topo_builder *builder, const struct tutti_hardware *hardware,
                   const char *const *names, uint32_t *ret_cpus, struct tutti_err *err);

#endif
