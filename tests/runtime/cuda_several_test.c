/* The backend `cuda` on several GPUs, played by the stand-in for the driver's library: with peer
 * access and without, what is out of reach, who is late, every call failing in its turn. */
#include <time.h>

#include "runtime/coll.h"
#include "runtime/cuda.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/random.h"
#include "runtime/record.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RANKS = 6, COUNT = 700 };

/* As TUTTI_STANDIN_PEERS says it. */
#define NONE     "0"
#define ALL      "1"
#define IN_PAIRS "2"
#define CLAIMED  "3"

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

static void set_machine(const char *devices, const char *peers)
{
    (void)setenv("TUTTI_STANDIN_DEVICES", devices, 1);
    (void)setenv("TUTTI_STANDIN_PEERS", peers, 1);
}

static void end_machine(void)
{
    (void)unsetenv("TUTTI_STANDIN_DEVICES");
    (void)unsetenv("TUTTI_STANDIN_PEERS");
}

static bool has_standin(void)
{
    return getenv("TUTTI_CUDA_LIBRARY") != NULL;
}

static int open_world(const char *algorithm, const struct tutti_cuda_opts *opts,
                      struct tutti_err *err)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                             .dtype = TUTTI_INT32,
                                             .op = TUTTI_SUM,
                                             .count = COUNT,
                                             .channel_count = 2};
    const struct tutti_shape shape = tutti_shape_flat(RANKS);
    int status;

    world = (struct world){0};
    status = tutti_coll_generate(algorithm, &params, &shape, &world.schedule, err);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        world.ins[rank] = world.in[rank];
        world.outs[rank] = world.out[rank];
        for (int32_t i = 0; i < COUNT; i++)
            world.in[rank][i] = 7 * (int32_t)(rank + 1) + i;
    }
    world.play = (struct tutti_play){.size = sizeof(struct tutti_play),
                                     .schedule = world.schedule,
                                     .in = world.ins,
                                     .out = world.outs,
                                     .iteration_count = 2};
    return status < 0 ? status : tutti_cuda_open(opts, &world.backend, err);
}

static void close_world(void)
{
    tutti_schedule_free(world.schedule);
    tutti_backend_close(world.backend);
    world = (struct world){0};
}

