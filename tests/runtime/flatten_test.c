/* Calls laid out: what a schedule with CALL steps computes is proved on its flat form, for callees
 * one after another and side by side, with dependencies across; what does not fit is refused. */
#include "runtime/coll.h"
#include "tests/runtime/mutate.h"
#include "tests/runtime/small.h"

enum { SLOTS = 8 };

static struct tutti_schedule *generate(const char *algorithm, enum tutti_collective collective,
                                       uint32_t n, uint64_t count, uint32_t channels)
{
    const struct tutti_coll_params params = {
        .collective = collective, .count = count, .channel_count = channels, .slot_count = SLOTS};
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return schedule;
}

static struct tutti_step call(uint32_t callee, unsigned src, uint64_t src_offset, unsigned dst,
                              uint64_t dst_offset, uint64_t scratch_offset)
{
    return (struct tutti_step){.kind = TUTTI_CALL,
                               .peer = callee,
                               .src_buf = (uint8_t)src,
                               .src_offset = src_offset,
                               .dst_buf = (uint8_t)dst,
                               .dst_offset = dst_offset,
                               .acc_offset = scratch_offset};
}

static struct tutti_step after(struct tutti_step step, uint32_t lane, uint32_t index)
{
    step.flags |= TUTTI_STEP_DEP;
    step.dep_lane = (uint16_t)lane;
    step.dep_step = index;
    return step;
}

static uint32_t add_callee(struct tutti_builder *builder, struct tutti_schedule *callee)
{
    struct tutti_err err = {""};
    uint32_t index = UINT32_MAX;

    CHECK_OK(tutti_builder_add_callee(builder, callee, &index, &err), err);
    return index;
}

static void check_and_prove(const struct tutti_schedule *schedule)
{
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_check(schedule, &err), err);
    CHECK_OK(tutti_schedule_prove(schedule, &err), err);
}

/* All-reduce of n * count floats: reduce-scatter into scratch, all-gather from there. */
static struct tutti_schedule *scatter_and_gather(const char *down, const char *up, uint32_t n,
                                                 uint64_t count, uint32_t channels)
{
    struct tutti_schedule *scatter = generate(down, TUTTI_REDUCESCATTER, n, count, channels);
    struct tutti_schedule *gather = generate(up, TUTTI_ALLGATHER, n, count, channels);
    uint64_t needed = scatter->scratch_bytes > gather->scratch_bytes ? scatter->scratch_bytes
                                                                     : gather->scratch_bytes;
    struct tutti_builder *builder = small_builder((struct tutti_schedule_desc){
        .contract = {.collective = TUTTI_ALLREDUCE, .count = n * count},
        .rank_count = n,
        .slot_count = SLOTS,
        .scratch_bytes = count * 4 + needed});

    CHECK_INT(add_callee(builder, scatter), 0);
    CHECK_INT(add_callee(builder, gather), 1);
    for (uint32_t rank = 0; rank < n; rank++) {
        small_add(builder, rank, 0, call(0, SMALL_IN, 0, SMALL_SCRATCH, 0, count * 4));
        small_add(builder, rank, 0, call(1, SMALL_SCRATCH, 0, SMALL_OUT, 0, count * 4));
    }
    return small_finish(builder);
}

TEST(reduce_scatter_and_all_gather_make_an_all_reduce)
{
    static const char *const downs[] = {"ring", "halving", "direct"};
    static const char *const ups[] = {"direct", "ring", "recursive-doubling"};

    for (uint32_t n = 1; n <= 9; n++) {
        for (size_t i = 0; i < 3; i++) {
            struct tutti_schedule *schedule =
                scatter_and_gather(downs[i], ups[i], n, 5, 1 + (uint32_t)i);

            check_and_prove(schedule);
            tutti_schedule_free(schedule);
        }
    }
}

TEST(no_mutant_of_a_laid_out_schedule_survives)
{
    struct tutti_schedule *schedule = scatter_and_gather("direct", "ring", 3, 2, 1);
    struct tutti_schedule *flat = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    REQUIRE(flat != NULL);
    CHECK_INT(flat->lane_count, 2);
    CHECK_INT(flat->callee_count, 0);
    CHECK(mutate_all(flat) > 50);
    tutti_schedule_free(flat);
    tutti_schedule_free(schedule);
}

/* A bucket of `count` floats after another through the same place in scratch: the copy of the next
 * must wait until every SEND of the call before has completed, not only started. */
static struct tutti_schedule *buckets(uint32_t n, uint32_t bucket_count, uint64_t count)
{
    struct tutti_schedule *reduce = generate("two-shot", TUTTI_ALLREDUCE, n, count, 2);
    uint64_t bytes = count * 4;
    struct tutti_builder *builder = small_builder((struct tutti_schedule_desc){
        .contract = {.collective = TUTTI_ALLREDUCE, .count = bucket_count * count},
        .rank_count = n,
        .slot_count = SLOTS,
        .scratch_bytes = bytes + reduce->scratch_bytes});

