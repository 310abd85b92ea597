/* The preset of a plain server: GPUs under PCIe switches, those under sockets. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "topo/presets/gpu.h"

#define GIGA UINT64_C(1000000000)

enum { GPUS_MAX = 64, SOCKETS_MAX = 8 };

struct server {
    uint32_t gen;
    const struct tutti_gpu_model *model; /* NULL: not said */
    uint32_t gpus;
    uint32_t sockets;
    uint32_t switches; /* 0: GPUs directly under the sockets */
    uint32_t nics;
    struct tutti_link pcie;
    struct tutti_link cpu;
};

/* Between sockets no vendor states a payload rate: these are the rates that NCCL's topology
 * search assumes (topo.h) for Intel hosts of the age of the PCIe generation. */
static uint64_t socket_rate(uint32_t gen)
{
    static const uint64_t giga[] = {10, 10, 22, 40};

    return gen >= 3 && gen <= 6 ? giga[gen - 3] * GIGA : 0;
}

static void check_even(struct tutti_spec *spec, const struct server *server)
{
    uint32_t parents = server->switches > 0 ? server->switches : server->sockets;

    if (server->switches > 0 && server->sockets > 0 && server->switches % server->sockets != 0)
        tutti_spec_refuse(spec,
                          "'switches=%" PRIu32 "' do not spread evenly over 'sockets=%" PRIu32
                          "' (a multiple of the sockets, or 0)",
                          server->switches, server->sockets);
    if (parents > 0 && server->gpus % parents != 0)
        tutti_spec_refuse(spec,
                          "'gpus=%" PRIu32 "' do not spread evenly over %" PRIu32 " %s (a "
                          "multiple of them)",
                          server->gpus, parents, server->switches > 0 ? "switches" : "sockets");
    if (server->nics > server->gpus)
        tutti_spec_refuse(spec, "'nics=%" PRIu32 "' is more than one a GPU (at most %" PRIu32 ")",
                          server->nics, server->gpus);
}

/* The card that gpu= names; auto: none. */
static const struct tutti_gpu_model *read_model(struct tutti_spec *spec)
{
    const char *name = tutti_spec_text(spec, "gpu");
    const struct tutti_gpu_model *model;

    if (name == NULL || strcmp(name, "auto") == 0)
        return NULL;
    model = tutti_gpu_model_find(name);
    if (model == NULL)
        tutti_gpu_refuse_model(spec, name);
    return model;
}

/* What NCCL sees: Intel's CPUs of the age of the PCIe generation, as with the rates above. Where no
 * card is named it is one of that age: NCCL goes by its compute capability alone. */
static struct tutti_gpu_plan plan_of(const struct server *server,
                                     const struct tutti_cluster *cluster)
{
    static const char *const aged[] = {"v100-pcie", "a100-pcie", "h100-pcie", "rtxpro6000"};
    struct tutti_gpu_plan plan = {.gpu = server->model,
                                  .wiring = TUTTI_WIRING_PCIE,
                                  .board_count = server->gpus,
                                  .gpu_count = server->gpus,
                                  .nic_count = server->nics,
                                  .nic_used = server->nics,
                                  .cpu_count = server->sockets,
                                  .switch_count = server->switches};

    if (plan.gpu == NULL)
        plan.gpu = tutti_gpu_model_find(aged[server->gen - 3]);
    plan.cpu = tutti_gpu_plan_cpu(TUTTI_CPU_INTEL, server->gen);
    if (server->gen == 3)
        plan.cpu.model = 85; /* Skylake, not DGX-1's Broadwell: 10 GB/s between sockets */
    plan.pcie_generation = (uint8_t)server->gen;
    plan.nic_bytes_per_s = cluster->nic_bytes_per_s;
    plan.nic_generation = tutti_gpu_nic_generation(cluster->nic_bytes_per_s, plan.pcie_generation);
    return plan;
}

