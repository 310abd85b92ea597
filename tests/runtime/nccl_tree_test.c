/* NCCL's trees: proved in all manners of cutting, priced, and joined as NCCL joins them. */
#include "tests/runtime/mutate.h"
#include "tests/runtime/price.h"
#include "tests/sim/nccl/nccl_cases.h"

TEST(trees_are_proved_whatever_the_hosts_the_channels_and_the_cuts)
{
    uint64_t proved_count = 0;

    for (uint32_t hosts = 1; hosts <= 17; hosts++) {
        for (uint32_t length = 1; length <= 8 && hosts * length <= 34; length++) {
            for (uint64_t i = 0; i < test_count(40, 6); i++) {
                struct nccl_case c;

                nccl_case_draw(&c, TUTTI_ALLREDUCE, hosts, length, i);
                tutti_schedule_free(nccl_case_prove("tree", &c));
                proved_count++;
            }
        }
    }
    printf("%" PRIu64 " schedules\n", proved_count);
}

TEST(no_mutant_of_a_tree_survives)
{
    uint64_t mutant_count = 0;

    for (uint64_t i = 0; i < 6; i++) {
        struct nccl_case c;
        struct tutti_schedule *schedule;

        nccl_case_draw(&c, TUTTI_ALLREDUCE, 1 + (uint32_t)i % 3, 2, i);
        c.params.coll.count = c.params.coll.count % 9 + 1;
        nccl_case_shares(&c.params, i);
        schedule = nccl_case_prove("tree", &c);
        REQUIRE(schedule != NULL);
        mutant_count += mutate_all(schedule);
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " mutants refused\n", mutant_count);
}

/* ---- who is whose neighbour ------------------------------------------------------------------ */

static struct tutti_schedule *tree_of(const struct tutti_chains *chains, uint8_t pattern,
                                      uint32_t channel_count, uint64_t count)
{
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLREDUCE,
                                                .dtype = TUTTI_INT8,
                                                .count = count * channel_count,
                                                .channel_count = channel_count,
                                                .chunk_bytes = 1024},
                                       .count_lo = count,
                                       .count_mid = count,
                                       .count_hi = channel_count > 1 ? count : 0,
                                       .pattern = pattern};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_generate("tree", &params, chains, &schedule, &err), err);
    return schedule;
}

/* The peers that a rank sends to on a lane, "1 2", or "-". */
static const char *sends_to(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            char *buf, size_t buf_bytes)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    size_t used = 0;

    (void)snprintf(buf, buf_bytes, "-");
    tutti_cursor_open(&cursor, schedule, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL && used < buf_bytes) {
        if (step->kind == TUTTI_SEND)
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%u", used > 0 ? " " : "",
                                     step->peer);
    }
    return buf;
}

/* NCCL 2.28's trees of one rank a host, "node:parent/child0/child1", -1: none. */
static const struct {
    uint32_t n;
    const char *trees[2];
} tables[] = {
    {2, {"0:-1/-1/1 1:0/-1/-1", "0:1/-1/-1 1:-1/-1/0"}},
    {3, {"0:-1/-1/2 1:2/-1/-1 2:0/1/-1", "0:1/2/-1 1:-1/-1/0 2:0/-1/-1"}},
    {4, {"0:-1/-1/2 1:2/-1/-1 2:0/1/3 3:2/-1/-1", "0:1/-1/-1 1:3/2/0 2:1/-1/-1 3:-1/-1/1"}},
    {5,
     {"0:-1/-1/4 1:2/-1/-1 2:4/1/3 3:2/-1/-1 4:0/2/-1",
      "0:1/3/-1 1:-1/-1/0 2:3/-1/-1 3:0/2/4 4:3/-1/-1"}},
    {6,
     {"0:-1/-1/4 1:2/-1/-1 2:4/1/3 3:2/-1/-1 4:0/2/5 5:4/-1/-1",
      "0:1/-1/-1 1:5/3/0 2:3/-1/-1 3:1/4/2 4:3/-1/-1 5:-1/-1/1"}},
    {8,
     {"0:-1/-1/4 1:2/-1/-1 2:4/1/3 3:2/-1/-1 4:0/2/6 5:6/-1/-1 6:4/5/7 7:6/-1/-1",
      "0:1/-1/-1 1:3/2/0 2:1/-1/-1 3:7/5/1 4:5/-1/-1 5:3/6/4 6:5/-1/-1 7:-1/-1/3"}},
    {13,
     {"0:-1/-1/8 1:2/-1/-1 2:4/1/3 3:2/-1/-1 4:8/2/6 5:6/-1/-1 6:4/5/7 7:6/-1/-1 8:0/4/12 "
      "9:10/-1/-1 10:12/9/11 11:10/-1/-1 12:8/10/-1",
      "0:9/11/-1 1:-1/-1/9 2:3/-1/-1 3:5/2/4 4:3/-1/-1 5:9/3/7 6:7/-1/-1 7:5/6/8 8:7/-1/-1 "
      "9:1/5/0 10:11/-1/-1 11:0/10/12 12:11/-1/-1"}},
};

