/* From the elements of a topology file to a machine. */
#ifndef TUTTI_TRACES_NCCL_XML_BUILD_H
#define TUTTI_TRACES_NCCL_XML_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"
#include "traces/nccl_xml/hardware.h"
#include "traces/nccl_xml/tree.h"

struct tutti_err;

/* Where an element went. */
struct tutti_xml_place {
    uint32_t node;                /* that its children hang on; TUTTI_XML_NONE: it is left out */
    uint32_t cpu;                 /* the NUMA node above it */
    uint32_t host;                /* index of its host */
    uint32_t gpu;                 /* element: the gpu child of a pci; TUTTI_XML_NONE: none */
    uint32_t nic;                 /* element: the nic child of a pci */
    bool wanted;                  /* a GPU with a rank or a network port is below it */
    struct tutti_xml_gpu *device; /* of a gpu element that becomes one */
    uint64_t pex;                 /* id of a PCI switch: vendor, device, subsystem */
};

/* A GPU that becomes a device. */
struct tutti_xml_gpu {
    uint32_t element; /* its gpu element */
    uint32_t index;   /* its rank here: in order of the file's, without gaps */
    uint32_t node;
    uint32_t host;
    uint64_t bus;    /* of the pci element around it */
    int64_t rank;    /* in the file; TUTTI_XML_NONE: none has one */
    int64_t sm;      /* compute capability times 10; 0: not stated, or not NVIDIA's */
    const char *gcn; /* AMD's architecture, else NULL */
};

/* Cards and ports by what makes them the same one: bus, or guid and port. */
struct tutti_xml_part {
    uint32_t host;
    uint32_t node;
    uint64_t key;
    int64_t port;
};

struct tutti_xml_build {
    const struct tutti_xml *xml;
    struct tutti_topo_builder *topo;
    struct tutti_err *err;
    struct tutti_xml_place *places; /* by element */
    struct tutti_xml_gpu *gpus;     /* by rank once ranked */
    uint32_t gpu_count;
    uint32_t *cpus; /* elements that became nodes */
    uint32_t cpu_count;
    struct tutti_xml_part *cards;
    uint32_t card_count;
    struct tutti_xml_part *ports;
    uint32_t port_count;
    uint32_t host_count;
    uint32_t switch_count;
    uint32_t left_out; /* links to what is not in the file */
    struct tutti_xml_hardware hw;
};

/* Adds the machine of `xml` to the builder `topo`; refuses a file that describes none. */
int tutti_xml_build(const struct tutti_xml *xml, struct tutti_topo_builder *topo,
                    uint32_t *ret_left_out, struct tutti_err *err);

/* The passes after the tree of CPUs and PCI is there: links beside it. */
int tutti_xml_build_links(struct tutti_xml_build *build);

/* Adds a node called `stem` and `number`; the host's index is `host`. */
int tutti_xml_add_node(struct tutti_xml_build *build, enum tutti_node_kind kind, const char *stem,
                       uint32_t number, uint32_t host, uint32_t *ret);
int tutti_xml_add_cable(struct tutti_xml_build *build, uint32_t a, uint32_t b,
                        enum tutti_link_kind kind, uint64_t bytes_per_s, tutti_ps latency_ps);

#endif
