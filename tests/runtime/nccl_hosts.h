/* The hosts of NCCL's vectors (nccl_vectors.h), written by hand: never dumps of machines. */
#ifndef TUTTI_TESTS_RUNTIME_NCCL_HOSTS_H
#define TUTTI_TESTS_RUNTIME_NCCL_HOSTS_H

#include "tests/test.h"
#include "topo/hardware.h"

enum { HOST_CPUS = 4, HOST_PCIS = 96, HOST_GPUS = 16, HOST_LINKS = 256, HOST_NETS = 16 };

enum host_cpu { HOST_INTEL, HOST_AMD };

/* A host under construction; hardware() of it is what NCCL would see. */
struct host {
    struct tutti_hw_cpu cpus[HOST_CPUS];
    struct tutti_hw_pci pcis[HOST_PCIS];
    struct tutti_hw_gpu gpus[HOST_GPUS];
    struct tutti_hw_nvlink nvlinks[HOST_LINKS];
    struct tutti_hw_c2c c2cs[HOST_GPUS];
    struct tutti_hw_net nets[HOST_NETS];
    struct tutti_hardware hw;
};

static inline struct tutti_hardware *host_hardware(struct host *h)
{
    h->hw.cpus = h->cpus;
    h->hw.pcis = h->pcis;
    h->hw.gpus = h->gpus;
    h->hw.nvlinks = h->nvlinks;
    h->hw.c2cs = h->c2cs;
    h->hw.nets = h->nets;
    return &h->hw;
}

static inline uint32_t host_cpu(struct host *h, enum host_cpu vendor, uint16_t family,
                                uint16_t model)
{
    h->cpus[h->hw.cpu_count] =
        (struct tutti_hw_cpu){.numa = (int32_t)h->hw.cpu_count,
                              .arch = TUTTI_ARCH_X86_64,
                              .vendor = vendor == HOST_AMD ? TUTTI_VENDOR_AMD : TUTTI_VENDOR_INTEL,
                              .family = family,
                              .model = model};
    return h->hw.cpu_count++;
}

/* A PCIe switch or function, x16; `parent` may be TUTTI_HW_NONE. */
static inline uint32_t host_pci(struct host *h, uint32_t cpu, uint32_t parent, unsigned generation)
{
    h->pcis[h->hw.pci_count] =
        (struct tutti_hw_pci){.parent = parent,
                              .cpu = cpu,
                              .bus_id = (uint64_t)(h->hw.pci_count + 1) << 12,
                              .lane_mbit_per_s = 1500u << (generation - 1),
                              .lane_count = 16};
    return h->hw.pci_count++;
}

static inline void host_gpu(struct host *h, uint32_t cpu, uint32_t parent, unsigned generation,
                            uint32_t sm)
{
    uint32_t gpu = h->hw.gpu_count++;

    h->gpus[gpu] = (struct tutti_hw_gpu){.pci = host_pci(h, cpu, parent, generation),
                                         .dev = gpu,
                                         .rank = gpu,
                                         .sm = sm,
                                         .gdr = true};
}

static inline void host_net(struct host *h, uint32_t cpu, uint32_t parent, unsigned generation,
                            uint32_t mbit_per_s)
{
    uint32_t net = h->hw.net_count++;

    h->nets[net] = (struct tutti_hw_net){.pci = host_pci(h, cpu, parent, generation),
                                         .cpu = cpu,
                                         .dev = net,
                                         .mbit_per_s = mbit_per_s,
                                         .port = 1,
                                         .guid = 0xa0 + net,
                                         .gdr = true};
}

static inline void host_nvlink(struct host *h, uint32_t gpu, enum tutti_hw_target kind,
                               uint32_t target, uint32_t count)
{
    h->nvlinks[h->hw.nvlink_count++] = (struct tutti_hw_nvlink){
        .gpu = gpu, .target_kind = (uint8_t)kind, .target = target, .count = count};
}

/* Switches under two NUMA nodes, each with `per_switch` GPUs and as many ports; NVSwitch. */
struct host_box {
    enum host_cpu vendor;
    uint16_t family, model;
    uint32_t gpus, per_switch, sm, links;
    unsigned generation;
    uint32_t mbit_per_s;
};

static inline void host_box(struct host *h, const struct host_box *box)
{
    host_cpu(h, box->vendor, box->family, box->model);
    host_cpu(h, box->vendor, box->family, box->model);
    for (uint32_t g = 0; g < box->gpus; g += box->per_switch) {
        uint32_t cpu = g >= box->gpus / 2;
        uint32_t parent = host_pci(h, cpu, TUTTI_HW_NONE, box->generation);

        for (uint32_t i = 0; i < box->per_switch; i++) {
            host_gpu(h, cpu, parent, box->generation, box->sm);
            host_net(h, cpu, parent, box->generation, box->mbit_per_s);
        }
    }
    for (uint32_t g = 0; g < box->gpus; g++)
        host_nvlink(h, g, TUTTI_TARGET_NVSWITCH, 0, box->links);
}

