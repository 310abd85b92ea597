/* NCCL's graphs as we search for them: every vector of its own search, and what must hold on any
 * machine. */
#include <math.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "tests/runtime/nccl_hosts.h"
#include "tests/sim/nccl/nccl_vectors.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { TEXT_BYTES = 512, VECTOR_COUNT = sizeof(nccl_vectors) / sizeof(nccl_vectors[0]) };

/* As the vectors have it: "ring 8x24/24 NVL/PXN same". */
static size_t print_graph(char *text, const char *name, const struct tutti_nccl_graph *graph)
{
    return (size_t)snprintf(text, TEXT_BYTES, "%s %ux%g/%g %s/%s%s%s", name, graph->channels_found,
                            graph->bw_intra_GBps, graph->bw_inter_GBps,
                            tutti_nccl_path_name((enum tutti_nccl_path_type)graph->type_intra),
                            tutti_nccl_path_name((enum tutti_nccl_path_type)graph->type_inter),
                            graph->same_channels ? " same" : "",
                            graph->cross_nic == 2 ? " crossNic2" : "");
}

static void print_graphs(char *text, const struct tutti_nccl_comm *comm)
{
    const struct tutti_nccl_graph *tree = &comm->graphs[TUTTI_GRAPH_TREE];
    const struct tutti_nccl_graph *nvls = &comm->graphs[TUTTI_GRAPH_NVLS];
    char name[64];
    size_t used = print_graph(text, "ring", &comm->graphs[TUTTI_GRAPH_RING]);

    snprintf(name, sizeof(name), "; tree[%s]",
             tutti_nccl_pattern_name((enum tutti_nccl_pattern)tree->pattern));
    used += print_graph(text + used, name, tree);
    if (nvls->channels_found > 0)
        print_graph(text + used, "; nvls", nvls);
}

/* NCCL does not look for NVLS with two GPUs or less (transport/nvls.cc ncclNvlsInit); the vectors
 * were made as though it did. */
static void expected_graphs(char *text, const struct nccl_vector *vector, uint32_t gpus)
{
    char *nvls;

    snprintf(text, 3 * TEXT_BYTES, "%s", vector->graphs);
    nvls = strstr(text, "; nvls");
    if (nvls != NULL && gpus <= 2)
        *nvls = '\0';
}

/* From the graphs found here to the times NCCL expects: "1024:15.01 16384:15.20 ...". */
static void check_times(const struct nccl_vector *vector, const struct tutti_nccl_comm *comm)
{
    const char *at = vector->allreduce_times;
    struct tutti_err err = {""};
    uint64_t bytes;
    double time_us;
    int used;

    for (; sscanf(at, " %" SCNu64 ":%lf%n", &bytes, &time_us, &used) == 2; at += used) {
        struct tutti_nccl_choice choice = {.time_us = 0};

        CHECK_OK(tutti_nccl_choose(comm, TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, bytes, &choice,
                                   &err),
                 err);
        CHECK(choice.time_us > time_us - 0.0051 && choice.time_us < time_us + 0.0051);
    }
    CHECK(at[0] == '\0');
}

static void check_vector(const struct nccl_vector *vector, const char *version)
{
    struct tutti_nccl_comm_params params = {.host_count = vector->nodes};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};
    struct host host;
    char text[3 * TEXT_BYTES];
    char expected[3 * TEXT_BYTES];

    REQUIRE(host_named(&host, vector->machine));
    params.hardware = host_hardware(&host);
    CHECK_OK(tutti_nccl_version_find(version, &params.version, &err), err);
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    REQUIRE(comm != NULL);
    print_graphs(text, comm);
    expected_graphs(expected, vector, host.hw.gpu_count);
    CHECK_TEXT(text, expected);
    CHECK_INT(comm->channel_count, vector->channels);
    CHECK_INT(comm->node_count, vector->nodes);
    CHECK_INT(comm->rank_count, vector->ranks);
    snprintf(text, sizeof(text), "%.1f %.1f", comm->max_bw_GBps, comm->total_bw_GBps);
    snprintf(expected, sizeof(expected), "%.1f %.1f", vector->max_bw_GBps, vector->total_bw_GBps);
    CHECK_TEXT(text, expected);
    check_times(vector, comm);
    if (test_failures > 0)
        fprintf(stderr, "   so for %s on %u nodes as NCCL %s\n", vector->machine, vector->nodes,
                version);
    tutti_nccl_comm_free(comm);
}

