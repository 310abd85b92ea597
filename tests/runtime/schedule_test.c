/* Tests of the schedule's ground: collectives and their sizes, cursor, builder, steps in words. */
#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tests/test.h"

TEST(collectives_have_names_and_both_spellings_are_read)
{
    struct tutti_err err;

    for (unsigned i = 0; i < TUTTI_COLLECTIVE_COUNT; i++) {
        enum tutti_collective found = TUTTI_COLLECTIVE_COUNT;
        const char *name = tutti_collective_name((enum tutti_collective)i);

        CHECK_OK(tutti_collective_find(name, &found, &err), err);
        CHECK_INT(found, i);
    }
    enum tutti_collective found = TUTTI_CUSTOM;
    CHECK_OK(tutti_collective_find("all_reduce", &found, &err), err);
    CHECK_INT(found, TUTTI_ALLREDUCE);
    CHECK_OK(tutti_collective_find("reduce_scatter", &found, &err), err);
    CHECK_INT(found, TUTTI_REDUCESCATTER);
    CHECK_INT(tutti_collective_find("allgatherv", &found, &err), -TUTTI_EINVAL);
    CHECK_INT(found, TUTTI_REDUCESCATTER);
    CHECK_TEXT(err.text, "unknown collective 'allgatherv' (did you mean 'allgather'? all: "
                         "allreduce reducescatter allgather "
                         "broadcast reduce alltoall sendrecv barrier; custom in the text of a "
                         "schedule)");
}

TEST(sizes_are_counted_as_nccl_tests_counts_them)
{
    static const struct {
        enum tutti_collective collective;
        uint64_t in_bytes;
        uint64_t out_bytes;
        uint64_t size_bytes;
        double bus_factor;
    } want[] = {
        {TUTTI_ALLREDUCE, 400, 400, 400, 1.5},    {TUTTI_REDUCESCATTER, 1600, 400, 1600, 0.75},
        {TUTTI_ALLGATHER, 400, 1600, 1600, 0.75}, {TUTTI_BROADCAST, 400, 400, 400, 1},
        {TUTTI_REDUCE_TO_ROOT, 400, 400, 400, 1}, {TUTTI_ALLTOALL, 1600, 1600, 1600, 0.75},
        {TUTTI_SENDRECV, 400, 400, 400, 1},       {TUTTI_BARRIER, 0, 0, 0, 1},
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        enum tutti_collective collective = want[i].collective;
        struct tutti_contract contract = {.collective = collective, .count = 100};
        uint64_t in_bytes = 1;
        uint64_t out_bytes = 1;

        tutti_contract_bytes(&contract, 4, &in_bytes, &out_bytes);
        CHECK_INT(in_bytes, want[i].in_bytes);
        CHECK_INT(out_bytes, want[i].out_bytes);
        CHECK_INT(tutti_collective_bytes(collective, 100, TUTTI_FLOAT32, 4), want[i].size_bytes);
        CHECK(tutti_collective_bus_factor(collective, 4) == want[i].bus_factor);
        /* A few bytes more do not make one more element. */
        CHECK_INT(tutti_collective_count_for(collective, want[i].size_bytes + 3, TUTTI_FLOAT32, 4),
                  collective == TUTTI_BARRIER ? 0 : 100);
    }
    CHECK(tutti_collective_bytes(TUTTI_ALLTOALL, UINT64_MAX / 8, TUTTI_FLOAT64, 9) == UINT64_MAX);
}

TEST(a_flat_shape_is_one_ring)
{
    struct tutti_shape shape = tutti_shape_flat(7);

    CHECK_INT(shape.rank_count, 7);
    CHECK_INT(shape.order_count + shape.level_count + shape.dim_count, 0);
}

/* A generator with holes: round k of lane 1 has k mod 3 steps, so every third is empty. */
static uint64_t holes_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                  uint32_t lane)
{
    (void)schedule;
    return lane == 1 ? 10 + rank : 0;
}

static void holes_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                       uint64_t round, struct tutti_round *out)
{
    (void)schedule;
    (void)rank;
    (void)lane;
    for (uint64_t i = 0; i < round % 3; i++)
        out->step[out->step_count++] =
            (struct tutti_step){.kind = TUTTI_COMPUTE, .flops = round * 10 + i};
}

