/* The group of the next incarnation: made beforehand, and begun with what the last one had. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/regroup.h"

static int furnish(struct tutti_group_tcp *next, bool may_lead, uint32_t count_max,
                   struct tutti_err *err)
{
    next->peers = calloc(count_max, sizeof(next->peers[0]));
    next->polls = calloc(tutti_progress_poll_max(count_max), sizeof(next->polls[0]));
    next->ping = tutti_packet_of_head(TUTTI_FRAME_PING, 0);
    next->bye = tutti_packet_of_head(TUTTI_FRAME_BYE, 0);
    next->stop =
        tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES);
    if (may_lead) {
        next->rendezvous = tutti_group_tcp_new_listener(next, &tutti_root_listener_ops);
        next->newcomers = tutti_newcomers_new();
    }
    if (next->peers == NULL || next->polls == NULL || next->ping == NULL || next->bye == NULL ||
        next->stop == NULL || (may_lead && (next->rendezvous == NULL || next->newcomers == NULL)))
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
        status = furnish(next, group->newcomers == NULL, count_max, err);
    if (status < 0) {
        tutti_group_close(&next->base);
        return status;
    }
    *ret = next;
    return 0;
}

/* Adds "2" or ", 2" to a list that begins with `what`. */
static size_t list(char *why, size_t bytes, size_t used, bool first, const char *what, uint32_t i)
{
    if (used + 64 < bytes)
        used += (size_t)snprintf(why + used, bytes - used, "%s%u", first ? what : ", ", i);
    return used;
}

/* "lost: process 2, 5 of 8", by the places of the last incarnation; "joined: process 7 of 8", by
 * those of this one. */
static void say_why(const struct tutti_group_tcp *group, const struct tutti_view *view, char *why,
                    size_t bytes)
{
    const struct tutti_view *last = &group->view;
    uint32_t lost_count = 0;
    uint32_t joined_count = 0;
    uint32_t at = 0;
    size_t used = 0;

    why[0] = '\0';
    for (uint32_t i = 0; i < last->count; i++) {
        while (at < view->count && view->members[at].id < last->members[i].id)
            at++;
        if (at == view->count || view->members[at].id != last->members[i].id)
            used = list(why, bytes, used, lost_count++ == 0, "lost: process ", i);
    }
    if (lost_count > 0)
        used += (size_t)snprintf(why + used, bytes - used, " of %u", last->count);
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].id >= last->next_id)
            used = list(why, bytes, used, joined_count++ == 0,
                        lost_count > 0 ? "; joined: process " : "joined: process ", i);
    if (joined_count > 0)
        (void)snprintf(why + used, bytes - used, " of %u", view->count);
}

/* Newcomers come where the first ones came, if that can be had: else to any member's listener. */
static void listen_at_root(struct tutti_group_tcp *next, const struct tutti_address *root)
{
    if (next->rendezvous->fd < 0 && tutti_address_is_own(root))
        (void)tutti_address_listen(root, &next->rendezvous->fd, NULL);
}

/* What process 0 has beyond the others: as it was, or, where another has become process 0, anew. */
static void hand_over_lead(struct tutti_group_tcp *group, struct tutti_group_tcp *next)
{
    if (group->newcomers != NULL) {
        assert(next->base.index == 0); /* the first is the first as long as it lives */
        tutti_listener_clear(group->rendezvous);
        next->rendezvous = group->rendezvous;
        next->rendezvous->data = next;
        next->newcomers = group->newcomers;
        group->rendezvous = NULL;
        group->newcomers = NULL;
    } else if (next->base.index > 0) {
        free(next->rendezvous);
        tutti_newcomers_free(next->newcomers);
        next->rendezvous = NULL;
        next->newcomers = NULL;
        return;
    } else {
        listen_at_root(next, &group->root);
    }
    next->rendezvous->secret = next->secret;
    next->rendezvous->secret_bytes = next->secret_bytes;
    if (next->newcomers->next_id < next->view.next_id)
        next->newcomers->next_id = next->view.next_id;
    atomic_store(&next->mailbox.newcomer_count, next->newcomers->count);
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
    next->pairs = group->pairs;
    group->pairs = NULL;
    hand_over_lead(group, next);
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
    if (regroup->is_newcomer)
        (void)snprintf(next->why, sizeof(next->why), "joined: process %u of %u", regroup->place,
                       view->count);
    else
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
