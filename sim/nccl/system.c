/* NCCL's graph of a node, from its hardware. */
#include "sim/nccl/system.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/nccl/flatten.h"

enum { LINK_ROOM_FIRST = 8, INTEL_FAMILY = 6, YONGFENG_FAMILY = 7 };

/* What is being made, and where the nodes of the host at hand are. */
struct build {
    const struct tutti_nccl_parts *parts;
    const struct tutti_hardware *hw;
    struct tutti_nccl_system *system;
    struct tutti_arena *arena;
    uint32_t host;
    uint32_t *of_pci; /* [pci]: node, or NONE */
    uint32_t *of_gpu;
    uint32_t *of_cpu;
    uint32_t *nic_of_cpu; /* for ports without a PCI function */
};

/* ---- nodes and links ----------------------------------------------------------------------- */

static uint32_t add_node(struct build *b, enum tutti_nccl_kind kind, uint32_t source)
{
    struct tutti_nccl_system *s = b->system;
    uint32_t node = s->node_count++;

    s->nodes[node] = (struct tutti_nccl_node){
        .kind = (uint8_t)kind, .host = b->host, .place = s->counts[kind], .source = source};
    s->of[kind][s->counts[kind]++] = node;
    return node;
}

static int make_room(struct build *b, struct tutti_nccl_node *node)
{
    uint32_t room = node->link_room == 0 ? LINK_ROOM_FIRST : 2 * node->link_room;
    struct tutti_nccl_link *links;

    if (node->link_count < node->link_room)
        return 0;
    links = tutti_arena_take(b->arena, room, sizeof(*links));
    if (links == NULL)
        return -TUTTI_ENOMEM;
    if (node->link_count > 0)
        memcpy(links, node->links, node->link_count * sizeof(*links));
    node->links = links;
    node->link_room = room;
    return 0;
}

/* A link, or more of one there is; fastest first, of equal ones the older (topo.cc
 * ncclTopoConnectNodes). */
static int connect_one_path(struct build *b, uint32_t from, uint32_t to,
                            enum tutti_nccl_path_type type, int64_t kbyte_per_s)
{
    struct tutti_nccl_node *node = &b->system->nodes[from];
    struct tutti_nccl_link link = {.to = to, .type = (uint8_t)type};
    uint32_t at = 0;
    int status;

    while (at < node->link_count && (node->links[at].to != to || node->links[at].type != type))
        at++;
    if (at == node->link_count) {
        status = make_room(b, node);
        if (status < 0)
            return status;
        node->links[node->link_count++] = link;
    }
    link.kbyte_per_s = node->links[at].kbyte_per_s + kbyte_per_s;
    for (; at > 0 && node->links[at - 1].kbyte_per_s < link.kbyte_per_s; at--)
        node->links[at] = node->links[at - 1];
    node->links[at] = link;
    return 0;
}

static int connect(struct build *b, uint32_t a, uint32_t c, enum tutti_nccl_path_type type,
                   int64_t kbyte_per_s)
{
    int status = connect_one_path(b, a, c, type, kbyte_per_s);

    return status < 0 ? status : connect_one_path(b, c, a, type, kbyte_per_s);
}

/* ---- rates --------------------------------------------------------------------------------- */

/* kB/s of one NVLink. */
static int64_t nvlink_rate(uint32_t sm)
{
    return sm >= 100  ? 40100000
           : sm >= 90 ? 20600000
           : sm == 86 ? 12000000
           : sm >= 70 ? 20000000
           : sm >= 60 ? 18000000
                      : 20000000;
}

/* Zen 1 and 2, 3 and 4, 5; and the families as NCCL had them in its files before it told them
 * apart. */
static int64_t amd_rate(uint16_t family)
{
    return family == 26 || family == 0xbf   ? 32000000
           : family == 25 || family == 0xaf ? 24000000
                                            : 16000000;
}

