/* The links beside the tree: NVLink, xGMI and C2C of the GPUs, and between NUMA nodes. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/hardware.h"
#include "traces/nccl_xml/build.h"
#include "traces/nccl_xml/rates.h"

enum { LINKS_MAX = 1024, C2C_MBPS_MAX = 100000000 };

/* NVLS: NVSwitches reduce and multicast from Hopper on (NCCL searches NVLS graphs there). */
enum { SM_OF_NVLS = 90 };

struct links {
    struct tutti_xml_build *build;
    struct tutti_xml_gpu **by_bus; /* [gpu_count] */
    uint32_t nvswitch;             /* all NVSwitches are one node, as in NCCL */
};

static bool before(const struct tutti_xml_gpu *a, uint32_t host, uint64_t bus)
{
    return a->host != host ? a->host < host : a->bus < bus;
}

static int compare_bus(const void *left, const void *right)
{
    const struct tutti_xml_gpu *a = *(struct tutti_xml_gpu *const *)left;
    const struct tutti_xml_gpu *b = *(struct tutti_xml_gpu *const *)right;

    if (a->host == b->host && a->bus == b->bus)
        return a->index < b->index ? -1 : 1;
    return before(a, b->host, b->bus) ? -1 : 1;
}

/* The GPU of that bus id in the host; of the lowest rank if a file has several. */
static const struct tutti_xml_gpu *find_gpu(const struct links *links, uint32_t host, uint64_t bus)
{
    uint32_t low = 0;
    uint32_t high = links->build->gpu_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (before(links->by_bus[middle], host, bus))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == links->build->gpu_count || links->by_bus[low]->host != host ||
        links->by_bus[low]->bus != bus)
        return NULL;
    return links->by_bus[low];
}

static int need_nvswitch(struct links *links)
{
    struct tutti_xml_build *build = links->build;
    struct tutti_node node = {.name = "nvswitch", .rank = TUTTI_RANK_NONE};

    if (links->nvswitch != TUTTI_XML_NONE)
        return 0;
    node.kind = TUTTI_NODE_SWITCH;
    node.host = build->host_count > 1 ? UINT32_MAX : 0;
    node.reduces = true;
    for (uint32_t g = 0; g < build->gpu_count; g++)
        node.reduces = node.reduces && build->gpus[g].sm >= SM_OF_NVLS;
    return tutti_topo_add_node(build->topo, &node, &links->nvswitch, build->err);
}

/* What one link of this element carries; 0 with a status if that cannot be known. */
static int rate_of(const struct tutti_xml_build *build, const struct tutti_xml_gpu *gpu,
                   const struct tutti_xml_element *element, bool xgmi, uint64_t *ret)
{
    if (xgmi && gpu->gcn == NULL)
        return tutti_fail(build->err, TUTTI_EINVAL,
                          "%s: line %u: xgmi of a gpu without gcn (its architecture, as 'gfx942')",
                          build->xml->name, element->line);
    if (!xgmi && gpu->sm == 0)
        return tutti_fail(build->err, TUTTI_EINVAL,
                          "%s: line %u: nvlink of a gpu without sm (its compute capability, as "
                          "'90')",
                          build->xml->name, element->line);
    *ret = xgmi ? tutti_xml_xgmi_rate(gpu->gcn) : tutti_hw_nvlink_bytes_per_s((uint32_t)gpu->sm);
    return 0;
}

/* Between GPUs each states its own direction, so a file may state two rates. To switches and CPUs
 * there is one statement for both. */
static int add_gpu_link(struct links *links, const struct tutti_xml_gpu *gpu,
                        const struct tutti_xml_element *element, bool xgmi)
{
    struct tutti_xml_build *build = links->build;
    const char *class = tutti_xml_value(element, "tclass");
    const struct tutti_xml_gpu *peer;
    struct tutti_link link = {.from = gpu->node, .kind = TUTTI_LINK_NVLINK};
    int64_t count;
    uint64_t rate = 0;
    int status =
        tutti_xml_number(build->xml, element, "count", 1, 0, LINKS_MAX, &count, build->err);

    if (status == 0)
        status = rate_of(build, gpu, element, xgmi, &rate);
    if (status < 0 || count == 0)
        return status;
    link.kind = xgmi ? TUTTI_LINK_XGMI : TUTTI_LINK_NVLINK;
    link.cable_count = (uint32_t)count;
    link.bytes_per_s = rate * (uint64_t)count;
    link.latency_ps = TUTTI_HW_GPU_PS;
    if (class != NULL && strcmp(class, "0x068000") == 0) {
        status = need_nvswitch(links);
        link.to = links->nvswitch;
        link.latency_ps = TUTTI_HW_NVSWITCH_PS;
        tutti_xml_hardware_nvlink(build, gpu, TUTTI_TARGET_NVSWITCH, NULL, link.cable_count);
        return status < 0 ? status : tutti_topo_add_cable(build->topo, &link, build->err);
    }
    if (class != NULL && strcmp(class, "0x068001") == 0) {
        link.to = build->places[build->places[gpu->element].cpu].node;
        tutti_xml_hardware_nvlink(build, gpu, TUTTI_TARGET_CPU, NULL, link.cable_count);
        return tutti_topo_add_cable(build->topo, &link, build->err);
    }
    peer = find_gpu(links, gpu->host, tutti_xml_bus(element, "target"));
    if (peer == NULL || peer == gpu) {
        build->left_out += (uint32_t)count;
        return 0;
    }
    tutti_xml_hardware_nvlink(build, gpu, TUTTI_TARGET_GPU, peer, link.cable_count);
    link.to = peer->node;
    return tutti_topo_add_link(build->topo, &link, build->err);
}

