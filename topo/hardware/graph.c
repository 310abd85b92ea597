/* The host as nodes and links; see graph.h. */
#include "topo/hardware/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "topo/presets/models.h"
#include "topo/topo.h"

enum { NAME_BYTES = 32, SM_OF_NVLS = 90 };

struct graph {
    struct tutti_topo_builder *builder;
    const struct tutti_hardware *hw;
    const char *const *names;
    uint32_t *cpus;   /* [cpu_count]: nodes */
    uint32_t *pcis;   /* [pci_count]: the node that what is below hangs on */
    uint32_t *gpus;   /* [gpu_count] */
    uint32_t *gpu_of; /* [pci_count]: index of its GPU */
    uint8_t *is_port; /* [pci_count] */
    uint8_t *merged;  /* [pci_count]: the lower level of a PEX */
    uint32_t switch_count;
    uint32_t card_count;
    uint32_t port_count;
    uint32_t nvswitch;
    struct tutti_err *err;
};

static int add_node(struct graph *g, enum tutti_node_kind kind, const char *stem, uint32_t number,
                    uint32_t *ret)
{
    char name[NAME_BYTES];
    const struct tutti_node node = {.name = name, .rank = TUTTI_RANK_NONE, .kind = (uint8_t)kind};

    (void)snprintf(name, sizeof(name), "%s%" PRIu32, stem, number);
    return tutti_topo_add_node(g->builder, &node, ret, g->err);
}

static int add_cable(struct graph *g, uint32_t a, uint32_t b, enum tutti_link_kind kind,
                     uint64_t bytes_per_s, tutti_ps latency_ps)
{
    const struct tutti_link link = {.from = a,
                                    .to = b,
                                    .bytes_per_s = bytes_per_s,
                                    .latency_ps = latency_ps,
                                    .kind = (uint8_t)kind,
                                    .cable_count = 1};

    return tutti_topo_add_cable(g->builder, &link, g->err);
}

/* ---- the tree ------------------------------------------------------------------------------ */

static int join_to_parent(struct graph *g, uint32_t p)
{
    const struct tutti_hw_pci *pci = &g->hw->pcis[p];
    uint32_t above = pci->parent == TUTTI_HW_NONE ? g->cpus[pci->cpu] : g->pcis[pci->parent];
    uint32_t generation = tutti_hw_pcie_generation(pci->lane_mbit_per_s);

    return add_cable(g, above, g->pcis[p], TUTTI_LINK_PCIE,
                     tutti_hw_pcie_bytes_per_s(generation) / 16 * pci->lane_count,
                     TUTTI_HW_PCIE_PS);
}

static int add_gpu(struct graph *g, uint32_t p)
{
    uint32_t index = g->gpu_of[p];
    const struct tutti_hw_gpu *gpu = &g->hw->gpus[index];
    char name[NAME_BYTES];
    struct tutti_node node = {.name = name, .rank = gpu->rank, .kind = TUTTI_NODE_DEVICE};
    const struct tutti_gpu_model *model =
        g->names == NULL ? NULL : tutti_gpu_model_of_device(g->names[index]);
    int status;

    (void)snprintf(name, sizeof(name), "gpu%" PRIu32, gpu->rank);
    if (model != NULL) {
        node.flops_per_s = model->giga_flops * UINT64_C(1000000000);
        node.mem_bytes_per_s = model->mem_mbyte_per_s * UINT64_C(1000000);
    }
    status = tutti_topo_add_node(g->builder, &node, &g->gpus[index], g->err);
    g->pcis[p] = g->gpus[index];
    return status < 0 ? status : join_to_parent(g, p);
}

/* A function of the same slot has the same node: its ports share what the slot carries. */
static int add_card(struct graph *g, uint32_t p)
{
    int status;

    for (uint32_t q = 0; q < p; q++) {
        if (g->is_port[q] && g->hw->pcis[q].bus_id >> 4 == g->hw->pcis[p].bus_id >> 4) {
            g->pcis[p] = g->pcis[q];
            return 0;
        }
    }
    status = add_node(g, TUTTI_NODE_SWITCH, "card", g->card_count++, &g->pcis[p]);
    return status < 0 ? status : join_to_parent(g, p);
}

