/* The preset of any host: GPUs of the catalogue, wired and placed as the SPEC says.
 *
 *   gpu=MODEL            of models.inc: a100, h100-pcie, gb200, rtx4090, mi300x, ...
 *   gpus=N board=M       the first N of M GPUs that the host has; M is N unless it is said, but
 *                        8 of AMD's modules, and where some of an NVIDIA board are used that is
 *                        not made of so few
 *   intra=WORD           nvswitch, nvlink-mesh (the links shared out among all others),
 *                        nvlink-pairs (bridges between 0 and 1, 2 and 3, ...), nvlink-cube (eight
 *                        P100 or V100), xgmi, pcie (only that); auto: as the GPU is mostly sold
 *   bw=RATE lat=TIME     of one NVLink or xGMI one way; between two GPUs
 *   trays=T nodes=K      K nodes; a node is T hosts whose NVLinks meet in a rack's NVSwitches
 *   cpu=WORD sockets=N cpubw=RATE   intel, amd, grace; NUMA nodes; between them
 *   gen=N switches=N     of PCIe; switches spread over the sockets, GPUs over those; 0: none
 *   p2p=yes|no           whether cards reach each other's memory by PCIe; if not, what one sends
 *                        lies in a CPU's memory first, whatever switch joins them; auto: yes, but
 *                        of GeForce
 *   nics=N nic=RATE nicat=switch|cpu   ports of a host (of no more of them than GPUs, those of
 *                        the GPUs that are used), and where they sit; of EFA from p5 on the two to
 *                        four ports of a GPU are one to NCCL
 *   net=WORD gdr=yes|no  ib, roce, efa, slingshot, tcp, tcpx, tcpxo; GPUDirect RDMA; auto:
 *                        but for tcp and GeForce
 *   sharp=yes            switches of the network reduce
 *   niclat= hop= group= spines= over=  the network, as of all clusters
 *
 * GPUs, switches and NICs are spread evenly and in order. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/presets/gpu.h"

#define MEGA UINT64_C(1000000)
#define GIGA UINT64_C(1000000000)

enum { GPUS_MAX = 64, TRAYS_MAX = 144, NICS_MAX = 128, SOCKETS_MAX = 64, CUBE_GPUS = 8 };

/* Latencies as in gpu.inc: assumed. */
static const tutti_ps pcie_ps = 125 * TUTTI_PS_PER_NS;
static const tutti_ps cpu_ps = 200 * TUTTI_PS_PER_NS;

/* As nvidia-smi numbers the GPUs of a DGX-1V, in NCCL dumps of such machines; dgx-1v's own order,
 * which is msccl-tools', is the same graph. */
static const uint8_t volta_cube[CUBE_GPUS * CUBE_GPUS] = {
    0, 1, 1, 2, 2, 0, 0, 0, /**/ 1, 0, 2,      1, 0,      2, 0, 0, /**/ 1, 2, 0,      2, 0, 0,
    1, 0, 2, 1, 2, 0, 0, 0, 0,      1, /**/ 2, 0, 0,      0, 0, 1, 1,      2, /**/ 0, 2, 0, 0,
    1, 0, 2, 1, 0, 0, 1, 0, 1,      2, 0,      2, /**/ 0, 0, 0, 1, 2,      1, 2,      0,
};

static const uint8_t pascal_cube[CUBE_GPUS * CUBE_GPUS] = {
    0, 1, 1, 1, 1, 0, 0, 0, /**/ 1, 0, 1,      1, 0,      1, 0, 0, /**/ 1, 1, 0,      1, 0, 0,
    1, 0, 1, 1, 1, 0, 0, 0, 0,      1, /**/ 1, 0, 0,      0, 0, 1, 1,      1, /**/ 0, 1, 0, 0,
    1, 0, 1, 1, 0, 0, 1, 0, 1,      1, 0,      1, /**/ 0, 0, 0, 1, 1,      1, 1,      0,
};

/* Four MI250X, GCDs 2i and 2i + 1 in a package: the xGMI of RCCL's model of such a node
 * (tools/topo_expl, topo_8p_90a), which counts one link a pair, as we do; inside a package there
 * are four. */
