/* Flows whose spines are drawn, as by the hashes of switches: ways that lead where they should, and
 * collisions that cost what two flows on one cable cost. */
#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "topo/perturb.h"

enum { HOPS_MAX = 32, SEEDS = 20 };

static const char *const specs[] = {"rail:nodes=12,gpus=2,group=3", "dgx-h100:nodes=4,group=2",
                                    "fattree:arity=4,levels=3,over=2", "fattree:arity=2,levels=4"};

static int draw(struct tutti_topo *topo, uint64_t seed, struct tutti_err *err)
{
    static struct tutti_perturb perturb; /* large */
    int status;

    perturb.item_count = 0;
    status = tutti_perturb_add(&perturb, "ecmp=hash", err);
    return status < 0 ? status : tutti_topo_perturb(topo, &perturb, seed, err);
}

static struct tutti_topo *drawn(const char *spec, uint64_t seed)
{
    struct tutti_topo *topo = machine(spec);
    struct tutti_err err = {""};

    CHECK_OK(draw(topo, seed, &err), err);
    return topo;
}

/* Whether the links lead from one rank to another, each from where the one before it ended. */
static bool leads(const struct tutti_topo *topo, uint32_t from, uint32_t to, const uint32_t *links,
                  uint32_t count)
{
    uint32_t at = tutti_topo_rank_node(topo, from);

    for (uint32_t i = 0; i < count; i++) {
        struct tutti_link link = tutti_topo_link(topo, links[i]);

        if (link.from != at)
            return false;
        at = link.to;
    }
    return at == tutti_topo_rank_node(topo, to);
}

TEST(a_drawn_way_leads_where_it_should_and_is_no_longer)
{
    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *calm = machine(specs[s]);
        struct tutti_topo *topo = drawn(specs[s], test_seed);
        struct tutti_topo *again = drawn(specs[s], test_seed);
        uint32_t others = 0;

        for (uint32_t pair = 0; pair < calm->rank_count * calm->rank_count; pair++) {
            uint32_t from = pair / calm->rank_count;
            uint32_t to = pair % calm->rank_count;
            uint32_t ways[3][HOPS_MAX];
            uint32_t count = tutti_topo_route(calm, from, to, ways[0], HOPS_MAX);

            CHECK_INT(tutti_topo_route(topo, from, to, ways[1], HOPS_MAX), count);
            CHECK_INT(tutti_topo_route(again, from, to, ways[2], HOPS_MAX), count);
            CHECK(leads(topo, from, to, ways[1], count));
            CHECK(memcmp(ways[1], ways[2], count * sizeof(ways[1][0])) == 0);
            others += memcmp(ways[0], ways[1], count * sizeof(ways[0][0])) != 0;
        }
        CHECK(others > 0);
        tutti_topo_free(calm);
        tutti_topo_free(topo);
        tutti_topo_free(again);
    }
}

/* Of 3584 flows between groups a spine gets an eighth, within five standard deviations (20). */
TEST(each_spine_gets_its_share)
{
    struct tutti_topo *topo = drawn("rail:nodes=64,gpus=1,group=8", test_seed);
    uint32_t flows[8] = {0};
    uint32_t count = 0;

    for (uint32_t from = 0; from < topo->rank_count; from++) {
        for (uint32_t to = 0; to < topo->rank_count; to++) {
            uint32_t links[HOPS_MAX];
            uint32_t hops = tutti_topo_route(topo, from, to, links, HOPS_MAX);

            for (uint32_t h = 0; h < hops; h++) {
                char name[TUTTI_NODE_NAME_BYTES];
                unsigned spine;

                if (sscanf(tutti_topo_node_name(topo, tutti_topo_link(topo, links[h]).to, name),
                           "spine%u", &spine) != 1)
                    continue;
                REQUIRE(spine < 8);
                flows[spine]++;
                count++;
            }
        }
    }
    CHECK_INT(count, 64 * 56);
    for (int i = 0; i < 8; i++)
        CHECK(flows[i] > 448 - 5 * 20 && flows[i] < 448 + 5 * 20);
    tutti_topo_free(topo);
}

static bool share_a_link(const struct tutti_topo *topo, const uint32_t pairs[2][2])
{
    uint32_t links[2][HOPS_MAX];
    uint32_t count[2];

    for (int i = 0; i < 2; i++)
        count[i] = tutti_topo_route(topo, pairs[i][0], pairs[i][1], links[i], HOPS_MAX);
    for (uint32_t a = 0; a < count[0]; a++)
        for (uint32_t b = 0; b < count[1]; b++)
            if (links[0][a] == links[1][b])
                return true;
    return false;
}

static tutti_ps time_of(const struct tutti_topo *topo, uint64_t bytes, const char *fold)
{
    struct tutti_ask ask = {.size = sizeof(struct tutti_ask),
                            .protocol = "none",
                            .topo = topo,
                            .algorithm = "halving-doubling",
                            .params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = bytes / 4},
                            .model = TUTTI_MODEL_FAIR,
                            .fold = fold};
    struct tutti_answer answer = {.time_ps = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    return answer.time_ps;
}

/* Two groups of two hosts, two spines: half of each buffer is exchanged inside the groups, a
 * quarter across, 0 with 2 and 1 with 3, and all that again. Where the two flows across, either
 * way, have drawn the same spine, they halve its cable's 50 GB/s: a quarter of the buffer takes
 * twice as long, twice. */
TEST(two_flows_on_one_spine_take_twice_as_long)
{
    static const char spec[] = "rail:nodes=4,gpus=1,group=2";
    static const uint32_t there[2][2] = {{0, 2}, {1, 3}};
    static const uint32_t back[2][2] = {{2, 0}, {3, 1}};
    const uint64_t bytes = UINT64_C(1) << 30;
    const tutti_ps more_ps = (tutti_ps)(2 * (bytes / 4) * 20); /* 20 ps a byte */
    struct tutti_topo *calm = machine(spec);
    tutti_ps evenly_ps = time_of(calm, bytes, "auto");
    uint32_t met = 0;

    CHECK(!share_a_link(calm, there) && !share_a_link(calm, back));
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct tutti_topo *topo = drawn(spec, test_seed + i);
        bool meet = share_a_link(topo, there) || share_a_link(topo, back);
        tutti_ps expected_ps = evenly_ps + (meet ? more_ps : 0);
        tutti_ps time_ps = time_of(topo, bytes, "auto");

        CHECK_INT(time_of(topo, bytes, "off"), time_ps);
        if (time_ps < expected_ps - expected_ps / 500 || time_ps > expected_ps + expected_ps / 500)
            TEST_FAIL("seed %" PRIu64 ": %s, and it takes %" PRId64 " ps", test_seed + i,
                      meet ? "they meet" : "they do not meet", time_ps);
        met += meet;
        tutti_topo_free(topo);
    }
    CHECK(met > 0 && met < SEEDS); /* three of four */
    tutti_topo_free(calm);
}

TEST(where_there_is_no_choice_it_is_refused)
{
    static const char *const none[] = {"rail:nodes=2,gpus=1", "torus:4x4", "switch:n=4", "dgx-h100",
                                       "fattree:arity=4,levels=1"};
    struct tutti_err err;

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        struct tutti_topo *topo = machine(none[i]);

        CHECK_INT(draw(topo, test_seed, &err), -TUTTI_EINVAL);
        CHECK(strstr(err.text, "there is one way from NIC to NIC") != NULL);
        tutti_topo_free(topo);
    }
}
