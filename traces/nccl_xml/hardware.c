/* Collecting the hardware of the first host of a file, in document order, as NCCL would load it. */
#include "traces/nccl_xml/hardware.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "traces/nccl_xml/build.h"
#include "traces/nccl_xml/rates.h"

enum { LANES_MAX = 1024, LANES_ABSENT = 16, SPEED_ABSENT_MBPS = 10000 };

static bool is(const struct tutti_xml_build *build, uint32_t element, const char *name)
{
    return strcmp(build->xml->elements[element].name, name) == 0;
}

int tutti_xml_hardware_init(struct tutti_xml_build *build)
{
    struct tutti_xml_hardware *hw = &build->hw;
    size_t count = build->xml->count;

    hw->cpus = calloc(count, sizeof(*hw->cpus));
    hw->pcis = calloc(count, sizeof(*hw->pcis));
    hw->gpus = calloc(count, sizeof(*hw->gpus));
    hw->nvlinks = calloc(count, sizeof(*hw->nvlinks));
    hw->c2cs = calloc(count, sizeof(*hw->c2cs));
    hw->nets = calloc(count, sizeof(*hw->nets));
    hw->index = calloc(count, sizeof(*hw->index));
    if (hw->cpus == NULL || hw->pcis == NULL || hw->gpus == NULL || hw->nvlinks == NULL ||
        hw->c2cs == NULL || hw->nets == NULL || hw->index == NULL)
        return tutti_nomem(build->err);
    return 0;
}

void tutti_xml_hardware_done(struct tutti_xml_build *build)
{
    struct tutti_xml_hardware *hw = &build->hw;

    free(hw->cpus);
    free(hw->pcis);
    free(hw->gpus);
    free(hw->nvlinks);
    free(hw->c2cs);
    free(hw->nets);
    free(hw->index);
}

/* A number of the element; `absent` for none, or for a negative one where `min` is -1. */
static int number(const struct tutti_xml_build *build, uint32_t element, const char *attribute,
                  int64_t absent, int64_t min, int64_t max, uint32_t *ret)
{
    int64_t value = 0;
    int status = tutti_xml_number(build->xml, &build->xml->elements[element], attribute, absent,
                                  min, max, &value, build->err);

    *ret = (uint32_t)(value < 0 ? absent : value);
    return status;
}

static int flag(const struct tutti_xml_build *build, uint32_t element, const char *attribute,
                bool *ret)
{
    uint32_t value = 0;
    int status = number(build, element, attribute, 0, -1, INT32_MAX, &value);

    *ret = value != 0;
    return status;
}

/* ---- the tree ------------------------------------------------------------------------------ */

static int add_cpu(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_element *self = &build->xml->elements[element];
    struct tutti_xml_hardware *hw = &build->hw;
    struct tutti_hw_cpu *cpu = &hw->cpus[hw->cpu_count];
    uint32_t family = 0;
    uint32_t model = 0;
    int64_t numa = 0;
    int status =
        tutti_xml_number(build->xml, self, "numaid", 0, INT32_MIN, INT32_MAX, &numa, build->err);

    if (status == 0)
        status = number(build, element, "familyid", 0, -1, UINT16_MAX, &family);
    if (status == 0)
        status = number(build, element, "modelid", 0, -1, UINT16_MAX, &model);
    cpu->numa = numa < 0 ? -1 : (int32_t)numa;
    cpu->arch = tutti_xml_arch(tutti_xml_value(self, "arch"));
    cpu->vendor = tutti_xml_vendor(tutti_xml_value(self, "vendor"));
    cpu->family = (uint16_t)family;
    cpu->model = (uint16_t)model;
    hw->index[element] = hw->cpu_count++;
    return status;
}

static int add_pci(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_element *self = &build->xml->elements[element];
    struct tutti_xml_hardware *hw = &build->hw;
    struct tutti_hw_pci *pci = &hw->pcis[hw->pci_count];
    int status = number(build, element, "link_width", 0, 0, LANES_MAX, &pci->lane_count);

    pci->parent = is(build, self->parent, "pci") ? hw->index[self->parent] : TUTTI_HW_NONE;
    pci->cpu = hw->index[build->places[element].cpu];
    pci->bus_id = tutti_xml_bus(self, "busid");
    pci->lane_mbit_per_s =
        tutti_hw_lane_mbit_per_s(tutti_xml_pcie_generation(tutti_xml_value(self, "link_speed")));
    pci->device_ids = tutti_xml_device_ids(self);
    if (pci->lane_count == 0)
        pci->lane_count = LANES_ABSENT;
    hw->index[element] = hw->pci_count++;
    return status;
}

/* "gfx942" is 942; gfx90a was 910 when that was a number. */
static uint32_t gfx_of(const char *gcn)
{
    uint32_t value = 0;

    if (strncmp(gcn, "gfx", 3) == 0)
        gcn += 3;
    if (strncmp(gcn, "90a", 3) == 0)
        return 910;
    for (int digits = 0; digits < 5 && *gcn >= '0' && *gcn <= '9'; digits++)
        value = value * 10 + (uint32_t)(*gcn++ - '0');
    return value;
}

static int add_gpu(struct tutti_xml_build *build, uint32_t element)
{
    struct tutti_xml_hardware *hw = &build->hw;
    const struct tutti_xml_gpu *self = build->places[element].device;
    struct tutti_hw_gpu *gpu = &hw->gpus[hw->gpu_count];
    int status = number(build, element, "dev", 0, -1, INT32_MAX, &gpu->dev);

    if (status == 0)
        status = flag(build, element, "gdr", &gpu->gdr);
    gpu->pci = hw->index[build->xml->elements[element].parent];
    gpu->sm = self->gcn == NULL ? (uint32_t)self->sm : gfx_of(self->gcn);
    for (uint32_t g = 0; g < self->index; g++)
        gpu->rank += build->gpus[g].host == self->host;
    hw->index[element] = hw->gpu_count++;
    return status;
}

