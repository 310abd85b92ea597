/* What NCCL runs is folded where it can be, and folded times are those of every rank played. */
#include "sim/fold/fold.h"
#include "sim/predict.h"
#include "tests/sim/nccl/nccl_cases.h"
#include "tests/sim/play_all.h"
#include "topo/topo.h"

static const char *const machines[] = {"dgx-h100",         "dgx-h100:nodes=2", "dgx-h100:nodes=3",
                                       "dgx-h100:nodes=4", "dgx-1v:nodes=2",   "switch:n=6"};

enum { MACHINE_COUNT = sizeof(machines) / sizeof(machines[0]) };

struct seen {
    uint64_t folded;
    uint64_t unfolded;
};

/* Shares that ranks cut evenly in half of the cases; else whatever is drawn. */
static void draw(struct nccl_case *c, const struct tutti_topo *topo, uint64_t i)
{
    uint64_t h = tutti_random_hash(test_seed, i, topo->rank_count, 1);
    struct tutti_coll_params *coll = &c->params.coll;
    uint32_t host_count = topo->host_count > 0 ? topo->host_count : 1;

    nccl_case_draw(c, (enum tutti_collective)(i % 5), host_count, topo->rank_count / host_count, i);
    coll->dtype = TUTTI_FLOAT32;
    coll->chunk_bytes = UINT64_C(4096) << h % 8;
    coll->count = (h >> 8) % 3000000;
    if ((h >> 30) % 2 == 0)
        coll->count = topo->rank_count * UINT64_C(32) * coll->channel_count * ((h >> 8) % 1000);
    nccl_case_shares(&c->params, 0);
}

static void compare(const char *algorithm, const struct tutti_topo *topo, const struct nccl_case *c,
                    uint64_t i, struct seen *seen)
{
    size_t protocol_count;
    const struct tutti_protocol *protocols = tutti_protocols(&protocol_count);
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .topo = topo,
                                  .model = i % 3 == 0 ? TUTTI_MODEL_ALPHABETA : TUTTI_MODEL_FAIR,
                                  .protocol = &protocols[i % protocol_count]};
    struct tutti_schedule *schedule = NULL;
    struct tutti_folded folded;
    struct tutti_err err = {""};
    char what[512];
    int status;

    if (tutti_nccl_generate(algorithm, &c->params, &c->chains, &schedule, &err) != 0)
        return; /* not one that it serves */
    status = tutti_fold_play(&opts, schedule, 0, &folded, &err);
    if (status == 0) {
        struct tutti_played played = play_all(&opts, schedule);

        if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
            TEST_FAIL("%s on %s: folded %" PRId64 " ps, %" PRIu64 " steps; played %" PRId64
                      " ps, %" PRIu64 " steps",
                      nccl_case_text(algorithm, &c->params, &c->chains, what, sizeof(what)),
                      topo->name, folded.end_ps, folded.step_count, played.total_ps,
                      played.step_count);
        seen->folded++;
    } else {
        CHECK_INT(status, -TUTTI_ELACK);
        seen->unfolded++;
    }
    tutti_schedule_free(schedule);
}

/* Of each machine 20 draws, 200 with --full; under sanitizers fewer, yet each collective once. */
static struct seen compare_all(const char *algorithm)
{
    uint64_t some = test_count(200, 20), draws = some < 5 ? 5 : some;
    struct seen seen = {0};

    for (size_t m = 0; m < MACHINE_COUNT; m++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_topo_from_spec(machines[m], &topo, &err), err);
        for (uint64_t i = 0; i < draws && topo != NULL; i++) {
            struct nccl_case c;

            draw(&c, topo, i);
            compare(algorithm, topo, &c, i, &seen);
        }
        tutti_topo_free(topo);
    }
    printf("%s: %" PRIu64 " folded, %" PRIu64 " not\n", algorithm, seen.folded, seen.unfolded);
    return seen;
}

TEST(folded_rings_take_as_long_as_unfolded_ones)
{
    struct seen seen = compare_all("ring");

    CHECK(seen.folded > seen.unfolded / 4);
}

/* Over few hosts all lanes of trees differ; where chains differ by rotation alone they do not. */
TEST(folded_trees_take_as_long_as_unfolded_ones)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    struct seen seen = compare_all("tree");

    CHECK(seen.unfolded > 0);
    CHECK_OK(tutti_topo_from_spec("dgx-h100:nodes=4", &topo, &err), err);
    REQUIRE(topo != NULL);
    for (uint64_t i = 0; i < 30; i++) {
        struct nccl_case c;

        nccl_case_draw(&c, TUTTI_ALLREDUCE, 4, 8, i);
        c.params.coll.channel_count = 16;
        c.params.coll.chunk_bytes = 4096;
        c.params.chunk_lo_bytes = c.params.chunk_hi_bytes = 0;
        c.params.coll.count = 16 * 1000 * (i + 1);
        nccl_case_shares(&c.params, 4);
        for (uint32_t m = 0; m < 64; m++)
            c.members[m] = (m / 8 + m) % 8;
        c.chains.count = 8;
        c.chains.members = c.members;
        c.chains.swapped = false;
        compare("tree", topo, &c, i, &seen);
    }
    tutti_topo_free(topo);
    printf("tree: %" PRIu64 " folded\n", seen.folded);
    CHECK(seen.folded > 10);
}

