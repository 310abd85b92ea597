/* The backend `cuda` that plays steps of training by streams. */
#include <stdlib.h>

#include "runtime/exec/cuda/opened.h"
#include "runtime/exec/cuda/streams_calls.h"
#include "runtime/record.h"
#include "runtime/status.h"

struct run {
    struct tutti_cuda_caller caller;
    struct tutti_record *record; /* NULL, or the caller's */
    struct tutti_gpu **gpus;     /* [rank] */
    struct tutti_streams *streams;
};

static void close_run(void *data)
{
    struct run *run = data;

    tutti_streams_close(run->streams);
    free(run->gpus);
    free(run);
}

static int place(struct tutti_gpus *gpus, const struct tutti_schedule *schedule,
                 struct tutti_gpu **ret, struct tutti_err *err)
{
    struct tutti_cuda_spread spread;
    int status = tutti_gpus_spread(gpus, schedule->rank_count, &spread, err);

    for (uint32_t r = 0; r < schedule->rank_count && status == 0; r++)
        ret[r] = &gpus->gpus[tutti_cuda_gpu_of(&spread, r, schedule->rank_count)];
    return status;
}

static int open_run(struct tutti_backend *base, const struct tutti_play *play, void **ret,
                    struct tutti_err *err)
{
    struct tutti_cuda_backend *backend = (struct tutti_cuda_backend *)base;
    struct run *run = calloc(1, sizeof(*run));
    struct tutti_streams_opts opts = {.own_count = play->schedule->rank_count,
                                      .calls = &tutti_cuda_calls};
    int status = run == NULL ? tutti_nomem(err) : 0;

    if (status < 0)
        return status;
    if (play->between != NULL)
        status = tutti_fail(err, TUTTI_ELACK, "streams of the GPU have no hook");
    run->record = play->record;
    run->caller = (struct tutti_cuda_caller){
        .gpus = &backend->gpus,
        .thread_count = backend->opts.thread_count,
        .deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : 30 * TUTTI_PS_PER_S};
    run->gpus = calloc(play->schedule->rank_count, sizeof(run->gpus[0]));
    if (status == 0 && run->gpus == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = place(&backend->gpus, play->schedule, run->gpus, err);
    opts.gpus = run->gpus;
    opts.context = &run->caller;
    opts.recorded = play->record != NULL;
    opts.deadline_ps = run->caller.deadline_ps;
    if (status == 0)
        status = tutti_streams_open(play, &opts, &run->streams, err);
    if (status < 0) {
        close_run(run);
        return status;
    }
    *ret = run;
    return 0;
}

static int step_run(void *data, uint32_t warmup_count, uint32_t iteration_count,
                    struct tutti_played *ret, struct tutti_err *err)
{
    struct run *run = data;
    int status = 0;

    if (warmup_count > 0)
        status = tutti_streams_step(run->streams, warmup_count, ret, err);
    if (status == 0)
        status = tutti_streams_step(run->streams, iteration_count, ret, err);
    if (status < 0 || run->record == NULL)
        return status;
    tutti_record_clear(run->record);
    status = tutti_streams_record(run->streams, run->record, &ret->record_error_ps, err);
    tutti_record_sort(run->record);
    return status;
}

const struct tutti_backend_ops tutti_cuda_streams_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "cuda",
    .close = tutti_cuda_close,
    .open_run = open_run,
    .step_run = step_run,
    .close_run = close_run,
    .calls = true,
};
