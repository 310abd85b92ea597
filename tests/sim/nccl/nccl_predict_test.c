/* What NCCL would run is what model A picks, laid out, proved and simulated. */
#include <strings.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/predict.h"
#include "sim/protocol.h"
#include "sim/shape/nccl_run.h"
#include "tests/test.h"

#define CHECK_RATIO(seen, expected) CHECK((seen) > 0.97 * (expected) && (seen) < 1.03 * (expected))

static const char *const machines[] = {"dgx-a100", "dgx-a100:nodes=2", "dgx-1v", "dgx-h100:nodes=3",
                                       "host:gpu=gb200,gpus=4,trays=2"};

enum { MACHINE_COUNT = sizeof(machines) / sizeof(machines[0]) };

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

static struct tutti_ask ask_for(const struct tutti_topo *topo, const char *algorithm,
                                enum tutti_collective collective, uint64_t bytes)
{
    return (struct tutti_ask){.size = sizeof(struct tutti_ask),
                              .protocols = tutti_protocols(NULL),
                              .topo = topo,
                              .algorithm = algorithm,
                              .params = {.collective = collective,
                                         .dtype = TUTTI_FLOAT32,
                                         .count = tutti_collective_count_for(
                                             collective, bytes, TUTTI_FLOAT32, topo->rank_count)},
                              .protocol = "auto",
                              .model = TUTTI_MODEL_FAIR};
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

/* "nccl:ring" of "Ring". */
static void expect_name(const char *seen, const char *nccls)
{
    CHECK(strncmp(seen, "nccl:", 5) == 0);
    CHECK(strcasecmp(seen + 5, nccls) == 0);
}

TEST(what_is_simulated_is_what_model_a_picks)
{
    for (size_t m = 0; m < MACHINE_COUNT; m++) {
        struct tutti_topo *topo = machine(machines[m]);
        struct tutti_nccl_comm *comm = comm_of(topo);
        struct tutti_predict_memory *memory = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_predict_memory_new(&memory, &err), err);
        for (int c = 0; c <= TUTTI_REDUCE_TO_ROOT; c++) {
            enum tutti_collective collective = (enum tutti_collective)c;

            for (uint64_t bytes = 1024; bytes <= UINT64_C(1) << 28; bytes *= 16) {
                struct tutti_ask ask = ask_for(topo, "nccl", collective, bytes);
                struct tutti_nccl_choice choice;
                struct tutti_answer answer;
                int status;

                ask.memory = memory;
                CHECK_OK(tutti_nccl_choose(comm, collective, TUTTI_FLOAT32, TUTTI_SUM,
                                           tutti_collective_bytes(collective, ask.params.count,
                                                                  TUTTI_FLOAT32, topo->rank_count),
                                           &choice, &err),
                         err);
                status = tutti_predict(&ask, &answer, &err);
                if (choice.algorithm == TUTTI_NCCL_NVLS && collective != TUTTI_ALLREDUCE) {
                    CHECK_INT(status, -TUTTI_ELACK);
                    continue;
                }
                CHECK_OK(status, err);
                expect_name(answer.algorithm, tutti_nccl_algorithm_name(choice.algorithm));
                CHECK(strcasecmp(answer.protocol, tutti_nccl_protocol_name(choice.protocol)) == 0);
                CHECK_INT(answer.channel_count, choice.channel_count);
                CHECK(answer.time_ps > 0);
            }
        }
        tutti_predict_memory_free(memory);
        tutti_nccl_comm_free(comm);
        tutti_topo_free(topo);
    }
}

/* Iterations in a row overlap along a chain: each takes longer than the data take to leave the
 * root and shorter than one alone, the more of them the shorter; one in a row is one alone. */
