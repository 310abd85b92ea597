/* Perturbations: what the words mean, what they change in a machine, and what they leave alone. */
#include "topo/perturb.h"

#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/machines.h"
#include "tests/test.h"

/* The largest machine that is asked for all its routes. */
enum { ROUTES_RANKS_MAX = 64, HOPS_MAX = 256 };

static struct tutti_perturb perturb_of(const char *words)
{
    struct tutti_perturb perturb = {.item_count = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_perturb_add(&perturb, words, &err), err);
    return perturb;
}

static struct tutti_topo *perturbed(const char *spec, const char *words, uint64_t seed)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_perturb perturb = perturb_of(words);
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_perturb(topo, &perturb, seed, &err), err);
    return topo;
}

/* ---- words ----------------------------------------------------------------------------------- */

TEST(words_are_read)
{
    struct tutti_perturb perturb =
        perturb_of("slow-link=a-b:c:1.25,slow-link=3:2,slow-node=0.5%:1000000,latency=0..1.000001,"
                   "rates=1/0.5/0.25,start=1.5us");
    const struct tutti_perturb_item *item = perturb.items;

    CHECK_INT(perturb.item_count, 6);
    CHECK_INT(item[0].whom, TUTTI_PERTURB_NAMED);
    CHECK_TEXT(item[0].name, "a-b:c");
    CHECK_INT(item[0].factors[0], 1250000);
    CHECK_INT(item[1].whom, TUTTI_PERTURB_COUNT);
    CHECK_INT(item[1].number, 3);
    CHECK_INT(item[1].turn, 1);
    CHECK_INT(item[2].whom, TUTTI_PERTURB_PERCENT);
    CHECK_INT(item[2].number, 500000);
    CHECK_INT(item[2].factors[0], INT64_C(1000000000000));
    CHECK_INT(item[3].factors[0], 0);
    CHECK_INT(item[3].factors[1], 1000001);
    CHECK_INT(item[4].factor_count, 3);
    CHECK_INT(item[4].factors[2], 250000);
    CHECK_INT(item[5].start_ps_max, 1500000);
    CHECK_TEXT(item[5].text, "start=1.5us");
    perturb = perturb_of("latency=2");
    CHECK_INT(perturb.items[0].factors[0], 2000000);
    CHECK_INT(perturb.items[0].factors[1], 2000000);
}

