/* Predictions: equal to what one computes by hand, sanely ranked, honestly refused. */
#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/predict.h"
#include "sim/protocol.h"
#include "tests/sim/paced.h"
#include "tests/test.h"

static const uint64_t GIB = UINT64_C(1) << 30;

/* An all-reduce of float32 sums on a machine, to be changed by the test. */
struct question {
    struct tutti_topo *topo;
    struct tutti_ask ask;
    struct tutti_answer answer;
    struct tutti_err err;
};

static struct question question(const char *spec, const char *algorithm, uint64_t bytes)
{
    struct question q = {.ask = {.size = sizeof(struct tutti_ask),
                                 .model = TUTTI_MODEL_ALPHABETA,
                                 .protocol = "none",
                                 .protocols = tutti_protocols(NULL),
                                 .algorithm = algorithm}};

    CHECK_OK(tutti_topo_from_spec(spec, &q.topo, &q.err), q.err);
    q.ask.topo = q.topo;
    q.ask.params = (struct tutti_coll_params){
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM, .count = bytes / 4};
    return q;
}

static int predict(struct question *q)
{
    return tutti_predict(&q->ask, &q->answer, &q->err);
}

static tutti_ps time_of(struct question *q, const char *algorithm)
{
    q->ask.algorithm = algorithm;
    CHECK_OK(predict(q), q->err);
    return q->answer.time_ps;
}

static tutti_ps time_on(const char *spec, const char *algorithm, uint64_t bytes)
{
    struct question q = question(spec, algorithm, bytes);
    tutti_ps time_ps = time_of(&q, algorithm);

    tutti_topo_free(q.topo);
    return time_ps;
}

static void refused(struct question *q, int status, const char *message)
{
    int seen = predict(q);

    CHECK_INT(seen, -status);
    CHECK_TEXT(q->err.text, message);
}

/* 8 H100: 14 rounds of 128 MiB at 450 GB/s, 298.261617.8 us rounded up to the picosecond, and
 * 500 ns from GPU to GPU. Nothing is shared, so both models agree. */
TEST(eight_h100_ring_equals_the_hand_computation)
{
    struct question q = question("dgx-h100", "ring", GIB);
    const tutti_ps by_hand_ps = 14 * (INT64_C(298261618) + 500000);

    q.ask.model = TUTTI_MODEL_ALPHABETA;
    CHECK_INT(time_of(&q, "ring"), by_hand_ps);
    CHECK_INT(q.answer.bytes, GIB);
    CHECK_INT(q.answer.event_count, 8 * 14 + 8 * 14 + 8 * 7);
    CHECK(q.answer.busbw_GBps > 449.2 && q.answer.busbw_GBps < 449.3);
    CHECK(q.answer.algbw_GBps * 1.75 > q.answer.busbw_GBps - 1e-9);
    CHECK(q.answer.algbw_GBps * 1.75 < q.answer.busbw_GBps + 1e-9);
    CHECK_TEXT(q.answer.algorithm, "ring");
    CHECK_TEXT(q.answer.protocol, "none");
    CHECK(q.answer.folded);
    CHECK_INT(q.answer.class_count, 1);
    q.ask.model = TUTTI_MODEL_FAIR;
    CHECK_INT(time_of(&q, "ring"), by_hand_ps);
    tutti_topo_free(q.topo);
}

/* Simple pays 8.4 us once and 3.4 us a message over NVLink; LL 6.6 us, 0.6 us and twice the bytes
 * (sim/protocol.c has the sources). */
TEST(protocols_add_their_costs)
{
    struct question q = question("dgx-h100", "ring", GIB);

    q.ask.protocol = "simple";
    CHECK_INT(time_of(&q, "ring"), 8400000 + 14 * (INT64_C(298261618) + 500000 + 3400000));
    q.ask.protocol = "ll";
    CHECK_INT(time_of(&q, "ring"), 6600000 + 14 * (INT64_C(596523236) + 500000 + 600000));
    q.ask.protocol = "auto";
    CHECK_OK(predict(&q), q.err);
    CHECK_TEXT(q.answer.protocol, "simple");
    q.ask.params.count = 2;
    CHECK_OK(predict(&q), q.err);
    CHECK_TEXT(q.answer.protocol, "ll");
    tutti_topo_free(q.topo);
}

static const char *const machines[] = {"dgx-h100",
                                       "dgx-h100:nodes=2",
                                       "dgx-1v",
                                       "tpu-v4:2x2x4",
                                       "mi300x",
                                       "ring:n=5,bw=50GB/s,lat=1us",
                                       "switch:n=6,bw=50GB/s,lat=1us",
                                       "pcie"};

