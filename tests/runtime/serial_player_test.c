/* A second player under the run loop and the conformance suite: nothing of the loop is made for the
 * host's alone, and buffers need not be memory of this process. */
#include "tests/runtime/conformance_calls.h"
#include "tests/runtime/conformance_nccl.h"
#include "tests/runtime/serial_player.h"

static int open_serial(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    (void)rank_count;
    return serial_open(ret, err);
}

static const struct conformance_subject subject = {.name = "serial", .open = open_serial};

/* ---- a counter in state, which two ranks add to what they receive ---- */

enum { RANKS = 2 };

struct world {
    struct tutti_backend *backend;
    struct tutti_schedule *schedule;
    int32_t in[RANKS];
    int32_t out[RANKS];
    int32_t state[RANKS];
    const void *ins[RANKS];
    void *outs[RANKS];
    void *states[RANKS];
    struct tutti_play play;
};

static struct world world;

static void add(struct tutti_builder *builder, uint32_t rank, struct tutti_step step)
{
    struct tutti_err err;

    CHECK_OK(tutti_builder_add(builder, rank, 0, &step, &err), err);
}

/* state += what the other has; out = state. */
static void open_world(void)
{
    struct tutti_schedule_desc desc = {
        .name = "counters",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32, .op = TUTTI_SUM},
        .rank_count = RANKS,
        .lane_count = 1,
        .in_bytes = 4,
        .out_bytes = 4,
        .scratch_bytes = 4,
        .state_bytes = 4};
    struct tutti_builder *builder = NULL;
    struct tutti_err err;

    world = (struct world){.in = {1, 10}};
    CHECK_OK(serial_open(&world.backend, &err), err);
    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    for (uint32_t r = 0; r < RANKS; r++) {
        add(builder, r,
            (struct tutti_step){
                .kind = TUTTI_SEND, .peer = 1 - r, .src_buf = TUTTI_BUF_IN, .bytes = 4});
        add(builder, r,
            (struct tutti_step){
                .kind = TUTTI_RECV, .peer = 1 - r, .dst_buf = TUTTI_BUF_SCRATCH, .bytes = 4});
        add(builder, r,
            (struct tutti_step){.kind = TUTTI_REDUCE,
                                .dst_buf = TUTTI_BUF_STATE,
                                .acc_buf = TUTTI_BUF_STATE,
                                .src_buf = TUTTI_BUF_SCRATCH,
                                .bytes = 4});
        add(builder, r,
            (struct tutti_step){.kind = TUTTI_COPY,
                                .dst_buf = TUTTI_BUF_OUT,
                                .src_buf = TUTTI_BUF_STATE,
                                .bytes = 4});
        world.ins[r] = &world.in[r];
        world.outs[r] = &world.out[r];
        world.states[r] = &world.state[r];
    }
    CHECK_OK(tutti_builder_finish(builder, &world.schedule, &err), err);
    world.play = (struct tutti_play){.size = sizeof(struct tutti_play),
                                     .schedule = world.schedule,
                                     .in = world.ins,
                                     .out = world.outs,
                                     .iteration_count = 1};
}

static void close_world(void)
{
    tutti_schedule_free(world.schedule);
    tutti_backend_close(world.backend);
}

TEST(what_the_caller_lends_is_copied_before_and_after_each_step)
{
    struct tutti_run *run = NULL;
    struct tutti_played played;
    struct tutti_err err;

    open_world();
    world.play.state = world.states;
    CHECK_OK(tutti_run_open(world.backend, &world.play, &run, &err), err);
    for (int32_t i = 1; i <= 4; i++) {
        CHECK_OK(tutti_run_step(run, 2, &played, &err), err);
        CHECK_INT(world.out[0], 20 * i);
        CHECK_INT(world.out[1], 2 * i);
        CHECK_INT(world.state[1], 2 * i);
    }
    world.in[0] = 5;
    world.state[1] = 100;
    CHECK_OK(tutti_run_step(run, 1, &played, &err), err);
    CHECK_INT(world.out[1], 105);
    tutti_run_close(run);
    close_world();
}

TEST(what_nobody_lends_stays_on_the_device)
{
    struct tutti_run *run = NULL;
    struct tutti_played played;
    struct tutti_err err;
    uint32_t copy_count;

    open_world();
    world.play.in = NULL;
    world.play.out = NULL;
    CHECK_OK(tutti_run_open(world.backend, &world.play, &run, &err), err);
    copy_count = serial_device(world.backend)->copy_count;
    for (int32_t i = 0; i < 4; i++)
        CHECK_OK(tutti_run_step(run, 2, &played, &err), err);
    CHECK_INT(serial_device(world.backend)->copy_count, copy_count);
    tutti_run_close(run);
    close_world();
}

/* ---- the hook ---- */

static int swap(void *context, uint64_t played_count, struct tutti_err *err)
{
    uint64_t *last = context;

    world.in[0] = world.out[0];
    world.in[1] = world.out[1];
    if (played_count == last[1])
        return tutti_fail(err, TUTTI_ELACK, "the loss is no number");
    return played_count == last[0];
}

TEST(a_hook_sees_what_lies_on_the_device_and_changes_it)
{
    uint64_t last[2] = {3, 0};
    struct tutti_played played;
    struct tutti_err err;

    open_world();
    world.play.between = swap;
    world.play.between_context = last;
    world.play.iteration_count = 10;
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), 1);
    /* in 1 10, state 10 1, in 10 1, state 11 11, in 11 11, state 22 22 */
    CHECK_INT(world.out[0], 22);
    CHECK_INT(world.out[1], 22);
    CHECK(played.best_ps > 0);
    close_world();
}

TEST(a_hook_that_fails_ends_the_play_of_any_player)
{
    uint64_t last[2] = {0, 2};
    struct tutti_played played;
    struct tutti_err err;

    open_world();
    world.play.between = swap;
    world.play.between_context = last;
    world.play.iteration_count = 10;
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "rank 0, the hook after iteration 2: the loss is no number");
    close_world();
}

TEST(a_device_that_fails_ends_the_play_at_any_copy)
{
    int status = -1;

    for (uint32_t copies = 0; status != 0; copies++) {
        struct tutti_played played;
        struct tutti_err err = {""};

        open_world();
        world.play.state = world.states;
        serial_device(world.backend)->copies_left = copies;
        status = tutti_backend_play(world.backend, &world.play, &played, &err);
        if (status != 0) {
            CHECK_INT(status, -TUTTI_EIO);
            CHECK_TEXT(err.text, "the device is gone");
        }
        close_world();
    }
}
