/* The turns of a regroup: what each phase waits for, and for how long. */
#include "runtime/group/regroup.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tutti_ps QUIET_PS_MIN = 100 * TUTTI_PS_PER_MS;
static const tutti_ps PROBE_PS = 5 * TUTTI_PS_PER_MS; /* those who live come by themselves */

enum { QUIET_SHARE = 8, BEATS = 4 };

void tutti_regroup_fail(struct tutti_regroup *regroup, int status, const char *format, ...)
{
    va_list args;

    if (regroup->status < 0)
        return;
    regroup->status = status;
    va_start(args, format);
    (void)vsnprintf(regroup->err.text, sizeof(regroup->err.text), format, args);
    va_end(args);
}

tutti_ps tutti_regroup_now(const struct tutti_regroup *regroup)
{
    return tutti_mailbox_now(&regroup->group->mailbox);
}

/* ---- open and close ---- */

int tutti_regroup_open(struct tutti_regroup *regroup, struct tutti_group_tcp *group,
                       uint32_t newcomers_max, tutti_ps deadline_ps, struct tutti_err *err)
{
    size_t count = (size_t)group->view.count + newcomers_max;
    int status;

    *regroup = (struct tutti_regroup){.group = group, .deadline_ps = deadline_ps};
    if (deadline_ps <= 0)
        regroup->deadline_ps = group->deadline_ps;
    status = tutti_view_copy(&group->view, newcomers_max, &regroup->view, err);
    if (status == 0)
        status = tutti_successor_new(group, (uint32_t)count, &regroup->next, err);
    regroup->members = calloc(count, sizeof(regroup->members[0]));
    regroup->peers = calloc(count, sizeof(regroup->peers[0]));
    regroup->slots = calloc(TUTTI_REGROUP_CALLS, sizeof(regroup->slots[0]));
    regroup->polls = calloc(1 + TUTTI_LISTENER_POLL_MAX + TUTTI_REGROUP_CALLS + count,
                            sizeof(regroup->polls[0]));
    regroup->ping = tutti_packet_of_head(TUTTI_FRAME_PING, 0);
    regroup->bye = tutti_packet_of_head(TUTTI_FRAME_BYE, 0);
    if (status == 0 &&
        (regroup->members == NULL || regroup->peers == NULL || regroup->slots == NULL ||
         regroup->polls == NULL || regroup->ping == NULL || regroup->bye == NULL))
        status = tutti_nomem(err);
    for (size_t i = 0; regroup->peers != NULL && i < count; i++)
        regroup->peers[i].fd = -1;
    regroup->place = group->base.index;
    regroup->old_count = group->view.count;
    regroup->incarnation_max = group->view.incarnation;
    if (status < 0)
        tutti_regroup_close(regroup);
    return status;
}

void tutti_regroup_close(struct tutti_regroup *regroup)
{
    if (regroup->slots != NULL)
        tutti_regroup_end_calls(regroup);
    for (uint32_t i = 0; regroup->peers != NULL && i < regroup->view.count; i++)
        tutti_peer_close(&regroup->peers[i]);
    tutti_view_done(&regroup->view);
    tutti_view_done(&regroup->proposed);
    free(regroup->members);
    free(regroup->peers);
    free(regroup->slots);
    free(regroup->polls);
    tutti_packet_drop(regroup->ping);
    tutti_packet_drop(regroup->bye);
    if (regroup->next != NULL)
        tutti_group_close(&regroup->next->base);
    *regroup = (struct tutti_regroup){.group = NULL};
}

/* ---- who leads ---- */

void tutti_regroup_halve(struct tutti_regroup *regroup)
{
    tutti_ps now_ps = tutti_regroup_now(regroup);

    if (now_ps < regroup->due_ps)
        regroup->half_ps = now_ps + (regroup->due_ps - now_ps) / 2;
}

/* The first that may lead: a place before this one, or this one. */
static uint32_t candidate(const struct tutti_regroup *regroup)
{
    uint32_t i = 0;

    while (i < regroup->place && regroup->members[i].standing != TUTTI_STANDING_UNKNOWN)
        i++;
    return i;
}

