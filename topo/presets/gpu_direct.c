/* The presets of GPUs wired by hand: hybrid cube mesh (DGX-1), two boards (DGX-2), full mesh. */
#include <assert.h>
#include <string.h>

#include "topo/presets/gpu.h"

#define TERA UINT64_C(1000000000000)
#define GIGA UINT64_C(1000000000)

enum { MESH_GPUS = 8, BOARDS = 2, BOARD_GPUS = 8 };

/* The line rate of 16 lanes of PCIe Gen3 and Gen5: 8 and 32 GT/s times 128/130. */
static const uint64_t pcie3_bytes_per_s = 15754 * GIGA / 1000;
static const uint64_t pcie5_bytes_per_s = 63015 * GIGA / 1000;
static const tutti_ps pcie_latency_ps = 125 * TUTTI_PS_PER_NS; /* assumed; GPU to NIC is two */

/* NVLinks between GPU a (row) and GPU b (column) of a DGX-1 with V100, numbered as CUDA and
 * nvidia-smi do, so that jobs on fewer GPUs get the links that these have: 0 and 1 have one. The
 * wiring of microsoft/msccl-tools, topologies/nvidia.py, is the same under other numbers. */
static const uint8_t volta_links[MESH_GPUS][MESH_GPUS] = {
    {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
    {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
    {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
};

/* With P100: two full quads and an edge from each GPU to its twin (unverified, the well-known
 * hybrid cube mesh). */
static const uint8_t pascal_links[MESH_GPUS][MESH_GPUS] = {
    {0, 1, 1, 1, 1, 0, 0, 0}, {1, 0, 1, 1, 0, 1, 0, 0}, {1, 1, 0, 1, 0, 0, 1, 0},
    {1, 1, 1, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 1, 1, 1}, {0, 1, 0, 0, 1, 0, 1, 1},
    {0, 0, 1, 0, 1, 1, 0, 1}, {0, 0, 0, 1, 1, 1, 1, 0},
};

/* The rings that use every link once each way. V100: the ring of double links carries two, the
 * single links close into one more; P100: the 16 links are two rings. */
static const uint32_t volta_rings[6][MESH_GPUS] = {
    {0, 3, 2, 1, 5, 6, 7, 4}, {0, 4, 7, 6, 5, 1, 2, 3}, {0, 1, 3, 7, 5, 4, 6, 2},
    {0, 2, 6, 4, 5, 7, 3, 1}, {0, 3, 2, 1, 5, 6, 7, 4}, {0, 4, 7, 6, 5, 1, 2, 3},
};
static const uint32_t pascal_rings[4][MESH_GPUS] = {
    {0, 1, 2, 3, 7, 6, 5, 4},
    {0, 4, 5, 6, 7, 3, 2, 1},
    {0, 2, 6, 4, 7, 5, 1, 3},
    {0, 3, 1, 5, 7, 4, 6, 2},
};

/* Seven rings through a full mesh of eight that use every directed link once (Tillson 1980 shows
 * that they exist; found by exact cover). */
static const uint32_t full_rings[7][MESH_GPUS] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {0, 2, 1, 3, 5, 4, 7, 6}, {0, 3, 1, 4, 6, 2, 7, 5},
    {0, 4, 1, 5, 7, 2, 6, 3}, {0, 5, 3, 6, 1, 7, 4, 2}, {0, 6, 5, 2, 4, 3, 7, 1},
    {0, 7, 3, 2, 5, 1, 6, 4},
};

/* NICs behind PCIe switches of two GPUs each, as in every DGX-1 and DGX-2, for GPUs `gpu_first` up
 * to `gpu_end`. */
static void add_pcie_nics(struct tutti_gpu_host *host, uint32_t gpu_first, uint32_t gpu_end)
{
    const struct tutti_node plx = {.kind = TUTTI_NODE_SWITCH};
    const struct tutti_node nic = {.kind = TUTTI_NODE_NIC};
    const struct tutti_link pcie = {
        .bytes_per_s = pcie3_bytes_per_s, .latency_ps = pcie_latency_ps, .kind = TUTTI_LINK_PCIE};

    for (uint32_t gpu = gpu_first; gpu < gpu_end; gpu += 2) {
        uint32_t s = tutti_gpu_host_node(host, &plx, "pcie", gpu / 2);
        uint32_t n = tutti_gpu_host_node(host, &nic, "nic", gpu / 2);

        tutti_gpu_host_cable(host, &pcie, gpu, s);
        if (gpu + 1 < gpu_end)
            tutti_gpu_host_cable(host, &pcie, gpu + 1, s);
        tutti_gpu_host_cable(host, &pcie, s, n);
    }
}

/* What NCCL sees of hosts of two CPUs; the rest is up to the caller. */
static struct tutti_gpu_plan plan_of(const char *gpu, enum tutti_gpu_cpu cpu, uint32_t board_count,
                                     uint32_t nic_count, const struct tutti_cluster *cluster)
{
    struct tutti_gpu_plan plan = {.gpu = tutti_gpu_model_find(gpu),
                                  .board_count = board_count,
                                  .nic_count = nic_count,
                                  .cpu_count = 2,
                                  .switch_count = nic_count};

    assert(plan.gpu != NULL);
    plan.pcie_generation = plan.gpu->pcie_generation;
    plan.nvlink_count = plan.gpu->nvlink_count;
    plan.cpu = tutti_gpu_plan_cpu(cpu, plan.pcie_generation);
    plan.nic_bytes_per_s = cluster->nic_bytes_per_s;
    plan.nic_generation = tutti_gpu_nic_generation(cluster->nic_bytes_per_s, plan.pcie_generation);
    return plan;
}

/* Ends the host, and gives the machine the hardware of its first GPUs with their NICs. */
static int end(struct tutti_gpu_host *host, const struct tutti_cluster *cluster,
               struct tutti_gpu_plan *plan, uint32_t gpu_count, struct tutti_topo_builder *builder)
{
    uint32_t gpus_a_nic = plan->board_count / plan->nic_count;
    int status = tutti_gpu_host_end(host, cluster, builder);

    plan->gpu_count = gpu_count;
    plan->nic_used = (gpu_count + gpus_a_nic - 1) / gpus_a_nic;
    return status < 0 ? status : tutti_gpu_plan_set(plan, builder, host->err);
}

/* Two Xeons E5-2698 v4 (Broadwell), four PCIe switches of two GPUs and a NIC: NVIDIA DGX-1 user
 * guide. */
int tutti_preset_dgx1(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    bool volta = strcmp(tutti_spec_preset(spec), "dgx-1v") == 0;
    const uint8_t(*links)[MESH_GPUS] = volta ? volta_links : pascal_links;
    const uint32_t *rings = volta ? volta_rings[0] : pascal_rings[0];
    const struct tutti_node gpu = {.kind = TUTTI_NODE_DEVICE,
                                   .flops_per_s = (volta ? 125 : 21) * TERA,
                                   .mem_bytes_per_s = (volta ? 900 : 730) * GIGA};
    struct tutti_link nvlink = {.bytes_per_s = tutti_spec_rate(spec, "bw"),
                                .latency_ps = tutti_spec_time(spec, "lat"),
                                .kind = TUTTI_LINK_NVLINK};
    uint32_t gpus = tutti_spec_count(spec, "gpus", 1, MESH_GPUS);
    struct tutti_cluster cluster = tutti_gpu_read_cluster(spec, gpus, "nicbw");
    struct tutti_gpu_plan plan =
        plan_of(volta ? "v100" : "p100", TUTTI_CPU_INTEL, MESH_GPUS, MESH_GPUS / 2, &cluster);
    uint64_t cable_bytes_per_s = nvlink.bytes_per_s;
    struct tutti_gpu_host host;

    plan.wiring = TUTTI_WIRING_TABLE;
    plan.links = links[0];
    plan.gdr = tutti_gpu_read_gdr(spec, &cluster);
    plan.net_kind = cluster.net_kind;
    plan.net_reduces = cluster.reduces;
    host = tutti_gpu_host_begin(spec, err);
    for (uint32_t i = 0; i < gpus; i++)
        (void)tutti_gpu_host_node(&host, &gpu, "gpu", i);
    for (uint32_t a = 0; a < gpus; a++) {
        for (uint32_t b = a + 1; b < gpus; b++) {
            nvlink.cable_count = links[a][b];
            nvlink.bytes_per_s = cable_bytes_per_s * links[a][b];
            if (links[a][b] > 0)
                tutti_gpu_host_cable(&host, &nvlink, a, b);
        }
    }
    if (cluster.host_count > 1)
        add_pcie_nics(&host, 0, gpus);
    if (gpus == MESH_GPUS)
        tutti_gpu_host_rings(&host, MESH_GPUS, rings, volta ? 6 : 4);
    return end(&host, &cluster, &plan, gpus, builder);
}

/* Two Xeons 8168 (Skylake, model 85); PCIe switches of two GPUs and a NIC: NVIDIA DGX-2 user guide.
 * The six NVSwitches of a board are one node: each GPU has one link to each, so no pair of GPUs can
 * crowd another. Between the boards eight links join each switch to its opposite. */
int tutti_preset_dgx2(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                      struct tutti_err *err)
{
    enum { SWITCHES = 6, TRUNKS = 8 };
    const struct tutti_node gpu = {
        .kind = TUTTI_NODE_DEVICE, .flops_per_s = 125 * TERA, .mem_bytes_per_s = 900 * GIGA};
    const struct tutti_node nvswitch = {.kind = TUTTI_NODE_SWITCH};
    uint64_t gpu_bytes_per_s = tutti_spec_rate(spec, "bw");
    tutti_ps latency_ps = tutti_spec_time(spec, "lat");
    const struct tutti_link port = {.bytes_per_s = gpu_bytes_per_s,
                                    .latency_ps = latency_ps / 2,
                                    .kind = TUTTI_LINK_NVLINK,
                                    .cable_count = SWITCHES};
    const struct tutti_link trunk = {.bytes_per_s = gpu_bytes_per_s * TRUNKS,
                                     .latency_ps = latency_ps / 4,
                                     .kind = TUTTI_LINK_NVLINK,
                                     .cable_count = SWITCHES * TRUNKS};
    uint32_t gpus = tutti_spec_count(spec, "gpus", 1, BOARDS * BOARD_GPUS);
    uint32_t boards = gpus > BOARD_GPUS ? BOARDS : 1;
    struct tutti_cluster cluster = tutti_gpu_read_cluster(spec, gpus, "nicbw");
    struct tutti_gpu_plan plan =
        plan_of("v100", TUTTI_CPU_INTEL, BOARDS * BOARD_GPUS, BOARDS * BOARD_GPUS / 2, &cluster);
    struct tutti_gpu_host host;
    uint32_t board[BOARDS];

    plan.wiring = TUTTI_WIRING_NVSWITCH;
    plan.gdr = tutti_gpu_read_gdr(spec, &cluster);
    plan.net_kind = cluster.net_kind;
    plan.net_reduces = cluster.reduces;
    plan.cpu.model = 85;
    host = tutti_gpu_host_begin(spec, err);
    for (uint32_t i = 0; i < gpus; i++)
        (void)tutti_gpu_host_node(&host, &gpu, "gpu", i);
    for (uint32_t b = 0; b < boards; b++)
        board[b] = tutti_gpu_host_node(&host, &nvswitch, "nvswitch", b);
    for (uint32_t i = 0; i < gpus; i++)
        tutti_gpu_host_cable(&host, &port, i, board[i / BOARD_GPUS]);
    if (boards == BOARDS)
        tutti_gpu_host_cable(&host, &trunk, board[0], board[1]);
    for (uint32_t first = 0; cluster.host_count > 1 && first < gpus; first += BOARD_GPUS)
        add_pcie_nics(&host, first, gpus < first + BOARD_GPUS ? gpus : first + BOARD_GPUS);
    return end(&host, &cluster, &plan, gpus, builder);
}

int tutti_preset_mi300x(struct tutti_spec *spec, struct tutti_topo_builder *builder,
                        struct tutti_err *err)
{
    const struct tutti_node gpu = {
        .kind = TUTTI_NODE_DEVICE, .flops_per_s = 1307 * TERA, .mem_bytes_per_s = 5300 * GIGA};
    const struct tutti_node nic = {.kind = TUTTI_NODE_NIC};
    const struct tutti_link xgmi = {.bytes_per_s = tutti_spec_rate(spec, "bw"),
                                    .latency_ps = tutti_spec_time(spec, "lat"),
                                    .kind = TUTTI_LINK_XGMI};
    const struct tutti_link pcie = {.bytes_per_s = pcie5_bytes_per_s,
                                    .latency_ps = 2 * pcie_latency_ps,
                                    .kind = TUTTI_LINK_PCIE};
    uint32_t gpus = tutti_spec_count(spec, "gpus", 1, MESH_GPUS);
    struct tutti_cluster cluster = tutti_gpu_read_cluster(spec, gpus, "nicbw");
    struct tutti_gpu_plan plan = plan_of("mi300x", TUTTI_CPU_AMD, MESH_GPUS, MESH_GPUS, &cluster);
    struct tutti_gpu_host host;

    plan.wiring = TUTTI_WIRING_MESH;
    plan.gdr = tutti_gpu_read_gdr(spec, &cluster);
    plan.net_kind = cluster.net_kind;
    plan.net_reduces = cluster.reduces;
    host = tutti_gpu_host_begin(spec, err);
    for (uint32_t i = 0; i < gpus; i++)
        (void)tutti_gpu_host_node(&host, &gpu, "gpu", i);
    for (uint32_t a = 0; a < gpus; a++)
        for (uint32_t b = a + 1; b < gpus; b++)
            tutti_gpu_host_cable(&host, &xgmi, a, b);
    for (uint32_t i = 0; cluster.host_count > 1 && i < gpus; i++)
        tutti_gpu_host_cable(&host, &pcie, i, tutti_gpu_host_node(&host, &nic, "nic", i));
    if (gpus == MESH_GPUS)
        tutti_gpu_host_rings(&host, MESH_GPUS, full_rings[0], 7);
    return end(&host, &cluster, &plan, gpus, builder);
}
