/* Groups, work and state in a schedule: what an axis says, what the check and the proof refuse by
 * name, and that the text form carries all of it. */
#include "runtime/coll.h"
#include "runtime/schedule/prove.h"
#include "runtime/status.h"
#include "tests/test.h"

static struct tutti_schedule *parse(const char *text)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    return schedule;
}

/* Checked, proved, printed and parsed again: "" or the first complaint. */
static const char *judge(const char *text, struct tutti_err *err)
{
    struct tutti_schedule *schedule = parse(text);
    struct tutti_schedule *again = NULL;
    char *printed = NULL;
    char *twice = NULL;

    err->text[0] = '\0';
    if (schedule == NULL)
        return "";
    CHECK_INT(tutti_schedule_print(schedule, &printed, err), 0);
    again = parse(printed);
    CHECK_INT(tutti_schedule_print(again, &twice, err), 0);
    CHECK_TEXT(twice, printed);
    err->text[0] = '\0';
    if (tutti_schedule_check(again, err) == 0)
        (void)tutti_schedule_prove(again, err);
    free(printed);
    free(twice);
    tutti_schedule_free(schedule);
    tutti_schedule_free(again);
    return err->text;
}

/* ---- axes ------------------------------------------------------------------------------------ */

TEST(the_axes_of_a_mesh_cut_it_into_lines)
{
    static const uint32_t sizes[3] = {3, 2, 4};

    for (uint32_t k = 0; k < 3; k++) {
        struct tutti_axis axis = tutti_mesh_axis("k", 5, sizes, 3, k);
        uint32_t seen[30] = {0};

        CHECK_INT(axis.size, sizes[k]);
        CHECK_INT(tutti_axis_group_count(&axis), 24 / sizes[k]);
        for (uint32_t group = 0; group < tutti_axis_group_count(&axis); group++) {
            for (uint32_t member = 0; member < axis.size; member++) {
                uint32_t rank = tutti_axis_rank(&axis, group, member);
                uint32_t back_group = 99;
                uint32_t back_member = 99;
                uint32_t at[3] = {(rank - 5) / 8, (rank - 5) / 4 % 2, (rank - 5) % 4};

                CHECK(rank >= 5 && rank < 29);
                seen[rank]++;
                CHECK_INT(at[k], member);
                CHECK(tutti_axis_find(&axis, rank, &back_group, &back_member));
                CHECK_INT(back_group, group);
                CHECK_INT(back_member, member);
            }
        }
        for (uint32_t rank = 5; rank < 29; rank++)
            CHECK_INT(seen[rank], 1);
    }
}

/* The first and the last stage of a pipeline of 4 stages of 2 ranks share a table of words. */
TEST(an_axis_may_leave_ranks_out)
{
    const struct tutti_axis axis = {"ends", 0, 2, 6, 2, 8, 1};
    uint32_t group = 99;
    uint32_t member = 99;

    CHECK_INT(tutti_axis_group_count(&axis), 2);
    CHECK_INT(tutti_axis_rank(&axis, 1, 1), 7);
    CHECK(tutti_axis_find(&axis, 6, &group, &member));
    CHECK_INT(group, 0);
    CHECK_INT(member, 1);
    for (uint32_t rank = 2; rank < 6; rank++)
        CHECK(!tutti_axis_find(&axis, rank, &group, &member));
    CHECK(!tutti_axis_find(&axis, 8, &group, &member));
}

TEST(an_axis_that_does_not_fit_is_refused)
{
    static const struct {
        const char *axis;
        const char *message;
    } cases[] = {
        {"a first 0 width 1 stride 1 size 5 period 5 repeat 1",
         "text: line 1: axis 'a' goes beyond rank '3'"},
        {"a first 2 width 1 stride 2 size 2 period 3 repeat 1",
         "text: line 1: axis 'a' goes beyond rank '3'"},
        {"a first 0 width 2 stride 1 size 2 period 2 repeat 1",
         "text: line 1: axis 'a' of size 2, stride 1, width 2, repeat 1 (each 1 or more, the width "
         "at most the stride)"},
        {"a first 0 width 1 stride 2 size 2 period 2 repeat 1",
         "text: line 1: axis 'a': a period of '2' is less than the 3 ranks that its groups span"},
        {"a first 0 width 1 stride 1 size 0 period 2 repeat 1",
         "text: line 1: axis 'a' of size 0, stride 1, width 1, repeat 1 (each 1 or more, the width "
         "at most the stride)"},
        {"a first 0 width 1 size 2", "text: line 4: unexpected 'size' ('stride')"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {""};
        char text[256];

        snprintf(text, sizeof(text),
                 "schedule s\ncontract custom float sum count 0\nranks 4\naxis %s\n",
                 cases[i].axis);
        CHECK_INT(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].message);
    }
}

