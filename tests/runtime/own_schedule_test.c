/* Schedules and algorithms of one's own: in chunks for any size, added to a set, predicted beside
 * the others, refused where they do not fit; and plugins, good ones and bad ones. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/test.h"
#include "topo/topo.h"

/* Two ranks, two chunks: each rank adds one and sends the sum back. */
static const char two_chunks[] = "schedule pair\n"
                                 "contract allreduce float sum count 4\n"
                                 "chunks 2\n"
                                 "ranks 2\n"
                                 "scratch 1 C\n"
                                 "rank 0 lane 0\n"
                                 "  SEND in+1 1 C to 1\n"
                                 "  RECV scratch+0 1 C from 1 fuse\n"
                                 "  REDUCE out+0 = in+0 op scratch+0 1 C last\n"
                                 "  SEND out+0 1 C to 1\n"
                                 "  RECV out+1 1 C from 1\n"
                                 "rank 1 lane 0\n"
                                 "  SEND in+0 1 C to 0\n"
                                 "  RECV scratch+0 1 C from 0 fuse\n"
                                 "  REDUCE out+1 = in+1 op scratch+0 1 C last\n"
                                 "  SEND out+1 1 C to 0\n"
                                 "  RECV out+0 1 C from 0\n";

static struct tutti_schedule *parse(const char *text)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), err);
    return schedule;
}

static void check_refused(const char *text, const char *message)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_schedule_parse("text", text, strlen(text), &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
}

static struct tutti_algorithm_set *new_set(void)
{
    struct tutti_algorithm_set *set = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_algorithm_set_new(&set, &err), err);
    return set;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

TEST(a_schedule_in_chunks_is_kept_in_bytes_and_printed_in_chunks)
{
    struct tutti_schedule *schedule = parse(two_chunks);
    struct tutti_schedule *again = NULL;
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    struct tutti_err err = {""};
    char *text = NULL;
    char *twice = NULL;

    REQUIRE(schedule != NULL);
    CHECK_INT(schedule->chunk_count, 2);
    CHECK_INT(tutti_schedule_chunk_bytes(schedule), 8);
    CHECK_INT(schedule->scratch_bytes, 8);
    tutti_cursor_open(&cursor, schedule, 0, 0);
    step = tutti_cursor_next(&cursor);
    CHECK_INT(step->src_offset, 8);
    CHECK_INT(step->bytes, 8);
    CHECK_OK(tutti_schedule_print(schedule, &text, &err), err);
    CHECK(strstr(text, "chunks 2\n") != NULL);
    CHECK(strstr(text, "SEND in+1 1 C to 1\n") != NULL);
    CHECK_OK(tutti_schedule_parse("text", text, strlen(text), &again, &err), err);
    CHECK_OK(tutti_schedule_print(again, &twice, &err), err);
    CHECK_TEXT(twice, text);
    free(text);
    free(twice);
    tutti_schedule_free(again);
    tutti_schedule_free(schedule);
}

TEST(a_schedule_in_chunks_is_proved_at_every_size)
{
    static const uint64_t counts[] = {2, 4, 6, 1000, 1 << 20};
    struct tutti_schedule *schedule = parse(two_chunks);

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct tutti_schedule *scaled = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_schedule_scale(schedule, counts[i], &scaled, &err), err);
        REQUIRE(scaled != NULL);
        CHECK_INT(scaled->contract.count, counts[i]);
        CHECK_INT(scaled->in_bytes, 4 * counts[i]);
        CHECK_INT(scaled->scratch_bytes, 2 * counts[i]);
        CHECK_OK(tutti_schedule_check(scaled, &err), err);
        CHECK_OK(tutti_schedule_prove(scaled, &err), err);
        tutti_schedule_free(scaled);
    }
    tutti_schedule_free(schedule);
}

