/* Token buckets of links: what they let through at once, in both network models, folded or not. */
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/sim/sim_world.h"
#include "tests/test.h"
#include "topo/topo.h"

/* 1 Gb/s: 125 bytes a microsecond; a bucket of 12500 bytes is full after 100 us. */
#define SHAPED "switch:n=2,bw=1Gb/s,lat=10us,burst=12500"

static const enum tutti_model models[] = {TUTTI_MODEL_ALPHABETA, TUTTI_MODEL_FAIR};

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

static struct story on(const char *spec, enum tutti_model model)
{
    struct story story = story_begin("2 ranks, 0-1 1Gb/s 10us");

    tutti_topo_free(story.topo);
    story.topo = machine(spec);
    story.opts.model = model;
    return story;
}

TEST(what_the_full_bucket_holds_takes_no_time)
{
    for (int i = 0; i < 2; i++) {
        struct story story = on(SHAPED, models[i]);

        sends(&story, 0, 1, 12500);
        receives(&story, 1, 0, 12500);
        EXPECT(&story, "0ps..10us 0 send->1 12500 B\n"
                       "0ps..10us 1 recv<-0 12500 B\n");
        story_end(&story);
    }
}

TEST(the_rest_goes_at_the_rate_of_the_link)
{
    for (int i = 0; i < 2; i++) {
        struct story story = on(SHAPED, models[i]);

        sends(&story, 0, 1, 25000); /* 12500 of them in 100 us */
        sends(&story, 0, 1, 1250);  /* finds the bucket empty */
        receives(&story, 1, 0, 25000);
        receives(&story, 1, 0, 1250);
        EXPECT(&story, "0ps..110us 0 send->1 25000 B\n"
                       "0ps..110us 1 recv<-0 25000 B\n"
                       "0ps..120us 0 send->1 1250 B\n"
                       "110us..120us 1 recv<-0 1250 B\n");
        story_end(&story);
    }
}

/* The law that shaped networks follow: alpha + max(0, bytes - min(burst, rate * idle)) / rate. */
TEST(an_idle_link_gathers_as_much_as_its_rate_gives)
{
    for (int i = 0; i < 2; i++) {
        struct story story = on(SHAPED, models[i]);

        sends(&story, 0, 1, 12500);
        computes(&story, 0, 40 * TUTTI_PS_PER_US, 0); /* its link is idle from 0 on */
        sends(&story, 0, 1, 12500);
        receives(&story, 1, 0, 12500);
        receives(&story, 1, 0, 12500);
        /* At 40 us there are 5000 bytes; the other 7500 take 60 us. */
        EXPECT(&story, "0ps..10us 0 send->1 12500 B\n"
                       "0ps..10us 1 recv<-0 12500 B\n"
                       "0ps..40us 0 compute 0 B\n"
                       "10us..110us 1 recv<-0 12500 B\n"
                       "40us..110us 0 send->1 12500 B\n");
        story_end(&story);
    }
}

TEST(no_bucket_is_deeper_than_full)
{
    for (int i = 0; i < 2; i++) {
        struct story story = on(SHAPED, models[i]);

        computes(&story, 0, 1000 * TUTTI_PS_PER_US, 0);
        sends(&story, 0, 1, 25000);
        receives(&story, 1, 0, 25000);
        EXPECT(&story, "0ps..1ms 0 compute 0 B\n"
                       "0ps..1.11ms 1 recv<-0 25000 B\n"
                       "1ms..1.11ms 0 send->1 25000 B\n");
        story_end(&story);
    }
}

/* A fast link without a bucket takes its own time; a slow one leaves no use for buckets. */
TEST(links_without_buckets_take_their_time)
{
    static const char *const text = "node a device\nnode b device\nnode s switch\n"
                                    "cable a s net %s 5us\n"
                                    "cable s b net 1Gb/s 5us burst=12500\n";
    static const struct {
        const char *rate;
        tutti_ps took_us;
    } cases[] = {{"10Gb/s", 110}, {"1.25Gb/s", 170}, {"500Mb/s", 410}};

    for (int i = 0; i < 6; i++) {
        struct story story = story_begin("2 ranks, 0-1 1Gb/s 10us");
        char machine_text[256];

        snprintf(machine_text, sizeof(machine_text), text, cases[i / 2].rate);
        tutti_topo_free(story.topo);
        story.topo = NULL;
        CHECK_OK(
            tutti_topo_parse("test", machine_text, strlen(machine_text), &story.topo, &story.err),
            story.err);
        story.opts.model = models[i % 2];
        sends(&story, 0, 1, 25000); /* 100 us at 1 Gb/s beyond the bucket */
        receives(&story, 1, 0, 25000);
        story_play(&story);
        CHECK_INT(story.played.total_ps, cases[i / 2].took_us * TUTTI_PS_PER_US);
        story_end(&story);
    }
}

