/* The host's player: ranks are threads, buffers lie in the memory of this process. What it plays in
 * is prepared in execution.c; here the threads begin and end, and other processes come in. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "runtime/exec/host/execution.h"

/* ---- load and unload ---- */

static int host_load(struct tutti_player *base, const struct tutti_load *load, void **ret,
                     struct tutti_err *err)
{
    struct tutti_execution *execution = aligned_alloc(TUTTI_CACHE_LINE, sizeof(*execution));
    int status;

    if (execution == NULL)
        return tutti_nomem(err);
    *execution =
        (struct tutti_execution){.player = (struct tutti_host_player *)base, .load = *load};
    status = tutti_execution_prepare(execution, err);
    if (status < 0) {
        tutti_execution_clear(execution);
        free(execution);
        return status;
    }
    *ret = execution;
    return 0;
}

/* Those that wait for a burst begin it. */
static void call_workers(struct tutti_execution *execution)
{
    atomic_store(&execution->ended_count, 0);
    atomic_fetch_add(&execution->burst_number, 1);
    for (uint32_t i = 1; i < execution->worker_count; i++) {
        if (execution->workers[i].has_thread)
            tutti_wait_set_wake(&execution->wait_set, execution->workers[i].worker_index);
    }
}

/* The run is over, or has been broken off, so that all threads end by themselves. */
static void join_threads(struct tutti_execution *execution)
{
    if (execution->is_joined)
        return;
    execution->is_joined = true;
    atomic_store(&execution->over, true);
    call_workers(execution);
    for (uint32_t i = 1; i < execution->worker_count; i++) {
        if (execution->workers[i].has_thread)
            pthread_join(execution->workers[i].thread, NULL);
    }
    tutti_work_threads_join(execution->work_threads);
}

/* 0, or with what the run has been broken off. */
static int status_of(const struct tutti_execution *execution)
{
    struct tutti_err unused;

    if (execution->status < 0)
        return execution->status;
    return atomic_load(&execution->wait_set.stopped) == 0
               ? 0
               : tutti_wait_set_verdict(&execution->wait_set, &unused);
}

static void host_unload(void *loaded)
{
    struct tutti_execution *execution = loaded;
    struct tutti_transport *transport;

    if (execution == NULL)
        return;
    transport = execution->player->transport;
    join_threads(execution);
    tutti_pacer_disconnect(execution->pacer); /* while there is somebody to be woken */
    if (execution->has_begun)
        transport->ops->end(transport, status_of(execution));
    tutti_execution_clear(execution);
    free(execution);
}

/* ---- other processes, and threads ---- */

/* The first worker is at home in the thread that calls. */
static int start_threads(struct tutti_execution *execution, struct tutti_err *err)
{
    int status = tutti_work_threads_start(execution->work_threads, err);

    for (uint32_t i = 1; i < execution->worker_count && status == 0; i++) {
        struct tutti_worker *worker = &execution->workers[i];

        status = pthread_create(&worker->thread, NULL, tutti_worker_run, worker);
        worker->has_thread = status == 0;
        if (status != 0)
            return tutti_fail(err, TUTTI_EIO, "cannot start the thread of rank %u: %s",
                              worker->first_rank, strerror(status));
    }
    return status;
}

static int host_connect(void *loaded, struct tutti_err *err)
{
    struct tutti_execution *execution = loaded;
    const struct tutti_host_player *player = execution->player;
    tutti_ps wait_ps = tutti_wait_set_after(5 * TUTTI_PS_PER_S, execution->load.deadline_ps);
    struct tutti_group *group = execution->load.group;
    int status;

    if (group->count == 1)
        return start_threads(execution, err);
    status = tutti_pacer_connect(execution->pacer, wait_ps, err);
    if (status < 0)
        return status;
    status = player->transport->ops->begin(player->transport, group, &execution->plan, err);
    execution->has_begun = status == 0;
    if (status == 0)
        status = start_threads(execution, err);
    execution->status = tutti_group_agree(group, status, wait_ps, err);
    return execution->status;
}

/* ---- a burst ---- */

/* As one of the ranks, this thread is for a while where they are to be. */
static int play_as_first(struct tutti_execution *execution)
{
    struct tutti_worker *worker = &execution->workers[0];
    cpu_set_t before;
    bool pins = execution->player->pin &&
                pthread_getaffinity_np(pthread_self(), sizeof(before), &before) == 0;
    /* Waits for a lead make it shorter. */
    int slack_ns = execution->load.lead_ps > 0 ? prctl(PR_GET_TIMERSLACK) : -1;
    int status;

    if (pins)
        tutti_worker_pin(worker);
    status = tutti_worker_play(worker);
    if (status == 0)
        status = tutti_worker_wait_for_others(worker);
    if (slack_ns >= 0)
        (void)prctl(PR_SET_TIMERSLACK, slack_ns);
    if (pins)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
    return status;
}

/* How time was kept so far, works included. */
static struct tutti_lateness lateness_of(const struct tutti_execution *execution)
{
    struct tutti_lateness lateness = execution->pacer->lateness;

    for (uint32_t i = 0; i < execution->load.own_count; i++) {
        const struct tutti_rank_work *rank_work = execution->stages[i].rank_work;

        if (rank_work == NULL)
            continue;
        lateness.computed_count += rank_work->done_count;
        lateness.computed_late_count += rank_work->late_count;
        if (rank_work->slowdown_min > lateness.computed_slowdown)
            lateness.computed_slowdown = rank_work->slowdown_min;
    }
    return lateness;
}