static void read_server(struct tutti_spec *spec, struct server *server)
{
    uint32_t gen = tutti_spec_count(spec, "gen", 3, 6);

    server->gen = gen;
    server->model = read_model(spec);
    server->gpus = tutti_spec_count(spec, "gpus", 1, GPUS_MAX);
    server->sockets = tutti_spec_count(spec, "sockets", 1, SOCKETS_MAX);
    server->switches = tutti_spec_count(spec, "switches", 0, GPUS_MAX);
    server->nics = tutti_spec_count(spec, "nics", 1, GPUS_MAX);
    server->pcie = (struct tutti_link){.bytes_per_s = tutti_spec_rate(spec, "bw"),
                                       .latency_ps = tutti_spec_time(spec, "lat"),
                                       .kind = TUTTI_LINK_PCIE};
    server->cpu = (struct tutti_link){.bytes_per_s = tutti_spec_rate(spec, "cpubw"),
                                      .latency_ps = tutti_spec_time(spec, "cpulat"),
                                      .kind = TUTTI_LINK_CPU};
    if (server->pcie.bytes_per_s == 0)
        server->pcie.bytes_per_s = tutti_hw_pcie_bytes_per_s(gen);
    if (server->cpu.bytes_per_s == 0)
        server->cpu.bytes_per_s = socket_rate(gen);
    check_even(spec, server);
}

/* Sockets in a full mesh, switches under them; returns the node under which GPU or NIC 0 of
 * `parents` hangs. */
static uint32_t add_tree(struct tutti_gpu_host *host, const struct server *server)
{
    const struct tutti_node cpu = {.kind = TUTTI_NODE_CPU};
    const struct tutti_node plx = {.kind = TUTTI_NODE_SWITCH};
    uint32_t first = 0;

    for (uint32_t s = 0; s < server->sockets; s++) {
        uint32_t index = tutti_gpu_host_node(host, &cpu, "cpu", s);

        first = s == 0 ? index : first;
        for (uint32_t other = 0; other < s; other++)
            tutti_gpu_host_cable(host, &server->cpu, first + other, index);
    }
    for (uint32_t i = 0; i < server->switches; i++) {
        uint32_t index = tutti_gpu_host_node(host, &plx, "pcie", i);

        tutti_gpu_host_cable(host, &server->pcie, index,
                             i * server->sockets / server->switches + first);
    }
    return server->switches > 0 ? first + server->sockets : first;
}

int tutti_preset_pcie(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    struct tutti_node gpu = {.kind = TUTTI_NODE_DEVICE};
    const struct tutti_node nic = {.kind = TUTTI_NODE_NIC};
    struct server server;
    struct tutti_cluster cluster;
    struct tutti_gpu_plan plan;
    struct tutti_gpu_host host;
    uint32_t parents;
    uint32_t parent;
    bool gdr;
    int status;

    read_server(spec, &server);
    cluster = tutti_gpu_read_cluster(spec, server.gpus, "nicbw");
    gdr = tutti_gpu_read_gdr(spec, &cluster);
    host = tutti_gpu_host_begin(spec, err);
    if (host.status < 0)
        return host.status;
    plan = plan_of(&server, &cluster);
    plan.gdr = gdr;
    plan.net_kind = cluster.net_kind;
    plan.net_reduces = cluster.reduces;
    if (server.model != NULL)
        tutti_gpu_model_figures(server.model, &gpu);
    for (uint32_t i = 0; i < server.gpus; i++)
        (void)tutti_gpu_host_node(&host, &gpu, "gpu", i);
    parents = server.switches > 0 ? server.switches : server.sockets;
    parent = add_tree(&host, &server);
    for (uint32_t i = 0; i < server.gpus; i++)
        tutti_gpu_host_cable(&host, &server.pcie, i, parent + i * parents / server.gpus);
    for (uint32_t i = 0; cluster.host_count > 1 && i < server.nics; i++)
        tutti_gpu_host_cable(&host, &server.pcie, tutti_gpu_host_node(&host, &nic, "nic", i),
                             parent + i * parents / server.nics);
    status = tutti_gpu_host_end(&host, &cluster, builder);
    return status < 0 ? status : tutti_gpu_plan_set(&plan, builder, err);
}
