/* What an execution needs before the first byte moves, but for threads and other processes. */
#include "runtime/exec/host/execution.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data.h"

/* Where the bytes of a rank are: in memory of this process. */
static void find_buffers(struct tutti_execution *execution, uint32_t own)
{
    struct tutti_thread_stage *stage = &execution->stages[own];

    for (uint32_t buf = 0; buf < TUTTI_BUF_COUNT; buf++)
        stage->bufs[buf] = tutti_handle_address(execution->load.buffers->handles[own][buf]);
    execution->rank_peers[own].out = stage->bufs[TUTTI_BUF_OUT];
}

/* From this size on a result is stored past the cache. Measured (tests/bench/notes.md): in results
 * of 1 to 8 MiB it makes no difference, on a core with 2 MiB of its own; below it costs, above it
 * gains up to 1.8 times, because no line is read that is then overwritten whole. */
static uint64_t large_bytes(void)
{
    enum { OWN_CACHES = 4, OWN_CACHE_BYTES = 2 << 20 };
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return OWN_CACHES * (bytes > 0 ? (uint64_t)bytes : OWN_CACHE_BYTES);
}

static void prepare_rank(struct tutti_execution *execution, const struct tutti_worker *worker,
                         uint32_t rank)
{
    struct tutti_thread_stage *stage = &execution->stages[rank - execution->load.first_rank];

    stage->wait_set = &execution->wait_set;
    stage->rank_peers = execution->rank_peers;
    stage->connections = &execution->connections;
    stage->flow = &tutti_plain_flow;
    stage->remote_writes = &execution->remote_writes;
    stage->schedule = execution->load.schedule;
    stage->engine = worker->engine;
    stage->rank = rank;
    stage->large_bytes = large_bytes();
    find_buffers(execution, rank - execution->load.first_rank);
}

