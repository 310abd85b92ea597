/* NUMA nodes, what processors they have, and how many cores. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/local/scan.h"

/* What stands behind the colon of a line of /proc/cpuinfo, up to its end, in `buf`. */
static bool line_of(const char *text, const char *name, char *buf, size_t buf_bytes)
{
    size_t length = strlen(name);

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        const char *colon;
        size_t bytes;

        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || strchr(" :", line[length]) == NULL)
            continue;
        colon = strchr(line + length, ':');
        if (colon == NULL)
            return false;
        colon += 1 + strspn(colon + 1, " ");
        bytes = strcspn(colon, "\n");
        if (bytes >= buf_bytes)
            bytes = buf_bytes - 1;
        memcpy(buf, colon, bytes);
        buf[bytes] = '\0';
        return true;
    }
    return false;
}

static uint16_t number_of(const char *text, const char *name)
{
    char word[32];
    unsigned long number;

    if (!line_of(text, name, word, sizeof(word)))
        return 0;
    number = strtoul(word, NULL, 10);
    return number > UINT16_MAX ? 0 : (uint16_t)number;
}

/* The first processor's: those of a host are alike. Each architecture has words of its own. */
static struct tutti_hw_cpu read_processor(struct tutti_scan *scan)
{
    const char *text = tutti_facts_look(scan->facts, "proc/cpuinfo");
    struct tutti_hw_cpu cpu = {.arch = TUTTI_ARCH_UNKNOWN};
    char vendor[32];

    if (text == NULL)
        return cpu;
    if (line_of(text, "vendor_id", vendor, sizeof(vendor))) {
        cpu.arch = TUTTI_ARCH_X86_64;
        if (strcmp(vendor, "GenuineIntel") == 0)
            cpu.vendor = TUTTI_VENDOR_INTEL;
        else if (strcmp(vendor, "AuthenticAMD") == 0)
            cpu.vendor = TUTTI_VENDOR_AMD;
        else if (strcmp(vendor, "CentaurHauls") == 0 || strcmp(vendor, "Shanghai") == 0)
            cpu.vendor = TUTTI_VENDOR_ZHAOXIN;
        cpu.family = number_of(text, "cpu family");
        cpu.model = number_of(text, "model");
    } else if (line_of(text, "CPU implementer", vendor, sizeof(vendor))) {
        cpu.arch = TUTTI_ARCH_ARM64;
    } else if (line_of(text, "cpu", vendor, sizeof(vendor)) && strncmp(vendor, "POWER", 5) == 0) {
        cpu.arch = TUTTI_ARCH_PPC64;
    }
    return cpu;
}

/* Of the threads of a core the first counts. */
static uint32_t count_cores(struct tutti_scan *scan, const char *list)
{
    enum { CORES_MAX = 1 << 14 };
    uint32_t count = 0;
    uint32_t first;
    uint32_t last;

    while (tutti_facts_range(&list, &first, &last)) {
        for (uint32_t c = first; c <= last && count < CORES_MAX; c++) {
            int64_t twin = tutti_facts_number(
                scan->facts, c,
                "sys/devices/system/cpu/cpu%" PRIu32 "/topology/thread_siblings_list", c);

            count += twin == (int64_t)c;
        }
    }
    return count;
}

static int add_node(struct tutti_scan *scan, uint32_t numa, const char *list)
{
    struct tutti_hw_cpu cpu = read_processor(scan);

    if (scan->node_count == TUTTI_SCAN_NODES_MAX)
        return 0;
    cpu.numa = (int32_t)numa;
    scan->numas[scan->node_count] = numa;
    scan->core_counts[scan->node_count++] = count_cores(scan, list);
    return tutti_hw_builder_add(&scan->hw, TUTTI_HW_CPU, &cpu, scan->err);
}

/* Nodes of memory alone, as GPUs' on Grace, have no processors. */
int tutti_scan_cpus(struct tutti_scan *scan)
{
    const char *nodes = tutti_facts_look(scan->facts, "sys/devices/system/node/has_cpu");
    const char *all;
    uint32_t first;
    uint32_t last;
    int status = 0;

    scan->numas = tutti_arena_take(scan->arena, TUTTI_SCAN_NODES_MAX, sizeof(*scan->numas));
    scan->core_counts =
        tutti_arena_take(scan->arena, TUTTI_SCAN_NODES_MAX, sizeof(*scan->core_counts));
    if (scan->numas == NULL || scan->core_counts == NULL)
        return tutti_nomem(scan->err);
    if (nodes == NULL)
        nodes = tutti_facts_look(scan->facts, "sys/devices/system/node/online");
    while (nodes != NULL && status == 0 && tutti_facts_range(&nodes, &first, &last)) {
        for (uint32_t n = first; n <= last && n < TUTTI_SCAN_NODES_MAX && status == 0; n++) {
            const char *list =
                tutti_facts_look(scan->facts, "sys/devices/system/node/node%" PRIu32 "/cpulist", n);

            if (list != NULL && list[0] != '\0')
                status = add_node(scan, n, list);
        }
    }
    if (status < 0 || scan->node_count > 0)
        return status;
    all = tutti_facts_look(scan->facts, "sys/devices/system/cpu/online");
    if (all == NULL)
        return tutti_fail(scan->err, TUTTI_ELACK,
                          "nothing is known of its processors (sys/devices/system/cpu, as Linux "
                          "has it)");
    return add_node(scan, 0, all);
}