static int add_switch(struct graph *g, uint32_t p)
{
    const struct tutti_hw_pci *pci = &g->hw->pcis[p];
    int status;

    if (pci->parent != TUTTI_HW_NONE && !g->merged[pci->parent] &&
        tutti_hw_is_one_switch(g->hw->pcis[pci->parent].device_ids, pci->device_ids)) {
        g->merged[p] = 1;
        g->pcis[p] = g->pcis[pci->parent];
        return 0;
    }
    status = add_node(g, TUTTI_NODE_SWITCH, "pci", g->switch_count++, &g->pcis[p]);
    return status < 0 ? status : join_to_parent(g, p);
}

/* Ports of equal guid and port are one, seen from several places. */
static int add_port(struct graph *g, uint32_t n)
{
    const struct tutti_hw_net *net = &g->hw->nets[n];
    uint32_t above = net->pci == TUTTI_HW_NONE ? g->cpus[net->cpu] : g->pcis[net->pci];
    uint32_t node;
    int status;

    for (uint32_t m = 0; m < n; m++)
        if (g->hw->nets[m].guid == net->guid && g->hw->nets[m].port == net->port)
            return 0;
    status = add_node(g, TUTTI_NODE_NIC, "nic", g->port_count++, &node);
    return status < 0 ? status
                      : add_cable(g, above, node, TUTTI_LINK_NET,
                                  (uint64_t)net->mbit_per_s * (1000000 / 8),
                                  (tutti_ps)net->latency_ns * TUTTI_PS_PER_NS);
}

static int add_pci(struct graph *g, uint32_t p)
{
    int status;

    if (g->gpu_of[p] != TUTTI_HW_NONE)
        return add_gpu(g, p);
    if (!g->is_port[p])
        return add_switch(g, p);
    status = add_card(g, p);
    for (uint32_t n = 0; n < g->hw->net_count && status == 0; n++)
        if (g->hw->nets[n].pci == p)
            status = add_port(g, n);
    return status;
}

/* In the order of a document: each NUMA node, and what lies below it. */
static int add_tree(struct graph *g)
{
    int status = 0;

    for (uint32_t c = 0; c < g->hw->cpu_count && status == 0; c++) {
        status = add_node(g, TUTTI_NODE_CPU, "cpu", c, &g->cpus[c]);
        for (uint32_t p = 0; p < g->hw->pci_count && status == 0; p++)
            if (g->hw->pcis[p].cpu == c)
                status = add_pci(g, p);
        for (uint32_t n = 0; n < g->hw->net_count && status == 0; n++)
            if (g->hw->nets[n].pci == TUTTI_HW_NONE && g->hw->nets[n].cpu == c)
                status = add_port(g, n);
    }
    return status;
}

/* ---- links beside the tree ----------------------------------------------------------------- */

static int need_nvswitch(struct graph *g)
{
    struct tutti_node node = {
        .name = "nvswitch", .rank = TUTTI_RANK_NONE, .kind = TUTTI_NODE_SWITCH, .reduces = true};

    if (g->nvswitch != TUTTI_HW_NONE)
        return 0;
    for (uint32_t i = 0; i < g->hw->gpu_count; i++)
        node.reduces = node.reduces && g->hw->gpus[i].sm >= SM_OF_NVLS;
    return tutti_topo_add_node(g->builder, &node, &g->nvswitch, g->err);
}

