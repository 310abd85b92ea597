/* A group that has lost members goes on with those that are left. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/group/regroup.h"

enum { FAREWELL_SHARE = 16 };

/* Where others read why it has ended they shall read that, too, who have not seen anything yet. */
static void end_group(struct tutti_group_tcp *group)
{
    struct tutti_ending ending = {.status = -TUTTI_EIO, .origin = TUTTI_ENDING_PLAIN};

    (void)snprintf(ending.err.text, sizeof(ending.err.text),
                   "process %u of %u asks for a new group", group->base.index, group->base.count);
    (void)tutti_mailbox_end(&group->mailbox, &ending);
    tutti_mailbox_poke(&group->mailbox);
}

int tutti_group_tcp_shrink(struct tutti_group *base, uint32_t count_min, tutti_ps deadline_ps,
                           struct tutti_group **ret, struct tutti_err *err)
{
    struct tutti_group_tcp *group = (struct tutti_group_tcp *)base;
    struct tutti_regroup regroup;
    tutti_ps farewell_ps;
    int status;

    if (group->links == NULL || group->links->fd < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "process %u of %u has shrunk this group before, or failed to",
                          base->index, base->count);
    status = tutti_regroup_open(&regroup, group, 0, deadline_ps, err);
    if (status < 0)
        return status;
    regroup.count_min = count_min;
    end_group(group);
    farewell_ps = regroup.deadline_ps / FAREWELL_SHARE;
    if (farewell_ps < group->farewell_ps)
        group->farewell_ps = farewell_ps;
    tutti_progress_stop(group);
    status = tutti_regroup_run(&regroup, err);
    if (status == 0)
        status = tutti_successor_start(&regroup, ret, err);
    if (status < 0 && group->links != NULL)
        tutti_listener_close(group->links); /* nobody need wait for this process */
    tutti_regroup_close(&regroup);
    return status;
}
