/* Tests of the engine and the record: stories on a toy stage that finishes steps in the order in
 * which they were posted, with slots, and writes down all that it sees. */
#include "runtime/engine.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/record.h"
#include "runtime/status.h"
#include "tests/test.h"

/* ---- a toy schedule: a table of steps, or a generated endless stream ---- */

enum { RANKS = 3, LANES = 3, STEPS = 8 };

struct toy {
    struct tutti_schedule base; /* first member: the schedule casts back */
    struct tutti_step step[RANKS][LANES][STEPS];
    uint32_t count[RANKS][LANES];
};

static uint64_t toy_round_count(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    return ((const struct toy *)schedule)->count[rank][lane];
}

static void toy_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                     uint64_t round, struct tutti_round *out)
{
    out->step[out->step_count++] = ((const struct toy *)schedule)->step[rank][lane][round];
}

static const struct tutti_schedule_ops toy_ops = {
    .size = sizeof(struct tutti_schedule_ops), .round_count = toy_round_count, .emit = toy_emit};

static struct toy toy;

static void world(uint32_t ranks, uint32_t lanes, uint32_t slots)
{
    memset(&toy, 0, sizeof(toy));
    toy.base = (struct tutti_schedule){
        .ops = &toy_ops,
        .name = "toy",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = ranks,
        .lane_count = lanes,
        .slot_count = slots,
        .in_bytes = 64,
        .out_bytes = 64,
        .scratch_bytes = 64,
    };
}

static struct tutti_step *add(uint32_t rank, uint32_t lane, struct tutti_step step)
{
    struct tutti_step *at = &toy.step[rank][lane][toy.count[rank][lane]++];

    *at = step;
    return at;
}

static struct tutti_step *send_to(uint32_t rank, uint32_t lane, uint32_t peer, uint64_t bytes)
{
    return add(rank, lane,
               (struct tutti_step){
                   .kind = TUTTI_SEND, .src_buf = TUTTI_BUF_IN, .peer = peer, .bytes = bytes});
}

static struct tutti_step *recv_from(uint32_t rank, uint32_t lane, uint32_t peer, uint64_t bytes)
{
    return add(rank, lane,
               (struct tutti_step){
                   .kind = TUTTI_RECV, .dst_buf = TUTTI_BUF_OUT, .peer = peer, .bytes = bytes});
}

static struct tutti_step *join(uint32_t rank, uint32_t lane)
{
    return add(
        rank, lane,
        (struct tutti_step){.kind = TUTTI_COPY, .dst_buf = TUTTI_BUF_OUT, .src_buf = TUTTI_BUF_IN});
}

static void after(struct tutti_step *step, uint16_t lane, uint32_t dep_step)
{
    step->flags |= TUTTI_STEP_DEP;
    step->dep_lane = lane;
    step->dep_step = dep_step;
}

/* ---- the toy stage ---- */

enum { PENDING_MAX = 64, LOG_BYTES = 4096 };

struct pending {
    struct tutti_post post;
    bool started; /* a SEND that holds a slot */
};

struct stage {
    struct pending pending[PENDING_MAX];
    uint32_t pending_count;
    tutti_ps clock;
    char log[LOG_BYTES];
    size_t log_used;
    size_t heap_bytes; /* in use at the first post */
    bool heap_grew;
};

static struct stage stage;

static void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(stage.log + stage.log_used, LOG_BYTES - stage.log_used, format, args);
    va_end(args);
    stage.log_used += strlen(stage.log + stage.log_used);
}

static int toy_post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    static const char *const names[] = {"?", "send", "recv", "reduce", "copy", "compute"};
    struct stage *s = data;

    (void)err;
    if (s->heap_bytes == 0)
        s->heap_bytes = mallinfo2().uordblks;
    s->pending[s->pending_count++] = (struct pending){.post = *post};
    say("%u.%u.%u %s\n", post->rank, post->lane, (unsigned)post->index, names[post->step->kind]);
    return 0;
}

static bool same_way(const struct tutti_post *send, const struct tutti_post *recv)
{
    return send->step->kind == TUTTI_SEND && recv->step->kind == TUTTI_RECV &&
           send->step->peer == recv->rank && recv->step->peer == send->rank &&
           send->lane == recv->lane;
}

static bool has_slot(const struct stage *s, const struct tutti_post *send)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < s->pending_count; i++)
        used += s->pending[i].started && s->pending[i].post.rank == send->rank &&
                s->pending[i].post.lane == send->lane &&
                s->pending[i].post.step->peer == send->step->peer;
    return used < toy.base.slot_count;
}

