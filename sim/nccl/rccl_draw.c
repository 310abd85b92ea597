/* RCCL's rings on xGMI. RCCL has them in a table of known hosts (graph/rome_models.cc): of MI250X
 * they are here as they are there; on full meshes they are drawn by the rule that its tables
 * follow, a path a port, each on links of its own, in by one port and out by another. Anything else
 * runs in the order of its ranks. How many channels share a path differs from RCCL's (up to 64 in
 * all): here it is two, as NCCL has it. */
#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl/rccl.h"
#include "topo/hardware.h"

enum { GPUS_MAX = 16, CHAINS_MAX = 16, BOARD_GPUS = 8 };

/* Seven rings through a mesh of eight that use every directed link once (Tillson 1980 shows that
 * there are such; any will do, and RCCL's model of the host has others). */
static const uint8_t mesh_rings[BOARD_GPUS - 1][BOARD_GPUS] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {0, 2, 1, 3, 5, 4, 7, 6}, {0, 3, 1, 4, 6, 2, 7, 5},
    {0, 4, 1, 5, 7, 2, 6, 3}, {0, 5, 3, 6, 1, 7, 4, 2}, {0, 6, 5, 2, 4, 3, 7, 1},
    {0, 7, 3, 2, 5, 1, 6, 4},
};

/* Of four there are no three that use every link once (Tillson). These six, each of the three ways
 * round and back, use every link twice. */
enum { FOUR = 4, FOUR_RINGS = 6 };
static const uint8_t four_rings[FOUR_RINGS][BOARD_GPUS] = {
    {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 3, 2}, {2, 3, 1, 0}, {0, 2, 1, 3}, {3, 1, 2, 0},
};

/* MI250X: models 71 and 72. */
static const uint8_t package_rings[4][BOARD_GPUS] = {
    {0, 1, 3, 2, 4, 5, 7, 6},
    {6, 7, 5, 4, 2, 3, 1, 0},
    {0, 1, 5, 4, 2, 3, 7, 6},
    {6, 7, 3, 2, 4, 5, 1, 0},
};
static const uint8_t package_paths[BOARD_GPUS][BOARD_GPUS] = {
    {0, 1, 3, 2, 4, 5, 7, 6}, {2, 3, 1, 0, 6, 7, 5, 4}, {7, 6, 0, 1, 5, 4, 2, 3},
    {1, 0, 6, 7, 3, 2, 4, 5}, {4, 5, 7, 6, 0, 1, 3, 2}, {6, 7, 5, 4, 2, 3, 1, 0},
    {5, 4, 2, 3, 7, 6, 0, 1}, {3, 2, 4, 5, 1, 0, 6, 7},
};
enum { PACKAGE_PORTS = 4 };

struct chains {
    uint32_t gpus, ports; /* of a host; ports 0: there is one host */
    uint32_t links[GPUS_MAX][GPUS_MAX];
    bool mesh;     /* as many links between any two */
    bool packages; /* links where the paths of MI250X go */
    uint32_t count;
    uint32_t members[CHAINS_MAX][GPUS_MAX];
};

static uint32_t port_of(const struct chains *chains, uint32_t gpu)
{
    return gpu * chains->ports / chains->gpus;
}

/* From one side of the mesh to the other and back, and forth (Walecki): the paths from each GPU
 * have all links of the mesh once each way, if the GPUs are even in number. */
static void zigzag(struct chains *chains, uint32_t begin)
{
    uint32_t *path = chains->members[chains->count++];
    uint32_t n = chains->gpus;

    for (uint32_t i = 0; i < n; i++)
        path[i] = (begin + (i % 2 == 1 ? (i + 1) / 2 : n - i / 2)) % n;
}

static void in_order(struct chains *chains, uint32_t begin)
{
    for (uint32_t i = 0; i < chains->gpus; i++)
        chains->members[chains->count][i] = (begin + i) % chains->gpus;
    chains->count++;
}

static void take(struct chains *chains, const uint8_t table[][BOARD_GPUS], uint32_t count)
{
    for (; chains->count < count; chains->count++) {
        for (uint32_t i = 0; i < chains->gpus; i++)
            chains->members[chains->count][i] = table[chains->count][i];
    }
}

static void draw(struct chains *chains)
{
    uint32_t count = chains->ports > 0 ? chains->ports : chains->gpus;

    if (chains->ports == 0 && chains->mesh && chains->gpus == BOARD_GPUS)
        take(chains, mesh_rings, BOARD_GPUS - 1);
    else if (chains->ports == 0 && chains->mesh && chains->gpus == FOUR)
        take(chains, four_rings, FOUR_RINGS);
    else if (chains->ports == 0 && chains->packages)
        take(chains, package_rings, 4);
    else if (chains->packages && chains->ports == PACKAGE_PORTS)
        take(chains, package_paths, BOARD_GPUS);
    else if (chains->ports == 0 && !chains->mesh)
        in_order(chains, 0);
    else
        for (uint32_t k = 0; k < count; k++) {
            if (chains->mesh && chains->gpus % 2 == 0)
                zigzag(chains, k * chains->gpus / count);
            else
                in_order(chains, k * chains->gpus / count);
        }
}