static int add_net(struct tutti_xml_build *build, uint32_t element)
{
    const struct tutti_xml_element *self = &build->xml->elements[element];
    uint32_t above = build->xml->elements[self->parent].parent; /* of the nic */
    struct tutti_xml_hardware *hw = &build->hw;
    struct tutti_hw_net *net = &hw->nets[hw->net_count];
    const char *guid = tutti_xml_value(self, "guid");
    const char *latency = tutti_xml_value(self, "latency");
    double latency_us = latency == NULL ? 0 : strtod(latency, NULL);
    int status = number(build, element, "dev", 0, 0, INT32_MAX, &net->dev);

    if (status == 0)
        status = number(build, element, "speed", 0, -1, INT32_MAX, &net->mbit_per_s);
    if (status == 0)
        status = number(build, element, "port", 0, -1, INT32_MAX, &net->port);
    if (status == 0)
        status = flag(build, element, "gdr", &net->gdr);
    if (status == 0)
        status = flag(build, element, "coll", &net->coll);
    if (net->mbit_per_s == 0)
        net->mbit_per_s = SPEED_ABSENT_MBPS;
    net->guid = guid == NULL ? net->dev : strtoull(guid, NULL, 16);
    if (latency_us > 0 && latency_us < 1e6)
        net->latency_ns = (uint32_t)(latency_us * 1e3 + 0.5);
    net->pci = is(build, above, "pci") ? hw->index[above] : TUTTI_HW_NONE;
    net->cpu = hw->index[build->places[element].cpu];
    hw->index[element] = hw->net_count++;
    return status;
}

static int add_element(struct tutti_xml_build *build, uint32_t element)
{
    if (is(build, element, "cpu"))
        return add_cpu(build, element);
    if (is(build, element, "pci"))
        return add_pci(build, element);
    if (is(build, element, "gpu") && build->places[element].device != NULL)
        return add_gpu(build, element);
    return is(build, element, "net") ? add_net(build, element) : 0;
}

int tutti_xml_hardware_tree(struct tutti_xml_build *build)
{
    int status = 0;

    for (uint32_t e = 1; e < build->xml->count && status == 0; e++)
        if (build->places[e].wanted && build->places[e].host == 0)
            status = add_element(build, e);
    return status;
}

/* ---- links --------------------------------------------------------------------------------- */

void tutti_xml_hardware_nvlink(struct tutti_xml_build *build, const struct tutti_xml_gpu *gpu,
                               enum tutti_hw_target kind, const struct tutti_xml_gpu *peer,
                               uint32_t count)
{
    struct tutti_xml_hardware *hw = &build->hw;
    struct tutti_hw_nvlink *link = &hw->nvlinks[hw->nvlink_count];

    if (gpu->host != 0)
        return;
    link->gpu = hw->index[gpu->element];
    link->target_kind = (uint8_t)kind;
    link->count = count;
    if (kind == TUTTI_TARGET_GPU)
        link->target = hw->index[peer->element];
    else if (kind == TUTTI_TARGET_CPU)
        link->target = hw->index[build->places[gpu->element].cpu];
    hw->nvlink_count++;
}

void tutti_xml_hardware_c2c(struct tutti_xml_build *build, const struct tutti_xml_gpu *gpu,
                            uint32_t mbyte_per_s, uint32_t count)
{
    struct tutti_xml_hardware *hw = &build->hw;

    if (gpu->host == 0)
        hw->c2cs[hw->c2c_count++] = (struct tutti_hw_c2c){
            .gpu = hw->index[gpu->element], .mbyte_per_s = mbyte_per_s, .count = count};
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* Elements of that name in a host, of those that are used. */
static uint32_t count_in_host(const struct tutti_xml_build *build, const char *name, uint32_t host)
{
    uint32_t count = 0;

    for (uint32_t e = 1; e < build->xml->count; e++)
        count += build->places[e].wanted && build->places[e].host == host && is(build, e, name);
    return count;
}

static bool hosts_are_alike(const struct tutti_xml_build *build)
{
    static const char *const names[] = {"cpu", "pci", "gpu", "net"};

    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        for (uint32_t h = 1; h < build->host_count; h++)
            if (count_in_host(build, names[n], h) != count_in_host(build, names[n], 0))
                return false;
    return true;
}

int tutti_xml_hardware_set(struct tutti_xml_build *build)
{
    const struct tutti_xml_hardware *hw = &build->hw;
    struct tutti_hardware hardware = {
        .cpu_count = hw->cpu_count,
        .pci_count = hw->pci_count,
        .gpu_count = hw->gpu_count,
        .nvlink_count = hw->nvlink_count,
        .c2c_count = hw->c2c_count,
        .net_count = hw->net_count,
        .cpus = hw->cpus,
        .pcis = hw->pcis,
        .gpus = hw->gpus,
        .nvlinks = hw->nvlinks,
        .c2cs = hw->c2cs,
        .nets = hw->nets,
    };

    for (uint32_t l = 0; l < hw->nvlink_count && build->host_count > 1; l++)
        if (hw->nvlinks[l].target_kind == TUTTI_TARGET_NVSWITCH)
            hardware.rack = build->host_count;
    if (!hosts_are_alike(build))
        return 0;
    return tutti_topo_set_hardware(build->topo, &hardware, build->err);
}