static const uint8_t packages[CUBE_GPUS * CUBE_GPUS] = {
    0, 1, 1, 0, 0, 0, 1, 0, /**/ 1, 0, 0,      1, 0,      1, 0, 0, /**/ 1, 0, 0,      1, 1, 0,
    0, 0, 0, 1, 1, 0, 0, 0, 0,      1, /**/ 0, 0, 1,      0, 0, 1, 1,      0, /**/ 0, 1, 0, 0,
    1, 0, 0, 1, 1, 0, 0, 0, 1,      0, 0,      1, /**/ 0, 0, 0, 1, 0,      1, 1,      0,
};

enum intra { AUTO, NVSWITCH, NVLINK_MESH, NVLINK_PAIRS, NVLINK_CUBE, XGMI, PCIE };

struct any {
    struct tutti_gpu_plan plan;
    uint32_t trays;
    struct tutti_cluster cluster;
    uint64_t link_bytes_per_s; /* of one NVLink or xGMI */
    uint64_t cpu_bytes_per_s;
    tutti_ps latency_ps; /* GPU to GPU */
};

/* ---- reading --------------------------------------------------------------------------------- */

/* What hosts of that GPU look like unless the SPEC says. */
static enum intra usual_intra(const struct tutti_gpu_model *gpu, uint32_t board)
{
    switch ((enum tutti_gpu_form)gpu->form) {
    case TUTTI_FORM_TRAY:
        return NVSWITCH;
    case TUTTI_FORM_PACKAGE:
        return XGMI;
    case TUTTI_FORM_MESH:
        return board == 1 || gpu->nvlink_count == 0 ? PCIE : gpu->sm >= 900 ? XGMI : NVLINK_MESH;
    case TUTTI_FORM_CUBE:
        return board == 1 ? PCIE : board <= 4 ? NVLINK_MESH : board == 8 ? NVLINK_CUBE : NVSWITCH;
    case TUTTI_FORM_BOARD:
        return board == 1 ? PCIE : board <= 4 ? NVLINK_MESH : NVSWITCH;
    default:
        return PCIE;
    }
}

static bool is_card(const struct tutti_gpu_model *gpu)
{
    return gpu->form == TUTTI_FORM_CARD || gpu->form == TUTTI_FORM_GEFORCE;
}

/* Cards on AMD's CPUs: none, as two EPYCs have 128 lanes for them and more; each of eight A40, A100
 * (NVIDIA/nccl-tests issue 74, NVIDIA/nccl issue 841), RTX 4090 and 5090 has a root port of its own
 * there. On Intel's, two of which had 128 at most up to Ice Lake: one a socket where there are more
 * than four (eight RTX 3090: NVIDIA/nccl issue 1439). Modules: two GPUs a switch up to Ampere, one
 * from Hopper on, as in NVIDIA's DGX, but two where two share a NIC: Google has NCCL use the four
 * NICs of A3 High's eight GPUs by NCCL_NET_GDR_LEVEL=PIX and without PXN, so that each GPU has one
 * at its own switch. None for up to four of them. */
static uint32_t usual_switches(const struct tutti_gpu_plan *plan)
{
    const struct tutti_gpu_model *gpu = plan->gpu;

    if (is_card(gpu))
        return plan->board_count > 4 && plan->cpu.vendor != TUTTI_VENDOR_AMD ? plan->cpu_count : 0;
    if (gpu->form == TUTTI_FORM_TRAY)
        return gpu->pcie_generation >= 6 ? plan->board_count : 0; /* ConnectX-8 is one */
    if (gpu->form == TUTTI_FORM_PACKAGE || plan->board_count <= 4)
        return 0;
    return gpu->pcie_generation >= 5 && plan->nic_count * 2 != plan->board_count
               ? plan->board_count
               : (plan->board_count + 1) / 2;
}

static uint32_t usual_sockets(const struct tutti_gpu_plan *plan)
{
    if (plan->gpu->form == TUTTI_FORM_TRAY)
        return (plan->board_count + 1) / 2;
    if (plan->gpu->cpu == TUTTI_CPU_GRACE)
        return plan->board_count;
    return plan->board_count == 1 ? 1 : 2;
}