static void expect_table(const struct tutti_schedule *schedule, uint32_t tree, const char *at)
{
    uint32_t rank;
    int32_t parent;
    int32_t children[2];
    int length;

    for (; sscanf(at, "%" SCNu32 ":%" SCNd32 "/%" SCNd32 "/%" SCNd32 "%n", &rank, &parent,
                  &children[0], &children[1], &length) == 4;
         at += length) {
        char expected[32] = "-";
        char seen[32];
        int used = 0;

        if (parent >= 0)
            (void)snprintf(expected, sizeof(expected), "%d", parent);
        CHECK_TEXT(sends_to(schedule, rank, 2 * tree, seen, sizeof(seen)), expected);
        (void)snprintf(expected, sizeof(expected), "-");
        for (int i = 1; i >= 0; i--) { /* the second child first */
            if (children[i] >= 0)
                used += snprintf(expected + used, sizeof(expected) - (size_t)used, "%s%d",
                                 used > 0 ? " " : "", children[i]);
        }
        CHECK_TEXT(sends_to(schedule, rank, 2 * tree + 1, seen, sizeof(seen)), expected);
    }
    CHECK_INT(rank + 1, schedule->rank_count);
}

TEST(hosts_are_joined_by_nccls_pair_of_trees)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct tutti_chains chains = {.host_count = tables[i].n, .length = 1, .count = 1};
        struct tutti_schedule *schedule = tree_of(&chains, TUTTI_TREE_SINGLE, 4, 5);

        REQUIRE(schedule != NULL);
        for (uint32_t tree = 0; tree < 4; tree++)
            expect_table(schedule, tree, tables[i].trees[tree % 2]);
        tutti_schedule_free(schedule);
    }
}

/* Four hosts of three, on the first tree: host 0 above 2, that above 1 and 3. */
TEST(children_are_attached_where_the_pattern_says)
{
    static const struct {
        uint8_t pattern;
        const char *down[5]; /* ranks 0, 1 of host 0 and all of host 2 */
        const char *up[2];   /* the first ranks of hosts 1 and 3 */
    } cases[] = {
        {TUTTI_TREE_BALANCED, {"6 1", "2", "9 7", "3 8", "-"}, {"7", "6"}},
        {TUTTI_TREE_SPLIT, {"1", "6 2", "7", "9 3 8", "-"}, {"7", "7"}},
        {TUTTI_TREE_SINGLE, {"6 1", "2", "9 3 7", "8", "-"}, {"6", "6"}},
    };
    static const uint32_t ranks[] = {0, 1, 6, 7, 8};
    struct tutti_chains chains = {.host_count = 4, .length = 3, .count = 1};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_schedule *schedule = tree_of(&chains, cases[i].pattern, 1, 5);
        char seen[32];

        REQUIRE(schedule != NULL);
        for (size_t r = 0; r < 5; r++)
            CHECK_TEXT(sends_to(schedule, ranks[r], 1, seen, sizeof(seen)), cases[i].down[r]);
        CHECK_TEXT(sends_to(schedule, 3, 0, seen, sizeof(seen)), cases[i].up[0]);
        CHECK_TEXT(sends_to(schedule, 9, 0, seen, sizeof(seen)), cases[i].up[1]);
        CHECK_TEXT(sends_to(schedule, 6, 0, seen, sizeof(seen)),
                   cases[i].pattern == TUTTI_TREE_SPLIT ? "1" : "0");
        CHECK_TEXT(sends_to(schedule, 0, 0, seen, sizeof(seen)), "-");
        CHECK_TEXT(sends_to(schedule, 2, 0, seen, sizeof(seen)), "1");
        tutti_schedule_free(schedule);
    }
}

