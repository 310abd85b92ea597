/* Which results the threads backend may write straight to where they will be received. */
#include "runtime/exec/host/remote_write.h"

#include "runtime/coll.h"
#include "runtime/status.h"
#include "tests/test.h"

/* Results and receivers of a schedule, which is freed. */
static void count_remote_writes(struct tutti_schedule *schedule, size_t *ret_remote_writes,
                                size_t *ret_targets)
{
    size_t lane_total = (size_t)schedule->rank_count * schedule->lane_count;
    struct tutti_connections connections;
    struct tutti_remote_writes remote_writes;
    struct tutti_err err;

    *ret_remote_writes = 0;
    *ret_targets = 0;
    CHECK_OK(tutti_thread_connections_open(&connections, schedule, 0, schedule->rank_count, &err),
             err);
    CHECK_OK(tutti_thread_remote_writes_open(&remote_writes, schedule, &connections, &err), err);
    if (remote_writes.lane_first != NULL)
        *ret_remote_writes = remote_writes.lane_first[lane_total];
    for (size_t i = 0; i < *ret_remote_writes; i++)
        *ret_targets += remote_writes.remote_writes[i].target_count;
    tutti_thread_remote_writes_close(&remote_writes);
    tutti_thread_connections_close(&connections);
    tutti_schedule_free(schedule);
}

static struct tutti_schedule *allreduce(const char *algorithm, uint32_t rank_count)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .count = 1000, .channel_count = 2, .chunk_bytes = 500};
    struct tutti_shape shape = tutti_shape_flat(rank_count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return schedule;
}

/* Of the buffers of rank 0, those that others are sent from. */
static unsigned buffers_handed_on(const char *algorithm, uint32_t rank_count)
{
    struct tutti_schedule *schedule = allreduce(algorithm, rank_count);
    struct tutti_connections connections;
    struct tutti_remote_writes remote_writes;
    struct tutti_err err;
    unsigned bits = 0;

    CHECK_OK(tutti_thread_connections_open(&connections, schedule, 0, rank_count, &err), err);
    CHECK_OK(tutti_thread_remote_writes_open(&remote_writes, schedule, &connections, &err), err);
    for (unsigned buf = TUTTI_BUF_IN; buf <= TUTTI_BUF_SCRATCH; buf++)
        bits |= tutti_remote_writes_helper_on(&remote_writes, 0, buf) ? 1u << buf : 0;
    tutti_thread_remote_writes_close(&remote_writes);
    CHECK(!tutti_remote_writes_helper_on(&remote_writes, 0,
                                         TUTTI_BUF_IN)); /* nothing is known any more */
    tutti_thread_connections_close(&connections);
    tutti_schedule_free(schedule);
    return bits;
}

TEST(it_is_known_which_buffers_others_are_sent_from)
{
    CHECK_INT(buffers_handed_on("recursive-doubling", 2), 1u << TUTTI_BUF_IN);
    CHECK_INT(buffers_handed_on("recursive-doubling", 4),
              1u << TUTTI_BUF_IN | 1u << TUTTI_BUF_SCRATCH);
    CHECK_INT(buffers_handed_on("binomial", 2), 1u << TUTTI_BUF_OUT); /* rank 0 is the root */
}

TEST(two_shot_remote_writes_every_part_to_everybody)
{
    size_t whole;
    size_t targets;

    count_remote_writes(allreduce("two-shot", 2), &whole, &targets);
    CHECK(whole >= 4); /* both ranks in both channels, times the pieces */
    CHECK_INT(targets, whole);
    count_remote_writes(allreduce("two-shot", 5), &whole, &targets);
    CHECK(whole >= 10);
    CHECK_INT(targets, 4 * whole);
}

/* A finished sum goes on to the rank that began it: the only one with nothing of it in its output.
 */
TEST(a_ring_remote_writes_each_finished_sum_once)
{
    size_t whole;
    size_t targets;

    count_remote_writes(allreduce("ring", 2), &whole, &targets);
    CHECK_INT(whole, 2 * 2 * 2); /* ranks, channels, pieces */
    CHECK_INT(targets, whole);
    count_remote_writes(allreduce("ring", 3), &whole, &targets);
    CHECK_INT(whole, 3 * 2 * 2);
    CHECK_INT(targets, whole);
}

