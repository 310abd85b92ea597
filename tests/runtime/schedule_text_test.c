/* The text form of schedules: what is printed is read back the same, and what is not a schedule is
 * refused by its line, whatever numbers stand in it. */
#include <time.h>

#include "runtime/arena.h"
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"

/* ---- equal, field by field: by other means than the printer's ---------------------------------
 */

static bool same_dependency(const struct tutti_step *a, const struct tutti_step *b)
{
    if ((a->flags & TUTTI_STEP_DEP) == 0)
        return true;
    return a->dep_lane == b->dep_lane && a->dep_step == b->dep_step;
}

static bool same_step(const struct tutti_step *a, const struct tutti_step *b)
{
    bool writes = a->kind != TUTTI_SEND && a->kind != TUTTI_COMPUTE;
    bool reads = a->kind != TUTTI_RECV && a->kind != TUTTI_COMPUTE;
    bool has_peer = a->kind == TUTTI_SEND || a->kind == TUTTI_RECV || a->kind == TUTTI_CALL;
    bool has_acc = a->kind == TUTTI_REDUCE;

    if (a->kind != b->kind || a->flags != b->flags || !same_dependency(a, b))
        return false;
    if (a->kind != TUTTI_CALL && a->bytes != b->bytes) /* COMPUTE: flops */
        return false;
    if (a->kind == TUTTI_COMPUTE && a->duration_ps != b->duration_ps)
        return false;
    return (!has_peer || a->peer == b->peer) &&
           (!writes || (a->dst_buf == b->dst_buf && a->dst_offset == b->dst_offset)) &&
           (!reads || (a->src_buf == b->src_buf && a->src_offset == b->src_offset)) &&
           (!has_acc || a->acc_buf == b->acc_buf) &&
           ((!has_acc && a->kind != TUTTI_CALL) || a->acc_offset == b->acc_offset);
}

static void check_same_lane(const struct tutti_schedule *a, const struct tutti_schedule *b,
                            uint32_t rank, uint32_t lane)
{
    const struct tutti_step *x;
    const struct tutti_step *y;
    struct tutti_cursor p;
    struct tutti_cursor q;

    tutti_cursor_open(&p, a, rank, lane);
    tutti_cursor_open(&q, b, rank, lane);
    do {
        x = tutti_cursor_next(&p);
        y = tutti_cursor_next(&q);
        if ((x == NULL) != (y == NULL) || (x != NULL && !same_step(x, y))) {
            TEST_FAIL("'%s': rank %u, lane %u, step %" PRIu64 " differs", a->name, rank, lane,
                      p.step_index - 1);
            return;
        }
    } while (x != NULL);
}

static void check_same(const struct tutti_schedule *a, const struct tutti_schedule *b)
{
    CHECK_TEXT(a->name, b->name);
    CHECK_INT(a->contract.collective, b->contract.collective);
    CHECK_INT(a->contract.dtype, b->contract.dtype);
    CHECK_INT(a->contract.op, b->contract.op);
    CHECK_INT(a->contract.root, b->contract.root);
    CHECK_INT(a->contract.count, b->contract.count);
    CHECK_INT(a->rank_count, b->rank_count);
    CHECK_INT(a->lane_count, b->lane_count);
    CHECK_INT(a->slot_count, b->slot_count);
    CHECK_INT(a->in_bytes, b->in_bytes);
    CHECK_INT(a->out_bytes, b->out_bytes);
    CHECK_INT(a->scratch_bytes, b->scratch_bytes);
    CHECK_INT(a->callee_count, b->callee_count);
    for (uint32_t rank = 0; rank < a->rank_count && test_failures == 0; rank++)
        for (uint32_t lane = 0; lane < a->lane_count && test_failures == 0; lane++)
            check_same_lane(a, b, rank, lane);
    for (uint32_t i = 0; i < a->callee_count && test_failures == 0; i++)
        check_same(a->callees[i], b->callees[i]);
}

static void round_trip(const struct tutti_schedule *schedule)
{
    struct tutti_schedule *back = NULL;
    struct tutti_err err = {""};
    char *first = NULL;
    char *second = NULL;

    CHECK_OK(tutti_schedule_print(schedule, &first, &err), err);
    REQUIRE(first != NULL);
    CHECK_OK(tutti_schedule_parse("text", first, strlen(first), &back, &err), err);
    if (back != NULL) {
        check_same(schedule, back);
        CHECK_OK(tutti_schedule_print(back, &second, &err), err);
        CHECK(second != NULL && strcmp(first, second) == 0);
    }
    free(first);
    free(second);
    tutti_schedule_free(back);
}

