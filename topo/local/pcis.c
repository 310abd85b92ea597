/* The PCI tree above GPUs and ports, as NCCL reads it: of a path through sysfs each second function
 * counts, for a switch shows itself as a port up and ports down, and a root port as one. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/local/scan.h"

enum { PLACES_MAX = 1 << 14, GENERATION_UNKNOWN = 3, LANES_UNKNOWN = 16 };

/* Whether so many bytes are "0000:18:00.0"; domains of more digits exist. */
static bool is_function(const char *text, size_t bytes)
{
    if (bytes < 12 || bytes > 16 || text[bytes - 2] != '.' || text[bytes - 5] != ':' ||
        text[bytes - 8] != ':')
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (i != bytes - 2 && i != bytes - 5 && i != bytes - 8 && !isxdigit((unsigned char)text[i]))
            return false;
    return true;
}

/* How many bytes of the path are left without its last part; 0: it has one part. */
static size_t above(const char *path, size_t bytes)
{
    while (bytes > 0 && path[bytes - 1] != '/')
        bytes--;
    return bytes > 0 ? bytes - 1 : 0;
}

static bool ends_in_function(const char *path, size_t bytes)
{
    size_t begin = bytes;

    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return is_function(path + begin, bytes - begin);
}

static const char *cut(struct tutti_scan *scan, const char *path, size_t bytes)
{
    char *copy = tutti_arena_take(scan->arena, bytes + 1, 1);

    if (copy != NULL)
        memcpy(copy, path, bytes);
    return copy;
}

const char *tutti_scan_function(struct tutti_scan *scan, const char *path)
{
    size_t bytes = path == NULL ? 0 : strlen(path);

    while (bytes > 0 && !ends_in_function(path, bytes))
        bytes = above(path, bytes);
    return bytes == 0 ? NULL : cut(scan, path, bytes);
}

uint64_t tutti_scan_bus(const char *path)
{
    const char *name = strrchr(path, '/');
    uint64_t bus = 0;

    for (name = name == NULL ? path : name + 1; *name != '\0'; name++) {
        if (isxdigit((unsigned char)*name))
            bus = bus << 4 | (uint64_t)(isdigit((unsigned char)*name)
                                            ? *name - '0'
                                            : tolower((unsigned char)*name) - 'a' + 10);
    }
    return bus;
}

/* ---- places -------------------------------------------------------------------------------- */

static struct tutti_scan_place *find(const struct tutti_scan *scan, const char *path)
{
    for (uint32_t p = 0; p < scan->place_count; p++)
        if (strcmp(scan->places[p].path, path) == 0)
            return &scan->places[p];
    return NULL;
}

const struct tutti_scan_place *tutti_scan_find(const struct tutti_scan *scan, const char *path)
{
    return path == NULL ? NULL : find(scan, path);
}

/* The index of the NUMA node that the kernel says; of what it says of none, the first. */
static uint32_t cpu_of(struct tutti_scan *scan, const char *path)
{
    int64_t numa = tutti_facts_number(scan->facts, -1, "%s/numa_node", path);
    size_t root = strlen(path);

    for (size_t up = above(path, root); numa < 0 && up > 0 && ends_in_function(path, up);
         up = above(path, up))
        root = up;
    if (numa < 0)
        numa = tutti_facts_number(scan->facts, -1, "%.*s/numa_node", (int)root, path);
    for (uint32_t n = 0; n < scan->node_count; n++)
        if ((int64_t)scan->numas[n] == numa)
            return n;
    return 0;
}

static int add_place(struct tutti_scan *scan, const char *path, uint32_t cpu,
                     struct tutti_scan_place **ret)
{
    if (scan->place_count == PLACES_MAX)
        return tutti_fail(scan->err, TUTTI_EINVAL, "more than %d functions of PCI", PLACES_MAX);
    if (scan->place_count == scan->place_capacity) {
        uint32_t wanted = scan->place_capacity == 0 ? 64 : scan->place_capacity * 2;
        struct tutti_scan_place *moved = realloc(scan->places, wanted * sizeof(*moved));

        if (moved == NULL)
            return tutti_nomem(scan->err);
        scan->places = moved;
        scan->place_capacity = wanted;
    }
    *ret = &scan->places[scan->place_count++];
    **ret = (struct tutti_scan_place){.path = path, .cpu = cpu, .gpu = TUTTI_HW_NONE};
    return 0;
}

/* The length of the path of the switch above, or 0. */
static size_t parent_of(const char *path)
{
    size_t port = above(path, strlen(path));
    size_t parent;

    if (!ends_in_function(path, port))
        return 0;
    parent = above(path, port);
    return ends_in_function(path, parent) ? parent : 0;
}

int tutti_scan_place(struct tutti_scan *scan, const char *path, bool is_port, uint32_t gpu)
{
    uint32_t cpu = cpu_of(scan, path);
    struct tutti_scan_place *place = find(scan, path);
    int status = 0;

    if (place == NULL)
        status = add_place(scan, path, cpu, &place);
    if (status < 0)
        return status;
    place->is_port = place->is_port || is_port;
    if (gpu != TUTTI_HW_NONE)
        place->gpu = gpu;
    for (size_t up = parent_of(path); up > 0 && status == 0; up = parent_of(path)) {
        path = cut(scan, path, up);
        if (path == NULL)
            return tutti_nomem(scan->err);
        if (find(scan, path) != NULL)
            break;
        status = add_place(scan, path, cpu, &place);
    }
    return status;
}