TEST(a_cursor_skips_empty_rounds)
{
    static const struct tutti_schedule_ops ops = {
        .size = sizeof(ops), .round_count = holes_round_count, .emit = holes_emit};
    struct tutti_schedule schedule = {.ops = &ops, .rank_count = 2, .lane_count = 2};
    static const uint64_t want[] = {10, 20, 21, 40, 50, 51, 70, 80, 81, 100};
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    size_t seen = 0;

    tutti_cursor_open(&cursor, &schedule, 1, 1);
    while ((step = tutti_cursor_next(&cursor)) != NULL && seen < 10) {
        CHECK_INT(step->flops, want[seen++]);
        CHECK_INT(cursor.step_index, seen);
    }
    CHECK_INT(seen, 10);
    CHECK(tutti_cursor_next(&cursor) == NULL);
    CHECK_INT(tutti_schedule_step_count(&schedule, 0, 1), 9);
    CHECK_INT(tutti_schedule_step_count(&schedule, 1, 1), 10);
    CHECK_INT(tutti_schedule_step_count(&schedule, 1, 0), 0);
}

static struct tutti_schedule_desc small_desc(uint32_t rank_count, uint32_t lane_count)
{
    return (struct tutti_schedule_desc){.name = "small",
                                        .contract = {.collective = TUTTI_ALLREDUCE, .count = 6},
                                        .rank_count = rank_count,
                                        .lane_count = lane_count,
                                        .scratch_bytes = 8};
}

TEST(steps_come_back_in_the_order_of_their_lane)
{
    struct tutti_schedule_desc desc = small_desc(40, 30);
    uint64_t added[40][30] = {{0}};
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_random random;
    struct tutti_err err;

    tutti_random_seed(&random, test_seed);
    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    REQUIRE(builder != NULL);
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t rank = (uint32_t)tutti_random_below(&random, 40);
        uint32_t lane = (uint32_t)tutti_random_below(&random, 1 + rank % 30);
        struct tutti_step step = {.kind = TUTTI_COMPUTE, .flops = added[rank][lane]++};

        CHECK_OK(tutti_builder_add(builder, rank, lane, &step, &err), err);
    }
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    CHECK_INT(schedule->in_bytes, 24);
    CHECK_INT(schedule->slot_count, TUTTI_SLOTS_DEFAULT);
    for (uint32_t rank = 0; rank < 40; rank++) {
        for (uint32_t lane = 0; lane < 30; lane++) {
            const struct tutti_step *step;
            struct tutti_cursor cursor;

            tutti_cursor_open(&cursor, schedule, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL)
                CHECK_INT(step->flops, cursor.step_index - 1);
            CHECK_INT(cursor.step_index, added[rank][lane]);
        }
    }
    tutti_schedule_free(schedule);
}