static void read_links(const struct tutti_hardware *hardware, struct chains *chains)
{
    for (uint32_t i = 0; i < hardware->nvlink_count; i++) {
        const struct tutti_hw_nvlink *link = &hardware->nvlinks[i];

        if (link->target_kind == TUTTI_TARGET_GPU)
            chains->links[hardware->gpus[link->gpu].rank][hardware->gpus[link->target].rank] +=
                link->count;
    }
    chains->mesh = chains->gpus > 1;
    for (uint32_t a = 0; a < chains->gpus; a++) {
        for (uint32_t b = 0; b < chains->gpus; b++)
            chains->mesh &= a == b || chains->links[a][b] == chains->links[0][1];
    }
    chains->mesh &= chains->links[0][1] > 0;
    chains->packages = !chains->mesh && chains->gpus == BOARD_GPUS;
    for (uint32_t c = 0; c < BOARD_GPUS && chains->packages; c++) {
        for (uint32_t i = 0; i + 1 < BOARD_GPUS; i++)
            chains->packages &= chains->links[package_paths[c][i]][package_paths[c][i + 1]] > 0;
    }
}

/* GB/s of an xGMI link as RCCL counts (topo.h). */
static double link_GBps(uint32_t sm)
{
    return sm >= 940 ? 48 : 36;
}

/* What of a link a ring has, where more rings go through a mesh than each GPU has links. */
static double share_of(const struct chains *chains)
{
    double links = chains->gpus - 1;

    return chains->ports == 0 && chains->mesh && chains->count > links ? links / chains->count : 1;
}

static int keep(const struct tutti_hardware *hardware, const struct chains *chains,
                struct tutti_arena *arena, struct tutti_nccl_comm *comm, struct tutti_err *err)
{
    uint32_t n = chains->gpus;
    uint32_t *gpus = tutti_arena_take(arena, (size_t)chains->count * n, sizeof(*gpus));
    uint32_t *nets = tutti_arena_take(arena, 2 * (size_t)chains->count, sizeof(*nets));
    struct tutti_nccl_graph graph = {.pattern = TUTTI_PATTERN_RING,
                                     .type_intra = TUTTI_PATH_NVL,
                                     .type_inter = TUTTI_PATH_PXB,
                                     .channel_count = chains->count,
                                     .channels_found = chains->count,
                                     .bw_intra_GBps =
                                         link_GBps(hardware->gpus[0].sm) * share_of(chains),
                                     .gpu_count = n,
                                     .gpus = gpus};

    if (gpus == NULL || nets == NULL)
        return tutti_nomem(err);
    for (uint32_t c = 0; c < chains->count; c++) {
        memcpy(gpus + (size_t)c * n, chains->members[c], n * sizeof(*gpus));
        nets[2 * c] = chains->ports > 0 ? port_of(chains, chains->members[c][0]) : 0;
        nets[2 * c + 1] = chains->ports > 0 ? port_of(chains, chains->members[c][n - 1]) : 0;
    }
    graph.nets = chains->ports > 0 ? nets : NULL;
    graph.bw_inter_GBps = graph.bw_intra_GBps;
    if (chains->ports > 0 && hardware->nets[0].mbit_per_s / 8000.0 < graph.bw_inter_GBps)
        graph.bw_inter_GBps = hardware->nets[0].mbit_per_s / 8000.0;
    comm->max_bw_GBps = graph.bw_inter_GBps;
    comm->total_bw_GBps = graph.bw_intra_GBps * chains->count;
    comm->graphs[TUTTI_GRAPH_RING] = graph;
    graph.pattern = TUTTI_PATTERN_TREE;
    comm->graphs[TUTTI_GRAPH_TREE] = graph;
    return 0;
}

int tutti_rccl_draw(const struct tutti_hardware *hardware, uint32_t host_count,
                    struct tutti_arena *arena, struct tutti_nccl_comm *comm, struct tutti_err *err)
{
    struct chains chains = {.gpus = hardware->gpu_count,
                            .ports = host_count > 1 ? hardware->net_count : 0};

    if (chains.gpus > GPUS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' GPUs of AMD on a host (at most %d)", chains.gpus,
                          GPUS_MAX);
    if (chains.ports > chains.gpus)
        chains.ports = chains.gpus;
    read_links(hardware, &chains);
    draw(&chains);
    assert(chains.count > 0);
    comm->node_count = host_count;
    return keep(hardware, &chains, arena, comm, err);
}