/* ---- speeds -------------------------------------------------------------------------------- */

/* "32.0 GT/s PCIe"; 0: not known. */
static uint32_t generation_of(struct tutti_scan *scan, const char *path, size_t bytes)
{
    int64_t speed = tutti_facts_number(scan->facts, 0, "%.*s/max_link_speed", (int)bytes, path);

    for (uint32_t g = 6; g > 1; g--)
        if (speed >= (g == 2 ? 5 : INT64_C(1) << g))
            return g;
    return speed >= 2 ? 1 : 0;
}

/* 0: not known, for which the kernel says 0 or 255. */
static uint32_t lanes_of(int64_t width)
{
    return width == 1 || width == 2 || width == 4 || width == 8 || width == 12 || width == 16 ||
                   width == 32
               ? (uint32_t)width
               : 0;
}

static uint32_t width_of(struct tutti_scan *scan, const char *path, size_t bytes)
{
    return lanes_of(tutti_facts_number(scan->facts, 0, "%.*s/max_link_width", (int)bytes, path));
}

static uint32_t least_known(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* What it can do, and the port above it. NVML knows of a GPU where a virtual machine does not say.
 */
static void read_speed(struct tutti_scan *scan, const struct tutti_scan_place *place,
                       struct tutti_hw_pci *pci)
{
    size_t bytes = strlen(place->path);
    size_t port = above(place->path, bytes);
    uint32_t generation = generation_of(scan, place->path, bytes);
    uint32_t width = width_of(scan, place->path, bytes);
    const char *told = NULL;

    if (ends_in_function(place->path, port)) {
        generation = least_known(generation, generation_of(scan, place->path, port));
        width = least_known(width, width_of(scan, place->path, port));
    }
    if (place->gpu != TUTTI_HW_NONE && (generation == 0 || width == 0))
        told = tutti_facts_look(scan->facts, "nvml/%" PRIu32 "/pcie", place->gpu);
    if (told != NULL) {
        char *end;
        unsigned long number = strtoul(told, &end, 10);
        unsigned long lanes = strtoul(end, NULL, 10);

        if (generation == 0 && number <= 6)
            generation = (uint32_t)number;
        if (width == 0)
            width = lanes_of((int64_t)(lanes & 0xff));
    }
    scan->width_count += generation == 0 || width == 0;
    pci->lane_mbit_per_s =
        tutti_hw_lane_mbit_per_s(generation == 0 ? GENERATION_UNKNOWN : generation);
    pci->lane_count = width == 0 ? LANES_UNKNOWN : width;
}

static uint64_t read_ids(struct tutti_scan *scan, const char *path)
{
    static const char *const parts[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    uint64_t ids = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *text = tutti_facts_look(scan->facts, "%s/%s", path, parts[i]);

        ids = ids << 16 | (text == NULL ? 0 : strtoull(text, NULL, 16) & 0xffff);
    }
    return ids;
}

/* ---- in order ------------------------------------------------------------------------------ */

/* A switch before what is below it, for its path is the beginning of theirs. */
static int compare(const void *left, const void *right)
{
    const struct tutti_scan_place *a = left;
    const struct tutti_scan_place *b = right;

    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? -1 : 1;
    return strcmp(a->path, b->path);
}

/* A GPU or a port is the end of its branch: a switch chip that has a port function of its own
 * stands there as that port. */
static bool is_end(const struct tutti_scan_place *place)
{
    return place->gpu != TUTTI_HW_NONE || place->is_port;
}

static int add_pci(struct tutti_scan *scan, struct tutti_scan_place *place)
{
    struct tutti_hw_pci pci = {.parent = TUTTI_HW_NONE, .cpu = place->cpu};
    size_t up = parent_of(place->path);
    const struct tutti_scan_place *parent = NULL;
    char path[TUTTI_FACT_BYTES];

    if (up > 0 && up < sizeof(path)) {
        memcpy(path, place->path, up);
        path[up] = '\0';
        parent = find(scan, path);
    }
    if (parent != NULL && !is_end(parent) && parent->cpu == place->cpu && parent < place)
        pci.parent = parent->index;
    pci.bus_id = tutti_scan_bus(place->path);
    pci.device_ids = read_ids(scan, place->path);
    read_speed(scan, place, &pci);
    place->index = tutti_hw_builder_view(&scan->hw).pci_count;
    return tutti_hw_builder_add(&scan->hw, TUTTI_HW_PCI, &pci, scan->err);
}

int tutti_scan_pcis(struct tutti_scan *scan)
{
    int status = 0;

    if (scan->place_count > 0)
        qsort(scan->places, scan->place_count, sizeof(*scan->places), compare);
    for (uint32_t p = 0; p < scan->place_count && status == 0; p++)
        status = add_pci(scan, &scan->places[p]);
    if (scan->width_count > 0)
        tutti_scan_note(scan,
                        "; speed or width of %" PRIu32 " of %" PRIu32
                        " PCIe links not known, there 3.0 and x16 as NCCL takes it",
                        scan->width_count, scan->place_count);
    return status;
}
