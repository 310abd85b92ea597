/* What the links of a host carry: NVLink after data sheets, as in topo/presets/models.inc; between
 * CPUs NCCL 2.28.9 src/graph/topo.h and topo.cc. */
#include "topo/hardware.h"

#define MB_PER_S  UINT64_C(1000000)
#define UNLIMITED (5000000 * MB_PER_S) /* NCCL's LOC_BW */

/* NVLink 1, 3 on cards with GDDR, 5; else 2 to 4, which are alike. */
uint64_t tutti_hw_nvlink_bytes_per_s(uint32_t sm)
{
    if (sm >= 100)
        return 50000 * MB_PER_S;
    if (sm == 86)
        return 14062 * MB_PER_S;
    if (sm >= 60 && sm < 70)
        return 20000 * MB_PER_S;
    return 25000 * MB_PER_S;
}

static uint64_t intel(uint32_t family, uint32_t model)
{
    if (family == 6 && model >= 0xcf)
        return 40000 * MB_PER_S;
    if (family == 6 && model >= 0x8f)
        return 22000 * MB_PER_S;
    return (family == 6 && model >= 0x55 ? 10000 : 6000) * MB_PER_S;
}

uint64_t tutti_hw_cpu_bytes_per_s(const struct tutti_hw_cpu *cpu)
{
    if (cpu->arch == TUTTI_ARCH_PPC64)
        return 32000 * MB_PER_S;
    if (cpu->arch == TUTTI_ARCH_ARM64)
        return 6000 * MB_PER_S;
    if (cpu->arch != TUTTI_ARCH_X86_64)
        return UNLIMITED;
    switch (cpu->vendor) {
    case TUTTI_VENDOR_INTEL:
        return intel(cpu->family, cpu->model);
    case TUTTI_VENDOR_AMD:
        return 16000 * MB_PER_S;
    case TUTTI_VENDOR_ZHAOXIN:
        return (cpu->family == 7 && cpu->model == 0x5b ? 9000 : 6000) * MB_PER_S;
    default:
        return UNLIMITED;
    }
}

/* 4 or 5: the PCIe generation of a PEX switch at this level (0 upper, 1 lower); 0: none. */
static int pex_generation(uint64_t id, uint64_t level)
{
    uint64_t model = id & UINT64_C(0xfffffffffffff000);

    if (model == UINT64_C(0x1000c0101000a000))
        return 4;
    return model == (UINT64_C(0x1000c03010000000) | level * 0x1000) ? 5 : 0;
}

bool tutti_hw_is_one_switch(uint64_t parent, uint64_t child)
{
    int generation = pex_generation(parent, 0);

    return generation != 0 && generation == pex_generation(child, 1);
}
