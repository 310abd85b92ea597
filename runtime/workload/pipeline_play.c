/* What a step of a pipeline takes and holds: each task at the earliest. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pipeline.h"
#include "runtime/status.h"
#include "runtime/wide.h"

uint32_t tutti_pipeline_held(const struct tutti_pipeline_params *params,
                             const struct tutti_pipeline_task *tasks)
{
    const uint32_t count = tutti_pipeline_task_count(params);
    const enum tutti_pass last =
        tutti_pipeline_splits(params) ? TUTTI_PASS_WEIGHTS : TUTTI_PASS_BACKWARD;
    uint32_t held = 0;
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        held += tasks[i].pass == TUTTI_PASS_FORWARD;
        most = held > most ? held : most;
        held -= tasks[i].pass == last;
    }
    assert(held == 0);
    return most;
}

/* ---- playing --------------------------------------------------------------------------------- */

struct device {
    uint32_t next; /* task */
    bool waits;    /* it is not in the queue */
    tutti_ps begin_ps;
    tutti_ps now_ps;
    tutti_ps busy_ps;
};

struct play {
    const struct tutti_pipeline_params *params;
    const struct tutti_stage_times *times;
    tutti_ps hop_ps;
    tutti_ps *starts; /* NULL: nobody asks */
    uint32_t task_count;
    uint32_t stage_count;
    struct tutti_pipeline_task *tasks; /* [device][task] */
    struct device *devices;
    tutti_ps *ends[2]; /* [forward, backward][stage * micro-batches + micro-batch]; -1: not yet */
    uint32_t *queue;   /* of devices that may have something to do: at most all of them */
    uint32_t queue_first;
    uint32_t queue_count;
};

static void play_done(struct play *play)
{
    free(play->tasks);
    free(play->devices);
    free(play->ends[0]);
    free(play->ends[1]);
    free(play->queue);
}

static int play_open(struct play *play, struct tutti_err *err)
{
    const size_t devices = play->params->device_count;
    const size_t ends = (size_t)play->stage_count * play->params->micro_batches;

    play->tasks = calloc(devices * play->task_count, sizeof(*play->tasks));
    play->devices = calloc(devices, sizeof(*play->devices));
    play->ends[0] = calloc(ends, sizeof(tutti_ps));
    play->ends[1] = calloc(ends, sizeof(tutti_ps));
    play->queue = calloc(devices, sizeof(*play->queue));
    if (play->tasks == NULL || play->devices == NULL || play->ends[0] == NULL ||
        play->ends[1] == NULL || play->queue == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < ends; i++)
        play->ends[0][i] = play->ends[1][i] = -1;
    for (uint32_t d = 0; d < devices; d++) {
        tutti_pipeline_tasks(play->params, d, play->tasks + (size_t)d * play->task_count);
        play->queue[d] = d;
    }
    play->queue_count = (uint32_t)devices;
    return 0;
}

static void wake(struct play *play, uint32_t stage)
{
    uint32_t chunk;
    uint32_t device;

    tutti_pipeline_place(play->params, stage, &device, &chunk);
    if (!play->devices[device].waits)
        return;
    play->devices[device].waits = false;
    play->queue[(play->queue_first + play->queue_count++) % play->params->device_count] = device;
}

static tutti_ps *end_of(const struct play *play, enum tutti_pass pass, uint32_t stage,
                        uint32_t micro_batch)
{
    return &play->ends[pass][(size_t)stage * play->params->micro_batches + micro_batch];
}

/* When what comes from another stage is there; -1: not yet. */
static tutti_ps arrival(const struct play *play, uint32_t device, enum tutti_pass pass,
                        uint32_t stage, uint32_t micro_batch)
{
    const tutti_ps end = *end_of(play, pass, stage, micro_batch);
    uint32_t from;
    uint32_t chunk;

    tutti_pipeline_place(play->params, stage, &from, &chunk);
    return end < 0 || from == device ? end : end + play->hop_ps;
}

/* What a task needs beside its device: forward the stage before; backward the stage behind, or its
 * own forward pass; weights their own backward pass, which its device has made already. */
static tutti_ps ready(const struct play *play, uint32_t device,
                      const struct tutti_pipeline_task *task)
{
    const uint32_t stage = tutti_pipeline_stage(play->params, device, task->chunk);

    if (task->pass == TUTTI_PASS_WEIGHTS)
        return *end_of(play, TUTTI_PASS_BACKWARD, stage, task->micro_batch);
    if (task->pass == TUTTI_PASS_FORWARD)
        return stage == 0 ? 0
                          : arrival(play, device, TUTTI_PASS_FORWARD, stage - 1, task->micro_batch);
    if (stage + 1 == play->stage_count)
        return *end_of(play, TUTTI_PASS_FORWARD, stage, task->micro_batch);
    return arrival(play, device, TUTTI_PASS_BACKWARD, stage + 1, task->micro_batch);
}