/* NCCL's ring over 1024 ranks: without folding some 10^8 steps. */
TEST(a_ring_over_128_hosts_is_folded_into_one_rank)
{
    struct tutti_topo *topo = NULL;
    struct tutti_chains chains = {.host_count = 128, .length = 8, .count = 1};
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLREDUCE,
                                                .count = UINT64_C(1) << 28,
                                                .channel_count = 16,
                                                .chunk_bytes = 2 << 20,
                                                .slice_count = 2,
                                                .slot_count = 4},
                                       .count_lo = 1 << 24,
                                       .count_mid = 1 << 24,
                                       .count_hi = 1 << 24};
    struct tutti_schedule *schedule = NULL;
    struct tutti_folded folded = {.class_count = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("dgx-h100:nodes=128", &topo, &err), err);
    CHECK_OK(tutti_nccl_generate("ring", &params, &chains, &schedule, &err), err);
    REQUIRE(topo != NULL && schedule != NULL);
    CHECK_OK(tutti_fold_play(&(struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                                      .topo = topo,
                                                      .model = TUTTI_MODEL_FAIR},
                             schedule, 1 << 20, &folded, &err),
             err);
    CHECK_INT(folded.class_count, 8);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

/* Wires between 80 ranks differ in small numbers alone, in more than one of them: classes, kinds.
 * Were these added bit by bit, unlike wires would look alike, and nothing would fold. */
TEST(an_all_to_all_over_ten_hosts_is_folded_into_one_rank)
{
    struct tutti_topo *topo = NULL;
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .algorithm = "nccl",
                            .params = {.collective = TUTTI_ALLTOALL, .count = 26212},
                            .protocol = "auto",
                            .model = TUTTI_MODEL_FAIR,
                            .fold = "on"};
    struct tutti_answer folded = {.class_count = 0};
    struct tutti_answer played = {.time_ps = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("dgx-h100:nodes=10", &topo, &err), err);
    REQUIRE(topo != NULL);
    ask.topo = topo;
    CHECK_OK(tutti_predict(&ask, &folded, &err), err);
    ask.fold = "off";
    CHECK_OK(tutti_predict(&ask, &played, &err), err);
    CHECK_INT(folded.class_count, 1);
    CHECK_INT(folded.time_ps, played.time_ps);
    CHECK_INT(folded.event_count, played.event_count);
    tutti_topo_free(topo);
}

/* No estimate knows how many messages will share links: what is strict ends while it is played. */
TEST(what_shares_its_links_for_too_long_is_given_up)
{
    struct tutti_topo *topo = NULL;
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .algorithm = "nccl",
                            .params = {.collective = TUTTI_ALLTOALL, .count = 1 << 17},
                            .protocol = "auto",
                            .model = TUTTI_MODEL_FAIR,
                            .fold = "off",
                            .seconds_max = 2,
                            .strict = true};
    struct tutti_answer answer;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("host:gpu=a100,gpus=4,sockets=4,nics=2,nic=200Gb/s,nodes=128",
                                  &topo, &err),
             err);
    REQUIRE(topo != NULL);
    ask.topo = topo;
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "it takes more than 2 s to simulate") != NULL);
    tutti_topo_free(topo);
}

/* Else an answer would hang on what was asked before, and so on how many threads there are. */
TEST(what_is_given_up_is_so_whatever_is_remembered)
{
    struct tutti_topo *topo = NULL;
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .algorithm = "nccl",
                            .params = {.collective = TUTTI_ALLTOALL, .count = 1 << 12},
                            .protocol = "auto",
                            .model = TUTTI_MODEL_FAIR,
                            .fold = "on",
                            .seconds_max = 1};
    struct tutti_answer answer;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("host:gpu=a100,gpus=4,nics=2,nic=200Gb/s,nodes=96", &topo, &err),
             err);
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_predict_memory_new(&ask.memory, &err), err);
    ask.topo = topo;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    ask.strict = true;
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_ETIME);
    tutti_predict_memory_free(ask.memory);
    tutti_topo_free(topo);
}

/* Channels run both ways round: of some, lanes send where those of others receive. */
TEST(rings_of_four_gpus_fold_though_channels_run_both_ways)
{
    struct tutti_topo *topo = NULL;
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocols = tutti_protocols(NULL),
                            .algorithm = "nccl:ring",
                            .params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = UINT64_C(1) << 24},
                            .protocol = "simple",
                            .model = TUTTI_MODEL_FAIR};
    struct tutti_answer folded, played;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("host:gpu=gh200,gpus=4", &topo, &err), err);
    ask.topo = topo;
    CHECK_OK(tutti_predict(&ask, &folded, &err), err);
    ask.fold = "off";
    CHECK_OK(tutti_predict(&ask, &played, &err), err);
    CHECK(folded.folded);
    CHECK_INT(folded.time_ps, played.time_ps);
    CHECK_INT(folded.event_count, played.event_count);
    tutti_topo_free(topo);
}