static void check_vectors(const char *version)
{
    int count = 0;

    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        if (strstr(nccl_vectors[i].versions, version) == NULL)
            continue;
        check_vector(&nccl_vectors[i], version);
        count++;
    }
    printf("NCCL %s: %d vectors\n", version, count);
    CHECK(count > 0);
}

TEST(graphs_of_2_28_9)
{
    check_vectors("2.28.9");
}

TEST(graphs_of_2_30_7)
{
    check_vectors("2.30.7");
}

/* ---- stories ------------------------------------------------------------------------------- */

/* A communicator of `nodes` such hosts; `env`: "NAME=value ...". */
static struct tutti_nccl_comm *make_of(struct host *host, uint32_t nodes, const char *env_list)
{
    struct tutti_nccl_comm_params params = {.host_count = nodes};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};
    char name[64], value[64];
    int used;

    params.hardware = host_hardware(host);
    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    for (; sscanf(env_list, " %63[A-Z0-9_]=%63[^ ]%n", name, value, &used) == 2; env_list += used)
        CHECK_OK(tutti_nccl_env_set(env, name, value, &err), err);
    params.env = env;
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    tutti_nccl_env_free(env);
    return comm;
}

/* Likewise of hosts of the table. */
static struct tutti_nccl_comm *make(const char *machine, uint32_t nodes, const char *env_list)
{
    struct host host;

    CHECK(host_named(&host, machine));
    return make_of(&host, nodes, env_list);
}

static void expect_graphs(const char *machine, uint32_t nodes, const char *env_list,
                          uint32_t node_count, const char *expected)
{
    struct tutti_nccl_comm *comm = make(machine, nodes, env_list);
    char text[3 * TEXT_BYTES];

    REQUIRE(comm != NULL);
    print_graphs(text, comm);
    CHECK_TEXT(text, expected);
    CHECK_INT(comm->node_count, node_count);
    tutti_nccl_comm_free(comm);
}

/* A port writes to its own GPU near by, and to others only through the CPU (PHB), while a GPU sends
 * to any port by NVLink (PXN): what is allowed never goes beyond PXN, so the first two GPUs of a
 * tree never share a port. */
TEST(the_log_tells_why_trees_collapse_on_one_gpu_a_switch)
{
    struct tutti_nccl_comm *comm = make("A100x8s", 2, "");
    const struct tutti_nccl_try *tries = NULL;
    enum tutti_nccl_path_type port_type;
    size_t count;

    REQUIRE(comm != NULL);
    CHECK(comm->graphs[TUTTI_GRAPH_TREE].collapsed);
    CHECK(!comm->graphs[TUTTI_GRAPH_RING].collapsed);
    CHECK_INT(comm->graphs[TUTTI_GRAPH_RING].channels_found, 8);
    CHECK_INT(comm->graphs[TUTTI_GRAPH_RING].channel_count, 1);
    count = tutti_nccl_tries(comm, TUTTI_GRAPH_TREE, &tries, &port_type);
    CHECK(count > 100);
    CHECK_INT(port_type, TUTTI_PATH_PXN);
    CHECK_INT(tries[0].bw_intra_GBps, 24);
    for (size_t i = 0; i < count; i++) {
        CHECK(!tries[i].better);
        CHECK_INT(tries[i].channels_reached, 0);
        CHECK(tries[i].type_inter <= port_type);
        if (tries[i].type_inter == port_type && tries[i].bw_inter_GBps <= 24)
            CHECK_INT(tries[i].refused_from_port, TUTTI_PATH_PHB);
    }
    tutti_nccl_comm_free(comm);
}