static void seek(struct tutti_regroup *regroup, tutti_ps now_ps)
{
    uint32_t first = candidate(regroup);

    if (first < regroup->place && now_ps >= regroup->half_ps) {
        tutti_regroup_end_calls(regroup);
        regroup->members[first].standing = TUTTI_STANDING_LATE;
        tutti_regroup_halve(regroup);
        first = candidate(regroup);
    }
    if (first < regroup->place) {
        if (!regroup->members[first].calling && now_ps >= regroup->members[first].not_before_ps)
            tutti_regroup_call(regroup, first);
        return;
    }
    tutti_regroup_end_calls(regroup);
    if (now_ps >= regroup->half_ps)
        tutti_regroup_halve(regroup);
    regroup->phase = TUTTI_REGROUP_GATHERS;
    regroup->probe_ps = now_ps + PROBE_PS;
}

void tutti_regroup_follow(struct tutti_regroup *regroup, uint32_t place, int fd)
{
    tutti_regroup_end_calls(regroup);
    tutti_peer_open(&regroup->peers[place], fd, tutti_regroup_now(regroup));
    regroup->members[place].standing = TUTTI_STANDING_HERE;
    regroup->leader = place;
    regroup->phase = TUTTI_REGROUP_FOLLOWS;
}

static void gather(struct tutti_regroup *regroup, tutti_ps now_ps)
{
    bool some = false;

    for (uint32_t i = 0; i < regroup->view.count && regroup->status == 0; i++) {
        struct tutti_regroup_member *member = &regroup->members[i];

        if (i == regroup->place || member->standing != TUTTI_STANDING_UNKNOWN)
            continue;
        if (now_ps >= regroup->half_ps) {
            member->standing = TUTTI_STANDING_LATE;
            continue;
        }
        some = true;
        if (now_ps >= regroup->probe_ps && now_ps >= member->not_before_ps && !member->calling)
            tutti_regroup_call(regroup, i);
    }
    if (some || regroup->status < 0)
        return;
    tutti_regroup_end_calls(regroup);
    tutti_regroup_propose(regroup);
}

static void agree(struct tutti_regroup *regroup)
{
    if (regroup->repropose) {
        tutti_regroup_propose(regroup);
        return;
    }
    for (uint32_t i = 0; i < regroup->view.count; i++)
        if (regroup->members[i].standing == TUTTI_STANDING_HERE && !regroup->members[i].accepted)
            return;
    tutti_regroup_commit(regroup);
}

/* ---- clocks ---- */

static void out_of_time(struct tutti_regroup *regroup)
{
    char time[TUTTI_UNIT_TEXT_BYTES];
    uint32_t at = regroup->phase == TUTTI_REGROUP_SEEKS ? candidate(regroup) : regroup->leader;

    (void)tutti_print_time(regroup->deadline_ps, time);
    if (regroup->held_ps > regroup->deadline_ps / 4) {
        tutti_regroup_fail(regroup, -TUTTI_ETIME,
                           "process %u of %u was itself held up while a new group was to be agreed "
                           "on within %s",
                           regroup->place, regroup->view.count, time);
        return;
    }
    for (uint32_t i = 0; regroup->phase == TUTTI_REGROUP_AGREES && i < regroup->view.count; i++)
        if (regroup->members[i].standing == TUTTI_STANDING_HERE && !regroup->members[i].accepted)
            at = i;
    tutti_regroup_fail(regroup, -TUTTI_ETIME,
                       "process %u of %u has not agreed on a new group within %s", at,
                       regroup->view.count, time);
}

