/* The price that each algorithm states in the comment of its file, held against its steps: how many
 * messages come one after another, how many bytes the busiest rank sends and reduces. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/runtime/small.h"
#include "tests/test.h"

/* Blocks of B bytes; all-reduce, broadcast and reduce have M = n B. */
enum { BLOCK_ELEMENTS = 64, B = BLOCK_ELEMENTS * 4, ANY = -1 };

struct stated_price {
    int64_t rounds;
    int64_t sent_blocks; /* by the rank that sends most, in blocks; ANY: stated for n = 2^L alone */
    int64_t reduced_blocks;
    bool at_most; /* the rounds: where n is no power of two some of them overlap */
};

static int64_t floor_log2(int64_t n)
{
    return 63 - __builtin_clzll((uint64_t)n);
}

static int64_t ceil_log2(int64_t n)
{
    return n == 1 ? 0 : floor_log2(n - 1) + 1;
}

static bool is_power_of_two(int64_t n)
{
    return (n & (n - 1)) == 0;
}

static struct stated_price ring(int64_t n)
{
    return (struct stated_price){2 * (n - 1), 2 * (n - 1), n - 1, false};
}

static struct stated_price chain(int64_t n)
{
    return (struct stated_price){n - 1, n, 0, false};
}

static struct stated_price chain_up(int64_t n)
{
    return (struct stated_price){n - 1, n, n, false};
}

static struct stated_price around_reducing(int64_t n)
{
    return (struct stated_price){n - 1, n - 1, n - 1, false};
}

static struct stated_price around(int64_t n)
{
    return (struct stated_price){n - 1, n - 1, 0, false};
}

static struct stated_price forwarding(int64_t n)
{
    return (struct stated_price){n - 1, n * (n - 1) / 2, 0, false};
}

static struct stated_price around_empty(int64_t n)
{
    return (struct stated_price){n - 1, 0, 0, false};
}

/* `sent` and `reduced` hold for n = 2^L; else two messages more, to fold in and out. */
static struct stated_price folded(int64_t n, int64_t rounds, int64_t sent, int64_t reduced)
{
    if (is_power_of_two(n))
        return (struct stated_price){rounds, sent, reduced, false};
    return (struct stated_price){rounds + 2, ANY, ANY, true};
}

static struct stated_price doubling(int64_t n)
{
    return folded(n, floor_log2(n), floor_log2(n) * n, floor_log2(n) * n);
}

static struct stated_price halving_doubling(int64_t n)
{
    return folded(n, 2 * floor_log2(n), 2 * (n - 1), n - 1);
}

static struct stated_price halving(int64_t n)
{
    return folded(n, floor_log2(n), n - 1, n - 1);
}

static struct stated_price bruck(int64_t n)
{
    return (struct stated_price){ceil_log2(n), n - 1, 0, false};
}

static struct stated_price dissemination(int64_t n)
{
    return (struct stated_price){ceil_log2(n), 0, 0, false};
}

static struct stated_price binomial(int64_t n)
{
    return (struct stated_price){2 * ceil_log2(n), ceil_log2(n) * n, ceil_log2(n) * n,
                                 !is_power_of_two(n)};
}

static struct stated_price binomial_down(int64_t n)
{
    return (struct stated_price){ceil_log2(n), ceil_log2(n) * n, 0, !is_power_of_two(n)};
}

static struct stated_price binomial_up(int64_t n)
{
    return (struct stated_price){ceil_log2(n), n, ceil_log2(n) * n, !is_power_of_two(n)};
}

static struct stated_price binomial_empty(int64_t n)
{
    return (struct stated_price){2 * ceil_log2(n), 0, 0, !is_power_of_two(n)};
}

static struct stated_price one_shot(int64_t n)
{
    return (struct stated_price){1, (n - 1) * n, (n - 1) * n, false};
}

static struct stated_price two_shot(int64_t n)
{
    return (struct stated_price){2, 2 * (n - 1), n - 1, false};
}

static struct stated_price direct_reducing(int64_t n)
{
    return (struct stated_price){1, n - 1, n - 1, false};
}

static struct stated_price direct(int64_t n)
{
    return (struct stated_price){1, n - 1, 0, false};
}

static struct stated_price shift(int64_t n)
{
    (void)n;
    return (struct stated_price){1, 1, 0, false};
}

