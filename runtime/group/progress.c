/* The progress thread: one thread a process, waiting for sockets, orders and clocks, and nothing
 * else. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/group/progress.h"

/* So long process 0 of a group that broke off before all had come stays to tell the others why. */
static const tutti_ps LATE_PS = TUTTI_PS_PER_S;

enum { FRAMES_A_TURN = 16 };

static tutti_ps beat_ps(const struct tutti_group_tcp *group)
{
    tutti_ps beat = group->stall_ps / 4;

    return beat > 5 * TUTTI_PS_PER_S ? 5 * TUTTI_PS_PER_S : beat;
}

void tutti_progress_end(struct tutti_group_tcp *group, int status, const char *format, ...)
{
    struct tutti_ending ending = {.status = status, .origin = TUTTI_ENDING_PLAIN};
    va_list args;

    /* The other messages say of whom they speak. */
    if (status == -TUTTI_ENOMEM)
        ending.origin = group->base.index;
    va_start(args, format);
    (void)vsnprintf(ending.err.text, sizeof(ending.err.text), format, args);
    va_end(args);
    (void)tutti_mailbox_end(&group->mailbox, &ending);
    tutti_mailbox_poke(&group->mailbox); /* the others must be told */
}

/* ---- what is logged ---- */

void tutti_progress_refused(struct tutti_group_tcp *group, const char *who, const char *why)
{
    enum { AT_ONCE = 16 };
    char line[TUTTI_ADDRESS_TEXT_BYTES + TUTTI_CLIENT_WHY_BYTES + 64];
    tutti_ps now_ps = tutti_mailbox_now(&group->mailbox);

    group->refused_count++;
    snprintf(group->last_refused, sizeof(group->last_refused), "%s: %s", who, why);
    if (group->log == NULL)
        return;
    if (now_ps - group->log_since_ps >= TUTTI_PS_PER_S) {
        group->log_credit = group->log_credit == 0 && group->log_since_ps > 0 ? 1 : AT_ONCE;
        group->log_since_ps = now_ps;
    }
    if (group->log_credit == 0) {
        group->log_kept_count++;
        return;
    }
    group->log_credit--;
    if (group->log_kept_count > 0)
        snprintf(line, sizeof(line), "refused %s (and %u others before)", group->last_refused,
                 group->log_kept_count);
    else
        snprintf(line, sizeof(line), "refused %s", group->last_refused);
    group->log_kept_count = 0;
    group->log(group->log_data, line);
}

/* ---- frames ---- */

static void broadcast(struct tutti_group_tcp *group, struct tutti_packet *packet)
{
    for (uint32_t i = 0; i < group->peer_count; i++)
        if (group->peers[i].fd >= 0 && group->peers[i].out_count < TUTTI_PEER_OUT_MAX)
            tutti_peer_tell(&group->peers[i], tutti_packet_hold(packet));
}

static uint32_t peer_index(const struct tutti_group_tcp *group, uint32_t at)
{
    return group->base.index == 0 ? at : 0;
}

static void gone(struct tutti_group_tcp *group, uint32_t at, int code)
{
    struct tutti_peer *peer = &group->peers[at];

    if (!peer->left)
        tutti_progress_end(group, -TUTTI_EIO, "process %u of %u ('%s') has gone%s%s",
                           peer_index(group, at), group->base.count, peer->address,
                           code != 0 ? ": " : "", code != 0 ? strerror(code) : "");
    tutti_peer_close(peer);
}

/* Says good-bye back by closing: then nothing of what it sent is lost. */
static void left(struct tutti_group_tcp *group, uint32_t at)
{
    struct tutti_peer *peer = &group->peers[at];

    peer->left = true;
    tutti_peer_close(peer);
    if (group->base.index == 0)
        tutti_root_missed(group);
    else if (group->asked || group->here_count == 0)
        tutti_progress_end(group, -TUTTI_EIO, "process 0 of %u has left", group->base.count);
}