static void refused(const char *words, const char *message)
{
    static struct tutti_perturb perturb;
    struct tutti_err err = {""};

    perturb.item_count = 0;
    CHECK_INT(tutti_perturb_add(&perturb, words, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
}

TEST(words_that_are_wrong_are_refused)
{
    static const char *const slow = "(slow-link=N:F, N%:F or NODE-NODE:F; F times slower, from 1)";
    static const char *const slow_words[][2] = {
        {"slow-link=1:0.5", "'slow-link=1:0.5': not a factor '0.5' "},
        {"slow-link=1:", "'slow-link=1:': not a factor '' "},
        {"slow-link=1:2x", "'slow-link=1:2x': not a factor '2x' "},
        {"slow-link=1:1e3", "'slow-link=1:1e3': not a factor '1e3' "},
        {"slow-link=1:2.", "'slow-link=1:2.': not a factor '2.' "},
        {"slow-link=1:1.0000001", "'slow-link=1:1.0000001': not a factor '1.0000001' "},
        {"slow-link=1:1000000.1", "'slow-link=1:1000000.1': not a factor '1000000.1' "},
        {"slow-link=1:99999999999999999999",
         "'slow-link=1:99999999999999999999': not a factor '99999999999999999999' "},
        {"slow-link=1.5:2", "'slow-link=1.5:2': not a whole number '1.5' "},
        {"slow-link=101%:2", "'slow-link=101%:2': more than all '101%' "},
        {"slow-link=1x%:2", "'slow-link=1x%:2': not a share '1x%' "},
        {"slow-link=:2", "'slow-link=:2': nobody is named '' "},
        {"slow-link=1", "'slow-link=1': no factor behind '1' "},
        {"slow-link", "'slow-link' says nothing "},
        {"slow-link=", "'slow-link=' says nothing "},
    };
    char message[256];

    for (size_t i = 0; i < sizeof(slow_words) / sizeof(slow_words[0]); i++) {
        snprintf(message, sizeof(message), "%s%s", slow_words[i][1], slow);
        refused(slow_words[i][0], message);
    }
    refused("latency=1.2..1", "'latency=1.2..1': the highest is below the lowest: '1' "
                              "(latency=LOW..HIGH, factors such as 1..1.2)");
    refused("latency=1..", "'latency=1..': not a factor '' (latency=LOW..HIGH, factors such as "
                           "1..1.2)");
    refused("rates=1/0", "'rates=1/0': not a factor '0' (rates=F/F/F, factors of the rate such as "
                         "1/0.9/0.5)");
    refused("start=10", "'start=10': not a time '10' (a unit is needed: 500ns, 1.5us, 2ms, 1s)");
    refused("start=1us,start=2us", "'start=2us' comes after another 'start=' (one)");
    refused("fast-link=1:2",
            "unknown perturbation 'fast-link=1:2' (slow-link=, slow-node=, latency=, rates=, "
            "start= or ecmp=)");
    refused("ecmp=2", "'ecmp=2': not a way to spread flows '2' (ecmp=hash, a spine drawn for each "
                      "flow)");
    refused("ecmp=hash,ecmp=hash", "'ecmp=hash' comes after another 'ecmp=' (one)");
    refused("slow-link=1%:2,slow-link=1%:2",
            "'slow-link=1%:2' is given twice (once, or another slow-link)");
    refused("slow-node=host1:2,latency=1..2,slow-node=host1:2.00",
            "'slow-node=host1:2.00' is given twice (once, or another slow-node)");
    refused("", "an empty word in '' (WHAT=VALUE,...)");
    refused("start=1us,", "an empty word in 'start=1us,' (WHAT=VALUE,...)");
}

TEST(too_many_words_are_refused)
{
    char words[4096] = "slow-link=1:2";
    char factors[4096] = "rates=1";

    for (int i = 0; i < TUTTI_PERTURB_ITEMS_MAX; i++)
        snprintf(words + strlen(words), sizeof(words) - strlen(words), ",slow-link=1:%d", i + 3);
    refused(words, "too many perturbations (at most 64)");
    for (int i = 0; i < TUTTI_PERTURB_FACTORS_MAX; i++)
        strncat(factors, "/1", sizeof(factors) - strlen(factors) - 1);
    refused(factors, "'rates=1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1': more than 16 factors");
    memset(words, 'x', 300);
    words[300] = '\0';
    refused(words, "too long 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' (at most 159 "
                   "characters)");
}

/* ---- what changes ---------------------------------------------------------------------------- */

static struct tutti_link find_link(const struct tutti_topo *topo, const char *from, const char *to)
{
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        char name[TUTTI_NODE_NAME_BYTES];

        if (strcmp(tutti_topo_node_name(topo, link.from, name), from) == 0 &&
            strcmp(tutti_topo_node_name(topo, link.to, name), to) == 0)
            return link;
    }
    TEST_FAIL("'%s' has no link from '%s' to '%s'", topo->name, from, to);
    return tutti_topo_link(topo, 0);
}

static uint32_t slow_count(const struct tutti_topo *topo, uint64_t bytes_per_s)
{
    uint32_t count = 0;

    for (uint32_t l = 0; l < topo->link_count; l++)
        count += tutti_topo_link(topo, l).bytes_per_s == bytes_per_s;
    return count;
}

TEST(a_cable_is_slow_both_ways_and_no_other_is)
{
    struct tutti_topo *topo = perturbed("ring:n=5,bw=30GB/s,lat=1us", "slow-link=dev3-dev2:1.5", 1);

    CHECK_INT(find_link(topo, "dev2", "dev3").bytes_per_s, 20 * GIGA);
    CHECK_INT(find_link(topo, "dev3", "dev2").bytes_per_s, 20 * GIGA);
    CHECK_INT(slow_count(topo, 30 * GIGA), 8);
    CHECK(strstr(topo->source, "; perturbed: slow-link=dev3-dev2:1.5 (seed 1)") != NULL);
    tutti_topo_free(topo);
}

TEST(a_slow_host_slows_what_is_in_it_and_what_leaves_it)
{
    struct tutti_topo *calm = machine("dgx-h100:nodes=3");
    struct tutti_topo *topo = perturbed("dgx-h100:nodes=3", "slow-node=host1:2", 1);

    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        bool slow =
            tutti_topo_node(topo, link.from).host == 1 || tutti_topo_node(topo, link.to).host == 1;

        CHECK_INT(link.bytes_per_s, tutti_topo_link(calm, l).bytes_per_s / (slow ? 2 : 1));
        CHECK_INT(link.latency_ps, tutti_topo_link(calm, l).latency_ps);
    }
    tutti_topo_free(topo);
    tutti_topo_free(calm);
}