static struct stated_price star(int64_t n)
{
    return (struct stated_price){2, (n - 1) * n, (n - 1) * n, false};
}

static const struct {
    const char *algorithm;
    enum tutti_collective collective;
    struct stated_price (*stated)(int64_t n);
} prices[] = {
    {"ring", TUTTI_ALLREDUCE, ring},
    {"ring-bidirectional", TUTTI_ALLREDUCE, ring},
    {"hierarchical", TUTTI_ALLREDUCE, ring}, /* of one level */
    {"torus", TUTTI_ALLREDUCE, ring},        /* of one axis */
    {"ring", TUTTI_BROADCAST, chain},
    {"ring-bidirectional", TUTTI_BROADCAST, chain},
    {"ring-bidirectional", TUTTI_REDUCE_TO_ROOT, chain_up},
    {"ring-bidirectional", TUTTI_REDUCESCATTER, around_reducing},
    {"ring-bidirectional", TUTTI_ALLGATHER, around},
    {"ring", TUTTI_REDUCE_TO_ROOT, chain_up},
    {"ring", TUTTI_REDUCESCATTER, around_reducing},
    {"ring", TUTTI_ALLGATHER, around},
    {"ring", TUTTI_ALLTOALL, forwarding},
    {"ring", TUTTI_BARRIER, around_empty},
    {"recursive-doubling", TUTTI_ALLREDUCE, doubling},
    {"recursive-doubling", TUTTI_ALLGATHER, bruck},
    {"recursive-doubling", TUTTI_BARRIER, dissemination},
    {"halving-doubling", TUTTI_ALLREDUCE, halving_doubling},
    {"halving", TUTTI_REDUCESCATTER, halving},
    {"binomial", TUTTI_ALLREDUCE, binomial},
    {"binomial", TUTTI_BROADCAST, binomial_down},
    {"binomial", TUTTI_REDUCE_TO_ROOT, binomial_up},
    {"binomial", TUTTI_BARRIER, binomial_empty},
    {"one-shot", TUTTI_ALLREDUCE, one_shot},
    {"two-shot", TUTTI_ALLREDUCE, two_shot},
    {"direct", TUTTI_REDUCESCATTER, direct_reducing},
    {"direct", TUTTI_ALLGATHER, direct},
    {"direct", TUTTI_ALLTOALL, direct},
    {"direct", TUTTI_SENDRECV, shift},
    {"reduce-broadcast", TUTTI_ALLREDUCE, star},
};

static void measure(const char *algorithm, enum tutti_collective collective, uint32_t n,
                    struct tutti_price *price)
{
    bool rooted = collective == TUTTI_ALLREDUCE || collective == TUTTI_BROADCAST ||
                  collective == TUTTI_REDUCE_TO_ROOT;
    const struct tutti_coll_params params = {.collective = collective,
                                             .count = collective == TUTTI_BARRIER ? 0
                                                      : rooted ? (uint64_t)BLOCK_ELEMENTS * n
                                                               : BLOCK_ELEMENTS,
                                             .chunk_bytes = 1 << 20};
    struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    shape.dim_count = 1;
    shape.dim[0] = n;
    shape.wrap[0] = n > 2;
    memset(price, 0, sizeof(*price));
    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    if (schedule != NULL)
        CHECK_OK(tutti_schedule_price(schedule, price, &err), err);
    tutti_schedule_free(schedule);
}

static void compare(const char *what, int64_t seen, int64_t stated, size_t row, uint32_t n)
{
    if (stated != ANY && seen != stated)
        TEST_FAIL("%s %s, %u ranks: %s %" PRId64 ", stated %" PRId64, prices[row].algorithm,
                  tutti_collective_name(prices[row].collective), n, what, seen, stated);
}

TEST(every_algorithm_costs_what_its_file_says)
{
    for (size_t i = 0; i < sizeof(prices) / sizeof(prices[0]); i++) {
        for (uint32_t n = 2; n <= 33; n++) {
            struct stated_price stated = prices[i].stated(n);
            struct tutti_price price;

            measure(prices[i].algorithm, prices[i].collective, n, &price);
            if (!stated.at_most || (int64_t)price.round_count > stated.rounds)
                compare("messages one after another", (int64_t)price.round_count, stated.rounds, i,
                        n);
            compare("bytes sent", (int64_t)price.sent_bytes_max,
                    stated.sent_blocks == ANY ? ANY : stated.sent_blocks * B, i, n);
            compare("bytes reduced", (int64_t)price.reduced_bytes_max,
                    stated.reduced_blocks == ANY ? ANY : stated.reduced_blocks * B, i, n);
        }
    }
}