static uint32_t usual_nics(const struct tutti_gpu_plan *plan)
{
    if (is_card(plan->gpu))
        return 1;
    if (plan->gpu->form == TUTTI_FORM_CUBE || plan->gpu->form == TUTTI_FORM_PACKAGE)
        return (plan->board_count + 1) / 2;
    return plan->board_count;
}

/* EDR, HDR, NDR, XDR: what NICs carried when that PCIe was new. */
static uint64_t usual_nic_rate(uint32_t pcie_generation)
{
    return (pcie_generation <= 3 ? UINT64_C(12500) : UINT64_C(12500) << (pcie_generation - 3)) *
           MEGA;
}

/* AMD's modules are sold on boards of eight, where each has links to the seven others. */
static bool comes_by_eight(const struct tutti_gpu_model *gpu)
{
    return gpu->form == TUTTI_FORM_PACKAGE ||
           (gpu->form == TUTTI_FORM_MESH && gpu->sm >= 900 && gpu->nvlink_count == CUBE_GPUS - 1);
}

/* NVIDIA's boards are of four or eight, and one GPU of a board is let to a virtual machine: two or
 * three, five to seven are the first of eight, unless the SPEC says more of how they lie. */
static bool is_part_of_eight(const struct tutti_spec *spec, const struct tutti_gpu_plan *plan)
{
    static const char *const said[] = {"intra", "switches", "sockets", "nicat"};

    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        if (tutti_spec_given(spec, said[i]))
            return false;
    }
    return plan->gpu->form == TUTTI_FORM_BOARD && plan->gpu_count > 1 && plan->gpu_count != 4;
}

static void read_board(struct tutti_spec *spec, struct tutti_gpu_plan *plan)
{
    const char *name = tutti_spec_text(spec, "gpu");

    plan->gpu = tutti_gpu_model_find(name == NULL ? "h100" : name);
    if (plan->gpu == NULL) {
        tutti_gpu_refuse_model(spec, name);
        plan->gpu = tutti_gpu_model_find("h100");
    }
    plan->gpu_count = tutti_spec_count(spec, "gpus", 1, GPUS_MAX);
    plan->board_count = tutti_spec_count(spec, "board", 1, GPUS_MAX);
    if (plan->board_count == 0)
        plan->board_count = plan->gpu_count < CUBE_GPUS &&
                                    (comes_by_eight(plan->gpu) || is_part_of_eight(spec, plan))
                                ? CUBE_GPUS
                                : plan->gpu_count;
    if (plan->gpu_count > plan->board_count)
        tutti_spec_refuse(spec, "'gpus=%" PRIu32 "' of a board of %" PRIu32 " (at most as many)",
                          plan->gpu_count, plan->board_count);
    plan->nvlink_count = plan->gpu->nvlink_count;
    plan->pcie_generation = (uint8_t)tutti_spec_count(spec, "gen", 1, 6);
    if (plan->pcie_generation == 0)
        plan->pcie_generation = plan->gpu->pcie_generation;
}

static void refuse_wiring(struct tutti_spec *spec, const struct tutti_gpu_plan *plan,
                          const char *intra, const char *why)
{
    tutti_spec_refuse(spec, "'intra=%s' of %" PRIu32 " %s: %s", intra, plan->board_count,
                      plan->gpu->name, why);
}

/* The table of a hybrid cube mesh or of packages, both of eight. */
static void take_table(struct tutti_spec *spec, struct tutti_gpu_plan *plan, const char *intra,
                       const uint8_t *links)
{
    plan->wiring = TUTTI_WIRING_TABLE;
    plan->links = links;
    if (plan->board_count != CUBE_GPUS)
        refuse_wiring(spec, plan, intra, "the wiring is known for boards of 8");
}