TEST(a_slow_device_slows_its_own_links)
{
    struct tutti_topo *topo = perturbed("switch:n=4,bw=30GB/s,lat=1us", "slow-node=dev2:3", 1);

    CHECK_INT(slow_count(topo, 10 * GIGA), 2);
    CHECK_INT(find_link(topo, "dev2", "switch").bytes_per_s, 10 * GIGA);
    tutti_topo_free(topo);
}

/* Every cable's latency lies in the range, both directions alike, and they differ. */
TEST(latencies_are_spread_over_the_range)
{
    struct tutti_topo *topo = perturbed("ring:n=100,bw=1GB/s,lat=1us", "latency=1..1.2", 7);
    tutti_ps least_ps = INT64_MAX;
    tutti_ps most_ps = 0;

    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        char from[TUTTI_NODE_NAME_BYTES];
        char to[TUTTI_NODE_NAME_BYTES];
        struct tutti_link back = find_link(topo, tutti_topo_node_name(topo, link.to, to),
                                           tutti_topo_node_name(topo, link.from, from));

        CHECK_INT(link.latency_ps, back.latency_ps);
        CHECK_INT(link.bytes_per_s, GIGA);
        least_ps = link.latency_ps < least_ps ? link.latency_ps : least_ps;
        most_ps = link.latency_ps > most_ps ? link.latency_ps : most_ps;
    }
    CHECK(least_ps >= 1000000 && least_ps < 1020000);
    CHECK(most_ps <= 1200000 && most_ps > 1180000);
    tutti_topo_free(topo);
}

TEST(rates_are_those_of_the_list_in_about_equal_parts)
{
    struct tutti_topo *topo = perturbed("ring:n=300,bw=8GB/s,lat=1us", "rates=1/0.5/0.25", 7);
    uint32_t eight = slow_count(topo, 8 * GIGA);
    uint32_t four = slow_count(topo, 4 * GIGA);
    uint32_t two = slow_count(topo, 2 * GIGA);

    CHECK_INT(eight + four + two, 600);
    CHECK(eight > 140 && eight < 260);
    CHECK(four > 140 && four < 260);
    tutti_topo_free(topo);
}

TEST(rates_and_latencies_keep_within_what_links_have)
{
    struct tutti_topo *topo =
        perturbed("ring:n=3,bw=2B/s,lat=1us", "rates=0.1,slow-link=3:1000000,latency=1000000", 1);

    CHECK_INT(slow_count(topo, 1), 6);
    CHECK_INT(tutti_topo_link(topo, 0).latency_ps, TUTTI_PS_PER_S);
    tutti_topo_free(topo);
    topo = perturbed("ring:n=3,bw=2000000000GB/s,lat=9000000s", "rates=1000000,latency=2", 1);
    CHECK_INT(tutti_topo_link(topo, 0).bytes_per_s, INT64_MAX);
    CHECK_INT(tutti_topo_link(topo, 0).latency_ps, INT64_MAX);
    tutti_topo_free(topo);
}

