/* What only several processes on sockets can be asked: large messages over several connections,
 * orders in which words and data could wait for each other, disagreement, and death. */
#include <pthread.h>
#include <time.h>

#include "runtime/coll.h"
#include "runtime/tcp.h"
#include "tests/runtime/processes.h"

static struct tutti_backend *open_tcp(enum tutti_tcp_engine engine, uint32_t connections)
{
    struct tutti_tcp_opts opts = {.size = sizeof(struct tutti_tcp_opts),
                                  .group = processes_group(),
                                  .engine = engine,
                                  .connections = connections};
    struct tutti_backend *backend = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_tcp_open(&opts, &backend, &err), err);
    return backend;
}

static struct tutti_schedule *allreduce(const char *algorithm, uint64_t count)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .op = TUTTI_SUM, .count = count};
    struct tutti_shape shape = tutti_shape_flat(processes.count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return schedule;
}

/* Each rank brings i * (rank + 1); buffers begin one element off. */
static void sum_up(enum tutti_tcp_engine engine, uint32_t connections, const char *algorithm,
                   uint64_t count)
{
    struct tutti_backend *backend = open_tcp(engine, connections);
    struct tutti_schedule *schedule = allreduce(algorithm, count);
    int32_t *in = calloc((size_t)count + 1, sizeof(in[0]));
    int32_t *out = calloc((size_t)count + 1, sizeof(out[0]));
    const void *ins[PROCESSES_MAX] = {NULL};
    void *outs[PROCESSES_MAX] = {NULL};
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .in = ins,
                              .out = outs,
                              .warmup_count = 1,
                              .iteration_count = 2};
    int32_t factor = (int32_t)(processes.count * (processes.count + 1) / 2);
    struct tutti_played played;
    uint64_t wrong = 0;
    struct tutti_err err;

    REQUIRE(backend != NULL && schedule != NULL && in != NULL && out != NULL);
    for (uint64_t i = 0; i < count; i++)
        in[i + 1] = (int32_t)(i % 65536) * (int32_t)(processes.index + 1);
    ins[processes.index] = in + 1;
    outs[processes.index] = out + 1;
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    for (uint64_t i = 0; i < count; i++)
        wrong += out[i + 1] != (int32_t)(i % 65536) * factor;
    CHECK_INT(wrong, 0);
    CHECK_INT(out[0], 0);
    free(in);
    free(out);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

static void sum_up_in_all_endpoints(enum tutti_tcp_engine engine)
{
    static const char *const names[] = {"one-shot", "two-shot", "ring", "recursive-doubling"};

    for (uint32_t i = 0; i < 4; i++) {
        sum_up(engine, i, names[i], 1000003); /* parts of uneven length */
        sum_up(engine, 3, names[i], 1 << 20);
    }
}

TEST(large_messages_are_cut_over_connections)
{
    sum_up_in_all_endpoints(TUTTI_TCP_POLL);
}

TEST(likewise_with_io_uring)
{
    struct tutti_err why;

    if (tutti_tcp_uring_check(&why) < 0) {
        fprintf(stderr, "%s\n", why.text);
        SKIP("no io_uring here");
    }
    sum_up_in_all_endpoints(TUTTI_TCP_URING);
}

/* ---- runs that are held open ---- */

struct steps {
    struct tutti_backend *backend;
    struct tutti_schedule *schedule;
    struct tutti_run *run;
    int32_t in[PROCESSES_MAX];
    int32_t out[PROCESSES_MAX];
    const void *ins[PROCESSES_MAX];
    void *outs[PROCESSES_MAX];
    uint64_t enough_at; /* this process has; 0: never */
    uint64_t call_count;
};

/* The sum, modulo a small prime, is what all bring to the next iteration. */
static int carry_over(void *context, uint64_t played_count, struct tutti_err *err)
{
    struct steps *steps = context;

    (void)err;
    steps->call_count++;
    steps->in[processes.index] = steps->out[processes.index] % 97 + (int32_t)processes.index;
    return played_count == steps->enough_at;
}

