/* NVLS and CollNet on machines: what is refused, and what their time heeds. */
#include "sim/shape/nccl_switch.h"

#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/predict.h"
#include "sim/protocol.h"
#include "tests/test.h"
#include "topo/topo.h"

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

static struct tutti_nccl_comm *comm_of(const struct tutti_topo *topo)
{
    struct tutti_nccl_comm_params params = {
        .hardware = topo->hardware, .host_count = topo->rank_count / topo->hardware->gpu_count};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    return comm;
}

static tutti_ps time_set(const struct tutti_topo *topo, const struct tutti_nccl_env *env,
                         const char *algorithm, const char *protocol, uint64_t bytes)
{
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .protocols = tutti_protocols(NULL),
        .topo = topo,
        .algorithm = algorithm,
        .params = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = bytes / 4},
        .protocol = protocol,
        .env = env,
        .model = TUTTI_MODEL_FAIR};
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_TEXT(answer.algorithm, algorithm);
    CHECK(answer.time_ps >= answer.bound.time_ps);
    return answer.time_ps;
}

static tutti_ps time_of(const struct tutti_topo *topo, const char *algorithm, const char *protocol,
                        uint64_t bytes)
{
    return time_set(topo, NULL, algorithm, protocol, bytes);
}

/* A network that adds up is used; the caller frees. */
static struct tutti_nccl_env *collnet_env(void)
{
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_COLLNET_ENABLE", "1", &err), err);
    return env;
}

static tutti_ps time_with_collnet(const char *spec, const char *algorithm, const char *protocol,
                                  uint64_t bytes)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_nccl_env *env = collnet_env();
    tutti_ps time = time_set(topo, env, algorithm, protocol, bytes);

    tutti_nccl_env_free(env);
    tutti_topo_free(topo);
    return time;
}

