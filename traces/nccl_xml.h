/* Reader of NCCL topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), also RCCL's. */
#ifndef TUTTI_TRACES_NCCL_XML_H
#define TUTTI_TRACES_NCCL_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "topo/topo.h"

struct tutti_err;

/* Makes a topology from the XML text: GPUs with a rank become devices, PCI switches, NUMA nodes,
 * NVSwitches and NICs nodes, with NCCL's bandwidths (facts: NCCL 2.28 topo.h, "From XML to a graph
 * with bandwidths"). Latencies are not in the file: documented defaults by link kind. A file
 * without usable GPUs (a cloud's PCI skeleton without gpu elements, a graph dump) is refused with
 * the reason. -TUTTI_ELACK in a build without libexpat. */
int tutti_nccl_xml_parse(const char *name, const char *text, size_t bytes, struct tutti_topo **ret,
                         struct tutti_err *err);

/* Whether this build can read XML. */
bool tutti_nccl_xml_available(void);

#endif