static tutti_ps predicted(const struct tutti_topo *topo, const char *algorithm, uint64_t count,
                          enum tutti_model model, const char *fold, struct tutti_answer *answer)
{
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocol = "none",
                            .topo = topo,
                            .algorithm = algorithm,
                            .params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = count,
                                       .slot_count = TUTTI_SLOTS_DEFAULT},
                            .model = model,
                            .fold = fold};
    struct tutti_err err = {""};

    CHECK_OK(tutti_predict(&ask, answer, &err), err);
    return answer->time_ps;
}

/* Each step of a ring of 4 sends a quarter: the first takes a full bucket, and each later one what
 * came in while the link waited for latency. */
TEST(a_ring_takes_what_the_formula_says)
{
    struct tutti_topo *topo = machine("switch:n=4,bw=1Gb/s,lat=10us,burst=12500");
    struct tutti_answer answer;

    for (int i = 0; i < 2; i++) {
        /* 25000 bytes a step: 200 us; full: 100 us; later 10 us of the rate come for free. */
        CHECK_INT(predicted(topo, "ring", 25000, models[i], "auto", &answer),
                  (110 + 5 * (10 + 190)) * TUTTI_PS_PER_US);
        CHECK(!answer.folded);
        CHECK(!answer.beats_bound);
    }
    tutti_topo_free(topo);
}

/* No depth, no change: the same as without the key, to the picosecond; and a depth of one byte is
 * one byte less, whatever plays it. */
TEST(buckets_are_continuous_in_their_depth)
{
    struct tutti_topo *plain = machine("switch:n=8,bw=1Gb/s,lat=10us");
    struct tutti_topo *none = machine("switch:n=8,bw=1Gb/s,lat=10us,burst=0");
    struct tutti_topo *byte = machine("switch:n=8,bw=1Gb/s,lat=10us,burst=1");
    static const char *const algorithms[] = {"ring", "halving-doubling", "hierarchical", "one-shot",
                                             "two-shot"};
    struct tutti_answer answer;

    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        for (int m = 0; m < 2; m++) {
            tutti_ps full = predicted(plain, algorithms[i], 100000, models[m], "off", &answer);
            tutti_ps less = predicted(byte, algorithms[i], 100000, models[m], "auto", &answer);

            CHECK_INT(predicted(none, algorithms[i], 100000, models[m], "auto", &answer), full);
            CHECK(!answer.beats_bound || models[m] == TUTTI_MODEL_ALPHABETA);
            CHECK(less <= full);
            CHECK(less >= full - 1000 * 8000); /* 8 ns a byte; far fewer than 1000 messages */
        }
    }
    tutti_topo_free(plain);
    tutti_topo_free(none);
    tutti_topo_free(byte);
}

/* Whatever is shaped: deeper is never slower under alphabeta for rings, fold auto is fold off, and
 * the bound holds under fair. */
TEST(random_buckets_fold_to_the_same_and_keep_to_the_bound)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (int round = 0; round < 40; round++) {
        static const char *const shapes[] = {"switch:n=4", "ring:n=6", "torus:3x3", "full:n=5",
                                             "fattree:arity=2,levels=2"};
        static const char *const algorithms[] = {"ring", "recursive-doubling", "binomial"};
        const char *shape = shapes[tutti_random_below(&random, 5)];
        const char *algorithm = algorithms[tutti_random_below(&random, 3)];
        uint64_t count = 1 + tutti_random_below(&random, 100000);
        tutti_ps last = INT64_MAX;

        for (uint32_t burst = 0; burst <= 64000; burst = burst * 4 + 1000) {
            char spec[128];
            struct tutti_answer off;
            struct tutti_answer answer;
            struct tutti_topo *topo;

            snprintf(spec, sizeof(spec), "%s,bw=1Gb/s,lat=10us,burst=%u", shape, burst);
            topo = machine(spec);
            (void)predicted(topo, algorithm, count, TUTTI_MODEL_FAIR, "off", &off);
            CHECK(!off.beats_bound);
            CHECK_INT(predicted(topo, algorithm, count, TUTTI_MODEL_FAIR, "auto", &answer),
                      off.time_ps);
            (void)predicted(topo, algorithm, count, TUTTI_MODEL_ALPHABETA, "off", &off);
            CHECK_INT(predicted(topo, algorithm, count, TUTTI_MODEL_ALPHABETA, "auto", &answer),
                      off.time_ps);
            CHECK(off.time_ps <= last);
            last = off.time_ps;
            tutti_topo_free(topo);
        }
    }
}

