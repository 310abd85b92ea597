/* RCCL on AMD's GPUs: the paths it draws, and what it picks by size. */
#include <math.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/predict.h"
#include "tests/test.h"

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

/* How often the chains of a graph go from each GPU to each other; `closed`: as rings. */
static void count_links(const struct tutti_nccl_graph *graph, bool closed, uint32_t used[8][8])
{
    memset(used, 0, 64 * sizeof(used[0][0]));
    for (uint32_t c = 0; c < graph->channel_count; c++) {
        const uint32_t *chain = graph->gpus + (size_t)c * graph->gpu_count;
        uint32_t seen = 0;

        for (uint32_t i = 0; i < graph->gpu_count; i++)
            seen |= 1u << chain[i];
        CHECK_INT(seen, (1u << graph->gpu_count) - 1);
        for (uint32_t i = 0; i + 1 < graph->gpu_count; i++)
            used[chain[i]][chain[i + 1]]++;
        if (closed)
            used[chain[graph->gpu_count - 1]][chain[0]]++;
    }
}

TEST(a_mesh_of_eight_lends_each_link_to_one_chain)
{
    static const char *const specs[] = {"mi300x", "mi300x:nodes=2", "host:gpu=mi350x"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *topo = machine(specs[s]);
        struct tutti_nccl_comm *comm = comm_of(topo);
        const struct tutti_nccl_graph *ring = &comm->graphs[TUTTI_GRAPH_RING];
        uint32_t used[8][8];

        CHECK_INT(ring->channel_count, topo->host_count > 1 ? 8 : 7);
        count_links(ring, topo->host_count == 1, used);
        for (uint32_t a = 0; a < 8; a++) {
            for (uint32_t b = 0; b < 8; b++)
                CHECK_INT(used[a][b], a != b);
        }
        tutti_nccl_comm_free(comm);
        tutti_topo_free(topo);
    }
}

/* Of four MI355X RCCL gets 170 GB/s (busbw; logs of MIT, 2.22 and 2.30), three links' worth. */
TEST(a_mesh_of_four_lends_each_link_to_two_rings)
{
    struct tutti_topo *topo = machine("host:gpu=mi355x,gpus=4");
    struct tutti_nccl_comm *comm = comm_of(topo);
    const struct tutti_nccl_graph *ring = &comm->graphs[TUTTI_GRAPH_RING];
    uint32_t used[8][8];

    CHECK_INT(ring->channel_count, 6);
    CHECK(fabs(ring->bw_intra_GBps - 24) < 1e-9); /* half a link each */
    count_links(ring, true, used);
    for (uint32_t a = 0; a < 4; a++) {
        for (uint32_t b = 0; b < 4; b++)
            CHECK_INT(used[a][b], a != b ? 2 : 0);
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
}

TEST(chains_go_in_and_out_by_all_ports_alike)
{
    static const char *const specs[] = {"mi300x:nodes=2",
                                        "host:gpu=mi250x,nics=4,nic=200Gb/s,nodes=4",
                                        "host:gpu=mi300x,nics=2,nic=400Gb/s,nodes=2"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *topo = machine(specs[s]);
        struct tutti_nccl_comm *comm = comm_of(topo);
        const struct tutti_nccl_graph *ring = &comm->graphs[TUTTI_GRAPH_RING];
        uint32_t ports = topo->hardware->net_count;
        uint32_t in[8] = {0}, out[8] = {0};

        REQUIRE(ring->nets != NULL);
        for (uint32_t c = 0; c < ring->channel_count; c++) {
            in[ring->nets[2 * c]]++;
            out[ring->nets[2 * c + 1]]++;
        }
        for (uint32_t p = 0; p < ports; p++) {
            CHECK_INT(in[p], ring->channel_count / ports);
            CHECK_INT(out[p], ring->channel_count / ports);
        }
        tutti_nccl_comm_free(comm);
        tutti_topo_free(topo);
    }
}

/* "rccl:tree/ll" of a size. */
static void expect_pick(const struct tutti_topo *topo, uint64_t bytes, const char *expected)
{
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .protocols = tutti_protocols(NULL),
        .topo = topo,
        .algorithm = "nccl",
        .params = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = bytes / 4},
        .protocol = "auto",
        .model = TUTTI_MODEL_FAIR};
    struct tutti_schedule *schedule = NULL;
    struct tutti_answer answer;
    struct tutti_err err = {""};
    char seen[64];

    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    (void)snprintf(seen, sizeof(seen), "%s/%s", answer.algorithm, answer.protocol);
    CHECK_TEXT(seen, expected);
    CHECK_OK(tutti_predict_schedule(&ask, &schedule, &err), err);
    if (bytes <= 65536)
        CHECK_OK(tutti_schedule_prove(schedule, &err), err);
    tutti_schedule_free(schedule);
}

/* RCCL's tuning model 5 by hand: over two nodes LL up to 1 MiB, LL128 up to 9, then trees until the
 * ring's factor leaps from 0.1 to 1 at 256 MiB. Logs of MI300X and MI308X leap there. */