static void hear_members(struct tutti_group_tcp *group, uint32_t at,
                         const struct tutti_packet *body)
{
    struct tutti_view view = {.members = NULL};
    int status = group->base.index == 0 || group->here_count > 0
                     ? -TUTTI_EIO
                     : tutti_view_read(body->data, body->bytes, &view, NULL);

    if (status == -TUTTI_ENOMEM) {
        tutti_progress_end(group, status, "out of memory");
        return;
    }
    if (status < 0 || view.count != group->base.count || view.incarnation != 1) {
        tutti_view_done(&view);
        tutti_progress_end(group, -TUTTI_EIO, "process %u of %u sends no list of members",
                           peer_index(group, at), group->base.count);
        return;
    }
    tutti_view_resolve(&view, &group->root, NULL);
    tutti_view_done(&group->view);
    group->view = view;
    group->here_count = group->base.count;
    pthread_mutex_lock(&group->mailbox.lock);
    group->mailbox.complete = true;
    pthread_cond_broadcast(&group->mailbox.changed);
    pthread_mutex_unlock(&group->mailbox.lock);
}

/* A member's part to process 0, or all parts from it; the body is ours. */
static void hear_exchange(struct tutti_group_tcp *group, uint32_t at,
                          const struct tutti_frame *frame, struct tutti_packet *body)
{
    if (frame->round != group->round || (group->base.index != 0 && !group->asked)) {
        tutti_progress_end(
            group, -TUTTI_EIO, "process %u of %u is in exchange %llu, process %u in %llu",
            peer_index(group, at), group->base.count, (unsigned long long)frame->round,
            group->base.index, (unsigned long long)group->round);
        tutti_packet_drop(body);
        return;
    }
    if (group->base.index == 0) {
        tutti_root_take_part(group, at, body, 0, frame->wait_ms);
        return;
    }
    if (group->room != NULL) {
        tutti_progress_end(group, -TUTTI_EIO, "process 0 of %u answers with %zu bytes, not %zu",
                           group->base.count, body->bytes, group->room->bytes);
        tutti_packet_drop(body);
        return;
    }
    group->asked = false;
    group->round++;
    pthread_mutex_lock(&group->mailbox.lock);
    assert(group->mailbox.all == NULL);
    group->held = group->mailbox.hold;
    group->mailbox.all = body;
    group->mailbox.all_at = 0;
    pthread_cond_broadcast(&group->mailbox.changed);
    pthread_mutex_unlock(&group->mailbox.lock);
}

static void hear_stop(struct tutti_group_tcp *group, uint32_t at, const struct tutti_packet *body)
{
    struct tutti_ending ending;

    if (!tutti_frame_read_stop(body->data, body->bytes, &ending)) {
        tutti_progress_end(group, -TUTTI_EIO, "process %u of %u stops for no known reason",
                           peer_index(group, at), group->base.count);
        return;
    }
    /* A member speaks for itself alone. */
    if (group->base.index == 0)
        ending.origin = ending.origin == TUTTI_ENDING_PLAIN ? TUTTI_ENDING_PLAIN : at;
    if (tutti_mailbox_end(&group->mailbox, &ending) && group->base.index != 0)
        group->told = true; /* by process 0, to everybody */
}

static void hear(struct tutti_group_tcp *group, uint32_t at, const struct tutti_frame *frame,
                 struct tutti_packet *body)
{
    if (frame->incarnation < group->view.incarnation) { /* it was on its way when that ended */
        tutti_packet_drop(body);
        return;
    }
    if (frame->incarnation > group->view.incarnation) {
        tutti_progress_end(group, -TUTTI_EIO,
                           "process %u of %u is in incarnation %u, process %u in %u",
                           peer_index(group, at), group->base.count, frame->incarnation,
                           group->base.index, group->view.incarnation);
        tutti_packet_drop(body);
        return;
    }
    switch (frame->type) {
    case TUTTI_FRAME_PING:
    case TUTTI_FRAME_PROPOSE: /* of a regroup that has been given up */
    case TUTTI_FRAME_ACCEPT:
    case TUTTI_FRAME_COMMIT:
        break;
    case TUTTI_FRAME_MEMBERS:
        hear_members(group, at, body);
        break;
    case TUTTI_FRAME_EXCHANGE:
        hear_exchange(group, at, frame, body);
        return;
    case TUTTI_FRAME_STOP:
        hear_stop(group, at, body);
        break;
    case TUTTI_FRAME_BYE:
        left(group, at);
        break;
    }
    tutti_packet_drop(body);
}

