/* Communicators for the groups of axes: each axis is one split of the communicator of all ranks. */
#include <stdlib.h>

#include "runtime/exec/nccl/ranks.h"
#include "runtime/group.h"

static bool is_same(const struct tutti_axis *a, const struct tutti_axis *b)
{
    return a->first == b->first && a->width == b->width && a->stride == b->stride &&
           a->size == b->size && a->period == b->period && a->repeat == b->repeat;
}

static bool has_axes(const struct tutti_nccl_player *player, const struct tutti_schedule *schedule)
{
    bool has = player->axis_count >= schedule->axis_count;

    for (uint32_t k = 0; k < schedule->axis_count && has; k++)
        has = is_same(&player->axes[k], &schedule->axes[k]);
    return has;
}

/* Room for those of the schedule; names are its own. */
static int take_room(struct tutti_nccl_player *player, const struct tutti_schedule *schedule,
                     struct tutti_err *err)
{
    const uint32_t count = schedule->axis_count;

    player->axes = calloc(count, sizeof(player->axes[0]));
    if (player->axes == NULL)
        return tutti_nomem(err);
    for (uint32_t k = 0; k < count; k++) {
        player->axes[k] = schedule->axes[k];
        player->axes[k].name = NULL;
    }
    for (uint32_t i = 0; i < player->own_count; i++) {
        player->ranks[i].groups = calloc(count, sizeof(player->ranks[i].groups[0]));
        if (player->ranks[i].groups == NULL)
            return tutti_nomem(err);
    }
    player->axis_count = count;
    return 0;
}

static int split_axis(struct tutti_nccl_loaded *run, uint32_t k, struct tutti_err *err)
{
    struct tutti_nccl_player *player = run->player;
    const struct tutti_nccl_library *library = &player->library;
    int status = tutti_nccl_group_begin(library, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < player->own_count && status == 0; i++) {
        struct tutti_nccl_config config = tutti_nccl_config_of(player);
        struct tutti_nccl_rank *rank = &player->ranks[i];
        uint32_t group = 0;
        uint32_t member = 0;
        const bool is_in = tutti_axis_find(&player->axes[k], rank->rank, &group, &member);

        status = tutti_gpu_enter(&rank->gpu, err);
        if (status == 0)
            status = tutti_nccl_check(library,
                                      library->split(rank->comm,
                                                     is_in ? (int)group : TUTTI_NCCL_NO_COLOR,
                                                     (int)member, &rank->groups[k], &config),
                                      "nccl split", err);
    }
    status = tutti_nccl_group_end(library, status, err);
    return status < 0 ? status : tutti_nccl_settle(run, TUTTI_NCCL_CONNECTING, err);
}

/* Whether all processes have them. */
static int ask_all(struct tutti_nccl_loaded *run, bool *ret_have, struct tutti_err *err)
{
    struct tutti_group *group = run->load.group;
    const int32_t mine = has_axes(run->player, run->load.schedule);
    int32_t *all = calloc(group->count, sizeof(all[0]));
    int status =
        tutti_group_agree(group, all == NULL ? tutti_nomem(err) : 0, run->load.deadline_ps, err);

    if (status == 0)
        status = tutti_group_exchange(group, &mine, sizeof(mine), all, run->load.deadline_ps, err);
    for (uint32_t i = 0; i < group->count && status == 0; i++)
        *ret_have = *ret_have && all[i] != 0;
    free(all);
    return status;
}

int tutti_nccl_split(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = run->load.schedule;
    struct tutti_nccl_player *player = run->player;
    struct tutti_group *group = run->load.group;
    bool has = has_axes(player, schedule);
    int status = schedule->axis_count > 0 && group->count > 1 ? ask_all(run, &has, err) : 0;

    if (status < 0 || schedule->axis_count == 0 || has)
        return status;
    if (player->library.split == NULL)
        status = tutti_fail(err, TUTTI_ELACK,
                            "the strategy's groups of ranks want communicators of their own, which "
                            "NCCL %d.%d.%d does not make (2.18 or newer)",
                            player->library.code / 10000, player->library.code / 100 % 100,
                            player->library.code % 100);
    if (status == 0) {
        tutti_nccl_leave_axes(player);
        status = player->connected ? take_room(player, schedule, err)
                                   : tutti_fail(err, TUTTI_EIO, "NCCL's ranks came apart");
    }
    if (group->count > 1)
        status = tutti_group_agree(group, status, run->load.deadline_ps, err);
    for (uint32_t k = 0; k < schedule->axis_count && status == 0; k++)
        status = split_axis(run, k, err);
    if (group->count > 1)
        status = tutti_group_agree(group, status, run->load.deadline_ps, err);
    if (status < 0)
        tutti_nccl_abort(player);
    return status;
}