/* ---- the three that must not slip through ---------------------------------------------------- */

#define PAIR_ALLREDUCE(name, type, op)               \
    "callee " name "\n"                              \
    "contract allreduce " type " " op " count 4\n"   \
    "ranks 2\nscratch 16 B\n"                        \
    "rank 0 lane 0\n"                                \
    "  SEND in+0 16 B to 1\n"                        \
    "  RECV scratch+0 16 B from 1 fuse\n"            \
    "  REDUCE out+0 = in+0 op scratch+0 16 B last\n" \
    "rank 1 lane 0\n"                                \
    "  SEND in+0 16 B to 0\n"                        \
    "  RECV scratch+0 16 B from 0 fuse\n"            \
    "  REDUCE out+0 = in+0 op scratch+0 16 B last\n"

TEST(members_that_call_in_different_orders_are_refused)
{
    struct tutti_err err;

    CHECK_TEXT(judge("schedule crossed\n"
                     "contract custom float sum count 0\n"
                     "ranks 2\nin 32 B\nout 32 B\nscratch 32 B\n"
                     "rank 0 lane 0\n"
                     "  CALL 0 in+0 out+0 scratch+0\n"
                     "  CALL 1 in+16 out+16 scratch+16\n"
                     "rank 1 lane 0\n"
                     "  CALL 1 in+16 out+16 scratch+16\n"
                     "  CALL 0 in+0 out+0 scratch+0\n" PAIR_ALLREDUCE("one", "float", "sum")
                         PAIR_ALLREDUCE("two", "float", "sum"),
                     &err),
               "rank 1, lane 0, step 0 (CALL 1 in+16 out+16 scratch+16): calls 'two' on axis 'all' "
               "where rank 0 of its group calls 'one': rank 0, lane 0, step 0 (CALL 0 in+0 out+0 "
               "scratch+0) (members call in one order)");
}

TEST(a_member_that_calls_less_often_is_named)
{
    struct tutti_err err;

    CHECK_TEXT(judge("schedule short\n"
                     "contract custom float sum count 0\n"
                     "ranks 4\nin 32 B\nout 32 B\nscratch 32 B\n"
                     "axis pairs first 0 width 2 stride 2 size 2 period 4 repeat 1\n"
                     "rank 0 lane 0\n"
                     "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
                     "rank 1 lane 0\n"
                     "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
                     "rank 2 lane 0\n"
                     "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
                     "rank 3 lane 0\n"
                     "  COMPUTE 1us\n" PAIR_ALLREDUCE("one", "float", "sum"),
                     &err),
               "rank 1, lane 0, step 0 (CALL 0 axis 1 in+0 out+0 scratch+0): waits for ever: rank "
               "3 of its group calls less often on axis 'pairs', lane 0");
}

/* Two axes called in opposite orders: each waits for the other. */
TEST(calls_on_two_axes_that_wait_for_each_other_are_refused)
{
    struct tutti_err err;

    judge("schedule knot\n"
          "contract custom float sum count 0\n"
          "ranks 2\nin 32 B\nout 32 B\nscratch 32 B\n"
          "axis a first 0 width 1 stride 1 size 2 period 2 repeat 1\n"
          "axis b first 0 width 1 stride 1 size 2 period 2 repeat 1\n"
          "rank 0 lane 0\n"
          "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
          "  CALL 0 axis 2 in+16 out+16 scratch+16\n"
          "rank 1 lane 0\n"
          "  CALL 0 axis 2 in+16 out+16 scratch+16\n"
          "  CALL 0 axis 1 in+0 out+0 scratch+0\n" PAIR_ALLREDUCE("one", "float", "sum"),
          &err);
    CHECK(strstr(err.text, "waits for it: a cycle") != NULL ||
          strstr(err.text, "waits for others: a cycle") != NULL);
}