TEST(broadcasts_and_reductions_in_a_row_overlap)
{
    struct tutti_topo *topo = machine("dgx-a100");
    uint64_t bytes = 16 << 20;
    tutti_ps leaves_ps = (tutti_ps)(bytes * 1000000 / 300000); /* at 300 GB/s */
    struct tutti_err err = {""};

    for (int c = 0; c <= TUTTI_REDUCE_TO_ROOT; c++) {
        enum tutti_collective collective = (enum tutti_collective)c;
        bool chain = collective == TUTTI_BROADCAST || collective == TUTTI_REDUCE_TO_ROOT;
        struct tutti_ask ask = ask_for(topo, "nccl:ring", collective, bytes);
        struct tutti_answer alone, one, two, twenty;

        CHECK_OK(tutti_predict(&ask, &alone, &err), err);
        ask.iteration_count = 1;
        CHECK_OK(tutti_predict(&ask, &one, &err), err);
        ask.iteration_count = 2;
        CHECK_OK(tutti_predict(&ask, &two, &err), err);
        ask.iteration_count = 20;
        CHECK_OK(tutti_predict(&ask, &twenty, &err), err);
        CHECK_INT(one.time_ps, alone.time_ps);
        CHECK((two.time_ps < alone.time_ps) == chain);
        CHECK((twenty.time_ps < two.time_ps) == chain);
        CHECK(twenty.time_ps > leaves_ps);
        if (chain) /* eight ranks pass a chunk a channel on: alone it is seven hops, in a row one */
            CHECK(3 * twenty.time_ps < alone.time_ps);
        else
            CHECK_INT(twenty.time_ps, alone.time_ps);
    }
    tutti_topo_free(topo);
}

/* The time of a large operation where links into a CPU give half of their rate both ways, and PCIe
 * 80 percent: in us. */
static double behind_cpus_us(const char *spec, enum tutti_collective collective)
{
    size_t count;
    const struct tutti_protocol *known = tutti_protocols(&count);
    struct tutti_protocol costs[TUTTI_PROTOCOLS];
    struct tutti_topo *topo = machine(spec);
    struct tutti_ask ask = ask_for(topo, "nccl:ring", collective, UINT64_C(315000000));
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_err err = {""};

    for (size_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        costs[i] = (struct tutti_protocol){
            .name = known[i].name, .wire_num = known[i].wire_num, .wire_den = known[i].wire_den};
        costs[i].link_ppm[TUTTI_HOP_PCI] = 800000;
        costs[i].link_ppm[TUTTI_HOP_ROOT] = 500000;
        costs[i].link_ppm[TUTTI_HOP_PEER] = 700000;
    }
    ask.protocols = costs;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    tutti_topo_free(topo);
    return (double)answer.time_ps / 1e6;
}

/* Two GPUs on Intel's CPUs do not write to each other, but through host memory: there reads meet
 * writes, though not in a broadcast or a reduction of two, which goes one way. On AMD's they do
 * (and then ways do not matter), but for GeForce, and a third rank sends on what it receives. */
TEST(links_into_a_cpu_are_faster_one_way)
{
    static const char shared[] = "host:gpu=a100-pcie-40g,gpus=2,sockets=1,cpu=intel";
    static const char direct[] = "host:gpu=a100-pcie-40g,gpus=2,sockets=1,cpu=amd";
    static const char geforce[] = "host:gpu=rtx4090,gpus=2,sockets=1";
    static const char patched[] = "host:gpu=rtx4090,gpus=2,sockets=1,p2p=yes";
    static const char three[] = "host:gpu=a100-pcie-40g,gpus=3,sockets=1,cpu=intel";
    static const char hosts[] = "host:gpu=a100-pcie-40g,gpus=1,sockets=1,nics=1,nic=50GB/s,nodes=2";

    /* 10 ms at all of the 31.5 GB/s */
    CHECK_RATIO(behind_cpus_us(shared, TUTTI_BROADCAST), 10000 / .8);
    CHECK_RATIO(behind_cpus_us(shared, TUTTI_REDUCE_TO_ROOT), 10000 / .8);
    CHECK_RATIO(behind_cpus_us(hosts, TUTTI_BROADCAST), 10000 / .8);
    CHECK_RATIO(behind_cpus_us(direct, TUTTI_BROADCAST), 10000 / .7);
    CHECK_RATIO(behind_cpus_us(direct, TUTTI_ALLREDUCE), 10000 / .7);
    CHECK_RATIO(behind_cpus_us(geforce, TUTTI_ALLREDUCE), 10000 / .5);
    CHECK_RATIO(behind_cpus_us(patched, TUTTI_ALLREDUCE), 10000 / .7);
    CHECK_RATIO(behind_cpus_us(three, TUTTI_BROADCAST), 10000 / .5);
    CHECK_RATIO(behind_cpus_us(shared, TUTTI_ALLREDUCE), 10000 / .5);
}

/* The copy reads and writes a block at 2.039 TB/s, besides what goes over NVLink, which without
 * protocols is all there is. */