static void round_trip_generator(const struct tutti_algorithm *algorithm,
                                 enum tutti_collective collective, uint32_t n)
{
    const struct tutti_coll_params params = {.collective = collective,
                                             .dtype = n % 2 == 0 ? TUTTI_FLOAT64 : TUTTI_INT8,
                                             .op = n % 3 == 0 ? TUTTI_AVG : TUTTI_MAX,
                                             .root = n - 1,
                                             .count = collective == TUTTI_BARRIER ? 0 : 5 * n + 1,
                                             .channel_count = 1 + n % 3,
                                             .chunk_bytes = n % 4 == 0 ? 8 : 0,
                                             .slice_count = 1 + n % 2, /* no more than slots */
                                             .slot_count = n % 4 == 1 ? 2 : n % 4};
    struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    shape.level_count = shape.dim_count = n == 12 ? 2 : 1;
    shape.level[0] = shape.dim[0] = n == 12 ? 4 : n;
    shape.level[1] = shape.dim[1] = 3;
    CHECK_OK(algorithm->generate(&params, &shape, &schedule, &err), err);
    if (schedule != NULL)
        round_trip(schedule);
    tutti_schedule_free(schedule);
}

TEST(every_generator_is_printed_and_read_back_the_same)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 7, 12, 16};
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    for (size_t i = 0; i < count; i++)
        for (unsigned c = 0; c < TUTTI_CUSTOM; c++)
            for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
                if ((table[i].collectives & (1u << c)) != 0)
                    round_trip_generator(&table[i], (enum tutti_collective)c, counts[k]);
}

/* ---- the text itself --------------------------------------------------------------------------
 */

static struct tutti_schedule *parse(const char *text)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    return schedule;
}

TEST(a_small_ring_reads_as_the_golden_text)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = 7};
    const struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    char *text = NULL;

    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    CHECK_OK(tutti_schedule_print(schedule, &text, &err), err);
    if (text != NULL)
        test_golden("ring3.schedule", text);
    free(text);
    tutti_schedule_free(schedule);
}

static const char everything[] = "# a schedule of all kinds of steps\r\n"
                                 "\n"
                                 "schedule\tall-kinds # its name\n"
                                 "out 32 B\n"
                                 "in 16 B\n"
                                 "ranks 2\n"
                                 "contract custom float16 avg count 3 root 1\n"
                                 "lanes 2\n"
                                 "rank 1 lane 1\n"
                                 "RECV out+0 4 B from 0 # no blank before it needed\n"
                                 "rank 0 lane 0\n"
                                 "   COMPUTE 1.5us 12 flops\n"
                                 "   COMPUTE 1us after lane 1 step 0\n"
                                 "rank 0 lane 1\n"
                                 "SEND in+12 4 B to 1\n"
                                 "CALL 1 in+0 out+4 scratch+8\n"
                                 "rank 0 lane 0 # goes on\n"
                                 "COPY none+0 = none+0 0 B after lane 1 step 1\n"
                                 "REDUCE out+0 = in+4 op in+8 2 B last after lane 0 step 2\n"
                                 "callee first\n"
                                 "contract barrier float sum count 0\n"
                                 "callee second\n"
                                 "contract allgather int8 sum count 4\n"
                                 "scratch 64 B\n"
                                 "slots 2\n"
                                 "rank 1 lane 0\n"
                                 "COMPUTE 5 flops";

TEST(everything_that_can_be_said_is_read)
{
    struct tutti_schedule *s = parse(everything);
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    char *text = NULL;
    struct tutti_err err = {""};

    REQUIRE(s != NULL);
    CHECK_INT(s->contract.dtype, TUTTI_FLOAT16);
    CHECK_INT(s->contract.op, TUTTI_AVG);
    CHECK_INT(s->contract.root, 1);
    CHECK_INT(s->in_bytes, 16);
    CHECK_INT(s->out_bytes, 32);
    CHECK_INT(s->slot_count, TUTTI_SLOTS_DEFAULT);
    CHECK_INT(s->callee_count, 2);
    CHECK_INT(s->callees[1]->slot_count, 2);
    CHECK_INT(s->callees[1]->rank_count, 2);
    CHECK_INT(s->callees[1]->out_bytes, 8);
    tutti_cursor_open(&cursor, s, 0, 0);
    step = tutti_cursor_next(&cursor);
    CHECK_INT(step->duration_ps, 1500000);
    CHECK_INT(step->flops, 12);
    CHECK_INT(tutti_schedule_step_count(s, 0, 0), 4);
    CHECK_INT(tutti_schedule_step_count(s, 1, 0), 0);
    round_trip(s);
    CHECK_OK(tutti_schedule_print(s, &text, &err), err);
    if (text != NULL)
        test_golden("all-kinds.schedule", text);
    free(text);
    tutti_schedule_free(s);
}