/* ---- by hand: rank 0 reduces 8 bytes and sends them to rank 1 ---- */

struct story {
    struct tutti_builder *builder;
    struct tutti_err err;
};

static struct story begin(void)
{
    struct story story = {0};
    struct tutti_schedule_desc desc = {
        .name = "story",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = 3,
        .lane_count = 2,
        .in_bytes = 64,
        .out_bytes = 64,
        .scratch_bytes = 64,
    };

    CHECK_OK(tutti_builder_new(&desc, &story.builder, &story.err), story.err);
    return story;
}

static void does(struct story *story, uint32_t rank, uint32_t lane, struct tutti_step step)
{
    CHECK_OK(tutti_builder_add(story->builder, rank, lane, &step, &story->err), story->err);
}

static const struct tutti_step reduces = {.kind = TUTTI_REDUCE,
                                          .dst_buf = TUTTI_BUF_OUT,
                                          .src_buf = TUTTI_BUF_IN,
                                          .acc_buf = TUTTI_BUF_IN,
                                          .bytes = 8};
static const struct tutti_step sends = {
    .kind = TUTTI_SEND, .src_buf = TUTTI_BUF_OUT, .peer = 1, .bytes = 8};
static const struct tutti_step receives = {
    .kind = TUTTI_RECV, .dst_buf = TUTTI_BUF_OUT, .dst_offset = 16, .peer = 0, .bytes = 8};
/* Touches the last four of the bytes received. */
static const struct tutti_step copies = {.kind = TUTTI_COPY,
                                         .dst_buf = TUTTI_BUF_SCRATCH,
                                         .src_buf = TUTTI_BUF_OUT,
                                         .src_offset = 20,
                                         .bytes = 4};

static size_t end(struct story *story)
{
    struct tutti_schedule *schedule = NULL;
    size_t whole = 0;
    size_t targets;

    CHECK_OK(tutti_builder_finish(story->builder, &schedule, &story->err), story->err);
    if (schedule != NULL)
        count_remote_writes(schedule, &whole, &targets);
    return whole;
}

TEST(a_result_is_pushed_where_nobody_has_touched_the_bytes_before)
{
    struct story story = begin();

    does(&story, 0, 0, reduces);
    does(&story, 0, 0, sends);
    does(&story, 1, 0, receives);
    does(&story, 1, 0, copies); /* after: no matter */
    CHECK_INT(end(&story), 1);
}

TEST(it_is_not_where_the_receiver_reads_before_or_at_an_unknown_time)
{
    struct story before = begin();
    struct story beside = begin();

    does(&before, 0, 0, reduces);
    does(&before, 0, 0, sends);
    does(&before, 1, 0, copies);
    does(&before, 1, 0, receives);
    CHECK_INT(end(&before), 0);
    does(&beside, 0, 0, reduces);
    does(&beside, 0, 0, sends);
    does(&beside, 1, 0, receives);
    does(&beside, 1, 1, copies);
    CHECK_INT(end(&beside), 0);
}

TEST(nor_where_the_send_waits_for_something_or_carries_other_bytes)
{
    struct story waits = begin();
    struct story other = begin();
    struct tutti_step step = sends;

    step.flags = TUTTI_STEP_DEP;
    step.dep_lane = 1;
    does(&waits, 0, 0, reduces);
    does(&waits, 0, 0, step);
    does(&waits, 0, 1, copies);
    does(&waits, 1, 0, receives);
    CHECK_INT(end(&waits), 0);
    step = sends;
    step.src_offset = 4;
    does(&other, 0, 0, reduces);
    does(&other, 0, 0, step);
    does(&other, 1, 0, receives);
    CHECK_INT(end(&other), 0);
}

TEST(nor_where_two_receives_share_bytes)
{
    struct story story = begin();
    struct tutti_step later = receives;
    struct tutti_step from_two = sends;

    later.dst_offset = 12;
    later.peer = 2;
    from_two.peer = 1;
    does(&story, 0, 0, reduces);
    does(&story, 0, 0, sends);
    does(&story, 2, 0, reduces);
    does(&story, 2, 0, from_two);
    does(&story, 1, 0, receives);
    does(&story, 1, 1, later);
    CHECK_INT(end(&story), 0);
}
