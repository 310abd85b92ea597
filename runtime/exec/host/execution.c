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

/* Another machine is emulated, so that a thread may play several ranks. */
static bool is_multiplex(const struct tutti_host_player *player)
{
    return player->shaper != NULL;
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

/* As large_bytes, where this thread plays ranks in turns: when it comes back to one, the others'
 * bytes have gone through the cache. Measured likewise: messages of 16 KiB and of 2 MiB of 16 ranks
 * that hold 128 MiB are moved and added in 0.9 times the time past the cache. */
static uint64_t large_together(const struct tutti_execution *execution)
{
    enum { CACHE_BYTES = 32 << 20, STREAMED_BYTES_MIN = 4 << 10 };
    const struct tutti_schedule *schedule = execution->load.schedule;
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    double held =
        ((double)schedule->in_bytes + (double)schedule->out_bytes) * execution->load.own_count;

    return held >= (double)(bytes > 0 ? bytes : CACHE_BYTES) ? STREAMED_BYTES_MIN : large_bytes();
}

static void prepare_rank(struct tutti_execution *execution, const struct tutti_worker *worker,
                         uint32_t rank)
{
    struct tutti_thread_stage *stage = &execution->stages[rank - execution->load.first_rank];

    stage->wait_set = &execution->wait_set;
    stage->rank_peers = execution->rank_peers;
    stage->connections = &execution->connections;
    stage->pacer = execution->player->shaper != NULL ? &execution->pacer : NULL;
    stage->remote_writes = &execution->remote_writes;
    stage->schedule = execution->load.schedule;
    stage->engine = worker->engine;
    stage->rank = rank;
    stage->large_bytes =
        is_multiplex(execution->player) ? large_together(execution) : large_bytes();
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

/* Threads of this host: how many there are, and how many of them come before ours. */
static void count_workers(struct tutti_execution *execution, uint32_t *ret_count)
{
    const struct tutti_host_player *player = execution->player;
    const struct tutti_group *group = execution->load.group;
    uint32_t rank_count = execution->load.schedule->rank_count;

    *ret_count = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t count = tutti_group_first_rank(rank_count, group->count, i + 1) -
                         tutti_group_first_rank(rank_count, group->count, i);

        if (is_multiplex(player))
            count = count > 0;
        if (group->count > 1 &&
            execution->load.homes[i].host != execution->load.homes[group->index].host)
            continue;
        if (i < group->index)
            execution->worker_index_first += count;
        *ret_count += count;
    }
}

/* Emulated, messages are done by another clock than the transport's. */
static void mark_near(struct tutti_execution *execution)
{
    const struct tutti_host_player *player = execution->player;
    const struct tutti_home *mine = &execution->load.homes[execution->load.group->index];

    for (uint32_t i = 0; i < execution->endpoints.endpoint_count; i++) {
        struct tutti_endpoint *endpoint = &execution->endpoints.endpoints[i];
        const struct tutti_home *home = &execution->load.homes[tutti_group_of_rank(
            execution->load.schedule->rank_count, execution->load.group->count, endpoint->peer)];

        endpoint->near = player->shaper == NULL && mine->network != 0 && home->host == mine->host &&
                         home->network == mine->network;
    }
}

/* What the ranks of this process have to know of those of others. */
static int prepare_endpoints(struct tutti_execution *execution, uint32_t all_count,
                             struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    bool crowded = execution->worker_count > (uint32_t)CPU_COUNT(&player->processors) ||
                   (online > 0 && all_count > (uint32_t)online);
    int status = tutti_endpoints_open(&execution->endpoints, &execution->connections,
                                      execution->load.schedule, execution->load.group,
                                      execution->load.lead_ps, execution->load.hooked, err);

    for (uint32_t i = 1; i < execution->load.group->count && status == 0; i++) {
        if (execution->load.lead_ps > 0 &&
            execution->load.homes[i].host != execution->load.homes[0].host)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "process %u is on another host than process 0: only processes of "
                                "one host can begin at one moment",
                                i);
    }
    if (status < 0)
        return status;
    mark_near(execution);
    execution->plan = (struct tutti_transport_plan){
        .rank_count = execution->load.schedule->rank_count,
        .first_rank = execution->load.first_rank,
        .own_count = execution->load.own_count,
        .endpoint_count = execution->endpoints.endpoint_count,
        .endpoints = execution->endpoints.endpoints,
        .crowded = crowded,
        .together = is_multiplex(player),
        .deadline_ps = execution->load.deadline_ps,
    };
    tutti_wait_set_connect(&execution->wait_set, player->transport, execution->load.first_rank,
                           crowded);
    return 0;
}