static void look_at_clock(struct tutti_regroup *regroup, tutti_ps now_ps)
{
    bool beats = now_ps >= regroup->beat_due_ps;

    if (beats)
        regroup->beat_due_ps = now_ps + regroup->quiet_ps / BEATS;
    for (uint32_t i = 0; i < regroup->view.count; i++) {
        struct tutti_peer *peer = &regroup->peers[i];

        if (peer->fd < 0)
            continue;
        if (now_ps - peer->heard_ps >= regroup->quiet_ps) {
            tutti_regroup_lose(regroup, i, TUTTI_STANDING_LATE);
        } else if (beats && peer->out_count == 0) {
            tutti_peer_tell(peer, tutti_packet_hold(regroup->ping));
            if (!tutti_peer_send(peer))
                tutti_regroup_cut_off(regroup, i);
        }
    }
    if (regroup->status == 0 && regroup->phase != TUTTI_REGROUP_DONE && now_ps >= regroup->due_ps)
        out_of_time(regroup);
}

static tutti_ps wake_ps(const struct tutti_regroup *regroup, tutti_ps now_ps)
{
    tutti_ps wake = regroup->due_ps < regroup->beat_due_ps ? regroup->due_ps : regroup->beat_due_ps;
    tutti_ps listener_ps = tutti_listener_due(regroup->group->links);

    if (now_ps < regroup->half_ps && regroup->half_ps < wake)
        wake = regroup->half_ps;
    if (listener_ps < wake)
        wake = listener_ps;
    if (regroup->phase == TUTTI_REGROUP_GATHERS && now_ps < regroup->probe_ps &&
        regroup->probe_ps < wake)
        wake = regroup->probe_ps;
    for (uint32_t i = 0; i < regroup->view.count; i++) {
        const struct tutti_regroup_member *member = &regroup->members[i];

        if (member->standing == TUTTI_STANDING_UNKNOWN && !member->calling &&
            member->not_before_ps > now_ps && member->not_before_ps < wake)
            wake = member->not_before_ps;
    }
    return wake;
}

/* ---- the turns ---- */

static size_t add_polls(struct tutti_regroup *regroup, size_t *ret_calls, size_t *ret_peers)
{
    struct pollfd *polls = regroup->polls;
    size_t count = 1;

    polls[0] = (struct pollfd){.fd = regroup->group->mailbox.poke_fd, .events = POLLIN};
    count += tutti_listener_polls(regroup->group->links, tutti_regroup_now(regroup), polls + count);
    *ret_calls = count;
    for (uint32_t i = 0; i < TUTTI_REGROUP_CALLS; i++) {
        const struct tutti_call *call = &regroup->slots[i].call;

        polls[count++] = regroup->slots[i].used
                             ? (struct pollfd){.fd = call->fd, .events = tutti_call_events(call)}
                             : (struct pollfd){.fd = -1};
    }
    *ret_peers = count;
    for (uint32_t i = 0; i < regroup->view.count; i++) {
        const struct tutti_peer *peer = &regroup->peers[i];

        polls[count++] = (struct pollfd){
            .fd = peer->fd, .events = (short)(POLLIN | (peer->out_count > 0 ? POLLOUT : 0))};
    }
    return count;
}

/* One that was itself stopped or held up has heard nobody, and may blame nobody for it: what others
 * have said meanwhile still counts. */
static void look_at_own_delay(struct tutti_regroup *regroup, tutti_ps due_ps, tutti_ps now_ps)
{
    tutti_ps late_ps = now_ps - (due_ps > regroup->seen_ps ? due_ps : regroup->seen_ps);

    regroup->seen_ps = now_ps;
    if (late_ps <= regroup->quiet_ps / 2)
        return;
    regroup->held_ps += late_ps;
    regroup->half_ps = tutti_group_after(regroup->half_ps, late_ps);
    if (regroup->half_ps > regroup->due_ps)
        regroup->half_ps = regroup->due_ps;
    for (uint32_t i = 0; i < regroup->view.count; i++)
        regroup->peers[i].heard_ps = now_ps;
    for (uint32_t i = 0; i < TUTTI_REGROUP_CALLS; i++)
        regroup->slots[i].due_ps = tutti_group_after(regroup->slots[i].due_ps, late_ps);
}

