/* What an execution needs where another machine is emulated: fewer threads, which play several
 * ranks each, a pacer, and helpers; nothing of this is there otherwise. */
#include <stdlib.h>
#include <unistd.h>

#include "runtime/exec/host/execution.h"

uint32_t tutti_emulated_worker_count(const struct tutti_execution *execution)
{
    uint32_t own_count = execution->load.own_count;
    uint32_t wanted = execution->player->thread_count;

    if (execution->load.group->count > 1 || wanted == 0)
        return own_count > 0;
    return wanted < own_count ? wanted : own_count;
}

/* When this thread comes back to a rank, the others' bytes have gone through the cache. Measured
 * (tests/bench/notes.md): messages of 16 KiB and of 2 MiB of 16 ranks that hold 128 MiB are moved
 * and added in 0.9 times the time past the cache. */
static bool goes_past_cache(const struct tutti_execution *execution)
{
    enum { CACHE_BYTES = 32 << 20 };
    const struct tutti_schedule *schedule = execution->load.schedule;
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    double held =
        ((double)schedule->in_bytes + (double)schedule->out_bytes) * execution->load.own_count;

    return held >= (double)(bytes > 0 ? bytes : CACHE_BYTES);
}

/* Where one thread plays all ranks, the other processors help it. */
static int open_helpers(struct tutti_execution *execution, struct tutti_err *err)
{
    uint32_t processor_count = (uint32_t)CPU_COUNT(&execution->player->processors);
    uint32_t rank_count = execution->load.own_count;
    uint32_t count = (processor_count < rank_count ? processor_count : rank_count) - 1;

    if (execution->load.group->count > 1 || execution->player->thread_count > 0 || count == 0)
        return 0;
    return tutti_helpers_open(&execution->wait_set, rank_count, count, &execution->helpers, err);
}

int tutti_execution_prepare_emulation(struct tutti_execution *execution, struct tutti_err *err)
{
    enum { STREAMED_BYTES_MIN = 4 << 10 };
    const struct tutti_host_player *player = execution->player;
    struct tutti_pacer_opts opts = {
        .wait_set = &execution->wait_set,
        .connections = &execution->connections,
        .schedule = execution->load.schedule,
        .shaper = player->shaper,
        .slowdown = player->slowdown,
        .spins = execution->worker_count <= (uint32_t)CPU_COUNT(&player->processors),
        .group = execution->load.group,
        .homes = execution->load.homes,
    };
    bool past_cache = goes_past_cache(execution);
    int status;

    if (player->shaper == NULL)
        return 0;
    execution->worker_of =
        calloc((size_t)execution->load.own_count + 1, sizeof(execution->worker_of[0]));
    if (execution->worker_of == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < execution->worker_count; i++) {
        const struct tutti_worker *worker = &execution->workers[i];

        for (uint32_t k = 0; k < worker->rank_count; k++)
            execution->worker_of[worker->first_rank - execution->load.first_rank + k] =
                worker->worker_index;
    }
    opts.worker_of = execution->worker_of;
    status = tutti_pacer_open(&opts, &execution->pacer, err);
    if (status == 0)
        status = open_helpers(execution, err);
    for (uint32_t i = 0; i < execution->load.own_count && status == 0; i++) {
        struct tutti_thread_stage *stage = &execution->stages[i];

        stage->flow = &tutti_paced_flow;
        stage->pacer = execution->pacer;
        stage->helpers = execution->helpers;
        if (past_cache)
            stage->large_bytes = STREAMED_BYTES_MIN;
    }
    return status;
}