/* kB/s between two NUMA nodes. */
static int64_t cpu_rate(const struct tutti_hw_cpu *cpu, bool amd_rates)
{
    if (cpu->arch == TUTTI_ARCH_PPC64)
        return 32000000;
    if (cpu->arch == TUTTI_ARCH_ARM64)
        return 6000000;
    if (cpu->arch != TUTTI_ARCH_X86_64)
        return TUTTI_NCCL_LOCAL_KBYTE_PER_S;
    if (cpu->vendor == TUTTI_VENDOR_AMD)
        return amd_rates ? amd_rate(cpu->family) : 16000000;
    if (cpu->vendor == TUTTI_VENDOR_ZHAOXIN)
        return cpu->family == YONGFENG_FAMILY && cpu->model == 0x5b ? 9000000 : 6000000;
    if (cpu->vendor != TUTTI_VENDOR_INTEL)
        return TUTTI_NCCL_LOCAL_KBYTE_PER_S;
    if (cpu->family != INTEL_FAMILY)
        return 6000000;
    return cpu->model >= 0xcf   ? 40000000 /* Emerald Rapids */
           : cpu->model >= 0x8f ? 22000000 /* Sapphire Rapids */
           : cpu->model >= 0x55 ? 10000000 /* Skylake */
                                : 6000000; /* Broadwell */
}

/* kB/s of a PCI function or switch upwards; lanes 0: not said, 16. */
static int64_t pci_rate(const struct tutti_hw_pci *pci)
{
    return (int64_t)pci->lane_mbit_per_s * (pci->lane_count == 0 ? 16 : pci->lane_count) * 125;
}

/* ---- the parts of a host ------------------------------------------------------------------- */

static bool kept(const struct build *b, uint32_t gpu)
{
    return b->parts->gpu_kept == NULL ||
           b->parts->gpu_kept[(uint64_t)b->host * b->hw->gpu_count + gpu];
}

/* What each PCI function is: by the GPU or the ports that name it, else a switch. */
static void add_functions(struct build *b)
{
    for (uint32_t p = 0; p < b->hw->pci_count; p++)
        b->of_pci[p] = TUTTI_HW_NONE;
    for (uint32_t c = 0; c < b->hw->cpu_count; c++)
        b->of_cpu[c] = add_node(b, TUTTI_NCCL_CPU, c);
    for (uint32_t c = 0; c < b->hw->cpu_count; c++)
        b->nic_of_cpu[c] = TUTTI_HW_NONE;
    for (uint32_t g = 0; g < b->hw->gpu_count; g++) {
        b->of_gpu[g] = kept(b, g) ? add_node(b, TUTTI_NCCL_GPU, g) : TUTTI_HW_NONE;
        b->of_pci[b->hw->gpus[g].pci] = b->of_gpu[g];
    }
    for (uint32_t n = 0; n < b->hw->net_count; n++) {
        uint32_t pci = b->hw->nets[n].pci;

        if (pci != TUTTI_HW_NONE && b->of_pci[pci] == TUTTI_HW_NONE)
            b->of_pci[pci] = add_node(b, TUTTI_NCCL_NIC, pci);
    }
}

/* Marks the functions of GPUs left out, so that they do not become switches. */
static bool left_out(const struct build *b, uint32_t pci)
{
    for (uint32_t g = 0; g < b->hw->gpu_count; g++)
        if (b->hw->gpus[g].pci == pci)
            return b->of_gpu[g] == TUTTI_HW_NONE;
    return false;
}

static int connect_pci(struct build *b)
{
    for (uint32_t p = 0; p < b->hw->pci_count; p++) {
        const struct tutti_hw_pci *pci = &b->hw->pcis[p];
        int status;

        if (left_out(b, p))
            continue;
        if (b->of_pci[p] == TUTTI_HW_NONE) {
            b->of_pci[p] = add_node(b, TUTTI_NCCL_PCI, p);
            b->system->nodes[b->of_pci[p]].device_ids = pci->device_ids;
        }
        assert(pci->parent == TUTTI_HW_NONE || pci->parent < p);
        status =
            connect(b, b->of_pci[p],
                    pci->parent == TUTTI_HW_NONE ? b->of_cpu[pci->cpu] : b->of_pci[pci->parent],
                    TUTTI_PATH_PIX, pci_rate(pci));
        if (status < 0)
            return status;
    }
    return 0;
}

static int connect_net(struct build *b, uint32_t net)
{
    const struct tutti_hw_net *hw = &b->hw->nets[net];
    uint32_t *nic = hw->pci != TUTTI_HW_NONE ? &b->of_pci[hw->pci] : &b->nic_of_cpu[hw->cpu];
    int status = 0;

    if (*nic == TUTTI_HW_NONE) {
        *nic = add_node(b, TUTTI_NCCL_NIC, TUTTI_HW_NONE);
        status = connect(b, *nic, b->of_cpu[hw->cpu], TUTTI_PATH_PIX, TUTTI_NCCL_LOCAL_KBYTE_PER_S);
    }
    if (status == 0)
        status = connect(b, *nic, add_node(b, TUTTI_NCCL_NET, net), TUTTI_PATH_NET,
                         (int64_t)hw->mbit_per_s * 125);
    return status;
}

