/* Which examples go to whom, step by step; that nothing is lost or seen twice; where to go on. */
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/dataset.h"
#include "runtime/train/feed.h"
#include "tests/test.h"

enum { TEXT_BYTES = 1024, EXAMPLES_MAX = 4096 };

/* So many examples, in files of so many (0: in none). */
static struct tutti_dataset set_of(uint64_t examples, uint64_t file_examples)
{
    return (struct tutti_dataset){
        .example_count = examples,
        .file_example_count = file_examples,
        .file_count =
            file_examples == 0 ? 0 : (uint32_t)((examples + file_examples - 1) / file_examples),
    };
}

static struct tutti_feed feed_of(struct tutti_feed_ask ask, struct tutti_dataset set)
{
    struct tutti_feed feed = {.epoch_steps = 1};
    struct tutti_err err;

    CHECK_OK(tutti_feed_init(&ask, &set, &feed, &err), err);
    return feed;
}

/* "0,1 2,3 | 4 5": an epoch, a blank between ranks, '|' between steps, "." for nothing. */
static void print_epoch(struct tutti_feed_ask ask, struct tutti_dataset set, char *text)
{
    struct tutti_feed feed = feed_of(ask, set);
    size_t used = 0;

    text[0] = '\0';
    for (uint64_t step = 0; step < feed.epoch_steps; step++) {
        uint64_t sum = 0;
        uint64_t global_count = 0;

        for (ask.rank = 0; ask.rank < ask.rank_count; ask.rank++) {
            struct tutti_feed_share share;

            feed = feed_of(ask, set);
            share = tutti_feed_share(&feed, tutti_feed_at(&feed, step));
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s",
                                     ask.rank > 0 ? " " : (step > 0 ? " | " : ""));
            if (share.count == 0)
                used += (size_t)snprintf(text + used, TEXT_BYTES - used, ".");
            for (uint64_t i = 0; i < share.count; i++)
                used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%llu", i > 0 ? "," : "",
                                         (unsigned long long)tutti_feed_example(&feed, &share, i));
            sum += share.count;
            global_count = share.global_count;
        }
        CHECK_INT(global_count, sum);
    }
}

static void expect_epoch(uint64_t examples, uint64_t batch, uint32_t ranks,
                         enum tutti_tf_shard shard, uint64_t file_examples, const char *expected)
{
    struct tutti_feed_ask ask = {.global_batch = batch, .rank_count = ranks, .shard = shard};
    char text[TEXT_BYTES];

    print_epoch(ask, set_of(examples, file_examples), text);
    CHECK_TEXT(text, expected);
}

/* tf.distribute's own examples of rebatching, and of DATA on two workers. */
TEST(a_global_batch_is_divided_as_tensorflow_does)
{
    expect_epoch(6, 4, 2, TUTTI_TF_SHARD_DATA, 0, "0,1 2,3 | 4 5");
    expect_epoch(4, 4, 5, TUTTI_TF_SHARD_DATA, 0, "0 1 2 3 .");
    expect_epoch(8, 4, 3, TUTTI_TF_SHARD_DATA, 0, "0,1 2,3 . | 4,5 6,7 .");
    expect_epoch(12, 4, 2, TUTTI_TF_SHARD_DATA, 0, "0,1 2,3 | 4,5 6,7 | 8,9 10,11");
}

/* AUTO of no files, or of fewer than ranks, is DATA; of enough files each rank has its own. */
TEST(files_go_to_workers_in_turn)
{
    expect_epoch(6, 4, 2, TUTTI_TF_SHARD_AUTO, 0, "0,1 2,3 | 4 5");
    expect_epoch(6, 6, 3, TUTTI_TF_SHARD_AUTO, 3, "0,1 2,3 4,5");
    expect_epoch(10, 4, 2, TUTTI_TF_SHARD_AUTO, 2, "0,1 2,3 | 4,5 6,7 | 8,9 .");
    /* the last file is short: 6 belongs to rank 1 alone, which has 2,3 and 6 */
    expect_epoch(7, 4, 2, TUTTI_TF_SHARD_FILE, 2, "0,1 2,3 | 4,5 6");
}

TEST(off_lets_everybody_go_through_everything)
{
    expect_epoch(5, 4, 2, TUTTI_TF_SHARD_OFF, 0, "0,1 0,1 | 2,3 2,3 | 4 4");
}