TEST(picks_are_those_of_the_tuning_tables)
{
    struct tutti_topo *topo = machine("mi300x:nodes=2");

    expect_pick(topo, 4096, "rccl:tree/ll");
    expect_pick(topo, 1 << 20, "rccl:tree/ll");
    expect_pick(topo, 8 << 20, "rccl:tree/ll128");
    expect_pick(topo, 64 << 20, "rccl:tree/simple");
    expect_pick(topo, 128 << 20, "rccl:tree/simple");
    expect_pick(topo, 256 << 20, "rccl:ring/simple");
    tutti_topo_free(topo);
    topo = machine("mi300x");
    expect_pick(topo, 512, "rccl:ring/ll");
    expect_pick(topo, 1024, "rccl:all-pairs/ll");
    expect_pick(topo, 65536, "rccl:all-pairs/ll");
    expect_pick(topo, 523264, "rccl:all-pairs/ll");
    expect_pick(topo, 512 << 10, "rccl:all-pairs/simple");
    expect_pick(topo, 16 << 20, "rccl:all-pairs/simple");
    expect_pick(topo, 32 << 20, "rccl:ring/simple");
    tutti_topo_free(topo);
    topo = machine("host:gpu=mi250x,nics=4,nic=200Gb/s,nodes=4");
    expect_pick(topo, 65536, "rccl:tree/ll");
    expect_pick(topo, UINT64_C(1) << 30, "rccl:ring/simple");
    tutti_topo_free(topo);
}

/* What RCCL 2.28 said it ran on two hosts of eight MI355X (DriveNets' logs), at the last size of
 * each protocol and the first of the next. */
