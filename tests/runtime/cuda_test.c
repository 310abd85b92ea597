/* The backend `cuda` on the stand-in for the driver's library: runs held open, hooks, deadlines,
 * every call of the driver failing in its turn. On a GPU: what does not need the stand-in. */
#include "runtime/coll.h"
#include "runtime/cuda.h"
#include "runtime/cuda_work.h"
#include "runtime/record.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RANKS = 4, COUNT = 300 };

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
/* Of worlds that are opened. */
static enum tutti_cuda_graph use_of_graphs = TUTTI_CUDA_GRAPH_NEVER;

static void fill(int32_t value)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < COUNT; i++)
            world.in[rank][i] = value * (int32_t)(rank + 1) + (int32_t)i;
}

/* Of the inputs that fill(value) left. */
static void check_sums(int32_t value)
{
    uint64_t wrong = 0;

    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < COUNT; i++)
            wrong += world.out[rank][i] != value * RANKS * (RANKS + 1) / 2 + RANKS * (int32_t)i;
    CHECK_INT(wrong, 0);
}

static int open_world(bool persistent, struct tutti_err *err)
{
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .op = TUTTI_SUM, .count = COUNT};
    const struct tutti_cuda_opts opts = {
        .size = sizeof(opts), .persistent = persistent, .graph = use_of_graphs};
    const struct tutti_shape shape = tutti_shape_flat(RANKS);
    int status;

    world = (struct world){0};
    status = tutti_coll_generate("ring", &params, &shape, &world.schedule, err);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        world.ins[rank] = world.in[rank];
        world.outs[rank] = world.out[rank];
    }
    world.play = (struct tutti_play){.size = sizeof(struct tutti_play),
                                     .schedule = world.schedule,
                                     .in = world.ins,
                                     .out = world.outs,
                                     .iteration_count = 2,
                                     .deadline_ps = TUTTI_PS_PER_S / 5};
    return status < 0 ? status : tutti_cuda_open(&opts, &world.backend, err);
}

static void close_world(void)
{
    tutti_schedule_free(world.schedule);
    tutti_backend_close(world.backend);
    world = (struct world){0};
}

static bool has_standin(void)
{
    return getenv("TUTTI_CUDA_LIBRARY") != NULL;
}

/* ---- runs ---- */

TEST(each_step_reads_what_was_written_before_it)
{
    for (int persistent = 0; persistent < 2; persistent++) {
        struct tutti_err err = {{0}};
        struct tutti_run *run = NULL;

        CHECK_OK(open_world(persistent, &err), err);
        REQUIRE(world.backend != NULL);
        world.play.warmup_count = 1;
        CHECK_OK(tutti_run_open(world.backend, &world.play, &run, &err), err);
        for (int32_t step = 0; step < 10 && run != NULL; step++) {
            struct tutti_played played = {0};

            fill(step);
            CHECK_OK(tutti_run_step(run, 1 + (uint32_t)step % 3, &played, &err), err);
            check_sums(step);
            CHECK(played.best_ps >= 0 && played.best_ps <= played.total_ps);
        }
        tutti_run_close(run);
        close_world();
    }
}

struct hook {
    uint64_t calls;
    uint64_t enough_after;
};

static int between(void *context, uint64_t played_count, struct tutti_err *err)
{
    struct hook *hook = context;

    (void)err;
    CHECK_INT(played_count, ++hook->calls);
    check_sums((int32_t)hook->calls);
    fill((int32_t)hook->calls + 1);
    return hook->calls == hook->enough_after;
}

TEST(a_hook_sees_each_iteration_and_may_change_what_goes_in)
{
    for (uint64_t enough = 0; enough <= 2; enough += 2) {
        struct hook hook = {.enough_after = enough};
        struct tutti_played played = {0};
        struct tutti_err err = {{0}};

        CHECK_OK(open_world(false, &err), err);
        REQUIRE(world.backend != NULL);
        world.play.between = between;
        world.play.between_context = &hook;
        world.play.iteration_count = 5;
        fill(1);
        CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), enough > 0);
        CHECK_INT(hook.calls, enough > 0 ? enough : 4);
        if (enough == 0)
            check_sums(5);
        close_world();
    }
}

/* ---- what goes wrong ---- */

TEST(a_lane_that_never_comes_is_named_within_the_deadline)
{
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};

    if (!has_standin())
        SKIP("a GPU starts all of its blocks");
    CHECK_OK(open_world(false, &err), err);
    REQUIRE(world.backend != NULL);
    (void)setenv("TUTTI_STANDIN_ABSENT", "2", 1);
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ETIME);
    (void)unsetenv("TUTTI_STANDIN_ABSENT");
    if (strstr(err.text, "rank 3, lane 0, step") == NULL || strstr(err.text, "from 2") == NULL)
        TEST_FAIL("names no rank, lane and step: %s", err.text);
    fill(3);
    CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err); /* plays on */
    check_sums(3);
    close_world();
}

