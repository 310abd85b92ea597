/* The presets of machines whose GPUs meet in NVSwitches: DGX A100 and later, and NVL72 racks. */
#include "topo/presets/gpu.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

#define TERA UINT64_C(1000000000000)
#define GIGA UINT64_C(1000000000)

/* What keys do not change. Peaks are dense bf16 of NVIDIA's data sheets as
 * collected in stas00/ml-engineering (accelerators). PCIe is the line
 * rate of 16 lanes: 16, 32 GT/s times 128/130. NVLS came with the third generation of NVSwitch.
 * PCIe switches: two GPUs and two NICs on each of a DGX A100, a GPU and its NIC from DGX H100 on
 * (NVIDIA's user guides; NCCL dumps of such machines show the same); GPUs and NICs of a GB200 tray
 * lie under its two Graces. CPUs: two AMD EPYC 7742 (Rome) in a DGX A100, two Intel Xeon 8480C
 * (Sapphire Rapids) in a DGX H100, 8570 (Emerald Rapids) in a DGX B200. */
struct switched {
    const char *name;
    const char *gpu;  /* in the catalogue */
    uint32_t devices; /* of one NVLink domain */
    uint32_t cables;  /* NVLinks of one GPU */
    bool reduces;     /* NVSwitch 3 and later */
    uint8_t cpu;      /* enum tutti_gpu_cpu */
    uint8_t cpu_age;  /* generation of PCIe that its CPUs came with */
    uint8_t switches; /* of PCIe */
    uint64_t pcie_bytes_per_s;
    uint64_t flops_per_s;
    uint64_t mem_bytes_per_s;
};

enum { RACK_DEVICES = 72, TRAY_DEVICES = 4 };

static const struct switched machines[] = {
    {"dgx-a100", "a100", 8, 12, false, TUTTI_CPU_AMD, 4, 4, 31508 * GIGA / 1000, 312 * TERA,
     2000 * GIGA},
    {"dgx-h100", "h100", 8, 18, true, TUTTI_CPU_INTEL, 5, 8, 63015 * GIGA / 1000, 989 * TERA,
     3350 * GIGA},
    {"hgx-h200", "h200", 8, 18, true, TUTTI_CPU_INTEL, 5, 8, 63015 * GIGA / 1000, 989 * TERA,
     4800 * GIGA},
    {"hgx-b200", "b200", 8, 18, true, TUTTI_CPU_INTEL, 6, 8, 63015 * GIGA / 1000, 2250 * TERA,
     8000 * GIGA},
    {"hgx-b300", "b300", 8, 18, true, TUTTI_CPU_INTEL, 6, 8, 121 * GIGA, 2250 * TERA, 8000 * GIGA},
    {"gb200-nvl72", "gb200", RACK_DEVICES, 18, true, TUTTI_CPU_GRACE, 5, 0, 63015 * GIGA / 1000,
     2500 * TERA, 8000 * GIGA},
};

static const struct switched *machine_of(const char *preset)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        if (strcmp(machines[i].name, preset) == 0)
            return &machines[i];
    }
    return NULL;
}

struct tutti_cluster tutti_gpu_read_cluster(struct tutti_spec *spec, uint32_t host_devices,
                                            const char *nic)
{
    static const char *const no_or_yes[] = {"no", "yes", NULL};
    struct tutti_cluster cluster = {
        .host_count = tutti_spec_count(spec, "nodes", 1, TUTTI_PRESET_DEVICES_MAX),
        .group_hosts = tutti_spec_count(spec, "group", 1, TUTTI_PRESET_DEVICES_MAX),
        .spine_count = tutti_spec_count(spec, "spines", 0, 1 << 16),
        .over = tutti_spec_count(spec, "over", 1, 1 << 10),
        .nic_bytes_per_s = tutti_spec_rate(spec, nic),
        .nic_latency_ps = tutti_spec_time(spec, "niclat"),
        .hop_latency_ps = tutti_spec_time(spec, "hop"),
        .kind = TUTTI_LINK_NET,
        .net_kind = tutti_spec_net(spec),
        .reduces = tutti_spec_choice(spec, "sharp", no_or_yes) == 1,
    };

    tutti_spec_limit(spec, cluster.host_count, host_devices);
    return cluster;
}