static tutti_ps takes(const struct play *play, uint32_t stage, enum tutti_pass pass)
{
    const struct tutti_stage_times *t = &play->times[stage];

    if (pass == TUTTI_PASS_FORWARD)
        return t->forward_ps;
    if (pass == TUTTI_PASS_WEIGHTS)
        return t->weights_ps;
    return t->backward_ps + (tutti_pipeline_splits(play->params) ? 0 : t->weights_ps);
}

static void finish(struct play *play, uint32_t device, const struct tutti_pipeline_task *task,
                   tutti_ps start_ps)
{
    struct device *d = &play->devices[device];
    const uint32_t stage = tutti_pipeline_stage(play->params, device, task->chunk);
    const tutti_ps time_ps = takes(play, stage, task->pass);

    if (play->starts != NULL)
        play->starts[(size_t)device * play->task_count + d->next] = start_ps;
    if (d->next++ == 0)
        d->begin_ps = start_ps;
    d->now_ps = start_ps + time_ps;
    d->busy_ps += time_ps;
    if (task->pass == TUTTI_PASS_WEIGHTS)
        return;
    *end_of(play, task->pass, stage, task->micro_batch) = d->now_ps;
    if (task->pass == TUTTI_PASS_FORWARD && stage + 1 < play->stage_count)
        wake(play, stage + 1);
    if (task->pass == TUTTI_PASS_BACKWARD && stage > 0)
        wake(play, stage - 1);
}

/* As far as a device comes. */
static void work(struct play *play, uint32_t device)
{
    struct device *d = &play->devices[device];

    while (d->next < play->task_count) {
        const struct tutti_pipeline_task *task =
            &play->tasks[(size_t)device * play->task_count + d->next];
        const tutti_ps at = ready(play, device, task);

        if (at < 0)
            break;
        finish(play, device, task, at > d->now_ps ? at : d->now_ps);
    }
    d->waits = true;
}

static void sum_up(const struct play *play, struct tutti_pipeline_times *ret)
{
    *ret = (struct tutti_pipeline_times){.step_ps = 0};
    for (uint32_t i = 0; i < play->params->device_count; i++) {
        const struct device *d = &play->devices[i];
        const tutti_ps idle = d->now_ps - d->begin_ps - d->busy_ps;

        assert(d->next == play->task_count); /* no order waits for itself */
        ret->step_ps = d->now_ps > ret->step_ps ? d->now_ps : ret->step_ps;
        ret->idle_ps = idle > ret->idle_ps ? idle : ret->idle_ps;
    }
}

/* One after another all tasks and hops take longer than any step. */
static int check_times(const struct play *play, struct tutti_err *err)
{
    uint64_t sum = tutti_times(2 * (uint64_t)play->stage_count, (uint64_t)play->hop_ps);

    for (uint32_t i = 0; i < play->stage_count; i++) {
        const struct tutti_stage_times *t = &play->times[i];

        if (t->forward_ps < 0 || t->backward_ps < 0 || t->weights_ps < 0)
            return tutti_fail(err, TUTTI_EINVAL, "stage %u of a pipeline takes less than no time",
                              i);
        sum = tutti_plus(sum, (uint64_t)t->forward_ps);
        sum = tutti_plus(sum, (uint64_t)t->backward_ps);
        sum = tutti_plus(sum, (uint64_t)t->weights_ps);
    }
    if (play->hop_ps < 0 || tutti_times(sum, play->params->micro_batches) > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a pipeline takes longer than times can say");
    return 0;
}

int tutti_pipeline_play(const struct tutti_pipeline_params *params,
                        const struct tutti_stage_times *times, tutti_ps hop_ps, tutti_ps *starts,
                        struct tutti_pipeline_times *ret, struct tutti_err *err)
{
    struct play play = {.params = params, .times = times, .hop_ps = hop_ps, .starts = starts};
    int status = tutti_pipeline_check(params, err);

    if (status < 0)
        return status;
    play.task_count = tutti_pipeline_task_count(params);
    play.stage_count = tutti_pipeline_stage_count(params);
    status = check_times(&play, err);
    if (status == 0)
        status = play_open(&play, err);
    while (status == 0 && play.queue_count > 0) {
        const uint32_t device = play.queue[play.queue_first];

        play.queue_first = (play.queue_first + 1) % params->device_count;
        play.queue_count--;
        work(&play, device);
    }
    if (status == 0)
        sum_up(&play, ret);
    play_done(&play);
    return status;
}