static void read_wiring(struct tutti_spec *spec, struct tutti_gpu_plan *plan)
{
    static const char *const words[] = {"auto",        "nvswitch", "nvlink-mesh", "nvlink-pairs",
                                        "nvlink-cube", "xgmi",     "pcie",        NULL};
    enum intra intra = (enum intra)tutti_spec_choice(spec, "intra", words);
    bool amd = plan->gpu->sm >= 900;

    if (intra == AUTO)
        intra = usual_intra(plan->gpu, plan->board_count);
    plan->wiring = TUTTI_WIRING_PCIE;
    if (intra == PCIE)
        return;
    if (plan->nvlink_count == 0 || (intra == XGMI) != amd)
        refuse_wiring(spec, plan, words[intra], amd ? "has xGMI" : "has no such links");
    if (intra == NVSWITCH)
        plan->wiring = TUTTI_WIRING_NVSWITCH;
    else if (intra == NVLINK_PAIRS)
        plan->wiring = TUTTI_WIRING_PAIRS;
    else if (intra == NVLINK_CUBE)
        take_table(spec, plan, words[intra], plan->gpu->sm < 70 ? pascal_cube : volta_cube);
    else if (plan->gpu->form == TUTTI_FORM_PACKAGE)
        take_table(spec, plan, words[intra], packages);
    else if (plan->board_count == 1 || plan->nvlink_count / (plan->board_count - 1) == 0)
        refuse_wiring(spec, plan, words[intra], "fewer links than other GPUs");
    else
        plan->wiring = TUTTI_WIRING_MESH;
    if (intra == NVLINK_PAIRS && plan->board_count % 2 != 0)
        refuse_wiring(spec, plan, words[intra], "one has no other");
}

/* Of GPUs that are a part of a board: the ports said are theirs, if they are no more than that. */
static void share_nics(const struct tutti_spec *spec, struct tutti_gpu_plan *plan)
{
    assert(plan->gpu_count <= plan->board_count);
    if (!tutti_spec_given(spec, "nics"))
        plan->nic_used = plan->nic_count * plan->gpu_count / plan->board_count;
    else if (plan->nic_count <= plan->gpu_count)
        plan->nic_count = plan->nic_count * plan->board_count / plan->gpu_count;
}

static void read_places(struct tutti_spec *spec, struct tutti_gpu_plan *plan)
{
    static const char *const cpus[] = {"auto", "intel", "amd", "grace", NULL};
    static const char *const places[] = {"auto", "switch", "cpu", NULL};
    uint32_t cpu = tutti_spec_choice(spec, "cpu", cpus);

    plan->cpu = tutti_gpu_plan_cpu(cpu == 0 ? (enum tutti_gpu_cpu)plan->gpu->cpu
                                            : (enum tutti_gpu_cpu)(cpu - 1),
                                   plan->pcie_generation);
    plan->cpu_count = tutti_spec_count(spec, "sockets", 1, SOCKETS_MAX);
    if (plan->cpu_count == 0)
        plan->cpu_count = usual_sockets(plan);
    plan->nic_count = tutti_spec_count(spec, "nics", 0, NICS_MAX);
    if (!tutti_spec_given(spec, "nics"))
        plan->nic_count = usual_nics(plan);
    plan->nic_used = plan->nic_count;
    if (!tutti_spec_given(spec, "board") && is_part_of_eight(spec, plan))
        share_nics(spec, plan);
    plan->switch_count = tutti_spec_count(spec, "switches", 0, GPUS_MAX);
    if (!tutti_spec_given(spec, "switches"))
        plan->switch_count = usual_switches(plan);
    plan->nics_at_cpu = tutti_spec_choice(spec, "nicat", places) == 2 || plan->switch_count == 0;
}

/* Between NUMA nodes no vendor states a payload rate: these are NCCL's (2.28 topo.cc; of EPYCs
 * after Rome by its commit 2f1c174 of 2026: 32 as measured between GPUs of two Turins, 24 guessed).
 */
static uint64_t usual_cpu_rate(const struct tutti_hw_cpu *cpu)
{
    if (cpu->arch == TUTTI_ARCH_ARM64)
        return 6 * GIGA;
    if (cpu->vendor == TUTTI_VENDOR_AMD)
        return (cpu->family >= 26 ? 32u : cpu->family == 25 ? 24u : 16u) * GIGA;
    return (cpu->model >= 207 ? 40u : cpu->model >= 143 ? 22u : cpu->model >= 85 ? 10u : 6u) * GIGA;
}

