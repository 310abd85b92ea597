/* What must hold of NCCL's graphs on any machine: random hosts, random variables. */
#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/nccl/paths.h"
#include "sim/nccl/reserve.h"
#include "tests/runtime/nccl_hosts.h"

enum { CASES = 60, CASES_FULL = 5000, SWITCHES_MAX = 8 };

/* ---- random hosts -------------------------------------------------------------------------- */

static uint32_t below(struct tutti_random *random, uint32_t end)
{
    return (uint32_t)tutti_random_below(random, end);
}

static void random_cpus(struct host *h, struct tutti_random *random)
{
    uint32_t count = 1 + below(random, 3);

    for (uint32_t c = 0; c < count; c++)
        host_cpu(h, HOST_INTEL, (uint16_t)(5 + below(random, 3)), (uint16_t)below(random, 256));
    for (uint32_t c = 0, arch = below(random, 6), vendor = below(random, 4); c < count; c++) {
        h->cpus[c].arch = (uint8_t)(arch < 3 ? TUTTI_ARCH_X86_64 : arch - 2);
        h->cpus[c].vendor = (uint8_t)vendor;
    }
}

/* A random place for a function: under a switch, or under a NUMA node. */
static void random_place(const struct host *h, struct tutti_random *random, uint32_t switch_count,
                         uint32_t *ret_cpu, uint32_t *ret_parent)
{
    uint32_t at = below(random, switch_count + 1);

    *ret_parent = at < switch_count ? at : TUTTI_HW_NONE;
    *ret_cpu = at < switch_count ? h->pcis[at].cpu : below(random, h->hw.cpu_count);
}

static uint32_t random_switches(struct host *h, struct tutti_random *random)
{
    static const uint64_t ids[] = {0, UINT64_C(0x1000c0101000a000), UINT64_C(0x1000c03010000000),
                                   UINT64_C(0x1000c03010001000)};
    uint32_t count = below(random, SWITCHES_MAX);

    for (uint32_t s = 0; s < count; s++) {
        uint32_t cpu, parent;

        random_place(h, random, s, &cpu, &parent);
        host_pci(h, cpu, parent, 3 + below(random, 4));
        h->pcis[s].device_ids = ids[below(random, 4)];
    }
    return count;
}

static void random_nvlinks(struct host *h, struct tutti_random *random)
{
    uint32_t how = below(random, 4);

    for (uint32_t a = 0; a < h->hw.gpu_count; a++) {
        if (how == 1)
            host_nvlink(h, a, TUTTI_TARGET_NVSWITCH, 0, 12);
        if (h->cpus[0].arch == TUTTI_ARCH_PPC64 && how == 3)
            host_nvlink(h, a, TUTTI_TARGET_CPU, h->pcis[h->gpus[a].pci].cpu, 2);
        for (uint32_t b = a + 1; b < h->hw.gpu_count && how >= 2; b++) {
            uint32_t count = below(random, 3);

            if (count > 0 && h->hw.nvlink_count + 2 < HOST_LINKS) {
                host_nvlink(h, a, TUTTI_TARGET_GPU, b, count);
                host_nvlink(h, b, TUTTI_TARGET_GPU, a, count);
            }
        }
        if (h->cpus[0].arch == TUTTI_ARCH_ARM64 && below(random, 2) == 0)
            h->c2cs[h->hw.c2c_count++] =
                (struct tutti_hw_c2c){.gpu = a, .mbyte_per_s = 44712, .count = 10};
    }
}

static void random_host(struct host *h, struct tutti_random *random)
{
    static const uint32_t sms[] = {60, 70, 75, 80, 86, 89, 90, 100};
    static const uint32_t rates[] = {1000, 10000, 25000, 100000, 200000, 400000, 800000};
    uint32_t sm = sms[below(random, 8)];
    uint32_t gpus = below(random, 12) == 0 ? 16 : 1 + below(random, 8);
    uint32_t nets = below(random, 9);
    uint32_t switch_count, cpu, parent;

    *h = (struct host){.cpus = {{0}}};
    random_cpus(h, random);
    switch_count = random_switches(h, random);
    for (uint32_t g = 0; g < gpus; g++) {
        random_place(h, random, switch_count, &cpu, &parent);
        host_gpu(h, cpu, parent, 3 + below(random, 4), below(random, 16) ? sm : sms[g % 8]);
        h->gpus[g].gdr = below(random, 8) > 0;
    }
    for (uint32_t n = 0; n < nets; n++) {
        random_place(h, random, switch_count, &cpu, &parent);
        host_net(h, cpu, parent, 3 + below(random, 4), rates[below(random, 7)]);
        h->nets[n].gdr = below(random, 4) > 0;
        h->nets[n].coll = below(random, 2) > 0;
        h->nets[n].guid = below(random, 4) > 0 ? n : 0;
        if (below(random, 8) == 0)
            h->nets[n].pci = TUTTI_HW_NONE;
    }
    random_nvlinks(h, random);
}

