/* What limits a prediction, where arithmetic says what must. */
#include "sim/limit.h"

#include <string.h>

#include "runtime/status.h"
#include "tests/test.h"

static const char *limit(struct tutti_ask *ask, const char *spec, const char *algorithm,
                         uint64_t bytes)
{
    static char text[TUTTI_LIMIT_TEXT_BYTES];
    struct tutti_topo *topo = NULL;
    struct tutti_answer answer;
    struct tutti_err err = {""};

    text[0] = '\0';
    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    if (topo == NULL)
        return text;
    ask->size = sizeof(*ask);
    ask->topo = topo;
    ask->algorithm = algorithm;
    ask->params.collective = TUTTI_ALLREDUCE;
    ask->params.count = bytes / 4;
    CHECK_OK(tutti_predict(ask, &answer, &err), err);
    CHECK_OK(tutti_predict_limit(ask, &answer, text, &err), err);
    tutti_topo_free(topo);
    return text;
}

/* 2 (n - 1) steps of 1 us each, in which 16 bytes take 0.3 ns. */
TEST(a_ring_of_small_chunks_waits_for_its_steps)
{
    struct tutti_ask ask = {.size = 0};

    CHECK_TEXT(limit(&ask, "ring:n=64,bw=50GB/s,lat=1us", "ring", 1024),
               "latency of 126 steps (100 %)");
    CHECK_TEXT(limit(&ask, "ring:n=1024,bw=50GB/s,lat=1us", "ring", 1 << 20),
               "latency of 2046 steps (98 %)");
}

/* 14 steps of 1 us, and 14/8 GiB at 50 GB/s: 37.6 ms. */
TEST(a_ring_of_large_chunks_waits_for_its_links)
{
    struct tutti_ask ask = {.size = 0};

    CHECK_TEXT(limit(&ask, "ring:n=8,bw=50GB/s,lat=1us", "ring", 1 << 30),
               "generic links of 50GB/s (100 %)");
}

/* 65,537 ranks of a ring fold into a few. */
TEST(many_ranks_that_fold_are_few)
{
    struct tutti_ask ask = {.size = 0};

    CHECK_TEXT(limit(&ask, "ring:n=65537,bw=50GB/s,lat=1us", "ring", 1 << 20),
               "latency of 131072 steps (100 %)");
}

TEST(many_ranks_and_jitter_are_not_known)
{
    struct tutti_ask ask = {.size = 0};
    struct tutti_topo *topo = NULL;
    struct tutti_answer answer = {.algorithm = "ring", .protocol = "none", .time_ps = 1};
    struct tutti_err err = {""};
    char text[TUTTI_LIMIT_TEXT_BYTES] = "";

    ask.jitter = 0.1;
    CHECK_TEXT(limit(&ask, "ring:n=8,bw=50GB/s,lat=1us", "ring", 1 << 20), "not known");
    CHECK_OK(tutti_topo_from_spec("ring:n=65537", &topo, &err), err);
    ask = (struct tutti_ask){.size = sizeof(ask), .topo = topo, .algorithm = "ring"};
    CHECK_OK(tutti_predict_limit(&ask, &answer, text, &err), err);
    CHECK_TEXT(text, "not known");
    tutti_topo_free(topo);
}

/* Whatever was asked about other sizes before. */
TEST(memory_changes_no_answer)
{
    struct tutti_predict_memory *memory = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_predict_memory_new(&memory, &err), err);
    CHECK_OK(tutti_topo_from_spec("dgx-h100:nodes=4", &topo, &err), err);
    for (uint64_t bytes = 1 << 10; bytes <= 1 << 28; bytes *= 64) {
        struct tutti_ask ask = {.size = sizeof(ask),
                                .topo = topo,
                                .algorithm = "hierarchical",
                                .params = {.collective = TUTTI_ALLREDUCE, .count = bytes / 4}};
        struct tutti_answer answer;
        char alone[TUTTI_LIMIT_TEXT_BYTES] = "";
        char remembered[TUTTI_LIMIT_TEXT_BYTES] = "";

        CHECK_OK(tutti_predict(&ask, &answer, &err), err);
        CHECK_OK(tutti_predict_limit(&ask, &answer, alone, &err), err);
        ask.memory = memory;
        CHECK_OK(tutti_predict_limit(&ask, &answer, remembered, &err), err);
        CHECK_TEXT(remembered, alone);
        CHECK(strcmp(alone, "not known") != 0);
    }
    tutti_topo_free(topo);
    tutti_predict_memory_free(memory);
}

/* With costs that say what it must be. */
static void costs(struct tutti_protocol *protocols, struct tutti_ask *ask)
{
    for (int i = 0; i < TUTTI_PROTOCOLS; i++)
        protocols[i] = tutti_protocols(NULL)[i];
    *ask = (struct tutti_ask){.protocols = protocols, .protocol = "ll"};
    for (int i = 0; i < TUTTI_PROTOCOLS; i++) {
        protocols[i].launch_ps = 0;
        for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
            protocols[i].message_ps[hop] = protocols[i].slice_ps[hop] = 0;
    }
}

/* A launch of 100 us before two steps of 0.5 us. */
TEST(a_small_one_waits_for_its_launch)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_ask ask;

    costs(protocols, &ask);
    protocols[0].launch_ps = 100 * TUTTI_PS_PER_US;
    CHECK_TEXT(limit(&ask, "switch:n=8,bw=450GB/s,lat=500ns", "two-shot", 1024),
               "launch of 100us (99 %)");
}

/* LL needs twice the bytes on a link of 450 GB/s, but a lane moves 1 GB/s. */
TEST(a_slow_lane_holds_back_its_protocol)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_ask ask;

    costs(protocols, &ask);
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        protocols[0].lane_bytes_per_s[hop] = 1000000000;
    CHECK_TEXT(limit(&ask, "switch:n=8,bw=450GB/s,lat=500ns", "ring", 64 << 20),
               "lane rate of protocol ll (100 %)");
}

/* 14 steps, of which each has its connection for 10 us, and then takes 0.5 us. */
TEST(what_keeps_messages_apart_is_no_latency)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_ask ask;

    costs(protocols, &ask);
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        protocols[0].slice_ps[hop] = 10 * TUTTI_PS_PER_US;
    CHECK_TEXT(limit(&ask, "switch:n=8,bw=450GB/s,lat=500ns", "ring", 1024),
               "overhead of each message (95 %)");
}

/* NCCL's kernel passes on less than eight ports of 50 GB/s: not the latency of some steps. */
TEST(a_large_one_between_nvswitches_waits_for_the_kernel)
{
    struct tutti_ask ask = {.size = 0};

    CHECK(strstr(limit(&ask, "hgx-b200:nodes=16", "nccl:nvlstree", 1 << 30),
                 "lane rate of protocol simple") != NULL);
}