static void open_steps(struct steps *steps, enum tutti_tcp_engine engine, bool hooked)
{
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .in = steps->ins,
                              .out = steps->outs,
                              .between = hooked ? carry_over : NULL,
                              .between_context = steps};
    struct tutti_err err;

    *steps = (struct steps){.backend = open_tcp(engine, 1), .schedule = allreduce("ring", 1)};
    steps->ins[processes.index] = &steps->in[processes.index];
    steps->outs[processes.index] = &steps->out[processes.index];
    steps->in[processes.index] = (int32_t)processes.index;
    play.schedule = steps->schedule;
    CHECK_OK(tutti_run_open(steps->backend, &play, &steps->run, &err), err);
}

static void close_steps(struct steps *steps)
{
    tutti_run_close(steps->run);
    tutti_schedule_free(steps->schedule);
    tutti_backend_close(steps->backend);
}

/* What all have after so many iterations with the hook between them. */
static int32_t sum_after(uint64_t iteration_count)
{
    int32_t count = (int32_t)processes.count;
    int32_t sum = count * (count - 1) / 2;

    for (uint64_t i = 1; i < iteration_count; i++)
        sum = count * (sum % 97) + count * (count - 1) / 2;
    return sum;
}

static void step_by_step(enum tutti_tcp_engine engine)
{
    struct tutti_played played;
    struct steps steps;
    struct tutti_err err;

    open_steps(&steps, engine, false);
    for (int32_t i = 0; i < 200 && steps.run != NULL; i++) {
        steps.in[processes.index] = i * (int32_t)(processes.index + 1);
        if (i % 50 == 49 && processes.index == 1) /* the others fall asleep */
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        CHECK_OK(tutti_run_step(steps.run, 1, &played, &err), err);
        CHECK_INT(steps.out[processes.index],
                  i * (int32_t)(processes.count * (processes.count + 1) / 2));
        CHECK(played.total_ps > 0);
    }
    close_steps(&steps);
}

TEST(connections_stay_from_step_to_step)
{
    step_by_step(TUTTI_TCP_POLL);
    if (tutti_tcp_uring_check(&(struct tutti_err){""}) == 0)
        step_by_step(TUTTI_TCP_URING);
}

TEST(one_process_may_have_enough_for_all)
{
    struct tutti_played played;
    struct steps steps;
    struct tutti_err err;

    open_steps(&steps, TUTTI_TCP_POLL, true);
    steps.enough_at = processes.index == processes.count - 1 ? 5 : 0;
    CHECK_INT(tutti_run_step(steps.run, 3, &played, &err), 0);
    CHECK_INT(steps.out[processes.index], sum_after(3));
    steps.in[processes.index] = steps.out[processes.index] % 97 + (int32_t)processes.index;
    CHECK_INT(tutti_run_step(steps.run, 100, &played, &err), 1);
    CHECK_INT(steps.out[processes.index], sum_after(5));
    CHECK_INT(steps.call_count, 4);
    steps.in[processes.index] = (int32_t)processes.index;
    CHECK_INT(tutti_run_step(steps.run, 1, &played, &err), 0);
    CHECK_INT(steps.out[processes.index], sum_after(1));
    close_steps(&steps);
}

static int refuse(void *context, uint64_t played_count, struct tutti_err *err)
{
    (void)context;
    return played_count == 2 && processes.index == 1
               ? tutti_fail(err, TUTTI_ELACK, "the loss is no number")
               : 0;
}

TEST(what_one_hook_finds_wrong_all_hear)
{
    struct tutti_backend *backend = open_tcp(TUTTI_TCP_POLL, 1);
    struct tutti_schedule *schedule = allreduce("ring", 1);
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 10,
                              .between = refuse};
    struct tutti_played played;
    struct tutti_err err;

    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_ELACK);
    CHECK(strstr(err.text, "rank 1, the hook after iteration 2: the loss is no number") != NULL);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

/* ---- stories of two ranks ---- */