static struct tutti_nccl_env *random_env(struct tutti_random *random)
{
    static const char *const settings[][2] = {
        {"NCCL_P2P_DISABLE", "1"},        {"NCCL_P2P_LEVEL", "SYS"},
        {"NCCL_P2P_LEVEL", "NVL"},        {"NCCL_SHM_DISABLE", "1"},
        {"NCCL_PXN_DISABLE", "1"},        {"NCCL_NVB_DISABLE", "1"},
        {"NCCL_CROSS_NIC", "0"},          {"NCCL_CROSS_NIC", "1"},
        {"NCCL_NET_GDR_LEVEL", "SYS"},    {"NCCL_NETDEVS_POLICY", "ALL"},
        {"NCCL_NETDEVS_POLICY", "MAX:2"}, {"NCCL_COLLNET_ENABLE", "1"},
    };
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (below(random, 8) == 0)
            CHECK_OK(tutti_nccl_env_set(env, settings[i][0], settings[i][1], &err), err);
    return env;
}

/* ---- what must hold ------------------------------------------------------------------------ */

static void check_channel(const struct host *h, const struct tutti_nccl_graph *graph, uint32_t c)
{
    const uint32_t *gpus = &graph->gpus[(size_t)c * graph->gpu_count];
    uint32_t seen = 0;

    for (uint32_t g = 0; g < graph->gpu_count; g++) {
        CHECK(gpus[g] < h->hw.gpu_count);
        CHECK((seen & 1u << gpus[g]) == 0);
        seen |= 1u << gpus[g];
    }
    if (graph->nets != NULL) {
        const uint32_t *nets = &graph->nets[2 * (size_t)c];

        CHECK(nets[0] < h->hw.net_count && nets[1] < h->hw.net_count);
        if (graph->pattern == TUTTI_PATTERN_TREE)
            CHECK_INT(nets[0], nets[1]);
        if (graph->cross_nic == 0 && !graph->collapsed) {
            CHECK_INT(h->nets[nets[0]].guid, h->nets[nets[1]].guid);
            CHECK_INT(h->nets[nets[0]].port, h->nets[nets[1]].port);
        }
    }
}

static void check_comm(const struct host *h, const struct tutti_nccl_comm *comm)
{
    CHECK(comm->channel_count >= 1 && comm->channel_count <= TUTTI_NCCL_CHANNELS_MAX);
    for (int id = 0; id < TUTTI_GRAPH_COUNT; id++) {
        const struct tutti_nccl_graph *graph = &comm->graphs[id];

        if (id == TUTTI_GRAPH_RING || id == TUTTI_GRAPH_TREE)
            CHECK(graph->channel_count >= 1);
        CHECK(graph->channel_count <= graph->channels_found);
        CHECK(graph->collapsed ? graph->bw_intra_GBps == 0.1 : graph->bw_intra_GBps != 0.1);
        for (uint32_t c = 0; c < graph->channel_count; c++)
            check_channel(h, graph, c);
    }
}

/* Each attempt keeps within NCCL's budget, but that it tries the first GPU of all with 1024 more
 * at every port. */
static void check_budget(const struct host *h, const struct tutti_nccl_comm *comm)
{
    for (int id = 0; id < TUTTI_GRAPH_COUNT; id++) {
        const struct tutti_nccl_try *tries = NULL;
        enum tutti_nccl_path_type type_max;
        size_t count = tutti_nccl_tries(comm, (enum tutti_nccl_graph_id)id, &tries, &type_max);

        for (size_t i = 0; i < count; i++) {
            uint32_t most = (tries[i].same_channels ? 256 : 16384) + 1024 * h->hw.net_count;

            CHECK(tries[i].step_count <= most);
        }
    }
}

/* The same twice, to the byte. */
static void check_equal(const struct tutti_nccl_comm *a, const struct tutti_nccl_comm *b)
{
    CHECK_INT(a->channel_count, b->channel_count);
    CHECK_INT(a->node_count, b->node_count);
    for (int id = 0; id < TUTTI_GRAPH_COUNT; id++) {
        struct tutti_nccl_graph x = a->graphs[id];
        struct tutti_nccl_graph y = b->graphs[id];
        size_t count = (size_t)x.channel_count * x.gpu_count;

        CHECK_INT(x.channel_count, y.channel_count);
        CHECK(x.channel_count == 0 || memcmp(x.gpus, y.gpus, count * sizeof(*x.gpus)) == 0);
        x.gpus = y.gpus = x.nets = y.nets = NULL;
        CHECK(memcmp(&x, &y, sizeof(x)) == 0);
    }
}

/* ---- links hold what is taken -------------------------------------------------------------- */

static struct tutti_nccl_end gpu_end(uint32_t rank)
{
    return (struct tutti_nccl_end){.kind = TUTTI_NCCL_GPU, .place = rank};
}

static struct tutti_nccl_end net_end(const struct tutti_nccl_system *s, uint32_t net)
{
    struct tutti_nccl_end end = {.kind = TUTTI_NCCL_NET};

    while (tutti_nccl_node(s, TUTTI_NCCL_NET, end.place)->source != net)
        end.place++;
    return end;
}