    add_callee(builder, reduce);
    for (uint32_t rank = 0; rank < n; rank++) {
        for (uint32_t i = 0; i < bucket_count; i++) {
            small_add(builder, rank, 0, small_copy(SMALL_SCRATCH, 0, SMALL_IN, i * bytes, bytes));
            small_add(builder, rank, 0, call(0, SMALL_SCRATCH, 0, SMALL_OUT, i * bytes, bytes));
        }
    }
    return small_finish(builder);
}

TEST(calls_end_when_their_sends_have_ended)
{
    for (uint32_t n = 2; n <= 4; n++) {
        struct tutti_schedule *schedule = buckets(n, 40, 3);

        check_and_prove(schedule);
        tutti_schedule_free(schedule);
    }
}

/* Two lanes: lane 1 copies the first half of the sum back into scratch once lane 0's call is over,
 * and only then does lane 0 call again. `drop` leaves one of the dependencies away. */
static struct tutti_schedule *across(uint32_t n, int drop)
{
    struct tutti_schedule *reduce = generate("ring", TUTTI_ALLREDUCE, n, 4, 1);
    struct tutti_schedule *bcast = generate("binomial", TUTTI_BROADCAST, n, 4, 1);
    uint64_t needed = reduce->scratch_bytes;
    struct tutti_builder *builder =
        small_builder((struct tutti_schedule_desc){.contract = {.collective = TUTTI_CUSTOM},
                                                   .rank_count = n,
                                                   .lane_count = 2,
                                                   .slot_count = SLOTS,
                                                   .in_bytes = 16,
                                                   .out_bytes = 32,
                                                   .scratch_bytes = 16 + needed});
    struct tutti_step copy = small_copy(SMALL_SCRATCH, 0, SMALL_OUT, 0, 16);
    struct tutti_step again = call(1, SMALL_SCRATCH, 0, SMALL_OUT, 16, 16);

    add_callee(builder, reduce);
    add_callee(builder, bcast);
    for (uint32_t rank = 0; rank < n; rank++) {
        small_add(builder, rank, 0, (struct tutti_step){.kind = TUTTI_COMPUTE, .flops = 1});
        small_add(builder, rank, 0, call(0, SMALL_IN, 0, SMALL_OUT, 0, 16));
        small_add(builder, rank, 1, drop == 1 ? copy : after(copy, 0, 1));
        small_add(builder, rank, 0, drop == 2 ? again : after(again, 1, 0));
    }
    return small_finish(builder);
}

TEST(dependencies_cross_lanes_and_calls)
{
    for (uint32_t n = 2; n <= 5; n++) {
        for (int drop = 0; drop <= 2; drop++) {
            struct tutti_schedule *schedule = across(n, drop);
            struct tutti_err err = {""};
            int status = tutti_schedule_check(schedule, &err);

            CHECK_INT(status, drop == 0 ? 0 : -TUTTI_ECHECK);
            CHECK(drop == 0 || strstr(err.text, "with its calls laid out: rank ") == err.text);
            CHECK(drop == 0 || strstr(err.text, "nothing orders it") != NULL);
            tutti_schedule_free(schedule);
        }
    }
}

/* Calls in two lanes run side by side, each in lanes of its own. */
TEST(calls_of_two_lanes_run_side_by_side)
{
    uint32_t n = 4;
    struct tutti_schedule *reduce = generate("recursive-doubling", TUTTI_ALLREDUCE, n, 6, 3);
    uint64_t needed = reduce->scratch_bytes;
    struct tutti_builder *builder = small_builder(
        (struct tutti_schedule_desc){.contract = {.collective = TUTTI_ALLREDUCE, .count = 12},
                                     .rank_count = n,
                                     .lane_count = 2,
                                     .slot_count = SLOTS,
                                     .scratch_bytes = 2 * needed});
    struct tutti_schedule *schedule;
    struct tutti_price price;
    struct tutti_err err = {""};

    add_callee(builder, reduce);
    for (uint32_t rank = 0; rank < n; rank++)
        for (uint32_t lane = 0; lane < 2; lane++)
            small_add(builder, rank, lane,
                      call(0, SMALL_IN, 24 * lane, SMALL_OUT, 24 * lane, needed * lane));
    schedule = small_finish(builder);
    check_and_prove(schedule);
    CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    CHECK_INT(price.round_count, 2); /* log2 4: both at once */
    tutti_schedule_free(schedule);
}

