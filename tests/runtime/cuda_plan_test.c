/* Schedules as the CUDA player plays them: how many bytes are moved, what is refused. */
#include "runtime/coll.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tests/test.h"

static struct tutti_schedule *generate(const char *algorithm, uint32_t n, uint64_t count,
                                       uint32_t channels)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                             .dtype = TUTTI_FLOAT32,
                                             .count = count,
                                             .channel_count = channels};
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return schedule;
}

/* Bytes moved by one all-reduce of S bytes a rank, in multiples of S / n. */
static uint64_t moved(const char *algorithm, uint32_t n, uint32_t channels, bool joins)
{
    uint64_t count = UINT64_C(840) * n * channels; /* whole parts */
    struct tutti_schedule *schedule = generate(algorithm, n, count, channels);
    struct tutti_cuda_plan plan = {0};
    struct tutti_err err = {{0}};
    uint64_t part = count * 4 / n;
    uint64_t parts;

    if (schedule == NULL)
        return 0;
    CHECK_OK(
        tutti_cuda_plan_open(&plan, schedule, joins ? TUTTI_CUDA_JOINED : TUTTI_CUDA_PLAIN, &err),
        err);
    CHECK_INT(plan.moved_bytes % part, 0);
    parts = plan.moved_bytes / part;
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
    return parts;
}

TEST(two_shot_moves_each_input_and_output_once)
{
    for (uint32_t n = 2; n <= 8; n++)
        for (uint32_t channels = 1; channels <= 4; channels++)
            CHECK_INT(moved("two-shot", n, channels, true), 2 * n * n);
}

TEST(a_ring_moves_5n_minus_6)
{
    for (uint32_t n = 2; n <= 8; n++)
        for (uint32_t channels = 1; channels <= 4; channels++)
            CHECK_INT(moved("ring", n, channels, true), (5 * n - 6) * n);
}

TEST(one_shot_reads_all_and_writes_one)
{
    for (uint32_t n = 2; n <= 8; n++)
        for (uint32_t channels = 1; channels <= 4; channels++)
            CHECK_INT(moved("one-shot", n, channels, true), n * (n + 1) * n);
}

TEST(without_joins_each_reduction_moves_three)
{
    CHECK_INT(moved("ring", 8, 1, false), 5 * 7 * 8);
    CHECK_INT(moved("two-shot", 8, 1, false), 5 * 7 * 8);
}

/* ---- schedules made by hand ---- */

static struct tutti_builder *builder(uint32_t ranks, uint32_t lanes, uint32_t slots)
{
    const struct tutti_schedule_desc desc = {
        .name = "story",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = ranks,
        .lane_count = lanes,
        .slot_count = slots,
        .in_bytes = 64,
        .out_bytes = 64,
        .scratch_bytes = 64,
    };
    struct tutti_builder *made = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_builder_new(&desc, &made, &err), err);
    return made;
}

static const struct tutti_buf_at in = {TUTTI_BUF_IN, 0};
static const struct tutti_buf_at out = {TUTTI_BUF_OUT, 0};
static const struct tutti_buf_at scratch = {TUTTI_BUF_SCRATCH, 0};

static void add(struct tutti_builder *to, uint32_t rank, uint32_t lane, struct tutti_step step)
{
    (void)tutti_builder_add(to, rank, lane, &step, NULL);
}

/* Plans what was built; the message is in *err. The plan, if any, is looked at and closed. */
static int plan_of(struct tutti_builder *from, struct tutti_cuda_plan *plan,
                   struct tutti_schedule **ret, struct tutti_err *err)
{
    CHECK_OK(tutti_builder_finish(from, ret, err), *err);
    return tutti_cuda_plan_open(plan, *ret, TUTTI_CUDA_JOINED, err);
}

static void refused(struct tutti_builder *from, const char *words)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_cuda_plan plan = {0};
    struct tutti_err err = {{0}};

    CHECK_INT(plan_of(from, &plan, &schedule, &err), -TUTTI_ECHECK);
    if (strstr(err.text, words) == NULL)
        TEST_FAIL("'%s' is not in: %s", words, err.text);
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
}