static void listen_to(struct tutti_group_tcp *group, uint32_t at, tutti_ps now_ps)
{
    struct tutti_peer *peer = &group->peers[at];
    size_t most = group->base.index == 0 ? TUTTI_FRAME_PART_BYTES_MAX : TUTTI_FRAME_ALL_BYTES_MAX;
    enum tutti_heard heard = TUTTI_HEARD_FRAME;
    int code = 0;

    peer->heard_ps = now_ps;
    for (int i = 0;
         i < FRAMES_A_TURN && heard == TUTTI_HEARD_FRAME && peer->fd >= 0 && !group->held; i++) {
        struct tutti_frame frame;
        struct tutti_packet *body = NULL;

        heard = tutti_peer_hear(peer, most, &group->room, &frame, &body);
        code = errno;
        if (heard == TUTTI_HEARD_FRAME)
            hear(group, at, &frame, body);
    }
    if (heard == TUTTI_HEARD_END) {
        gone(group, at, code);
    } else if (heard == TUTTI_HEARD_NO_MEMORY) {
        tutti_progress_end(group, -TUTTI_ENOMEM, "out of memory");
        tutti_peer_close(peer);
    } else if (heard == TUTTI_HEARD_NOISE) {
        tutti_progress_end(group, -TUTTI_EIO,
                           "process %u of %u ('%s') sends what nobody understands",
                           peer_index(group, at), group->base.count, peer->address);
        tutti_peer_close(peer);
    }
}

/* ---- orders ---- */

static void pass_on(struct tutti_group_tcp *group, struct tutti_packet *mine)
{
    struct tutti_frame frame = {0};
    bool known = tutti_frame_read_head(mine->data, &frame);

    assert(known);
    if (group->base.index == 0) {
        tutti_root_take_part(group, 0, mine, TUTTI_FRAME_HEAD_BYTES, frame.wait_ms);
        return;
    }
    if (group->peers[0].fd < 0) {
        tutti_progress_end(group, -TUTTI_EIO, "process 0 of %u has left", group->base.count);
        tutti_packet_drop(mine);
        return;
    }
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE,
                                                 .bytes = frame.bytes,
                                                 .incarnation = group->view.incarnation,
                                                 .round = group->round,
                                                 .wait_ms = frame.wait_ms},
                           mine->data);
    group->asked = true;
    tutti_peer_tell(&group->peers[0], mine);
}

/* Tells everybody that it is over, once. */
static void tell_end(struct tutti_group_tcp *group)
{
    struct tutti_ending ending;

    pthread_mutex_lock(&group->mailbox.lock);
    ending = group->mailbox.ending;
    pthread_mutex_unlock(&group->mailbox.lock);
    group->told = true;
    group->stop->bytes =
        tutti_frame_write_stop(&ending, group->view.incarnation, group->stop->data);
    broadcast(group, group->stop);
}

/* One that was itself stopped or held up has heard nobody, and may blame nobody for it. */
static void forgive(struct tutti_group_tcp *group, tutti_ps now_ps)
{
    for (uint32_t i = 0; i < group->peer_count; i++)
        group->peers[i].heard_ps = now_ps;
    for (uint32_t i = 0; group->newcomers != NULL && i < group->newcomers->count; i++)
        group->newcomers->peers[i].heard_ps = now_ps;
}