static void expect_words(const char *machine, uint32_t nodes, enum tutti_nccl_graph_id graph,
                         const char *expected)
{
    struct tutti_nccl_comm *comm = make(machine, nodes, "");
    char text[TEXT_BYTES];
    char part[8];

    REQUIRE(comm != NULL);
    tutti_nccl_explain(comm, graph, text, sizeof(text));
    CHECK_TEXT(text, expected);
    tutti_nccl_explain(comm, graph, part, sizeof(part));
    CHECK_INT(strlen(part), 7);
    CHECK(strncmp(part, expected, 7) == 0);
    tutti_nccl_comm_free(comm);
}

TEST(what_a_search_did_is_told_in_words)
{
    expect_words("A100x8s", 2, TUTTI_GRAPH_TREE,
                 "collapsed to 1 channel of 0.1 GB/s in the order of ranks: 1408 attempts from 24 "
                 "down to 0.12 GB/s found no channel; a way from a port to a GPU is PHB, and none "
                 "beyond PXN, the farthest from a GPU to a port, is ever allowed");
    expect_words("A100x8s", 2, TUTTI_GRAPH_RING,
                 "8 channels of 24 GB/s (NVL), to ports 24 GB/s (PXN); 107 attempts from 24 GB/s "
                 "on; PIX to ports is not enough; of different orders or ports; 1 of them used, as "
                 "ring and tree share the lesser number");
    expect_words("A100x8s", 2, TUTTI_GRAPH_COLLNET_CHAIN, "not searched for");
    expect_words("H100x8", 2, TUTTI_GRAPH_TREE,
                 "8 channels of 48 GB/s (NVL), to ports 48 GB/s (PIX); 4 attempts from 48 GB/s on; "
                 "a plain tree, both ways by one GPU, where a balanced one is not to be had; of "
                 "different orders or ports");
    expect_words("L40x8", 1, TUTTI_GRAPH_RING,
                 "1 channel of 10 GB/s (SYS); 114 attempts from 20 GB/s on; PIX within the node is "
                 "not enough");
}

/* Two pairs of cards with bridges, and a port, under one switch: with peer access by NVLink alone
 * the way between pairs leads through the CPU (PHB), while the port is as near as can be (PIX), and
 * between GPUs nothing is allowed that is farther than what is to ports (search.cc: maxIntra is
 * typeInter where there is a network). */
TEST(pairs_that_are_farther_from_each_other_than_from_their_port_collapse)
{
    struct tutti_nccl_comm *comm;
    struct host host = {.cpus = {{0}}};
    uint32_t parent;
    char text[TEXT_BYTES];

    host_cpu(&host, HOST_INTEL, 6, 106);
    parent = host_pci(&host, 0, TUTTI_HW_NONE, 4);
    for (uint32_t g = 0; g < 4; g++)
        host_gpu(&host, 0, parent, 4, 86);
    host_net(&host, 0, parent, 4, 50000);
    for (uint32_t g = 0; g < 4; g++)
        host_nvlink(&host, g, TUTTI_TARGET_GPU, g ^ 1, 4);
    comm = make_of(&host, 2, "NCCL_P2P_LEVEL=NVL");
    REQUIRE(comm != NULL);
    tutti_nccl_explain(comm, TUTTI_GRAPH_RING, text, sizeof(text));
    CHECK_TEXT(text,
               "collapsed to 1 channel of 0.1 GB/s in the order of ranks: 82 attempts from 6 down "
               "to 0.12 GB/s found no channel; a way between GPUs is PHB, beyond PIX");
    tutti_nccl_comm_free(comm);
}