/* With data, on the stage, times are the same. */
TEST(carrying_data_takes_as_long)
{
    for (int i = 0; i < 2; i++) {
        tutti_ps total_ps[2];

        for (int carry = 0; carry < 2; carry++) {
            struct story story = on(SHAPED, models[i]);

            story.opts.carry = carry == 1;
            sends(&story, 0, 1, 25000);
            computes(&story, 0, 30 * TUTTI_PS_PER_US, 0);
            sends(&story, 0, 1, 25000);
            receives(&story, 1, 0, 25000);
            receives(&story, 1, 0, 25000);
            story_play(&story);
            total_ps[carry] = story.played.total_ps;
            story_end(&story);
        }
        CHECK_INT(total_ps[0], total_ps[1]);
    }
}

/* What buckets hold counts for the bound: (2 * 3/4 * 1 MB - burst) / rate. */
TEST(the_bound_gives_what_the_buckets_hold)
{
    struct tutti_topo *plain = machine("switch:n=4,bw=1Gb/s,lat=10us");
    struct tutti_topo *shaped = machine("switch:n=4,bw=1Gb/s,lat=10us,burst=12500");
    struct tutti_contract contract = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 250000};
    struct tutti_bound without;
    struct tutti_bound with;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_bound(plain, &contract, &without, &err), err);
    CHECK_OK(tutti_topo_bound(shaped, &contract, &with, &err), err);
    CHECK_INT(without.bandwidth_ps - with.bandwidth_ps, 100 * TUTTI_PS_PER_US);
    contract.count = 100;
    CHECK_OK(tutti_topo_bound(shaped, &contract, &with, &err), err);
    CHECK_INT(with.bandwidth_ps, 0);
    CHECK_INT(with.time_ps, with.latency_ps);
    tutti_topo_free(plain);
    tutti_topo_free(shaped);
}

static void round_trip(const char *text)
{
    struct tutti_topo *topo = NULL;
    struct tutti_topo *again = NULL;
    struct tutti_err err = {""};
    char *printed = NULL;

    CHECK_OK(tutti_topo_parse("test", text, strlen(text), &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_topo_print(topo, &printed, &err), err);
    REQUIRE(printed != NULL);
    CHECK_TEXT(printed, text);
    CHECK_OK(tutti_topo_parse("test", printed, strlen(printed), &again, &err), err);
    REQUIRE(again != NULL);
    CHECK(again->has_bursts == topo->has_bursts);
    for (uint32_t l = 0; l < topo->link_count; l++)
        CHECK_INT(tutti_topo_link(again, l).burst_bytes, tutti_topo_link(topo, l).burst_bytes);
    tutti_topo_free(topo);
    tutti_topo_free(again);
    free(printed);
}

TEST(files_say_them)
{
    round_trip("topology two\n"
               "source a test\n"
               "node a device rank=0\n"
               "node b device rank=1\n"
               "link a b net 125MB/s 10us burst=18000\n"
               "link b a net 125MB/s 10us\n"
               "levels 2\n");
}

static void refuses(const char *text, const char *message)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_parse("test", text, strlen(text), &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(topo == NULL);
}

TEST(what_cannot_be_is_refused)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_from_spec("switch:n=2,burst=16M", &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "preset 'switch': key 'burst': '16M' is too large (at most 16777215 bytes)");
    CHECK_INT(tutti_topo_from_spec("ring:n=4,burst=much", &topo, &err), -TUTTI_EINVAL);
    refuses("node a device\nnode b device\ncable a b net 1GB/s 1us burst=1G\n",
            "test: line 3: a link with a burst of '1G' (at most 16777215 bytes)");
    refuses("node a device\nnode b device\n"
            "cable a b net 1GB/s 1us burst=9M\ncable a b net 1GB/s 1us burst=9M\n",
            "test: links from 'a' to 'b' have bursts too large to add up (16777215 bytes)");
}

/* A rule says the links of these, and a list those of the others. */
TEST(every_preset_that_takes_one_gives_it_to_its_links)
{
    static const char *const specs[] = {"switch:n=4",
                                        "ring:n=4",
                                        "ring:n=2",
                                        "mesh:3x3",
                                        "torus:4x4x4",
                                        "full:n=4",
                                        "fattree:arity=4,levels=2"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        char spec[64];
        struct tutti_topo *topo = machine(specs[i]);

        CHECK(!topo->has_bursts);
        tutti_topo_free(topo);
        snprintf(spec, sizeof(spec), "%s,burst=4K", specs[i]);
        topo = machine(spec);
        CHECK(topo->has_bursts);
        for (uint32_t l = 0; l < topo->link_count; l++)
            CHECK_INT(tutti_topo_link(topo, l).burst_bytes, 4096);
        tutti_topo_free(topo);
    }
}