/* False: it is time to close. */
static bool obey(struct tutti_group_tcp *group)
{
    struct tutti_packet *mine;
    bool over;
    bool quit;
    bool resumes;

    pthread_mutex_lock(&group->mailbox.lock);
    mine = group->mailbox.mine;
    group->mailbox.mine = NULL;
    if (mine != NULL) {
        assert(group->room == NULL ||
               group->mailbox.over); /* left by an exchange that has failed */
        tutti_packet_drop(group->room);
        group->room = group->mailbox.room;
        group->mailbox.room = NULL;
    }
    over = group->mailbox.over;
    quit = group->mailbox.quit;
    resumes = group->held && !group->mailbox.hold;
    pthread_mutex_unlock(&group->mailbox.lock);
    if (resumes) {
        group->held = false;
        forgive(group, tutti_mailbox_now(&group->mailbox));
    }
    if (mine != NULL && !over)
        pass_on(group, mine);
    else
        tutti_packet_drop(mine);
    if (over && !group->told)
        tell_end(group);
    return !quit;
}

/* ---- the turns ---- */

/* True: a beat is due. */
static bool look_at_clock(struct tutti_group_tcp *group, tutti_ps now_ps)
{
    bool beats = now_ps >= group->beat_due_ps;

    for (uint32_t i = 0; i < group->peer_count; i++) {
        struct tutti_peer *peer = &group->peers[i];
        char time[TUTTI_UNIT_TEXT_BYTES];

        if (peer->fd < 0 || group->held || now_ps - peer->heard_ps < group->stall_ps)
            continue;
        tutti_progress_end(group, -TUTTI_EIO,
                           "process %u of %u ('%s') has given no sign of life for %s",
                           peer_index(group, i), group->base.count, peer->address,
                           tutti_print_time(group->stall_ps, time));
        tutti_peer_close(peer);
    }
    if (beats) {
        group->beat_due_ps = tutti_group_after(now_ps, beat_ps(group));
        for (uint32_t i = 0; i < group->peer_count; i++)
            if (group->peers[i].fd >= 0 && group->peers[i].out_count == 0)
                tutti_peer_tell(&group->peers[i], tutti_packet_hold(group->ping));
    }
    if (group->base.index == 0)
        tutti_root_look_at_clock(group, now_ps);
    return beats;
}

static tutti_ps sooner(tutti_ps a, tutti_ps b)
{
    return a < b ? a : b;
}

static tutti_ps next_due(const struct tutti_group_tcp *group)
{
    tutti_ps due = group->beat_due_ps; /* often enough to see who is silent */

    if (group->base.index == 0)
        due = sooner(due, tutti_root_due(group));
    if (group->rendezvous != NULL)
        due = sooner(due, tutti_listener_due(group->rendezvous));
    if (group->leave_due_ps > 0)
        due = sooner(due, group->leave_due_ps);
    return sooner(due, tutti_listener_due(group->links));
}

static size_t add_peers(const struct tutti_group_tcp *group, struct pollfd *polls)
{
    for (uint32_t i = 0; i < group->peer_count; i++) {
        const struct tutti_peer *peer = &group->peers[i];

        polls[i] = (struct pollfd){.fd = group->held ? -1 : peer->fd,
                                   .events = (short)(POLLIN | (peer->out_count > 0 ? POLLOUT : 0))};
    }
    return group->peer_count;
}