/* The NUMA node above a GPU; NULL for what hangs in the air. */
static uint32_t cpu_of(const struct build *b, uint32_t gpu)
{
    return b->of_cpu[b->hw->pcis[b->hw->gpus[gpu].pci].cpu];
}

static int connect_nvlink(struct build *b, const struct tutti_hw_nvlink *nvlink)
{
    uint32_t gpu = b->of_gpu[nvlink->gpu];
    int64_t rate = nvlink->count * nvlink_rate(b->hw->gpus[nvlink->gpu].sm);

    if (gpu == TUTTI_HW_NONE)
        return 0;
    if (nvlink->target_kind == TUTTI_TARGET_NVSWITCH)
        return connect(b, gpu, b->system->of[TUTTI_NCCL_NVS][0], TUTTI_PATH_NVL, rate);
    if (nvlink->target_kind == TUTTI_TARGET_CPU)
        return connect(b, gpu, cpu_of(b, nvlink->gpu), TUTTI_PATH_NVL, rate);
    if (b->of_gpu[nvlink->target] == TUTTI_HW_NONE)
        return 0;
    return connect_one_path(b, gpu, b->of_gpu[nvlink->target], TUTTI_PATH_NVL, rate);
}

static int connect_host(struct build *b)
{
    const struct tutti_hardware *hw = b->hw;
    int status;

    add_functions(b);
    status = connect_pci(b);
    for (uint32_t n = 0; n < hw->net_count && b->parts->with_nets && status == 0; n++)
        status = connect_net(b, n);
    for (uint32_t l = 0; l < hw->nvlink_count && status == 0; l++)
        status = connect_nvlink(b, &hw->nvlinks[l]);
    for (uint32_t l = 0; l < hw->c2c_count && status == 0; l++)
        if (b->of_gpu[hw->c2cs[l].gpu] != TUTTI_HW_NONE)
            status =
                connect(b, b->of_gpu[hw->c2cs[l].gpu], cpu_of(b, hw->c2cs[l].gpu), TUTTI_PATH_C2C,
                        (int64_t)hw->c2cs[l].mbyte_per_s * hw->c2cs[l].count * 1000);
    if (status == 0)
        status = tutti_nccl_flatten(b->system, b->arena);
    for (uint32_t c = 0; c < hw->cpu_count; c++)
        for (uint32_t d = 0; d < hw->cpu_count && status == 0; d++)
            if (c != d)
                status = connect_one_path(b, b->of_cpu[c], b->of_cpu[d], TUTTI_PATH_SYS,
                                          cpu_rate(&hw->cpus[c], b->parts->amd_rates));
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* The way up goes last, so that what lies below is looked at first (topo.cc ncclTopoSort). Every
 * PCI link but those of NUMA nodes leads up from the later of its nodes, or from a GPU or NIC. */
static bool leads_up(const struct tutti_nccl_system *s, const struct tutti_nccl_node *node,
                     const struct tutti_nccl_link *link)
{
    const struct tutti_nccl_node *to = &s->nodes[link->to];

    if (link->type != TUTTI_PATH_PIX || node->kind == TUTTI_NCCL_CPU)
        return false;
    return node->kind != TUTTI_NCCL_PCI || to->kind == TUTTI_NCCL_CPU ||
           (to->kind == TUTTI_NCCL_PCI && to < node);
}

static void sort_links(struct tutti_nccl_system *s)
{
    for (uint32_t n = 0; n < s->node_count; n++) {
        struct tutti_nccl_node *node = &s->nodes[n];

        for (uint32_t l = 0; l < node->link_count; l++) {
            struct tutti_nccl_link up = node->links[l];

            if (!leads_up(s, node, &up))
                continue;
            for (; l + 1 < node->link_count; l++)
                node->links[l] = node->links[l + 1];
            node->links[l] = up;
        }
    }
}

static int pair_links(struct tutti_nccl_system *s, struct tutti_err *err)
{
    for (uint32_t n = 0; n < s->node_count; n++) {
        for (uint32_t l = 0; l < s->nodes[n].link_count; l++) {
            struct tutti_nccl_link *link = &s->nodes[n].links[l];
            const struct tutti_nccl_node *to = &s->nodes[link->to];

            link->left_mbyte_per_s = (link->kbyte_per_s + 500) / 1000;
            for (link->back = 0; link->back < to->link_count; link->back++)
                if (to->links[link->back].to == n && to->links[link->back].type == link->type)
                    break;
            if (link->back == to->link_count)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "gpu %" PRIu32 " has NVLinks to gpu %" PRIu32
                                  ", which has none back",
                                  s->nodes[n].source, to->source);
        }
    }
    return 0;
}

