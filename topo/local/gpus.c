/* GPUs of NVIDIA by NVML, and the links between them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/local/scan.h"

enum { NVLINKS_MAX = 36, MBYTE_PER_S_MAX = 100000000, LINKS_MAX = 1024 };

/* Devices of the kind that computes, of sysfs alone: how many of a vendor's there are. */
static uint32_t count_seen(struct tutti_scan *scan, const char *vendor)
{
    const char *list = tutti_facts_look(scan->facts, "sys/bus/pci/devices/");
    char bus[32];
    uint32_t count = 0;

    while (list != NULL && tutti_facts_word(&list, bus, sizeof(bus))) {
        const char *class = tutti_facts_look(scan->facts, "sys/bus/pci/devices/%s/class", bus);
        const char *whose;

        if (class == NULL ||
            (strncmp(class, "0x0302", 6) != 0 && strncmp(class, "0x0300", 6) != 0 &&
             strncmp(class, "0x0380", 6) != 0 && strncmp(class, "0x1200", 6) != 0))
            continue;
        whose = tutti_facts_look(scan->facts, "sys/bus/pci/devices/%s/vendor", bus);
        count += whose != NULL && strcmp(whose, vendor) == 0;
    }
    return count;
}

static void note_unseen(struct tutti_scan *scan)
{
    uint32_t nvidia = count_seen(scan, "0x10de");
    uint32_t amd = count_seen(scan, "0x1002");

    if (scan->gpu_count == 0 && nvidia > 0)
        tutti_scan_note(scan,
                        "; %" PRIu32 " of NVIDIA's GPUs seen, but without a driver that tells of "
                        "them: left out",
                        nvidia);
    if (amd > 0)
        tutti_scan_note(scan, "; %" PRIu32 " of AMD's GPUs left out: they are not read yet", amd);
}

/* One that sysfs does not know (of a container without it) hangs on the first NUMA node. */
static int add_gpu(struct tutti_scan *scan, uint32_t g)
{
    const char *bus = tutti_facts_look(scan->facts, "nvml/%" PRIu32 "/bus", g);
    const char *name = tutti_facts_look(scan->facts, "nvml/%" PRIu32 "/name", g);
    const char *path = NULL;

    scan->gpu_names[g] = name == NULL ? "" : name;
    if (bus != NULL)
        path = tutti_facts_look(scan->facts, "sys/bus/pci/devices/%s@", bus);
    if (path != NULL)
        path = tutti_scan_function(scan, path);
    if (path == NULL) {
        char text[64];

        (void)snprintf(text, sizeof(text), "nvml/%s", bus != NULL ? bus : "");
        path = tutti_scan_function(scan, text);
        if (path == NULL)
            return tutti_fail(scan->err, TUTTI_EINVAL, "GPU %" PRIu32 " has no bus id", g);
        tutti_scan_note(scan, "; sysfs does not have GPU %" PRIu32 ": taken as under cpu0", g);
    }
    if (tutti_scan_find(scan, path) != NULL && tutti_scan_find(scan, path)->gpu != TUTTI_HW_NONE)
        return tutti_fail(scan->err, TUTTI_EINVAL, "GPU %" PRIu32 " has the bus id of another, %s",
                          g, bus);
    scan->gpu_paths[g] = path;
    if (tutti_facts_number(scan->facts, 0, "nvml/%" PRIu32 "/mig", g) == 1)
        tutti_scan_note(scan, "; GPU %" PRIu32 " is parted (MIG): taken as a whole", g);
    return tutti_scan_place(scan, path, false, g);
}

