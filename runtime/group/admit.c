/* Members let newcomers in: process 0 proposes a group of both, and all of both take it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/regroup.h"

/* What process 0 says counts. */
static int ask_root(struct tutti_group_tcp *group, uint32_t count_max, tutti_ps deadline_ps,
                    uint32_t *ret_count, struct tutti_err *err)
{
    uint32_t waiting = atomic_load(&group->mailbox.newcomer_count);
    uint32_t mine = count_max > 0 && count_max < waiting ? count_max : waiting;
    uint32_t *all = malloc(group->base.count * sizeof(all[0]));
    int status;

    if (all == NULL) {
        status = tutti_nomem(err);
        tutti_group_stop(&group->base, status, err);
        return status;
    }
    status = tutti_group_exchange(&group->base, &mine, sizeof(mine), all, deadline_ps, err);
    if (status == 0)
        *ret_count = all[0];
    free(all);
    return status;
}

uint32_t tutti_group_tcp_newcomers(const struct tutti_group *base)
{
    const struct tutti_group_tcp *group = (const struct tutti_group_tcp *)base;

    return atomic_load(&group->mailbox.newcomer_count);
}

static void hold(struct tutti_group_tcp *group, bool on)
{
    pthread_mutex_lock(&group->mailbox.lock);
    group->mailbox.hold = on;
    pthread_mutex_unlock(&group->mailbox.lock);
    tutti_mailbox_poke(&group->mailbox);
}

/* All are ready, or none begins; what the others say then, nobody reads before it has begun. */
static int meet(struct tutti_group_tcp *group, int status, tutti_ps deadline_ps,
                struct tutti_err *err)
{
    int32_t mine = status;
    int32_t *all = malloc(group->base.count * sizeof(all[0]));
    bool ready = true;
    int worked;

    if (all == NULL) {
        status = tutti_nomem(err);
        tutti_group_stop(&group->base, status, err);
        return status;
    }
    hold(group, true);
    worked = tutti_group_exchange(&group->base, &mine, sizeof(mine), all, deadline_ps, err);
    for (uint32_t i = 0; i < group->base.count && worked == 0; i++)
        ready = ready && all[i] == 0;
    free(all);
    if (worked == 0 && ready)
        return 0;
    hold(group, false);
    return worked < 0 ? worked : tutti_group_agree(&group->base, status, deadline_ps, err);
}

/* The connections of the group, and at process 0 those of newcomers, are the regroup's. */
static void take_peers(struct tutti_regroup *regroup, uint32_t count)
{
    struct tutti_group_tcp *group = regroup->group;
    struct tutti_newcomers *newcomers = group->newcomers;
    bool leads = group->base.index == 0;

    for (uint32_t i = 0; i < group->peer_count; i++) {
        if (leads && i == 0)
            continue;
        regroup->peers[i] = group->peers[i];
        regroup->peers[i].part = NULL;
        regroup->members[i].standing = TUTTI_STANDING_HERE;
        group->peers[i] = (struct tutti_peer){.fd = -1};
    }
    regroup->leader = 0;
    regroup->phase = leads ? TUTTI_REGROUP_GATHERS : TUTTI_REGROUP_FOLLOWS;
    if (!leads)
        return;
    count = count < newcomers->count ? count : newcomers->count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = regroup->view.count++;

        regroup->peers[at] = newcomers->peers[i];
        regroup->view.members[at] = newcomers->peers[i].member;
        regroup->members[at].standing = TUTTI_STANDING_HERE;
    }
    newcomers->count -= count;
    memmove(newcomers->peers, newcomers->peers + count,
            newcomers->count * sizeof(newcomers->peers[0]));
    for (uint32_t i = 0; i < count; i++)
        newcomers->peers[newcomers->count + i] = (struct tutti_peer){.fd = -1};
    regroup->view.next_id = newcomers->next_id;
}

/* One that has gone already, as far as this process knows, has no connection any more. */
static void look_for_lost(struct tutti_regroup *regroup)
{
    for (uint32_t i = 0; i < regroup->old_count && regroup->status == 0; i++)
        if (regroup->members[i].standing == TUTTI_STANDING_HERE && regroup->peers[i].fd < 0)
            tutti_regroup_lose(regroup, i, TUTTI_STANDING_GONE);
}

/* The group is over; what was taken of the next view is what a shrink begins with. */
static void end_group(struct tutti_regroup *regroup, int status, const struct tutti_err *err)
{
    struct tutti_group_tcp *group = regroup->group;
    struct tutti_ending ending = {.status = status, .origin = TUTTI_ENDING_PLAIN};
    bool leads = group->base.index == 0;

    if (err != NULL)
        ending.err = *err;
    else
        (void)snprintf(ending.err.text, sizeof(ending.err.text), "an admission has failed");
    (void)tutti_mailbox_end(&group->mailbox, &ending);
    if (leads || regroup->view.incarnation == group->view.incarnation)
        return;
    tutti_view_done(&group->view);
    group->view = regroup->view;
    regroup->view.members = NULL;
}

int tutti_group_tcp_admit(struct tutti_group *base, uint32_t count_max, tutti_ps deadline_ps,
                          struct tutti_group **ret, struct tutti_err *err)
{
    struct tutti_group_tcp *group = (struct tutti_group_tcp *)base;
    struct tutti_regroup regroup = {.group = NULL};
    uint32_t count = 0;
    int status;

    if (group->links == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "nobody can join a group of one process that does not listen (admits)");
    if (deadline_ps <= 0)
        deadline_ps = group->deadline_ps;
    status = ask_root(group, count_max, deadline_ps, &count, err);
    if (status < 0)
        return status;
    if (count == 0) {
        *ret = NULL;
        return 0;
    }
    status = tutti_regroup_open(&regroup, group, count, deadline_ps, err);
    status = meet(group, status, deadline_ps, err);
    if (status < 0) {
        tutti_regroup_close(&regroup);
        return status;
    }
    tutti_progress_halt(group);
    regroup.admits = true;
    take_peers(&regroup, count);
    look_for_lost(&regroup);
    status = tutti_regroup_run(&regroup, err);
    if (status < 0)
        end_group(&regroup, status, err);
    else
        status = tutti_successor_start(&regroup, ret, err);
    tutti_regroup_close(&regroup);
    return status;
}