bool tutti_gpu_read_gdr(struct tutti_spec *spec, const struct tutti_cluster *cluster)
{
    static const char *const words[] = {"auto", "yes", "no", NULL};
    uint32_t choice = tutti_spec_choice(spec, "gdr", words);

    return choice == 0 ? cluster->net_kind != TUTTI_NET_TCP : choice == 1;
}

void tutti_gpu_refuse_model(struct tutti_spec *spec, const char *name)
{
    char names[1024] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; tutti_gpu_model_at(i) != NULL && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
                                 tutti_gpu_model_at(i)->name);
    tutti_spec_refuse(spec, "key 'gpu': unknown '%.40s' (%s%s)", name,
                      tutti_nearest_hint(name, names, hint), names);
}

void tutti_gpu_model_figures(const struct tutti_gpu_model *model, struct tutti_node *node)
{
    node->flops_per_s = model->giga_flops * GIGA;
    node->mem_bytes_per_s = model->mem_mbyte_per_s * (GIGA / 1000);
}

/* A rack is what other machines call a node: one NVLink domain. Either word will do. */
static uint32_t read_racks(struct tutti_spec *spec, uint32_t node_count)
{
    uint32_t rack_count = tutti_spec_count(spec, "racks", 1, TUTTI_PRESET_DEVICES_MAX / 72);

    if (!tutti_spec_given(spec, "racks"))
        return node_count;
    if (tutti_spec_given(spec, "nodes") && rack_count != node_count)
        tutti_spec_refuse(spec,
                          "'racks=%" PRIu32 "' and 'nodes=%" PRIu32 "' disagree (a rack is one "
                          "NVLink node: give one of them)",
                          rack_count, node_count);
    return rack_count;
}

/* What NCCL sees of it: of a rack, one tray. */
static struct tutti_gpu_plan plan_of(const struct switched *machine, uint32_t gpu_count,
                                     const struct tutti_cluster *cluster, bool gdr)
{
    const struct tutti_gpu_model *gpu = tutti_gpu_model_find(machine->gpu);
    bool rack = machine->devices == RACK_DEVICES;
    uint32_t board = rack ? TRAY_DEVICES : machine->devices;
    struct tutti_gpu_plan plan = {.gpu = gpu,
                                  .wiring = TUTTI_WIRING_NVSWITCH,
                                  .gdr = gdr,
                                  .net_kind = cluster->net_kind,
                                  .net_reduces = cluster->reduces,
                                  .nics_at_cpu = rack,
                                  .board_count = board,
                                  .nic_count = board,
                                  .nvlink_count = machine->cables,
                                  .cpu_count = 2,
                                  .switch_count = machine->switches};

    assert(gpu != NULL);
    plan.pcie_generation = gpu->pcie_generation;
    plan.nic_bytes_per_s = cluster->nic_bytes_per_s;
    plan.nic_generation = tutti_gpu_nic_generation(cluster->nic_bytes_per_s, gpu->pcie_generation);
    plan.gpu_count = gpu_count < board ? gpu_count : board;
    plan.nic_used = plan.gpu_count;
    plan.cpu = tutti_gpu_plan_cpu((enum tutti_gpu_cpu)machine->cpu, machine->cpu_age);
    plan.rack = gpu_count > board ? gpu_count / board : 0;
    return plan;
}

static uint32_t read_gpus(struct tutti_spec *spec, const struct switched *machine)
{
    uint32_t count = tutti_spec_count(spec, "gpus", 1, machine->devices);

    if (machine->devices == RACK_DEVICES && count > TRAY_DEVICES && count % TRAY_DEVICES != 0)
        tutti_spec_refuse(spec,
                          "'gpus=%" PRIu32 "' of a rack are not whole trays (1 to 4, or a multiple "
                          "of 4 up to 72)",
                          count);
    return count;
}

