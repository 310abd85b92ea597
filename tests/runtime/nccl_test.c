/* The backend `nccl` on the stand-ins for the driver's library and for NCCL: runs held open, hooks,
 * deadlines, NCCL's own collectives, every call of NCCL failing in its turn. */
#include <time.h>

#include "runtime/coll.h"
#include "runtime/nccl.h"
#include "runtime/record.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RANKS = 4, COUNT = 300 };

struct world {
    struct tutti_backend *backend;
    struct tutti_schedule *schedule;
    int32_t in[RANKS][RANKS * COUNT];
    int32_t out[RANKS][RANKS * COUNT];
    const void *ins[RANKS];
    void *outs[RANKS];
    struct tutti_play play;
};

static struct world world;

static void fill(int32_t value)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < RANKS * COUNT; i++)
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

static int open_world(const char *algorithm, enum tutti_collective collective, bool native,
                      struct tutti_err *err)
{
    const struct tutti_coll_params params = {.collective = collective,
                                             .dtype = TUTTI_INT32,
                                             .op = TUTTI_SUM,
                                             .count = collective == TUTTI_BARRIER ? 0 : COUNT,
                                             .root = 1};
    const struct tutti_nccl_opts opts = {.size = sizeof(opts), .native = native};
    const struct tutti_shape shape = tutti_shape_flat(RANKS);
    int status;

    world = (struct world){0};
    status = tutti_coll_generate(algorithm, &params, &shape, &world.schedule, err);
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
    return status < 0 ? status : tutti_nccl_open(&opts, &world.backend, err);
}

static void close_world(void)
{
    tutti_schedule_free(world.schedule);
    tutti_backend_close(world.backend);
    world = (struct world){0};
}

static bool has_standin(void)
{
    return getenv("TUTTI_CUDA_LIBRARY") != NULL && getenv("TUTTI_NCCL_LIBRARY") != NULL;
}

/* ---- runs ---- */

TEST(each_step_reads_what_was_written_before_it)
{
    struct tutti_err err = {{0}};
    struct tutti_run *run = NULL;

    if (!has_standin())
        SKIP("four ranks want four GPUs");
    CHECK_OK(open_world("ring", TUTTI_ALLREDUCE, false, &err), err);
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
    if (!has_standin())
        SKIP("four ranks want four GPUs");
    for (uint64_t enough = 0; enough <= 2; enough += 2) {
        struct hook hook = {.enough_after = enough};
        struct tutti_played played = {0};
        struct tutti_err err = {{0}};

        CHECK_OK(open_world("two-shot", TUTTI_ALLREDUCE, false, &err), err);
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

TEST(ranks_have_a_gpu_each_where_there_are_enough)
{
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};
    uint32_t gpu_count = 0;

    if (!has_standin())
        SKIP("four ranks want four GPUs");
    (void)setenv("TUTTI_STANDIN_DEVICES", "4", 1);
    (void)setenv("TUTTI_STANDIN_MULTIPROCESSORS", "7", 1); /* and many blocks */
    (void)setenv("TUTTI_NCCL_STANDIN_VERSION", "22809", 1);
    CHECK_OK(tutti_nccl_gpu_count(&gpu_count, &err), err);
    CHECK_INT(gpu_count, 4);
    CHECK_OK(open_world("two-shot", TUTTI_ALLREDUCE, false, &err), err);
    REQUIRE(world.backend != NULL);
    fill(3);
    CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
    check_sums(3);
    close_world();
    (void)unsetenv("TUTTI_STANDIN_DEVICES");
    (void)unsetenv("TUTTI_STANDIN_MULTIPROCESSORS");
    (void)unsetenv("TUTTI_NCCL_STANDIN_VERSION");
}

/* ---- NCCL's own ---- */

/* What an element must be by the contract; false: no matter. */
static bool expected_of(enum tutti_collective collective, uint32_t rank, uint32_t i, int32_t *ret)
{
    int32_t sum = 3 * RANKS * (RANKS + 1) / 2;

    switch (collective) {
    case TUTTI_ALLREDUCE:
        *ret = sum + RANKS * (int32_t)i;
        return true;
    case TUTTI_REDUCE_TO_ROOT:
        *ret = sum + RANKS * (int32_t)i;
        return rank == 1;
    case TUTTI_REDUCESCATTER:
        *ret = sum + RANKS * (int32_t)(rank * COUNT + i);
        return true;
    case TUTTI_ALLGATHER:
        *ret = 3 * (int32_t)(i / COUNT + 1) + (int32_t)(i % COUNT);
        return true;
    case TUTTI_BROADCAST:
        *ret = 3 * 2 + (int32_t)i;
        return true;
    case TUTTI_ALLTOALL:
        *ret = 3 * (int32_t)(i / COUNT + 1) + (int32_t)(rank * COUNT + i % COUNT);
        return true;
    case TUTTI_SENDRECV:
        *ret = 3 * (int32_t)((rank + RANKS - 1) % RANKS + 1) + (int32_t)i;
        return true;
    default:
        return false;
    }
}

TEST(the_library_keeps_each_contract_and_says_what_it_thinks_of_it)
{
    static const struct {
        const char *algorithm;
        enum tutti_collective collective;
    } cases[] = {{"ring", TUTTI_ALLREDUCE},          {"ring", TUTTI_REDUCESCATTER},
                 {"ring", TUTTI_ALLGATHER},          {"binomial", TUTTI_BROADCAST},
                 {"binomial", TUTTI_REDUCE_TO_ROOT}, {"direct", TUTTI_ALLTOALL},
                 {"direct", TUTTI_SENDRECV},         {"binomial", TUTTI_BARRIER}};

    if (!has_standin())
        SKIP("four ranks want four GPUs");
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct tutti_played played = {0};
        struct tutti_err err = {{0}};
        tutti_ps estimate_ps = 0;
        uint64_t wrong = 0;

        CHECK_OK(open_world(cases[c].algorithm, cases[c].collective, true, &err), err);
        REQUIRE(world.backend != NULL);
        fill(3);
        CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err);
        CHECK_OK(tutti_nccl_estimate(world.backend, &world.schedule->contract, &estimate_ps, &err),
                 err);
        CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err); /* anew */
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            for (uint32_t i = 0; i < world.schedule->out_bytes / sizeof(int32_t); i++) {
                int32_t expected;

                wrong += expected_of(cases[c].collective, rank, i, &expected) &&
                         world.out[rank][i] != expected;
            }
        }
        if (wrong > 0)
            TEST_FAIL("%s: %llu wrong", tutti_collective_name(cases[c].collective),
                      (unsigned long long)wrong);
        CHECK_INT(played.step_count, 0);
        CHECK(estimate_ps > 0);
        close_world();
    }
}