int tutti_scan_gpus(struct tutti_scan *scan)
{
    int64_t count = tutti_facts_number(scan->facts, 0, "nvml/count");
    int status = 0;

    if (count > TUTTI_SCAN_GPUS_MAX)
        return tutti_fail(scan->err, TUTTI_EINVAL, "%" PRId64 " GPUs (at most %d)", count,
                          TUTTI_SCAN_GPUS_MAX);
    scan->gpu_count = count < 0 ? 0 : (uint32_t)count;
    scan->gpu_names = tutti_arena_take(scan->arena, scan->gpu_count, sizeof(*scan->gpu_names));
    scan->gpu_paths = tutti_arena_take(scan->arena, scan->gpu_count, sizeof(*scan->gpu_paths));
    if (scan->gpu_names == NULL || scan->gpu_paths == NULL)
        return tutti_nomem(scan->err);
    for (uint32_t g = 0; g < scan->gpu_count && status == 0; g++)
        status = add_gpu(scan, g);
    note_unseen(scan);
    return status;
}

/* ---- their links --------------------------------------------------------------------------- */

/* How many links lead where. */
struct ends {
    uint32_t to_gpu[TUTTI_SCAN_GPUS_MAX]; /* by NVML index */
    uint32_t to_switch;
    uint32_t to_cpu;
    uint32_t lost;
};

/* What the other end is, by its class where NVML does not say. */
static const char *kind_of(struct tutti_scan *scan, const char *kind, const char *bus)
{
    const char *class;

    if (strcmp(kind, "unknown") != 0)
        return kind;
    class = tutti_facts_look(scan->facts, "sys/bus/pci/devices/%s/class", bus);
    if (class == NULL)
        return kind;
    if (strncmp(class, "0x068001", 8) == 0)
        return "npu";
    return strncmp(class, "0x0680", 6) == 0 ? "switch"
           : strncmp(class, "0x03", 4) == 0 ? "gpu"
                                            : kind;
}

static void count_end(struct tutti_scan *scan, const char *text, uint32_t from, struct ends *ends)
{
    char word[16];
    char bus[48];
    const char *kind;

    if (!tutti_facts_word(&text, word, sizeof(word)) || !tutti_facts_word(&text, bus, sizeof(bus)))
        return;
    kind = kind_of(scan, word, bus);
    if (strcmp(kind, "switch") == 0) {
        ends->to_switch++;
        return;
    }
    if (strcmp(kind, "npu") == 0) {
        ends->to_cpu++;
        return;
    }
    for (uint32_t g = 0; g < scan->gpu_count; g++) {
        if (g == from || tutti_scan_bus(scan->gpu_paths[g]) != tutti_scan_bus(bus))
            continue;
        ends->to_gpu[g]++;
        return;
    }
    ends->lost++;
}

static int add_nvlink(struct tutti_scan *scan, uint32_t gpu, enum tutti_hw_target kind,
                      uint32_t target, uint32_t count)
{
    const struct tutti_hw_nvlink link = {
        .gpu = gpu, .target_kind = (uint8_t)kind, .target = target, .count = count};

    return count == 0 ? 0 : tutti_hw_builder_add(&scan->hw, TUTTI_HW_NVLINK, &link, scan->err);
}

/* `index_of`: of the hardware's GPU by NVML index. */
static int add_nvlinks(struct tutti_scan *scan, uint32_t g, const uint32_t *index_of, uint32_t cpu)
{
    struct ends ends = {.lost = 0};
    int status;

    for (uint32_t l = 0; l < NVLINKS_MAX; l++) {
        const char *text = tutti_facts_look(scan->facts, "nvml/%" PRIu32 "/link/%" PRIu32, g, l);

        if (text != NULL)
            count_end(scan, text, g, &ends);
    }
    if (ends.lost > 0)
        tutti_scan_note(scan, "; %" PRIu32 " NVLinks of GPU %" PRIu32 " lead to none of these",
                        ends.lost, g);
    status = add_nvlink(scan, index_of[g], TUTTI_TARGET_NVSWITCH, 0, ends.to_switch);
    if (status == 0)
        status = add_nvlink(scan, index_of[g], TUTTI_TARGET_CPU, cpu, ends.to_cpu);
    for (uint32_t o = 0; o < scan->gpu_count && status == 0; o++)
        status = add_nvlink(scan, index_of[g], TUTTI_TARGET_GPU, index_of[o], ends.to_gpu[o]);
    return status;
}