/* The corpus of tests/fuzz/schedule_fuzz.c: TUTTI_UPDATE_GOLDEN=1 writes it. */
TEST(the_fuzz_corpus_is_what_the_printer_writes)
{
    static const struct {
        const char *algorithm;
        enum tutti_collective collective;
        uint32_t n;
        uint32_t channels;
        uint64_t chunk_bytes;
    } inputs[] = {
        {"ring", TUTTI_ALLREDUCE, 1, 1, 0},
        {"ring", TUTTI_ALLREDUCE, 2, 1, 0},
        {"ring", TUTTI_ALLREDUCE, 3, 2, 8},
        {"recursive-doubling", TUTTI_ALLREDUCE, 3, 1, 0},
        {"halving-doubling", TUTTI_ALLREDUCE, 4, 1, 0},
        {"two-shot", TUTTI_ALLREDUCE, 3, 1, 0},
        {"double-binary-tree", TUTTI_ALLREDUCE, 4, 1, 8},
        {"ring", TUTTI_REDUCESCATTER, 3, 1, 0},
        {"ring", TUTTI_ALLGATHER, 3, 1, 0},
        {"binomial", TUTTI_BROADCAST, 4, 1, 0},
        {"ring", TUTTI_ALLTOALL, 3, 1, 0},
        {"recursive-doubling", TUTTI_BARRIER, 4, 1, 0},
    };

    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        const struct tutti_coll_params params = {.collective = inputs[i].collective,
                                                 .op = i % 2 == 0 ? TUTTI_SUM : TUTTI_AVG,
                                                 .dtype = i % 3 == 0 ? TUTTI_FLOAT32 : TUTTI_INT8,
                                                 .count =
                                                     inputs[i].collective == TUTTI_BARRIER ? 0 : 6,
                                                 .channel_count = inputs[i].channels,
                                                 .chunk_bytes = inputs[i].chunk_bytes,
                                                 .slot_count = 2};
        const struct tutti_shape shape = tutti_shape_flat(inputs[i].n);
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {""};
        char *text = NULL;
        char name[120];

        CHECK_OK(tutti_coll_generate(inputs[i].algorithm, &params, &shape, &schedule, &err), err);
        REQUIRE(schedule != NULL);
        CHECK_OK(tutti_schedule_print(schedule, &text, &err), err);
        snprintf(name, sizeof(name), "../fuzz/corpus/schedule/%s-%s-%u.schedule",
                 tutti_collective_name(inputs[i].collective), inputs[i].algorithm, inputs[i].n);
        if (text != NULL)
            test_golden(name, text);
        free(text);
        tutti_schedule_free(schedule);
    }
    test_golden("../fuzz/corpus/schedule/all-kinds.schedule", everything);
}