static int add_c2c(struct links *links, const struct tutti_xml_gpu *gpu,
                   const struct tutti_xml_element *element)
{
    struct tutti_xml_build *build = links->build;
    uint32_t cpu = build->places[build->places[gpu->element].cpu].node;
    int64_t count;
    int64_t mbps;
    int status =
        tutti_xml_number(build->xml, element, "count", 1, 0, LINKS_MAX, &count, build->err);

    if (status == 0)
        status = tutti_xml_number(build->xml, element, "bw", 0, 0, C2C_MBPS_MAX, &mbps, build->err);
    if (status < 0 || count == 0 || mbps == 0)
        return status;
    tutti_xml_hardware_c2c(build, gpu, (uint32_t)mbps, (uint32_t)count);
    return tutti_xml_add_cable(build, gpu->node, cpu, TUTTI_LINK_C2C,
                               (uint64_t)(mbps * count) * 1000000, TUTTI_HW_CPU_PS);
}

static int add_gpu_links(struct links *links)
{
    struct tutti_xml_build *build = links->build;
    const struct tutti_xml *xml = build->xml;
    int status = 0;

    for (uint32_t e = 1; e < xml->count && status == 0; e++) {
        const struct tutti_xml_element *element = &xml->elements[e];
        const struct tutti_xml_gpu *gpu = build->places[element->parent].device;

        if (gpu == NULL)
            continue;
        if (strcmp(element->name, "nvlink") == 0)
            status = add_gpu_link(links, gpu, element, false);
        else if (strcmp(element->name, "xgmi") == 0)
            status = add_gpu_link(links, gpu, element, true);
        else if (strcmp(element->name, "c2c") == 0)
            status = add_c2c(links, gpu, element);
    }
    return status;
}

static int add_cpu_links(struct tutti_xml_build *build)
{
    int status = 0;

    for (uint32_t a = 0; a < build->cpu_count; a++) {
        const struct tutti_xml_element *cpu = &build->xml->elements[build->cpus[a]];
        const struct tutti_xml_place *from = &build->places[build->cpus[a]];
        struct tutti_link link = {.from = from->node, .kind = TUTTI_LINK_CPU, .cable_count = 1};
        struct tutti_hw_cpu self;
        int64_t family = 0;
        int64_t model = 0;

        status =
            tutti_xml_number(build->xml, cpu, "familyid", 0, -1, UINT16_MAX, &family, build->err);
        if (status == 0)
            status =
                tutti_xml_number(build->xml, cpu, "modelid", 0, -1, UINT16_MAX, &model, build->err);
        self.arch = tutti_xml_arch(tutti_xml_value(cpu, "arch"));
        self.vendor = tutti_xml_vendor(tutti_xml_value(cpu, "vendor"));
        self.family = (uint16_t)(family < 0 ? 0 : family);
        self.model = (uint16_t)(model < 0 ? 0 : model);
        link.bytes_per_s = tutti_hw_cpu_bytes_per_s(&self);
        link.latency_ps = TUTTI_HW_CPU_PS;
        for (uint32_t b = 0; b < build->cpu_count && status == 0; b++) {
            const struct tutti_xml_place *to = &build->places[build->cpus[b]];

            link.to = to->node;
            if (a != b && from->host == to->host)
                status = tutti_topo_add_link(build->topo, &link, build->err);
        }
        if (status < 0)
            return status;
    }
    return 0;
}

int tutti_xml_build_links(struct tutti_xml_build *build)
{
    struct links links = {.build = build, .nvswitch = TUTTI_XML_NONE};
    int status;

    links.by_bus = calloc(build->gpu_count, sizeof(*links.by_bus));
    if (links.by_bus == NULL)
        return tutti_nomem(build->err);
    for (uint32_t g = 0; g < build->gpu_count; g++)
        links.by_bus[g] = &build->gpus[g];
    qsort(links.by_bus, build->gpu_count, sizeof(*links.by_bus), compare_bus);
    status = add_gpu_links(&links);
    free(links.by_bus);
    return status < 0 ? status : add_cpu_links(build);
}