static struct tutti_done report(struct stage *s, uint32_t number, enum tutti_done_what what)
{
    const struct tutti_post *post = &s->pending[number].post;
    struct tutti_done done = {.rank = post->rank,
                              .lane = post->lane,
                              .index = post->index,
                              .what = what,
                              .start_ps = s->clock,
                              .end_ps = s->clock + 1};

    s->clock++;
    say("%u.%u.%u %s\n", done.rank, done.lane, (unsigned)done.index,
        what == TUTTI_DONE_STARTED ? "started" : "done");
    if (what == TUTTI_DONE_FINISHED) {
        s->pending_count--;
        memmove(&s->pending[number], &s->pending[number + 1],
                (s->pending_count - number) * sizeof(s->pending[0]));
    }
    return done;
}

static int toy_poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct stage *s = data;

    (void)max;
    (void)err;
    s->heap_grew |= mallinfo2().uordblks > s->heap_bytes;
    for (uint32_t i = 0; i < s->pending_count; i++) {
        struct pending *p = &s->pending[i];

        if (p->post.step->kind == TUTTI_SEND) {
            if (p->started || !has_slot(s, &p->post))
                continue;
            p->started = true;
            done[0] = report(s, i, TUTTI_DONE_STARTED);
            return 1;
        }
        if (p->post.step->kind != TUTTI_RECV) {
            done[0] = report(s, i, TUTTI_DONE_FINISHED);
            return 1;
        }
        for (uint32_t k = 0; k < s->pending_count; k++) {
            if (!s->pending[k].started || !same_way(&s->pending[k].post, &p->post))
                continue;
            done[0] = report(s, i, TUTTI_DONE_FINISHED); /* the receiver first, then the SEND */
            done[1] = report(s, k - (k > i), TUTTI_DONE_FINISHED);
            return 2;
        }
    }
    return 0;
}

static const struct tutti_stage_ops stage_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = toy_post, .poll = toy_poll};

static int play(struct tutti_engine *engine, struct tutti_record *record, struct tutti_err *err)
{
    memset(&stage, 0, sizeof(stage));
    return tutti_engine_run(engine, &stage_ops, &stage, record, err);
}

static int run(struct tutti_err *err)
{
    struct tutti_engine *engine = NULL;
    int status = tutti_engine_new(&toy.base, 0, toy.base.rank_count, &engine, err);

    if (status == 0)
        status = play(engine, NULL, err);
    tutti_engine_free(engine);
    return status;
}

/* ---- stories ---- */

TEST(a_message_from_0_to_1)
{
    struct tutti_err err;

    world(2, 1, 1);
    send_to(0, 0, 1, 4);
    recv_from(1, 0, 0, 4);
    CHECK_OK(run(&err), err);
    CHECK_TEXT(stage.log, "0.0.0 send\n"
                          "1.0.0 recv\n"
                          "0.0.0 started\n"
                          "1.0.0 done\n"
                          "0.0.0 done\n");
}

TEST(a_lane_goes_on_when_its_send_has_started_but_one_slot_holds_one_message)
{
    struct tutti_err err;

    world(2, 1, 1);
    send_to(0, 0, 1, 4);
    send_to(0, 0, 1, 4);
    join(0, 0);
    join(1, 0);
    recv_from(1, 0, 0, 4);
    recv_from(1, 0, 0, 4);
    CHECK_OK(run(&err), err);
    CHECK_TEXT(stage.log, "0.0.0 send\n"
                          "1.0.0 copy\n"
                          "0.0.0 started\n"
                          "0.0.1 send\n" /* posted, but there is no slot before 0.0.0 is done */
                          "1.0.0 done\n"
                          "1.0.1 recv\n"
                          "1.0.1 done\n"
                          "0.0.0 done\n"
                          "1.0.2 recv\n"
                          "0.0.1 started\n"
                          "0.0.2 copy\n"
                          "1.0.2 done\n"
                          "0.0.1 done\n"
                          "0.0.2 done\n");
}

TEST(a_dependency_waits_for_the_step_of_another_lane)
{
    struct tutti_err err;

    world(1, 3, 1);
    after(join(0, 0), 1, 1);
    join(0, 1);
    join(0, 1);
    after(join(0, 2), 0, 0);
    CHECK_OK(run(&err), err);
    CHECK_TEXT(stage.log, "0.1.0 copy\n"
                          "0.1.0 done\n"
                          "0.1.1 copy\n"
                          "0.1.1 done\n"
                          "0.0.0 copy\n"
                          "0.0.0 done\n"
                          "0.2.0 copy\n"
                          "0.2.0 done\n");
}

