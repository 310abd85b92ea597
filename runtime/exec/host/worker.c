/* What happens in a thread: it waits for the next burst, meets the others before an iteration,
 * plays the programs of its ranks, and takes the times. */
#include <sched.h>

#include "runtime/exec/host/execution.h"

/* The threads of a host take its processors in turn, also when they are of several processes. */
void tutti_worker_pin(const struct tutti_worker *worker)
{
    const struct tutti_execution *execution = worker->execution;
    const cpu_set_t *processors = &execution->player->processors;
    uint32_t worker_index =
        execution->worker_index_first + worker->worker_index - execution->load.first_rank;
    uint32_t skip = worker_index % (uint32_t)CPU_COUNT(processors);
    cpu_set_t one;

    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, processors) || skip-- > 0)
            continue;
        CPU_SET(i, &one);
        break;
    }
    /* Best effort: a processor taken away meanwhile is no reason to fail. */
    (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

/* Somebody found that nobody can go on; the lowest rank inside its program is named. Whoever is
 * inside sleeps, and has published its engine's state by counting itself idle. */
static int explain_deadlock(struct tutti_execution *execution, struct tutti_err *err)
{
    char text[512] = "a rank";

    for (uint32_t i = 0; i < execution->worker_count; i++) {
        if (!atomic_load(&execution->workers[i].playing))
            continue;
        tutti_engine_waiting_for(execution->workers[i].engine, text, sizeof(text));
        break;
    }
    return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s can never finish", text);
}

/* Before iteration `number` of the burst. */
static int meet(struct tutti_worker *worker, uint64_t number, struct tutti_err *err)
{
    struct tutti_execution *execution = worker->execution;
    struct tutti_wait_set *wait_set = &execution->wait_set;
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status;

    if (number > 0)
        tutti_pacer_end(execution->pacer, worker->worker_index);
    worker->generation++;
    err->text[0] = '\0';
    status = wait_set->transport == NULL ? tutti_wait_set_barrier(wait_set, worker->worker_index)
                                         : tutti_crossing_meet(&execution->endpoints.crossing,
                                                               wait_set, worker->worker_index, err);
    if (status < 0 && err->text[0] != '\0')
        return tutti_wrap(err, status, "rank %u, before an iteration", worker->first_rank);
    if (status == -TUTTI_ECHECK)
        return explain_deadlock(execution, err);
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: rank %u waits for the others before an iteration",
                          tutti_print_time(wait_set->deadline_ps, time), worker->first_rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u before an iteration",
                          worker->first_rank);
    return 0;
}