TEST(an_all_to_all_waits_for_what_a_rank_keeps)
{
    struct tutti_topo *topo = machine("dgx-a100");
    struct tutti_ask ask = ask_for(topo, "nccl", TUTTI_ALLTOALL, UINT64_C(8) << 30);
    const struct tutti_protocol free_of_cost[TUTTI_PROTOCOLS] = {
        {.name = "ll", .wire_num = 1, .wire_den = 1},
        {.name = "ll128", .wire_num = 1, .wire_den = 1},
        {.name = "simple", .wire_num = 1, .wire_den = 1}};
    struct tutti_answer without = {.time_ps = 0}, with = {.time_ps = 0}, sent = {.time_ps = 0};
    struct tutti_err err = {""};

    ask.protocols = free_of_cost;
    CHECK_OK(tutti_predict(&ask, &with, &err), err);
    ask.protocol = "none";
    CHECK_OK(tutti_predict(&ask, &without, &err), err);
    CHECK_RATIO((double)(with.time_ps - without.time_ps) / 1e6, 2 * 1073741824.0 / 2039000);
    ask.params.collective = TUTTI_SENDRECV;
    CHECK_OK(tutti_predict(&ask, &without, &err), err);
    ask.protocol = "auto";
    CHECK_OK(tutti_predict(&ask, &sent, &err), err);
    CHECK_INT(sent.time_ps, without.time_ps);
    tutti_topo_free(topo);
}

TEST(what_is_simulated_fulfils_its_contract)
{
    static const char *const names[] = {"nccl:ring", "nccl:tree", "nccl:p2p"};
    uint64_t proved_count = 0;

    for (size_t m = 0; m < MACHINE_COUNT; m++) {
        struct tutti_topo *topo = machine(machines[m]);

        for (int c = 0; c <= TUTTI_SENDRECV; c++) {
            bool p2p = c == TUTTI_ALLTOALL || c == TUTTI_SENDRECV;

            for (size_t i = p2p ? 2 : 0; i < (p2p ? 3u : c == TUTTI_ALLREDUCE ? 2u : 1u); i++) {
                for (uint64_t bytes = 1024; bytes <= (test_is_slow() ? 1 << 15 : 1 << 20);
                     bytes *= 32) {
                    struct tutti_ask ask =
                        ask_for(topo, names[i], (enum tutti_collective)c, bytes + 4);
                    struct tutti_schedule *schedule = NULL;
                    struct tutti_err err = {""};

                    CHECK_OK(tutti_predict_schedule(&ask, &schedule, &err), err);
                    REQUIRE(schedule != NULL);
                    CHECK_OK(tutti_schedule_prove(schedule, &err), err);
                    CHECK_TEXT(schedule->name, names[i]);
                    tutti_schedule_free(schedule);
                    proved_count++;
                }
            }
        }
        tutti_topo_free(topo);
    }
    printf("%" PRIu64 " schedules\n", proved_count);
}

/* A name forces as the variable does, a protocol too; and what is remembered is not another's. */
TEST(names_and_variables_force_alike)
{
    struct tutti_topo *topo = machine("dgx-a100:nodes=2");
    struct tutti_predict_memory *memory = NULL;
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_predict_memory_new(&memory, &err), err);
    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_ALGO", "Ring", &err), err);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_PROTO", "Simple", &err), err);
    for (int pass = 0; pass < 2; pass++) {
        struct tutti_ask ask = ask_for(topo, "nccl:ring", TUTTI_ALLREDUCE, 65536);
        struct tutti_answer named;
        struct tutti_answer forced;
        struct tutti_answer picked;

        ask.memory = pass == 0 ? NULL : memory;
        ask.protocol = "simple";
        CHECK_OK(tutti_predict(&ask, &named, &err), err);
        ask.algorithm = "nccl";
        ask.protocol = "auto";
        CHECK_OK(tutti_predict(&ask, &picked, &err), err);
        ask.env = env;
        CHECK_OK(tutti_predict(&ask, &forced, &err), err);
        CHECK_TEXT(named.algorithm, "nccl:ring");
        CHECK_TEXT(forced.algorithm, "nccl:ring");
        CHECK_TEXT(named.protocol, "simple");
        CHECK_TEXT(forced.protocol, "simple");
        CHECK_INT(named.time_ps, forced.time_ps);
        CHECK_INT(named.channel_count, forced.channel_count);
        CHECK_TEXT(picked.algorithm, "nccl:tree");
        CHECK(picked.time_ps != forced.time_ps);
        ask.protocol = "none";
        CHECK_OK(tutti_predict(&ask, &forced, &err), err);
        CHECK_TEXT(forced.protocol, "none");
        CHECK(forced.time_ps < named.time_ps);
    }
    tutti_nccl_env_free(env);
    tutti_predict_memory_free(memory);
    tutti_topo_free(topo);
}

