/* A schedule on the CUDA player's kernel, compiled for the CPU: buffers, counters, launches, and
 * what the reference player makes of the same. */
#ifndef TUTTI_TESTS_GPU_PLAYER_WORLD_H
#define TUTTI_TESTS_GPU_PLAYER_WORLD_H

#include <stdio.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/random.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tests/gpu/player_cpu.h"
#include "tests/runtime/reference_player.h"

enum { WORLD_RANKS_MAX = 16 };

struct world {
    struct tutti_schedule *schedule;
    struct tutti_cuda_plan plan;
    char *bufs[TUTTI_BUF_COUNT][WORLD_RANKS_MAX]; /* by enum tutti_buf */
    char *expected[WORLD_RANKS_MAX];
    uint64_t addresses[TUTTI_BUF_COUNT][WORLD_RANKS_MAX];
    uint64_t *lines;
    uint64_t lines_address;
    struct tutti_cuda_op *ops;
    struct tutti_cuda_lane *lanes;
    struct tutti_cuda_counter *counters;
    struct tutti_cuda_counter meeting;
    struct tutti_cuda_verdict *verdicts;
    uint32_t stop;
    uint32_t abort;
    uint32_t iteration; /* played so far */
    uint64_t meetings_ns[16];
    struct player_cpu_pool pool;
};

static inline void world_close(struct world *w)
{
    for (int b = 0; b < 4; b++)
        for (int r = 0; r < WORLD_RANKS_MAX; r++)
            free(w->bufs[b][r]);
    for (int r = 0; r < WORLD_RANKS_MAX; r++)
        free(w->expected[r]);
    free(w->lines);
    free(w->ops);
    free(w->lanes);
    free(w->counters);
    free(w->verdicts);
    player_cpu_pool_close(&w->pool);
    tutti_cuda_plan_close(&w->plan);
    tutti_schedule_free(w->schedule);
    *w = (struct world){0};
}

/* Small whole numbers and halves: no sum overflows in any type. */
static inline void world_fill(char *at, enum tutti_dtype dtype, uint64_t bytes, uint64_t seed)
{
    size_t element = tutti_dtype_bytes(dtype);

    for (uint64_t i = 0; i < bytes / element; i++) {
        uint64_t bits = tutti_random_hash(seed, i, 0, 0);
        int64_t number = (int64_t)(bits % 2001) - 1000;
        float f32 = (float)number / 7.0f;
        double f64 = (double)number / 7.0;

        if (dtype == TUTTI_FLOAT32)
            memcpy(at + i * 4, &f32, 4);
        else if (dtype == TUTTI_FLOAT64)
            memcpy(at + i * 8, &f64, 8);
        else if (dtype == TUTTI_FLOAT16 || dtype == TUTTI_BFLOAT16)
            memcpy(at + i * 2, &(uint16_t){(uint16_t)(0x3800 + bits % 1024)}, 2);
        else
            memcpy(at + i * element, &number, element);
    }
}

/* Takes the schedule over: plans it, and fills buffers. */
static inline int world_plan(struct world *w, struct tutti_schedule *schedule,
                             enum tutti_cuda_planning planning,
                             const struct tutti_cuda_spread *spread, struct tutti_err *err)
{
    uint64_t sizes[4] = {0, schedule->in_bytes, schedule->out_bytes, schedule->scratch_bytes};
    int status;

    *w = (struct world){.schedule = schedule};
    status = tutti_cuda_plan_spread(&w->plan, schedule, planning, spread, err);
    for (uint32_t r = 0; r < schedule->rank_count && status == 0; r++) {
        for (int b = 1; b < 4; b++) {
            w->bufs[b][r] = calloc(1, (size_t)sizes[b] + 64);
            w->addresses[b][r] = (uintptr_t)w->bufs[b][r];
        }
        w->expected[r] = calloc(1, (size_t)sizes[2] + 64);
        if (w->expected[r] == NULL || w->bufs[1][r] == NULL || w->bufs[2][r] == NULL ||
            w->bufs[3][r] == NULL)
            status = tutti_nomem(err);
        else
            world_fill(w->bufs[1][r], schedule->contract.dtype, sizes[1], 1000 + r);
    }
    return status;
}