TEST(the_remainder_can_be_dropped)
{
    struct tutti_feed_ask ask = {.global_batch = 4, .rank_count = 2, .drop_remainder = true};
    char text[TEXT_BYTES];

    ask.shard = TUTTI_TF_SHARD_DATA;
    print_epoch(ask, set_of(6, 0), text);
    CHECK_TEXT(text, "0,1 2,3");
    ask.shard = TUTTI_TF_SHARD_FILE;
    print_epoch(ask, set_of(10, 2), text);
    CHECK_TEXT(text, "0,1 2,3 | 4,5 6,7");
}

TEST(what_cannot_be_fed_is_refused)
{
    struct tutti_feed_ask ask = {.global_batch = 4, .rank_count = 2, .drop_remainder = true};
    struct tutti_dataset set = set_of(3, 0);
    struct tutti_feed feed = {.epoch_steps = 77};
    struct tutti_err err;

    ask.shard = TUTTI_TF_SHARD_DATA;
    CHECK_INT(tutti_feed_init(&ask, &set, &feed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "3 examples make no whole batch of 4 on 2 ranks (a smaller one, or keep the "
               "remainder)");
    ask.global_batch = 0;
    CHECK_INT(tutti_feed_init(&ask, &set, &feed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a global batch of 0 examples (at least 1)");
    ask.global_batch = 1;
    ask.shard = TUTTI_TF_SHARD_FILE;
    set = set_of(6, 6);
    CHECK_INT(tutti_feed_init(&ask, &set, &feed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'1' files for 2 workers: sharding by file needs one each (or DATA)");
    set = set_of(0, 0);
    CHECK_INT(tutti_feed_init(&ask, &set, &feed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "the data set has 0 examples (at least 1)");
    CHECK_INT(feed.epoch_steps, 77); /* untouched */
}

/* ---- shuffling ---- */

TEST(a_permutation_hits_each_number_once)
{
    static bool seen[EXAMPLES_MAX];

    for (uint64_t count = 1; count <= 300; count++) {
        memset(seen, 0, sizeof(seen));
        for (uint64_t i = 0; i < count; i++) {
            uint64_t to = tutti_feed_permute(i, count, test_seed + count);

            REQUIRE(to < count);
            CHECK(!seen[to]);
            seen[to] = true;
        }
    }
    CHECK(tutti_feed_permute(0, UINT64_C(1) << 40, 1) < UINT64_C(1) << 40);
}

/* Where example 0 of 10 goes under 10000 seeds: each place 1000 times, deviation 30. And neighbours
 * part: the mean distance of two random places among 1000 is 333. */
TEST(a_permutation_is_no_order)
{
    int places[10] = {0};
    double distance = 0;

    for (uint64_t seed = 0; seed < 10000; seed++)
        places[tutti_feed_permute(0, 10, seed)]++;
    for (int i = 0; i < 10; i++)
        CHECK(places[i] > 850 && places[i] < 1150);
    for (uint64_t i = 0; i + 1 < 1000; i++) {
        int64_t a = (int64_t)tutti_feed_permute(i, 1000, test_seed);
        int64_t b = (int64_t)tutti_feed_permute(i + 1, 1000, test_seed);

        distance += (double)(a < b ? b - a : a - b) / 999;
    }
    CHECK(distance > 300 && distance < 366);
}

/* All examples of one step, of all ranks in turn. */
static uint64_t step_examples(struct tutti_feed_ask ask, struct tutti_dataset set,
                              struct tutti_feed_position position, uint64_t *ret)
{
    uint64_t count = 0;

    for (ask.rank = 0; ask.rank < ask.rank_count; ask.rank++) {
        struct tutti_feed feed = feed_of(ask, set);
        struct tutti_feed_share share = tutti_feed_share(&feed, position);

        for (uint64_t i = 0; i < share.count && count < EXAMPLES_MAX; i++)
            ret[count++] = tutti_feed_example(&feed, &share, i);
    }
    return count;
}

/* Any number of ranks sees the same examples in the same order, and every epoch another order. */
TEST(ranks_share_one_shuffled_order)
{
    static uint64_t alone[EXAMPLES_MAX], together[EXAMPLES_MAX], later[EXAMPLES_MAX];
    struct tutti_dataset set = set_of(1000, 0);
    struct tutti_feed_ask ask = {.global_batch = 64,
                                 .rank_count = 1,
                                 .seed = test_seed,
                                 .shuffle = true,
                                 .shard = TUTTI_TF_SHARD_DATA};
    struct tutti_feed feed = feed_of(ask, set);
    int same = 0;

    for (uint64_t step = 0; step < feed.epoch_steps; step++) {
        uint64_t count = step_examples(ask, set, tutti_feed_at(&feed, step), alone);

        CHECK_INT(count, step < 15 ? 64 : 1000 - 15 * 64);
        for (uint32_t ranks = 2; ranks <= 7; ranks++) {
            struct tutti_feed_ask shared = ask;

            shared.rank_count = ranks;
            CHECK_INT(step_examples(shared, set, tutti_feed_at(&feed, step), together), count);
            CHECK(memcmp(alone, together, count * sizeof(alone[0])) == 0);
        }
        (void)step_examples(ask, set, tutti_feed_at(&feed, feed.epoch_steps + step), later);
        for (uint64_t i = 0; i < count; i++)
            same += alone[i] == later[i];
    }
    CHECK(same < 10); /* one on average */
}

/* Random sets, batches, ranks, files: an epoch holds every example once (OFF: once a rank). */
TEST(an_epoch_has_every_example_once)
{
    static int seen[EXAMPLES_MAX];
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t turn = test_count(2000, 200); turn > 0; turn--) {
        struct tutti_dataset set =
            set_of(1 + tutti_random_below(&random, 300), tutti_random_below(&random, 3) * 7);
        struct tutti_feed_ask ask = {
            .global_batch = 1 + tutti_random_below(&random, 50),
            .rank_count = (uint32_t)(1 + tutti_random_below(&random, 9)),
            .seed = turn,
            .shuffle = tutti_random_below(&random, 2) == 0,
            .shard = tutti_random_below(&random, 3) == 0 ? TUTTI_TF_SHARD_OFF : TUTTI_TF_SHARD_AUTO,
        };
        int expected = ask.shard == TUTTI_TF_SHARD_OFF ? (int)ask.rank_count : 1;
        struct tutti_feed feed = feed_of(ask, set);
        uint64_t examples[512];
        struct tutti_feed_position position = {.epoch = turn % 3};

        memset(seen, 0, sizeof(seen));
        for (uint64_t step = 0; step < feed.epoch_steps; step++) {
            uint64_t count = step_examples(ask, set, position, examples);

            for (uint64_t i = 0; i < count; i++)
                seen[examples[i]]++;
            position = tutti_feed_next(&feed, position);
        }
        CHECK_INT(position.epoch, turn % 3 + 1);
        CHECK_INT(position.offset, 0);
        for (uint64_t i = 0; i < set.example_count; i++)
            REQUIRE(seen[i] == expected);
    }
}

/* ---- positions ---- */

/* Saved on 4 ranks after 7 steps of 8 an epoch (the last short), gone on with on 3. */
TEST(a_position_means_the_same_on_another_number_of_ranks)
{
    uint64_t four[64], three[64];
    struct tutti_dataset set = set_of(60, 0);
    struct tutti_feed_ask ask = {.global_batch = 8,
                                 .rank_count = 4,
                                 .seed = 5,
                                 .shuffle = true,
                                 .shard = TUTTI_TF_SHARD_DATA};
    struct tutti_feed feed = feed_of(ask, set);
    struct tutti_feed_position position = {.epoch = 0};
    struct tutti_err err;

    for (int step = 0; step < 7; step++)
        position = tutti_feed_next(&feed, position);
    CHECK_INT(position.epoch, 0);
    CHECK_INT(position.offset, 56);
    for (int step = 7; step < 20; step++) {
        struct tutti_feed_ask other = ask;
        uint64_t count;

        other.rank_count = 3;
        CHECK_OK(tutti_feed_check(&feed, position, &err), err);
        CHECK_INT(tutti_feed_at(&feed, (uint64_t)step).offset, position.offset);
        CHECK_INT(tutti_feed_at(&feed, (uint64_t)step).epoch, position.epoch);
        count = step_examples(ask, set, position, four);
        CHECK_INT(count, step % 8 == 7 ? 4 : 8);
        CHECK_INT(step_examples(other, set, position, three), count);
        CHECK(memcmp(three, four, count * sizeof(four[0])) == 0);
        position = tutti_feed_next(&feed, position);
    }
}

TEST(a_position_of_another_batch_is_refused)
{
    struct tutti_feed_ask ask = {.global_batch = 8, .rank_count = 1, .shard = TUTTI_TF_SHARD_DATA};
    struct tutti_feed feed = feed_of(ask, set_of(60, 0));
    struct tutti_feed_position position = {.epoch = 2, .offset = 12};
    struct tutti_err err;

    CHECK_INT(tutti_feed_check(&feed, position, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "position 12 of epoch 2 begins no step (a multiple of the global batch 8, "
                         "below 8 of them)");
    position.offset = 64;
    CHECK_INT(tutti_feed_check(&feed, position, &err), -TUTTI_EINVAL);
}