TEST(only_all_reduce_in_reach_of_the_switches_has_a_plan)
{
    static const struct tutti_in_network untouched = {.bytes = 12345};
    struct tutti_nccl_choice nvls = {.algorithm = TUTTI_NCCL_NVLS,
                                     .protocol = TUTTI_NCCL_SIMPLE,
                                     .channel_count = 16,
                                     .chunk_bytes = 65536};
    struct tutti_topo *one = machine("dgx-h100");
    struct tutti_topo *two = machine("dgx-h100:nodes=2");
    struct tutti_topo *plain = machine("host:gpu=a100,gpus=2");
    struct tutti_nccl_comm *comm = comm_of(one);
    struct tutti_nccl_comm *comm_of_two = comm_of(two);
    struct tutti_in_network plan = untouched;
    struct tutti_err err = {""};

    CHECK_INT(
        tutti_nccl_switch_plan(two, comm_of_two, &nvls, TUTTI_ALLGATHER, 1 << 20, &plan, &err),
        -TUTTI_ELACK);
    CHECK_TEXT(err.text, "NCCL would run NVLS/Simple, which is modelled for all-reduce alone "
                         "(nccl:ring, or NCCL_ALGO without it)");
    /* NVLS of several nodes wants switches of the network that add up too. */
    CHECK_INT(
        tutti_nccl_switch_plan(two, comm_of_two, &nvls, TUTTI_ALLREDUCE, 1 << 20, &plan, &err),
        -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'dgx-h100:nodes=2' has no switch between hosts that reduces (presets: "
                         "sharp=yes)");
    CHECK_INT(tutti_nccl_switch_plan(plain, comm, &nvls, TUTTI_ALLREDUCE, 1 << 20, &plan, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'host:gpu=a100,gpus=2' has no switch that reduces");
    CHECK_INT(plan.bytes, untouched.bytes);
    CHECK_INT(plan.head_count, 0);
    CHECK_OK(tutti_nccl_switch_plan(one, comm, &nvls, TUTTI_ALLREDUCE, 1 << 20, &plan, &err), err);
    CHECK_INT(plan.head_count, 8);
    CHECK_INT(plan.gpu_bytes_per_s, INT64_C(450000000000));
    tutti_nccl_comm_free(comm_of_two);
    tutti_nccl_comm_free(comm);
    tutti_topo_free(plain);
    tutti_topo_free(two);
    tutti_topo_free(one);
}

TEST(more_bytes_never_take_less_time)
{
    static const struct {
        const char *machine, *algorithm;
    } cases[] = {{"dgx-h100", "nccl:nvls"},
                 {"hgx-b200", "nccl:nvls"},
                 {"dgx-h100:nodes=2", "nccl:nvlstree"},
                 {"dgx-h100:nodes=5", "nccl:nvlstree"}};

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct tutti_topo *topo = machine(cases[c].machine);
        tutti_ps before = 0;

        /* From where chunks no longer grow with the size; there NCCL itself is not monotonic. */
        for (uint64_t bytes = UINT64_C(64) << 20; bytes <= UINT64_C(4) << 30; bytes += bytes / 3) {
            tutti_ps now = time_of(topo, cases[c].algorithm, "simple", bytes & ~UINT64_C(1023));

            if (now < before)
                TEST_FAIL("%s: %" PRIu64 " B", cases[c].machine, bytes);
            before = now;
        }
        tutti_topo_free(topo);
    }
}

TEST(faster_ports_and_links_are_not_slower_and_protocols_cost)
{
    struct tutti_topo *topo = machine("dgx-h100:nodes=4");
    struct tutti_topo *slow = machine("host:gpu=h100,gpus=8,nic=25GB/s,nodes=4");
    struct tutti_topo *fast = machine("host:gpu=h100,gpus=8,nic=50GB/s,nodes=4");

    REQUIRE(slow != NULL && fast != NULL);
    for (uint64_t bytes = 1 << 20; bytes <= UINT64_C(1) << 30; bytes *= 8) {
        tutti_ps bare = time_of(topo, "nccl:nvlstree", "none", bytes);

        CHECK(bare > 0);
        CHECK(bare < time_of(topo, "nccl:nvlstree", "simple", bytes));
        CHECK(time_of(fast, "nccl:nvlstree", "simple", bytes) <=
              time_of(slow, "nccl:nvlstree", "simple", bytes));
    }
    CHECK(10 * time_of(fast, "nccl:nvlstree", "none", UINT64_C(1) << 30) <
          9 * time_of(slow, "nccl:nvlstree", "none", UINT64_C(1) << 30));
    tutti_topo_free(fast);
    tutti_topo_free(slow);
    tutti_topo_free(topo);
}

/* Threads of a channel copy what the switches add up: one channel alone is as slow as they are, and
 * with as many as NCCL takes the links are slower. Where nothing is said of what the switches add
 * up it is what the threads copy of messages. */
static void check_lanes(bool own)
{
    struct tutti_topo *topo = machine("hgx-b200");
    struct tutti_nccl_comm *comm = comm_of(topo);
    uint64_t bytes = 256 << 20, lane_bytes_per_s = 40000000000;
    size_t count;
    struct tutti_protocol free = tutti_protocols(&count)[TUTTI_NCCL_SIMPLE];
    struct tutti_protocol bound = free;
    struct tutti_err err = {""};

    bound.p2p_lane_bytes_per_s[TUTTI_HOP_NVLINK] = own ? 1 : lane_bytes_per_s;
    bound.nvls.lane_bytes_per_s = own ? lane_bytes_per_s : 0;
    for (uint32_t channels = 1; channels <= 32; channels *= 32) {
        struct tutti_nccl_choice choice = {.algorithm = TUTTI_NCCL_NVLS,
                                           .protocol = TUTTI_NCCL_SIMPLE,
                                           .channel_count = channels,
                                           .chunk_bytes = 65536};
        struct tutti_in_network plan = {.bytes = 0};
        tutti_ps of_threads = (tutti_ps)(bytes * 1000 / channels / (lane_bytes_per_s / 1000000000));

        CHECK_OK(tutti_nccl_switch_plan(topo, comm, &choice, TUTTI_ALLREDUCE, bytes, &plan, &err),
                 err);
        if (channels == 1) {
            CHECK(tutti_nccl_switch_time(topo, &plan, &free) < of_threads / 10);
            CHECK(tutti_nccl_switch_time(topo, &plan, &bound) > of_threads);
            CHECK(tutti_nccl_switch_time(topo, &plan, &bound) < of_threads + of_threads / 100);
        } else {
            CHECK_INT(tutti_nccl_switch_time(topo, &plan, &bound),
                      tutti_nccl_switch_time(topo, &plan, &free));
        }
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
}

TEST(few_channels_are_as_slow_as_their_threads)
{
    check_lanes(false);
    check_lanes(true);
}

/* The share that is for NVLSTree binds it, and nothing that runs on one host. */
TEST(between_hosts_switches_have_a_share_of_their_own)
{
    static const char *const machines[] = {"dgx-h100", "dgx-h100:nodes=2"};
    size_t count;
    struct tutti_protocol all = tutti_protocols(&count)[TUTTI_NCCL_SIMPLE];
    struct tutti_protocol quarter = all;

    quarter.nvls.tree_link_ppm = 250000;
    for (size_t i = 0; i < 2; i++) {
        struct tutti_topo *topo = machine(machines[i]);
        struct tutti_nccl_comm *comm = comm_of(topo);
        struct tutti_nccl_choice choice = {.algorithm =
                                               i == 0 ? TUTTI_NCCL_NVLS : TUTTI_NCCL_NVLS_TREE,
                                           .protocol = TUTTI_NCCL_SIMPLE,
                                           .channel_count = 16,
                                           .chunk_bytes = 65536};
        struct tutti_in_network plan = {.bytes = 0};
        struct tutti_err err = {""};

        CHECK_OK(tutti_nccl_switch_plan(topo, comm, &choice, TUTTI_ALLREDUCE, UINT64_C(1) << 30,
                                        &plan, &err),
                 err);
        if (i == 0)
            CHECK_INT(tutti_nccl_switch_time(topo, &plan, &quarter),
                      tutti_nccl_switch_time(topo, &plan, &all));
        else
            CHECK(tutti_nccl_switch_time(topo, &plan, &quarter) >
                  tutti_nccl_switch_time(topo, &plan, &all) * 3 / 2);
        tutti_nccl_comm_free(comm);
        tutti_topo_free(topo);
    }
}

/* A DGX one of whose cables runs at half its rate. */
TEST(all_wait_for_the_gpu_with_the_slowest_link)
{
    char text[2048] = "topology slow\nnode nvswitch switch host=0 reduces\n";
    struct tutti_nccl_choice nvls = {.algorithm = TUTTI_NCCL_NVLS,
                                     .protocol = TUTTI_NCCL_SIMPLE,
                                     .channel_count = 16,
                                     .chunk_bytes = 65536};
    struct tutti_topo *dgx = machine("dgx-h100");
    struct tutti_nccl_comm *comm = comm_of(dgx);
    struct tutti_topo *topo = NULL;
    struct tutti_in_network plan = {.bytes = 0};
    struct tutti_err err = {""};

    for (int gpu = 0; gpu < 8; gpu++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used,
                 "node gpu%d device rank=%d host=0\ncable gpu%d nvswitch nvlink %s\n", gpu, gpu,
                 gpu, gpu == 5 ? "225GB/s 900ns" : "450GB/s 250ns");
    }
    CHECK_OK(tutti_topo_parse("slow", text, strlen(text), &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_nccl_switch_plan(topo, comm, &nvls, TUTTI_ALLREDUCE, 0, &plan, &err), err);
    CHECK_INT(plan.gpu_bytes_per_s, INT64_C(225000000000));
    CHECK_INT(tutti_nccl_switch_time(topo, &plan, NULL), 4 * 900000);
    tutti_topo_free(topo);
    tutti_nccl_comm_free(comm);
    tutti_topo_free(dgx);
}

/* Two hosts of two GPUs with a port each, one of them at a quarter of its rate. */
TEST(all_wait_for_the_slowest_port)
{
    static const char hosts[] = "topology ports\n"
                                "node a0 device rank=0 host=0\nnode a1 device rank=1 host=0\n"
                                "node b0 device rank=2 host=1\nnode b1 device rank=3 host=1\n"
                                "node s switch host=0 reduces\nnode t switch host=1 reduces\n"
                                "node leaf switch\n"
                                "cable a0 s nvlink 450GB/s 250ns\ncable a1 s nvlink 450GB/s 250ns\n"
                                "cable b0 t nvlink 450GB/s 250ns\ncable b1 t nvlink 450GB/s 250ns\n"
                                "cable a0 leaf net 50GB/s 1us\ncable a1 leaf net 50GB/s 1us\n"
                                "cable b0 leaf net 50GB/s 1us\ncable b1 leaf net ";
    struct tutti_in_network plan = {.bytes = UINT64_C(1) << 30,
                                    .head_count = 2,
                                    .channel_count = 16,
                                    .host_count = 2,
                                    .chunk_bytes = 65536,
                                    .gpu_bytes_per_s = UINT64_C(450000000000)};
    tutti_ps times[2] = {0, 0};

    for (int slow = 0; slow < 2; slow++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};
        char text[2048];

        snprintf(text, sizeof(text), "%s%s 1us\n", hosts, slow ? "12.5GB/s" : "50GB/s");
        CHECK_OK(tutti_topo_parse("ports", text, strlen(text), &topo, &err), err);
        REQUIRE(topo != NULL);
        times[slow] = tutti_nccl_switch_time(topo, &plan, NULL);
        tutti_topo_free(topo);
    }
    /* Half of the bytes over each port: 42.95 ms at the slow one, and filling, which takes the
     * switches 7 us twice and latencies a few. */
    CHECK_INT(times[0] / TUTTI_PS_PER_MS, 10);
    CHECK_INT(times[1] / (10 * TUTTI_PS_PER_US), 4296);
}

/* Links alone would do: 8 heads of 57.7 GB/s on two hosts and 45.5 on more, by NCCL's table, are
 * 461.6 and 364 GB/s of bus bandwidth; 466 to 481 and 365 were measured (traces/measured). */
TEST(trees_of_switches_go_no_faster_than_their_kernel)
{
    static const struct {
        const char *machine;
        int64_t busbw;
    } cases[] = {{"dgx-h100:nodes=2", 461}, {"dgx-h100:nodes=4", 363}};
    const uint64_t bytes = UINT64_C(16) << 30;

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct tutti_topo *topo = machine(cases[c].machine);
        double ranks = topo->rank_count;
        double us = (double)time_of(topo, "nccl:nvlstree", "none", bytes) / TUTTI_PS_PER_US;

        CHECK_INT((int64_t)(2 * (ranks - 1) / ranks * (double)bytes / us / 1e3), cases[c].busbw);
        tutti_topo_free(topo);
    }
}

/* 16 ports of 50 GB/s, 4 of each tray: NCCL takes the rack for one node, and all of them carry. */
TEST(trays_of_a_rack_bring_their_ports)
{
    struct tutti_topo *topo = machine("host:gpu=gb200,gpus=4,trays=4,nodes=2");
    uint64_t bytes = UINT64_C(8) << 30;
    tutti_ps least_ps = tutti_wire_ps(bytes, UINT64_C(800000000000));

    CHECK(time_of(topo, "nccl:nvlstree", "none", bytes) > least_ps);
    CHECK(10 * time_of(topo, "nccl:nvlstree", "none", bytes) < 16 * least_ps);
    tutti_topo_free(topo);
}

/* Two GPUs whose first link is of PCIe, far slower than that to the NVSwitch. */
TEST(latency_is_that_of_links_to_switches)
{
    static const char text[] = "topology two\n"
                               "node a device rank=0 host=0\n"
                               "node b device rank=1 host=0\n"
                               "node cpu cpu host=0\n"
                               "node nvswitch switch host=0 reduces\n"
                               "cable a cpu pcie 30GB/s 900ns\n"
                               "cable b cpu pcie 30GB/s 900ns\n"
                               "cable a nvswitch nvlink 450GB/s 250ns\n"
                               "cable b nvswitch nvlink 450GB/s 250ns\n";
    struct tutti_in_network plan = {.head_count = 2,
                                    .channel_count = 1,
                                    .host_count = 1,
                                    .chunk_bytes = 65536,
                                    .gpu_bytes_per_s = UINT64_C(450000000000)};
    struct tutti_protocol protocol = {.name = "simple", .launch_ps = 7, .nvls = {.link_ppm = 1}};
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_parse("two", text, sizeof(text) - 1, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(tutti_nccl_switch_time(topo, &plan, NULL), 4 * 250000); /* no bytes: two stages */
    CHECK_INT(tutti_nccl_switch_time(topo, &plan, &protocol), 4 * 250000 + 7);
    plan.bytes = 8; /* 12 B at 450 kB/s, three times */
    CHECK_INT(tutti_nccl_switch_time(topo, &plan, &protocol), 4 * 250000 + 7 + 3 * 26666667);
    plan.gpu_bytes_per_s = 1000; /* of which a millionth is none, and yet bytes get through */
    CHECK(tutti_nccl_switch_time(topo, &plan, &protocol) > TUTTI_PS_PER_S);
    tutti_topo_free(topo);
}

/* Of 1 MiB from each of 8 GPUs: what is only multicast, or only added up, moves 1 MiB by a GPU's
 * links, which carry 450 GB/s; all-reduce moves 9/8 of it, in one stage more. */
TEST(gathering_and_scattering_are_parts_of_all_reduce)
{
    static const enum tutti_collective collectives[] = {TUTTI_ALLGATHER, TUTTI_REDUCESCATTER,
                                                        TUTTI_ALLREDUCE};
    static const int64_t ns[] = {2 * 2330 + 2 * 250, 2 * 2330 + 2 * 250, 3 * 2621 + 4 * 250 + 1};
    struct tutti_nccl_choice nvls = {.algorithm = TUTTI_NCCL_NVLS,
                                     .protocol = TUTTI_NCCL_SIMPLE,
                                     .channel_count = 16,
                                     .chunk_bytes = 65536};
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_nccl_comm *comm = comm_of(topo);
    struct tutti_in_network plan;
    struct tutti_err err = {""};

    for (size_t c = 0; c < sizeof(collectives) / sizeof(collectives[0]); c++) {
        CHECK_OK(tutti_nccl_switch_plan(topo, comm, &nvls, collectives[c], 1 << 20, &plan, &err),
                 err);
        CHECK_INT(tutti_nccl_switch_time(topo, &plan, NULL) / TUTTI_PS_PER_NS, ns[c]);
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
}

/* Where GPUs do not reach each other NCCL has several nodes on a host, each with its share of the
 * ports. Here it is 4 of 8: 1 GiB goes twice through 200 GB/s, which takes 10.7 ms. */
TEST(nodes_that_are_parts_of_a_host_share_its_ports)
{
    struct tutti_topo *topo = machine("dgx-h100:nodes=2");
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};
    tutti_ps time;

    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_P2P_DISABLE", "1", &err), err);
    time = time_set(topo, env, "nccl:nvlstree", "none", 1 << 30);
    CHECK(time > 10700 * TUTTI_PS_PER_US);
    CHECK(time < 12000 * TUTTI_PS_PER_US);
    tutti_nccl_env_free(env);
    tutti_topo_free(topo);
}

/* As the network adds up, a host more costs nothing but the way to the spine, where rings and trees
 * between hosts take longer. */
TEST(hosts_are_free_where_the_network_adds_up)
{
    static const char *const algorithms[] = {"nccl:nvls", "nccl:collnetdirect",
                                             "nccl:collnetchain"};
    const uint64_t bytes = 256u << 20;

    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++) {
        tutti_ps few =
            time_with_collnet("dgx-h100:nodes=4,sharp=yes", algorithms[a], "simple", bytes);
        tutti_ps many =
            time_with_collnet("dgx-h100:nodes=32,sharp=yes", algorithms[a], "simple", bytes);
        tutti_ps groups =
            time_with_collnet("dgx-h100:nodes=64,sharp=yes", algorithms[a], "simple", bytes);

        CHECK_INT(few, many);
        CHECK_INT(groups - many, 2 * 150 * TUTTI_PS_PER_NS);
    }
}

/* 8 ports of 50 GB/s take 400 GB/s into the network. In the host CollNetDirect sends 14/8 of the
 * bytes over 450 GB/s, 257 GB/s; CollNetChain, a GPU to the next, twice: 225. */
TEST(collnet_is_bound_by_the_links_of_a_gpu)
{
    static const struct {
        const char *algorithm;
        int64_t algbw;
    } cases[] = {{"nccl:collnetdirect", 257}, {"nccl:collnetchain", 225}, {"nccl:nvls", 400}};

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const uint64_t bytes = UINT64_C(64) << 30;
        tutti_ps time =
            time_with_collnet("dgx-h100:nodes=2,sharp=yes", cases[c].algorithm, "none", bytes);

        CHECK_INT((int64_t)((double)bytes / ((double)time / 1e3) + 0.5), cases[c].algbw);
    }
}