static void turn(struct tutti_regroup *regroup)
{
    tutti_ps due_ps = wake_ps(regroup, regroup->seen_ps);
    struct pollfd *polls = regroup->polls;
    uint32_t peer_count = regroup->view.count; /* a view that is taken meanwhile may have more */
    size_t calls_at;
    size_t peers_at;
    size_t count = add_polls(regroup, &calls_at, &peers_at);
    tutti_ps now_ps;

    if (poll(polls, (nfds_t)count, tutti_mailbox_ms_until(&regroup->group->mailbox, due_ps)) < 0)
        for (size_t i = 0; i < count; i++)
            polls[i].revents = 0;
    now_ps = tutti_regroup_now(regroup);
    if (polls[0].revents != 0)
        tutti_mailbox_drain(&regroup->group->mailbox);
    look_at_own_delay(regroup, due_ps, now_ps);
    for (uint32_t i = 0; i < peer_count; i++) {
        struct tutti_peer *peer = &regroup->peers[i];

        if (polls[peers_at + i].fd < 0 || peer->fd != polls[peers_at + i].fd)
            continue;
        if ((polls[peers_at + i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            struct tutti_view before = regroup->view;

            tutti_regroup_listen_to(regroup, i);
            if (regroup->view.members != before.members)
                return; /* places have changed, and with them what was polled */
        }
        if (peer->fd >= 0 && !tutti_peer_send(peer))
            tutti_regroup_cut_off(regroup, i);
    }
    tutti_regroup_move_calls(regroup, polls + calls_at);
    tutti_listener_move(regroup->group->links, polls + 1, now_ps);
    look_at_clock(regroup, now_ps);
}

/* Another thread has stopped the group while it admits. */
static void look_at_mailbox(struct tutti_regroup *regroup)
{
    struct tutti_group_tcp *group = regroup->group;
    struct tutti_err why = {""};
    bool over;

    pthread_mutex_lock(&group->mailbox.lock);
    over = group->mailbox.over;
    pthread_mutex_unlock(&group->mailbox.lock);
    if (over && regroup->admits) {
        int status =
            tutti_mailbox_told(&group->mailbox, group->base.index, group->base.count, &why);

        tutti_regroup_fail(regroup, status, "%s", why.text);
    }
}

static void set_clocks(struct tutti_regroup *regroup)
{
    regroup->begin_ps = tutti_regroup_now(regroup);
    regroup->due_ps = tutti_group_after(regroup->begin_ps, regroup->deadline_ps);
    regroup->half_ps = tutti_group_after(regroup->begin_ps, regroup->deadline_ps / 2);
    if (regroup->quiet_ps == 0)
        regroup->quiet_ps = regroup->deadline_ps / QUIET_SHARE;
    if (regroup->quiet_ps > regroup->group->stall_ps)
        regroup->quiet_ps = regroup->group->stall_ps;
    if (regroup->quiet_ps < QUIET_PS_MIN)
        regroup->quiet_ps = QUIET_PS_MIN;
    regroup->beat_due_ps = regroup->begin_ps;
    regroup->seen_ps = regroup->begin_ps;
    for (uint32_t i = 0; i < regroup->view.count; i++)
        regroup->peers[i].heard_ps = regroup->begin_ps;
}

int tutti_regroup_run(struct tutti_regroup *regroup, struct tutti_err *err)
{
    struct tutti_listener *links = regroup->group->links;
    const struct tutti_listener_ops *ops = links->ops;
    void *data = links->data;

    set_clocks(regroup);
    links->ops = &tutti_regroup_listener_ops;
    links->data = regroup;
    while (regroup->status == 0 && regroup->phase != TUTTI_REGROUP_DONE) {
        if (regroup->phase == TUTTI_REGROUP_SEEKS)
            seek(regroup, regroup->seen_ps);
        if (regroup->phase == TUTTI_REGROUP_GATHERS)
            gather(regroup, regroup->seen_ps);
        if (regroup->phase == TUTTI_REGROUP_AGREES)
            agree(regroup);
        look_at_mailbox(regroup);
        if (regroup->status == 0 && regroup->phase != TUTTI_REGROUP_DONE)
            turn(regroup);
    }
    links->ops = ops;
    links->data = data;
    if (regroup->status < 0 && err != NULL)
        *err = regroup->err;
    return regroup->status;
}
