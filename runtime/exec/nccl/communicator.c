/* GPUs and communicators: which rank has which GPU, and how the ranks of all processes are
 * connected. */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/exec/nccl/ranks.h"
#include "runtime/group.h"

#define CALL(LIBRARY, FIELD, ...) \
    tutti_nccl_check(LIBRARY, (LIBRARY)->FIELD(__VA_ARGS__), "nccl " #FIELD, err)

int64_t tutti_nccl_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- GPUs ---- */

/* Ranks of this host up to those of this process, and all of them. */
static void count_host(const struct tutti_load *load, uint32_t *ret_before, uint32_t *ret_all)
{
    uint32_t processes = load->group->count;
    uint32_t ranks = load->schedule->rank_count;

    *ret_before = 0;
    *ret_all = 0;
    for (uint32_t i = 0; i < processes; i++) {
        uint32_t own = tutti_group_first_rank(ranks, processes, i + 1) -
                       tutti_group_first_rank(ranks, processes, i);

        if (load->homes[i].host != load->homes[load->group->index].host)
            continue;
        *ret_before += i < load->group->index ? own : 0;
        *ret_all += own;
    }
}

/* What NCCL is to know, unless it is set: that each process is a host of its own, which others
 * reach through sockets; and that its kernels are small. */
static void pretend_hosts(const struct tutti_nccl_player *player, bool one_host)
{
    static const char *const pairs[][2] = {{"NCCL_NET", "Socket"},     {"NCCL_IB_DISABLE", "1"},
                                           {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_RAS_ENABLE", "0"},
                                           {"NCCL_NVLS_ENABLE", "0"},  {"NCCL_MAX_NCHANNELS", "2"}};
    char host[32];

    (void)snprintf(host, sizeof(host), "tutti-%u", player->first_rank);
    (void)setenv("NCCL_HOSTID", host, 0);
    if (one_host)
        (void)setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        (void)setenv(pairs[i][0], pairs[i][1], 0);
}

static bool is_one_host(const struct tutti_load *load)
{
    for (uint32_t i = 1; i < load->group->count; i++)
        if (load->homes[i].host != load->homes[0].host)
            return false;
    return true;
}

static int check_sharing(struct tutti_nccl_player *player, const struct tutti_load *load,
                         uint32_t gpu_count, uint32_t host_ranks, struct tutti_err *err)
{
    int code = player->library.code;

    player->shares = host_ranks > gpu_count;
    if (load->own_count > gpu_count && code < TUTTI_NCCL_SHARES_FROM)
        return tutti_fail(err, TUTTI_ELACK,
                          "%u ranks in a process with %u GPU%s: NCCL %d.%d.%d wants one each "
                          "(--launch %u: a process a rank, which take turns)",
                          load->own_count, gpu_count, gpu_count == 1 ? "" : "s", code / 10000,
                          code / 100 % 100, code % 100, load->schedule->rank_count);
    if (load->own_count > gpu_count)
        (void)setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    else if (player->shares)
        pretend_hosts(player, is_one_host(load));
    return 0;
}

static int open_gpus(struct tutti_nccl_player *player, uint32_t before, uint32_t gpu_count,
                     struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < player->own_count && status == 0; i++) {
        player->ranks[i].rank = player->first_rank + i;
        status = tutti_gpu_open(&player->ranks[i].gpu, NULL, (before + i) % gpu_count, err);
    }
    return status;
}

int tutti_nccl_ranks_open(struct tutti_nccl_player *player, const struct tutti_load *load,
                          struct tutti_err *err)
{
    uint32_t gpu_count = 0;
    uint32_t before;
    uint32_t all;
    int status;

    if (player->ranks != NULL && player->rank_count == load->schedule->rank_count &&
        player->first_rank == load->first_rank && player->own_count == load->own_count)
        return 0;
    tutti_nccl_ranks_close(player);
    status = tutti_nccl_gpu_count(&gpu_count, err);
    if (status < 0)
        return status;
    player->ranks = calloc((size_t)load->own_count + 1, sizeof(player->ranks[0]));
    if (player->ranks == NULL)
        return tutti_nomem(err);
    player->own_count = load->own_count;
    player->first_rank = load->first_rank;
    player->rank_count = load->schedule->rank_count;
    count_host(load, &before, &all);
    status = check_sharing(player, load, gpu_count, all, err);
    if (status == 0)
        status = open_gpus(player, before, gpu_count, err);
    if (status < 0)
        tutti_nccl_ranks_close(player);
    return status;
}

/* ---- communicators ---- */

/* Those of axes, and then that of all ranks, too. */
static void end_each(struct tutti_nccl_player *player, bool all, int (*end)(void *comm))
{
    for (uint32_t i = 0; i < player->own_count; i++) {
        struct tutti_nccl_rank *rank = &player->ranks[i];

        for (uint32_t k = 0; rank->groups != NULL && k < player->axis_count; k++)
            if (rank->groups[k] != NULL)
                (void)end(rank->groups[k]);
        free(rank->groups);
        rank->groups = NULL;
        if (all && rank->comm != NULL)
            (void)end(rank->comm);
        rank->comm = all ? NULL : rank->comm;
    }
    free(player->axes);
    player->axes = NULL;
    player->axis_count = 0;
}

void tutti_nccl_abort(struct tutti_nccl_player *player)
{
    end_each(player, true, player->library.cancel);
    player->connected = false;
}

static bool is_well(const struct tutti_nccl_library *library, void *comm, bool *settled)
{
    int state = TUTTI_NCCL_SUCCESS;

    if (comm != NULL && library->async_error(comm, &state) != TUTTI_NCCL_SUCCESS)
        return false;
    *settled = *settled && state == TUTTI_NCCL_SUCCESS;
    return state == TUTTI_NCCL_SUCCESS || state == TUTTI_NCCL_IN_PROGRESS;
}

/* Until the calls behind the last one have come to their end; false: not in time, or not well. */
static bool is_settled(struct tutti_nccl_player *player, tutti_ps limit_ps)
{
    int64_t until_ns = tutti_nccl_now_ns() + limit_ps / TUTTI_PS_PER_NS;
    bool settled = false;

    while (!settled && tutti_nccl_now_ns() < until_ns) {
        settled = true;
        for (uint32_t i = 0; i < player->own_count; i++) {
            const struct tutti_nccl_rank *rank = &player->ranks[i];

            if (!is_well(&player->library, rank->comm, &settled))
                return false;
            for (uint32_t k = 0; k < player->axis_count; k++)
                if (!is_well(&player->library, rank->groups[k], &settled))
                    return false;
        }
    }
    return settled;
}

static bool finalize(const struct tutti_nccl_library *library, void *comm)
{
    int result = comm == NULL ? TUTTI_NCCL_SUCCESS : library->finalize(comm);

    return result == TUTTI_NCCL_SUCCESS || result == TUTTI_NCCL_IN_PROGRESS;
}

/* Ends them in peace if the others do so too, else by force. */
static void disconnect(struct tutti_nccl_player *player, bool all)
{
    struct tutti_nccl_library *library = &player->library;
    bool well = player->connected;

    if (player->connected && !player->blocks) {
        for (uint32_t i = 0; i < player->own_count; i++) {
            for (uint32_t k = 0; k < player->axis_count; k++)
                well = finalize(library, player->ranks[i].groups[k]) && well;
            if (all)
                well = finalize(library, player->ranks[i].comm) && well;
        }
        well = well && is_settled(player, 3 * TUTTI_PS_PER_S);
    }
    if (well)
        end_each(player, all, library->destroy);
    if (!well || all)
        tutti_nccl_abort(player);
}

void tutti_nccl_leave_axes(struct tutti_nccl_player *player)
{
    if (player->axis_count > 0)
        disconnect(player, false);
}

void tutti_nccl_ranks_close(struct tutti_nccl_player *player)
{
    if (player->ranks != NULL)
        disconnect(player, true);
    for (uint32_t i = 0; i < player->own_count; i++) {
        if (player->ranks[i].gpu.context != NULL)
            (void)tutti_gpu_enter(&player->ranks[i].gpu, NULL);
        tutti_gpu_close(&player->ranks[i].gpu);
    }
    free(player->ranks);
    player->ranks = NULL;
    player->own_count = 0;
}

struct tutti_nccl_config tutti_nccl_config_of(const struct tutti_nccl_player *player)
{
    return (struct tutti_nccl_config){.size = sizeof(struct tutti_nccl_config),
                                      .magic = TUTTI_NCCL_CONFIG_MAGIC,
                                      .version = TUTTI_NCCL_CONFIG_VERSION,
                                      .blocking = player->blocks,
                                      .cga_cluster_size = INT_MIN,
                                      .ctas_min = INT_MIN,
                                      .ctas_max = INT_MIN,
                                      .split_share = INT_MIN};
}

static int begin(struct tutti_nccl_player *player, const struct tutti_nccl_id *id,
                 struct tutti_err *err)
{
    struct tutti_nccl_library *library = &player->library;
    int status = tutti_nccl_group_begin(library, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < player->own_count && status == 0; i++) {
        struct tutti_nccl_config config = tutti_nccl_config_of(player);

        status = tutti_gpu_enter(&player->ranks[i].gpu, err);
        if (status == 0)
            status = CALL(library, init, &player->ranks[i].comm, (int)player->rank_count, *id,
                          (int)player->ranks[i].rank, &config);
    }
    return tutti_nccl_group_end(library, status, err);
}

/* A process that is ready, and what process 0 says. */
struct ready {
    int32_t status;
    int32_t connected;
    struct tutti_nccl_id id;
};

static int share_id(struct tutti_nccl_loaded *run, struct tutti_nccl_id *id, bool *ret_connected,
                    struct tutti_err *err)
{
    struct tutti_nccl_player *player = run->player;
    struct tutti_group *group = run->load.group;
    struct ready mine = {.connected = player->connected};
    struct ready *all = calloc(group->count, sizeof(*all));
    int status = all == NULL ? tutti_nomem(err) : 0;

    if (status == 0 && group->index == 0)
        status = CALL(&player->library, unique_id, &mine.id);
    if (group->count > 1)
        status = tutti_group_agree(group, status, run->load.deadline_ps, err);
    if (status == 0 && group->count > 1)
        status = tutti_group_exchange(group, &mine, sizeof(mine), all, run->load.deadline_ps, err);
    else if (status == 0)
        all[0] = mine;
    *ret_connected = status == 0;
    for (uint32_t i = 0; status == 0 && i < group->count; i++)
        *ret_connected = *ret_connected && all[i].connected != 0;
    if (status == 0)
        *id = all[0].id;
    free(all);
    return status;
}

int tutti_nccl_connect(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    struct tutti_nccl_player *player = run->player;
    struct tutti_group *group = run->load.group;
    struct tutti_nccl_id id = {{0}};
    bool connected = player->connected;
    int status;

    if (group->count == 1 && connected)
        return 0;
    status = share_id(run, &id, &connected, err);
    if (status < 0 || connected)
        return status;
    tutti_nccl_abort(player);
    player->blocks = group->count == 1;
    if (player->own_count > 0)
        status = begin(player, &id, err);
    if (status == 0)
        status = tutti_nccl_settle(run, TUTTI_NCCL_CONNECTING, err);
    if (group->count > 1)
        status = tutti_group_agree(group, status, run->load.deadline_ps, err);
    if (status < 0)
        tutti_nccl_abort(player);
    else
        player->connected = true;
    return status;
}