int tutti_preset_switched(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                          struct tutti_err *err)
{
    const struct switched *machine = machine_of(tutti_spec_preset(spec));
    struct tutti_cluster cluster;
    struct tutti_gpu_plan plan;
    struct tutti_host host = {
        .switch_name = "nvswitch",
        .link_kind = TUTTI_LINK_NVLINK,
        .link_bytes_per_s = tutti_spec_rate(spec, "bw"),
        .link_latency_ps = tutti_spec_time(spec, "lat"),
        .nic_kind = TUTTI_LINK_PCIE,
        .nic_latency_ps = 250 * TUTTI_PS_PER_NS, /* assumed: no figure published */
    };
    int status;

    assert(machine != NULL);
    host.device_count = read_gpus(spec, machine);
    cluster = tutti_gpu_read_cluster(spec, host.device_count, "nicbw");
    host.link_cables = machine->cables;
    host.reduces = machine->reduces;
    host.nic_bytes_per_s = machine->pcie_bytes_per_s;
    host.flops_per_s = machine->flops_per_s;
    host.mem_bytes_per_s = machine->mem_bytes_per_s;
    if (machine->devices == RACK_DEVICES)
        cluster.host_count = read_racks(spec, cluster.host_count);
    tutti_spec_limit(spec, cluster.host_count, host.device_count);
    if (cluster.host_count > 1)
        host.nic_count = host.device_count;
    plan = plan_of(machine, host.device_count, &cluster, tutti_gpu_read_gdr(spec, &cluster));
    status = tutti_spec_status(spec, err);
    if (status == 0)
        status = tutti_cluster_of(builder, &host, &cluster, err);
    return status < 0 ? status : tutti_gpu_plan_set(&plan, builder, err);
}

/* ---- hosts by hand ------------------------------------------------------------------------------
 */

struct tutti_gpu_host tutti_gpu_host_begin(struct tutti_spec *spec, struct tutti_err *err)
{
    struct tutti_gpu_host host = {.err = err};

    host.status = tutti_spec_status(spec, err);
    if (host.status == 0)
        host.status = tutti_topo_builder_new(tutti_spec_preset(spec), "one host of the preset",
                                             &host.builder, err);
    return host;
}

uint32_t tutti_gpu_host_node(struct tutti_gpu_host *host, const struct tutti_node *like,
                             const char *name, uint32_t number)
{
    struct tutti_node node = *like;
    uint32_t index = 0;
    char text[32];

    if (number == UINT32_MAX)
        snprintf(text, sizeof(text), "%s", name);
    else
        snprintf(text, sizeof(text), "%s%" PRIu32, name, number);
    node.name = text;
    node.host = 0;
    node.rank = TUTTI_RANK_NONE;
    if (host->status == 0)
        host->status = tutti_topo_add_node(host->builder, &node, &index, host->err);
    return index;
}

void tutti_gpu_host_cable(struct tutti_gpu_host *host, const struct tutti_link *like, uint32_t a,
                          uint32_t b)
{
    struct tutti_link link = *like;

    link.from = a;
    link.to = b;
    if (link.cable_count == 0)
        link.cable_count = 1;
    if (host->status == 0)
        host->status = tutti_topo_add_cable(host->builder, &link, host->err);
}

void tutti_gpu_host_link(struct tutti_gpu_host *host, const struct tutti_link *like, uint32_t from,
                         uint32_t to)
{
    struct tutti_link link = *like;

    link.from = from;
    link.to = to;
    if (link.cable_count == 0)
        link.cable_count = 1;
    if (host->status == 0)
        host->status = tutti_topo_add_link(host->builder, &link, host->err);
}

void tutti_gpu_host_rings(struct tutti_gpu_host *host, uint32_t rank_count, const uint32_t *orders,
                          uint32_t order_count)
{
    struct tutti_shape shape = {
        .rank_count = rank_count, .orders = orders, .order_count = order_count};

    if (host->status == 0)
        host->status = tutti_topo_set_shape(host->builder, &shape, host->err);
}

int tutti_gpu_host_end(struct tutti_gpu_host *host, const struct tutti_cluster *cluster,
                       struct tutti_topo_builder *builder)
{
    struct tutti_topo *frozen = NULL;

    if (host->status == 0)
        host->status = tutti_topo_freeze(host->builder, &frozen, host->err);
    else
        tutti_topo_builder_free(host->builder);
    host->builder = NULL;
    if (host->status == 0)
        host->status = tutti_cluster_build(builder, frozen, cluster, host->err);
    tutti_topo_free(frozen);
    return host->status;
}
