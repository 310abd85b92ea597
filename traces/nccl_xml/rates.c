/* What words of the file say: speeds of PCIe, xGMI after data sheets as in topo/presets/models.inc,
 * processors, networks. */
#include "traces/nccl_xml/rates.h"

#include <stddef.h>
#include <string.h>

#include "topo/hardware.h"

#define MB_PER_S UINT64_C(1000000)

uint32_t tutti_xml_pcie_generation(const char *link_speed)
{
    /* Matched by prefix: "32 GT/s PCIe/s" of some clouds is Gen5. */
    static const struct {
        const char *prefix;
        uint32_t generation;
    } gens[] = {
        {"2.5 GT/s", 1}, {"5 GT/s", 2},   {"8 GT/s", 3},    {"16 GT/s", 4},   {"32 GT/s", 5},
        {"5.0 GT/s", 2}, {"8.0 GT/s", 3}, {"16.0 GT/s", 4}, {"32.0 GT/s", 5}, {"64.0 GT/s", 6},
    };
    uint32_t generation = 3;

    for (size_t i = 0; link_speed != NULL && i < sizeof(gens) / sizeof(gens[0]); i++)
        if (strncmp(link_speed, gens[i].prefix, strlen(gens[i].prefix)) == 0)
            generation = gens[i].generation;
    return generation;
}

uint64_t tutti_xml_pcie_rate(const char *link_speed, uint64_t width)
{
    return tutti_hw_pcie_bytes_per_s(tutti_xml_pcie_generation(link_speed)) / 16 *
           (width == 0 ? 16 : width);
}

/* MI350 and MI300; MI200; MI100 and MI50, whose data sheets add both ways up to 92 GB/s. */
uint64_t tutti_xml_xgmi_rate(const char *gcn)
{
    if (strncmp(gcn, "gfx", 3) == 0)
        gcn += 3;
    if (strncmp(gcn, "95", 2) == 0)
        return 76800 * MB_PER_S;
    if (strncmp(gcn, "94", 2) == 0)
        return 64000 * MB_PER_S;
    /* Before gcn was a name it was a number, and gfx90a was 910. */
    if (strcmp(gcn, "90a") == 0 || strcmp(gcn, "910") == 0)
        return 50000 * MB_PER_S;
    return 46000 * MB_PER_S;
}

uint8_t tutti_xml_arch(const char *text)
{
    if (text == NULL)
        return TUTTI_ARCH_UNKNOWN;
    if (strcmp(text, "x86_64") == 0)
        return TUTTI_ARCH_X86_64;
    if (strcmp(text, "arm64") == 0)
        return TUTTI_ARCH_ARM64;
    return strcmp(text, "ppc64") == 0 ? TUTTI_ARCH_PPC64 : TUTTI_ARCH_UNKNOWN;
}

uint8_t tutti_xml_vendor(const char *text)
{
    if (text == NULL)
        return TUTTI_VENDOR_UNKNOWN;
    if (strcmp(text, "GenuineIntel") == 0)
        return TUTTI_VENDOR_INTEL;
    if (strcmp(text, "AuthenticAMD") == 0)
        return TUTTI_VENDOR_AMD;
    return strcmp(text, "CentaurHauls") == 0 || strcmp(text, "  Shanghai  ") == 0
               ? TUTTI_VENDOR_ZHAOXIN
               : TUTTI_VENDOR_UNKNOWN;
}

enum tutti_net_kind tutti_xml_net_kind(const char *name)
{
    static const struct {
        const char *prefix;
        enum tutti_net_kind kind;
    } names[] = {
        {"rdmap", TUTTI_NET_EFA},  {"efa", TUTTI_NET_EFA},    {"cxi", TUTTI_NET_SLINGSHOT},
        {"mlx5_ib", TUTTI_NET_IB}, {"mlx4_ib", TUTTI_NET_IB}, {"eth", TUTTI_NET_TCP},
        {"en", TUTTI_NET_TCP},     {"bond", TUTTI_NET_TCP},   {"br-", TUTTI_NET_TCP},
        {"veth", TUTTI_NET_TCP},   {"cali", TUTTI_NET_TCP},   {"tunl", TUTTI_NET_TCP},
        {"docker", TUTTI_NET_TCP}, {"tap", TUTTI_NET_TCP},    {"lo", TUTTI_NET_TCP},
    };

    for (size_t i = 0; name != NULL && i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(name, names[i].prefix, strlen(names[i].prefix)) == 0)
            return names[i].kind;
    return TUTTI_NET_UNKNOWN;
}
