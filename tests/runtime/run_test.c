/* Runs that are held open: threads, connections and buffers stay from step to step, with a hook
 * between iterations. */
#include "runtime/coll.h"
#include "runtime/record.h"
#include "runtime/threads.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/small.h"

enum { RANKS = 4, COUNT = 300 };

/* Ranks that add up integers. */
struct world {
    struct tutti_backend *backend;
    struct tutti_schedule *schedule;
    int32_t in[RANKS][COUNT];
    int32_t out[RANKS][COUNT];
    const void *ins[RANKS];
    void *outs[RANKS];
    struct tutti_play play;
};

static struct world world;

static void fill(int32_t value)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t i = 0; i < COUNT; i++)
            world.in[rank][i] = value * (int32_t)(rank + 1) + (int32_t)i;
    }
}

/* Of the inputs that fill(value) left. */
static void check_sums(int32_t value, uint32_t rank_count)
{
    int32_t ranks = (int32_t)rank_count;
    uint64_t wrong = 0;

    for (uint32_t rank = 0; rank < rank_count; rank++) {
        for (uint32_t i = 0; i < COUNT; i++)
            wrong += world.out[rank][i] != value * ranks * (ranks + 1) / 2 + ranks * (int32_t)i;
    }
    CHECK_INT(wrong, 0);
}

static void open_world(uint32_t rank_count, const char *algorithm)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .op = TUTTI_SUM, .count = COUNT};
    struct tutti_shape shape = tutti_shape_flat(rank_count);
    struct tutti_err err;

    world = (struct world){0};
    CHECK_OK(tutti_threads_open(NULL, &world.backend, &err), err);
    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &world.schedule, &err), err);
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        world.ins[rank] = world.in[rank];
        world.outs[rank] = world.out[rank];
    }
    world.play = (struct tutti_play){.size = sizeof(struct tutti_play),
                                     .schedule = world.schedule,
                                     .in = world.ins,
                                     .out = world.outs};
}

static void close_world(void)
{
    tutti_schedule_free(world.schedule);
    tutti_backend_close(world.backend);
}

static struct tutti_run *open_run(void)
{
    struct tutti_run *run = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_run_open(world.backend, &world.play, &run, &err), err);
    return run;
}

/* ---- steps ---- */

static void steps_of(uint32_t rank_count, const char *algorithm)
{
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;

    open_world(rank_count, algorithm);
    world.play.warmup_count = 2;
    run = open_run();
    for (int32_t step = 0; step < 50; step++) {
        fill(step);
        CHECK_OK(tutti_run_step(run, 1 + (uint32_t)step % 3, &played, &err), err);
        check_sums(step, rank_count);
        CHECK(played.best_ps > 0 && played.best_ps <= played.total_ps);
    }
    tutti_run_close(run);
    close_world();
}

TEST(each_step_reads_what_was_written_before_it)
{
    steps_of(1, "ring");
    steps_of(2, "two-shot");
    steps_of(RANKS, "ring");
    steps_of(RANKS, "recursive-doubling");
}

/* A step after the first finds all it needs: no thread is made and no memory taken. */
TEST(a_step_takes_no_memory)
{
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;
    int status = 0;

    open_world(2, "ring");
    fill(1);
    run = open_run();
    CHECK_OK(tutti_run_step(run, 4, &played, &err), err);
    alloc_fail_forbid(true);
    for (uint32_t i = 0; i < 1000 && status == 0; i++)
        status = tutti_run_step(run, 1, &played, &err);
    alloc_fail_forbid(false);
    CHECK_INT(status, 0);
    check_sums(1, 2);
    tutti_run_close(run);
    close_world();
}

static void fall_asleep(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

TEST(threads_that_have_fallen_asleep_wake_for_the_next_step)
{
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;

    open_world(RANKS, "ring");
    run = open_run();
    for (int32_t step = 0; step < 20; step++) {
        fall_asleep();
        fill(step);
        CHECK_OK(tutti_run_step(run, 1, &played, &err), err);
        check_sums(step, RANKS);
    }
    tutti_run_close(run);
    close_world();
}

TEST(each_step_has_a_record_of_its_own)
{
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;

    open_world(2, "ring");
    tutti_record_init(&record);
    world.play.record = &record;
    world.play.barrier = true;
    run = open_run();
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_OK(tutti_run_step(run, 1 + i, &played, &err), err);
        CHECK_INT(record.event_count, played.step_count);
    }
    tutti_run_close(run);
    tutti_record_done(&record);
    close_world();
}

TEST(a_backend_has_one_run_open_at_a_time)
{
    struct tutti_run *second = NULL;
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;

    open_world(2, "ring");
    world.play.iteration_count = 1;
    run = open_run();
    CHECK_INT(tutti_run_open(world.backend, &world.play, &second, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "the backend 'threads' has a run open (one at a time)");
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_run_step(run, 0, &played, &err), -TUTTI_EINVAL);
    CHECK_OK(tutti_run_step(run, 1, &played, &err), err);
    tutti_run_close(run);
    tutti_run_close(NULL);
    CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
    close_world();
}

