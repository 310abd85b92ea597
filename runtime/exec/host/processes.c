/* What an execution needs where other processes play with it; nothing of this is there alone. */
#include <unistd.h>

#include "runtime/exec/host/execution.h"

/* Threads of this host: how many there are, and how many of them come before ours. */
static uint32_t count_workers(struct tutti_execution *execution)
{
    const struct tutti_load *load = &execution->load;
    uint32_t rank_count = load->schedule->rank_count;
    uint32_t all_count = 0;

    for (uint32_t i = 0; i < load->group->count; i++) {
        uint32_t count = tutti_group_first_rank(rank_count, load->group->count, i + 1) -
                         tutti_group_first_rank(rank_count, load->group->count, i);

        if (execution->player->shaper != NULL) /* one thread plays them all */
            count = count > 0;
        if (load->homes[i].host != load->homes[load->group->index].host)
            continue;
        if (i < load->group->index)
            execution->worker_index_first += count;
        all_count += count;
    }
    return all_count;
}

/* Emulated, messages are done by another clock than the transport's. */
static void mark_near(struct tutti_execution *execution)
{
    const struct tutti_load *load = &execution->load;
    const struct tutti_home *mine = &load->homes[load->group->index];

    for (uint32_t i = 0; i < execution->endpoints.endpoint_count; i++) {
        struct tutti_endpoint *endpoint = &execution->endpoints.endpoints[i];
        const struct tutti_home *home = &load->homes[tutti_group_of_rank(
            load->schedule->rank_count, load->group->count, endpoint->peer)];

        endpoint->near = execution->player->shaper == NULL && mine->network != 0 &&
                         home->host == mine->host && home->network == mine->network;
    }
}

/* A lead needs a clock that all processes have. */
static int check_lead(const struct tutti_load *load, struct tutti_err *err)
{
    for (uint32_t i = 1; i < load->group->count; i++) {
        if (load->lead_ps > 0 && load->homes[i].host != load->homes[0].host)
            return tutti_fail(err, TUTTI_EINVAL,
                              "process %u is on another host than process 0: only processes of "
                              "one host can begin at one moment",
                              i);
    }
    return 0;
}

int tutti_execution_prepare_processes(struct tutti_execution *execution, struct tutti_err *err)
{
    const struct tutti_host_player *player = execution->player;
    const struct tutti_load *load = &execution->load;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    bool crowded;
    int status;

    execution->host_worker_count = execution->worker_count;
    if (load->group->count == 1)
        return 0;
    execution->host_worker_count = count_workers(execution);
    crowded = execution->host_worker_count > (uint32_t)(online > 0 ? online : INT32_MAX) ||
              execution->worker_count > (uint32_t)CPU_COUNT(&player->processors);
    status = tutti_endpoints_open(&execution->endpoints, &execution->connections, load->schedule,
                                  load->group, load->lead_ps, load->hooked, err);
    if (status == 0)
        status = check_lead(load, err);
    if (status < 0)
        return status;
    mark_near(execution);
    execution->plan = (struct tutti_transport_plan){
        .rank_count = load->schedule->rank_count,
        .first_rank = load->first_rank,
        .own_count = load->own_count,
        .endpoint_count = execution->endpoints.endpoint_count,
        .endpoints = execution->endpoints.endpoints,
        .crowded = crowded,
        .together = player->shaper != NULL,
        .deadline_ps = load->deadline_ps,
    };
    tutti_wait_set_connect(&execution->wait_set, player->transport, load->first_rank, crowded);
    return 0;
}