/* Ranks that are in no group of an axis have no part in its calls. */
TEST(not_every_rank_need_take_part)
{
    static const char text[] = "schedule some\n"
                               "contract broadcast int8 sum count 2\n"
                               "ranks 3\n"
                               "axis first-two first 0 width 1 stride 1 size 2 period 2 repeat 1\n"
                               "axis last first 2 width 1 stride 1 size 1 period 1 repeat 1\n"
                               "rank 0 lane 0\n"
                               "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
                               "  SEND in+0 2 B to 2\n"
                               "rank 1 lane 0\n"
                               "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
                               "rank 2 lane 0\n"
                               "  CALL 1 axis 2 in+0 out+0 scratch+0\n"
                               "  RECV out+0 2 B from 0\n"
                               "callee pair\n"
                               "contract broadcast int8 sum count 2\n"
                               "ranks 2\n"
                               "lanes 3\n"
                               "rank 0 lane 0\n"
                               "  COPY out+0 = in+0 2 B\n"
                               "rank 0 lane 2\n"
                               "  SEND in+0 2 B to 1\n"
                               "rank 1 lane 2\n"
                               "  RECV out+0 2 B from 0\n"
                               "callee nothing\n"
                               "contract barrier double max count 0\n"
                               "ranks 1\n";
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    REQUIRE(schedule != NULL);
    check_and_prove(schedule);
    tutti_schedule_free(schedule);
}

/* ---- what does not fit ----------------------------------------------------------------------- */

#define CALLER(ranks, body)                                          \
    "schedule c\ncontract allreduce float sum count 4\nranks " ranks \
    "\nscratch 16 B\nrank 0 lane 0\n" body "\n"