static int take_arrays(struct build *b)
{
    const struct tutti_hardware *hw = b->hw;
    uint64_t hosts = b->parts->host_count;
    uint64_t most = hosts * ((uint64_t)hw->cpu_count * 2 + hw->pci_count + hw->net_count) + 1;
    struct tutti_nccl_system *s = b->system;

    s->nodes = tutti_arena_take(b->arena, tutti_size(most), sizeof(*s->nodes));
    for (int k = 0; k < TUTTI_NCCL_KINDS; k++) {
        s->of[k] = tutti_arena_take(b->arena, tutti_size(most), sizeof(*s->of[k]));
        if (s->of[k] == NULL)
            return -TUTTI_ENOMEM;
    }
    b->of_pci = tutti_arena_take(b->arena, hw->pci_count, sizeof(*b->of_pci));
    b->of_gpu = tutti_arena_take(b->arena, hw->gpu_count, sizeof(*b->of_gpu));
    b->of_cpu = tutti_arena_take(b->arena, hw->cpu_count, sizeof(*b->of_cpu));
    b->nic_of_cpu = tutti_arena_take(b->arena, hw->cpu_count, sizeof(*b->nic_of_cpu));
    if (s->nodes == NULL || b->of_pci == NULL || b->of_gpu == NULL || b->of_cpu == NULL ||
        b->nic_of_cpu == NULL)
        return -TUTTI_ENOMEM;
    return 0;
}

/* Ports of equal guid and port on one host share their rate. */
static int group_nets(struct tutti_nccl_system *s, struct tutti_arena *arena)
{
    s->net_group = tutti_arena_take(arena, s->counts[TUTTI_NCCL_NET], sizeof(*s->net_group));
    if (s->net_group == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t n = 0; n < s->counts[TUTTI_NCCL_NET]; n++) {
        const struct tutti_hw_net *net = tutti_nccl_net(s, n);
        uint32_t i = 0;

        while (i < n && (tutti_nccl_net(s, i)->guid != net->guid ||
                         tutti_nccl_net(s, i)->port != net->port ||
                         tutti_nccl_node(s, TUTTI_NCCL_NET, i)->host !=
                             tutti_nccl_node(s, TUTTI_NCCL_NET, n)->host))
            i++;
        s->net_group[n] = i;
    }
    return 0;
}

/* Ends are numbered by kind. */
static void number_ends(struct tutti_nccl_system *s)
{
    for (int k = 0; k < TUTTI_NCCL_END_KINDS; k++) {
        s->end_first[k] = s->end_count;
        s->end_count += s->counts[k];
    }
}

int tutti_nccl_system_new(const struct tutti_nccl_parts *parts, struct tutti_arena *arena,
                          struct tutti_nccl_system **ret, struct tutti_err *err)
{
    struct tutti_nccl_system *s = tutti_arena_take(arena, 1, sizeof(*s));
    struct build b = {.parts = parts, .hw = parts->hardware, .system = s, .arena = arena};
    int status;

    assert(parts->host_count > 0);
    if (s == NULL)
        return tutti_nomem(err);
    s->hardware = parts->hardware;
    s->host_count = parts->host_count;
    status = take_arrays(&b);
    for (uint32_t l = 0; status == 0 && l < b.hw->nvlink_count; l++)
        if (b.hw->nvlinks[l].target_kind == TUTTI_TARGET_NVSWITCH && s->counts[TUTTI_NCCL_NVS] == 0)
            add_node(&b, TUTTI_NCCL_NVS, TUTTI_HW_NONE);
    for (b.host = 0; b.host < parts->host_count && status == 0; b.host++)
        status = connect_host(&b);
    if (status == 0)
        status = group_nets(s, arena);
    if (status < 0)
        return tutti_nomem(err);
    sort_links(s);
    number_ends(s);
    status = pair_links(s, err);
    if (status == 0)
        *ret = s;
    return status;
}

uint32_t tutti_nccl_sm_min(const struct tutti_nccl_system *system)
{
    uint32_t sm = UINT32_MAX;

    for (uint32_t g = 0; g < system->counts[TUTTI_NCCL_GPU]; g++)
        if (tutti_nccl_gpu(system, g)->sm < sm)
            sm = tutti_nccl_gpu(system, g)->sm;
    return sm;
}