TEST(a_dependency_on_a_send_waits_until_it_is_done_not_only_started)
{
    struct tutti_err err;

    world(2, 2, 8);
    send_to(0, 0, 1, 4);
    after(join(0, 1), 0, 0);
    join(1, 0);
    recv_from(1, 0, 0, 4);
    CHECK_OK(run(&err), err);
    CHECK_TEXT(stage.log, "0.0.0 send\n"
                          "1.0.0 copy\n"
                          "0.0.0 started\n"
                          "1.0.0 done\n"
                          "1.0.1 recv\n"
                          "1.0.1 done\n"
                          "0.0.0 done\n"
                          "0.1.0 copy\n"
                          "0.1.0 done\n");
}

TEST(a_lane_may_wait_for_its_own_send)
{
    struct tutti_err err;

    world(2, 1, 8);
    send_to(0, 0, 1, 4);
    send_to(0, 0, 1, 4);
    after(join(0, 0), 0, 0);
    join(1, 0);
    join(1, 0);
    recv_from(1, 0, 0, 4);
    recv_from(1, 0, 0, 4);
    CHECK_OK(run(&err), err);
    CHECK(strstr(stage.log, "0.0.1 started") < strstr(stage.log, "0.0.0 done"));
    CHECK(strstr(stage.log, "0.0.0 done\n1.0.3 recv\n0.0.2 copy\n") != NULL);
}

TEST(a_receive_without_a_send_is_a_deadlock_and_is_named)
{
    struct tutti_err err;

    world(2, 1, 1);
    join(0, 0);
    join(1, 0);
    recv_from(1, 0, 0, 4);
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank 1, lane 0, step 1 (RECV") == err.text);
}

TEST(a_circle_of_dependencies_is_a_deadlock_and_is_named)
{
    struct tutti_err err;

    world(1, 2, 1);
    after(join(0, 0), 1, 0);
    after(join(0, 1), 0, 0);
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank 0, lane 0, step 0 (COPY") == err.text);
    CHECK(strstr(err.text, "which waits for lane 1, step 0 can never finish") != NULL);
}

TEST(a_send_that_nobody_takes_is_named)
{
    struct tutti_err err;

    world(2, 1, 1);
    send_to(0, 0, 1, 4);
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank 0, lane 0, step 0 (SEND") == err.text);
}

TEST(steps_that_would_crash_a_player_are_refused_by_name)
{
    struct tutti_err err;

    world(2, 1, 1);
    join(1, 0);
    send_to(1, 0, 2, 4);
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "rank 1, lane 0, step 1 (") == err.text);
    CHECK(strstr(err.text, "names a peer that is not there") != NULL);
    world(2, 1, 1);
    send_to(0, 0, 1, 65);
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "addresses bytes outside its buffer") != NULL);
    world(2, 1, 1);
    recv_from(0, 0, 1, 4)->dst_offset = UINT64_MAX - 1;
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "addresses bytes outside its buffer") != NULL);
    world(2, 1, 1);
    recv_from(0, 0, 1, 0)->dst_buf = 200; /* not even for no bytes */
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "addresses bytes outside its buffer") != NULL);
    world(2, 1, 1);
    recv_from(0, 0, 1, 4)->dst_buf = TUTTI_BUF_IN;
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "writes the input") != NULL);
    world(2, 1, 1);
    after(join(0, 0), 1, 0);
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "depends on a lane that is not there") != NULL);
    world(2, 1, 1);
    add(0, 0,
        (struct tutti_step){.kind = TUTTI_REDUCE,
                            .dst_buf = TUTTI_BUF_OUT,
                            .dst_offset = 2,
                            .acc_buf = TUTTI_BUF_IN,
                            .src_buf = TUTTI_BUF_SCRATCH,
                            .bytes = 8});
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "reduces at an offset inside an element") != NULL);
    world(2, 1, 1);
    add(0, 0, (struct tutti_step){.kind = TUTTI_CALL});
    CHECK_INT(run(&err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "only flat schedules are played") != NULL);
}

