/* What each kind of link carries one way; none of these numbers is in the file. NVLink, xGMI and
 * PCIe have the rates of their data sheets, as in the presets (topo/presets/models.inc): what of
 * them NCCL and RCCL reckon with is in topo/hardware.h, what they get is for a calibration to say.
 */
#ifndef TUTTI_TRACES_NCCL_XML_RATES_H
#define TUTTI_TRACES_NCCL_XML_RATES_H

#include <stdint.h>

#include "topo/topo.h"

/* The generation of PCIe by the speed that the kernel writes, "16.0 GT/s PCIe"; NULL or unknown
 * is 3, as for NCCL. */
uint32_t tutti_xml_pcie_generation(const char *link_speed);

/* PCIe: `width` lanes (0: 16) of that speed. */
uint64_t tutti_xml_pcie_rate(const char *link_speed, uint64_t width);

/* One xGMI link of "gfx90a", "gfx942", or in old files "908", "910", "940". */
uint64_t tutti_xml_xgmi_rate(const char *gcn);

/* Of a cpu element, NULL where absent: enum tutti_hw_arch, enum tutti_hw_vendor. */
uint8_t tutti_xml_arch(const char *arch);
uint8_t tutti_xml_vendor(const char *vendor);

/* The kind of network by the name of a port: of an EFA device (rdmap100s27, efa_0), of one of
 * Slingshot (cxi0), of Azure's InfiniBand (mlx5_ib0), of an interface of the kernel (eth0,
 * enp1s0f0, br-..., cali...). UNKNOWN for other verbs devices: mlx5_0 may be either. */
enum tutti_net_kind tutti_xml_net_kind(const char *name);

#endif
