/* Blocks of threads of a GPU on a virtual clock: what operations take that wait for each other and
 * share a memory. The bend of a block's rate into its part of all is out of the way but where it is
 * looked at. */
#include "runtime/cuda_work.h"
#include "runtime/status.h"
#include "sim/local.h"
#include "tests/test.h"

static void set(struct tutti_local *local, enum tutti_local_parameter parameter, double value)
{
    local->values[parameter].value = value;
}

/* A launch takes 10 us, a counter 2 us to be seen, an operation 0.5 us beside its bytes, one
 * that reads a line 1 us from when it was stored. Of bytes a block moves 100 a nanosecond, 50 where
 * it copies, 80 of many sources; memory has plenty. */
static struct tutti_local plain(void)
{
    struct tutti_local local = tutti_local_guess();

    set(&local, TUTTI_LOCAL_BLOCK_LAUNCH, 10);
    set(&local, TUTTI_LOCAL_BLOCK_HOP, 2);
    set(&local, TUTTI_LOCAL_BLOCK_LINE, 1);
    set(&local, TUTTI_LOCAL_BLOCK_STEP, 0.5);
    set(&local, TUTTI_LOCAL_BLOCK_COPY, 50);
    set(&local, TUTTI_LOCAL_BLOCK_ADD, 100);
    set(&local, TUTTI_LOCAL_BLOCK_SUM, 80);
    set(&local, TUTTI_LOCAL_BLOCK_MEMORY, 1e6);
    set(&local, TUTTI_LOCAL_BLOCK_SHARED, 1e6);
    set(&local, TUTTI_LOCAL_BLOCK_CACHE, 1);
    return local;
}

static void expect_us(const struct tutti_cuda_work *work, const struct tutti_local *local,
                      double expected)
{
    struct tutti_local_play *play = NULL;
    struct tutti_err err = {""};
    tutti_ps ps = 0;

    CHECK_OK(tutti_local_play_open_blocks(work, &play, &err), err);
    for (int again = 0; again < 2; again++) { /* a play leaves nothing behind */
        CHECK_OK(tutti_local_time(play, local, &ps, &err), err);
        if ((double)ps < expected * 0.999e6 || (double)ps > expected * 1.001e6)
            TEST_FAIL("%.4f us, expected %.4f", (double)ps / 1e6, expected);
    }
    tutti_local_play_close(play);
}

/* Lane 0 copies 100,000 bytes, read and written: 0.5 + 200,000 / 50,000 = 4.5 us, and stores its
 * counter. Lane 1 sees that 2 us later, and adds: 0.5 + 300,000 / 100,000 = 3.5 us. */
static const struct tutti_cuda_work_op passing[] = {
    {.bytes = 100000, .src_count = 1, .dst_count = 1, .signal_first = 0, .signal_count = 1},
    {.bytes = 100000, .src_count = 2, .dst_count = 1, .wait_first = 0, .wait_count = 1},
};
static const struct tutti_cuda_work_flag flags[] = {{0, 1}};
static const uint32_t lane_each[] = {0, 1, 2};

static struct tutti_cuda_work pass(void)
{
    return (struct tutti_cuda_work){.lane_count = 2,
                                    .op_count = 2,
                                    .flag_count = 1,
                                    .counter_count = 1,
                                    .line_first = 1,
                                    .thread_count = 512,
                                    .op_first = lane_each,
                                    .ops = passing,
                                    .flags = flags};
}

TEST(who_waits_goes_on_a_hop_after_the_store)
{
    struct tutti_local local = plain();
    struct tutti_cuda_work work = pass();

    expect_us(&work, &local, 10 + 4.5 + 2 + 3.5);
    work.line_first = 0; /* a line's step is within its 1 us */
    expect_us(&work, &local, 10 + 4.5 + 1 + 3);
}

TEST(a_block_of_half_the_threads_moves_half)
{
    struct tutti_local local = plain();
    struct tutti_cuda_work work = pass();

    work.thread_count = 256;
    expect_us(&work, &local, 10 + 0.5 + 8 + 2 + 0.5 + 6);
}

/* A rate of a block equal to its part of all is 2^(-1/1.5) of either. */
TEST(blocks_share_what_memory_has)
{
    static const struct tutti_cuda_work_op ops[] = {
        {.bytes = 50000, .src_count = 1, .dst_count = 1},
        {.bytes = 50000, .src_count = 1, .dst_count = 1},
    };
    struct tutti_local local = plain();
    struct tutti_cuda_work work = pass();

    work.ops = ops;
    work.counter_count = work.line_first = 0;
    expect_us(&work, &local, 10 + 0.5 + 2);
    set(&local, TUTTI_LOCAL_BLOCK_MEMORY, 100);
    work.buffer_bytes = UINT64_C(1) << 30; /* far more than the cache keeps */
    expect_us(&work, &local, 10 + 0.5 + 2 * 1.587401);
    work.buffer_bytes = 1024; /* all of it kept */
    expect_us(&work, &local, 10 + 0.5 + 2);
}

/* 8 x 50,000 read and 50,000 written, at 80 a nanosecond. */
TEST(many_sources_have_a_rate_of_their_own)
{
    static const struct tutti_cuda_work_op ops[] = {
        {.bytes = 50000, .src_count = 8, .dst_count = 1},
        {.bytes = 0},
    };
    struct tutti_local local = plain();
    struct tutti_cuda_work work = pass();

    work.ops = ops;
    work.counter_count = work.line_first = 0;
    expect_us(&work, &local, 10 + 0.5 + 5.625);
}

/* Two copies of the same bytes, one after the other: what the second reads the cache has kept, what
 * it writes is other memory. In the cache of 1 MiB are 100,000 bytes of three places, and so all of
 * them from the first play on. */
TEST(what_was_touched_lately_is_kept)
{
    static const struct tutti_cuda_work_op ops[] = {
        {.bytes = 100000, .src_count = 1, .dst_count = 1, .place_first = 0},
        {.bytes = 100000, .src_count = 1, .dst_count = 1, .place_first = 2},
    };
    static const uint32_t places[] = {0, 1, 0, 2};
    struct tutti_local local = plain();
    struct tutti_cuda_work work = pass();

    work.ops = ops;
    work.counter_count = work.line_first = 0;
    work.op_first = (const uint32_t[]){0, 2, 2};
    work.places = places;
    work.place_count = 3;
    set(&local, TUTTI_LOCAL_BLOCK_COPY, 1e6);
    set(&local, TUTTI_LOCAL_BLOCK_MEMORY, 100);
    expect_us(&work, &local, 10 + 1); /* the cache's rate is out of the way */
    set(&local, TUTTI_LOCAL_BLOCK_CACHE, 1e-3);
    expect_us(&work, &local, 10 + 1 + 2 + 2); /* and none keeps anything of 100,000 bytes */
}

TEST(a_line_moves_twice_its_bytes_and_nothing_takes_a_step)
{
    static const struct tutti_cuda_work_op ops[] = {
        {.bytes = 50000, .src_count = 1, .dst_count = 1, .line_count = 1},
        {.duration_ps = 7000000},
    };
    struct tutti_local local = plain();
    struct tutti_cuda_work work = pass();

    work.ops = ops;
    work.counter_count = work.line_first = 0;
    expect_us(&work, &local, 10 + 0.5 + 7); /* beside 0.5 + 150,000 / 50,000 */
    work.op_first = (const uint32_t[]){0, 2, 2};
    expect_us(&work, &local, 10 + 0.5 + 3 + 0.5 + 7);
}