static void move_peers(struct tutti_group_tcp *group, const struct pollfd *polls, tutti_ps now_ps)
{
    for (uint32_t i = 0; i < group->peer_count; i++) {
        if (polls[i].fd < 0 || group->peers[i].fd != polls[i].fd)
            continue;
        if ((polls[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            listen_to(group, i, now_ps);
        if (group->peers[i].fd >= 0 && !tutti_peer_send(&group->peers[i]))
            gone(group, i, errno);
    }
}

static void turn(struct tutti_group_tcp *group)
{
    struct pollfd *polls = group->polls;
    tutti_ps now_ps = tutti_mailbox_now(&group->mailbox);
    tutti_ps due_ps = next_due(group);
    size_t count = 1;
    size_t links_at;
    size_t newcomers_at;
    size_t peers_at;
    bool beats;

    polls[0] = (struct pollfd){.fd = group->mailbox.poke_fd, .events = POLLIN};
    if (group->rendezvous != NULL)
        count += tutti_listener_polls(group->rendezvous, now_ps, polls + count);
    links_at = count;
    count += tutti_listener_polls(group->links, now_ps, polls + count);
    newcomers_at = count;
    count += tutti_newcomers_polls(group, polls + count);
    peers_at = count;
    count += add_peers(group, polls + count);
    if (poll(polls, (nfds_t)count, tutti_mailbox_ms_until(&group->mailbox, due_ps)) < 0)
        for (size_t i = 0; i < count; i++)
            polls[i].revents = 0;
    now_ps = tutti_mailbox_now(&group->mailbox);
    if (now_ps - due_ps > group->stall_ps / 2)
        forgive(group, now_ps);
    if (polls[0].revents != 0)
        tutti_mailbox_drain(&group->mailbox);
    /* Before the listeners, which put new peers into the places polled. */
    move_peers(group, polls + peers_at, now_ps);
    if (group->rendezvous != NULL)
        tutti_listener_move(group->rendezvous, polls + 1, now_ps);
    tutti_listener_move(group->links, polls + links_at, now_ps);
    beats = look_at_clock(group, now_ps);
    tutti_newcomers_move(group, polls + newcomers_at, peers_at - newcomers_at, now_ps, beats);
}

/* All has been said: what is on its way goes out, and everybody else closes, or time is up. */
static void take_leave(struct tutti_group_tcp *group)
{
    tutti_ps due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), group->farewell_ps);
    bool some = true;

    broadcast(group, group->bye);
    while (some && tutti_mailbox_now(&group->mailbox) < due_ps) {
        size_t count = add_peers(group, group->polls);

        some = false;
        for (uint32_t i = 0; i < group->peer_count; i++)
            some = some || group->peers[i].fd >= 0;
        if (!some ||
            poll(group->polls, (nfds_t)count, tutti_mailbox_ms_until(&group->mailbox, due_ps)) < 0)
            continue;
        for (uint32_t i = 0; i < group->peer_count; i++) {
            struct tutti_peer *peer = &group->peers[i];
            uint8_t rubbish[4096];

            if (group->polls[i].fd < 0)
                continue;
            if ((group->polls[i].revents & POLLOUT) != 0 && !tutti_peer_send(peer))
                tutti_peer_close(peer);
            else if ((group->polls[i].revents & ~POLLOUT) != 0 &&
                     recv(peer->fd, rubbish, sizeof(rubbish), MSG_DONTWAIT) <= 0)
                tutti_peer_close(peer);
            else if (peer->out_count == 0)
                (void)shutdown(peer->fd, SHUT_WR);
        }
    }
}

static void *keep(void *data)
{
    struct tutti_group_tcp *group = data;

    while (obey(group)) {
        /* What an order put into the way of a peer goes at once, not a turn later. */
        for (uint32_t i = 0; i < group->peer_count; i++)
            if (group->peers[i].fd >= 0 && !tutti_peer_send(&group->peers[i]))
                gone(group, i, errno);
        turn(group);
    }
    if (group->mailbox.halt)
        return NULL; /* nobody writes it any more */
    group->leave_due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), LATE_PS);
    while (tutti_root_expects(group, tutti_mailbox_now(&group->mailbox)) &&
           tutti_mailbox_now(&group->mailbox) < group->leave_due_ps)
        turn(group);
    take_leave(group);
    return NULL;
}

int tutti_progress_start(struct tutti_group_tcp *group, struct tutti_err *err)
{
    sigset_t all;
    sigset_t old;
    int code;

    group->beat_due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), beat_ps(group));
    /* Signals are for the threads of the program. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&group->progress, NULL, keep, group);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(code));
    group->has_progress = true;
    return 0;
}

static void end_thread(struct tutti_group_tcp *group, bool halt)
{
    if (!group->has_progress)
        return;
    pthread_mutex_lock(&group->mailbox.lock);
    group->mailbox.quit = true;
    group->mailbox.halt = halt;
    pthread_mutex_unlock(&group->mailbox.lock);
    tutti_mailbox_poke(&group->mailbox);
    (void)pthread_join(group->progress, NULL);
    group->has_progress = false;
}

void tutti_progress_stop(struct tutti_group_tcp *group)
{
    end_thread(group, false);
}

void tutti_progress_halt(struct tutti_group_tcp *group)
{
    end_thread(group, true);
}