static void refuse(struct tutti_schedule_desc desc, const char *message)
{
    struct tutti_builder *builder = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_builder_new(&desc, &builder, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(builder == NULL);
}

TEST(a_builder_refuses_what_it_cannot_hold)
{
    struct tutti_schedule_desc desc = small_desc(3, 2);
    struct tutti_builder *builder = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    REQUIRE(builder != NULL);
    CHECK_INT(tutti_builder_add(builder, 3, 0, &(struct tutti_step){0}, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no rank '3' (0 to 2)");
    tutti_builder_free(builder);
    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    CHECK_INT(tutti_builder_add(builder, 0, 2, &(struct tutti_step){0}, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no lane '2' (0 to 1)");
    tutti_builder_free(builder);

    desc.name = "two words";
    refuse(desc, "bad schedule name 'two words' (one word, printable, without '#')");
    desc = small_desc(0, 1);
    refuse(desc, "a schedule of '0' ranks (1 or more)");
    desc = small_desc(1, 5000);
    refuse(desc, "a schedule of '5000' lanes (1 to 4096)");
    desc = small_desc(1 << 20, 17);
    refuse(desc, "'1048576' ranks of 17 lanes are too many to store "
                 "(ranks * lanes up to 16777216)");
    desc = small_desc(3, 1);
    desc.contract.root = 3;
    refuse(desc, "root '3' is not a rank (0 to 2)");
    desc = small_desc(3, 1);
    desc.in_bytes = 4;
    refuse(desc, "sizes of in and out given for 'allreduce', which fixes them itself");
    desc = small_desc(3, 1);
    desc.contract.count = UINT64_MAX / 4;
    refuse(desc, "buffers of 2^63 bytes or more (count '4611686018427387903')");
}

static struct tutti_schedule *build_empty(const struct tutti_schedule_desc *desc,
                                          struct tutti_schedule *callee)
{
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;
    uint32_t index = 7;

    CHECK_OK(tutti_builder_new(desc, &builder, &err), err);
    if (callee != NULL) {
        CHECK_OK(tutti_builder_add_callee(builder, callee, &index, &err), err);
        CHECK_INT(index, 0);
    }
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

TEST(callees_belong_to_their_caller_one_level_deep)
{
    struct tutti_schedule_desc desc = small_desc(3, 2);
    struct tutti_schedule *caller = build_empty(&desc, build_empty(&desc, NULL));
    struct tutti_schedule *other = NULL;
    struct tutti_builder *builder = NULL;
    struct tutti_err err;
    uint32_t index = 7;

    REQUIRE(caller != NULL);
    CHECK_INT(caller->callee_count, 1);
    CHECK_OK(tutti_schedule_store(caller, &builder, &err), err);
    REQUIRE(builder != NULL);
    CHECK_INT(tutti_builder_add_callee(builder, caller, &index, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "callee 'small' has callees itself (one level)");
    desc = small_desc(4, 2);
    other = build_empty(&desc, NULL);
    CHECK_INT(tutti_builder_add_callee(builder, other, &index, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "callee 'small' has '4' ranks (at most 3, the caller's)");
    CHECK_INT(index, 7);
    tutti_schedule_free(other);
    tutti_builder_free(builder); /* and the copy of the callee with it */
    tutti_schedule_free(caller);
    tutti_schedule_free(NULL);
}

TEST(a_step_is_told_in_words)
{
    char buf[TUTTI_STEP_TEXT_BYTES];
    struct tutti_step step = {.kind = TUTTI_SEND, .src_buf = TUTTI_BUF_OUT, .peer = 3};

    step.src_offset = 64;
    step.bytes = 128;
    CHECK_TEXT(tutti_step_text(&step, buf), "SEND out+64 128 B to 3");
    step = (struct tutti_step){.kind = TUTTI_RECV, .flags = TUTTI_STEP_FUSE | TUTTI_STEP_DEP};
    step.dst_buf = TUTTI_BUF_SCRATCH;
    step.dep_lane = 1;
    step.dep_step = 5;
    CHECK_TEXT(tutti_step_text(&step, buf), "RECV scratch+0 0 B from 0 fuse after lane 1 step 5");
    step = (struct tutti_step){.kind = TUTTI_COMPUTE, .duration_ps = 1500000};
    CHECK_TEXT(tutti_step_text(&step, buf), "COMPUTE 1.5us");
    step = (struct tutti_step){.kind = TUTTI_COMPUTE, .flops = 12};
    CHECK_TEXT(tutti_step_text(&step, buf), "COMPUTE 12 flops");
    step = (struct tutti_step){.kind = TUTTI_CALL, .src_buf = 1, .dst_buf = 2, .acc_offset = 9};
    CHECK_TEXT(tutti_step_text(&step, buf), "CALL 0 in+0 out+0 scratch+9");
    step = (struct tutti_step){.kind = TUTTI_COPY, .src_buf = 1, .dst_buf = 2, .bytes = 4};
    CHECK_TEXT(tutti_step_text(&step, buf), "COPY out+0 = in+0 4 B");
    step = (struct tutti_step){.kind = 99};
    CHECK_TEXT(tutti_step_text(&step, buf), "step of unknown kind 99");
    /* The longest there can be still fits. */
    step = (struct tutti_step){.kind = TUTTI_REDUCE,
                               .flags = TUTTI_STEP_DEP | TUTTI_STEP_LAST,
                               .dst_buf = TUTTI_BUF_SCRATCH,
                               .src_buf = TUTTI_BUF_SCRATCH,
                               .acc_buf = TUTTI_BUF_SCRATCH,
                               .reduction = tutti_reduction_code(TUTTI_BFLOAT16, TUTTI_PROD),
                               .dep_lane = 65535,
                               .peer = UINT32_MAX,
                               .dep_step = UINT32_MAX,
                               .bytes = UINT64_MAX,
                               .dst_offset = UINT64_MAX,
                               .src_offset = UINT64_MAX,
                               .acc_offset = UINT64_MAX};
    CHECK(strlen(tutti_step_text(&step, buf)) < TUTTI_STEP_TEXT_BYTES);
    CHECK(strstr(buf, " bfloat16 prod over 4294967295 last") != NULL);
    CHECK(strstr(buf, " last after lane 65535 step 4294967295") != NULL);
}