static inline void host_l40x8(struct host *h)
{
    for (uint32_t c = 0; c < 2; c++) {
        uint32_t parent;

        host_cpu(h, HOST_INTEL, 6, 106);
        parent = host_pci(h, c, TUTTI_HW_NONE, 4);
        for (uint32_t g = 0; g < 4; g++)
            host_gpu(h, c, parent, 4, 89);
        host_net(h, c, TUTTI_HW_NONE, 4, 100000);
    }
}

/* The cube mesh of a DGX-1V, in its document's order of links. */
static inline void host_v100x8(struct host *h)
{
    static const uint8_t mesh[8][4][2] = {
        {{1, 1}, {2, 1}, {3, 2}, {4, 2}}, {{0, 1}, {2, 2}, {3, 1}, {5, 2}},
        {{0, 1}, {1, 2}, {3, 2}, {6, 1}}, {{0, 2}, {1, 1}, {2, 2}, {7, 1}},
        {{0, 2}, {5, 1}, {6, 1}, {7, 2}}, {{1, 2}, {4, 1}, {6, 2}, {7, 1}},
        {{2, 1}, {4, 1}, {5, 2}, {7, 2}}, {{3, 1}, {4, 2}, {5, 1}, {6, 2}},
    };

    for (uint32_t s = 0; s < 4; s++) {
        uint32_t parent;

        if (s % 2 == 0)
            host_cpu(h, HOST_INTEL, 6, 79);
        parent = host_pci(h, s / 2, TUTTI_HW_NONE, 3);
        host_gpu(h, s / 2, parent, 3, 70);
        host_gpu(h, s / 2, parent, 3, 70);
        host_net(h, s / 2, parent, 3, 100000);
    }
    for (uint32_t g = 0; g < 8; g++)
        for (uint32_t l = 0; l < 4; l++)
            host_nvlink(h, g, TUTTI_TARGET_GPU, mesh[g][l][0], mesh[g][l][1]);
}

/* GPUs under one NUMA node, and a port where `mbit_per_s` is not 0. */
static inline void host_plain(struct host *h, uint16_t family, uint16_t model, uint32_t gpus,
                              uint32_t sm, uint32_t mbit_per_s)
{
    host_cpu(h, HOST_AMD, family, model);
    for (uint32_t g = 0; g < gpus; g++)
        host_gpu(h, 0, TUTTI_HW_NONE, 4, sm);
    if (mbit_per_s > 0)
        host_net(h, 0, TUTTI_HW_NONE, 4, mbit_per_s);
}

/* One GPU and a socket, not a PCI function, of 10 Gb/s. */
static inline void host_one90(struct host *h)
{
    host_cpu(h, HOST_INTEL, 6, 143);
    host_gpu(h, 0, TUTTI_HW_NONE, 5, 90);
    h->nets[h->hw.net_count++] =
        (struct tutti_hw_net){.pci = TUTTI_HW_NONE, .cpu = 0, .mbit_per_s = 10000};
}

/* Fills `h` with a host of the table; false: there is none of that name. */
static inline bool host_named(struct host *h, const char *name)
{
    static const struct {
        const char *name;
        struct host_box box;
    } boxes[] = {
        {"H100x8", {HOST_INTEL, 6, 143, 8, 1, 90, 18, 5, 400000}},
        {"H100x4", {HOST_INTEL, 6, 143, 4, 1, 90, 18, 5, 400000}},
        {"H100x2", {HOST_INTEL, 6, 143, 2, 1, 90, 18, 5, 400000}},
        {"A100x8", {HOST_AMD, 23, 49, 8, 2, 80, 12, 4, 200000}},
        {"A100x8s", {HOST_AMD, 23, 49, 8, 1, 80, 12, 4, 200000}},
        {"B200x8", {HOST_INTEL, 6, 207, 8, 1, 100, 18, 5, 400000}},
    };

    *h = (struct host){.cpus = {{0}}};
    for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++) {
        if (strcmp(boxes[i].name, name) == 0) {
            host_box(h, &boxes[i].box);
            return true;
        }
    }
    if (strcmp(name, "L40x4") == 0)
        host_plain(h, 25, 1, 4, 89, 100000);
    else if (strcmp(name, "L40x2") == 0)
        host_plain(h, 25, 1, 2, 89, 0);
    else if (strcmp(name, "A100x2") == 0)
        host_plain(h, 23, 49, 2, 80, 100000);
    else if (strcmp(name, "L40x8") == 0)
        host_l40x8(h);
    else if (strcmp(name, "V100x8") == 0)
        host_v100x8(h);
    else if (strcmp(name, "ONE90") == 0)
        host_one90(h);
    if (strcmp(name, "A100x2") == 0) {
        host_nvlink(h, 0, TUTTI_TARGET_GPU, 1, 12);
        host_nvlink(h, 1, TUTTI_TARGET_GPU, 0, 12);
    }
    return h->hw.gpu_count > 0;
}

#endif