static int add_c2c(struct tutti_scan *scan, uint32_t g, uint32_t index)
{
    const char *text = tutti_facts_look(scan->facts, "nvml/%" PRIu32 "/c2c", g);
    struct tutti_hw_c2c c2c = {.gpu = index};
    char *end;
    unsigned long count;
    unsigned long rate;

    if (text == NULL)
        return 0;
    count = strtoul(text, &end, 10);
    rate = strtoul(end, NULL, 10);
    if (count == 0 || count > LINKS_MAX || rate == 0 || rate > MBYTE_PER_S_MAX)
        return 0;
    c2c.count = (uint32_t)count;
    c2c.mbyte_per_s = (uint32_t)rate;
    return tutti_hw_builder_add(&scan->hw, TUTTI_HW_C2C, &c2c, scan->err);
}

/* Other GPUs are there, and the driver lets none of them reach this one. */
static bool is_alone(struct tutti_scan *scan, uint32_t g)
{
    for (uint32_t o = 0; o < scan->gpu_count; o++) {
        const char *text =
            o == g ? NULL : tutti_facts_look(scan->facts, "nvml/%" PRIu32 "/peer/%" PRIu32, g, o);

        if (o != g && (text == NULL || text[0] != '0'))
            return false;
    }
    return scan->gpu_count > 1;
}

/* NICs reach a GPU's memory by the module nvidia_peermem, or with the open driver by DMA-BUF. */
static bool reads_nics(struct tutti_scan *scan)
{
    const char *version = tutti_facts_look(scan->facts, "proc/driver/nvidia/version");

    return (version != NULL && strstr(version, "Open Kernel Module") != NULL) ||
           tutti_facts_look(scan->facts, "sys/module/nvidia_peermem/") != NULL ||
           tutti_facts_look(scan->facts, "sys/kernel/mm/memory_peers/nv_mem/version") != NULL;
}

static int add_part(struct tutti_scan *scan, const struct tutti_scan_place *place, bool gdr)
{
    const struct tutti_hw_gpu gpu = {
        .pci = place->index,
        .dev = place->gpu,
        .rank = place->gpu,
        .sm = (uint32_t)tutti_facts_number(scan->facts, 0, "nvml/%" PRIu32 "/sm", place->gpu),
        .gdr = gdr,
        .no_peers = is_alone(scan, place->gpu),
    };

    return tutti_hw_builder_add(&scan->hw, TUTTI_HW_GPU, &gpu, scan->err);
}

static int add_ports(struct tutti_scan *scan)
{
    int status = 0;

    for (uint32_t n = 0; n < scan->port_count && status == 0; n++) {
        const struct tutti_scan_place *place = tutti_scan_find(scan, scan->port_paths[n]);

        scan->ports[n].pci = place == NULL ? TUTTI_HW_NONE : place->index;
        scan->ports[n].cpu = place == NULL ? 0 : place->cpu;
        status = tutti_hw_builder_add(&scan->hw, TUTTI_HW_NET, &scan->ports[n], scan->err);
    }
    return status;
}

int tutti_scan_parts(struct tutti_scan *scan)
{
    uint32_t index_of[TUTTI_SCAN_GPUS_MAX] = {0};
    uint32_t cpu_of[TUTTI_SCAN_GPUS_MAX] = {0};
    bool gdr = scan->gpu_count > 0 && reads_nics(scan);
    uint32_t count = 0;
    int status = 0;

    for (uint32_t p = 0; p < scan->place_count && status == 0; p++) {
        const struct tutti_scan_place *place = &scan->places[p];

        if (place->gpu == TUTTI_HW_NONE)
            continue;
        index_of[place->gpu] = count++;
        cpu_of[place->gpu] = place->cpu;
        status = add_part(scan, place, gdr);
    }
    for (uint32_t g = 0; g < scan->gpu_count && status == 0; g++) {
        status = add_nvlinks(scan, g, index_of, cpu_of[g]);
        if (status == 0)
            status = add_c2c(scan, g, index_of[g]);
    }
    return status < 0 ? status : add_ports(scan);
}
