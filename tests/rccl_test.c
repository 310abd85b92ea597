/* RCCL on AMD's GPUs: the paths it draws, and what it picks by size. */
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

TEST(the_least_goes_to_all_at_once_and_msccl_can_be_off)
{
    struct tutti_topo *topo = machine("mi300x");
    struct tutti_nccl_env *env = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    struct tutti_answer answer;
    struct tutti_ask ask = {.topo = topo,
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
    static const char *const specs[] = {"mi300x:gpus=3,nodes=2", "mi300x:gpus=4", "mi300x:gpus=1",
                                        "host:gpu=mi250x,gpus=4", "host:gpu=mi250x,nodes=2"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *topo = machine(specs[s]);

        for (int c = 0; c <= TUTTI_SENDRECV; c++) {
            struct tutti_ask ask = {
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
