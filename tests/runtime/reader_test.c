/* Batches are the same however far ahead they are read; errors and late ones come to who waits. */
#include <pthread.h>
#include <stdatomic.h>

#include "runtime/status.h"
#include "runtime/train/reader.h"
#include "tests/test.h"

enum { NEVER = -1 };

/* A set of 2 inputs an example, which can fail, or hold up, at one of them. */
struct source {
    struct tutti_dataset set;
    int64_t fail_at;
    int64_t hold_at;
    pthread_mutex_t lock; /* guards go_on */
    pthread_cond_t changed;
    bool go_on;
    atomic_int reads;
};

static int source_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                       float *ret_target, struct tutti_err *err)
{
    struct source *source = set->state;

    atomic_fetch_add(&source->reads, 1);
    if ((int64_t)index == source->fail_at)
        return tutti_fail(err, TUTTI_EIO, "the disk is gone");
    pthread_mutex_lock(&source->lock);
    while ((int64_t)index == source->hold_at && !source->go_on)
        pthread_cond_wait(&source->changed, &source->lock);
    pthread_mutex_unlock(&source->lock);
    ret_inputs[0] = (float)index;
    ret_inputs[1] = (float)index / 2;
    *ret_target = (float)(index % 3);
    return 0;
}

static void source_open(struct source *source, uint64_t examples, uint32_t classes)
{
    *source = (struct source){
        .set = {.example_count = examples,
                .channels = 1,
                .height = 1,
                .width = 2,
                .class_count = classes,
                .read = source_read,
                .state = source},
        .fail_at = NEVER,
        .hold_at = NEVER,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
}

static void source_release(struct source *source)
{
    pthread_mutex_lock(&source->lock);
    source->go_on = true;
    pthread_cond_broadcast(&source->changed);
    pthread_mutex_unlock(&source->lock);
}

/* Rank 1 of 2, a global batch of 8, in order. */
static struct tutti_reader_ask ask_of(const struct source *source, uint32_t depth)
{
    struct tutti_feed_ask feed = {
        .global_batch = 8, .rank = 1, .rank_count = 2, .shard = TUTTI_TF_SHARD_DATA};
    struct tutti_reader_ask ask = {.set = &source->set, .depth = depth};
    struct tutti_err err;

    CHECK_OK(tutti_feed_init(&feed, &source->set, &ask.feed, &err), err);
    return ask;
}

/* 20 examples: an epoch is 4-7, 12-15, 18-19. */
TEST(batches_are_the_same_at_any_depth)
{
    static const uint64_t first[] = {4, 12, 18};
    static const uint32_t counts[] = {4, 4, 2};

    for (uint32_t depth = 0; depth <= 5; depth++) {
        struct source source;
        struct tutti_reader *reader = NULL;
        struct tutti_reader_ask ask;
        struct tutti_err err;

        source_open(&source, 20, 3);
        ask = ask_of(&source, depth);
        REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
        for (uint64_t step = 0; step < 30; step++) {
            const struct tutti_batch *batch = NULL;

            CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
            REQUIRE(batch != NULL);
            CHECK_INT(batch->count, counts[step % 3]);
            CHECK_INT(batch->share.position.epoch, step / 3);
            CHECK_INT(batch->share.global_count, step % 3 == 2 ? 4 : 8);
            CHECK(batch->targets == NULL);
            for (uint32_t i = 0; i < batch->count; i++) {
                CHECK_INT(batch->examples[i], first[step % 3] + i);
                CHECK(batch->inputs[2 * i] == (float)batch->examples[i]);
                CHECK(batch->inputs[2 * i + 1] == (float)batch->examples[i] / 2);
                CHECK_INT(batch->labels[i], batch->examples[i] % 3);
            }
        }
        CHECK_INT(tutti_reader_stats(reader).batch_count, 30);
        CHECK_INT(tutti_reader_stats(reader).example_count, 100);
        CHECK(depth > 0 || tutti_reader_stats(reader).wait_count == 30);
        tutti_reader_close(reader);
    }
}

/* Begun at the second step, ended after 3; then there is none, as often as one asks. */
TEST(a_reader_begins_where_it_is_told_and_ends)
{
    for (uint32_t depth = 0; depth <= 2; depth++) {
        struct source source;
        struct tutti_reader *reader = NULL;
        const struct tutti_batch *batch = NULL;
        struct tutti_reader_ask ask;
        struct tutti_err err;

        source_open(&source, 20, 0);
        ask = ask_of(&source, depth);
        ask.first = tutti_feed_at(&ask.feed, 1);
        ask.step_limit = 3;
        REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
        CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
        CHECK_INT(batch->examples[0], 12);
        CHECK(batch->labels == NULL);
        CHECK(batch->targets[1] == 1.0f);
        CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
        CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
        CHECK_INT(batch->share.position.epoch, 1);
        for (int i = 0; i < 3; i++) {
            batch = NULL;
            CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
            CHECK(batch == NULL);
        }
        tutti_reader_close(reader);
    }
}

/* Example 13 fails, in the second batch: the first one is handed out nevertheless. */
TEST(an_error_comes_to_who_waits_for_that_batch)
{
    for (uint32_t depth = 0; depth <= 4; depth++) {
        struct source source;
        struct tutti_reader *reader = NULL;
        const struct tutti_batch *batch = NULL;
        struct tutti_reader_ask ask;
        struct tutti_err err = {""};

        source_open(&source, 20, 3);
        source.fail_at = 13;
        ask = ask_of(&source, depth);
        REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
        CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
        for (int i = 0; i < 2; i++) {
            err.text[0] = '\0';
            CHECK_INT(tutti_reader_next(reader, &batch, &err), -TUTTI_EIO);
            CHECK_TEXT(err.text, "example 13: the disk is gone");
        }
        CHECK_INT(tutti_reader_next(reader, &batch, NULL), -TUTTI_EIO);
        tutti_reader_close(reader);
    }
}

TEST(a_class_that_is_none_is_refused)
{
    struct source source;
    struct tutti_reader *reader = NULL;
    const struct tutti_batch *batch = NULL;
    struct tutti_reader_ask ask;
    struct tutti_err err;

    source_open(&source, 20, 2); /* targets go up to 2 */
    ask = ask_of(&source, 1);
    REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
    CHECK_INT(tutti_reader_next(reader, &batch, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "example 5 is of class 2 (0 to 1)");
    tutti_reader_close(reader);
}

/* The disk hangs at example 12: the wait ends at the deadline, and goes on when the disk does. */
TEST(no_wait_is_longer_than_its_deadline)
{
    struct source source;
    struct tutti_reader *reader = NULL;
    const struct tutti_batch *batch = NULL;
    struct tutti_reader_ask ask;
    struct tutti_reader_stats stats;
    struct tutti_err err;

    source_open(&source, 20, 3);
    source.hold_at = 12;
    ask = ask_of(&source, 2);
    ask.deadline_s = 0.05;
    REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
    while (tutti_reader_next(reader, &batch, &err) == -TUTTI_ETIME)
        ; /* a machine that is busy elsewhere */
    CHECK_INT(batch->examples[0], 4);
    CHECK_INT(tutti_reader_next(reader, &batch, &err), -TUTTI_ETIME);
    CHECK_TEXT(err.text, "no batch within 0.05 s: still reading number 1 since the start");
    stats = tutti_reader_stats(reader);
    CHECK(stats.wait_count >= 1);
    CHECK(stats.waited_s >= 0.05);
    source_release(&source);
    while (tutti_reader_next(reader, &batch, &err) == -TUTTI_ETIME)
        ;
    CHECK_INT(batch->examples[0], 12);
    tutti_reader_close(reader);
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&time, NULL);
}

/* Nobody takes the second batch: with depth 2, two batches are read behind it, and no more. */
TEST(reading_ahead_is_bounded)
{
    struct source source;
    struct tutti_reader *reader = NULL;
    const struct tutti_batch *batch = NULL;
    struct tutti_reader_ask ask;
    struct tutti_err err;

    source_open(&source, 8000, 3);
    ask = ask_of(&source, 2);
    REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
    CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
    while (atomic_load(&source.reads) < 12)
        sleep_ms(1);
    sleep_ms(20);
    CHECK_INT(atomic_load(&source.reads), 12);
    CHECK(batch->inputs[0] == 4.0f); /* and what is in use is not written over */
    tutti_reader_close(reader);
}

/* At any moment, also before anything was asked for. */
TEST(closing_joins_the_thread)
{
    for (uint32_t i = 0; i < 100; i++) {
        struct source source;
        struct tutti_reader *reader = NULL;
        const struct tutti_batch *batch = NULL;
        struct tutti_reader_ask ask;
        struct tutti_err err;
        int reads;

        source_open(&source, 800000, 3);
        ask = ask_of(&source, 1 + i % 3);
        REQUIRE(tutti_reader_open(&ask, &reader, &err) == 0);
        for (uint32_t k = 0; k < i % 5; k++)
            CHECK_OK(tutti_reader_next(reader, &batch, &err), err);
        tutti_reader_close(reader);
        reads = atomic_load(&source.reads);
        CHECK(reads <= (int)(4 * (i % 5 + 1 + i % 3 + 1)));
    }
    tutti_reader_close(NULL);
}

TEST(a_position_that_begins_no_step_is_refused)
{
    struct source source;
    struct tutti_reader *reader = NULL;
    struct tutti_reader_ask ask;
    struct tutti_err err;

    source_open(&source, 20, 3);
    ask = ask_of(&source, 1);
    ask.first.offset = 3;
    CHECK_INT(tutti_reader_open(&ask, &reader, &err), -TUTTI_EINVAL);
    CHECK(reader == NULL);
}