TEST(without_switches_that_add_collnet_is_named_as_what_is_missing)
{
    struct tutti_topo *topo = machine("dgx-h100:nodes=2");
    struct tutti_nccl_env *env = collnet_env();
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .model = TUTTI_MODEL_ALPHABETA,
                            .protocol = "none",
                            .topo = topo,
                            .algorithm = "nccl:collnetdirect",
                            .params = {.collective = TUTTI_ALLREDUCE, .count = 1},
                            .env = env};
    struct tutti_answer answer;
    struct tutti_err err = {""};

    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "CollNetDirect with LL: runs with Simple alone; with LL128: runs with "
                           "Simple alone; with Simple: CollNet finds no port whose network reduces "
                           "(coll=1 of a port; presets: sharp=yes)") != NULL);
    tutti_nccl_env_free(env);
    tutti_topo_free(topo);
}

/* Two nodes, unless said otherwise: then as many, and not fewer. */
TEST(few_nodes_have_no_collnet)
{
    static const struct {
        const char *spec, *threshold, *algorithm;
    } cases[] = {{"dgx-h100:nodes=2,sharp=yes", NULL, "nccl:nvls"},
                 {"dgx-h100:nodes=2,sharp=yes", "3", "nccl:ring"},
                 {"dgx-h100:nodes=3,sharp=yes", "3", "nccl:nvls"}};

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct tutti_topo *topo = machine(cases[c].spec);
        struct tutti_nccl_env *env = collnet_env();
        struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                                .model = TUTTI_MODEL_ALPHABETA,
                                .protocol = "none",
                                .topo = topo,
                                .algorithm = "nccl",
                                .params = {.collective = TUTTI_ALLREDUCE, .count = 64 << 20},
                                .env = env};
        struct tutti_answer answer = {.algorithm = ""};
        struct tutti_err err = {""};

        CHECK_OK(tutti_nccl_env_set(env, "NCCL_ALGO", "NVLS,Ring", &err), err);
        if (cases[c].threshold != NULL)
            CHECK_OK(
                tutti_nccl_env_set(env, "NCCL_COLLNET_NODE_THRESHOLD", cases[c].threshold, &err),
                err);
        CHECK_OK(tutti_predict(&ask, &answer, &err), err);
        CHECK_TEXT(answer.algorithm, cases[c].algorithm);
        tutti_nccl_env_free(env);
        tutti_topo_free(topo);
    }
}