TEST(protocols_are_those_that_mi355x_ran)
{
    static const struct {
        enum tutti_collective collective;
        uint64_t bytes;
        int protocol;
    } ran[] = {
        {TUTTI_ALLREDUCE, 256 << 10, TUTTI_NCCL_LL},
        {TUTTI_ALLREDUCE, 512 << 10, TUTTI_NCCL_LL128},
        {TUTTI_ALLREDUCE, 64 << 20, TUTTI_NCCL_LL128},
        {TUTTI_ALLREDUCE, 128 << 20, TUTTI_NCCL_SIMPLE},
        {TUTTI_ALLGATHER, 128 << 20, TUTTI_NCCL_LL128},
        {TUTTI_ALLGATHER, 256 << 20, TUTTI_NCCL_SIMPLE},
        {TUTTI_REDUCESCATTER, 1 << 20, TUTTI_NCCL_LL},
        {TUTTI_REDUCESCATTER, 2 << 20, TUTTI_NCCL_LL128},
        {TUTTI_REDUCESCATTER, 128 << 20, TUTTI_NCCL_LL128},
        {TUTTI_REDUCESCATTER, 256 << 20, TUTTI_NCCL_SIMPLE},
        {TUTTI_REDUCE_TO_ROOT, 128 << 10, TUTTI_NCCL_LL},
        {TUTTI_REDUCE_TO_ROOT, 256 << 10, TUTTI_NCCL_LL128},
        {TUTTI_REDUCE_TO_ROOT, 256 << 20, TUTTI_NCCL_LL128},
        {TUTTI_REDUCE_TO_ROOT, 512 << 20, TUTTI_NCCL_SIMPLE},
        {TUTTI_BROADCAST, 32 << 10, TUTTI_NCCL_LL},
        {TUTTI_BROADCAST, 64 << 10, TUTTI_NCCL_LL128},
        {TUTTI_BROADCAST, 256 << 20, TUTTI_NCCL_LL128},
        {TUTTI_BROADCAST, 512 << 20, TUTTI_NCCL_SIMPLE},
    };
    struct tutti_topo *topo = machine("host:gpu=mi355x,nodes=2");
    struct tutti_nccl_comm *comm = comm_of(topo);

    for (size_t i = 0; i < sizeof(ran) / sizeof(ran[0]); i++) {
        struct tutti_nccl_choice choice;
        struct tutti_err err = {""};

        CHECK_OK(tutti_nccl_choose(comm, ran[i].collective, TUTTI_FLOAT32, TUTTI_SUM, ran[i].bytes,
                                   &choice, &err),
                 err);
        CHECK_INT(choice.protocol, ran[i].protocol);
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
    topo = machine("host:gpu=mi355x,nodes=3"); /* of three LL128 reaches 3.8 times as far */
    comm = comm_of(topo);
    for (uint64_t bytes = 256 << 20; bytes <= 512 << 20; bytes <<= 1) {
        struct tutti_nccl_choice choice;
        struct tutti_err err = {""};

        CHECK_OK(tutti_nccl_choose(comm, TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, bytes, &choice,
                                   &err),
                 err);
        CHECK_INT(choice.protocol, bytes == 256 << 20 ? TUTTI_NCCL_LL128 : TUTTI_NCCL_SIMPLE);
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
    topo = machine("host:gpu=mi355x");
    comm = comm_of(topo);
    for (uint64_t bytes = 1 << 20; bytes <= 2 << 20; bytes <<= 1) { /* and on one host */
        struct tutti_nccl_choice choice;
        struct tutti_err err = {""};

        CHECK_OK(tutti_nccl_choose(comm, TUTTI_REDUCESCATTER, TUTTI_FLOAT32, TUTTI_SUM, bytes,
                                   &choice, &err),
                 err);
        CHECK_INT(choice.protocol, bytes == 1 << 20 ? TUTTI_NCCL_LL : TUTTI_NCCL_SIMPLE);
    }
    tutti_nccl_comm_free(comm);
    tutti_topo_free(topo);
}

/* As RCCL's logs have it on MI355X: up to 8 MiB on one host, 4 on two. */
TEST(small_all_gathers_are_sent_directly)
{
    static const struct {
        const char *spec, *protocol;
        uint64_t bytes;
        const char *algorithm;
    } cases[] = {
        {"host:gpu=mi355x", "auto", 8 << 20, "rccl:p2p"},
        {"host:gpu=mi355x", "auto", 16 << 20, "rccl:ring"},
        {"host:gpu=mi355x,nodes=2", "auto", 4 << 20, "rccl:p2p"},
        {"host:gpu=mi355x,nodes=2", "auto", 8 << 20, "rccl:ring"},
        {"host:gpu=mi355x,nodes=2", "simple", 4 << 20, "rccl:ring"}, /* asked for */
        {"host:gpu=mi355x,gpus=4", "auto", 4096, "rccl:ring"},       /* no multiple of 8 */
        {"mi300x", "auto", 4 << 20, "rccl:p2p"},
        {"mi300x", "auto", 8 << 20, "rccl:ring"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                                .protocols = tutti_protocols(NULL),
                                .topo = topo,
                                .algorithm = "nccl",
                                .params = {.collective = TUTTI_ALLGATHER, .dtype = TUTTI_FLOAT32},
                                .protocol = cases[i].protocol,
                                .model = TUTTI_MODEL_FAIR};
        struct tutti_err err = {""};
        struct tutti_answer answer;

        ask.params.count = cases[i].bytes / 4 / topo->rank_count;
        CHECK_OK(tutti_predict(&ask, &answer, &err), err);
        CHECK_TEXT(answer.algorithm, cases[i].algorithm);
        tutti_topo_free(topo);
    }
}

TEST(the_least_goes_to_all_at_once_and_msccl_can_be_off)
{
    struct tutti_topo *topo = machine("mi300x");
    struct tutti_nccl_env *env = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    struct tutti_answer answer;
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .topo = topo,
                            .algorithm = "nccl",
                            .params = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32},
                            .protocol = "auto",
                            .model = TUTTI_MODEL_FAIR};

    ask.params.count = 4096; /* 16 KiB: 7 messages, then 7 sums */
    CHECK_OK(tutti_predict_schedule(&ask, &schedule, &err), err);
    CHECK_TEXT(schedule->name, "one-shot");
    tutti_schedule_free(schedule);
    ask.params.count = 8192;
    CHECK_OK(tutti_predict_schedule(&ask, &schedule, &err), err);
    CHECK_TEXT(schedule->name, "two-shot");
    tutti_schedule_free(schedule);
    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_OK(tutti_nccl_env_add(env, "NCCL_MAX_NCHANNELS=4,RCCL_MSCCL_ENABLE=0", &err), err);
    ask.env = env;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_TEXT(answer.algorithm, "rccl:tree");
    tutti_nccl_env_free(env);
    tutti_topo_free(topo);
}

TEST(every_collective_has_a_schedule)
{
    static const char *const specs[] = {
        "mi300x:gpus=3,nodes=2",   "mi300x:gpus=4", "mi300x:gpus=1", "host:gpu=mi250x,gpus=4",
        "host:gpu=mi250x,nodes=2", "mi300x",        "mi300x:nodes=2"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *topo = machine(specs[s]);

        for (int c = 0; c <= TUTTI_SENDRECV; c++) {
            struct tutti_ask ask = {
                .size = sizeof(struct tutti_ask),
                .protocols = tutti_protocols(NULL),
                .topo = topo,
                .algorithm = "nccl",
                .params = {.collective = (enum tutti_collective)c, .dtype = TUTTI_FLOAT32},
                .protocol = "auto",
                .model = TUTTI_MODEL_FAIR};
            struct tutti_schedule *schedule = NULL;
            struct tutti_err err = {""};

            ask.params.count = tutti_collective_count_for(ask.params.collective, 48 << 10,
                                                          TUTTI_FLOAT32, topo->rank_count);
            CHECK_OK(tutti_predict_schedule(&ask, &schedule, &err), err);
            CHECK_OK(tutti_schedule_prove(schedule, &err), err);
            tutti_schedule_free(schedule);
        }
        tutti_topo_free(topo);
    }
}