static void refused(struct tutti_ask *ask, int status, const char *text)
{
    struct tutti_answer answer;
    struct tutti_err err = {""};

    CHECK_INT(tutti_predict(ask, &answer, &err), -status);
    CHECK_TEXT(err.text, text);
}

/* The protocol of an all-reduce of 1 KiB with some variables. */
static void expect_protocol(const char *spec, const char *variables, const char *protocol)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_nccl_env *env = NULL;
    struct tutti_ask ask = ask_for(topo, "nccl", TUTTI_ALLREDUCE, 1024);
    struct tutti_answer answer = {.protocol = ""};
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    if (variables != NULL)
        CHECK_OK(tutti_nccl_env_add(env, variables, &err), err);
    ask.env = env;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_TEXT(answer.protocol, protocol);
    tutti_nccl_env_free(env);
    tutti_topo_free(topo);
}

/* As AWS's plugin has it, which on P4d sets NCCL_PROTO where it is not set. */
TEST(efas_first_generation_runs_simple_alone)
{
    expect_protocol("dgx-a100:nodes=2", NULL, "ll");
    expect_protocol("dgx-a100:nodes=2,net=efa", NULL, "simple");
    expect_protocol("host:gpu=a100,nics=4,nic=100Gb/s,net=efa,nodes=2", NULL, "simple");
    expect_protocol("dgx-a100:nodes=2,net=efa", "NCCL_PROTO=LL,Simple", "ll");
    expect_protocol("dgx-h100:nodes=2,net=efa", NULL, "ll");
}

/* For how long the messages of a chunk between hosts, of which trees by LL128 make several, have
 * their connection besides its bytes, where the proxy takes a nanosecond for each; and in how many
 * channels. */
static tutti_ps slice_of(const char *spec, const char *algorithm, enum tutti_collective collective,
                         uint64_t bytes, uint32_t *ret_channels)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_ask ask = ask_for(topo, algorithm, collective, bytes);
    struct tutti_protocol protocol = tutti_protocols(&(size_t){0})[0], own = protocol;
    struct tutti_nccl_run run;
    struct tutti_err err = {""};
    tutti_ps parts;

    protocol.slice_ps[TUTTI_HOP_NVLINK] = 1000;
    protocol.slice_ps[TUTTI_HOP_NET] = 1000;
    CHECK_OK(tutti_nccl_run_new(&ask, &run, &err), err);
    if (!tutti_nccl_run_costs(&run, &protocol, &own))
        own = protocol;
    parts = run.part_count > 0 ? run.part_count : 1;
    CHECK_INT(own.slice_ps[TUTTI_HOP_NVLINK] * parts, 1000);
    *ret_channels = run.channel_count;
    tutti_schedule_free(run.schedule);
    tutti_topo_free(topo);
    return own.slice_ps[TUTTI_HOP_NET] * parts;
}

/* Eight bytes go by one channel: one message at a time. 64 MiB go by all channels: by one NIC, or
 * two by each of eight; of a tree of four hosts half as many again, for three pairs of them
 * exchange a message each way, which is six for four, and of two hosts two for two. */
TEST(messages_between_hosts_wait_for_others_of_their_proxy)
{
    static const char one_port[] = "host:gpu=a100,gpus=8,nics=1,nic=200Gb/s,net=ib,nodes=2";
    static const char lone[] = "dgx-a100:gpus=1,nodes=4";
    enum tutti_collective sum = TUTTI_ALLREDUCE;
    uint64_t large = 64 << 20;
    uint32_t n;

    CHECK_INT(slice_of("dgx-a100:nodes=2", "nccl:ring", sum, 8, &n), 1000);
    CHECK_INT(n, 1);
    CHECK_INT(slice_of("dgx-a100:nodes=2", "nccl:ring", sum, large, &n), 2000);
    CHECK_INT(n, 16);
    CHECK_INT(slice_of("dgx-a100:nodes=2", "nccl:tree", sum, large, &n), 2000);
    CHECK_INT(slice_of("dgx-a100:nodes=4", "nccl:tree", sum, large, &n), 3000);
    CHECK_INT(slice_of(one_port, "nccl:ring", sum, large, &n), n * INT64_C(1000));
    CHECK(n > 1);
    CHECK_INT(slice_of(lone, "nccl:pat", TUTTI_ALLGATHER, large, &n), n * INT64_C(1000));
    CHECK(n > 1);
    CHECK_INT(slice_of("dgx-a100", "nccl:ring", sum, large, &n), 1000);
    CHECK_INT(slice_of("dgx-a100:nodes=2", "nccl", TUTTI_ALLTOALL, large, &n), 1000);
}