TEST(a_count_that_chunks_do_not_divide_is_refused)
{
    struct tutti_schedule *schedule = parse(two_chunks);
    struct tutti_schedule *scaled = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_schedule_scale(schedule, 5, &scaled, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "a count of '5' cannot be cut into the 2 equal chunks of schedule 'pair' (a "
               "multiple of 2)");
    CHECK_INT(tutti_schedule_scale(schedule, 0, &scaled, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_schedule_scale(schedule, UINT64_MAX - 1, &scaled, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "count '18446744073709551614' is too large for schedule 'pair'");
    tutti_schedule_free(schedule);
}

TEST(a_schedule_in_bytes_is_for_its_own_count)
{
    struct tutti_schedule *schedule = parse("schedule s\n"
                                            "contract broadcast int8 sum count 3\n"
                                            "ranks 2\n"
                                            "rank 0 lane 0\n"
                                            "  COPY out+0 = in+0 3 B\n"
                                            "  SEND in+0 3 B to 1\n"
                                            "rank 1 lane 0\n"
                                            "  RECV out+0 3 B from 0\n");
    struct tutti_schedule *scaled = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_schedule_scale(schedule, 6, &scaled, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "schedule 's' is written in bytes, for a count of 3, not '6' (one in chunks "
               "is for any size)");
    CHECK_OK(tutti_schedule_scale(schedule, 3, &scaled, &err), err);
    CHECK_OK(tutti_schedule_prove(scaled, &err), err);
    tutti_schedule_free(scaled);
    tutti_schedule_free(schedule);
}

TEST(units_do_not_mix)
{
    check_refused("schedule s\ncontract allreduce float sum count 4\nranks 2\nscratch 1 C\n",
                  "text: line 1: the unit of 'scratch' (B, or 'chunks N' in the head)");
    check_refused("schedule s\ncontract allreduce float sum count 4\nscratch 8 B\nchunks 2\n"
                  "ranks 2\n",
                  "text: line 1: the unit of 'scratch' (C, as there are 'chunks')");
    check_refused("schedule s\ncontract allreduce float sum count 4\nchunks 2\nranks 2\n"
                  "rank 0 lane 0\n SEND in+0 8 B to 1\n",
                  "text: line 6: unexpected 'B' ('C')");
    check_refused(
        "schedule s\ncontract allreduce float sum count 4\nchunks 3\nranks 2\n",
        "text: line 1: a count of '4' cannot be cut into 3 equal chunks (a multiple of 3)");
    check_refused("schedule s\ncontract allreduce float sum count 4\nchunks 0\nranks 2\n",
                  "text: line 3: '0' chunks (1 or more)");
    check_refused("schedule s\ncontract allreduce float sum count 4\nchunks 1\nranks 2\n"
                  "rank 0 lane 0\n SEND in+0 9223372036854775807 C to 1\n",
                  "text: line 6: '9223372036854775807' chunks of 16 bytes (fewer than 2^64 bytes)");
    check_refused("schedule s\ncontract allreduce float sum count 4\nchunks 1\nranks 2\n"
                  "rank 0 lane 0\n CALL 0 in+0 out+0 scratch+0\n",
                  "text: line 6: a schedule in chunks that calls another (one in bytes)");
}

/* ---- generators ------------------------------------------------------------------------------ */

TEST(a_builder_keeps_its_first_error)
{
    const struct tutti_schedule_desc desc = {
        .name = "s", .contract.count = 1, .rank_count = 2, .lane_count = 1};
    const struct tutti_buf_at in = {TUTTI_BUF_IN, 0};
    struct tutti_step send = tutti_step_send(in, 4, 1);
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    CHECK_INT(tutti_builder_add(builder, 7, 0, &send, NULL), -TUTTI_EINVAL);
    CHECK_INT(tutti_builder_add(builder, 0, 0, &send, NULL), -TUTTI_EINVAL);
    CHECK_INT(tutti_builder_finish(builder, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "no rank '7' (0 to 1)");
    CHECK(schedule == NULL);
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* As ring, by another name. */
static int generate(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                    struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_coll_params plain = *params;

    plain.added = NULL;
    return tutti_coll_generate("ring", &plain, shape, ret, err);
}

static int add(struct tutti_algorithm_set *set, const char *name, struct tutti_err *err)
{
    const struct tutti_algorithm algorithm = {.size = sizeof(algorithm),
                                              .name = name,
                                              .collectives = 1u << TUTTI_ALLREDUCE,
                                              .generate = generate};

    return tutti_algorithm_add(set, &algorithm, err);
}

TEST(names_that_would_confuse_are_refused)
{
    static const char *const bad[] = {"",     "a b", "a,b",  "nccl:ring",
                                      "auto", "all", "nccl", "ring",
                                      "mine", "a/b", "a#b",  "longer-than-thirty-one-characters"};
    struct tutti_algorithm_set *set = new_set();
    struct tutti_err err = {""};

    CHECK_OK(add(set, "mine", &err), err);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_INT(add(set, bad[i], &err), -TUTTI_EINVAL);
    CHECK_INT(add(set, NULL, &err), -TUTTI_EINVAL);
    CHECK_OK(add(set, "ring2.schedule", &err), err);
    tutti_algorithm_set_free(set);
}

TEST(a_struct_of_another_library_is_refused)
{
    const struct tutti_algorithm algorithm = {
        .size = 8, .name = "mine", .collectives = 1, .generate = generate};
    struct tutti_algorithm_set *set = new_set();
    struct tutti_err err = {""};

    CHECK_INT(tutti_algorithm_add(set, &algorithm, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "struct tutti_algorithm has size 8 (at least ") != NULL);
    tutti_algorithm_set_free(set);
}

TEST(what_is_added_is_found_after_the_table_and_by_its_set_alone)
{
    struct tutti_algorithm_set *set = new_set();
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = 6, .added = set};
    struct tutti_shape shape = tutti_shape_flat(3);
    const struct tutti_algorithm *found = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    size_t count;

    (void)tutti_algorithms(&count);
    CHECK_OK(add(set, "mine", &err), err);
    CHECK_TEXT(tutti_algorithm_at(set, count)->name, "mine");
    CHECK(tutti_algorithm_at(set, count + 1) == NULL);
    CHECK(tutti_algorithm_at(NULL, count) == NULL);
    CHECK_OK(tutti_algorithm_find_for("mine", &params, &found, &err), err);
    CHECK_OK(tutti_coll_generate("mine", &params, &shape, &schedule, &err), err);
    CHECK_OK(tutti_schedule_prove(schedule, &err), err);
    tutti_schedule_free(schedule);
    params.added = NULL;
    CHECK_INT(tutti_coll_generate("mine", &params, &shape, &schedule, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "no algorithm 'mine' for allreduce (ring ") != NULL);
    tutti_algorithm_set_free(set);
}

/* One rank too few. */
static int generate_short(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                          struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_shape less = tutti_shape_flat(shape->rank_count - 1);

    return generate(params, &less, ret, err);
}

/* Half of the data. */
static int generate_half(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                         struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_coll_params less = *params;

    less.count /= 2;
    return generate(&less, shape, ret, err);
}

TEST(what_was_not_asked_for_is_no_answer)
{
    const struct tutti_algorithm bad[] = {
        {.size = sizeof(bad[0]), .name = "short", .collectives = 1, .generate = generate_short},
        {.size = sizeof(bad[0]), .name = "half", .collectives = 1, .generate = generate_half},
    };
    struct tutti_algorithm_set *set = new_set();
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = 6, .added = set};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_algorithm_add(set, &bad[0], &err), err);
    CHECK_OK(tutti_algorithm_add(set, &bad[1], &err), err);
    CHECK_INT(tutti_coll_generate("short", &params, &shape, &schedule, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "algorithm 'short' made a schedule of '2' ranks (3)");
    CHECK_INT(tutti_coll_generate("half", &params, &shape, &schedule, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text,
               "algorithm 'half' made a schedule of allreduce of '3' elements (allreduce of 6)");
    tutti_algorithm_set_free(set);
}

/* ---- predicted ------------------------------------------------------------------------------- */

static struct tutti_topo *machine(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

/* What the ring costs its twin of one's own costs too: 2 times half of 1 MiB at 1 GB/s, and 2
 * latencies. */
TEST(an_own_schedule_is_predicted_like_any_other)
{
    struct tutti_algorithm_set *set = new_set();
    struct tutti_topo *topo = machine("ring:n=2,bw=1GB/s,lat=1us");
    struct tutti_ask ask = {.size = sizeof(ask),
                            .topo = topo,
                            .algorithm = "pair",
                            .params = {.count = 1 << 18, .added = set}};
    struct tutti_answer answer = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_algorithm_add_schedule(set, "pair", parse(two_chunks), &err), err);
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.time_ps, (INT64_C(1048576) * 1000 + 2 * TUTTI_PS_PER_US));
    CHECK_INT(answer.bytes, 1 << 20);
    CHECK_TEXT(answer.algorithm, "pair");
    CHECK(answer.bound.exact);

    ask.algorithm = "auto"; /* among all: nobody is faster, but ring is as fast and was first */
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK(answer.time_ps <= INT64_C(1048576) * 1000 + 2 * TUTTI_PS_PER_US);

    ask.algorithm = "pair";
    ask.params.op = TUTTI_MAX;
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "schedule 'pair' has the operator sum, not 'max'") != NULL);
    ask.params.op = TUTTI_SUM;
    ask.params.dtype = TUTTI_FLOAT64;
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "schedule 'pair' is of type float, not 'double'") != NULL);
    tutti_topo_free(topo);
    topo = machine("ring:n=4,bw=1GB/s,lat=1us");
    ask.topo = topo;
    CHECK_INT(tutti_predict(&ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "schedule 'pair' has 2 ranks, not 4") != NULL);
    tutti_topo_free(topo);
    tutti_algorithm_set_free(set);
}

/* One without a contract has no bound and no bandwidth, but a time. */
TEST(a_custom_schedule_has_a_time)
{
    struct tutti_algorithm_set *set = new_set();
    struct tutti_topo *topo = machine("ring:n=2,bw=1GB/s,lat=1us");
    struct tutti_ask ask = {.size = sizeof(ask),
                            .topo = topo,
                            .algorithm = "push",
                            .params = {.collective = TUTTI_CUSTOM, .count = 1, .added = set}};
    struct tutti_answer answer = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_algorithm_add_schedule(set, "push",
                                          parse("schedule push\n"
                                                "contract custom float sum count 1\n"
                                                "ranks 2\nin 1000 B\nout 1000 B\n"
                                                "rank 0 lane 0\n  SEND in+0 1000 B to 1\n"
                                                "rank 1 lane 0\n  RECV out+0 1000 B from 0\n"),
                                          &err),
             err);
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.time_ps, 2 * TUTTI_PS_PER_US);
    CHECK_INT(answer.bound.time_ps, 0);
    tutti_topo_free(topo);
    tutti_algorithm_set_free(set);
}