static void check_sums(void)
{
    uint64_t wrong = 0;

    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (int32_t i = 0; i < COUNT; i++)
            wrong += world.out[rank][i] != 7 * RANKS * (RANKS + 1) / 2 + RANKS * i;
    CHECK_INT(wrong, 0);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- what lies where ---- */

static int spread_plan(struct tutti_random *random, const struct tutti_schedule *schedule,
                       struct tutti_cuda_plan *ret, struct tutti_err *err)
{
    uint32_t most = schedule->rank_count < 5 ? schedule->rank_count : 5;
    struct tutti_cuda_spread spread = {.gpu_count = 1 + (uint32_t)tutti_random_below(random, most)};

    for (uint32_t a = 0; a < spread.gpu_count; a++)
        for (uint32_t b = 0; b < a; b++)
            spread.direct[a][b] = spread.direct[b][a] = tutti_random_below(random, 2) == 0;
    return tutti_cuda_plan_spread(
        ret, schedule, tutti_random_below(random, 2) == 0 ? TUTTI_CUDA_JOINED : TUTTI_CUDA_LINED,
        &spread, err);
}

static uint32_t gpu_of_lane(const struct tutti_cuda_plan *plan, uint32_t lane)
{
    return tutti_cuda_gpu_of(&plan->spread, lane / plan->schedule->lane_count,
                             plan->schedule->rank_count);
}

/* Of the lane on GPU `gpu`: a near counter is stored and waited for by one GPU, another lies where
 * the one that waits reaches it, and the one that stores it, too. */
static void check_flag(const struct tutti_cuda_plan *plan, struct tutti_cuda_flag flag,
                       uint32_t gpu, bool waits)
{
    uint32_t owner = gpu_of_lane(plan, tutti_cuda_owner(plan, flag.counter));
    uint32_t where = tutti_cuda_resolve_flag(plan, flag).counter >> TUTTI_CUDA_COUNTER_BITS;

    CHECK_INT(tutti_cuda_resolve_flag(plan, flag).counter % TUTTI_CUDA_COUNTERS_MAX, flag.counter);
    if (!waits) {
        CHECK_INT(owner, gpu);
        if (where > 0 && where <= plan->spread.gpu_count)
            CHECK(plan->spread.direct[gpu][where - 1]);
    } else if (owner == gpu) {
        CHECK_INT(where, 0);
    } else {
        CHECK_INT(where, plan->spread.direct[owner][gpu] ? 1 + gpu : 1 + plan->spread.gpu_count);
    }
}

/* Ranges of slots that meet are those of one slot, of messages that are kept apart by it. */
static void check_slots(const struct tutti_cuda_plan *plan, uint32_t *staged_count)
{
    for (uint32_t m = 0; m < plan->message_count; m++) {
        const struct tutti_cuda_message *a = &plan->messages[m];
        uint32_t lane = a->from * plan->schedule->lane_count + a->lane;
        uint64_t bytes = tutti_cuda_step(plan, lane, a->send - plan->step_first[lane])->bytes;

        if (!tutti_cuda_is_staged(a))
            continue;
        ++*staged_count;
        CHECK_INT(a->home, plan->spread.gpu_count);
        CHECK(a->home_offset + bytes <= plan->home_bytes[a->home]);
        for (uint32_t n = 0; n < m; n++) {
            const struct tutti_cuda_message *b = &plan->messages[n];

            if (!tutti_cuda_is_staged(b) || b->home_offset >= a->home_offset + bytes ||
                b->home_offset + bytes <= a->home_offset || bytes == 0)
                continue;
            CHECK_INT(b->connection, a->connection);
            CHECK_INT((a->number - b->number) % plan->schedule->slot_count, 0);
        }
    }
}

static void check_plan(const struct tutti_cuda_plan *plan, uint32_t *staged_count)
{
    uint32_t lanes = 0;
    uint32_t ops = 0;

    for (uint32_t g = 0; g < plan->spread.gpu_count; g++) {
        const struct tutti_cuda_part part = tutti_cuda_part_of(plan, g);

        CHECK_INT(part.lane_first, lanes);
        CHECK_INT(part.op_first, ops);
        for (uint32_t i = part.op_first; i < part.op_first + part.op_count; i++) {
            const struct tutti_cuda_planned_op *op = &plan->ops[i];

            for (uint32_t w = 0; w < op->wait_count; w++)
                check_flag(plan, plan->waits[op->wait_first + w], g, true);
            for (uint32_t s = 0; s < op->signal_count; s++)
                check_flag(plan, plan->signals[op->signal_first + s], g, false);
        }
        lanes += part.lane_count;
        ops += part.op_count;
    }
    CHECK_INT(lanes, plan->lane_total);
    CHECK_INT(ops, plan->op_count);
    check_slots(plan, staged_count);
}

TEST(counters_lie_with_who_waits_and_slots_share_no_bytes)
{
    static const char *const algorithms[] = {"ring", "two-shot", "one-shot", "halving-doubling",
                                             "double-binary-tree"};
    struct tutti_random random;
    uint32_t staged_count = 0;

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < 40; i++) {
        struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                           .count = 1 + tutti_random_below(&random, 900),
                                           .channel_count = 1 + (uint32_t)i % 3,
                                           .chunk_bytes = 256 * tutti_random_below(&random, 3),
                                           .slot_count = 1 + (uint32_t)i % 2};
        const struct tutti_shape shape =
            tutti_shape_flat(2 + (uint32_t)tutti_random_below(&random, 7));
        struct tutti_schedule *schedule = NULL;
        struct tutti_cuda_plan plan = {0};
        struct tutti_err err = {{0}};

        if (tutti_coll_generate(algorithms[i % 5], &params, &shape, &schedule, &err) != 0)
            continue; /* not with so many ranks */
        CHECK_OK(spread_plan(&random, schedule, &plan, &err), err);
        check_plan(&plan, &staged_count);
        tutti_cuda_plan_close(&plan);
        tutti_schedule_free(schedule);
    }
    CHECK(staged_count > 100);
}

/* ---- plays ---- */

TEST(all_gpus_play_and_the_times_of_a_record_are_of_one_clock)
{
    static const char *const machines[][2] = {{"2", ALL}, {"2", NONE}, {"4", IN_PAIRS}};

    if (!has_standin())
        SKIP("a machine has the GPUs that it has");
    for (size_t m = 0; m < 3; m++) {
        for (int persistent = 0; persistent < 2; persistent++) {
            const struct tutti_cuda_opts opts = {.size = sizeof(opts), .persistent = persistent};
            struct tutti_played played = {0};
            struct tutti_record record;
            struct tutti_err err = {{0}};

            set_machine(machines[m][0], machines[m][1]);
            tutti_record_init(&record);
            CHECK_OK(open_world(persistent ? "ring" : "two-shot", &opts, &err), err);
            REQUIRE(world.backend != NULL);
            world.play.record = &record;
            CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
            check_sums();
            CHECK_INT(record.event_count, played.step_count);
            for (size_t i = 0; i < record.event_count; i++)
                CHECK(record.events[i].start_ps >= 0 &&
                      record.events[i].end_ps - record.events[i].start_ps < 60 * TUTTI_PS_PER_S);
            tutti_record_done(&record);
            close_world();
        }
    }
    end_machine();
}