static bool same_link(const struct tutti_topo *a, const struct tutti_topo *b, uint32_t l)
{
    struct tutti_link one = tutti_topo_link(a, l);
    struct tutti_link other = tutti_topo_link(b, l);

    return memcmp(&one, &other, sizeof(one)) == 0;
}

TEST(nothing_changes_where_nothing_is_asked_for)
{
    struct tutti_topo *calm = machine("dgx-h100:nodes=2");
    struct tutti_topo *topo =
        perturbed("dgx-h100:nodes=2", "slow-link=0:2,slow-node=0%:2,latency=1..1,rates=1", 7);

    for (uint32_t l = 0; l < topo->link_count; l++)
        CHECK(same_link(topo, calm, l));
    tutti_topo_free(topo);
    tutti_topo_free(calm);
}

/* ---- draws ----------------------------------------------------------------------------------- */

static const char *const specs[] = {
    "ring:n=17,bw=64GB/s",
    "switch:n=9,bw=64GB/s",
    "torus:3x4x5,bw=64GB/s",
    "dgx-h100:nodes=4",
    "dgx-1v",
    "fattree:arity=4,levels=2",
    "rail:nodes=6,gpus=4,group=2",
    "tpu-v4:2x2x4",
    "full:n=6",
};

enum { SPECS = sizeof(specs) / sizeof(specs[0]) };

/* The slow links of one are slow in the other. */
static void check_nested(const struct tutti_topo *calm, const struct tutti_topo *few,
                         const struct tutti_topo *more)
{
    for (uint32_t l = 0; l < calm->link_count; l++) {
        if (tutti_topo_link(few, l).bytes_per_s < tutti_topo_link(calm, l).bytes_per_s)
            CHECK(tutti_topo_link(more, l).bytes_per_s < tutti_topo_link(calm, l).bytes_per_s);
    }
}

TEST(more_slow_ones_are_the_same_and_others)
{
    for (uint32_t i = 0; i < SPECS; i++) {
        struct tutti_topo *calm = machine(specs[i]);
        struct tutti_topo *before = machine(specs[i]);

        for (uint32_t n = 1; n <= 4; n++) {
            char words[64];
            struct tutti_topo *topo;
            uint32_t changed = 0;

            snprintf(words, sizeof(words), "slow-link=%u:2", n);
            topo = perturbed(specs[i], words, test_seed);
            for (uint32_t l = 0; l < calm->link_count; l++)
                changed +=
                    tutti_topo_link(topo, l).bytes_per_s != tutti_topo_link(calm, l).bytes_per_s;
            CHECK_INT(changed, 2 * n);
            check_nested(calm, before, topo);
            tutti_topo_free(before);
            before = topo;
        }
        tutti_topo_free(before);
        tutti_topo_free(calm);
    }
}

