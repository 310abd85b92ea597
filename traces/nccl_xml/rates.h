/* What each kind of link carries one way; none of these numbers is in the file. NVLink, xGMI and
 * PCIe have the rates of their data sheets, as in the presets (topo/presets/models.inc): what of
 * them NCCL and RCCL reckon with is in topo/hardware.h, what they get is for a calibration to say.
 */
#ifndef TUTTI_TRACES_NCCL_XML_RATES_H
#define TUTTI_TRACES_NCCL_XML_RATES_H

#include <stdint.h>

#include "runtime/units.h"
#include "topo/topo.h"

/* The generation of PCIe by the speed that the kernel writes, "16.0 GT/s PCIe"; NULL or unknown
 * is 3, as for NCCL. */
uint32_t tutti_xml_pcie_generation(const char *link_speed);

/* PCIe: `width` lanes (0: 16) of that speed. */
uint64_t tutti_xml_pcie_rate(const char *link_speed, uint64_t width);

/* One NVLink of a GPU of compute capability major * 10 + minor. */
uint64_t tutti_xml_nvlink_rate(int64_t sm);

/* One xGMI link of "gfx90a", "gfx942", or in old files "908", "910", "940". */
uint64_t tutti_xml_xgmi_rate(const char *gcn);

/* Between two NUMA nodes of a host, of which no vendor states a payload rate: NCCL's. `arch`,
 * `vendor`: as in the file, NULL if absent. */
uint64_t tutti_nccl_cpu_rate(const char *arch, const char *vendor, int64_t family, int64_t model);

/* The kind of network by the name of a port: of an EFA device (rdmap100s27, efa_0), of one of
 * Slingshot (cxi0), of Azure's InfiniBand (mlx5_ib0), of an interface of the kernel (eth0,
 * enp1s0f0, br-..., cali...). UNKNOWN for other verbs devices: mlx5_0 may be either. */
enum tutti_net_kind tutti_xml_net_kind(const char *name);

/* Broadcom's PEX switches show one device as two levels: is `child`, directly below `parent`, the
 * lower level of it? Ids are vendor, device, subsystem vendor and device, 16 bits each. */
int tutti_nccl_one_switch(uint64_t parent, uint64_t child);

/* Latencies are in no NCCL file and no vendor publishes them: assumed, the same as in the presets
 * of GPU machines (topo/presets/gpu.inc says why). */
#define TUTTI_NCCL_NVSWITCH_PS (250 * TUTTI_PS_PER_NS) /* GPU to NVSwitch; 500 ns GPU to GPU */
#define TUTTI_NCCL_GPU_PS      (500 * TUTTI_PS_PER_NS) /* NVLink or xGMI from GPU to GPU */
#define TUTTI_NCCL_PCIE_PS     (125 * TUTTI_PS_PER_NS) /* one PCIe hop */
#define TUTTI_NCCL_CPU_PS      (200 * TUTTI_PS_PER_NS) /* between NUMA nodes; NVLink-C2C */
#define TUTTI_NCCL_UNLIMITED   UINT64_C(5000000000000) /* NCCL's LOC_BW, 5000 GB/s: no limit */

#endif