/* Every collective on every machine: auto is the fastest of those that can be asked for by name,
 * and names it. */
TEST(auto_is_the_fastest_of_all_that_fit)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    static const uint64_t sizes[] = {8, 1 << 20};

    for (size_t i = 0; i < 2 * sizeof(machines) / sizeof(machines[0]) * TUTTI_CUSTOM; i++) {
        struct question q = question(machines[i / 2 % 8], "auto", sizes[i % 2]);
        const char *winner;
        tutti_ps best_ps = INT64_MAX;
        tutti_ps auto_ps;

        q.ask.params.collective = (enum tutti_collective)(i / 16);
        if (q.ask.params.collective == TUTTI_BARRIER)
            q.ask.params.count = 0;
        auto_ps = time_of(&q, "auto");
        winner = q.answer.algorithm;
        for (size_t a = 0; a < count; a++) {
            q.ask.algorithm = algorithms[a].name;
            if (predict(&q) < 0)
                continue;
            if (q.answer.time_ps < best_ps)
                best_ps = q.answer.time_ps;
        }
        CHECK_INT(auto_ps, best_ps);
        CHECK_INT(time_of(&q, winner), best_ps);
        tutti_topo_free(q.topo);
    }
}

/* What everybody knows about which algorithm is for what. */
TEST(ranking_is_sane)
{
    struct question q = question("dgx-h100", "auto", 8);

    CHECK(time_of(&q, "one-shot") < time_of(&q, "recursive-doubling"));
    CHECK(time_of(&q, "recursive-doubling") < time_of(&q, "ring"));
    tutti_topo_free(q.topo);
    q = question("dgx-h100", "auto", GIB);
    CHECK(time_of(&q, "ring") < time_of(&q, "recursive-doubling"));
    CHECK(time_of(&q, "halving-doubling") < time_of(&q, "ring"));
    CHECK(time_of(&q, "ring") < time_of(&q, "binomial"));
    CHECK(time_of(&q, "ring") < time_of(&q, "reduce-broadcast"));
    tutti_topo_free(q.topo);
    /* 8 NICs of 50 GB/s: the groups keep the NICs busy, and the ring's latency grows with n. */
    CHECK(time_on("dgx-h100:nodes=4", "hierarchical", GIB) <
          time_on("dgx-h100:nodes=4", "double-binary-tree", GIB));
    CHECK(time_on("dgx-h100:nodes=4", "hierarchical", 1 << 20) <
          time_on("dgx-h100:nodes=4", "ring", 1 << 20));
    /* Six links a chip: the torus uses all of them. */
    CHECK(time_on("tpu-v4:4x4x4", "torus", GIB) < time_on("tpu-v4:4x4x4", "ring", GIB));
}

/* A DGX-1V has six rings of single NVLinks: left open, the ring runs on all of them. */
TEST(channels_follow_the_ring_orders_of_the_machine)
{
    struct question q = question("dgx-1v", "ring", 64 << 20);
    tutti_ps open_ps = time_of(&q, "ring");
    tutti_ps one_ps;

    q.ask.params.channel_count = 6;
    CHECK_INT(time_of(&q, "ring"), open_ps);
    q.ask.params.channel_count = 1;
    one_ps = time_of(&q, "ring");
    CHECK(one_ps > 2 * open_ps);
    tutti_topo_free(q.topo);
}

/* 4 hosts of 8 GPUs with a NIC of 50 GB/s each, and no order declared: a ring a NIC. Of 1 GiB each
 * of the 8 rings carries 128 MiB in 62 rounds; a round takes 4 MiB over the NIC and the latencies
 * of its route. GPUs send on seven rings over NVLink meanwhile, which is faster. */
TEST(hosts_with_several_nics_get_a_ring_for_each)
{
    struct question q = question("dgx-h100:nodes=4", "ring", GIB);
    const uint64_t chunk_bytes = (GIB >> 3) / 32;
    const tutti_ps nic_ps = 62 * tutti_wire_ps(chunk_bytes, UINT64_C(50000000000));
    tutti_ps eight_ps;

    q.ask.model = TUTTI_MODEL_FAIR;
    eight_ps = time_of(&q, "ring");
    CHECK(eight_ps > nic_ps);
    CHECK(eight_ps < nic_ps + nic_ps / 5);
    q.ask.params.channel_count = 1;
    CHECK(time_of(&q, "ring") > 4 * eight_ps);
    tutti_topo_free(q.topo);
}