static int open_pacer(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;
    bool spins = execution->worker_count <= (uint32_t)CPU_COUNT(&player->processors);
    int status = tutti_pacer_open(&execution->pacer, &execution->wait_set, &execution->connections,
                                  player->shaper, player->slowdown, spins, err);

    for (uint32_t i = 0; i < execution->worker_count && status == 0; i++) {
        const struct tutti_worker *worker = &execution->workers[i];

        for (uint32_t k = 0; k < worker->rank_count; k++)
            execution->pacer.worker_of[worker->first_rank + k] = worker->worker_index;
    }
    return status;
}

/* Another machine is emulated by several processes, which must share memory for that. */
static int prepare_shared_pacer(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;

    for (uint32_t i = 1; i < execution->load.group->count; i++) {
        if (execution->load.homes[i].host != execution->load.homes[0].host)
            return tutti_fail(err, TUTTI_ELACK,
                              "process %u is on another host than process 0: only processes of "
                              "one host can emulate a machine",
                              i);
    }
    if (execution->load.group->count > TUTTI_SHARED_PACER_PROCESSES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "%u processes emulate a machine (at most %d)",
                          execution->load.group->count, TUTTI_SHARED_PACER_PROCESSES_MAX);
    execution->pacer.shared_pacer = &execution->shared_pacer;
    execution->pacer.shaper = player->shaper;
    return tutti_shared_pacer_prepare(&execution->shared_pacer, &execution->connections,
                                      execution->load.schedule, err);
}

/* Where one thread plays all ranks, the other processors help it. */
static int prepare_helpers(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;
    uint32_t processor_count = (uint32_t)CPU_COUNT(&player->processors);
    uint32_t rank_count = execution->load.own_count;
    uint32_t count = (processor_count < rank_count ? processor_count : rank_count) - 1;
    int status;

    if (!is_multiplex(player) || execution->load.group->count > 1 || player->thread_count > 0 ||
        count == 0)
        return 0;
    status = tutti_helpers_open(&execution->wait_set, rank_count, count, &execution->helpers, err);
    for (uint32_t i = 0; i < rank_count; i++)
        execution->stages[i].helpers = execution->helpers;
    return status;
}

/* The threads, and what their ranks own. */
static int prepare_workers(struct tutti_execution *execution, struct tutti_err *err)
{
    uint32_t own_count = execution->load.own_count;
    const struct tutti_host_player *player = execution->player;
    uint32_t processor_count = (uint32_t)CPU_COUNT(&player->processors);
    int status;

    execution->worker_count = own_count;
    if (is_multiplex(player) && (execution->load.group->count > 1 || player->thread_count == 0))
        execution->worker_count = own_count > 0;
    else if (is_multiplex(player) && player->thread_count < own_count)
        execution->worker_count = player->thread_count;
    status = tutti_wait_set_open(&execution->wait_set, execution->worker_count, processor_count,
                                 execution->load.deadline_ps, err);
    if (status < 0)
        return status;
    execution->stages = calloc((size_t)own_count + 1, sizeof(execution->stages[0]));
    execution->workers = calloc((size_t)execution->worker_count + 1, sizeof(execution->workers[0]));
    execution->rank_peers =
        aligned_alloc(TUTTI_CACHE_LINE, ((size_t)own_count + 1) * sizeof(execution->rank_peers[0]));
    if (execution->stages == NULL || execution->workers == NULL || execution->rank_peers == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < own_count; i++)
        execution->rank_peers[i] = (struct tutti_rank_peer){0};
    for (uint32_t i = 0; i < execution->worker_count && status == 0; i++)
        status = prepare_worker(execution, i, err);
    if (status == 0)
        status = prepare_helpers(execution, err);
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

int tutti_execution_prepare(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;
    uint32_t own_count = execution->load.own_count;
    uint32_t all_count;
    int status;

    count_workers(execution, &all_count);
    status = prepare_workers(execution, err);
    if (status == 0) /* after the engines: they have refused what this would trip over */
        status = tutti_thread_connections_open(&execution->connections, execution->load.schedule,
                                               execution->load.first_rank, own_count, err);
    if (status == 0 && execution->load.group->count > 1)
        status = prepare_endpoints(execution, all_count, err);
    if (status == 0 && player->shaper != NULL && execution->load.group->count > 1)
        status = prepare_shared_pacer(execution, err);
    else if (status == 0 && player->shaper != NULL)
        status = open_pacer(execution, err);
    if (status == 0 && !outputs_shared(execution))
        status = tutti_thread_remote_writes_open(
            &execution->remote_writes, execution->load.schedule, &execution->connections, err);
    for (uint32_t i = 0; i < own_count && status == 0; i++)
        status = tutti_thread_stage_open(&execution->stages[i], err);
    if (status == 0)
        status = tutti_execution_reserve(execution, execution->load.iterations_max, err);
    return status;
}

void tutti_execution_clear(struct tutti_execution *execution)
{
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
    tutti_pacer_close(&execution->pacer);
    tutti_thread_connections_close(&execution->connections);
    tutti_wait_set_close(&execution->wait_set);
}
