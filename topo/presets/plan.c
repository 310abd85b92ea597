/* From a plan to the hardware of a host. */
#include "topo/presets/plan.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/topo.h"

enum { LANES = 16, GUID_FIRST = 0xa0, BUS_FIRST = 0x10 };

/* CPUID of what is sold with each generation of PCIe: Broadwell (DGX-1), Ice Lake, Sapphire and
 * Emerald Rapids (DGX H100, DGX B200); Naples, Rome (DGX A100), Genoa, Turin. NCCL tells Intel's by
 * the model only, and AMD's not at all. */
struct tutti_hw_cpu tutti_gpu_plan_cpu(enum tutti_gpu_cpu cpu, uint32_t pcie_generation)
{
    static const uint8_t intel_models[] = {79, 106, 143, 207};
    static const uint8_t amd[][2] = {{23, 1}, {23, 49}, {25, 17}, {26, 2}};
    uint32_t g = pcie_generation < 3 ? 0 : pcie_generation > 6 ? 3 : pcie_generation - 3;

    if (cpu == TUTTI_CPU_GRACE)
        return (struct tutti_hw_cpu){.arch = TUTTI_ARCH_ARM64};
    if (cpu == TUTTI_CPU_AMD)
        return (struct tutti_hw_cpu){.arch = TUTTI_ARCH_X86_64,
                                     .vendor = TUTTI_VENDOR_AMD,
                                     .family = amd[g][0],
                                     .model = amd[g][1]};
    return (struct tutti_hw_cpu){.arch = TUTTI_ARCH_X86_64,
                                 .vendor = TUTTI_VENDOR_INTEL,
                                 .family = 6,
                                 .model = intel_models[g]};
}

uint8_t tutti_gpu_nic_generation(uint64_t bytes_per_s, uint8_t most)
{
    /* Up to 200 Gb/s, ConnectX-6; 400, ConnectX-7; 800, ConnectX-8. */
    uint8_t generation = bytes_per_s <= UINT64_C(25000000000)   ? 4
                         : bytes_per_s <= UINT64_C(50000000000) ? 5
                                                                : 6;

    return generation < most ? generation : most;
}

uint32_t tutti_gpu_plan_links(const struct tutti_gpu_plan *plan, uint32_t a, uint32_t b)
{
    if (a == b)
        return 0;
    switch (plan->wiring) {
    case TUTTI_WIRING_MESH:
        return plan->nvlink_count / (plan->board_count - 1);
    case TUTTI_WIRING_PAIRS:
        return (a ^ 1) == b ? plan->nvlink_count : 0;
    case TUTTI_WIRING_TABLE:
        return plan->links[a * plan->board_count + b];
    default:
        return 0;
    }
}

uint32_t tutti_gpu_plan_gpu_place(const struct tutti_gpu_plan *plan, uint32_t g)
{
    uint32_t places = plan->switch_count > 0 ? plan->switch_count : plan->cpu_count;

    return (uint32_t)((uint64_t)g * places / plan->board_count);
}

uint32_t tutti_gpu_plan_nic_place(const struct tutti_gpu_plan *plan, uint32_t i)
{
    uint32_t places =
        plan->switch_count > 0 && !plan->nics_at_cpu ? plan->switch_count : plan->cpu_count;

    return (uint32_t)((uint64_t)i * places / plan->nic_count);
}

uint32_t tutti_gpu_plan_switch_cpu(const struct tutti_gpu_plan *plan, uint32_t s)
{
    return (uint32_t)((uint64_t)s * plan->cpu_count / plan->switch_count);
}

/* ---- one part after the other ---------------------------------------------------------------- */

/* The first failure is kept, and later parts are not added. */
struct making {
    const struct tutti_gpu_plan *plan;
    struct tutti_hw_builder builder;
    uint32_t bus; /* of the next function */
    int status;
    struct tutti_err *err;
};

static void add(struct making *making, enum tutti_hw_part part, const void *item)
{
    if (making->status == 0)
        making->status = tutti_hw_builder_add(&making->builder, part, item, making->err);
}

static uint32_t add_pci(struct making *making, uint32_t parent, uint32_t cpu, uint32_t generation)
{
    uint32_t bus = making->bus++;
    const struct tutti_hw_pci pci = {
        .parent = parent,
        .cpu = cpu,
        .bus_id = (uint64_t)(bus >> 8) << 20 | (uint64_t)(bus & 0xff) << 12,
        .lane_mbit_per_s = tutti_hw_lane_mbit_per_s(generation),
        .lane_count = LANES,
    };

    add(making, TUTTI_HW_PCI, &pci);
    return making->builder.parts[TUTTI_HW_PCI].count - 1;
}

static void add_gpu(struct making *making, uint32_t parent, uint32_t cpu, uint32_t g)
{
    const struct tutti_gpu_plan *plan = making->plan;
    struct tutti_hw_gpu gpu = {
        .dev = g, .rank = g, .sm = plan->gpu->sm, .gdr = plan->gdr, .no_peers = plan->no_peers};

    gpu.pci = add_pci(making, parent, cpu, plan->pcie_generation);
    add(making, TUTTI_HW_GPU, &gpu);
}

/* What AWS's plugin (aws-ofi-nccl, platform-aws) tells NCCL of EFA on its machines: 150 us on p3dn
 * (V100), 75 us up to p5, 35 us on p5en (H200, though p5e has them, too) and p6 (Blackwell); and
 * that Simple alone may run where 128 bytes may come out of order, before p5 (H100), and where
 * there is no GPUDirect RDMA, for LL would poll for flags in host memory that the NIC writes
 * (nccl_ofi_net.cpp). */