/* 16 ranks on 8 rings: a block is 8 KiB from 128 KiB on, 4 KiB on each ring from 512 KiB on. */
TEST(short_blocks_go_round_one_ring)
{
    struct question q = question("dgx-h100:nodes=2", "ring", 512 * 1024);

    CHECK_OK(predict(&q), q.err);
    CHECK_INT(q.answer.event_count, 8 * 16 * 75); /* channels, ranks, 30 SENDs and RECVs, 15 sums */
    q.ask.params.count--;
    CHECK_OK(predict(&q), q.err);
    CHECK_INT(q.answer.event_count, 16 * 75);
    q.ask.params.channel_count = 8;
    CHECK_OK(predict(&q), q.err);
    CHECK_INT(q.answer.event_count, 8 * 16 * 75);
    tutti_topo_free(q.topo);
}

/* Protocols that cannot win are not played; who wins is the same. NCCL's, then others. */
TEST(the_protocol_is_that_of_the_fastest_of_all)
{
    static const char *const algorithms[] = {"ring", "double-binary-tree", "two-shot",
                                             "hierarchical"};
    static const char *const protocols[] = {"ll", "ll128", "simple"};
    struct question q = question("dgx-h100:nodes=4", "ring", 8);
    struct tutti_protocol paced[TUTTI_PROTOCOLS];
    struct tutti_bound_law law;
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    CHECK_OK(tutti_topo_bound_law(q.topo, TUTTI_ALLREDUCE, 0, &law, &q.err), q.err);
    q.ask.bound_law = &law;
    for (int i = 0; i < 2 * 4 * 2 * 15; i += test_is_slow() ? 7 : 1) {
        tutti_ps least_ps = INT64_MAX;
        const char *least = "";

        if (i >= 4 * 2 * 15) {
            draw_protocols(&random, paced);
            q.ask.protocols = paced;
        }
        q.ask.model = i % 2 == 0 ? TUTTI_MODEL_FAIR : TUTTI_MODEL_ALPHABETA;
        q.ask.params.count = UINT64_C(2) << i / 8 % 15 * 2;
        for (int p = 0; p < 3; p++) {
            q.ask.protocol = protocols[p];
            if (time_of(&q, algorithms[i / 2 % 4]) < least_ps) {
                least_ps = q.answer.time_ps;
                least = protocols[p];
            }
        }
        q.ask.protocol = "auto";
        CHECK_INT(time_of(&q, algorithms[i / 2 % 4]), least_ps);
        CHECK_TEXT(q.answer.protocol, least);
    }
    tutti_topo_free(q.topo);
}

TEST(the_record_is_the_winners)
{
    struct question q = question("dgx-h100", "auto", 1 << 20);
    struct tutti_record record;
    tutti_ps end_ps = 0;

    tutti_record_init(&record);
    q.ask.record = &record;
    q.ask.protocol = "auto";
    CHECK_OK(predict(&q), q.err);
    CHECK_INT(record.event_count, q.answer.event_count);
    for (size_t i = 0; i < record.event_count; i++)
        end_ps = record.events[i].end_ps > end_ps ? record.events[i].end_ps : end_ps;
    CHECK_INT(end_ps, q.answer.time_ps);
    tutti_record_done(&record);
    tutti_topo_free(q.topo);
}

TEST(nothing_to_move_takes_no_time_and_has_no_rate)
{
    struct question q = question("ring:n=1,bw=50GB/s,lat=1us", "auto", 4096);

    CHECK_INT(time_of(&q, "auto"), 0);
    CHECK(!(q.answer.algbw_GBps > 0));
    CHECK(!(q.answer.percent_of_bound > 0));
    tutti_topo_free(q.topo);
}

/* A bound is never above the prediction, and its share follows from the two. (`alphabeta` lets
 * messages pass through each other in a link, so on machines whose links are shared it may.) */
TEST(bounds_are_below_predictions_or_said_to_be_absent)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        struct question q = question(machines[i], "auto", 16 << 20);
        const struct tutti_bound *bound = &q.answer.bound;
        double percent;

        q.ask.model = TUTTI_MODEL_FAIR;
        CHECK_OK(predict(&q), q.err);
        percent = 100.0 * (double)bound->time_ps / (double)q.answer.time_ps;
        CHECK(bound->time_ps >= 0 && bound->time_ps <= q.answer.time_ps);
        CHECK(bound->binding[0] != '\0');
        CHECK((bound->time_ps == 0) == (strcmp(tutti_bound_kind(bound), "none") == 0));
        CHECK(!(percent < q.answer.percent_of_bound) && !(percent > q.answer.percent_of_bound));
        tutti_topo_free(q.topo);
    }
}

