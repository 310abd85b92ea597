/* The backend `cuda` while the host works between collectives (training steps on groups): every
 * call of the driver fails in its turn, and is named. On the stand-in for the driver's library. */
#include <time.h>

#include "runtime/cuda.h"
#include "tests/runtime/training_steps.h"

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Opens, plays two steps and closes; the status and the message. */
static int whole_life(const struct tutti_schedule *s, struct tutti_err *err)
{
    const struct tutti_cuda_opts opts = {.size = sizeof(opts)};
    struct tutti_backend *backend = NULL;
    struct memory memory = {{{NULL}}};
    struct tutti_played played;
    const void *in[RANKS_MAX];
    void *out[RANKS_MAX];
    void *state[RANKS_MAX];
    int status;

    if (!memory_open(&memory, s))
        return tutti_nomem(err);
    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        in[rank] = memory.bufs[rank][TUTTI_BUF_IN];
        out[rank] = memory.bufs[rank][TUTTI_BUF_OUT];
        state[rank] = memory.bufs[rank][TUTTI_BUF_STATE];
    }
    status = tutti_cuda_open(&opts, &backend, err);
    if (status == 0)
        status = tutti_backend_play(backend,
                                    &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                         .schedule = s,
                                                         .in = in,
                                                         .out = out,
                                                         .state = state,
                                                         .deadline_ps = TUTTI_PS_PER_S,
                                                         .iteration_count = 2},
                                    &played, err);
    tutti_backend_close(backend);
    memory_close(&memory, s);
    return status;
}

/* The N-th call of a name fails, for N = 1, 2, ... until none is left to fail; of many, every tenth
 * in a build where each takes long. */
static uint32_t fail_each(const struct tutti_schedule *s, const char *call)
{
    uint32_t failed = 0;

    for (uint32_t n = 1; n < 100; n += n < 4 || test_fewer() == 1 ? 1 : 10) {
        struct tutti_err err = {{0}};
        double since_s = now_s();
        char wish[96];
        int status;

        (void)snprintf(wish, sizeof(wish), "%s:%u", call, n);
        (void)setenv("TUTTI_STANDIN_FAIL", wish, 1);
        status = whole_life(s, &err);
        (void)unsetenv("TUTTI_STANDIN_FAIL");
        if (status == 0)
            break;
        failed++;
        CHECK_INT(status, -TUTTI_EIO);
        if (strstr(err.text, "CUDA_ERROR_UNKNOWN (999") == NULL)
            TEST_FAIL("%s: %s", wish, err.text);
        if (now_s() - since_s > 10) /* 2 s, and the machine may be busy */
            TEST_FAIL("%s: only after %.1f s", wish, now_s() - since_s);
    }
    return failed;
}

TEST(each_call_of_the_driver_may_fail_while_the_host_works)
{
    static const char *const calls[] = {
        "cuCtxSetCurrent", "cuModuleGetFunction",      "cuMemAlloc_v2",        "cuMemHostAlloc",
        "cuEventCreate",   "cuMemcpyHtoDAsync_v2",     "cuMemcpyDtoHAsync_v2", "cuStreamQuery",
        "cuStreamCreate",  "cuLaunchCooperativeKernel"};
    struct training t = {.tp = 2, .dp = 1, .layer_count = 2, .has_neighbours = true};
    struct tutti_schedule *s;

    if (getenv("TUTTI_CUDA_LIBRARY") == NULL)
        SKIP("a driver's calls do not fail when they are asked to");
    for (uint32_t l = 0; l < t.layer_count; l++)
        t.layers[l] = (struct layer){
            .act_bytes = 40, .weight_bytes = 80, .act_type = l, .grad_type = l, .algorithm = l};
    s = make_step(&t);
    REQUIRE(s != NULL);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (fail_each(s, calls[i]) == 0)
            TEST_FAIL("%s was never called", calls[i]);
    tutti_schedule_free(s);
}