TEST(more_lanes_or_bytes_than_the_gpu_has_are_refused)
{
    static const char *const words[][3] = {
        {"TUTTI_STANDIN_BLOCKS", "3", "has 4 lanes in all, and this GPU keeps 3 blocks"},
        {"TUTTI_STANDIN_MEMORY", "4096", "GiB on the GPU, and it has 0.0 GiB left"}};

    if (!has_standin())
        SKIP("a GPU is as large as it is");
    use_of_graphs = TUTTI_CUDA_GRAPH_NEVER;
    for (int i = 0; i < 2; i++) {
        struct tutti_played played = {0};
        struct tutti_err err = {{0}};

        CHECK_OK(open_world(false, &err), err);
        REQUIRE(world.backend != NULL);
        (void)setenv(words[i][0], words[i][1], 1);
        CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ELACK);
        (void)unsetenv(words[i][0]);
        if (strstr(err.text, words[i][2]) == NULL)
            TEST_FAIL("'%s' is not in: %s", words[i][2], err.text);
        close_world();
    }
    use_of_graphs = TUTTI_CUDA_GRAPH_NEVER;
}

/* The same lanes as a graph, level by level; also if it is asked for, and with a record. */
TEST(more_lanes_than_the_gpu_has_are_played_level_by_level)
{
    for (int asked = 0; asked < (has_standin() ? 2 : 1); asked++) {
        struct tutti_played played = {0};
        struct tutti_record record;
        struct tutti_err err = {{0}};

        use_of_graphs =
            has_standin() && asked == 0 ? TUTTI_CUDA_GRAPH_AUTO : TUTTI_CUDA_GRAPH_ALWAYS;
        tutti_record_init(&record);
        CHECK_OK(open_world(false, &err), err);
        REQUIRE(world.backend != NULL);
        if (use_of_graphs == TUTTI_CUDA_GRAPH_AUTO)
            (void)setenv("TUTTI_STANDIN_BLOCKS", "3", 1);
        world.play.record = &record;
        fill(5);
        CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
        check_sums(5);
        CHECK_INT(record.event_count, played.step_count);
        for (size_t i = 0; i < record.event_count; i++)
            CHECK(record.events[i].start_ps >= 0 &&
                  record.events[i].end_ps - record.events[i].start_ps < TUTTI_PS_PER_S);
        (void)unsetenv("TUTTI_STANDIN_BLOCKS");
        tutti_record_done(&record);
        close_world();
    }
    use_of_graphs = TUTTI_CUDA_GRAPH_NEVER;
}

/* Times of the GPU lie within what the host saw of the iteration, and steps of a lane in order. */
TEST(a_record_is_on_the_clock_of_the_host)
{
    for (int graphs = 0; graphs < 2; graphs++) {
        struct tutti_played played = {0};
        struct tutti_record record;
        struct tutti_err err = {{0}};

        use_of_graphs = graphs == 0 ? TUTTI_CUDA_GRAPH_NEVER : TUTTI_CUDA_GRAPH_ALWAYS;
        tutti_record_init(&record);
        CHECK_OK(open_world(false, &err), err);
        REQUIRE(world.backend != NULL);
        world.play.record = &record;
        world.play.barrier = true;
        world.play.iteration_count = 1;
        fill(5);
        CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
        CHECK(played.record_error_ps >= 0 && 2 * played.record_error_ps <= played.best_ps + 1);
        for (size_t i = 0; i < record.event_count; i++) {
            const struct tutti_event *event = &record.events[i];

            if (event->start_ps < 0 || event->end_ps < event->start_ps ||
                event->end_ps > played.best_ps)
                TEST_FAIL("%lld to %lld of %lld", (long long)event->start_ps,
                          (long long)event->end_ps, (long long)played.best_ps);
            for (size_t k = 0; k < record.event_count; k++)
                if (record.events[k].rank == event->rank && record.events[k].lane == event->lane &&
                    record.events[k].step == event->step + 1)
                    CHECK(record.events[k].start_ps >= event->start_ps);
        }
        tutti_record_done(&record);
        close_world();
    }
    use_of_graphs = TUTTI_CUDA_GRAPH_NEVER;
}

/* Opens, plays and closes, with a record; the status and the message. */
static int whole_life(bool persistent, struct tutti_err *err)
{
    struct tutti_played played = {0};
    struct tutti_record record;
    int status = open_world(persistent, err);

    tutti_record_init(&record);
    world.play.record = &record;
    fill(7);
    if (status == 0)
        status = tutti_backend_play(world.backend, &world.play, &played, err);
    if (status == 0)
        check_sums(7);
    tutti_record_done(&record);
    close_world();
    return status;
}