/* This thread plays the first worker's ranks; what comes of it tells poll. */
static int host_start(void *loaded, const struct tutti_burst *burst, struct tutti_err *err)
{
    struct tutti_execution *execution = loaded;
    struct tutti_wait_set *wait_set = &execution->wait_set;
    int status = tutti_execution_reserve(execution, burst->iteration_count, err);

    if (status < 0)
        tutti_wait_set_stop(wait_set, status, err);
    if (atomic_load(&wait_set->stopped) != 0 || execution->worker_count == 0)
        return 0;
    execution->burst = *burst;
    execution->endpoints.crossing.enough = burst->enough;
    if (atomic_load(&execution->burst_number) > 0)
        tutti_wait_set_return(wait_set);
    call_workers(execution);
    (void)play_as_first(execution); /* a failure has stopped the wait set */
    if (execution->pacer != NULL)
        execution->player->lateness = lateness_of(execution);
    return 0;
}

/* The burst has been played by the time that start is over. */
static int host_poll(void *loaded, struct tutti_err *err)
{
    struct tutti_execution *execution = loaded;
    struct tutti_transport *transport = execution->player->transport;
    struct tutti_err verdict;
    int status;

    if (atomic_load(&execution->wait_set.stopped) == 0)
        return 1;
    join_threads(execution);
    /* The others may be waiting for messages that will not come. */
    if (execution->has_begun && transport->ops->stop != NULL)
        transport->ops->stop(transport);
    status = tutti_wait_set_verdict(&execution->wait_set, &verdict);
    if (atomic_load(&execution->heard) && atomic_load(&execution->is_broken) != 0) {
        struct tutti_err heard = verdict;

        verdict = execution->broken;
        (void)tutti_wrap(&verdict, status, "%s", heard.text);
    }
    if (err != NULL)
        *err = verdict;
    return status;
}

static void host_abort(void *loaded, int status, const struct tutti_err *err)
{
    struct tutti_execution *execution = loaded;

    if (atomic_load(&execution->wait_set.blamed) == 0)
        atomic_store(&execution->heard, true);
    tutti_wait_set_stop(&execution->wait_set, status, err);
}

/* ---- times ---- */

/* The start of an iteration and its last end here. Alone the start is the last arrival; with other
 * processes there is no common clock, and it is when the barrier opened here. */
static void bounds_of(const struct tutti_execution *execution, uint32_t taken,
                      tutti_ps *ret_start_ps, tutti_ps *ret_end_ps)
{
    tutti_ps start_ps = execution->opened_ps != NULL ? execution->opened_ps[taken] : 0;
    tutti_ps end_ps = start_ps;

    for (uint32_t i = 0; i < execution->worker_count; i++) {
        const struct tutti_worker *worker = &execution->workers[i];

        if (execution->opened_ps == NULL && worker->arrived_ps[taken] > start_ps)
            start_ps = worker->arrived_ps[taken];
        if (worker->ended_ps[taken] > end_ps)
            end_ps = worker->ended_ps[taken];
    }
    *ret_start_ps = start_ps;
    *ret_end_ps = end_ps;
}

static int add_events(const struct tutti_execution *execution, tutti_ps start_ps,
                      struct tutti_record *record, struct tutti_err *err)
{
    size_t count = record->event_count;

    for (uint32_t i = 0; i < execution->worker_count; i++)
        count += execution->workers[i].record.event_count;
    if (tutti_record_reserve(record, count) < 0)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < execution->worker_count; i++) {
        const struct tutti_record *own = &execution->workers[i].record;

        for (size_t k = 0; k < own->event_count; k++) {
            struct tutti_event event = own->events[k];

            event.start_ps -= start_ps;
            event.end_ps -= start_ps;
            record->events[record->event_count++] = event;
        }
    }
    return 0;
}

static int host_times(void *loaded, struct tutti_times *times, struct tutti_record *record,
                      struct tutti_err *err)
{
    const struct tutti_execution *execution = loaded;
    uint32_t count = tutti_execution_taken_count(execution);
    tutti_ps start_ps = 0;
    tutti_ps end_ps;

    times->enough = execution->endpoints.crossing.enough;
    if (times->enough || execution->worker_count == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        bounds_of(execution, i, &start_ps, &end_ps);
        times->took_ps[i] = end_ps - start_ps;
    }
    for (uint32_t i = 0; i < execution->worker_count; i++)
        times->step_count += tutti_engine_step_count(execution->workers[i].engine);
    if (execution->opened_ps != NULL)
        times->opened_ns = execution->wait_set.epoch_s * 1000000000 + start_ps / TUTTI_PS_PER_NS;
    return record == NULL ? 0 : add_events(execution, start_ps, record, err);
}

static void host_close(struct tutti_player *base)
{
    struct tutti_host_player *player = (struct tutti_host_player *)base;

    if (player->transport != NULL)
        player->transport->ops->close(player->transport);
    free(player);
}

const struct tutti_player_ops tutti_host_player_ops = {
    .size = sizeof(struct tutti_player_ops),
    .name = "host",
    .close = host_close,
    .load = host_load,
    .connect = host_connect,
    .start = host_start,
    .poll = host_poll,
    .abort = host_abort,
    .times = host_times,
    .unload = host_unload,
};