TEST(messages_that_meet_none_are_named)
{
    struct tutti_builder *b = builder(2, 1, 0);

    add(b, 0, 0, tutti_step_send(in, 4, 1));
    add(b, 1, 0, tutti_step_recv(out, 4, 0));
    add(b, 1, 0, tutti_step_recv(out, 4, 0));
    refused(b, "rank 1, lane 0, step 1 (RECV");
    b = builder(2, 2, 0);
    add(b, 0, 1, tutti_step_send(in, 4, 1));
    refused(b, "rank 0, lane 1, step 0 (SEND");
    b = builder(2, 1, 0);
    add(b, 0, 0, tutti_step_send(in, 8, 1));
    add(b, 1, 0, tutti_step_recv(out, 4, 0));
    refused(b, "rank 1, lane 0, step 0 (RECV out+0 4 B from 0): rank 0 sent 8 bytes");
}

TEST(a_deadlock_is_named_before_anything_is_played)
{
    struct tutti_builder *b = builder(2, 1, 0);
    struct tutti_step step;

    for (uint32_t r = 0; r < 2; r++) {
        add(b, r, 0, tutti_step_recv(out, 4, 1 - r));
        add(b, r, 0, tutti_step_send(in, 4, 1 - r));
    }
    refused(b, "deadlock: rank 0, lane 0, step 0 (RECV");
    b = builder(1, 2, 0); /* two lanes that wait for each other */
    for (uint16_t l = 0; l < 2; l++) {
        step = tutti_step_copy((struct tutti_buf_at){TUTTI_BUF_OUT, 4u * l}, in, 4);
        step.flags |= TUTTI_STEP_DEP;
        step.dep_lane = 1 - l;
        add(b, 0, l, step);
    }
    refused(b, "deadlock: rank 0, lane 0, step 0 (COPY");
    b = builder(2, 1, 1); /* the second SEND lacks the slot that is given back after it */
    add(b, 0, 0, tutti_step_send(in, 4, 1));
    add(b, 0, 0, tutti_step_send(in, 4, 1));
    add(b, 0, 0, tutti_step_send(in, 0, 1));
    add(b, 1, 0, tutti_step_recv(out, 4, 0));
    add(b, 1, 0, tutti_step_send(in, 4, 0));
    add(b, 1, 0, tutti_step_recv(out, 4, 0));
    add(b, 1, 0, tutti_step_recv(out, 0, 0));
    add(b, 0, 0, tutti_step_recv(out, 4, 1));
    {
        struct tutti_schedule *schedule = NULL;
        struct tutti_cuda_plan plan = {0};
        struct tutti_err err = {{0}};

        CHECK_OK(plan_of(b, &plan, &schedule, &err), err); /* that one does end */
        tutti_cuda_plan_close(&plan);
        tutti_schedule_free(schedule);
    }
}

/* Rank 0 adds what 1 and 2 send; 2 sends only once 1 knows that its message has been taken. Joined,
 * rank 0 would wait for 2 before it takes the message of 1. */
TEST(sources_stay_apart_where_joining_them_would_lock_up)
{
    struct tutti_builder *b = builder(3, 1, 1);
    struct tutti_step recv = tutti_step_recv(scratch, 4, 1);
    struct tutti_schedule *schedule = NULL;
    struct tutti_cuda_plan plan = {0};
    struct tutti_err err = {{0}};
    uint32_t reductions = 0;

    recv.flags |= TUTTI_STEP_FUSE;
    add(b, 0, 0, recv);
    add(b, 0, 0, tutti_step_reduce(out, in, scratch, 4));
    recv.peer = 2;
    add(b, 0, 0, recv);
    add(b, 0, 0, tutti_step_reduce(out, out, scratch, 4));
    add(b, 0, 0, tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_OUT, 8}, 4, 1));
    add(b, 1, 0, tutti_step_send(in, 4, 0));
    add(b, 1, 0, tutti_step_send(in, 4, 0)); /* one slot: waits until the first is taken */
    add(b, 1, 0, tutti_step_send(in, 4, 2));
    add(b, 2, 0, tutti_step_recv(out, 4, 1));
    add(b, 2, 0, tutti_step_send(in, 4, 0));
    CHECK_OK(plan_of(b, &plan, &schedule, &err), err);
    for (uint32_t i = 0; i < plan.op_first[1]; i++)
        reductions += plan.ops[i].src_count == 2;
    CHECK_INT(reductions, 2);
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
}