/* The N-th call of each name fails, for N = 1, 2, ... until none is left to fail. */
static uint32_t fail_each(const char *call, bool persistent)
{
    uint32_t failed = 0;

    for (uint32_t n = 1; n < 200; n++) {
        struct tutti_err err = {{0}};
        char wish[96];
        int status;

        (void)snprintf(wish, sizeof(wish), "%s:%u", call, n);
        (void)setenv("TUTTI_STANDIN_FAIL", wish, 1);
        status = whole_life(persistent, &err);
        (void)unsetenv("TUTTI_STANDIN_FAIL");
        if (status == 0)
            break;
        failed++;
        CHECK_INT(status, -TUTTI_EIO);
        if (strstr(err.text, "CUDA_ERROR_UNKNOWN (999") == NULL)
            TEST_FAIL("%s: %s", wish, err.text);
    }
    return failed;
}

TEST(each_call_of_the_driver_may_fail)
{
    static const char *const calls[] = {"cuInit",
                                        "cuDeviceGetCount",
                                        "cuDeviceGet",
                                        "cuDeviceGetAttribute",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent",
                                        "cuModuleLoadData",
                                        "cuModuleGetFunction",
                                        "cuFuncGetAttribute",
                                        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                        "cuMemGetInfo_v2",
                                        "cuMemAlloc_v2",
                                        "cuMemHostAlloc",
                                        "cuMemHostGetDevicePointer_v2",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemcpyDtoHAsync_v2",
                                        "cuMemsetD8Async",
                                        "cuStreamCreate",
                                        "cuStreamQuery",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuEventElapsedTime",
                                        "cuLaunchCooperativeKernel"};

    static const char *const of_graphs[] = {"cuStreamBeginCapture_v2",
                                            "cuLaunchKernel",
                                            "cuStreamEndCapture",
                                            "cuGraphInstantiateWithFlags",
                                            "cuGraphLaunch",
                                            "cuStreamQuery",
                                            "cuMemAlloc_v2"};

    if (!has_standin())
        SKIP("a driver's calls do not fail when they are asked to");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (fail_each(calls[i], false) == 0)
            TEST_FAIL("%s was never called", calls[i]);
    CHECK(fail_each("cuMemAlloc_v2", true) == 2); /* the meetings' times as well */
    use_of_graphs = TUTTI_CUDA_GRAPH_ALWAYS;
    for (size_t i = 0; i < sizeof(of_graphs) / sizeof(of_graphs[0]); i++)
        if (fail_each(of_graphs[i], false) == 0)
            TEST_FAIL("%s was never called", of_graphs[i]);
    use_of_graphs = TUTTI_CUDA_GRAPH_NEVER;
}

/* As they were measured, but for recursive doubling. */
TEST(few_levels_of_little_data_are_worth_a_graph)
{
    static const struct {
        const char *algorithm;
        uint64_t count;
        bool graph;
    } rows[] = {{"one-shot", 16384, true},   {"one-shot", 1 << 24, false},
                {"two-shot", 1 << 24, true}, {"ring", 16, false},
                {"ring", 1 << 24, false},    {"recursive-doubling", 16, true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tutti_coll_params params = {
            .collective = TUTTI_ALLREDUCE, .count = rows[i].count, .channel_count = 8};
        const struct tutti_shape shape = tutti_shape_flat(8);
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {{0}};
        tutti_ps longer_ps = 0;

        CHECK_OK(tutti_coll_generate(rows[i].algorithm, &params, &shape, &schedule, &err), err);
        CHECK_OK(tutti_cuda_weigh_graph(schedule, &longer_ps, &err), err);
        if ((longer_ps < 0) != rows[i].graph)
            TEST_FAIL("%s, %d elements: %.2f us", rows[i].algorithm, (int)rows[i].count,
                      (double)longer_ps / 1e6);
        tutti_schedule_free(schedule);
    }
}

TEST(it_says_what_it_plays_on)
{
    char name[TUTTI_CUDA_NAME_BYTES];
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_cuda_name(name, &err), err);
    if (strstr(name, "multiprocessors") == NULL)
        TEST_FAIL("%s", name);
}

TEST(wrong_options_are_refused)
{
    struct tutti_cuda_opts opts = {.size = sizeof(opts), .thread_count = 48};
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    CHECK_INT(tutti_cuda_open(&opts, &backend, &err), -TUTTI_EINVAL);
    opts.thread_count = 0;
    opts.device = 99;
    CHECK_INT(tutti_cuda_open(&opts, &backend, &err), -TUTTI_EINVAL);
    opts.device = 0;
    opts.library = "/nowhere/libcuda.so";
    CHECK_INT(tutti_cuda_open(&opts, &backend, &err), -TUTTI_ELACK);
    CHECK(strstr(err.text, "/nowhere/libcuda.so") != NULL);
    CHECK(backend == NULL);
}

TEST(small_messages_get_few_channels)
{
    CHECK_INT(tutti_cuda_channels(8, 1024), 1);
    CHECK_INT(tutti_cuda_channels(8, 1 << 30), 16);
    CHECK_INT(tutti_cuda_channels(1000, 1 << 30), 1);
}