TEST(an_engine_plays_again_and_the_record_says_the_same)
{
    struct tutti_engine *engine = NULL;
    struct tutti_record record;
    struct tutti_err err;
    uint64_t hash[2];

    world(3, 2, 2);
    for (uint32_t r = 0; r < 3; r++) {
        send_to(r, 0, (r + 1) % 3, 8);
        recv_from(r, 0, (r + 2) % 3, 8);
        after(join(r, 1), 0, 1);
    }
    tutti_record_init(&record);
    CHECK_OK(tutti_engine_new(&toy.base, 0, 3, &engine, &err), err);
    REQUIRE(engine != NULL);
    for (int i = 0; i < 2; i++) {
        tutti_record_clear(&record);
        CHECK_OK(play(engine, &record, &err), err);
        CHECK_INT(tutti_engine_step_count(engine), 9);
        CHECK_INT(record.event_count, 9);
        CHECK(!stage.heap_grew);
        hash[i] = tutti_record_hash(&record, 1);
    }
    CHECK(hash[0] == hash[1]);
    CHECK_INT(record.events[0].kind, TUTTI_RECV);
    CHECK_INT(record.events[0].peer, (record.events[0].rank + 2) % 3);
    CHECK_INT(record.events[0].bytes, 8);
    tutti_engine_free(engine);
    tutti_record_done(&record);
}

TEST(the_hash_without_times_forgets_when_and_only_when)
{
    struct tutti_record record;
    struct tutti_event event = {.start_ps = 5, .end_ps = 9, .rank = 1, .step = 2, .bytes = 3};
    uint64_t with, without;

    tutti_record_init(&record);
    CHECK_INT(tutti_record_add(&record, &event), 0);
    event.rank = 0;
    event.end_ps = 12;
    CHECK_INT(tutti_record_add(&record, &event), 0);
    with = tutti_record_hash(&record, 1);
    without = tutti_record_hash(&record, 0);
    CHECK_INT(record.events[0].rank, 1);
    record.events[1].end_ps = 7; /* now the other one comes first */
    CHECK(tutti_record_hash(&record, 1) != with);
    CHECK(tutti_record_hash(&record, 0) == without);
    CHECK_INT(record.events[0].rank, 0);
    record.events[0].bytes++;
    CHECK(tutti_record_hash(&record, 0) != without);
    tutti_record_done(&record);
}

/* ---- a program too long to be stored ---- */

enum { LONG_ROUNDS = 800000 }; /* two steps a round, 48 bytes each: past what an engine stores */

static uint64_t long_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                 uint32_t lane)
{
    (void)schedule;
    (void)rank;
    (void)lane;
    return LONG_ROUNDS;
}

static void long_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                      uint64_t round, struct tutti_round *out)
{
    (void)schedule;
    (void)lane;
    (void)round;
    out->step[out->step_count++] = (struct tutti_step){
        .kind = rank == 0 ? TUTTI_SEND : TUTTI_RECV,
        .peer = 1 - rank,
        .src_buf = TUTTI_BUF_IN,
        .dst_buf = TUTTI_BUF_OUT,
        .bytes = 1,
    };
}

static const struct tutti_schedule_ops long_ops = {
    .size = sizeof(struct tutti_schedule_ops), .round_count = long_round_count, .emit = long_emit};

/* Finishes everything at once: SENDs start, and each pair finishes when both are there. */
struct quick {
    struct tutti_done done[64];
    uint32_t count;
    uint64_t sent;
    uint64_t wrong_steps;
};

static int quick_post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    struct quick *q = data;
    struct tutti_done done = {.rank = post->rank, .index = post->index};

    (void)err;
    q->wrong_steps += post->step->bytes != 1 || post->step->peer != 1 - post->rank;
    done.what = post->rank == 0 ? TUTTI_DONE_STARTED : TUTTI_DONE_FINISHED;
    q->done[q->count++] = done;
    if (post->rank == 1) {
        done.rank = 0;
        q->done[q->count++] =
            (struct tutti_done){.what = TUTTI_DONE_FINISHED, .index = post->index};
    }
    return 0;
}

static int quick_poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct quick *q = data;
    uint32_t count = q->count;

    (void)err;
    if (count > max)
        return 0;
    memcpy(done, q->done, count * sizeof(done[0]));
    q->count = 0;
    return (int)count;
}

TEST(a_program_too_long_to_store_is_generated_as_it_is_played)
{
    static const struct tutti_stage_ops quick_ops = {
        .size = sizeof(struct tutti_stage_ops), .post = quick_post, .poll = quick_poll};
    struct tutti_engine *engine = NULL;
    struct quick quick = {.count = 0};
    struct tutti_err err;

    world(2, 1, 8);
    toy.base.ops = &long_ops;
    CHECK_OK(tutti_engine_new(&toy.base, 0, 2, &engine, &err), err);
    REQUIRE(engine != NULL);
    CHECK_OK(tutti_engine_run(engine, &quick_ops, &quick, NULL, &err), err);
    CHECK_INT(tutti_engine_step_count(engine), 2 * LONG_ROUNDS);
    CHECK_INT(quick.wrong_steps, 0);
    tutti_engine_free(engine);
}