/* From p5 (H100) on AWS's plugin shows NCCL the EFA ports beside a GPU as one of all their rates,
 * up to four rails (aws-ofi-nccl, nccl_ofi_rdma.h MAX_NUM_RAILS; grouped by the protocol RDMA,
 * which needs GPUDirect RDMA): 32 of 100 Gb/s are 8 of 400. */
static void join_rails(struct any *any)
{
    enum { SM_HOPPER = 90, RAILS_MAX = 4 };
    struct tutti_gpu_plan *plan = &any->plan;
    uint32_t rails = plan->nic_used / plan->gpu_count;

    if (plan->net_kind != TUTTI_NET_EFA || plan->gpu->sm < SM_HOPPER || !plan->gdr || rails < 2 ||
        rails > RAILS_MAX || plan->nic_used % plan->gpu_count != 0 ||
        any->cluster.nic_bytes_per_s > UINT64_MAX / RAILS_MAX)
        return;
    plan->nic_used = plan->gpu_count;
    plan->nic_count = plan->board_count;
    any->cluster.nic_bytes_per_s *= rails;
}

static void read_any(struct tutti_spec *spec, struct any *any)
{
    static const char *const answers[] = {"auto", "yes", "no", NULL};
    struct tutti_gpu_plan *plan = &any->plan;
    uint32_t p2p = tutti_spec_choice(spec, "p2p", answers);
    bool geforce;

    read_board(spec, plan);
    geforce = plan->gpu->form == TUTTI_FORM_GEFORCE;
    plan->no_peers = p2p == 2 || (p2p == 0 && geforce);
    read_wiring(spec, plan);
    read_places(spec, plan);
    any->trays = tutti_spec_count(spec, "trays", 1, TRAYS_MAX);
    plan->rack = any->trays > 1 ? any->trays : 0;
    if (any->trays > 1 && plan->wiring != TUTTI_WIRING_NVSWITCH)
        tutti_spec_refuse(spec,
                          "'trays=%" PRIu32 "' without NVSwitches between them "
                          "(intra=nvswitch)",
                          any->trays);
    any->cluster = tutti_gpu_read_cluster(spec, plan->gpu_count * any->trays, "nic");
    if (any->cluster.nic_bytes_per_s == 0)
        any->cluster.nic_bytes_per_s = usual_nic_rate(plan->pcie_generation);
    if (any->cluster.host_count > 1 && plan->nic_count == 0)
        tutti_spec_refuse(spec, "'nics=0' of %" PRIu32 " nodes (at least 1)",
                          any->cluster.host_count);
    plan->gdr =
        tutti_gpu_read_gdr(spec, &any->cluster) && (!geforce || tutti_spec_given(spec, "gdr"));
    plan->net_kind = any->cluster.net_kind;
    plan->net_reduces = any->cluster.reduces;
    join_rails(any);
    plan->nic_bytes_per_s = any->cluster.nic_bytes_per_s;
    plan->nic_generation = tutti_gpu_nic_generation(plan->nic_bytes_per_s, plan->pcie_generation);
    any->link_bytes_per_s = tutti_spec_rate(spec, "bw");
    if (any->link_bytes_per_s == 0)
        any->link_bytes_per_s = plan->gpu->nvlink_mbyte_per_s * MEGA;
    any->cpu_bytes_per_s = tutti_spec_rate(spec, "cpubw");
    if (any->cpu_bytes_per_s == 0)
        any->cpu_bytes_per_s = usual_cpu_rate(&plan->cpu);
    any->latency_ps = tutti_spec_time(spec, "lat");
}

/* ---- nodes and links ------------------------------------------------------------------------- */

static struct tutti_link pcie_link(uint32_t generation)
{
    assert(generation >= 1 && generation <= 6);
    return (struct tutti_link){.bytes_per_s = tutti_hw_pcie_bytes_per_s(generation),
                               .latency_ps = pcie_ps,
                               .kind = TUTTI_LINK_PCIE};
}