static int play_once(struct tutti_worker *worker, bool last, struct tutti_err *err)
{
    bool recorded = last && worker->execution->burst.recorded;
    int status;

    err->text[0] = '\0';
    status =
        tutti_pacer_begin(worker->execution->pacer, worker->worker_index, worker->generation, err);
    if (status < 0 && err->text[0] != '\0')
        return tutti_wrap(err, status, "rank %u has not begun", worker->first_rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u has not begun", worker->first_rank);
    for (uint32_t i = 0; i < worker->rank_count; i++) {
        worker->stages[i].timed = recorded;
        tutti_thread_stage_begin(&worker->stages[i]);
    }
    tutti_record_clear(&worker->record);
    atomic_store(&worker->playing, true);
    status = tutti_engine_run(worker->engine, worker->stage_ops, worker->stage,
                              recorded ? &worker->record : NULL, err);
    atomic_store(&worker->playing, false);
    for (uint32_t i = 0; i < worker->rank_count && status == 0; i++)
        status = tutti_thread_stage_settle(&worker->stages[i], err);
    return status;
}

/* The first rank is the one that knows when those of other processes were there. */
static void note_opening(const struct tutti_worker *worker, uint64_t taken, tutti_ps opened_ps)
{
    struct tutti_execution *execution = worker->execution;

    if (execution->opened_ps != NULL && worker->worker_index == execution->load.first_rank)
        execution->opened_ps[taken] = opened_ps;
}

static int play_all(struct tutti_worker *worker, struct tutti_err *err)
{
    struct tutti_execution *execution = worker->execution;
    const struct tutti_wait_set *wait_set = &execution->wait_set;
    const struct tutti_burst *burst = &execution->burst;
    uint64_t total = (uint64_t)burst->warmup_count + burst->iteration_count;
    bool meets = execution->load.meets;
    int status = 0;

    for (uint64_t i = 0; i < total && status == 0; i++) {
        bool timed = i >= burst->warmup_count;
        uint64_t taken = timed && meets ? i - burst->warmup_count : 0;

        if (timed && (meets || i == burst->warmup_count))
            worker->arrived_ps[taken] = tutti_wait_set_now(wait_set);
        if (meets || i == 0 || i == burst->warmup_count) {
            status = meet(worker, i, err);
            note_opening(worker, taken, tutti_wait_set_now(wait_set));
            if (status == 0 && execution->endpoints.crossing.enough)
                return 0;
        }
        if (status == 0)
            status = play_once(worker, i + 1 == total, err);
        /* Emulated, there is one clock for all processes. */
        if (status == 0 && execution->pacer != NULL)
            note_opening(worker, taken, execution->pacer->ops->epoch(execution->pacer));
        if (timed && (meets || i + 1 == total))
            worker->ended_ps[taken] = tutti_wait_set_now(wait_set);
    }
    if (status == 0)
        tutti_pacer_end(execution->pacer, worker->worker_index);
    return status;
}

static int break_off(struct tutti_worker *worker, int status, const struct tutti_err *err)
{
    struct tutti_execution *execution = worker->execution;

    if (status == -TUTTI_EIO && atomic_exchange(&execution->is_broken, 1) == 0)
        execution->broken = *err;
    tutti_wait_set_stop(&execution->wait_set, status, err);
    tutti_pacer_break_off(execution->pacer);
    return status;
}

int tutti_worker_play(struct tutti_worker *worker)
{
    struct tutti_err err;
    int status = play_all(worker, &err);

    if (status == 0 && tutti_wait_set_leave(&worker->execution->wait_set) < 0)
        status = explain_deadlock(worker->execution, &err);
    if (status == 0)
        return 0;
    break_off(worker, status, &err);
    for (uint32_t i = 0; i < worker->rank_count; i++)
        tutti_thread_stage_withdraw_work(&worker->stages[i]);
    return status;
}

/* ---- between ---- */

/* Another look at what the worker waits for, with rest before it. Messages of other processes may
 * come early, and are taken as they come. */
static int rest(struct tutti_worker *worker, struct tutti_backoff *backoff)
{
    struct tutti_wait_set *wait_set = &worker->execution->wait_set;
    struct tutti_err err;
    int status = tutti_wait_set_move(wait_set, worker->worker_index, &err);

    if (status > 0)
        tutti_wait_set_resume(wait_set, worker->worker_index, backoff);
    if (status >= 0)
        return status > 0 ? 0 : tutti_wait_set_idle(wait_set, worker->worker_index, backoff);
    (void)tutti_wrap(&err, status, "rank %u, after an iteration", worker->first_rank);
    return break_off(worker, status, &err);
}

int tutti_worker_wait_for_others(struct tutti_worker *worker)
{
    struct tutti_execution *execution = worker->execution;
    struct tutti_backoff backoff = {0};
    int status = 0;

    while (status == 0 && atomic_load(&execution->ended_count) + 1 < execution->worker_count)
        status = rest(worker, &backoff);
    tutti_wait_set_resume(&execution->wait_set, worker->worker_index, &backoff);
    return status;
}

/* Whether there is another burst after `number` of them. */
static bool await_burst(struct tutti_worker *worker, unsigned number)
{
    struct tutti_execution *execution = worker->execution;
    struct tutti_backoff backoff = {0};
    int status = 0;

    while (status == 0 && atomic_load(&execution->burst_number) == number)
        status = rest(worker, &backoff);
    tutti_wait_set_resume(&execution->wait_set, worker->worker_index, &backoff);
    return status == 0 && !atomic_load(&execution->over);
}

void *tutti_worker_run(void *data)
{
    struct tutti_worker *worker = data;
    struct tutti_execution *execution = worker->execution;

    if (execution->player->pin)
        tutti_worker_pin(worker);
    for (unsigned number = 0; await_burst(worker, number); number++) {
        if (tutti_worker_play(worker) < 0)
            break;
        if (atomic_fetch_add(&execution->ended_count, 1) + 2 == execution->worker_count)
            tutti_wait_set_wake(&execution->wait_set, execution->workers[0].worker_index);
    }
    return NULL;
}