TEST(what_the_text_cannot_say_is_not_printed)
{
    static const struct {
        struct tutti_step step;
        const char *message;
    } cases[] = {
        {{.kind = 0}, "unknown kind '0' (1 to 6)"},
        {{.kind = TUTTI_COPY, .dst_buf = 9},
         "a step with an unknown buffer (in, out, scratch or state)"},
        {{.kind = TUTTI_COMPUTE, .duration_ps = -1},
         "a step that takes less than no time (0 or more)"},
        {{.kind = TUTTI_COPY, .flags = TUTTI_STEP_DEP, .dep_lane = 5000},
         "a step that depends on lane '5000' (0 to 4095)"},
    };
    struct tutti_schedule_desc desc = {
        .name = "odd", .contract = {.collective = TUTTI_BARRIER}, .rank_count = 2, .lane_count = 1};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_builder *builder = NULL;
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {""};
        char *text = NULL;
        char want[200];

        CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
        CHECK_OK(tutti_builder_add(builder, 1, 0, &cases[i].step, &err), err);
        CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
        CHECK_INT(tutti_schedule_print(schedule, &text, &err), -TUTTI_EINVAL);
        snprintf(want, sizeof(want), "cannot print schedule 'odd': rank 1, lane 0, step 0: %s",
                 cases[i].message);
        CHECK_TEXT(err.text, want);
        CHECK(text == NULL);
        tutti_schedule_free(schedule);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------
 */

#define HEAD "schedule s\ncontract allreduce float sum count 4\nranks 2\n"
#define LANE HEAD "rank 0 lane 0\n"

static const char *const refused[] = {
    "",
    "# nothing\n",
    "ranks 2\n",
    "schedule\n",
    "schedule two words\n",
    "schedule s\nschedule t\n",
    "schedule s\n",
    "schedule s\nranks 2\n",
    "schedule s\ncontract allreduce float sum count 4\n",
    "schedule s\ncontract allreduce float sum\n",
    "schedule s\ncontract allreduce float sum number 4\n",
    "schedule s\ncontract allreduse float sum count 4\n",
    "schedule s\ncontract allreduce flaot sum count 4\n",
    "schedule s\ncontract allreduce float summ count 4\n",
    "schedule s\ncontract allreduce float sum count -4\n",
    "schedule s\ncontract allreduce float sum count 4 leaf 0\n",
    "schedule s\ncontract a-word-that-is-longer-than-any-name-of-ours float sum count 4\n",
    "schedule s\ncontract allreduce float sum count 4 root 2\nranks 2\nrank 0 lane 0\n",
    "schedule s\nranks 0\n",
    "schedule s\nranks 2\nranks 3\n",
    "schedule s\nranks 4294967296\n",
    "schedule s\nscratch 64\n",
    "schedule s\nscratch 4K B\n",
    HEAD "in 4 B\nout 4 B\n",
    HEAD "lanes 5000\n",
    HEAD "colour 5\n",
    HEAD "SEND in+0 4 B to 1\n",
    LANE "slots 4\n",
    LANE "send in+0 4 B to 1\n",
    LANE "SEND in+0 4 B\n",
    LANE "SEND in+0 4 B from 1\n",
    LANE "SEND in+0 4 to 1\n",
    LANE "SEND in 4 B to 1\n",
    LANE "SEND inn+0 4 B to 1\n",
    LANE "SEND in+ 4 B to 1\n",
    LANE "SEND in+0 18446744073709551616 B to 1\n",
    LANE "SEND in+0 4 B to 4294967296\n",
    LANE "SEND in+0 4 B to 1 later\n",
    LANE "RECV out+0 4 B from 1 fuse fuse\n",
    LANE "COPY out+0 = in+0 4 B last fuse\n",
    LANE "COPY out+0 in+0 4 B\n",
    LANE "COPY out+0 = in+0 4 B after lane 4096 step 0\n",
    LANE "COPY out+0 = in+0 4 B after lane 0 step 0 again\n",
    LANE "REDUCE out+0 = in+0 plus scratch+0 4 B\n",
    LANE "COMPUTE\n",
    LANE "COMPUTE 5\n",
    LANE "COMPUTE 5 pears\n",
    LANE "COMPUTE 5 us\n",
    LANE "COMPUTE 1h\n",
    LANE "COMPUTE 1us 5 us\n",
    LANE "COMPUTE 99999999999999999999999999999999999999999999us\n",
    LANE "CALL 0 in+0 out+0 out+0\n",
    HEAD "rank 2 lane 0\n",
    HEAD "rank 0 lane 1\n",
    HEAD "rank 0\n",
    HEAD "rank 0 lane 0 0\n",
    HEAD "callee\n",
    HEAD "callee c\nranks 2\n",
    HEAD "callee c\n\n",
    HEAD "callee c\ncontract barrier int8 sum count 0\ncallee d\nlanes 2\n",
};

TEST(what_is_not_a_schedule_is_refused_by_its_line)
{
    char seen[16384] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {""};

        CHECK_INT(tutti_schedule_parse("file", refused[i], strlen(refused[i]), &schedule, &err),
                  -TUTTI_EINVAL);
        CHECK(schedule == NULL);
        CHECK(strncmp(err.text, "file: line ", 11) == 0);
        used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%s\n", err.text);
        REQUIRE(used < sizeof(seen));
        tutti_schedule_free(schedule);
    }
    test_golden("schedule-text-errors.txt", seen);
}

TEST(bytes_that_are_no_text_are_refused)
{
    static const char zero[] = "schedule s\0t\n";
    static const char high[] = "schedule s\xff\ncontract barrier int8 sum count 0\nranks 1\n";
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_schedule_parse("file", zero, sizeof(zero) - 1, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "file: line 1: bad schedule name 's' (printable)");
    CHECK_INT(tutti_schedule_parse("file", high, sizeof(high) - 1, &schedule, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "file: line 1: bad schedule name") != NULL);
}

/* ---- hostile numbers --------------------------------------------------------------------------
 */