TEST(what_does_not_fit_is_refused_with_what_would)
{
    struct question q = question("switch:n=8,bw=50GB/s,lat=1us", "torus", 4096);

    refused(&q, TUTTI_EINVAL,
            "algorithm 'torus' does not fit 'switch:n=8,bw=50GB/s,lat=1us': torus needs a grid; "
            "this machine has none: its 8 ranks have no dimensions (a torus or mesh) (ring, "
            "ring-bidirectional, recursive-doubling, halving-doubling, binomial, "
            "double-binary-tree, one-shot, two-shot, hierarchical or reduce-broadcast)");
    q.ask.algorithm = "ring";
    q.ask.params.collective = TUTTI_BROADCAST;
    q.ask.params.root = 8;
    refused(&q, TUTTI_EINVAL, "root '8' is not a rank (0 to 7)");
    q.ask.algorithm = "auto";
    refused(&q, TUTTI_EINVAL,
            "no algorithm for broadcast fits 'switch:n=8,bw=50GB/s,lat=1us': root '8' is not a "
            "rank (0 to 7)");
    q.ask.algorithm = "torus";
    refused(&q, TUTTI_EINVAL,
            "no algorithm 'torus' for broadcast (ring ring-bidirectional binomial)");
    q.ask.protocol = "ll256";
    refused(&q, TUTTI_EINVAL, "unknown protocol 'll256' (none, ll, ll128, simple or auto)");
    tutti_topo_free(q.topo);
}

TEST(what_is_not_modelled_is_refused)
{
    struct question q = question("dgx-h100", "ring", 4096);

    q.ask.fold = "on";
    q.ask.jitter = 0.5;
    refused(
        &q, TUTTI_ELACK,
        "fold 'on' is not possible for 'ring': jitter makes every rank different (auto or off)");
    q.ask.jitter = 0;
    q.ask.fold = "maybe";
    refused(&q, TUTTI_EINVAL, "unknown fold 'maybe' (auto, on or off)");
    q.ask.fold = "off";
    CHECK_OK(predict(&q), q.err);
    tutti_topo_free(q.topo);
}

/* 65,536 ranks, everybody to everybody: 4 billion connections. It is said at once, with figures. */
TEST(what_this_machine_cannot_hold_is_refused_with_figures)
{
    struct question q = question("switch:n=65536", "one-shot", 1 << 20);
    int status = predict(&q);

    CHECK_INT(status, -TUTTI_ELACK);
    CHECK(strstr(q.err.text,
                 "'one-shot' on 'switch:n=65536' is too large for this machine: about ") ==
          q.err.text);
    CHECK(strstr(q.err.text, " 65536 lanes, 4294901760 connections, 0 recorded events") != NULL);
    tutti_topo_free(q.topo);
}

/* The ring of 8 takes 8 ranks * 14 rounds * (send and receive) + 8 * 7 reductions = 280 steps; the
 * estimate, from a round in the middle, is a rough one. */
TEST(what_takes_too_many_steps_is_refused_and_auto_goes_on_without)
{
    struct question q = question("dgx-h100", "ring", GIB);

    q.ask.step_count_max = 40;    /* 320 on one ring, or folded */
    CHECK_OK(predict(&q), q.err); /* one rank stands for all: 45 steps */
    q.ask.fold = "off";
    refused(&q, TUTTI_ELACK, "it takes about 360 steps to simulate (at most 320)");
    q.ask.step_count_max = 1000;
    CHECK_INT(predict(&q), 0);
    q.ask.step_count_max = 200; /* the two-shot, which is the fastest, takes 280 */
    q.ask.algorithm = "auto";
    CHECK_INT(predict(&q), 0);
    CHECK(strcmp(q.answer.algorithm, "two-shot") != 0);
    tutti_topo_free(q.topo);
}

/* Rings of several lanes may have 16 times the steps where data flow suits them: those of a torus
 * do not meet, those of a switch do. */
TEST(rings_that_share_no_link_may_have_more_steps)
{
    struct question q = question("torus:5x6x7", "torus", GIB);
    uint64_t steps;

    q.ask.model = TUTTI_MODEL_FAIR;
    q.ask.fold = "off";
    CHECK_OK(predict(&q), q.err);
    steps = q.answer.event_count;
    q.ask.step_count_max = steps / 10;
    CHECK_OK(predict(&q), q.err);
    CHECK_INT(q.answer.event_count, steps);
    q.ask.step_count_max = steps / 40;
    CHECK_INT(predict(&q), -TUTTI_ELACK);
    tutti_topo_free(q.topo);

    q = question("switch:n=32", "ring-bidirectional", GIB / 1024);
    q.ask.model = TUTTI_MODEL_FAIR;
    q.ask.params.chunk_bytes = 1024;
    q.ask.fold = "off";
    q.ask.step_count_max = 20000;
    refused(&q, TUTTI_ELACK, "it takes about 64512 steps to simulate (at most 20000)");
    tutti_topo_free(q.topo);
}

