/* What happens in a thread: it meets the others, plays the programs of its ranks, and takes the
 * times. */
#include <sched.h>

#include "runtime/exec/threads/execution.h"

/* The threads of a host take its processors in turn, also when they are of several processes. */
static void pin_to(const struct tutti_execution *execution, uint32_t number)
{
    const cpu_set_t *processors = &execution->host_backend->processors;
    uint32_t worker_index = execution->worker_index_first + number - execution->first_rank;
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

/* Before iteration `number`. */
static int meet(struct tutti_worker *worker, uint64_t number, struct tutti_err *err)
{
    struct tutti_pacer *pacer = worker->stages[0].pacer;
    struct tutti_execution *execution = worker->execution;
    struct tutti_wait_set *wait_set = &execution->wait_set;
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status;

    if (pacer != NULL && number > 0)
        tutti_pacer_end(pacer, worker->worker_index);
    err->text[0] = '\0';
    status = wait_set->transport == NULL ? tutti_wait_set_barrier(wait_set, worker->worker_index)
                                         : tutti_crossing_meet(&execution->endpoints.crossing,
                                                               wait_set, worker->worker_index, err);
    if (status == -TUTTI_ECHECK)
        return explain_deadlock(execution, err);
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: rank %u waits for the others before an iteration",
                          tutti_print_time(wait_set->deadline_ps, time), worker->first_rank);
    if (status < 0 && err->text[0] != '\0')
        return tutti_wrap(err, status, "rank %u, before an iteration", worker->first_rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u before an iteration",
                          worker->first_rank);
    return 0;
}

/* `generation` counts the times that the ranks have met. */
static int play_once(struct tutti_worker *worker, bool last, uint64_t generation,
                     struct tutti_err *err)
{
    bool recorded = last && worker->execution->play->record != NULL;
    struct tutti_pacer *pacer = worker->stages[0].pacer;
    int status = 0;

    err->text[0] = '\0';
    if (pacer != NULL)
        status = tutti_pacer_begin(pacer, worker->worker_index, generation, err);
    if (status < 0 && err->text[0] != '\0')
        return tutti_wrap(err, status, "rank %u has not begun", worker->first_rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u has not begun", worker->first_rank);
    for (uint32_t i = 0; i < worker->rank_count; i++) {
        worker->stages[i].timed = recorded;
        tutti_thread_stage_begin(&worker->stages[i]);
    }
    atomic_store(&worker->playing, true);
    status = tutti_engine_run(worker->engine,
                              pacer != NULL ? &tutti_multiplex_ops : &tutti_thread_stage_ops,
                              pacer != NULL ? (void *)&worker->multiplex : &worker->stages[0],
                              recorded ? &worker->record : NULL, err);
    atomic_store(&worker->playing, false);
    for (uint32_t i = 0; i < worker->rank_count && status == 0; i++)
        status = tutti_thread_stage_settle(&worker->stages[i], err);
    return status;
}

static int play_all(struct tutti_worker *worker, struct tutti_err *err)
{
    struct tutti_execution *execution = worker->execution;
    const struct tutti_play *play = execution->play;
    uint64_t total = (uint64_t)play->warmup_count + play->iteration_count;
    uint64_t generation = 0;
    int status = 0;

    for (uint64_t i = 0; i < total && status == 0; i++) {
        bool timed = i >= play->warmup_count;
        uint64_t taken = timed && play->barrier ? i - play->warmup_count : 0;

        if (timed && (play->barrier || i == play->warmup_count))
            worker->arrived_ps[taken] = tutti_wait_set_now(&execution->wait_set);
        if (play->barrier || i == 0 || i == play->warmup_count) {
            status = meet(worker, i, err);
            generation++;
            /* The first rank is the one that knows when the others were there. */
            if (execution->opened_ps != NULL && worker->worker_index == execution->first_rank)
                execution->opened_ps[taken] = tutti_wait_set_now(&execution->wait_set);
        }
        if (status == 0)
            status = play_once(worker, i + 1 == total, generation, err);
        /* Emulated, there is one clock for all processes. */
        if (status == 0 && execution->opened_ps != NULL && worker->stages[0].pacer != NULL &&
            worker->worker_index == execution->first_rank)
            execution->opened_ps[play->barrier ? taken : 0] =
                tutti_pacer_epoch(worker->stages[0].pacer);
        if (timed && (play->barrier || i + 1 == total))
            worker->ended_ps[taken] = tutti_wait_set_now(&execution->wait_set);
    }
    if (status == 0 && worker->stages[0].pacer != NULL)
        tutti_pacer_end(worker->stages[0].pacer, worker->worker_index);
    return status;
}

void *tutti_worker_run(void *data)
{
    struct tutti_worker *worker = data;
    struct tutti_execution *execution = worker->execution;
    struct tutti_err err;
    int status;

    if (execution->host_backend->pin)
        pin_to(execution, worker->worker_index);
    status = play_all(worker, &err);
    if (status == 0 && tutti_wait_set_leave(&execution->wait_set) < 0)
        status = explain_deadlock(execution, &err);
    if (status == -TUTTI_EIO && atomic_exchange(&execution->is_broken, 1) == 0)
        execution->broken = err;
    if (status < 0)
        tutti_wait_set_stop(&execution->wait_set, status, &err);
    if (status < 0 && execution->pacer.shared_pacer != NULL)
        tutti_shared_pacer_break(&execution->shared_pacer);
    return NULL;
}