static struct tutti_builder *story(uint32_t slot_count, uint64_t bytes)
{
    struct tutti_schedule_desc desc = {
        .name = "story",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = 2,
        .lane_count = 1,
        .slot_count = slot_count,
        .in_bytes = bytes,
        .out_bytes = bytes,
    };
    struct tutti_builder *builder = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    return builder;
}

static void step(struct tutti_builder *builder, uint32_t rank, enum tutti_step_kind kind,
                 uint64_t bytes)
{
    struct tutti_step step = {.kind = (uint8_t)kind,
                              .src_buf = kind == TUTTI_SEND ? TUTTI_BUF_IN : TUTTI_BUF_NONE,
                              .dst_buf = kind == TUTTI_RECV ? TUTTI_BUF_OUT : TUTTI_BUF_NONE,
                              .peer = 1 - rank,
                              .bytes = bytes};
    struct tutti_err err;

    CHECK_OK(tutti_builder_add(builder, rank, 0, &step, &err), err);
}

static int play_story(struct tutti_builder *builder, struct tutti_backend *backend,
                      tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .iteration_count = 2, .deadline_ps = deadline_ps};
    struct tutti_played played;
    int status = tutti_builder_finish(builder, &schedule, err);

    play.schedule = schedule;
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_schedule_free(schedule);
    return status;
}

/* ---- what is reported before it is done ---- */

enum { PART_COUNT = 1000001, PART_BYTES = 4 * PART_COUNT }; /* more than sockets take at once */

static void add(struct tutti_builder *builder, uint32_t rank, uint32_t lane, struct tutti_step step)
{
    struct tutti_err err;

    step.peer = step.kind == TUTTI_SEND || step.kind == TUTTI_RECV ? 1 - rank : 0;
    step.bytes = step.bytes > 0 ? step.bytes : PART_BYTES;
    CHECK_OK(tutti_builder_add(builder, rank, lane, &step, &err), err);
}

/* Plays with inputs of i + 7 * rank. */
static void play_parts(struct tutti_builder *builder, enum tutti_tcp_engine engine,
                       uint32_t connections, int32_t (*expected)(uint32_t rank, uint64_t i))
{
    struct tutti_backend *backend = open_tcp(engine, connections);
    struct tutti_schedule *schedule = NULL;
    int32_t *in = calloc(2 * PART_COUNT, sizeof(in[0]));
    int32_t *out = calloc(2 * PART_COUNT, sizeof(out[0]));
    const void *ins[PROCESSES_MAX] = {NULL};
    void *outs[PROCESSES_MAX] = {NULL};
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .in = ins, .out = outs, .iteration_count = 3};
    struct tutti_played played;
    uint64_t wrong = 0;
    struct tutti_err err;

    REQUIRE(backend != NULL && in != NULL && out != NULL);
    for (int32_t i = 0; i < 2 * PART_COUNT; i++)
        in[i] = i + 7 * (int32_t)processes.index;
    ins[processes.index] = in;
    outs[processes.index] = out;
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    play.schedule = schedule;
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    for (uint64_t i = 0; i < 2 * PART_COUNT; i++)
        wrong += out[i] != expected(processes.index, i);
    CHECK_INT(wrong, 0);
    free(in);
    free(out);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

static struct tutti_builder *parts(uint32_t lane_count)
{
    struct tutti_schedule_desc desc = {
        .name = "parts",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32, .op = TUTTI_SUM},
        .rank_count = 2,
        .lane_count = lane_count,
        .slot_count = 2,
        .in_bytes = 2 * PART_BYTES,
        .out_bytes = 2 * PART_BYTES,
        .scratch_bytes = PART_BYTES,
    };
    struct tutti_builder *builder = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    return builder;
}

static int32_t twice_the_first_of_the_other(uint32_t rank, uint64_t i)
{
    return (int32_t)(i % PART_COUNT) + (rank == 0 ? 7 : 0);
}