#define GRADIENT(dependency)                                                         \
    "schedule step\n"                                                                \
    "contract custom float sum count 0\n"                                            \
    "ranks 2\nlanes 2\nscratch 48 B\nstate 16 B\n"                                   \
    "work backward matmul 1us\n"                                                     \
    "  reads state+0 16 B\n"                                                         \
    "  writes scratch+0 16 B\n"                                                      \
    "work update optimizer 1us\n"                                                    \
    "  reads scratch+16 16 B whole 0\n"                                              \
    "  reads state+0 16 B\n"                                                         \
    "  writes state+0 16 B\n"                                                        \
    "rank 0 lane 0\n"                                                                \
    "  COMPUTE 1us work 0\n"                                                         \
    "  COMPUTE 1us work 1 after lane 1 step 0\n"                                     \
    "rank 0 lane 1\n"                                                                \
    "  CALL 0 scratch+0 scratch+16 scratch+32" dependency "\n"                       \
    "rank 1 lane 0\n"                                                                \
    "  COMPUTE 1us work 0\n"                                                         \
    "  COMPUTE 1us work 1 after lane 1 step 0\n"                                     \
    "rank 1 lane 1\n"                                                                \
    "  CALL 0 scratch+0 scratch+16 scratch+32 after lane 0 step 0\n" PAIR_ALLREDUCE( \
        "sum", "float", "sum")

TEST(an_all_reduce_that_does_not_wait_for_its_gradient_is_refused)
{
    struct tutti_err err;

    CHECK_TEXT(judge(GRADIENT(" after lane 0 step 0"), &err), "");
    judge(GRADIENT(""), &err);
    CHECK(strstr(err.text, "nothing orders it and lane ") != NULL);
    CHECK(strstr(err.text, "rank 0, lane ") != NULL);
    CHECK(strstr(err.text, "scratch bytes 0..15 too") != NULL);
}

/* A float sum and an int32 max in one schedule: each REDUCE keeps its own. */
TEST(types_and_operators_are_the_callees)
{
    static const char text[] =
        "schedule mixed\n"
        "contract custom bfloat16 prod count 0\n"
        "ranks 2\nin 32 B\nout 32 B\nscratch 32 B\n"
        "axis all first 0 width 1 stride 1 size 2 period 2 repeat 1\n"
        "rank 0 lane 0\n"
        "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
        "  CALL 1 axis 1 in+16 out+16 scratch+16\n"
        "rank 1 lane 0\n"
        "  CALL 0 axis 1 in+0 out+0 scratch+0\n"
        "  CALL 1 axis 1 in+16 out+16 scratch+16\n" PAIR_ALLREDUCE("sum", "float", "sum")
            PAIR_ALLREDUCE("most", "int32", "max");
    struct tutti_schedule *schedule = parse(text);
    struct tutti_schedule *flat = NULL;
    struct tutti_err err = {""};
    unsigned seen = 0;

    CHECK_TEXT(judge(text, &err), "");
    REQUIRE(schedule != NULL);
    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    for (uint32_t lane = 0; lane < flat->lane_count; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, flat, 1, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            struct tutti_reduction r = tutti_step_reduction(flat, step);

            if (step->kind != TUTTI_REDUCE)
                continue;
            CHECK_INT(r.divisor, 2);
            CHECK_INT(r.dtype, step->dst_offset == 0 ? TUTTI_FLOAT32 : TUTTI_INT32);
            CHECK_INT(r.op, step->dst_offset == 0 ? TUTTI_SUM : TUTTI_MAX);
            seen++;
        }
    }
    CHECK_INT(seen, 2);
    tutti_schedule_free(flat);
    tutti_schedule_free(schedule);
}

/* ---- what the proof holds -------------------------------------------------------------------- */

TEST(an_optimiser_that_sees_half_of_the_sum_is_refused)
{
    static const char text[] =
        "schedule half\n"
        "contract custom float sum count 0\n"
        "ranks 4\nscratch 48 B\nstate 16 B\n"
        "axis dp first 0 width 1 stride 1 size 2 period 2 repeat 2\n"
        "work backward matmul 1us\n"
        "  writes scratch+0 16 B\n"
        "work update optimizer 1us\n"
        "  reads scratch+16 16 B whole %s\n"
        "  writes state+0 16 B\n"
        "rank 0 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 scratch+0 scratch+16 scratch+32\n"
        "  COMPUTE 1us work 1\n"
        "rank 1 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 scratch+0 scratch+16 scratch+32\n"
        "  COMPUTE 1us work 1\n"
        "rank 2 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 scratch+0 scratch+16 scratch+32\n"
        "  COMPUTE 1us work 1\n"
        "rank 3 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 scratch+0 scratch+16 scratch+32\n"
        "  COMPUTE 1us work 1\n" PAIR_ALLREDUCE("sum", "float", "sum");
    char whole[sizeof(text) + 8];
    struct tutti_err err;

    snprintf(whole, sizeof(whole), text, "1");
    CHECK_TEXT(judge(whole, &err), "");
    snprintf(whole, sizeof(whole), text, "0");
    CHECK_TEXT(judge(whole, &err),
               "rank 0, lane 0, step 2 (COMPUTE 1us work 1): scratch byte 16 is to be whole over "
               "axis 'all' and lacks the contribution of rank 2");
}