/* A result is not written to where its receiver still reads. */
TEST(a_window_that_somebody_reads_before_stays_shut)
{
    for (int touched = 0; touched < 2; touched++) {
        struct tutti_builder *b = builder(2, 1, 0);
        struct tutti_schedule *schedule = NULL;
        struct tutti_cuda_plan plan = {0};
        struct tutti_err err = {{0}};

        add(b, 0, 0, tutti_step_reduce(out, in, in, 4));
        add(b, 0, 0, tutti_step_send(out, 4, 1));
        if (touched)
            add(b, 1, 0, tutti_step_copy((struct tutti_buf_at){TUTTI_BUF_OUT, 8}, out, 4));
        add(b, 1, 0, tutti_step_recv(out, 4, 0));
        CHECK_OK(plan_of(b, &plan, &schedule, &err), err);
        CHECK_INT(plan.messages[0].pushed, !touched);
        tutti_cuda_plan_close(&plan);
        tutti_schedule_free(schedule);
    }
}

/* What a depending lane reads is there when it is told so. */
TEST(a_result_that_another_lane_waits_for_is_not_joined)
{
    struct tutti_builder *b = builder(1, 2, 0);
    struct tutti_step step = tutti_step_copy((struct tutti_buf_at){TUTTI_BUF_SCRATCH, 0}, out, 4);
    struct tutti_schedule *schedule = NULL;
    struct tutti_cuda_plan plan = {0};
    struct tutti_err err = {{0}};

    add(b, 0, 0, tutti_step_reduce(out, in, in, 4));
    add(b, 0, 0, tutti_step_reduce(out, out, in, 4));
    step.flags |= TUTTI_STEP_DEP;
    add(b, 0, 1, step);
    CHECK_OK(plan_of(b, &plan, &schedule, &err), err);
    CHECK_INT(plan.op_first[1], 2);
    CHECK_INT(plan.ops[0].src_count, 2);
    CHECK_INT(plan.ops[0].signal_count, 1);
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
}

/* A ring of n: each lane sends one message of its input, for which a counter is counted up; all
 * others go by lines, and each is one operation that makes it of what has come. */
TEST(short_messages_of_results_go_by_lines)
{
    static const uint64_t counts[] = {64, 64 * 1024};

    for (size_t c = 0; c < 2; c++) {
        struct tutti_schedule *schedule = generate("ring", 8, counts[c], 1);
        struct tutti_cuda_plan plan = {0};
        struct tutti_err err = {{0}};
        uint32_t lined = 0;

        REQUIRE(schedule != NULL);
        CHECK_OK(tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_LINED, &err), err);
        for (uint32_t m = 0; m < plan.message_count; m++)
            lined += plan.messages[m].lined;
        CHECK_INT(lined, c == 0 ? 8 * 13 : 0); /* of 14 each */
        if (c == 0) {
            CHECK_INT(plan.op_first[1], 15); /* the first SEND, and what each RECV brings */
            CHECK_INT(plan.wait_count, 8);
            CHECK_INT(plan.signal_count, 8);
        }
        tutti_cuda_plan_close(&plan);
        tutti_schedule_free(schedule);
    }
}

TEST(nothing_goes_by_lines_where_lanes_depend_on_each_other)
{
    struct tutti_builder *b = builder(2, 2, 0);
    struct tutti_step step = tutti_step_copy((struct tutti_buf_at){TUTTI_BUF_OUT, 8}, in, 4);
    struct tutti_schedule *schedule = NULL;
    struct tutti_cuda_plan plan = {0};
    struct tutti_err err = {{0}};

    add(b, 0, 0, tutti_step_reduce(scratch, in, in, 4));
    add(b, 0, 0, tutti_step_send(scratch, 4, 1));
    add(b, 1, 0, tutti_step_recv(out, 4, 0));
    step.flags |= TUTTI_STEP_DEP;
    add(b, 1, 1, step);
    CHECK_OK(tutti_builder_finish(b, &schedule, &err), err);
    CHECK_OK(tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_LINED, &err), err);
    CHECK(!plan.lined);
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
}

/* Two-shot is done in 3 operations a lane where results are written to their places, and by lines
 * in one for each peer. */
TEST(lines_are_left_where_fewer_operations_do)
{
    struct tutti_schedule *schedule = generate("two-shot", 8, 64, 1);
    struct tutti_cuda_plan plan = {0};
    struct tutti_err err = {{0}};

    REQUIRE(schedule != NULL);
    CHECK_OK(tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_LINED, &err), err);
    CHECK(!plan.lined);
    CHECK_INT(plan.op_first[1], 3);
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
}