TEST(every_cable_can_be_drawn_and_no_more)
{
    struct tutti_topo *topo = machine("ring:n=5,bw=64GB/s");
    struct tutti_perturb perturb = perturb_of("slow-link=5:2");
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_perturb(topo, &perturb, test_seed, &err), err);
    CHECK_INT(perturb.items[0].link_count, 10);
    perturb = perturb_of("slow-link=100%:2");
    CHECK_OK(tutti_topo_perturb(topo, &perturb, test_seed, &err), err);
    CHECK_INT(slow_count(topo, 16 * GIGA), 10);
    perturb = perturb_of("slow-link=6:2");
    CHECK_OK(tutti_perturb_check(topo, &perturb, &err), err); /* it counts links alone */
    CHECK_INT(tutti_topo_perturb(topo, &perturb, test_seed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'slow-link=6:2': there are 5 cables (at most so many)");
    perturb = perturb_of("slow-node=6:2");
    CHECK_INT(tutti_perturb_check(topo, &perturb, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'slow-node=6:2': 'ring:n=5,bw=64GB/s, perturbed' has 5 devices "
                         "(at most so many)");
    CHECK_INT(tutti_topo_perturb(topo, &perturb, test_seed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'slow-node=6:2': there are 5 devices (at most so many)");
    tutti_topo_free(topo);
}

/* 1 % of 400 cables are 4; of 40, one at least. */
TEST(shares_are_rounded_and_one_at_least)
{
    static const char *const rings[] = {"ring:n=400,bw=64GB/s", "ring:n=40,bw=64GB/s"};

    for (uint32_t i = 0; i < 2; i++) {
        struct tutti_topo *topo = perturbed(rings[i], "slow-link=1%:2", test_seed);

        CHECK_INT(slow_count(topo, 32 * GIGA), i == 0 ? 8 : 2);
        tutti_topo_free(topo);
        topo = perturbed(rings[i], "slow-node=1%:2", test_seed);
        CHECK(slow_count(topo, 32 * GIGA) >= (i == 0 ? 10 : 4));
        CHECK(slow_count(topo, 32 * GIGA) <= (i == 0 ? 16 : 4));
        tutti_topo_free(topo);
    }
}

/* Two words of a kind draw anew, another seed draws others, and other kinds change nothing. */
TEST(draws_depend_on_seed_kind_and_turn_alone)
{
    struct tutti_topo *one = perturbed("ring:n=200,bw=64GB/s", "slow-link=50:2", 1);
    struct tutti_topo *other = perturbed("ring:n=200,bw=64GB/s", "slow-link=50:2", 2);
    struct tutti_topo *twice =
        perturbed("ring:n=200,bw=64GB/s", "slow-link=50:2,slow-link=49:2", 1);
    struct tutti_topo *mixed =
        perturbed("ring:n=200,bw=64GB/s", "start=1us,latency=1..2,slow-link=50:2,rates=1", 1);
    uint32_t differ = 0;

    for (uint32_t l = 0; l < one->link_count; l++) {
        differ += tutti_topo_link(one, l).bytes_per_s != tutti_topo_link(other, l).bytes_per_s;
        CHECK_INT(tutti_topo_link(one, l).bytes_per_s, tutti_topo_link(mixed, l).bytes_per_s);
    }
    CHECK(differ > 20);
    CHECK(slow_count(twice, 32 * GIGA) > 50);
    CHECK(slow_count(twice, 16 * GIGA) < 60);
    tutti_topo_free(one);
    tutti_topo_free(other);
    tutti_topo_free(twice);
    tutti_topo_free(mixed);
}

TEST(starts_are_drawn_for_each_rank)
{
    struct tutti_perturb perturb = perturb_of("latency=2,start=10us");
    tutti_ps *starts = NULL;
    tutti_ps *again = NULL;
    tutti_ps most_ps = 0;
    struct tutti_err err = {""};

    CHECK_OK(tutti_perturb_starts(&perturb, test_seed, 1000, &starts, &err), err);
    CHECK_OK(tutti_perturb_starts(&perturb, test_seed, 10, &again, &err), err);
    REQUIRE(starts != NULL && again != NULL);
    for (uint32_t r = 0; r < 1000; r++) {
        CHECK(starts[r] >= 0 && starts[r] <= 10000000);
        most_ps = starts[r] > most_ps ? starts[r] : most_ps;
    }
    CHECK(memcmp(starts, again, 10 * sizeof(*starts)) == 0);
    CHECK(most_ps > 9900000);
    free(starts);
    free(again);
    perturb = perturb_of("latency=2");
    CHECK_OK(tutti_perturb_starts(&perturb, test_seed, 10, &starts, &err), err);
    CHECK(starts == NULL);
}

/* ---- what does not change -------------------------------------------------------------------- */

static void check_routes(const struct tutti_topo *a, const struct tutti_topo *b)
{
    for (uint32_t from = 0; from < a->rank_count; from++) {
        for (uint32_t to = 0; to < a->rank_count; to++) {
            uint32_t links[2][HOPS_MAX];
            uint32_t count = tutti_topo_route(a, from, to, links[0], HOPS_MAX);

            CHECK_INT(tutti_topo_route(b, from, to, links[1], HOPS_MAX), count);
            CHECK(memcmp(links[0], links[1], count * sizeof(uint32_t)) == 0);
        }
    }
}

static const char *const words_of_all[] = {"slow-link=1:4", "slow-node=1:1.2,latency=1..1.2",
                                           "rates=1/0.9/0.5,slow-link=10%:3",
                                           "latency=0.5..2,slow-node=30%:2,slow-link=2:2"};

/* Read back from its text a machine that is perturbed is the same machine; and one that is
 * perturbed after it was read back is, too. */
static void check_text(const char *spec, const char *words)
{
    struct tutti_topo *topo = perturbed(spec, words, test_seed);
    struct tutti_topo *calm = machine(spec);
    struct tutti_perturb perturb = perturb_of(words);
    struct tutti_topo *texts[2] = {NULL, NULL};
    struct tutti_err err = {""};
    char *text[2] = {NULL, NULL};

    if (topo->rank_count <= ROUTES_RANKS_MAX)
        check_routes(calm, topo);
    CHECK_OK(tutti_topo_print(topo, &text[0], &err), err);
    CHECK_OK(tutti_topo_print(calm, &text[1], &err), err);
    for (int i = 0; i < 2; i++)
        CHECK_OK(tutti_topo_parse("text", text[i], strlen(text[i]), &texts[i], &err), err);
    CHECK_OK(tutti_topo_perturb(texts[1], &perturb, test_seed, &err), err);
    for (int i = 0; i < 2; i++)
        free(text[i]);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tutti_topo_print(texts[i], &text[i], &err), err);
        tutti_topo_free(texts[i]);
    }
    CHECK_TEXT(text[1], text[0]);
    for (int i = 0; i < 2; i++)
        free(text[i]);
    tutti_topo_free(topo);
    tutti_topo_free(calm);
}

TEST(routes_stay_and_texts_of_machines_draw_the_same)
{
    for (uint32_t i = 0; i < SPECS; i++)
        for (uint32_t w = 0; w < sizeof(words_of_all) / sizeof(words_of_all[0]); w++)
            check_text(specs[i], words_of_all[w]);
}

/* Slower links, never a lower bound; and it is that of the links as they are, however the machine
 * came to have them. */
TEST(bounds_are_those_of_the_perturbed_machine)
{
    for (uint32_t i = 0; i < SPECS * TUTTI_BARRIER; i++) {
        const char *spec = specs[i % SPECS];
        struct tutti_contract contract = {.collective = (enum tutti_collective)(i / SPECS),
                                          .dtype = TUTTI_FLOAT32,
                                          .op = TUTTI_SUM,
                                          .count = 1 << 20};
        struct tutti_topo *calm = machine(spec);
        struct tutti_topo *topo = perturbed(spec, "slow-node=1:2,slow-link=2:3", test_seed);
        struct tutti_bound bounds[3];
        struct tutti_err err = {""};
        struct tutti_topo *read = NULL;
        char *text = NULL;

        CHECK_OK(tutti_topo_print(topo, &text, &err), err);
        CHECK_OK(tutti_topo_parse("text", text, strlen(text), &read, &err), err);
        CHECK_OK(tutti_topo_bound(calm, &contract, &bounds[0], &err), err);
        CHECK_OK(tutti_topo_bound(topo, &contract, &bounds[1], &err), err);
        CHECK_OK(tutti_topo_bound(read, &contract, &bounds[2], &err), err);
        CHECK(bounds[1].bandwidth_ps >= bounds[0].bandwidth_ps);
        CHECK_INT(bounds[1].time_ps, bounds[2].time_ps);
        CHECK_INT(bounds[1].exact, bounds[2].exact);
        CHECK_TEXT(bounds[1].binding, bounds[2].binding);
        free(text);
        tutti_topo_free(read);
        tutti_topo_free(topo);
        tutti_topo_free(calm);
    }
}