enum { EFA_BEFORE_AMPERE_NS = 150000, EFA_NS = 75000, EFA_FROM_P5EN_NS = 35000 };

static void set_efa(const struct tutti_gpu_plan *plan, struct tutti_hw_net *net)
{
    uint32_t sm = plan->gpu->sm;
    bool is_late = sm >= 100 || strcmp(plan->gpu->name, "h200") == 0;

    net->latency_ns = sm < 80                ? EFA_BEFORE_AMPERE_NS
                      : is_late && plan->gdr ? EFA_FROM_P5EN_NS
                                             : EFA_NS;
    net->unordered = sm < 90 || !plan->gdr;
}

static void add_net(struct making *making, uint32_t parent, uint32_t cpu, uint32_t i)
{
    const struct tutti_gpu_plan *plan = making->plan;
    uint64_t mbit_per_s = plan->nic_bytes_per_s / (1000000 / 8);
    struct tutti_hw_net net = {.cpu = cpu,
                               .dev = i,
                               .port = 1,
                               .guid = GUID_FIRST + i,
                               .gdr = plan->gdr,
                               .coll = plan->net_reduces};

    if (plan->net_kind == TUTTI_NET_EFA)
        set_efa(plan, &net);
    net.mbit_per_s = mbit_per_s == 0           ? 1
                     : mbit_per_s > UINT32_MAX ? UINT32_MAX
                                               : (uint32_t)mbit_per_s;
    net.pci = add_pci(making, parent, cpu, plan->nic_generation);
    add(making, TUTTI_HW_NET, &net);
}

/* What lies in one place: a switch, or under a NUMA node. */
static void add_gpus(struct making *making, uint32_t place, uint32_t parent, uint32_t cpu)
{
    for (uint32_t g = 0; g < making->plan->board_count; g++)
        if (tutti_gpu_plan_gpu_place(making->plan, g) == place)
            add_gpu(making, parent, cpu, g);
}

static void add_nets(struct making *making, uint32_t place, uint32_t parent, uint32_t cpu)
{
    for (uint32_t i = 0; i < making->plan->nic_used; i++)
        if (tutti_gpu_plan_nic_place(making->plan, i) == place)
            add_net(making, parent, cpu, i);
}

static void add_cpu(struct making *making, uint32_t c)
{
    const struct tutti_gpu_plan *plan = making->plan;
    struct tutti_hw_cpu cpu = plan->cpu;

    cpu.numa = (int32_t)c;
    add(making, TUTTI_HW_CPU, &cpu);
    for (uint32_t s = 0; s < plan->switch_count; s++) {
        uint32_t pci;

        if (tutti_gpu_plan_switch_cpu(plan, s) != c)
            continue;
        pci = add_pci(making, TUTTI_HW_NONE, c, plan->pcie_generation);
        add_gpus(making, s, pci, c);
        if (!plan->nics_at_cpu)
            add_nets(making, s, pci, c);
    }
    if (plan->switch_count == 0)
        add_gpus(making, c, TUTTI_HW_NONE, c);
    if (plan->switch_count == 0 || plan->nics_at_cpu)
        add_nets(making, c, TUTTI_HW_NONE, c);
}

static void add_links(struct making *making, uint32_t g)
{
    const struct tutti_gpu_plan *plan = making->plan;
    const struct tutti_hw_nvlink up = {
        .gpu = g, .target_kind = TUTTI_TARGET_NVSWITCH, .count = plan->nvlink_count};
    const struct tutti_hw_c2c c2c = {
        .gpu = g, .mbyte_per_s = TUTTI_C2C_MBYTE_PER_S, .count = plan->gpu->c2c_count};

    if (plan->wiring == TUTTI_WIRING_NVSWITCH)
        add(making, TUTTI_HW_NVLINK, &up);
    for (uint32_t peer = 0; peer < plan->board_count; peer++) {
        struct tutti_hw_nvlink link = {.gpu = g, .target = peer};

        link.count = tutti_gpu_plan_links(plan, g, peer);
        if (link.count > 0)
            add(making, TUTTI_HW_NVLINK, &link);
    }
    if (plan->gpu->c2c_count > 0)
        add(making, TUTTI_HW_C2C, &c2c);
}

/* Of the whole board; the GPUs that are not used go as NCCL lets them go. */
static int set_first(const struct tutti_hardware *whole, uint32_t gpu_count,
                     struct tutti_topo_builder *builder, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    const struct tutti_hardware *kept = NULL;
    int status = arena == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_hardware_keep(arena, whole, gpu_count, &kept, err);
    if (status == 0)
        status = tutti_topo_set_hardware(builder, kept, err);
    tutti_arena_free(arena);
    return status;
}

int tutti_gpu_plan_set(const struct tutti_gpu_plan *plan, struct tutti_topo_builder *builder,
                       struct tutti_err *err)
{
    struct making making = {.plan = plan, .bus = BUS_FIRST, .err = err};
    struct tutti_hardware view;

    assert(plan->gpu_count > 0 && plan->gpu_count <= plan->board_count);
    assert(plan->cpu_count > 0 && plan->nic_used <= plan->nic_count);
    making.builder.rack = plan->rack;
    for (uint32_t c = 0; c < plan->cpu_count; c++)
        add_cpu(&making, c);
    for (uint32_t g = 0; g < plan->board_count; g++)
        add_links(&making, g);
    view = tutti_hw_builder_view(&making.builder);
    if (making.status == 0)
        making.status = set_first(&view, plan->gpu_count, builder, err);
    tutti_hw_builder_done(&making.builder);
    return making.status;
}