static const struct {
    const char *text;
    const char *message;
} misfits[] = {
    {CALLER("1", "CALL 1 in+0 out+0 scratch+0") "callee d\ncontract allreduce float sum count 4\n",
     "rank 0, lane 0, step 0 (CALL 1 in+0 out+0 scratch+0): no callee '1' (0 to 0)"},
    {CALLER("1", "CALL 0 in+4 out+0 scratch+0") "callee d\ncontract allreduce float sum count 4\n",
     "rank 0, lane 0, step 0 (CALL 0 in+4 out+0 scratch+0): the callee's 'in' of 16 bytes lies "
     "outside 'in' (of 16 bytes)"},
    {CALLER("1", "CALL 0 out+0 in+0 scratch+0") "callee d\ncontract allreduce float sum count 4\n",
     "rank 0, lane 0, step 0 (CALL 0 out+0 in+0 scratch+0): the callee writes its 'out', which is "
     "'in' (out, scratch or state)"},
    {CALLER("1", "CALL 0 in+0 out+0 scratch+18446744073709551615") "callee d\n"
                                                                   "contract allreduce float sum "
                                                                   "count 4\nscratch 16 B\n",
     "rank 0, lane 0, step 0 (CALL 0 in+0 out+0 scratch+18446744073709551615): the callee's "
     "'scratch' of 16 bytes lies outside 'scratch' (of 16 bytes)"},
    {CALLER("1", "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                                "contract allreduce float sum count 4\nslots 4\n",
     "callee 'd' has '4' slots (8, as the caller)"},
    {CALLER("2", "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                                "contract allreduce float sum count 4\nranks 1\n",
     "rank 0, lane 0, step 0 (CALL 0 in+0 out+0 scratch+0): callee 'd' has '1' ranks (2, as the "
     "groups of axis 'all')"},
    {CALLER("1", "CALL 0 axis 1 in+0 out+0 scratch+0") "callee d\n"
                                                       "contract allreduce float sum count 4\n",
     "rank 0, lane 0, step 0 (CALL 0 axis 1 in+0 out+0 scratch+0): no axis '1' (0: all ranks; "
     "axes: 0)"},
    {CALLER("1", "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                                "contract allreduce float sum count 4\nstate 4 B\n",
     "callee 'd' has work, state or axes of its own (the caller's alone)"},
    {CALLER("1", "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                                "contract allreduce float sum count 4\nrank 0 lane "
                                                "0\nCOPY out+4 = in+0 16 B\n",
     "callee 'd': rank 0, lane 0, step 0 (COPY out+4 = in+0 16 B): bytes 4..19 lie outside 'out' "
     "(of 16 bytes)"},
    {CALLER("1",
            "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                           "contract allreduce float sum count 4\nrank 0 lane 0\n"
                                           "COPY none+0 = none+0 0 B after lane 0 step 1\n",
     "callee 'd': rank 0, lane 0, step 0 (COPY none+0 = none+0 0 B after lane 0 step 1): depends "
     "on step '1' of its own lane (an earlier one)"},
    {CALLER("1",
            "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                           "contract allreduce float sum count 4\nlanes 4096\n",
     "schedule 'c' with its calls laid out has more than '4096' lanes"},
    {CALLER("1", "CALL 0 in+0 out+0 scratch+0") "callee d\n"
                                                "contract allreduce float sum count 4\nlanes "
                                                "2\nrank 0 lane 0\n"
                                                "COPY none+0 = none+0 0 B after lane 1 step 0\n",
     "callee 'd': rank 0, lane 0, step 0 (COPY none+0 = none+0 0 B after lane 1 step 0): depends "
     "on step '0' of lane 1 (which has 0 steps)"},
    {CALLER("1", "CALL 0 in+0 out+0 scratch+0 after lane 1 step 0") "callee d\n"
                                                                    "contract allreduce float sum "
                                                                    "count 4\n",
     "rank 0, lane 0, step 0 (CALL 0 in+0 out+0 scratch+0 after lane 1 step 0): depends on lane "
     "'1' (0 to 0)"},
};

TEST(calls_that_do_not_fit_are_refused)
{
    for (size_t i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++) {
        struct tutti_schedule *schedule = NULL;
        struct tutti_schedule *flat = NULL;
        struct tutti_err err = {""};

        CHECK_OK(
            tutti_schedule_parse("text", misfits[i].text, strlen(misfits[i].text), &schedule, &err),
            err);
        if (schedule == NULL)
            continue;
        CHECK(tutti_schedule_flatten(schedule, &flat, &err) < 0);
        CHECK_TEXT(err.text, misfits[i].message);
        CHECK(flat == NULL);
        tutti_schedule_free(schedule);
    }
}

TEST(without_callees_the_flat_form_is_the_schedule)
{
    struct tutti_schedule *schedule = generate("ring", TUTTI_ALLREDUCE, 3, 7, 2);
    struct tutti_schedule *flat = NULL;
    struct tutti_err err = {""};
    char *a = NULL;
    char *b = NULL;

    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    CHECK_OK(tutti_schedule_print(schedule, &a, &err), err);
    CHECK_OK(tutti_schedule_print(flat, &b, &err), err);
    CHECK(a != NULL && b != NULL && strcmp(a, b) == 0);
    free(a);
    free(b);
    tutti_schedule_free(flat);
    tutti_schedule_free(schedule);
}

/* The steps of a call of two lanes, one of which sends to two peers, as they stand afterwards. */
TEST(a_call_becomes_forks_and_joins)
{
    static const char text[] = "schedule c\ncontract custom int8 sum count 0\nranks 3\nlanes 1\n"
                               "in 2 B\nout 4 B\n"
                               "rank 0 lane 0\n"
                               "  COMPUTE 1us\n"
                               "  CALL 0 in+0 out+2 scratch+0 after lane 0 step 0\n"
                               "  COMPUTE 2us after lane 0 step 1\n"
                               "callee d\ncontract custom int8 sum count 0\nlanes 2\n"
                               "in 2 B\nout 2 B\n"
                               "rank 0 lane 0\n"
                               "  SEND in+0 1 B to 1\n"
                               "  SEND in+1 1 B to 2\n"
                               "  SEND in+1 1 B to 1\n"
                               "rank 0 lane 1\n"
                               "  COPY out+0 = in+0 2 B after lane 0 step 2\n";
    struct tutti_schedule *schedule = NULL;
    struct tutti_schedule *flat = NULL;
    struct tutti_err err = {""};
    char *printed = NULL;

    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    CHECK_OK(tutti_schedule_print(flat, &printed, &err), err);
    if (printed != NULL)
        CHECK_TEXT(strstr(printed, "rank 0"), "rank 0 lane 0\n"
                                              "  COMPUTE 1us\n"
                                              "  COPY none+0 = none+0 0 B after lane 0 step 0\n"
                                              "  COPY none+0 = none+0 0 B after lane 1 step 5\n"
                                              "  COPY none+0 = none+0 0 B after lane 2 step 1\n"
                                              "  COMPUTE 2us after lane 0 step 3\n"
                                              "\nrank 0 lane 1\n"
                                              "  COPY none+0 = none+0 0 B after lane 0 step 1\n"
                                              "  SEND in+0 1 B to 1\n"
                                              "  SEND in+1 1 B to 2\n"
                                              "  SEND in+1 1 B to 1\n"
                                              "  COPY none+0 = none+0 0 B after lane 1 step 3\n"
                                              "  COPY none+0 = none+0 0 B after lane 1 step 2\n"
                                              "\nrank 0 lane 2\n"
                                              "  COPY none+0 = none+0 0 B after lane 0 step 1\n"
                                              "  COPY out+2 = in+0 2 B after lane 1 step 3\n");
    free(printed);
    tutti_schedule_free(flat);
    tutti_schedule_free(schedule);
}