/* Takes (or gives back) all that a ring's channel needs; the ways must have it. */
static void walk_ring(struct tutti_nccl_walk *walk, const struct tutti_nccl_graph *graph,
                      uint32_t c, bool give)
{
    const uint32_t *gpus = &graph->gpus[(size_t)c * graph->gpu_count];
    uint32_t last = graph->gpu_count - 1;

    for (uint32_t g = 0; g <= last + (graph->nets != NULL); g++) {
        struct tutti_nccl_end from = gpu_end(gpus[g > last ? last : g]);
        struct tutti_nccl_end to = gpu_end(gpus[g < last ? g + 1 : 0]);

        if (graph->nets != NULL && g == last) {
            to = net_end(walk->system, graph->nets[2 * (size_t)c + 1]);
        } else if (g > last) {
            from = net_end(walk->system, graph->nets[2 * (size_t)c]);
        }
        if (give)
            tutti_nccl_give(walk, from, to, 1, 1);
        else
            CHECK(tutti_nccl_reserve(walk, from, to, 1, 1));
    }
}

/* All channels of the ring at once, on a fresh graph of the same node, as one search sees it. */
static void check_load(struct host *h, const struct tutti_nccl_comm *comm, uint32_t hosts)
{
    const struct tutti_nccl_rules rules = {.p2p_level = -1,
                                           .gdr_level = -1,
                                           .nvb = true,
                                           .pxn = true,
                                           .pxn_c2c = true,
                                           .shm = true,
                                           .gdr_c2c = true,
                                           .cross_nic = 2};
    const struct tutti_nccl_parts parts = {
        .hardware = host_hardware(h), .host_count = 1, .with_nets = hosts > 1};
    const struct tutti_nccl_graph *ring = &comm->graphs[TUTTI_GRAPH_RING];
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_nccl_walk walk = {.system = NULL};
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_system_new(&parts, arena, &walk.system, &err), err);
    CHECK_OK(tutti_nccl_paths(walk.system, &rules, arena, &err), err);
    walk.now.pattern = ring->pattern;
    walk.now.type_intra = ring->type_intra;
    walk.now.type_inter = ring->type_inter;
    walk.now.intra_kbyte_per_s = (int64_t)(ring->bw_intra_GBps * 1e6 + 0.5);
    walk.now.inter_kbyte_per_s = (int64_t)(ring->bw_inter_GBps * 1e6 + 0.5);
    for (int give = 0; give < 2; give++)
        for (uint32_t c = 0; c < ring->channel_count; c++)
            walk_ring(&walk, ring, c, give == 1);
    CHECK_INT(walk.now.hop_count, 0);
    for (uint32_t n = 0; n < walk.system->node_count; n++) {
        const struct tutti_nccl_node *node = &walk.system->nodes[n];

        for (uint32_t l = 0; l < node->link_count; l++)
            CHECK_INT(node->links[l].left_mbyte_per_s, (node->links[l].kbyte_per_s + 500) / 1000);
    }
    tutti_arena_free(arena);
}

/* ---- cases --------------------------------------------------------------------------------- */

static void check_case(struct tutti_random *random, uint32_t *loads)
{
    struct host host;
    struct tutti_nccl_env *env = random_env(random);
    bool plain = below(random, 2) == 0;
    struct tutti_nccl_comm_params params = {.env = plain ? NULL : env};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_nccl_comm *again = NULL;
    struct tutti_err err = {""};

    random_host(&host, random);
    params.hardware = host_hardware(&host);
    params.host_count = host.hw.net_count == 0 ? 1 : 1 + below(random, 3);
    CHECK_OK(tutti_hardware_check(params.hardware, &err), err);
    CHECK_OK(tutti_nccl_version_find(below(random, 2) ? "2.28.9" : "2.30.7", &params.version, &err),
             err);
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    CHECK_OK(tutti_nccl_comm_new(&params, &again, &err), err);
    if (comm != NULL && again != NULL) {
        check_comm(&host, comm);
        check_budget(&host, comm);
        check_equal(comm, again);
        CHECK_INT(comm->rank_count, params.host_count * host.hw.gpu_count);
        CHECK(comm->node_count >= params.host_count);
        if (plain && comm->node_count == params.host_count &&
            !comm->graphs[TUTTI_GRAPH_RING].collapsed) {
            check_load(&host, comm, params.host_count);
            ++*loads;
        }
    }
    tutti_nccl_comm_free(comm);
    tutti_nccl_comm_free(again);
    tutti_nccl_env_free(env);
}

TEST(graphs_of_random_hosts_are_sound)
{
    struct tutti_random random;
    uint32_t loads = 0;
    int count = test_full ? CASES_FULL : CASES;

    for (int i = 0; i < count && test_failures == 0; i++) {
        tutti_random_seed(&random, test_seed + (uint64_t)i);
        check_case(&random, &loads);
        if (test_failures > 0)
            fprintf(stderr, "   so for --seed=%" PRIu64 "\n", test_seed + (uint64_t)i);
    }
    printf("%d hosts, rings of %u loaded at once\n", count, loads);
    CHECK(loads > 0);
}
