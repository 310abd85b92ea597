/* The tables: NVLink and xGMI after data sheets, as in topo/presets/models.inc; between CPUs NCCL
 * 2.28.9 src/graph/topo.h and topo.cc. */
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

/* NVLink 1, 3 on cards with GDDR, 5; else 2 to 4, which are alike. */
uint64_t tutti_xml_nvlink_rate(int64_t sm)
{
    if (sm >= 100)
        return 50000 * MB_PER_S;
    if (sm == 86)
        return 14062 * MB_PER_S;
    if (sm >= 60 && sm < 70)
        return 20000 * MB_PER_S;
    return 25000 * MB_PER_S;
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

uint64_t tutti_nccl_cpu_rate(const char *arch, const char *vendor, int64_t family, int64_t model)
{
    if (arch != NULL && strcmp(arch, "ppc64") == 0)
        return 32000 * MB_PER_S;
    if (arch != NULL && strcmp(arch, "arm64") == 0)
        return 6000 * MB_PER_S;
    if (arch == NULL || strcmp(arch, "x86_64") != 0 || vendor == NULL)
        return TUTTI_NCCL_UNLIMITED;
    if (strcmp(vendor, "GenuineIntel") == 0) {
        if (family == 6 && model >= 0xcf)
            return 40000 * MB_PER_S;
        if (family == 6 && model >= 0x8f)
            return 22000 * MB_PER_S;
        return (family == 6 && model >= 0x55 ? 10000 : 6000) * MB_PER_S;
    }
    if (strcmp(vendor, "AuthenticAMD") == 0)
        return 16000 * MB_PER_S;
    if (strcmp(vendor, "CentaurHauls") == 0 || strcmp(vendor, "  Shanghai  ") == 0)
        return (family == 7 && model == 0x5b ? 9000 : 6000) * MB_PER_S;
    return TUTTI_NCCL_UNLIMITED;
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

/* 4 or 5: the PCIe generation of a PEX switch at this level (0 upper, 1 lower); 0: none. */
static int pex_generation(uint64_t id, uint64_t level)
{
    uint64_t model = id & UINT64_C(0xfffffffffffff000);

    if (model == UINT64_C(0x1000c0101000a000))
        return 4;
    return model == (UINT64_C(0x1000c03010000000) | level * 0x1000) ? 5 : 0;
}

int tutti_nccl_one_switch(uint64_t parent, uint64_t child)
{
    int generation = pex_generation(parent, 0);

    return generation != 0 && generation == pex_generation(child, 1);
}
