/* The hardware of a host: is it one, and copying it. */
#include "topo/hardware.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"

enum { GENERATIONS = 6, LANES_MAX = 1024 };

/* NCCL 2.28 topo.cc: in 100 Mb/s, what is left of each generation's transfers after encoding. */
uint32_t tutti_hw_lane_mbit_per_s(uint32_t generation)
{
    return generation < 1 || generation > GENERATIONS ? 0 : 1500u << (generation - 1);
}

uint32_t tutti_hw_pcie_generation(uint32_t lane_mbit_per_s)
{
    for (uint32_t g = 1; g <= GENERATIONS; g++)
        if (lane_mbit_per_s == tutti_hw_lane_mbit_per_s(g))
            return g;
    return 0;
}

uint64_t tutti_hw_pcie_bytes_per_s(uint32_t generation)
{
    static const uint64_t mega[GENERATIONS] = {4000, 8000, 15754, 31508, 63015, 121000};

    return generation < 1 || generation > GENERATIONS ? 0 : mega[generation - 1] * 1000000;
}

/* What is found out while checking, by index. */
struct check {
    const struct tutti_hardware *hw;
    uint8_t *is_function; /* [pci_count]: of a GPU or ports */
    uint8_t *has_gpu;     /* [pci_count] */
    uint8_t *rank_seen;   /* [gpu_count] */
    struct tutti_err *err;
};

static int bad(const struct check *check, const char *what, uint32_t index, const char *why)
{
    return tutti_fail(check->err, TUTTI_EINVAL, "hardware: %s%" PRIu32 " %s", what, index, why);
}

static int check_counts(const struct check *check)
{
    const struct tutti_hardware *hw = check->hw;
    const uint32_t counts[] = {hw->cpu_count,    hw->pci_count, hw->gpu_count,
                               hw->nvlink_count, hw->c2c_count, hw->net_count};

    if (hw->cpu_count == 0 || hw->gpu_count == 0)
        return tutti_fail(check->err, TUTTI_EINVAL, "hardware without a %s (at least 1)",
                          hw->cpu_count == 0 ? "cpu" : "gpu");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i] > TUTTI_HW_ITEMS_MAX)
            return tutti_fail(check->err, TUTTI_EINVAL,
                              "hardware of %" PRIu32 " things of a kind (at most %d)", counts[i],
                              TUTTI_HW_ITEMS_MAX);
    return 0;
}

static int check_cpus(const struct check *check)
{
    for (uint32_t c = 0; c < check->hw->cpu_count; c++)
        if (check->hw->cpus[c].arch > TUTTI_ARCH_PPC64 ||
            check->hw->cpus[c].vendor > TUTTI_VENDOR_ZHAOXIN)
            return bad(check, "cpu", c, "is of no known arch or vendor");
    return 0;
}

static int check_gpus(const struct check *check)
{
    const struct tutti_hardware *hw = check->hw;

    for (uint32_t g = 0; g < hw->gpu_count; g++) {
        const struct tutti_hw_gpu *gpu = &hw->gpus[g];

        if (gpu->pci >= hw->pci_count)
            return bad(check, "gpu", g, "lies in no pci");
        if (check->has_gpu[gpu->pci])
            return bad(check, "gpu", g, "is the second of its pci (one each)");
        if (gpu->rank >= hw->gpu_count || check->rank_seen[gpu->rank])
            return bad(check, "gpu", g, "has a rank that is taken or too high (each from 0 once)");
        check->has_gpu[gpu->pci] = check->is_function[gpu->pci] = 1;
        check->rank_seen[gpu->rank] = 1;
    }
    return 0;
}

static int check_nets(const struct check *check)
{
    const struct tutti_hardware *hw = check->hw;

    for (uint32_t n = 0; n < hw->net_count; n++) {
        const struct tutti_hw_net *net = &hw->nets[n];

        if (net->cpu >= hw->cpu_count || (net->pci != TUTTI_HW_NONE && net->pci >= hw->pci_count))
            return bad(check, "net", n, "lies in no pci and under no cpu");
        if (net->mbit_per_s == 0)
            return bad(check, "net", n, "has no rate (more than 0)");
        if (net->pci == TUTTI_HW_NONE)
            continue;
        if (hw->pcis[net->pci].cpu != net->cpu)
            return bad(check, "net", n, "has another cpu than its pci");
        check->is_function[net->pci] = 1;
    }
    return 0;
}

