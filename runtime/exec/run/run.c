/* A run from its beginning to its end: the threads, which stay from step to step, and what all
 * processes have to agree on so that all begin and end alike. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "runtime/exec/host/execution.h"

static const tutti_ps DEFAULT_DEADLINE_PS = 30 * TUTTI_PS_PER_S;

/* ---- threads ---- */

static void *run_guard(void *data)
{
    enum { LOOK_MS = 100 }; /* a wake that comes just before the wait must not be waited for long */
    struct tutti_execution *execution = data;
    struct tutti_guard *guard = &execution->guard;
    struct tutti_wait_set *wait_set = &execution->wait_set;
    struct tutti_err err;

    while (!atomic_load(&guard->over)) {
        int status =
            tutti_group_wait_stop(execution->host_backend->group, LOOK_MS * TUTTI_PS_PER_MS, &err);

        if (status == 0)
            continue;
        guard->heard = atomic_load(&wait_set->blamed) == 0;
        tutti_wait_set_stop(wait_set, status, &err);
        break;
    }
    return NULL;
}

/* The first worker is at home in the thread that calls. */
static int start_threads(struct tutti_execution *execution, struct tutti_err *err)
{
    int status = 0;

    if (execution->own_count > 0 && execution->host_backend->group->count > 1) {
        status = pthread_create(&execution->guard.thread, NULL, run_guard, execution);
        execution->guard.has_thread = status == 0;
        if (status != 0)
            return tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(status));
    }
    for (uint32_t i = 1; i < execution->worker_count; i++) {
        struct tutti_worker *worker = &execution->workers[i];

        status = pthread_create(&worker->thread, NULL, tutti_worker_run, worker);
        worker->has_thread = status == 0;
        if (status != 0)
            return tutti_fail(err, TUTTI_EIO, "cannot start the thread of rank %u: %s",
                              worker->first_rank, strerror(status));
    }
    return 0;
}

/* Those that wait for a step begin it. */
static void call_workers(struct tutti_execution *execution)
{
    atomic_store(&execution->ended_count, 0);
    atomic_fetch_add(&execution->step_number, 1);
    for (uint32_t i = 1; i < execution->worker_count; i++) {
        if (execution->workers[i].has_thread)
            tutti_wait_set_wake(&execution->wait_set, execution->workers[i].worker_index);
    }
}

/* The run is over, or has been broken off, so that all threads end by themselves. */
static void join_threads(struct tutti_execution *execution)
{
    struct tutti_wait_set *wait_set = &execution->wait_set;

    if (execution->is_joined)
        return;
    execution->is_joined = true;
    atomic_store(&execution->over, true);
    if (execution->workers != NULL)
        call_workers(execution);
    for (uint32_t i = 1; execution->workers != NULL && i < execution->worker_count; i++) {
        if (execution->workers[i].has_thread)
            pthread_join(execution->workers[i].thread, NULL);
    }
    /* Before anything else: the others may be waiting for messages that will not come. A guard
     * may be in the middle of saying why: `stopped` it sets last. */
    if (execution->status < 0 && execution->has_begun && wait_set->transport->ops->stop != NULL)
        wait_set->transport->ops->stop(wait_set->transport);
    atomic_store(&execution->guard.over, true);
    if (execution->guard.has_thread) {
        tutti_group_wake(execution->host_backend->group);
        pthread_join(execution->guard.thread, NULL);
    }
}

/* ---- open and close ---- */

/* One line that is different where the schedules are. */
static void describe(const struct tutti_execution *execution, char *buf, size_t buf_bytes)
{
    const struct tutti_schedule *schedule = execution->schedule;
    const struct tutti_contract *contract = &schedule->contract;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            tutti_cursor_open(&cursor, schedule, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL) {
                uint64_t words[sizeof(*step) / sizeof(uint64_t)];

                memcpy(words, step, sizeof(*step));
                for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                    hash = (hash ^ words[i] ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15);
            }
            hash = (hash ^ lane) * UINT64_C(0x100000001b3);
        }
    }
    snprintf(buf, buf_bytes,
             "%s %s %s %s count %" PRIu64 " root %u on %u ranks, %u lanes, %u slots, %u+%u "
             "iterations%s%s%s, programs %016" PRIx64,
             tutti_collective_name(contract->collective), schedule->name,
             tutti_dtype_name(contract->dtype), tutti_op_name(contract->op), contract->count,
             contract->root, schedule->rank_count, schedule->lane_count, schedule->slot_count,
             execution->play.warmup_count, execution->play.iteration_count,
             !execution->play.barrier      ? ""
             : execution->play.lead_ps > 0 ? " with barriers and a lead"
                                           : " with barriers",
             execution->play.between != NULL ? ", with a hook" : "",
             execution->play.record != NULL ? ", recorded" : "", hash);
}