/* Where the parts of a tray begin, by node index. */
struct tray {
    uint32_t gpu;
    uint32_t cpu;
    uint32_t plx;
    uint32_t down; /* the same switches, for what goes down */
};

/* Joins a part to its switch. Without peer-to-peer a switch is two nodes: one takes all up to its
 * CPU, one brings all down from there, and nothing turns round within. */
static void join_switch(struct tutti_gpu_host *host, const struct tutti_link *like,
                        const struct tray *tray, uint32_t part, uint32_t s)
{
    if (tray->down == tray->plx) {
        tutti_gpu_host_cable(host, like, part, tray->plx + s);
        return;
    }
    tutti_gpu_host_link(host, like, part, tray->plx + s);
    tutti_gpu_host_link(host, like, tray->down + s, part);
}

static void add_tree(struct tutti_gpu_host *host, const struct any *any, uint32_t t,
                     struct tray *tray)
{
    const struct tutti_gpu_plan *plan = &any->plan;
    const struct tutti_node cpu = {.kind = TUTTI_NODE_CPU};
    const struct tutti_node plx = {.kind = TUTTI_NODE_SWITCH};
    const struct tutti_link pcie = pcie_link(plan->pcie_generation);
    const struct tutti_link between = {
        .bytes_per_s = any->cpu_bytes_per_s, .latency_ps = cpu_ps, .kind = TUTTI_LINK_CPU};

    for (uint32_t c = 0; c < plan->cpu_count; c++) {
        uint32_t index = tutti_gpu_host_node(host, &cpu, "cpu", t * plan->cpu_count + c);

        tray->cpu = c == 0 ? index : tray->cpu;
        for (uint32_t other = 0; other < c; other++)
            tutti_gpu_host_cable(host, &between, tray->cpu + other, index);
    }
    for (uint32_t s = 0; s < plan->switch_count; s++) {
        uint32_t index = tutti_gpu_host_node(host, &plx, "pcie", t * plan->switch_count + s);

        tray->plx = s == 0 ? index : tray->plx;
        if (!plan->no_peers)
            tutti_gpu_host_cable(host, &pcie, index,
                                 tray->cpu + tutti_gpu_plan_switch_cpu(plan, s));
        else
            tutti_gpu_host_link(host, &pcie, index, tray->cpu + tutti_gpu_plan_switch_cpu(plan, s));
    }
    tray->down = tray->plx;
    for (uint32_t s = 0; plan->no_peers && s < plan->switch_count; s++) {
        uint32_t index = tutti_gpu_host_node(host, &plx, "down", t * plan->switch_count + s);

        tray->down = s == 0 ? index : tray->down;
        tutti_gpu_host_link(host, &pcie, tray->cpu + tutti_gpu_plan_switch_cpu(plan, s), index);
    }
}

static void add_gpu_links(struct tutti_gpu_host *host, const struct any *any,
                          const struct tray *tray, uint32_t g)
{
    const struct tutti_gpu_plan *plan = &any->plan;
    const struct tutti_link pcie = pcie_link(plan->pcie_generation);
    uint32_t place = tutti_gpu_plan_gpu_place(plan, g);
    uint32_t cpu = plan->switch_count > 0 ? tutti_gpu_plan_switch_cpu(plan, place) : place;
    struct tutti_link link = {.latency_ps = any->latency_ps,
                              .kind = plan->gpu->sm >= 900 ? TUTTI_LINK_XGMI : TUTTI_LINK_NVLINK};
    const struct tutti_link c2c = {.bytes_per_s = plan->gpu->c2c_count *
                                                  (uint64_t)TUTTI_C2C_MBYTE_PER_S * MEGA,
                                   .latency_ps = cpu_ps,
                                   .kind = TUTTI_LINK_C2C,
                                   .cable_count = plan->gpu->c2c_count};

    if (plan->gpu->c2c_count > 0) /* first: of links alike routes take that */
        tutti_gpu_host_cable(host, &c2c, tray->gpu + g, tray->cpu + cpu);
    if (plan->switch_count > 0)
        join_switch(host, &pcie, tray, tray->gpu + g, place);
    else
        tutti_gpu_host_cable(host, &pcie, tray->gpu + g, tray->cpu + place);
    for (uint32_t peer = g + 1; peer < plan->gpu_count; peer++) {
        link.cable_count = tutti_gpu_plan_links(plan, g, peer);
        if (plan->gpu->form == TUTTI_FORM_PACKAGE && (g ^ 1) == peer)
            link.cable_count *= 4;
        link.bytes_per_s = any->link_bytes_per_s * link.cable_count;
        if (link.cable_count > 0)
            tutti_gpu_host_cable(host, &link, tray->gpu + g, tray->gpu + peer);
    }
}