TEST(without_peer_access_a_fast_port_beats_the_way_between_sockets)
{
    /* 22 GB/s between the CPUs, 48 to a port: each socket becomes a node of its own. */
    expect_graphs("H100x8", 1, "NCCL_P2P_DISABLE=1", 2,
                  "ring 2x20/20 PHB/PHB same; tree[BALANCED_TREE] 2x15/15 PHB/PHB; "
                  "nvls 4x48/48 PHB/PIX");
    /* Here ports are farther from GPUs than PXB, and never preferred. */
    expect_graphs("L40x8", 1, "NCCL_P2P_DISABLE=1", 1,
                  "ring 1x5/5 SYS/PIX same; tree[BALANCED_TREE] 1x5/5 SYS/PIX same");
    /* And without shared memory every GPU is alone. */
    expect_graphs("H100x8", 2, "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1", 16,
                  "ring 2x24/24 LOC/PIX same; tree[TREE] 2x48/24 LOC/PIX same");
}

/* Two EPYCs of Zen 4: 16 GB/s between them as NCCL had it, which is less than any speed that it
 * tries for Blackwell, so that one channel of none is left; 24 since 2.30. */
TEST(blackwell_cards_cross_between_epycs_since_2_30)
{
    static const double expected_GBps[] = {0.1, 24};
    static const char *const versions[] = {"2.28", "2.30"};

    for (size_t i = 0; i < 2; i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_nccl_comm *comm = NULL;
        struct tutti_err err = {""};
        struct tutti_nccl_comm_params params = {.host_count = 1};

        CHECK_OK(tutti_nccl_version_find(versions[i], &params.version, &err), err);
        CHECK_OK(tutti_topo_from_spec("host:gpu=rtxpro6000,gpus=4,sockets=2", &topo, &err), err);
        params.hardware = topo->hardware;
        CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
        CHECK(fabs(comm->graphs[TUTTI_GRAPH_RING].bw_intra_GBps - expected_GBps[i]) < 1e-6);
        tutti_nccl_comm_free(comm);
        tutti_topo_free(topo);
    }
}

TEST(variables_change_what_may_be_reached)
{
    expect_graphs("V100x8", 1, "NCCL_NVB_DISABLE=1", 1,
                  "ring 6x20/20 NVL/PIX; tree[BALANCED_TREE] 6x20/20 NVL/PIX");
    /* Without PXN types are the same both ways, and trees may go as far as they need. */
    expect_graphs("A100x8s", 2, "NCCL_PXN_DISABLE=1", 2,
                  "ring 8x24/24 NVL/PHB; tree[BALANCED_TREE] 8x30/24 NVL/PHB");
    /* In and out on one rail: the last GPU sends by PXN. */
    expect_graphs("H100x8", 2, "NCCL_CROSS_NIC=0", 2,
                  "ring 8x45/45 NVL/PXN; tree[TREE] 8x48/48 NVL/PIX; nvls 8x40/48 NVL/PIX");
    /* Without GPUDirect a switch's way up carries all that goes in and out. */
    expect_graphs("H100x8", 2, "NCCL_NET_GDR_LEVEL=LOC", 2,
                  "ring 8x20/20 NVL/PHB; tree[TREE] 8x40/20 NVL/PHB; nvls 8x20/20 NVL/PHB");
    expect_graphs("H100x8", 1, "NCCL_NVLS_ENABLE=0", 1,
                  "ring 12x30/30 NVL/PIX same; tree[BALANCED_TREE] 12x30/30 NVL/PIX same");
    expect_graphs("H100x8", 1, "NCCL_MAX_NCHANNELS=4", 1,
                  "ring 12x30/30 NVL/PIX same; tree[BALANCED_TREE] 12x30/30 NVL/PIX same; "
                  "nvls 8x40/60 NVL/PIX");
}