/* ---- what goes wrong ---- */

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

TEST(a_level_that_does_not_end_is_named_with_its_peers_within_the_deadline)
{
    static const char *const words[] = {"rank 0, level 1 of 6, awaiting rank 1, 3",
                                        "rank 0, NCCL's own collective"};

    if (!has_standin())
        SKIP("a GPU's streams go on");
    for (int native = 0; native < 2; native++) {
        struct tutti_played played = {0};
        struct tutti_err err = {{0}};
        double since_s;

        CHECK_OK(open_world("ring", TUTTI_ALLREDUCE, native != 0, &err), err);
        REQUIRE(world.backend != NULL);
        (void)setenv("TUTTI_STANDIN_STUCK", "1", 1);
        since_s = now_s();
        CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ETIME);
        CHECK(now_s() - since_s < 10);
        (void)unsetenv("TUTTI_STANDIN_STUCK");
        if (strstr(err.text, words[native]) == NULL)
            TEST_FAIL("'%s' is not in: %s", words[native], err.text);
        fill(3);
        CHECK_OK(tutti_backend_play(world.backend, &world.play, &played, &err), err); /* goes on */
        check_sums(3);
        close_world();
    }
}

/* Opens, plays and closes, with a record; the status and the message. */
static int whole_life(enum tutti_collective collective, bool native, struct tutti_err *err)
{
    static const char *const algorithms[] = {"ring",     "ring",   "ring",  "binomial",
                                             "binomial", "direct", "direct"};
    struct tutti_played played = {0};
    struct tutti_record record;
    int status = open_world(algorithms[collective], collective, native, err);

    tutti_record_init(&record);
    world.play.record = &record;
    fill(7);
    if (status == 0)
        status = tutti_backend_play(world.backend, &world.play, &played, err);
    if (status == 0 && collective == TUTTI_ALLREDUCE)
        check_sums(7);
    tutti_record_done(&record);
    close_world();
    return status;
}

/* The next N; where fewer cases are asked for not each beyond the first few, and where far fewer
 * are (sanitizers: a play takes ten times as long) powers of two. */
static uint32_t call_after(uint32_t n)
{
    if (test_fewer() >= 20)
        return 2 * n;
    return n < 6 ? n + 1 : n + 1 + (uint32_t)test_fewer() / 4;
}