/* Between GPUs each says its own direction. */
static int add_nvlink(struct graph *g, const struct tutti_hw_nvlink *from)
{
    struct tutti_link link = {.from = g->gpus[from->gpu],
                              .latency_ps = TUTTI_HW_GPU_PS,
                              .kind = TUTTI_LINK_NVLINK,
                              .cable_count = from->count};
    int status = 0;

    link.bytes_per_s = from->count * tutti_hw_nvlink_bytes_per_s(g->hw->gpus[from->gpu].sm);
    if (from->target_kind == TUTTI_TARGET_GPU) {
        link.to = g->gpus[from->target];
        return tutti_topo_add_link(g->builder, &link, g->err);
    }
    if (from->target_kind == TUTTI_TARGET_NVSWITCH) {
        status = need_nvswitch(g);
        link.latency_ps = TUTTI_HW_NVSWITCH_PS;
    }
    link.to = from->target_kind == TUTTI_TARGET_NVSWITCH ? g->nvswitch : g->cpus[from->target];
    return status < 0 ? status : tutti_topo_add_cable(g->builder, &link, g->err);
}

static int add_links(struct graph *g)
{
    const struct tutti_hardware *hw = g->hw;
    int status = 0;

    for (uint32_t l = 0; l < hw->nvlink_count && status == 0; l++)
        status = add_nvlink(g, &hw->nvlinks[l]);
    for (uint32_t l = 0; l < hw->c2c_count && status == 0; l++) {
        const struct tutti_hw_c2c *c2c = &hw->c2cs[l];
        uint32_t cpu = hw->pcis[hw->gpus[c2c->gpu].pci].cpu;

        status = add_cable(g, g->gpus[c2c->gpu], g->cpus[cpu], TUTTI_LINK_C2C,
                           (uint64_t)c2c->mbyte_per_s * c2c->count * 1000000, TUTTI_HW_CPU_PS);
    }
    for (uint32_t a = 0; a < hw->cpu_count; a++) {
        struct tutti_link link = {.from = g->cpus[a],
                                  .bytes_per_s = tutti_hw_cpu_bytes_per_s(&hw->cpus[a]),
                                  .latency_ps = TUTTI_HW_CPU_PS,
                                  .kind = TUTTI_LINK_CPU,
                                  .cable_count = 1};

        for (uint32_t b = 0; b < hw->cpu_count && status == 0; b++) {
            link.to = g->cpus[b];
            if (a != b)
                status = tutti_topo_add_link(g->builder, &link, g->err);
        }
    }
    return status;
}

int tutti_hw_graph(struct tutti_topo_builder *builder, const struct tutti_hardware *hardware,
                   const char *const *names, uint32_t *ret_cpus, struct tutti_err *err)
{
    size_t pcis = hardware->pci_count;
    uint32_t *memory =
        calloc(hardware->cpu_count + 3 * pcis + hardware->gpu_count + 1, sizeof(*memory));
    struct graph g = {.builder = builder, .hw = hardware, .names = names, .err = err};
    int status;

    if (memory == NULL)
        return tutti_nomem(err);
    g.nvswitch = TUTTI_HW_NONE;
    g.cpus = memory;
    g.pcis = g.cpus + hardware->cpu_count;
    g.gpu_of = g.pcis + pcis;
    g.gpus = g.gpu_of + pcis;
    g.is_port = (uint8_t *)(g.gpus + hardware->gpu_count);
    g.merged = g.is_port + pcis;
    for (size_t p = 0; p < pcis; p++)
        g.gpu_of[p] = TUTTI_HW_NONE;
    for (uint32_t i = 0; i < hardware->gpu_count; i++)
        g.gpu_of[hardware->gpus[i].pci] = i;
    for (uint32_t n = 0; n < hardware->net_count; n++)
        if (hardware->nets[n].pci != TUTTI_HW_NONE)
            g.is_port[hardware->nets[n].pci] = 1;
    status = add_tree(&g);
    if (status == 0)
        status = add_links(&g);
    for (uint32_t c = 0; c < hardware->cpu_count && ret_cpus != NULL && status == 0; c++)
        ret_cpus[c] = g.cpus[c];
    free(memory);
    return status;
}
