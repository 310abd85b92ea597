/* Fewer GPUs of a host: what is left of its hardware, as NCCL trims it. */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/hardware.h"
#include "topo/hardware/builder.h"

/* By index of the whole: 1 and then, once counted, the index here plus 1; 0: it goes. */
struct kept {
    uint32_t *cpus;
    uint32_t *pcis;
    uint32_t *gpus;
};

/* All that is above what stays. A parent comes before its children. */
static void mark(const struct tutti_hardware *hw, uint32_t gpu_count, const struct kept *kept)
{
    for (uint32_t g = 0; g < hw->gpu_count; g++) {
        if (hw->gpus[g].rank >= gpu_count)
            continue;
        kept->gpus[g] = 1;
        kept->pcis[hw->gpus[g].pci] = 1;
    }
    for (uint32_t n = 0; n < hw->net_count; n++) {
        kept->cpus[hw->nets[n].cpu] = 1;
        if (hw->nets[n].pci != TUTTI_HW_NONE)
            kept->pcis[hw->nets[n].pci] = 1;
    }
    for (uint32_t p = hw->pci_count; p-- > 0;) {
        if (kept->pcis[p] == 0)
            continue;
        kept->cpus[hw->pcis[p].cpu] = 1;
        if (hw->pcis[p].parent != TUTTI_HW_NONE)
            kept->pcis[hw->pcis[p].parent] = 1;
    }
}

static void number(uint32_t *marks, uint32_t count)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < count; i++)
        if (marks[i] != 0)
            marks[i] = ++next;
}

static int keep_tree(const struct tutti_hardware *hw, const struct kept *kept,
                     struct tutti_hw_builder *builder, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t c = 0; c < hw->cpu_count && status == 0; c++)
        if (kept->cpus[c] != 0)
            status = tutti_hw_builder_add(builder, TUTTI_HW_CPU, &hw->cpus[c], err);
    for (uint32_t p = 0; p < hw->pci_count && status == 0; p++) {
        struct tutti_hw_pci pci = hw->pcis[p];

        pci.cpu = kept->cpus[pci.cpu] - 1;
        if (pci.parent != TUTTI_HW_NONE)
            pci.parent = kept->pcis[pci.parent] - 1;
        if (kept->pcis[p] != 0)
            status = tutti_hw_builder_add(builder, TUTTI_HW_PCI, &pci, err);
    }
    for (uint32_t g = 0; g < hw->gpu_count && status == 0; g++) {
        struct tutti_hw_gpu gpu = hw->gpus[g];

        gpu.pci = kept->pcis[gpu.pci] - 1;
        if (kept->gpus[g] != 0)
            status = tutti_hw_builder_add(builder, TUTTI_HW_GPU, &gpu, err);
    }
    for (uint32_t n = 0; n < hw->net_count && status == 0; n++) {
        struct tutti_hw_net net = hw->nets[n];

        net.cpu = kept->cpus[net.cpu] - 1;
        if (net.pci != TUTTI_HW_NONE)
            net.pci = kept->pcis[net.pci] - 1;
        status = tutti_hw_builder_add(builder, TUTTI_HW_NET, &net, err);
    }
    return status;
}

static int keep_links(const struct tutti_hardware *hw, const struct kept *kept,
                      struct tutti_hw_builder *builder, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t l = 0; l < hw->nvlink_count && status == 0; l++) {
        struct tutti_hw_nvlink link = hw->nvlinks[l];
        bool stays = kept->gpus[link.gpu] != 0;

        link.gpu = kept->gpus[link.gpu] - 1;
        if (link.target_kind == TUTTI_TARGET_GPU) {
            stays = stays && kept->gpus[link.target] != 0;
            link.target = kept->gpus[link.target] - 1;
        } else if (link.target_kind == TUTTI_TARGET_CPU) {
            stays = stays && kept->cpus[link.target] != 0;
            link.target = kept->cpus[link.target] - 1;
        }
        if (stays)
            status = tutti_hw_builder_add(builder, TUTTI_HW_NVLINK, &link, err);
    }
    for (uint32_t l = 0; l < hw->c2c_count && status == 0; l++) {
        struct tutti_hw_c2c link = hw->c2cs[l];

        link.gpu = kept->gpus[link.gpu] - 1;
        if (kept->gpus[hw->c2cs[l].gpu] != 0)
            status = tutti_hw_builder_add(builder, TUTTI_HW_C2C, &link, err);
    }
    return status;
}

int tutti_hardware_keep(struct tutti_arena *arena, const struct tutti_hardware *hardware,
                        uint32_t gpu_count, const struct tutti_hardware **ret,
                        struct tutti_err *err)
{
    struct tutti_hw_builder builder = {.rack = hardware->rack};
    struct tutti_hardware view;
    uint32_t *marks;
    struct kept kept;
    int status;

    if (gpu_count == 0 || gpu_count > hardware->gpu_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%" PRIu32 " GPUs of a host that has %" PRIu32 " (from 1)", gpu_count,
                          hardware->gpu_count);
    marks = calloc((size_t)hardware->cpu_count + hardware->pci_count + hardware->gpu_count,
                   sizeof(*marks));
    if (marks == NULL)
        return tutti_nomem(err);
    kept = (struct kept){.cpus = marks,
                         .pcis = marks + hardware->cpu_count,
                         .gpus = marks + hardware->cpu_count + hardware->pci_count};
    mark(hardware, gpu_count, &kept);
    number(kept.cpus, hardware->cpu_count);
    number(kept.pcis, hardware->pci_count);
    number(kept.gpus, hardware->gpu_count);
    status = keep_tree(hardware, &kept, &builder, err);
    if (status == 0)
        status = keep_links(hardware, &kept, &builder, err);
    view = tutti_hw_builder_view(&builder);
    if (status == 0)
        status = tutti_hardware_copy(arena, &view, ret, err);
    tutti_hw_builder_done(&builder);
    free(marks);
    return status;
}