/* Rank 1 waits for a message that rank 0 never sends. */
static struct tutti_schedule *deadlock(void)
{
    struct tutti_schedule_desc desc = {
        .name = "story",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = 2,
        .lane_count = 1,
        .slot_count = 1,
        .in_bytes = 4,
        .out_bytes = 4,
    };
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    small_add(builder, 1, 0, small_recv(0, SMALL_OUT, 0, 4));
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

TEST(after_an_error_a_run_can_only_be_closed)
{
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;

    open_world(2, "ring");
    tutti_schedule_free(world.schedule);
    world.schedule = deadlock();
    world.play.schedule = world.schedule;
    run = open_run();
    CHECK_INT(tutti_run_step(run, 1, &played, &err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank 1, lane 0, step 0") != NULL);
    CHECK_INT(tutti_run_step(run, 1, &played, &err), -TUTTI_ECHECK);
    CHECK_TEXT(err.text, "the run has ended with an error in an earlier step");
    tutti_run_close(run);
    close_world();
}

/* ---- the hook ---- */

struct hook {
    uint64_t call_count;
    uint64_t played_count; /* said in the last call */
    uint64_t enough_at;    /* 0: never */
    uint64_t fails_at;
    uint32_t rank_count;
};

/* What all ranks have received is what they bring to the next iteration. */
static int carry_over(void *context, uint64_t played_count, struct tutti_err *err)
{
    struct hook *hook = context;

    hook->call_count++;
    hook->played_count = played_count;
    for (uint32_t rank = 0; rank < hook->rank_count; rank++)
        memcpy(world.in[rank], world.out[rank], sizeof(world.in[rank]));
    if (played_count == hook->fails_at)
        return tutti_fail(err, TUTTI_ELACK, "the loss is no number");
    return played_count == hook->enough_at;
}

static void open_hooked(uint32_t rank_count, struct hook *hook)
{
    open_world(rank_count, "ring");
    *hook = (struct hook){.rank_count = rank_count};
    world.play.between = carry_over;
    world.play.between_context = hook;
    fill(0);
}

TEST(a_hook_sees_all_of_an_iteration_before_the_next_begins)
{
    struct tutti_played played;
    struct tutti_err err;
    struct hook hook;

    open_hooked(RANKS, &hook);
    world.play.warmup_count = 2;
    world.play.iteration_count = 4;
    CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
    CHECK_INT(hook.call_count, 5);
    CHECK_INT(hook.played_count, 5);
    for (uint32_t i = 0; i < COUNT; i++)
        CHECK_INT(world.out[RANKS - 1][i], 4 * 4 * 4 * 4 * 4 * 4 * (int32_t)i);
    close_world();
}

/* Takes 100 ms. */
static int linger(void *context, uint64_t played_count, struct tutti_err *err)
{
    (void)context;
    (void)played_count;
    (void)err;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return 0;
}

TEST(a_hook_is_outside_the_timing)
{
    struct tutti_played played;
    struct tutti_err err;

    open_world(2, "ring");
    world.play.between = linger;
    world.play.iteration_count = 3;
    CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
    CHECK(played.best_ps > 0 && played.total_ps < 100 * TUTTI_PS_PER_MS);
    close_world();
}

TEST(a_hook_counts_over_steps)
{
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;
    struct hook hook;

    open_hooked(2, &hook);
    run = open_run();
    CHECK_OK(tutti_run_step(run, 3, &played, &err), err);
    CHECK_INT(hook.call_count, 2);
    CHECK_INT(hook.played_count, 2);
    CHECK_OK(tutti_run_step(run, 2, &played, &err), err);
    CHECK_INT(hook.call_count, 3);
    CHECK_INT(hook.played_count, 4);
    tutti_run_close(run);
    close_world();
}

TEST(a_hook_may_have_enough)
{
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_run *run;
    struct tutti_err err;
    struct hook hook;

    open_hooked(RANKS, &hook);
    tutti_record_init(&record);
    world.play.record = &record;
    hook.enough_at = 3;
    run = open_run();
    CHECK_INT(tutti_run_step(run, 100, &played, &err), 1);
    CHECK_INT(hook.call_count, 3);
    CHECK(played.best_ps > 0 && played.total_ps >= 3 * played.best_ps);
    CHECK_INT(record.event_count, played.step_count);
    CHECK_INT(tutti_run_step(run, 2, &played, &err), 0); /* the run goes on if one likes */
    CHECK_INT(hook.played_count, 4);
    tutti_run_close(run);
    tutti_record_done(&record);
    close_world();
}

TEST(a_hook_may_have_enough_before_anything_is_timed)
{
    struct tutti_played played;
    struct tutti_err err;
    struct hook hook;

    open_hooked(2, &hook);
    hook.enough_at = 1;
    world.play.warmup_count = 5;
    world.play.iteration_count = 5;
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), 1);
    CHECK_INT(played.total_ps, 0);
    CHECK_INT(played.best_ps, 0);
    close_world();
}

TEST(what_a_hook_finds_wrong_ends_the_play)
{
    struct tutti_played played;
    struct tutti_err err;
    struct hook hook;

    open_hooked(RANKS, &hook);
    hook.fails_at = 2;
    world.play.iteration_count = 100;
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ELACK);
    CHECK_INT(hook.call_count, 2);
    CHECK(strstr(err.text, "rank 0, the hook after iteration 2: the loss is no number") != NULL);
    close_world();
}

/* ---- memory ---- */

static int play_two_steps(struct tutti_err *err)
{
    struct tutti_run *run = NULL;
    struct tutti_played played;
    int status = tutti_run_open(world.backend, &world.play, &run, err);

    if (status == 0)
        status = tutti_run_step(run, 1, &played, err);
    if (status == 0)
        status = tutti_run_step(run, 8, &played, err); /* more times than there was room for */
    tutti_run_close(run);
    return status;
}

TEST(every_allocation_may_fail)
{
    struct tutti_err err;

    open_world(2, "two-shot");
    world.play.barrier = true;
    ALLOC_FAIL_EACH(play_two_steps(&err), err);
    close_world();
}