TEST(channels_have_chains_and_then_trees_in_turn)
{
    static const uint32_t members[] = {0, 1, 1, 0};
    struct tutti_chains chains = {.host_count = 2, .length = 2, .count = 2, .members = members};
    struct tutti_schedule *schedule = tree_of(&chains, TUTTI_TREE_SINGLE, 5, 5);
    static const char *const first[5] = {"2 1", "-", "1", "-", "2 1"}; /* of rank 0, down */
    static const char *const third[5] = {"3", "-", "0 3", "-", "3"};   /* of rank 2 */
    char seen[32];

    REQUIRE(schedule != NULL);
    for (uint32_t channel = 0; channel < 5; channel++) {
        CHECK_TEXT(sends_to(schedule, 0, 2 * channel + 1, seen, sizeof(seen)), first[channel]);
        CHECK_TEXT(sends_to(schedule, 2, 2 * channel + 1, seen, sizeof(seen)), third[channel]);
    }
    tutti_schedule_free(schedule);
}

/* ---- the price ------------------------------------------------------------------------------- */

/* The longest way of a chunk, counted on the tree itself: up to the root, and down to the last. */
static void hold(uint32_t hosts, uint32_t length, uint8_t pattern)
{
    struct tutti_chains chains = {.host_count = hosts, .length = length, .count = 1};
    uint64_t count = 3 * 1024;
    struct tutti_schedule *schedule = tree_of(&chains, pattern, 1, count);
    uint64_t n = (uint64_t)hosts * length;
    uint64_t levels = 0;
    uint64_t most = pattern == TUTTI_TREE_BALANCED ? 2 : 3; /* children */
    struct price price;

    while ((UINT64_C(1) << levels) < hosts)
        levels++;
    REQUIRE(schedule != NULL);
    price = price_of(schedule);
    if (length == 1)
        CHECK_INT(price.depth, 2 * levels);
    else if (hosts == 1)
        CHECK_INT(price.depth, 2 * (length - UINT64_C(1)));
    else
        CHECK(price.depth <=
              2 * (levels * (pattern != TUTTI_TREE_SINGLE ? 2 : 1) + length - UINT64_C(1)));
    CHECK(price.depth >= 2 * levels);
    CHECK_INT(price.total, 2 * (n - 1) * 3);
    CHECK_INT(price.steps, 5 * (n - 1) * 3); /* up with a REDUCE, down without */
    CHECK_INT(price.copied, 0);
    CHECK(price.sent <= (most + 1) * count);
    CHECK(price.reduced <= most * count);
    tutti_schedule_free(schedule);
}

TEST(prices_are_as_stated)
{
    for (uint32_t hosts = 1; hosts <= 20; hosts++) {
        for (uint32_t length = 1; length <= 8; length++) {
            if (hosts * length == 1)
                continue;
            hold(hosts, length, TUTTI_TREE_BALANCED);
            hold(hosts, length, TUTTI_TREE_SPLIT);
            hold(hosts, length, TUTTI_TREE_SINGLE);
        }
    }
}

TEST(what_is_no_tree_is_refused)
{
    struct tutti_chains chains = {.host_count = 2, .length = 3, .count = 1};
    struct tutti_nccl_params params = {.coll = {.count = 10, .chunk_bytes = 64}, .count_lo = 10};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_nccl_generate("tree", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no tree has the pattern '0' (1 to 3)");
    params.pattern = 1;
    params.coll.collective = TUTTI_ALLGATHER;
    CHECK_INT(tutti_nccl_generate("tree", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "NCCL's trees do not serve 'allgather' (allreduce)");
}