/* All are ready, and for the same. */
static int begin(struct tutti_execution *execution, int status, struct tutti_err *err)
{
    const struct tutti_host_backend *host_backend = execution->host_backend;
    tutti_ps wait_ps = tutti_wait_set_after(5 * TUTTI_PS_PER_S, execution->deadline_ps);
    char text[512];

    if (host_backend->group->count == 1)
        return status < 0 ? status : start_threads(execution, err);
    describe(execution, text, sizeof(text));
    status = tutti_group_agree(host_backend->group, status, wait_ps, err);
    if (status == 0)
        status = tutti_group_same(host_backend->group, "schedule", text, wait_ps, err);
    if (status == 0 && host_backend->shaper != NULL)
        status = tutti_shared_pacer_open(&execution->shared_pacer, &execution->wait_set,
                                         host_backend->shaper, host_backend->slowdown,
                                         host_backend->group, wait_ps, err);
    if (status < 0)
        return status;
    status = host_backend->transport->ops->begin(host_backend->transport, host_backend->group,
                                                 &execution->plan, err);
    execution->has_begun = status == 0;
    if (status == 0)
        status = start_threads(execution, err);
    return tutti_group_agree(host_backend->group, status, wait_ps, err);
}

int tutti_execution_open(struct tutti_backend *backend, const struct tutti_play *play, void **ret,
                         struct tutti_err *err)
{
    struct tutti_host_backend *host_backend = (struct tutti_host_backend *)backend;
    const struct tutti_group *group = host_backend->group;
    uint32_t rank_count = play->schedule->rank_count;
    uint32_t first_rank = tutti_group_first_rank(rank_count, group->count, group->index);
    struct tutti_execution *execution;

    if (host_backend->has_run)
        return tutti_fail(err, TUTTI_EINVAL, "the backend '%s' has a run open (one at a time)",
                          host_backend->ops.name);
    execution = aligned_alloc(TUTTI_CACHE_LINE, sizeof(*execution));
    if (execution == NULL)
        return group->count == 1 ? tutti_nomem(err)
                                 : tutti_group_agree(host_backend->group, tutti_nomem(err),
                                                     DEFAULT_DEADLINE_PS, err);
    *execution = (struct tutti_execution){
        .host_backend = host_backend,
        .play = *play,
        .schedule = play->schedule,
        .first_rank = first_rank,
        .own_count =
            tutti_group_first_rank(rank_count, group->count, group->index + 1) - first_rank,
        .deadline_ps = play->deadline_ps > 0 ? play->deadline_ps : DEFAULT_DEADLINE_PS,
    };
    host_backend->has_run = true;
    execution->status = begin(execution, tutti_execution_prepare(execution, err), err);
    if (execution->status < 0) {
        int status = execution->status;

        tutti_execution_close(execution);
        return status;
    }
    *ret = execution;
    return 0;
}

void tutti_execution_close(void *data)
{
    struct tutti_execution *execution = data;
    struct tutti_host_backend *host_backend = execution->host_backend;

    join_threads(execution);
    tutti_shared_pacer_close(&execution->shared_pacer); /* while there is somebody to be woken */
    if (execution->has_begun)
        host_backend->transport->ops->end(host_backend->transport, execution->status);
    tutti_execution_clear(execution);
    free(execution);
    host_backend->has_run = false;
}

/* ---- a step ---- */

/* As one of the ranks, this thread is for a while where they are to be. */
static int play_as_first(struct tutti_execution *execution)
{
    struct tutti_worker *worker = &execution->workers[0];
    cpu_set_t before;
    bool pins = execution->host_backend->pin &&
                pthread_getaffinity_np(pthread_self(), sizeof(before), &before) == 0;
    /* Waits for a lead make it shorter. */
    int slack_ns = execution->play.lead_ps > 0 ? prctl(PR_GET_TIMERSLACK) : -1;
    int status;

    if (pins)
        tutti_worker_pin(worker);
    status = tutti_worker_step(worker);
    if (status == 0)
        status = tutti_worker_wait_for_others(worker);
    if (slack_ns >= 0)
        (void)prctl(PR_SET_TIMERSLACK, slack_ns);
    if (pins)
        (void)pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
    return status;
}

static int play_step(struct tutti_execution *execution, struct tutti_err *err)
{
    struct tutti_wait_set *wait_set = &execution->wait_set;
    int status = tutti_execution_reserve(execution, execution->play.iteration_count, err);

    if (status < 0) {
        tutti_wait_set_stop(wait_set, status, err);
    } else if (execution->worker_count > 0) {
        if (atomic_load(&execution->step_number) > 0)
            tutti_wait_set_return(wait_set);
        call_workers(execution);
        status = play_as_first(execution);
    }
    if (status == 0)
        return 0;
    execution->status = status;
    join_threads(execution);
    if (err != NULL) {
        *err = wait_set->err;
        if (execution->guard.heard && atomic_load(&execution->is_broken) != 0) {
            *err = execution->broken;
            (void)tutti_wrap(err, wait_set->status, "%s", wait_set->err.text);
        }
    }
    return wait_set->status;
}

int tutti_execution_step(void *data, uint32_t warmup_count, uint32_t iteration_count,
                         struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_execution *execution = data;
    struct tutti_err own = {""};
    struct tutti_played played = {0};
    int status;

    assert(execution->status >= 0);
    execution->play.warmup_count = warmup_count;
    execution->play.iteration_count = iteration_count;
    status = play_step(execution, &own);
    status = tutti_execution_conclude(execution, status, &played, &own);
    execution->status = status;
    if (status < 0)
        join_threads(execution);
    if (execution->own_count > 0)
        execution->played_count += execution->workers[0].played_count;
    execution->host_backend->lateness = execution->pacer.shared_pacer != NULL
                                            ? execution->shared_pacer.lateness
                                            : execution->pacer.lateness;
    if (status < 0 && err != NULL)
        *err = own;
    if (status >= 0)
        *ret = played;
    return status;
}