/* The N-th call of each name fails, for N = 1, 2, ... until none is left to fail. */
static uint32_t fail_each(const char *variable, const char *call, const char *word,
                          enum tutti_collective collective, bool native)
{
    uint32_t failed = 0;

    for (uint32_t n = 1; n < 600; n = call_after(n)) {
        struct tutti_err err = {{0}};
        char wish[96];
        int status;

        (void)snprintf(wish, sizeof(wish), "%s:%u", call, n);
        (void)setenv(variable, wish, 1);
        status = whole_life(collective, native, &err);
        (void)unsetenv(variable);
        if (status == 0)
            break;
        failed++;
        CHECK_INT(status, -TUTTI_EIO);
        if (strstr(err.text, word) == NULL)
            TEST_FAIL("%s: %s", wish, err.text);
    }
    return failed;
}

TEST(each_call_of_nccl_may_fail)
{
    static const char *const calls[] = {
        "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRankConfig",
        "ncclGroupStart", "ncclGroupEnd",    "ncclSend",
        "ncclRecv"};
    static const struct {
        const char *call;
        enum tutti_collective collective;
    } native[] = {{"ncclAllReduce", TUTTI_ALLREDUCE},   {"ncclReduceScatter", TUTTI_REDUCESCATTER},
                  {"ncclAllGather", TUTTI_ALLGATHER},   {"ncclBroadcast", TUTTI_BROADCAST},
                  {"ncclReduce", TUTTI_REDUCE_TO_ROOT}, {"ncclAlltoAll", TUTTI_ALLTOALL},
                  {"ncclSend", TUTTI_SENDRECV}};

    if (!has_standin())
        SKIP("NCCL's calls do not fail when they are asked to");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (fail_each("TUTTI_NCCL_STANDIN_FAIL", calls[i], "internal error (3)", TUTTI_ALLREDUCE,
                      false) == 0)
            TEST_FAIL("%s was never called", calls[i]);
    for (size_t i = 0; i < sizeof(native) / sizeof(native[0]); i++)
        if (fail_each("TUTTI_NCCL_STANDIN_FAIL", native[i].call, "internal error (3)",
                      native[i].collective, true) == 0)
            TEST_FAIL("%s was never called", native[i].call);
}

TEST(each_call_of_the_driver_may_fail)
{
    static const char *const calls[] = {"cuInit",
                                        "cuDeviceGetCount",
                                        "cuCtxSetCurrent",
                                        "cuModuleGetFunction",
                                        "cuFuncGetAttribute",
                                        "cuMemGetInfo_v2",
                                        "cuMemAlloc_v2",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemcpyDtoHAsync_v2",
                                        "cuMemsetD8Async",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuEventQuery",
                                        "cuEventElapsedTime",
                                        "cuLaunchKernel"};

    if (!has_standin())
        SKIP("a driver's calls do not fail when they are asked to");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (fail_each("TUTTI_STANDIN_FAIL", calls[i], "CUDA_ERROR_UNKNOWN (999", TUTTI_ALLREDUCE,
                      false) == 0)
            TEST_FAIL("%s was never called", calls[i]);
}

TEST(what_cannot_be_is_refused_with_what_to_do)
{
    struct tutti_nccl_opts opts = {.size = sizeof(opts), .library = "/nowhere/libnccl.so"};
    struct tutti_backend *backend = NULL;
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};

    if (!has_standin())
        SKIP("on a GPU it is as it is");
    CHECK_INT(tutti_nccl_open(&opts, &backend, &err), -TUTTI_ELACK);
    CHECK(strstr(err.text, "/nowhere/libnccl.so") != NULL && backend == NULL);
    (void)setenv("TUTTI_NCCL_STANDIN_VERSION", "22809", 1);
    CHECK_OK(open_world("ring", TUTTI_ALLREDUCE, false, &err), err);
    CHECK_INT(tutti_backend_play(world.backend, &world.play, &played, &err), -TUTTI_ELACK);
    (void)unsetenv("TUTTI_NCCL_STANDIN_VERSION");
    if (strstr(err.text, "4 ranks in a process with 1 GPU: NCCL 2.28.9 wants one each") == NULL)
        TEST_FAIL("%s", err.text);
    close_world();
}

TEST(it_says_what_it_plays_on)
{
    char name[TUTTI_NCCL_NAME_BYTES];
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_nccl_name(name, &err), err);
    if (strstr(name, "NCCL 2.") == NULL)
        TEST_FAIL("%s", name);
}