/* A graph file goes before the search, which finds rings of one direction; as many trees. */
TEST(rings_that_are_given_are_taken)
{
    const struct tutti_nccl_graph *ring;
    struct tutti_nccl_comm_params params = {.host_count = 2};
    struct tutti_nccl_env *env = NULL;
    struct tutti_nccl_comm *comm;
    struct tutti_err err = {""};
    struct host host;

    expect_graphs("L40x4", 1, "NCCL_GRAPH_FILE=12:0-1-2-3/0-3-2-1", 1,
                  "ring 2x12/12 PHB/PIX; tree[BALANCED_TREE] 2x12/12 PHB/PIX same");
    comm = make("L40x4", 1, "NCCL_GRAPH_FILE=12:0-1-2-3/0-3-2-1");
    REQUIRE(comm != NULL);
    ring = &comm->graphs[TUTTI_GRAPH_RING];
    CHECK_INT(comm->channel_count, 4); /* doubled, as all are */
    CHECK_INT(ring->gpus[1], 1);
    CHECK_INT(ring->gpus[4 + 1], 3);
    tutti_nccl_comm_free(comm);
    REQUIRE(host_named(&host, "L40x4"));
    params.hardware = host_hardware(&host);
    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_OK(tutti_nccl_env_add(env, "NCCL_GRAPH_FILE=12:0-1-2-3", &err), err);
    params.env = env;
    CHECK_INT(tutti_nccl_comm_new(&params, &comm, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "NCCL_GRAPH_FILE: rings of 4 GPUs for a node of 4 of several (all GPUs of "
                         "one node)");
    params.host_count = 1;
    CHECK_OK(tutti_nccl_env_add(env, "NCCL_GRAPH_FILE=12:0-1", &err), err);
    CHECK_INT(tutti_nccl_comm_new(&params, &comm, &err), -TUTTI_EINVAL);
    tutti_nccl_env_free(env);
}

TEST(a_rack_is_one_node)
{
    struct tutti_nccl_comm_params params = {.host_count = 18};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};
    struct host host;
    char text[3 * TEXT_BYTES];

    CHECK(host_named(&host, "B200x8"));
    host.hw.gpu_count = 4;
    host.hw.nvlink_count = 4;
    host.hw.rack = 18;
    params.hardware = host_hardware(&host);
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    REQUIRE(comm != NULL);
    CHECK_INT(comm->node_count, 1);
    CHECK_INT(comm->rank_count, 72);
    print_graphs(text, comm);
    CHECK_TEXT(text, "ring 16x45/45 NVL/PIX; tree[BALANCED_TREE] 16x40/40 NVL/PIX; "
                     "nvls 32x20/40 NVL/PIX");
    for (uint32_t g = 0; g < 72; g++)
        CHECK_INT(comm->graphs[TUTTI_GRAPH_RING].gpus[g], g);
    tutti_nccl_comm_free(comm);
    params.host_count = 20; /* a rack, and two hosts of another */
    comm = NULL;
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    REQUIRE(comm != NULL);
    CHECK_INT(comm->node_count, 2);
    CHECK_INT(comm->rank_count, 80);
    CHECK_INT(comm->graphs[TUTTI_GRAPH_RING].gpu_count, 72);
    tutti_nccl_comm_free(comm);
}

static void expect_refusal(struct host *host, uint32_t host_count, const char *message)
{
    struct tutti_nccl_comm_params params = {.hardware = host_hardware(host),
                                            .host_count = host_count};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_nccl_comm_new(&params, &comm, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(comm == NULL);
}

TEST(what_nccl_does_not_run_on_is_refused)
{
    struct host host;

    CHECK(host_named(&host, "L40x2"));
    expect_refusal(&host, 2, "2 hosts without network ports (1 host, or hosts with some)");
    expect_refusal(&host, 0, "no communicator of 0 hosts of 2 gpus");
    host.gpus[1].sm = 942;
    expect_refusal(&host, 1,
                   "gpu 1 has compute capability '942', which nccl does not run on (NVIDIA's, 35 "
                   "or more, or AMD's alone)");
    CHECK(host_named(&host, "A100x2"));
    host.hw.nvlink_count = 1;
    expect_refusal(&host, 1, "gpu 0 has NVLinks to gpu 1, which has none back");
}
