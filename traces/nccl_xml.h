/* Reader of NCCL topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), also RCCL's. */
#ifndef TUTTI_TRACES_NCCL_XML_H
#define TUTTI_TRACES_NCCL_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/api.h"
#include "topo/topo.h"

TUTTI_API_BEGIN

struct tutti_err;

/* Makes a topology from the XML text, with rates of links as data sheets have them, as in the
 * presets; between CPUs NCCL's (2.28 topo.h):
 *   - a gpu with a rank becomes device "gpuR", R its rank with gaps closed. NCCL ignores a gpu
 *     without one; where no gpu has a rank, all are taken in document order;
 *   - a NUMA node becomes "cpuN"; those of equal host_hash are one host, and all pairs in a host
 *     are joined;
 *   - a PCI switch becomes "pciN" (both levels of a Broadcom PEX are one), all NVSwitches one
 *     "nvswitch", which reduces if all GPUs are of sm 90 or newer;
 *   - a PCI function with a nic becomes the switch "cardN" (functions of one card share it), and
 *     each net in it the NIC "nicN", on a cable of the port's speed; a net outside PCI hangs on
 *     the CPU.
 * What kind of network the ports are on is told by their names where they tell it (rdmap...,
 * cxi..., mlx5_ib..., eth...), else it is not known: mlx5_0 may be InfiniBand or RoCE. A line
 * "net roce" in the text that 'tutti topo convert' makes of the file says so.
 * Beside that it carries the hardware of the first host whole (topo/hardware.h), which is where
 * gdr, coll, guid and the like go; none where the file's hosts differ. Not read, because nothing
 * here uses them: maxconn, affinity, pcilink.
 * Branches without GPU or port are trimmed as NCCL does. Latencies are not in the file: documented
 * assumptions by kind of link, but for a latency that a net states. What is left out is counted in
 * the topology's source. Entities and document types are not read. -TUTTI_EINVAL with the line and
 * the reason for what is no XML or no machine (a skeleton without gpu elements, a dump of
 * channels); -TUTTI_ELACK in a build without libexpat. */
int tutti_nccl_xml_parse(const char *name, const char *text, size_t bytes, struct tutti_topo **ret,
                         struct tutti_err *err);

/* Whether this build can read XML. */
bool tutti_nccl_xml_available(void);

TUTTI_API_END

#endif