static int check_pcis(const struct check *check)
{
    const struct tutti_hardware *hw = check->hw;

    for (uint32_t p = 0; p < hw->pci_count; p++) {
        const struct tutti_hw_pci *pci = &hw->pcis[p];

        if (pci->cpu >= hw->cpu_count)
            return bad(check, "pci", p, "is under no cpu");
        if (pci->parent != TUTTI_HW_NONE && pci->parent >= p)
            return bad(check, "pci", p, "is under none before it");
        if (pci->parent != TUTTI_HW_NONE && hw->pcis[pci->parent].cpu != pci->cpu)
            return bad(check, "pci", p, "has another cpu than the one it is under");
        if (pci->parent != TUTTI_HW_NONE && check->is_function[pci->parent])
            return bad(check, "pci", p, "is under a gpu or a net (a switch or a cpu)");
        if (tutti_hw_pcie_generation(pci->lane_mbit_per_s) == 0)
            return bad(check, "pci", p, "is of no PCIe generation (1 to 6)");
        if (pci->lane_count == 0 || pci->lane_count > LANES_MAX)
            return bad(check, "pci", p, "has no lanes, or too many (1 to 1024)");
    }
    return 0;
}

static int check_links(const struct check *check)
{
    const struct tutti_hardware *hw = check->hw;

    for (uint32_t l = 0; l < hw->nvlink_count; l++) {
        const struct tutti_hw_nvlink *link = &hw->nvlinks[l];
        bool to_gpu = link->target_kind == TUTTI_TARGET_GPU;

        if (link->gpu >= hw->gpu_count || link->target_kind > TUTTI_TARGET_CPU ||
            (to_gpu && link->target >= hw->gpu_count) ||
            (link->target_kind == TUTTI_TARGET_CPU && link->target >= hw->cpu_count))
            return bad(check, "nvlink", l, "is between what is not there");
        if (link->count == 0 || (to_gpu && link->gpu == link->target))
            return bad(check, "nvlink", l, "has a count of 0, or leads from a gpu to itself");
    }
    for (uint32_t l = 0; l < hw->c2c_count; l++) {
        const struct tutti_hw_c2c *link = &hw->c2cs[l];

        if (link->gpu >= hw->gpu_count || link->mbyte_per_s == 0 || link->count == 0)
            return bad(check, "c2c", l, "is of no gpu, or has no rate or a count of 0");
    }
    return 0;
}

int tutti_hardware_check(const struct tutti_hardware *hardware, struct tutti_err *err)
{
    struct check check = {.hw = hardware, .err = err};
    int status = check_counts(&check);
    uint8_t *marks;

    if (status < 0)
        return status;
    marks = calloc(2 * (size_t)hardware->pci_count + hardware->gpu_count, 1);
    if (marks == NULL)
        return tutti_nomem(err);
    check.is_function = marks;
    check.has_gpu = marks + hardware->pci_count;
    check.rank_seen = check.has_gpu + hardware->pci_count;
    status = check_cpus(&check);
    if (status == 0)
        status = check_gpus(&check);
    if (status == 0)
        status = check_nets(&check);
    if (status == 0)
        status = check_pcis(&check);
    if (status == 0)
        status = check_links(&check);
    free(marks);
    return status;
}

static const void *copy_items(struct tutti_arena *arena, const void *items, uint32_t count,
                              size_t size)
{
    void *copy = tutti_arena_take(arena, count, size);

    if (copy != NULL && count > 0)
        memcpy(copy, items, count * size);
    return copy;
}

#define COPY(items, count) copy_items(arena, items, count, sizeof(*(items)))

int tutti_hardware_copy(struct tutti_arena *arena, const struct tutti_hardware *hardware,
                        const struct tutti_hardware **ret, struct tutti_err *err)
{
    struct tutti_hardware *copy;
    int status = tutti_hardware_check(hardware, err);

    if (status < 0)
        return status;
    copy = tutti_arena_take(arena, 1, sizeof(*copy));
    if (copy == NULL)
        return tutti_nomem(err);
    *copy = *hardware;
    copy->cpus = COPY(hardware->cpus, hardware->cpu_count);
    copy->pcis = COPY(hardware->pcis, hardware->pci_count);
    copy->gpus = COPY(hardware->gpus, hardware->gpu_count);
    copy->nvlinks = COPY(hardware->nvlinks, hardware->nvlink_count);
    copy->c2cs = COPY(hardware->c2cs, hardware->c2c_count);
    copy->nets = COPY(hardware->nets, hardware->net_count);
    if (copy->cpus == NULL || copy->pcis == NULL || copy->gpus == NULL || copy->nvlinks == NULL ||
        copy->c2cs == NULL || copy->nets == NULL)
        return tutti_nomem(err);
    *ret = copy;
    return 0;
}