/* A tree by LL on four channels of eight GPUs whose links take no time, where a lane of a ring
 * moves what it does between ranks of one H200, and a step takes as long. */
static double tree_us(uint64_t bytes)
{
    struct tutti_topo *topo = machine("dgx-h100:gpus=8,nodes=1,lat=0us");
    struct tutti_ask ask = ask_for(topo, "nccl", TUTTI_ALLREDUCE, bytes);
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_nccl_env *env = NULL;
    struct tutti_answer answer;
    struct tutti_err err = {""};

    memcpy(protocols, tutti_protocols(&(size_t){0}), sizeof(protocols));
    protocols[0].lane_bytes_per_s[TUTTI_HOP_NVLINK] = 7400000000;
    protocols[0].message_ps[TUTTI_HOP_NVLINK] = 650000;
    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    CHECK_OK(tutti_nccl_env_add(env, "NCCL_ALGO=Tree,NCCL_PROTO=LL,NCCL_MAX_NCHANNELS=4", &err),
             err);
    ask.env = env;
    ask.protocols = protocols;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_TEXT(answer.algorithm, "nccl:tree");
    tutti_nccl_env_free(env);
    tutti_topo_free(topo);
    return (double)answer.time_ps / 1e6;
}

/* NCCL itself took 21.4 us for 8 B there, 35.5 for 128 KiB, which is one chunk of each channel,
 * 2687 and 5488 for 32 and 64 MiB (traces/measured/h200/within.measured). Whole chunks of 32 KiB
 * that went up and down after one another, 14 times, would take 62 us more than a line. */
TEST(lines_go_up_and_down_a_tree_before_their_chunk_is_there)
{
    double chunk_us = tree_us(128 << 10) - tree_us(8);
    double half_us = tree_us(64 << 20) - tree_us(32 << 20);

    printf("a chunk %.1f us, 32 MiB %.0f us\n", chunk_us, half_us);
    CHECK(chunk_us > 14.1 / 2 && chunk_us < 14.1 * 2);
    CHECK(half_us > 2801 / 1.25 && half_us < 2801 * 1.25);
}

TEST(what_nccl_cannot_run_is_refused)
{
    struct tutti_topo *topo = machine("dgx-h100");
    struct tutti_topo *plain = machine("switch:n=8");
    struct tutti_topo *sharp = machine("dgx-h100:nodes=2,sharp=yes");
    struct tutti_ask ask = ask_for(sharp, "nccl:nvls", TUTTI_ALLGATHER, 1 << 20);
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_env_new(&env, &err), err);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_COLLNET_ENABLE", "1", &err), err);
    ask.env = env;
    refused(&ask, TUTTI_ELACK,
            "NCCL would run NVLS/Simple, which is modelled for all-reduce alone (nccl:ring, or "
            "NCCL_ALGO without it)");
    ask.topo = topo;
    ask.env = NULL;
    ask.params.collective = TUTTI_ALLREDUCE;
    ask.algorithm = "nccl:star";
    refused(&ask, TUTTI_EINVAL,
            "no algorithm 'nccl:star' of NCCL for allreduce (nccl nccl:ring nccl:tree nccl:pat "
            "nccl:nvls nccl:nvlstree nccl:collnetdirect nccl:collnetchain)");
    ask.params.collective = TUTTI_ALLTOALL;
    ask.algorithm = "nccl:ring";
    refused(&ask, TUTTI_EINVAL, "no algorithm 'nccl:ring' of NCCL for alltoall (nccl nccl:p2p)");
    ask.params.collective = TUTTI_ALLREDUCE;
    ask.params.channel_count = 4;
    refused(&ask, TUTTI_EINVAL,
            "'4' channels are not for NCCL, which counts them itself (NCCL_MIN_NCHANNELS, "
            "NCCL_MAX_NCHANNELS)");
    ask.params.channel_count = 0;
    ask.params.slice_count = 2;
    refused(&ask, TUTTI_EINVAL,
            "chunks, slices and slots are not for NCCL, which has its own (NCCL_BUFFSIZE, "
            "NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE)");
    ask.params.slice_count = 0;
    ask.topo = plain;
    refused(&ask, TUTTI_EINVAL,
            "'switch:n=8' does not say what NCCL would see of its hosts (presets of GPUs and "
            "NCCL's topology files do)");
    tutti_nccl_env_free(env);
    tutti_topo_free(sharp);
    tutti_topo_free(plain);
    tutti_topo_free(topo);
}