/* Another lane waits for a RECV by name: it copies what has come, not what was there before. */
TEST(a_step_that_waits_for_a_message_finds_it_there)
{
    struct tutti_builder *builder = parts(2);

    REQUIRE(builder != NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        add(builder, rank, 0, (struct tutti_step){.kind = TUTTI_SEND, .src_buf = TUTTI_BUF_IN});
        add(builder, rank, 0, (struct tutti_step){.kind = TUTTI_RECV, .dst_buf = TUTTI_BUF_OUT});
        add(builder, rank, 1,
            (struct tutti_step){.kind = TUTTI_COPY,
                                .flags = TUTTI_STEP_DEP,
                                .dep_lane = 0,
                                .dep_step = 1,
                                .src_buf = TUTTI_BUF_OUT,
                                .dst_buf = TUTTI_BUF_OUT,
                                .dst_offset = PART_BYTES});
    }
    play_parts(builder, TUTTI_TCP_AUTO, 1, twice_the_first_of_the_other);
}

enum { LENT_COUNT = 200001, LENT_BYTES = 4 * LENT_COUNT }; /* sockets take all of it at once */

static int32_t once_twice_and_three_times(uint32_t rank, uint64_t i)
{
    return i >= LENT_COUNT ? 0 : (rank == 0 ? 3 : 1 + 2 + 3) * (int32_t)i;
}

/* What rank 0 sends is more in each iteration; rank 1 is slow to take it, and adds it all up. On
 * one host no copy is made before that. */
static void zero_copy_to_the_slow(uint32_t connections)
{
    struct tutti_step reduce = {.kind = TUTTI_REDUCE,
                                .acc_buf = TUTTI_BUF_OUT,
                                .src_buf = TUTTI_BUF_IN,
                                .dst_buf = TUTTI_BUF_OUT,
                                .bytes = LENT_BYTES};
    struct tutti_step send = {.kind = TUTTI_SEND, .src_buf = TUTTI_BUF_OUT, .bytes = LENT_BYTES};
    struct tutti_step wait = {.kind = TUTTI_COMPUTE, .duration_ps = 20 * TUTTI_PS_PER_MS};
    struct tutti_step recv = {
        .kind = TUTTI_RECV, .dst_buf = TUTTI_BUF_SCRATCH, .bytes = LENT_BYTES};
    struct tutti_builder *builder = parts(1);

    REQUIRE(builder != NULL);
    add(builder, 0, 0, reduce);
    add(builder, 0, 0, send);
    add(builder, 1, 0, wait);
    add(builder, 1, 0, recv);
    reduce.src_buf = TUTTI_BUF_SCRATCH;
    add(builder, 1, 0, reduce);
    play_parts(builder, TUTTI_TCP_AUTO, connections, once_twice_and_three_times);
}

TEST(what_is_lent_is_not_written_before_it_has_been_read)
{
    zero_copy_to_the_slow(1);
    zero_copy_to_the_slow(3);
}

/* Rank 1 has a long message on its way that rank 0 takes only when it has been told that its own
 * first one has arrived: that word must not wait behind the data. */