/* Peer access that the driver has promised, and that is not there: the stand-in must see it. */
TEST(memory_out_of_reach_is_not_touched_unseen)
{
    const struct tutti_cuda_opts opts = {.size = sizeof(opts)};
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};

    if (!has_standin())
        SKIP("a driver does not lie when it is asked to");
    set_machine("2", CLAIMED);
    CHECK_OK(open_world("ring", &opts, &err), err);
    REQUIRE(world.backend != NULL);
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_EIO);
    if (strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS") == NULL)
        TEST_FAIL("%s", err.text);
    close_world();
    end_machine();
}

/* ---- who is where ---- */

static void check_places(const char *devices, const char *peers, struct tutti_cuda_opts opts,
                         const char *words)
{
    char text[TUTTI_CUDA_PLACES_BYTES] = "";
    struct tutti_err err = {{0}};

    set_machine(devices, peers);
    CHECK_OK(open_world("ring", &opts, &err), err);
    REQUIRE(world.backend != NULL);
    CHECK_OK(tutti_cuda_places(world.backend, RANKS, text, &err), err);
    CHECK_TEXT(text, words);
    close_world();
    end_machine();
}

TEST(it_says_which_rank_is_where)
{
    struct tutti_cuda_opts opts = {.size = sizeof(opts)};

    if (!has_standin())
        SKIP("a machine has the GPUs that it has");
    check_places("1", ALL, opts, "");
    check_places("2", ALL, opts, "ranks 0-2 on GPU 0, 3-5 on GPU 1, peer access");
    check_places("8", NONE, opts,
                 "rank 0 on GPU 0, 1 on GPU 1, 2 on GPU 2, 3 on GPU 3, 4 on GPU 4, 5 on GPU 5, no "
                 "peer access: through the host");
    check_places("4", IN_PAIRS, opts,
                 "ranks 0-1 on GPU 0, 2 on GPU 1, 3-4 on GPU 2, 5 on GPU 3, peer access between "
                 "some, the others through the host");
    opts.gpu_count = 2;
    opts.device = 1;
    opts.staged = true;
    check_places("4", ALL, opts,
                 "ranks 0-2 on GPU 1, 3-5 on GPU 2, no peer access: through the host");
    opts.gpu_count = 1;
    check_places("4", ALL, opts, "");
}

TEST(what_several_gpus_do_not_do_is_refused)
{
    struct tutti_cuda_opts opts = {.size = sizeof(opts), .graph = TUTTI_CUDA_GRAPH_ALWAYS};
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};

    if (!has_standin())
        SKIP("a machine has the GPUs that it has");
    set_machine("2", ALL);
    CHECK_OK(open_world("ring", &opts, &err), err);
    REQUIRE(world.backend != NULL);
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "a graph is played on one GPU, and 6 ranks are spread over 2");
    close_world();
    opts.gpu_count = 3;
    CHECK_INT(open_world("ring", &opts, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "there are no 3 GPUs from number 0 on (2)");
    close_world();
    end_machine();
}

/* ---- who is late ---- */

TEST(a_block_that_never_comes_is_named_within_the_deadline)
{
    static const char *const peers[] = {ALL, NONE};

    if (!has_standin())
        SKIP("a GPU starts all of its blocks");
    for (int p = 0; p < 2; p++) {
        const struct tutti_cuda_opts opts = {.size = sizeof(opts)};
        struct tutti_played played = {0};
        struct tutti_err err = {{0}};

        set_machine("2", peers[p]);
        CHECK_OK(open_world("ring", &opts, &err), err);
        REQUIRE(world.backend != NULL);
        world.play.deadline_ps = TUTTI_PS_PER_S / 5;
        (void)setenv("TUTTI_STANDIN_ABSENT", "3", 1); /* of ranks 3, 4, 5 with two lanes each */
        (void)setenv("TUTTI_STANDIN_ABSENT_DEVICE", "1", 1);
        CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ETIME);
        (void)unsetenv("TUTTI_STANDIN_ABSENT");
        (void)unsetenv("TUTTI_STANDIN_ABSENT_DEVICE");
        if (strstr(err.text, "rank 4, lane 1") == NULL || strstr(err.text, "not come") == NULL)
            TEST_FAIL("names not who is missing: %s", err.text);
        world.play.deadline_ps = 0;
        CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
        check_sums(); /* plays on */
        close_world();
    }
    end_machine();
}