/* Reduced within pairs, then across: whole over all. */
TEST(sums_of_sums_are_whole)
{
    static const char text[] =
        "schedule twice\n"
        "contract allreduce float sum count 4\n"
        "ranks 4\nscratch 32 B\n"
        "axis inner first 0 width 1 stride 1 size 2 period 2 repeat 2\n"
        "axis outer first 0 width 2 stride 2 size 2 period 4 repeat 1\n"
        "rank 0 lane 0\n  CALL 0 axis 1 in+0 scratch+0 scratch+16\n"
        "  CALL 0 axis 2 scratch+0 out+0 scratch+16\n"
        "rank 1 lane 0\n  CALL 0 axis 1 in+0 scratch+0 scratch+16\n"
        "  CALL 0 axis 2 scratch+0 out+0 scratch+16\n"
        "rank 2 lane 0\n  CALL 0 axis 1 in+0 scratch+0 scratch+16\n"
        "  CALL 0 axis 2 scratch+0 out+0 scratch+16\n"
        "rank 3 lane 0\n  CALL 0 axis 1 in+0 scratch+0 scratch+16\n"
        "  CALL 0 axis %s scratch+0 out+0 scratch+16\n" PAIR_ALLREDUCE("sum", "float", "sum");
    char whole[sizeof(text) + 8];
    struct tutti_err err;

    snprintf(whole, sizeof(whole), text, "2");
    CHECK_TEXT(judge(whole, &err), "");
    snprintf(whole, sizeof(whole), text, "1");
    CHECK(strstr(judge(whole, &err), "waits for ever") != NULL);
}

/* Recursive doubling and one-shot send their whole input and write over it before they know that it
 * has been received: they are not for in place. The others are. */
TEST(what_is_called_in_place_is_proved_in_place)
{
    static const char *const names[] = {"ring",         "recursive-doubling", "halving-doubling",
                                        "one-shot",     "two-shot",           "binomial",
                                        "hierarchical", "double-binary-tree"};
    static const enum tutti_collective kinds[] = {TUTTI_ALLREDUCE, TUTTI_ALLGATHER,
                                                  TUTTI_REDUCESCATTER, TUTTI_BROADCAST,
                                                  TUTTI_REDUCE_TO_ROOT};
    uint32_t seen = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            const bool no =
                kinds[k] == TUTTI_ALLREDUCE &&
                (strcmp(names[i], "recursive-doubling") == 0 || strcmp(names[i], "one-shot") == 0);

            for (uint32_t n = 2; n <= 7; n++) {
                const struct tutti_coll_params params = {
                    .collective = kinds[k], .count = 13, .chunk_bytes = 8};
                const struct tutti_shape shape = tutti_shape_flat(n);
                struct tutti_schedule *in_place = NULL;
                struct tutti_schedule *schedule = NULL;
                struct tutti_err err = {""};

                if (tutti_coll_generate(names[i], &params, &shape, &schedule, &err) < 0)
                    continue;
                if ((tutti_schedule_prove_in_place(schedule, &err) < 0) != no ||
                    (tutti_schedule_in_place(schedule, &in_place, &err) < 0) != no)
                    TEST_FAIL("%s %s of %u: %s", names[i], tutti_collective_name(kinds[k]), n,
                              err.text);
                if (in_place != NULL) {
                    CHECK_INT(in_place->in_bytes + in_place->out_bytes, 0);
                    CHECK_INT(in_place->state_bytes, schedule->in_bytes > schedule->out_bytes
                                                         ? schedule->in_bytes
                                                         : schedule->out_bytes);
                    CHECK_OK(tutti_schedule_check(in_place, &err), err);
                }
                seen++;
                tutti_schedule_free(in_place);
                tutti_schedule_free(schedule);
            }
        }
    }
    CHECK_INT(seen, 90);
}

