/* A cluster: copies of one host, their NICs on rails of leaf switches, and spines over them. */
#ifndef TUTTI_TOPO_PRESETS_CLUSTER_H
#define TUTTI_TOPO_PRESETS_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_err;
struct tutti_topo;
struct tutti_topo_builder;

/* The network between hosts. NIC i of every host is on rail i; `group_hosts` hosts share one leaf
 * switch a rail (a scalable unit: 32 for DGX H100 SuperPODs), and where there is more than one leaf
 * switch, each has one link to every spine. A spine is as large as it must be, so two levels serve
 * any number of hosts. */
struct tutti_cluster {
    uint32_t host_count;  /* 1: the host alone, no network (leaves would join nothing) */
    uint32_t group_hosts; /* 0: all hosts under one leaf switch a rail */
    uint32_t spine_count; /* 0: as many as hosts in a group, at NIC rate: non-blocking if over 1 */
    uint32_t over;        /* oversubscription of the leaf's uplinks, in times; 0: 1 */
    uint64_t nic_bytes_per_s; /* NIC to leaf, each way, and the unit of the uplinks; 0: what each
                                 NIC of the host can take, see tutti_uplink_rate() */
    tutti_ps nic_latency_ps;  /* NIC to leaf: half of the latency between two hosts on a leaf */
    tutti_ps hop_latency_ps;  /* leaf to spine: what crossing one more switch costs */
    uint8_t kind;             /* enum tutti_link_kind of NIC and uplinks: NET or DCN */
    uint8_t net_kind;         /* enum tutti_net_kind */
    bool reduces;             /* leaves and spines can reduce (SHARP) */
};

/* Adds `cluster->host_count` copies of the frozen one-host machine `host` (node.host is set to the
 * copy's index; flops, memory rates, kinds, reducing switches and hardware are kept), then the
 * network, then asks for cluster routes: inside a host as the host routes, between hosts device,
 * its nearest NIC, leaf (spine by destination, leaf), nearest NIC of the same rail where there is
 * one, device. The nearest NIC is that of fewest hops, then of the widest path; among NICs alike
 * devices go round as NCCL has them (2.28 topo.cc, ncclTopoGetLocalNet()). Names: "gpu3" of host 2
 * becomes "gpu2.3", "nvswitch" becomes "nvswitch2" (with one host they stay); leaves are
 * "leafRAIL.GROUP", spines "spineNUMBER". A host without NICs joins by its CPUs, or by its first
 * device. Shapes: levels devices a host x hosts; ring orders of the host, one host after the other.
 * `builder` must be empty. */
int tutti_cluster_build(struct tutti_topo_builder *builder, const struct tutti_topo *host,
                        const struct tutti_cluster *cluster, struct tutti_err *err);

/* What node v can pass on to a network: the rate of its links of kind NET if it has some (the port
 * of a network card, modelled as a link), else of its widest link. */
uint64_t tutti_uplink_rate(const struct tutti_topo *host, uint32_t v);

/* The plain host of devices round one switch, each with its own NIC: for rail and NVSwitch
 * machines. Node names: gpu0.., nvswitch, nic0... NIC i hangs off device i * devices / nics. */
struct tutti_host {
    uint32_t device_count;
    uint32_t nic_count;        /* 0 .. device_count */
    const char *switch_name;   /* "nvswitch" */
    uint8_t link_kind;         /* enum tutti_link_kind inside: NVLINK */
    uint32_t link_cables;      /* physical links summed in one device's port: 18 for H100 */
    uint64_t link_bytes_per_s; /* of all of them together, one way */
    tutti_ps link_latency_ps;  /* device to device, across the switch: halved on the two links */
    bool reduces;              /* NVLS: the switch reduces and multicasts */
    uint8_t nic_kind;          /* enum tutti_link_kind between device and NIC: PCIE, C2C */
    uint64_t nic_bytes_per_s;  /* device to NIC */
    tutti_ps nic_latency_ps;   /* device to NIC */
    uint64_t flops_per_s;      /* of a device */
    uint64_t mem_bytes_per_s;  /* of a device */
};

/* Adds the host to a fresh builder of its own and freezes it: the argument of cluster_build. */
int tutti_host_build(const struct tutti_host *host, struct tutti_topo **ret, struct tutti_err *err);

/* Both in one: what a preset of an NVSwitch machine does. */
int tutti_cluster_of(struct tutti_topo_builder *builder, const struct tutti_host *host,
                     const struct tutti_cluster *cluster, struct tutti_err *err);

#endif