/* For one GPU; takes the schedule over. */
static inline int world_open(struct world *w, struct tutti_schedule *schedule,
                             enum tutti_cuda_planning planning, struct tutti_err *err)
{
    const uint64_t *bases[TUTTI_CUDA_BASES] = {w->addresses[0], w->addresses[1], w->addresses[2],
                                               w->addresses[3], w->addresses[4], &w->lines_address};
    struct tutti_cuda_part part;
    int status =
        world_plan(w, schedule, planning, &(struct tutti_cuda_spread){.gpu_count = 1}, err);

    if (status < 0)
        return status;
    w->lines = aligned_alloc(64, (size_t)w->plan.home_bytes[0] / 64 * 64 + 64);
    if (w->lines == NULL)
        return tutti_nomem(err);
    memset(w->lines, 0, (size_t)w->plan.home_bytes[0]);
    w->lines_address = (uintptr_t)w->lines;
    w->ops = calloc((size_t)w->plan.op_count + 1, sizeof(*w->ops));
    w->lanes = calloc((size_t)w->plan.lane_total + 1, sizeof(*w->lanes));
    w->counters = calloc((size_t)tutti_cuda_counter_count(&w->plan) + 1, sizeof(*w->counters));
    w->verdicts = calloc((size_t)w->plan.lane_total + 1, sizeof(*w->verdicts));
    if (w->verdicts == NULL || w->ops == NULL || w->lanes == NULL || w->counters == NULL)
        return tutti_nomem(err);
    part = tutti_cuda_part_of(&w->plan, 0);
    tutti_cuda_resolve(&w->plan, &part, bases, w->ops, w->lanes);
    return 0;
}

/* What must come out, by the reference player. */
static inline int world_refer(struct world *w, struct tutti_err *err)
{
    char **bufs[4] = {[TUTTI_BUF_NONE] = w->bufs[3],
                      [TUTTI_BUF_IN] = w->bufs[1],
                      [TUTTI_BUF_OUT] = w->expected,
                      [TUTTI_BUF_SCRATCH] = w->bufs[3]};

    return ref_play(w->schedule, bufs, err);
}

static inline player_cpu_kernel *world_kernel(const struct world *w)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "tutti_play_%s_%s",
                   tutti_dtype_name(w->schedule->contract.dtype),
                   tutti_op_name(w->schedule->contract.op));
    for (size_t i = 0; i < sizeof(player_cpu_kernels) / sizeof(player_cpu_kernels[0]); i++)
        if (strcmp(player_cpu_kernels[i].name, name) == 0)
            return player_cpu_kernels[i].kernel;
    return NULL;
}

/* One launch of several iterations. */
static inline bool world_play(struct world *w, uint32_t iterations, uint32_t threads,
                              uint32_t absent, enum player_cpu_mutant mutant, uint64_t deadline_ns)
{
    struct tutti_cuda_args args = {
        .ops = w->ops,
        .lanes = w->lanes,
        .waits = w->plan.waits,
        .signals = w->plan.signals,
        .counters = w->counters,
        .meeting = &w->meeting,
        .meeting_base = w->meeting.value,
        .verdicts = w->verdicts,
        .stop = &w->stop,
        .abort = &w->abort,
        .meetings_ns = w->meetings_ns,
        .deadline_ns = deadline_ns,
        .iteration = w->iteration + 1,
        .iteration_count = iterations,
    };

    w->iteration += iterations;
    return player_cpu_launch(&w->pool, world_kernel(w), &args, w->plan.lane_total, threads, absent,
                             mutant);
}

static inline uint32_t world_wrong_ranks(const struct world *w)
{
    uint32_t wrong = 0;

    for (uint32_t r = 0; r < w->schedule->rank_count; r++) {
        if (w->schedule->contract.collective == TUTTI_REDUCE_TO_ROOT &&
            r != w->schedule->contract.root)
            continue;
        wrong += memcmp(w->bufs[2][r], w->expected[r], (size_t)w->schedule->out_bytes) != 0;
    }
    return wrong;
}

#endif