static void add_nics(struct tutti_gpu_host *host, const struct any *any, uint32_t t,
                     const struct tray *tray)
{
    const struct tutti_gpu_plan *plan = &any->plan;
    const struct tutti_node nic = {.kind = TUTTI_NODE_NIC};
    const struct tutti_link pcie = pcie_link(plan->nic_generation);

    for (uint32_t i = 0; i < plan->nic_used; i++) {
        uint32_t index = tutti_gpu_host_node(host, &nic, "nic", t * plan->nic_used + i);
        uint32_t place = tutti_gpu_plan_nic_place(plan, i);

        if (plan->nics_at_cpu)
            tutti_gpu_host_cable(host, &pcie, index, tray->cpu + place);
        else
            join_switch(host, &pcie, tray, index, place);
    }
}

/* All trays' GPUs come first, so that ranks and nodes have one order. */
static void add_all(struct tutti_gpu_host *host, const struct any *any)
{
    const struct tutti_gpu_plan *plan = &any->plan;
    const struct tutti_node nvswitch = {.kind = TUTTI_NODE_SWITCH, .reduces = plan->gpu->sm >= 90};
    const struct tutti_link port = {.bytes_per_s = any->link_bytes_per_s * plan->nvlink_count,
                                    .latency_ps = any->latency_ps / 2,
                                    .kind = TUTTI_LINK_NVLINK,
                                    .cable_count = plan->nvlink_count};
    uint32_t gpus = plan->gpu_count * any->trays;
    struct tutti_node gpu = {.kind = TUTTI_NODE_DEVICE};

    tutti_gpu_model_figures(plan->gpu, &gpu);
    for (uint32_t g = 0; g < gpus; g++)
        (void)tutti_gpu_host_node(host, &gpu, "gpu", g);
    if (plan->wiring == TUTTI_WIRING_NVSWITCH) {
        uint32_t index = tutti_gpu_host_node(host, &nvswitch, "nvswitch", UINT32_MAX);

        for (uint32_t g = 0; g < gpus; g++)
            tutti_gpu_host_cable(host, &port, g, index);
    }
    for (uint32_t t = 0; t < any->trays; t++) {
        struct tray tray = {.gpu = t * plan->gpu_count};

        add_tree(host, any, t, &tray);
        for (uint32_t g = 0; g < plan->gpu_count; g++)
            add_gpu_links(host, any, &tray, g);
        if (any->cluster.host_count > 1)
            add_nics(host, any, t, &tray);
    }
}

static int set_source(const struct any *any, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    char text[512];

    snprintf(text, sizeof(text),
             "%s; PCIe line rates; between NUMA nodes NCCL 2.28 topo.cc; the rest as the SPEC says "
             "or usual; latencies assumed",
             any->plan.gpu->source);
    return tutti_topo_set_title(builder, NULL, text, err);
}

int tutti_preset_host(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    struct any any = {.trays = 1};
    struct tutti_gpu_host host;
    int status;

    read_any(spec, &any);
    host = tutti_gpu_host_begin(spec, err);
    if (host.status < 0)
        return host.status;
    add_all(&host, &any);
    status = tutti_gpu_host_end(&host, &any.cluster, builder);
    if (status == 0)
        status = set_source(&any, builder, err);
    return status < 0 ? status : tutti_gpu_plan_set(&any.plan, builder, err);
}