static int prepare_worker(struct tutti_execution *execution, uint32_t number, struct tutti_err *err)
{
    struct tutti_worker *worker = &execution->workers[number];
    uint32_t first =
        tutti_group_first_rank(execution->load.own_count, execution->worker_count, number);
    uint32_t end =
        tutti_group_first_rank(execution->load.own_count, execution->worker_count, number + 1);
    int status;

    worker->execution = execution;
    worker->worker_index = execution->load.first_rank + number;
    worker->first_rank = execution->load.first_rank + first;
    worker->rank_count = end - first;
    worker->stages = &execution->stages[first];
    worker->multiplex = (struct tutti_multiplex){.stages = worker->stages,
                                                 .count = worker->rank_count,
                                                 .worker_index = worker->worker_index};
    if (execution->player->shaper != NULL) {
        worker->stage_ops = &tutti_multiplex_ops;
        worker->stage = &worker->multiplex;
    } else {
        worker->stage_ops = &tutti_thread_stage_ops;
        worker->stage = worker->stages;
    }
    tutti_record_init(&worker->record);
    status = tutti_engine_new(execution->load.schedule, worker->first_rank, worker->rank_count,
                              &worker->engine, err);
    for (uint32_t i = 0; i < worker->rank_count && status == 0; i++)
        prepare_rank(execution, worker, worker->first_rank + i);
    return status;
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Whether a rank's output shares bytes with an input: then what the programs say about who touches
 * which bytes is not all there is to know. */
static bool outputs_shared(const struct tutti_execution *execution)
{
    struct tutti_buf_sizes sizes;

    for (uint32_t i = 0; i < execution->load.own_count; i++) {
        char *const *bufs = execution->stages[i].bufs;

        tutti_schedule_buf_sizes(execution->load.schedule, execution->load.first_rank + i, &sizes);
        if (overlap(bufs[TUTTI_BUF_IN], sizes.in_bytes, bufs[TUTTI_BUF_OUT], sizes.out_bytes))
            return true;
    }
    return false;
}

/* The workers, and what their ranks own. */
static int prepare_workers(struct tutti_execution *execution, struct tutti_err *err)
{
    uint32_t own_count = execution->load.own_count;
    uint32_t processor_count = (uint32_t)CPU_COUNT(&execution->player->processors);
    int status;

    execution->worker_count =
        execution->player->shaper == NULL ? own_count : tutti_emulated_worker_count(execution);
    status = tutti_wait_set_open(&execution->wait_set, execution->worker_count, processor_count,
                                 execution->load.deadline_ps, err);
    if (status < 0)
        return status;
    execution->stages = tutti_lines_alloc(own_count, sizeof(execution->stages[0]));
    execution->workers = tutti_lines_alloc(execution->worker_count, sizeof(execution->workers[0]));
    execution->rank_peers = tutti_lines_alloc(own_count, sizeof(execution->rank_peers[0]));
    if (execution->stages == NULL || execution->workers == NULL || execution->rank_peers == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < execution->worker_count && status == 0; i++)
        status = prepare_worker(execution, i, err);
    return status;
}

int tutti_execution_reserve(struct tutti_execution *execution, uint32_t iteration_count,
                            struct tutti_err *err)
{
    uint32_t count = execution->load.meets ? iteration_count : 1;
    tutti_ps *next;

    if (count <= execution->taken_max)
        return 0;
    next = calloc(2 * (size_t)execution->worker_count + 1, count * sizeof(next[0]));
    if (next == NULL)
        return tutti_nomem(err);
    free(execution->times_ps);
    execution->times_ps = next;
    execution->taken_max = count;
    execution->opened_ps = execution->load.group->count > 1 ? next : NULL;
    for (uint32_t i = 0; i < execution->worker_count; i++) {
        next += count;
        execution->workers[i].arrived_ps = next;
        next += count;
        execution->workers[i].ended_ps = next;
    }
    return 0;
}

/* Works that are really done, and something else that goes on meanwhile. Where a machine is
 * emulated there are as many works to be done at one time as there are ranks, and few threads. */
static int prepare_works(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;
    const struct tutti_load *load = &execution->load;
    const struct tutti_work_threads_opts opts = {
        .wait_set = &execution->wait_set,
        .schedule = load->schedule,
        .first_rank = load->first_rank,
        .own_count = load->own_count,
        .worker_of = execution->worker_of,
        .remote = load->group->count > 1,
        .thread_max =
            player->shaper != NULL ? (uint32_t)CPU_COUNT(&player->processors) : UINT32_MAX,
        .processors = &player->processors,
        .pins = player->pin,
        .pinned_count = execution->host_worker_count,
        .pinned_before = execution->worker_index_first,
    };
    int status = tutti_work_threads_open(&opts, &execution->work_threads, err);

    for (uint32_t i = 0; i < load->own_count && status == 0; i++) {
        execution->stages[i].rank_work = tutti_work_threads_of(execution->work_threads, i);
        execution->stages[i].slowdown = player->slowdown;
    }
    for (uint32_t i = 0; i < execution->worker_count && status == 0; i++)
        execution->workers[i].multiplex.has_works = execution->work_threads != NULL;
    return status;
}

int tutti_execution_prepare(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_load *load = &execution->load;
    int status = prepare_workers(execution, err);

    if (status == 0) /* after the engines: they have refused what this would trip over */
        status = tutti_thread_connections_open(&execution->connections, load->schedule,
                                               load->first_rank, load->own_count, err);
    if (status == 0)
        status = tutti_execution_prepare_processes(execution, err);
    if (status == 0)
        status = tutti_execution_prepare_emulation(execution, err);
    if (status == 0)
        status = prepare_works(execution, err);
    if (status == 0 && !outputs_shared(execution))
        status = tutti_thread_remote_writes_open(&execution->remote_writes, load->schedule,
                                                 &execution->connections, err);
    for (uint32_t i = 0; i < load->own_count && status == 0; i++)
        status = tutti_thread_stage_open(&execution->stages[i], err);
    if (status == 0)
        status = tutti_execution_reserve(execution, load->iterations_max, err);
    return status;
}

void tutti_execution_clear(struct tutti_execution *execution)
{
    tutti_work_threads_close(execution->work_threads);
    tutti_helpers_close(execution->helpers);
    for (uint32_t i = 0; execution->workers != NULL && i < execution->worker_count; i++) {
        struct tutti_worker *worker = &execution->workers[i];

        tutti_engine_free(worker->engine);
        tutti_record_done(&worker->record);
    }
    for (uint32_t i = 0; execution->stages != NULL && i < execution->load.own_count; i++)
        tutti_thread_stage_close(&execution->stages[i]);
    free(execution->workers);
    free(execution->stages);
    free(execution->rank_peers);
    free(execution->times_ps);
    tutti_endpoints_close(&execution->endpoints);
    tutti_thread_remote_writes_close(&execution->remote_writes);
    tutti_pacer_close(execution->pacer);
    free(execution->worker_of);
    tutti_thread_connections_close(&execution->connections);
    tutti_wait_set_close(&execution->wait_set);
}