TEST(words_do_not_wait_behind_data)
{
    enum { LONG_BYTES = 32 << 20 };
    struct tutti_backend *backend = open_tcp(TUTTI_TCP_AUTO, 1);
    struct tutti_builder *builder = story(1, LONG_BYTES);
    struct tutti_err err;

    REQUIRE(backend != NULL && builder != NULL);
    step(builder, 0, TUTTI_SEND, 4);
    step(builder, 0, TUTTI_SEND, 4);
    step(builder, 0, TUTTI_RECV, LONG_BYTES);
    step(builder, 1, TUTTI_SEND, LONG_BYTES);
    step(builder, 1, TUTTI_RECV, 4);
    step(builder, 1, TUTTI_RECV, 4);
    CHECK_OK(play_story(builder, backend, 20 * TUTTI_PS_PER_S, &err), err);
    tutti_backend_close(backend);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Process 1 comes late. Nobody begins before the lead after that, by the clock that both have. */
TEST(with_a_lead_processes_begin_so_long_after_the_last_has_come)
{
    enum { LATE_MS = 20, LEAD_MS = 60 };
    struct tutti_backend *backend = open_tcp(TUTTI_TCP_AUTO, 1);
    struct tutti_schedule *schedule = allreduce("ring", 5);
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 2,
                              .barrier = true,
                              .lead_ps = LEAD_MS * TUTTI_PS_PER_MS};
    struct timespec late = {.tv_nsec = LATE_MS * 1000000};
    int64_t came_ns[PROCESSES_MAX];
    struct tutti_played played = {0};
    struct tutti_err err;
    int64_t mine_ns;
    int64_t ended_ns;

    REQUIRE(backend != NULL && schedule != NULL);
    if (processes.index == 1)
        (void)nanosleep(&late, NULL);
    mine_ns = now_ns();
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    ended_ns = now_ns();
    CHECK_OK(tutti_group_exchange(processes_group(), &mine_ns, sizeof(mine_ns), came_ns,
                                  30 * TUTTI_PS_PER_S, &err),
             err);
    for (uint32_t i = 0; i < processes.count; i++)
        CHECK(processes.count == 1 || ended_ns - came_ns[i] >= 2 * LEAD_MS * INT64_C(1000000));
    CHECK(played.total_ps > 0);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

TEST(a_deadlock_between_processes_ends_at_the_deadline_and_names_the_same_step_in_all)
{
    struct tutti_backend *backend = open_tcp(TUTTI_TCP_AUTO, 1);
    struct tutti_builder *builder = story(1, 64);
    struct tutti_err err = {""};

    REQUIRE(backend != NULL && builder != NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        step(builder, rank, TUTTI_RECV, 4);
        step(builder, rank, TUTTI_SEND, 4);
    }
    CHECK_INT(play_story(builder, backend, TUTTI_PS_PER_S / 5, &err), -TUTTI_ETIME);
    CHECK_OK(tutti_group_same(processes_group(), "message", err.text, 20 * TUTTI_PS_PER_S, &err),
             err);
    if (strstr(err.text, "lane 0, step 0 (RECV") == NULL)
        TEST_FAIL("names no step: %s", err.text);
    tutti_backend_close(backend);
}

TEST(schedules_that_differ_are_refused_with_both_shown)
{
    struct tutti_backend *backend = open_tcp(TUTTI_TCP_AUTO, 0);
    struct tutti_schedule *schedule = allreduce("ring", 100 + processes.index);
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_played played;
    struct tutti_err err = {""};

    REQUIRE(backend != NULL && schedule != NULL);
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EINVAL);
    if (strstr(err.text, "count 100 ") == NULL || strstr(err.text, "count 101 ") == NULL)
        TEST_FAIL("shows not both: %s", err.text);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

/* ---- the last test: a process is killed ---- */

static void *die_soon(void *data)
{
    struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};

    (void)data;
    nanosleep(&pause, NULL);
    fflush(NULL);
    _exit(0); /* so that the test as a whole can pass; to the others it is the same */
}

TEST(who_plays_with_a_process_that_dies_is_told_rank_and_step)
{
    struct tutti_backend *backend = open_tcp(TUTTI_TCP_AUTO, 1);
    struct tutti_schedule *schedule = allreduce("ring", 1000);
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = UINT32_MAX};
    struct tutti_played played;
    struct tutti_err err = {""};
    pthread_t killer;
    time_t start = time(NULL);

    REQUIRE(backend != NULL && schedule != NULL);
    if (processes.index == 1 && pthread_create(&killer, NULL, die_soon, NULL) != 0)
        exit(1);
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EIO);
    CHECK(time(NULL) - start < 10);
    if (strstr(err.text, "rank 1 (process 1) is gone") == NULL &&
        strstr(err.text, "process 1") == NULL)
        TEST_FAIL("names not who is gone: %s", err.text);
    if (strstr(err.text, "lane 0, step ") == NULL)
        TEST_FAIL("names no step: %s", err.text);
    printf("%s\n", err.text);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}