TEST(a_double_binary_tree_costs_no_more_than_its_file_says)
{
    for (uint32_t n = 2; n <= 33; n++) {
        struct tutti_price price;

        measure("double-binary-tree", TUTTI_ALLREDUCE, n, &price);
        CHECK(price.round_count <= (uint64_t)(2 * (n == 2 ? 1 : floor_log2(n - 1) + 1)));
        CHECK(price.sent_bytes_max <= 2ull * n * B);
        CHECK(price.reduced_bytes_max <= 2ull * n * B);
    }
}

TEST(slots_lengthen_the_path_of_messages)
{
    /* Six messages from 0 to 1, received at leisure: 1 first hears from 2, four messages long. */
    struct tutti_builder *builder = small_builder((struct tutti_schedule_desc){
        .contract = {.collective = TUTTI_CUSTOM}, .rank_count = 3, .slot_count = 2});
    struct tutti_schedule *schedule;
    struct tutti_price price = {0};
    struct tutti_err err = {""};

    for (int i = 0; i < 2; i++) { /* 2 -> 1 -> 2 -> 1 -> 2 */
        small_add(builder, 2, 0, small_send(1, SMALL_IN, 0, 0));
        small_add(builder, 2, 0, small_recv(1, SMALL_OUT, 0, 0));
        small_add(builder, 1, 0, small_recv(2, SMALL_OUT, 0, 0));
        small_add(builder, 1, 0, small_send(2, SMALL_IN, 0, 0));
    }
    for (int i = 0; i < 6; i++) {
        small_add(builder, 0, 0, small_send(1, SMALL_IN, 0, 0));
        small_add(builder, 1, 0, small_recv(0, SMALL_OUT, 0, 0));
    }
    schedule = small_finish(builder);
    CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    /* Rank 1 has heard from 2 after 3 messages: the first two from 0 are there by then, and free
     * the slots for two more, which take one message each, and so on: 3, 4, 5. */
    CHECK_INT(price.round_count, 5);
    CHECK_INT(price.send_count, 10);
    CHECK_INT(price.step_count, 20);
    tutti_schedule_free(schedule);
}

TEST(a_dependency_on_a_send_waits_for_its_message)
{
    struct tutti_builder *builder = small_builder((struct tutti_schedule_desc){
        .contract = {.collective = TUTTI_CUSTOM}, .rank_count = 2, .lane_count = 2});
    struct tutti_step send = small_send(1, SMALL_IN, 0, 0);
    struct tutti_schedule *schedule;
    struct tutti_price price = {0};
    struct tutti_err err = {""};

    small_add(builder, 0, 0, send);
    small_add(builder, 1, 0, small_recv(0, SMALL_OUT, 0, 0));
    send.flags = TUTTI_STEP_DEP;
    small_add(builder, 0, 1, send); /* after lane 0 step 0 has been received */
    small_add(builder, 1, 1, small_recv(0, SMALL_OUT, 0, 0));
    schedule = small_finish(builder);
    CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    CHECK_INT(price.round_count, 2);
    tutti_schedule_free(schedule);
}

TEST(what_cannot_finish_has_no_price)
{
    struct tutti_builder *builder = small_builder(
        (struct tutti_schedule_desc){.contract = {.collective = TUTTI_CUSTOM}, .rank_count = 2});
    struct tutti_schedule *schedule;
    struct tutti_price price = {.round_count = 99};
    struct tutti_err err = {""};

    small_add(builder, 0, 0, small_recv(1, SMALL_OUT, 0, 0));
    schedule = small_finish(builder);
    CHECK_INT(tutti_schedule_price(schedule, &price, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "rank 0, lane 0, step 0 (RECV out+0 0 B from 1): waits for ever: rank 1 "
                         "sends rank 0 only 0 messages on lane 0");
    CHECK_INT(price.round_count, 99);
    tutti_schedule_free(schedule);
}