TEST(a_callee_that_cannot_play_in_place_is_refused_there)
{
    static const char text[] =
        "schedule place\n"
        "contract custom float sum count 0\n"
        "ranks 2\nin 16 B\nout 48 B\n"
        "axis all first 0 width 1 stride 1 size 2 period 2 repeat 1\n"
        "work make matmul 1us\n  writes out+0 32 B\n"
        "rank 0 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 out+0 %s scratch+0\n"
        "rank 1 lane 0\n  COMPUTE 1us work 0\n  CALL 0 axis 1 out+0 %s scratch+0\n"
        "callee naive\n"
        "contract allreduce float sum count 4\nranks 2\n"
        "rank 0 lane 0\n  SEND in+0 16 B to 1\n  RECV out+0 16 B from 1\n"
        "  REDUCE out+0 = in+0 op out+0 16 B last\n"
        "rank 1 lane 0\n  SEND in+0 16 B to 0\n  RECV out+0 16 B from 0\n"
        "  REDUCE out+0 = in+0 op out+0 16 B last\n";
    char filled[sizeof(text) + 32];
    struct tutti_err err;

    snprintf(filled, sizeof(filled), text, "out+32", "out+32");
    CHECK_TEXT(judge(filled, &err), "");
    snprintf(filled, sizeof(filled), text, "out+0", "out+0");
    judge(filled, &err);
    CHECK(err.text[0] != '\0');
    snprintf(filled, sizeof(filled), text, "out+8", "out+8");
    CHECK(strstr(judge(filled, &err), "operands overlap") != NULL);
}

/* ---- state ----------------------------------------------------------------------------------- */

#define COUNTER(atomic)                                                     \
    "schedule counter\n"                                                    \
    "contract custom float sum count 0\n"                                   \
    "ranks 1\nlanes 2\nstate 16 B\n"                                        \
    "work add optimizer 1us\n"                                              \
    "  reads state+4 8 B\n"                                                 \
    "  writes state+4 8 B\n" atomic "rank 0 lane 0\n  COMPUTE 1us work 0\n" \
    "rank 0 lane 1\n  COMPUTE 1us work 0\n"

TEST(atomic_variables_are_no_races)
{
    struct tutti_err err;

    CHECK(strstr(judge(COUNTER(""), &err), "nothing orders it and lane") != NULL);
    CHECK(strstr(judge(COUNTER("atomic state+0 8 B\n"), &err), "state bytes 8..11 too") != NULL);
    CHECK_TEXT(judge(COUNTER("atomic state+4 8 B\n"), &err), "");
    CHECK_TEXT(judge(COUNTER("atomic state+0 16 B\n"), &err), "");
}

TEST(buffers_may_differ_by_rank)
{
    static const char text[] = "schedule server\n"
                               "contract custom float sum count 0\n"
                               "ranks 2\nscratch 16 B\nstate 64 B\n"
                               "sizes 1 in 0 out 0 scratch 16 state 0\n"
                               "rank 0 lane 0\n  SEND state+%s 16 B to 1\n"
                               "rank 1 lane 0\n  RECV %s 16 B from 0\n";
    char filled[sizeof(text) + 32];
    struct tutti_err err;
    struct tutti_schedule *schedule;

    snprintf(filled, sizeof(filled), text, "48", "scratch+0");
    schedule = parse(filled);
    CHECK_OK(tutti_schedule_check(schedule, &err), err);
    tutti_schedule_free(schedule);
    snprintf(filled, sizeof(filled), text, "0", "state+0");
    schedule = parse(filled);
    CHECK_INT(tutti_schedule_check(schedule, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "rank 1, lane 0, step 0 (RECV state+0 16 B from 0): bytes 0..15 lie "
                         "outside 'state' (of 0 bytes)");
    tutti_schedule_free(schedule);
}

TEST(work_that_does_not_fit_is_refused)
{
    static const struct {
        const char *table;
        const char *step;
        const char *message;
    } cases[] = {
        {"work a matmul\n  reads in+0 8 B\n", "COMPUTE 1us work 1",
         "rank 0, lane 0, step 0 (COMPUTE 1us work 1): no work '1' (entries: 1)"},
        {"work a matmul\n  reads scratch+0 8 B\n", "COMPUTE 1us work 0 scratch+12",
         "rank 0, lane 0, step 0 (COMPUTE 1us work 0 scratch+12): bytes 12..19 lie outside "
         "'scratch' (of 16 bytes)"},
        {"work a matmul\n  reads scratch+0 8 B\n", "COMPUTE 1us work 0",
         "rank 0, lane 0, step 0 (COMPUTE 1us work 0): reads scratch byte 0, which holds nothing "
         "yet"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        struct tutti_err err;

        snprintf(text, sizeof(text),
                 "schedule s\ncontract custom float sum count 0\nranks 1\nin 8 B\nscratch 16 B\n"
                 "%srank 0 lane 0\n%s\n",
                 cases[i].table, cases[i].step);
        CHECK_TEXT(judge(text, &err), cases[i].message);
    }
}
