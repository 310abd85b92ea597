/* The group of the next incarnation: made beforehand, and begun with what the last one had. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/regroup.h"

static int furnish(struct tutti_group_tcp *next, bool may_listen, uint32_t count_max,
                   struct tutti_err *err)
{
    next->peers = calloc(count_max, sizeof(next->peers[0]));
    next->polls =
        calloc(1 + 2 * (size_t)TUTTI_LISTENER_POLL_MAX + count_max, sizeof(next->polls[0]));
    next->ping = tutti_packet_of_head(TUTTI_FRAME_PING, 0);
    next->bye = tutti_packet_of_head(TUTTI_FRAME_BYE, 0);
    next->stop =
        tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES);
    if (may_listen)
        next->rendezvous = tutti_group_tcp_new_listener(next, &tutti_root_listener_ops);
    if (next->peers == NULL || next->polls == NULL || next->ping == NULL || next->bye == NULL ||
        next->stop == NULL || (may_listen && next->rendezvous == NULL))
        return tutti_nomem(err);
    return 0;
}

int tutti_successor_new(struct tutti_group_tcp *group, uint32_t count_max,
                        struct tutti_group_tcp **ret, struct tutti_err *err)
{
    struct tutti_group_tcp *next = calloc(1, sizeof(*next));
    int status;

    if (next == NULL)
        return tutti_nomem(err);
    next->base = (struct tutti_group){.ops = &tutti_group_tcp_ops, .count = 1};
    next->deadline_ps = group->deadline_ps;
    next->stall_ps = group->stall_ps;
    next->farewell_ps = group->farewell_ps;
    next->log = group->log;
    next->log_data = group->log_data;
    next->scope = group->scope;
    memcpy(next->session, group->session, sizeof(next->session));
    status = tutti_mailbox_open(&next->mailbox, err);
    if (status == 0)
        status = furnish(next, group->rendezvous == NULL, count_max, err);
    if (status < 0) {
        tutti_group_close(&next->base);
        return status;
    }
    *ret = next;
    return 0;
}

/* "processes 2 and 5 of 8 are lost", by the places of the last incarnation. */
static void say_why(const struct tutti_group_tcp *group, const struct tutti_view *view, char *why,
                    size_t bytes)
{
    uint32_t lost_count = 0;
    uint32_t at = 0;
    size_t used = 0;

    why[0] = '\0';
    for (uint32_t i = 0; i < group->view.count; i++) {
        while (at < view->count && view->members[at].id < group->view.members[i].id)
            at++;
        if (at < view->count && view->members[at].id == group->view.members[i].id)
            continue;
        lost_count++;
        if (used + 64 < bytes)
            used += (size_t)snprintf(why + used, bytes - used, "%s%u",
                                     used == 0 ? "lost: process " : ", ", i);
    }
    if (lost_count > 0)
        (void)snprintf(why + used, bytes - used, " of %u", group->view.count);
}

/* Newcomers come where the first ones came, if that can be had: else to any member's listener. */
static void listen_at_root(struct tutti_group_tcp *next, const struct tutti_address *root)
{
    if (next->rendezvous->fd < 0 && tutti_address_is_own(root))
        (void)tutti_address_listen(root, &next->rendezvous->fd, NULL);
}

static void hand_over(struct tutti_group_tcp *group, struct tutti_group_tcp *next)
{
    next->secret = group->secret;
    next->secret_bytes = group->secret_bytes;
    group->secret = NULL;
    tutti_listener_clear(group->links);
    next->links = group->links;
    group->links = NULL;
    next->links->ops = &tutti_link_listener_ops;
    next->links->data = next;
    next->links->members_key = next->session;
    if (group->rendezvous != NULL) {
        assert(next->rendezvous == NULL);
        tutti_listener_clear(group->rendezvous);
        next->rendezvous = group->rendezvous;
        group->rendezvous = NULL;
        next->rendezvous->data = next;
    } else if (next->base.index == 0) {
        listen_at_root(next, &group->root);
    }
    if (next->base.index > 0) {
        if (next->rendezvous->fd < 0)
            free(next->rendezvous);
        next->rendezvous = NULL;
    } else {
        next->rendezvous->secret = next->secret;
        next->rendezvous->secret_bytes = next->secret_bytes;
    }
}

static void take_peers(struct tutti_regroup *regroup, struct tutti_group_tcp *next)
{
    tutti_ps now_ps = tutti_mailbox_now(&next->mailbox);
    uint32_t at = 0;

    next->peer_count = next->base.index == 0 ? next->view.count : 1;
    for (uint32_t i = 0; i < regroup->view.count && at < next->peer_count; i++) {
        bool is_self = next->base.index == 0 && i == regroup->place;

        if (!is_self && regroup->members[i].standing != TUTTI_STANDING_HERE)
            continue;
        next->peers[at] = regroup->peers[i];
        regroup->peers[i] = (struct tutti_peer){.fd = -1};
        next->peers[at].here = true;
        next->peers[at].heard_ps = now_ps;
        next->peers[at].member = next->view.members[at];
        at++;
    }
    assert(at == next->peer_count);
    if (next->base.index > 0)
        tutti_address_of_peer(next->peers[0].fd, &next->root);
}

int tutti_successor_start(struct tutti_regroup *regroup, struct tutti_group **ret,
                          struct tutti_err *err)
{
    struct tutti_group_tcp *group = regroup->group;
    struct tutti_group_tcp *next = regroup->next;
    bool leads = regroup->proposed.members != NULL;
    struct tutti_view *view = leads ? &regroup->proposed : &regroup->view;
    struct tutti_ending spent = {.status = -TUTTI_EINVAL, .origin = TUTTI_ENDING_PLAIN};
    int status;

    assert(regroup->phase == TUTTI_REGROUP_DONE);
    say_why(group, view, next->why, sizeof(next->why));
    next->base.index = leads ? 0 : regroup->place;
    next->base.count = view->count;
    next->base.incarnation = view->incarnation;
    next->view = *view;
    view->members = NULL;
    take_peers(regroup, next);
    hand_over(group, next);
    next->here_count = next->base.count;
    next->mailbox.complete = true;
    tutti_frame_write_head(
        &(struct tutti_frame){.type = TUTTI_FRAME_PING, .incarnation = next->view.incarnation},
        next->ping->data);
    tutti_frame_write_head(
        &(struct tutti_frame){.type = TUTTI_FRAME_BYE, .incarnation = next->view.incarnation},
        next->bye->data);
    (void)snprintf(spent.err.text, sizeof(spent.err.text),
                   "this group has become another (incarnation %u)", next->view.incarnation);
    (void)tutti_mailbox_end(&group->mailbox, &spent);
    regroup->next = NULL;
    status = tutti_progress_start(next, err);
    if (status < 0) {
        tutti_group_close(&next->base);
        return status;
    }
    *ret = &next->base;
    return 0;
}