/* Rank 0 computes for longer than the deadline, and rank 5, on the last GPU, waits for it. */
static int play_late(struct tutti_err *err)
{
    const struct tutti_schedule_desc desc = {
        .name = "late",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_INT32},
        .rank_count = RANKS,
        .lane_count = 1,
        .in_bytes = 16,
        .out_bytes = 16};
    const struct tutti_step steps[] = {
        {.kind = TUTTI_COMPUTE, .duration_ps = TUTTI_PS_PER_S / 2},
        {.kind = TUTTI_SEND, .peer = 5, .bytes = 16, .src_buf = TUTTI_BUF_IN},
        {.kind = TUTTI_RECV, .peer = 0, .bytes = 16, .dst_buf = TUTTI_BUF_OUT}};
    struct tutti_schedule *schedule = NULL;
    struct tutti_builder *builder = NULL;
    struct tutti_played played;
    int status = tutti_builder_new(&desc, &builder, err);

    for (uint32_t s = 0; s < 3 && status == 0; s++)
        status = tutti_builder_add(builder, s < 2 ? 0 : 5, 0, &steps[s], err);
    if (status == 0)
        status = tutti_builder_finish(builder, &schedule, err);
    if (status == 0) {
        const struct tutti_play play = {.size = sizeof(struct tutti_play),
                                        .schedule = schedule,
                                        .iteration_count = 1,
                                        .deadline_ps = TUTTI_PS_PER_S / 10};

        status = tutti_backend_play(world.backend, &play, &played, err);
    }
    tutti_schedule_free(schedule);
    return status;
}

TEST(a_late_lane_of_another_gpu_is_named_with_the_step_that_waited_for_it)
{
    static const char *const peers[] = {ALL, NONE};

    if (!has_standin())
        SKIP("a machine has the GPUs that it has");
    for (int p = 0; p < 2; p++) {
        const struct tutti_cuda_opts opts = {.size = sizeof(opts)};
        struct tutti_err err = {{0}};

        set_machine("3", peers[p]);
        CHECK_OK(open_world("ring", &opts, &err), err);
        REQUIRE(world.backend != NULL);
        CHECK_INT(play_late(&err), -TUTTI_ETIME);
        if (strstr(err.text, "rank 5, lane 0, step 0 (RECV") == NULL ||
            strstr(err.text, "from 0") == NULL)
            TEST_FAIL("names no rank, lane and step: %s", err.text);
        close_world();
    }
    end_machine();
}

/* ---- every call may fail ---- */

static int whole_life(bool persistent, struct tutti_err *err)
{
    const struct tutti_cuda_opts opts = {.size = sizeof(opts), .persistent = persistent};
    struct tutti_played played = {0};
    struct tutti_record record;
    int status = open_world("ring", &opts, err);

    tutti_record_init(&record);
    world.play.record = &record;
    if (status == 0)
        status = tutti_backend_play(world.backend, &world.play, &played, err);
    if (status == 0)
        check_sums();
    tutti_record_done(&record);
    close_world();
    return status;
}

/* The N-th call of a name fails, for N = 1, 2, ... The deadline is 30 s: whoever then still waited
 * for a GPU that does not play would be seen. */
static uint32_t fail_each(const char *call, bool persistent)
{
    uint32_t failed = 0;

    for (uint32_t n = 1; n < 200; n++) {
        double since_s = now_s();
        struct tutti_err err = {{0}};
        char wish[96];
        int status;

        (void)snprintf(wish, sizeof(wish), "%s:%u", call, n);
        (void)setenv("TUTTI_STANDIN_FAIL", wish, 1);
        status = whole_life(persistent, &err);
        (void)unsetenv("TUTTI_STANDIN_FAIL");
        if (now_s() - since_s > 20)
            TEST_FAIL("%s: took %.1f s", wish, now_s() - since_s);
        if (status == 0)
            break;
        failed++;
        CHECK_INT(status, -TUTTI_EIO);
        if (strstr(err.text, "CUDA_ERROR_UNKNOWN (999") == NULL)
            TEST_FAIL("%s: %s", wish, err.text);
    }
    return failed;
}

TEST(each_call_of_the_driver_may_fail_on_any_gpu)
{
    static const char *const calls[] = {"cuDeviceGetCount",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent",
                                        "cuMemAlloc_v2",
                                        "cuMemHostAlloc",
                                        "cuMemHostGetDevicePointer_v2",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemcpyDtoHAsync_v2",
                                        "cuMemsetD8Async",
                                        "cuStreamQuery",
                                        "cuEventRecord",
                                        "cuEventElapsedTime",
                                        "cuLaunchCooperativeKernel"};

    if (!has_standin())
        SKIP("a driver's calls do not fail when they are asked to");
    set_machine("2", ALL);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (fail_each(calls[i], false) == 0)
            TEST_FAIL("%s was never called", calls[i]);
    CHECK_INT(fail_each("cuDeviceCanAccessPeer", false), 2);
    CHECK_INT(fail_each("cuCtxEnablePeerAccess", false), 2);
    CHECK_INT(fail_each("cuLaunchCooperativeKernel", true), 2);
    set_machine("2", NONE);
    CHECK(fail_each("cuMemHostAlloc", false) > 2);
    CHECK_INT(fail_each("cuLaunchCooperativeKernel", false), 4);
    end_machine();
}