/* The same 1 GiB: pieces of the trees share ports, so they are played by the clock, at 150 ns a
 * step; the ring is not, so about as many steps may pass. */
TEST(what_takes_too_long_is_refused_with_figures)
{
    struct question q = question("switch:n=1024", "double-binary-tree", GIB);

    q.ask.seconds_max = 1;
    CHECK_INT(predict(&q), -TUTTI_ETIME);
    CHECK(strstr(q.err.text, "'double-binary-tree' on 'switch:n=1024' takes about ") == q.err.text);
    CHECK(strstr(q.err.text, " to simulate (at most 1 s); not folded: ") != NULL);
    q.ask.algorithm = "ring";
    q.ask.fold = "off";
    CHECK_OK(predict(&q), q.err);
    tutti_topo_free(q.topo);
    q = question("ring:n=65536", "ring", GIB);
    q.ask.fold = "off";
    q.ask.seconds_max = 60;
    refused(&q, TUTTI_ETIME,
            "'ring' on 'ring:n=65536' takes about 2.6e+10 steps, 103 s and 0.1 GiB to simulate (at "
            "most 60 s); not folded: fold is off");
    tutti_topo_free(q.topo);
    q = question("ring:n=8", "ring", GIB);
    q.ask.fold = "off";
    q.ask.seconds_max = 1;
    q.ask.force = true;
    CHECK_OK(predict(&q), q.err);
    tutti_topo_free(q.topo);
}

/* Of Tutti's own ring, by NCCL's figures. */
static tutti_ps plain_ring_ps(const struct question *q)
{
    struct question plain = *q;

    plain.ask.protocols = tutti_protocols(NULL);
    return time_of(&plain, "ring");
}

/* A launch takes longer by each channel of NCCL's, at a price of its own before 2.22; other
 * algorithms know no such channels. */
TEST(channels_of_nccl_cost_by_its_version)
{
    static const char *const versions[] = {"2.21.5", "2.22.3", "2.28.9"};
    struct question q = question("dgx-a100", "nccl:ring", 1 << 20);
    struct tutti_protocol costs[TUTTI_PROTOCOLS];

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        tutti_ps plain;

        for (int p = 0; p < TUTTI_PROTOCOLS; p++)
            costs[p] = tutti_protocols(&(size_t){0})[p];
        q.ask.model = TUTTI_MODEL_FAIR;
        q.ask.protocol = "auto";
        q.ask.protocols = costs;
        CHECK_OK(tutti_nccl_version_find(versions[i], &q.ask.as_nccl, &q.err), q.err);
        plain = time_of(&q, "nccl:ring");
        for (int p = 0; p < TUTTI_PROTOCOLS; p++) {
            costs[p].channel_ps = 1000;
            costs[p].early_channel_ps = 7000;
        }
        CHECK(q.answer.channel_count > 1);
        CHECK_INT(time_of(&q, "nccl:ring") - plain,
                  q.answer.channel_count * (i == 0 ? INT64_C(7000) : INT64_C(1000)));
    }
    CHECK_INT(time_of(&q, "ring"), plain_ring_ps(&q));
    tutti_topo_free(q.topo);
}

/* All to all at once over a ring: a hundred times as long as its steps say. Through a switch, or
 * each waiting for others between its messages, as many steps take no time. */
TEST(crowds_that_share_links_take_longer)
{
    struct question q = question("ring:n=200", "one-shot", 1 << 20);

    q.ask.model = TUTTI_MODEL_FAIR;
    q.ask.fold = "off";
    q.ask.seconds_max = 1;
    CHECK_INT(predict(&q), -TUTTI_ETIME);
    CHECK(strstr(q.err.text, "'one-shot' on 'ring:n=200' takes about ") == q.err.text);
    q.ask.model = TUTTI_MODEL_ALPHABETA;
    CHECK_OK(predict(&q), q.err);
    tutti_topo_free(q.topo);
    q = question("switch:n=200", "one-shot", 1 << 20);
    q.ask.model = TUTTI_MODEL_FAIR;
    q.ask.fold = "off";
    q.ask.seconds_max = 1;
    CHECK_OK(predict(&q), q.err);
    tutti_topo_free(q.topo);
}