TEST(numbers_alone_take_no_memory)
{
    struct tutti_schedule *schedule =
        parse("schedule s\ncontract allreduce double sum count 1000000000000000000\n"
              "ranks 16777216\nscratch 9223372036854775807 B\nslots 4294967295\n"
              "rank 16777215 lane 0\nSEND in+18446744073709551615 18446744073709551615 B to "
              "4294967295 after lane 4095 step 4294967295\n");
    struct tutti_err err = {""};

    REQUIRE(schedule != NULL);
    CHECK(tutti_arena_bytes(schedule->arena) < 65536);
    CHECK_INT(tutti_schedule_step_count(schedule, 16777215, 0), 1);
    tutti_schedule_free(schedule);
    schedule = NULL;
    {
        static const char text[] = "schedule s\ncontract allreduce float sum count 1\n"
                                   "ranks 4294967295\nlanes 4096\nrank 0 lane 0\n";

        CHECK_INT(tutti_schedule_parse("file", text, strlen(text), &schedule, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, "file: line 1: '4294967295' ranks of 4096 lanes are too many to store "
                             "(ranks * lanes up to 16777216)");
    }
}

TEST(lanes_in_any_order_are_found_again)
{
    static const uint32_t ranks[] = {16777215, 0,     65536,    256, 255,
                                     1,        65535, 16777214, 257, 16711680};
    struct tutti_schedule *schedule;
    char text[2048];
    size_t used = (size_t)snprintf(
        text, sizeof(text), "schedule s\ncontract barrier int8 sum count 0\nranks 16777216\n");

    for (size_t i = 0; i < 20; i++)
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "rank %u lane 0\nCOMPUTE %u flops\n",
                             ranks[i % 10], (unsigned)(100 * (i % 10) + i / 10));
    schedule = parse(text);
    REQUIRE(schedule != NULL);
    for (size_t i = 0; i < 10; i++) {
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        tutti_cursor_open(&cursor, schedule, ranks[i], 0);
        for (uint64_t k = 0; k < 2; k++) {
            step = tutti_cursor_next(&cursor);
            REQUIRE(step != NULL);
            CHECK_INT(step->flops, 100 * i + k);
        }
        CHECK(tutti_cursor_next(&cursor) == NULL);
    }
    CHECK_INT(tutti_schedule_step_count(schedule, 2, 0), 0);
    tutti_schedule_free(schedule);
}

TEST(callees_are_counted_and_their_lanes_too)
{
    static const char head[] = "schedule s\ncontract barrier int8 sum count 0\nranks 1048576\n"
                               "lanes 8\n";
    static const char callee[] = "callee c\ncontract barrier int8 sum count 0\nlanes 5\n";
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    char text[sizeof(head) + 2 * sizeof(callee)];

    snprintf(text, sizeof(text), "%s%s%s", head, callee, callee);
    CHECK_INT(tutti_schedule_parse("file", text, strlen(text), &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "file: line 10: with the '5' lanes of callee 'c' there are too many to "
                         "store (ranks * lanes up to 16777216)");
}

/* Steps strewn over 4096 lanes, so that each line of "rank" goes to another. */
static char *make_long_text(uint32_t step_count)
{
    size_t capacity = (size_t)step_count * 80 + 200;
    char *text = malloc(capacity);
    size_t used;

    if (text == NULL)
        return NULL;
    used = (size_t)snprintf(text, capacity,
                            "schedule s\ncontract allreduce float sum count 64\n"
                            "ranks 64\nlanes 64\n");
    for (uint32_t i = 0; i < step_count; i++)
        used += (size_t)snprintf(text + used, capacity - used,
                                 "rank %u lane %u\nCOPY out+%u = in+0 4 B after lane 0 step 0\n",
                                 i * 7 % 64, i * 13 / 64 % 64, i % 64 * 4);
    return text;
}

/* The best of three, in seconds: parse, then print. */
static double time_long_text(uint32_t step_count)
{
    char *text = make_long_text(step_count);
    double best = 1e9;

    for (int i = 0; i < 3 && text != NULL; i++) {
        clock_t start = clock();
        struct tutti_schedule *schedule = parse(text);
        struct tutti_err err = {""};
        char *back = NULL;
        double seconds;

        if (schedule != NULL)
            CHECK_OK(tutti_schedule_print(schedule, &back, &err), err);
        seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        best = seconds < best ? seconds : best;
        free(back);
        tutti_schedule_free(schedule);
    }
    CHECK(text != NULL);
    free(text);
    return best;
}

TEST(eight_times_the_text_takes_not_much_more_than_eight_times_the_time)
{
    uint32_t step_count = (uint32_t)test_cheap_count(25000, 25000);
    double few = time_long_text(step_count);
    double many = time_long_text(8 * step_count);

    printf("%u steps: %.4f s, eight times as many: %.4f s\n", step_count, few, many);
    CHECK(many < 8 * 4 * few + 0.05); /* squared growth would be 8 times more */
}
