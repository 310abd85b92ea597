/* What a leader and those who follow it say to each other, and what is done when one is lost. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/regroup.h"

enum { FRAMES_A_TURN = 16 };

/* ---- what the leader tells all ---- */

static void tell_all(struct tutti_regroup *regroup, struct tutti_packet *packet)
{
    for (uint32_t i = 0; i < regroup->view.count; i++) {
        struct tutti_peer *peer = &regroup->peers[i];

        if (regroup->members[i].standing == TUTTI_STANDING_HERE &&
            peer->out_count < TUTTI_PEER_OUT_MAX)
            tutti_peer_tell(peer, tutti_packet_hold(packet));
    }
    tutti_packet_drop(packet);
}

/* All that follow end with the same words. */
static void give_up(struct tutti_regroup *regroup)
{
    struct tutti_ending ending = {
        .status = regroup->status, .origin = TUTTI_ENDING_PLAIN, .err = regroup->err};
    struct tutti_packet *stop =
        tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES);

    if (stop == NULL)
        return; /* they see it close */
    stop->bytes = tutti_frame_write_stop(&ending, regroup->incarnation_max, stop->data);
    tell_all(regroup, stop);
    for (uint32_t i = 0; i < regroup->view.count; i++)
        if (regroup->peers[i].fd >= 0)
            (void)tutti_peer_send(&regroup->peers[i]);
}

/* ---- losses ---- */

/* One that is left behind shall know it when it goes on, and not take the others for dead. */
static void say_good_bye(const struct tutti_regroup *regroup, struct tutti_peer *peer)
{
    if (peer->out_count < TUTTI_PEER_OUT_MAX)
        tutti_peer_tell(peer, tutti_packet_hold(regroup->bye));
    (void)tutti_peer_send(peer);
}

void tutti_regroup_lose(struct tutti_regroup *regroup, uint32_t place, enum tutti_standing how)
{
    struct tutti_regroup_member *member = &regroup->members[place];
    struct tutti_peer *peer = &regroup->peers[place];
    bool was_here = member->standing == TUTTI_STANDING_HERE;

    if (peer->fd >= 0 && how == TUTTI_STANDING_LATE)
        say_good_bye(regroup, peer);
    tutti_peer_close(peer);
    member->standing = how;
    if (regroup->admits && place < regroup->old_count) {
        tutti_regroup_fail(regroup, -TUTTI_EIO, "process %u of %u ('%s') %s", place,
                           regroup->old_count, peer->address,
                           how == TUTTI_STANDING_GONE ? "has gone" : "gives no sign of life");
        if (regroup->phase != TUTTI_REGROUP_FOLLOWS)
            give_up(regroup);
        return;
    }
    if (regroup->phase == TUTTI_REGROUP_FOLLOWS && place == regroup->leader) {
        regroup->phase = TUTTI_REGROUP_SEEKS;
        tutti_regroup_halve(regroup); /* all that followed seek anew */
    }
    if (regroup->phase != TUTTI_REGROUP_AGREES || !was_here)
        return;
    if (how != TUTTI_STANDING_UNKNOWN) {
        regroup->repropose = true;
        return;
    }
    regroup->phase = TUTTI_REGROUP_GATHERS;
    if (tutti_regroup_now(regroup) >= regroup->half_ps)
        tutti_regroup_halve(regroup);
}

/* Its connection has ended without a word. It may have died; or it lives, and has given up a call
 * that was answered late. Who calls it finds out: where nobody listens any more it is gone. */
void tutti_regroup_cut_off(struct tutti_regroup *regroup, uint32_t place)
{
    tutti_regroup_lose(regroup, place,
                       regroup->admits ? TUTTI_STANDING_GONE : TUTTI_STANDING_UNKNOWN);
}

/* ---- the leader ---- */

static uint32_t here_count(const struct tutti_regroup *regroup)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < regroup->view.count; i++)
        count += regroup->members[i].standing == TUTTI_STANDING_HERE;
    return count;
}

/* What is told may lose some, who then have not been told. */
static void send_all(struct tutti_regroup *regroup)
{
    for (uint32_t i = 0; i < regroup->view.count; i++)
        if (regroup->peers[i].fd >= 0 && !tutti_peer_send(&regroup->peers[i]))
            tutti_regroup_cut_off(regroup, i);
}

/* "; process 2 has gone; process 3 has not come within 2.5s", as far as it fits. */
static const char *reasons(const struct tutti_regroup *regroup, char *text, size_t bytes)
{
    char time[TUTTI_UNIT_TEXT_BYTES];
    size_t used = 0;

    text[0] = '\0';
    (void)tutti_print_time(regroup->half_ps - regroup->begin_ps, time);
    for (uint32_t i = 0; i < regroup->view.count && used + 80 < bytes; i++) {
        enum tutti_standing how = regroup->members[i].standing;

        if (how == TUTTI_STANDING_GONE)
            used += (size_t)snprintf(text + used, bytes - used, "; process %u has gone", i);
        if (how == TUTTI_STANDING_LATE)
            used += (size_t)snprintf(text + used, bytes - used,
                                     "; process %u has not come within %s", i, time);
    }
    return text;
}

void tutti_regroup_propose(struct tutti_regroup *regroup)
{
    struct tutti_view *view = &regroup->proposed;
    uint32_t count = here_count(regroup);
    struct tutti_packet *packet;
    uint32_t at = 0;
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];

    regroup->repropose = false;
    if (count < regroup->count_min) {
        char text[512];

        tutti_regroup_fail(regroup, -TUTTI_EIO, "%u of %u processes are left, %u are wanted%s",
                           count, regroup->view.count, regroup->count_min,
                           reasons(regroup, text, sizeof(text)));
        give_up(regroup);
        return;
    }
    tutti_view_done(view);
    packet = tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + tutti_view_bytes(count));
    view->members = malloc(count * sizeof(view->members[0]));
    if (packet == NULL || view->members == NULL || !tutti_handshake_nonce(nonce) ||
        regroup->incarnation_max == UINT32_MAX) {
        tutti_packet_drop(packet);
        tutti_regroup_fail(regroup, -TUTTI_ENOMEM, "out of memory");
        return;
    }
    memcpy(&view->id, nonce, sizeof(view->id));
    view->incarnation = ++regroup->incarnation_max;
    view->next_id = regroup->view.next_id;
    view->count = count;
    for (uint32_t i = 0; i < regroup->view.count; i++)
        if (i == regroup->place || regroup->members[i].standing == TUTTI_STANDING_HERE)
            view->members[at++] = regroup->view.members[i];
    assert(at == count);
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_PROPOSE,
                                                 .bytes = (uint32_t)tutti_view_bytes(count),
                                                 .incarnation = view->incarnation},
                           packet->data);
    tutti_view_write(view, packet->data + TUTTI_FRAME_HEAD_BYTES);
    for (uint32_t i = 0; i < regroup->view.count; i++)
        regroup->members[i].accepted = false;
    regroup->phase = TUTTI_REGROUP_AGREES;
    tell_all(regroup, packet);
    send_all(regroup);
}

static void log_change(const struct tutti_regroup *regroup)
{
    const struct tutti_group_tcp *group = regroup->group;
    char line[1024];
    char text[768];

    if (group->log == NULL)
        return;
    (void)snprintf(line, sizeof(line), "incarnation %u: %u of %u processes go on%s",
                   regroup->proposed.incarnation, regroup->proposed.count, regroup->view.count,
                   reasons(regroup, text, sizeof(text)));
    group->log(group->log_data, line);
}

void tutti_regroup_commit(struct tutti_regroup *regroup)
{
    struct tutti_packet *packet =
        tutti_packet_of_head(TUTTI_FRAME_COMMIT, regroup->proposed.incarnation);

    if (packet == NULL) {
        tutti_regroup_fail(regroup, -TUTTI_ENOMEM, "out of memory");
        return;
    }
    tell_all(regroup, packet);
    log_change(regroup);
    /* One that is lost from here on is lost to the next group, which will say so. */
    for (uint32_t i = 0; i < regroup->view.count; i++)
        if (regroup->peers[i].fd >= 0)
            (void)tutti_peer_send(&regroup->peers[i]);
    regroup->phase = TUTTI_REGROUP_DONE;
}

/* ---- one that follows ---- */

/* Takes the proposed view for its own: if this leader is lost, the next is sought by it. */
static int take(struct tutti_regroup *regroup, const struct tutti_packet *body)
{
    struct tutti_peer *leader = &regroup->peers[regroup->leader];
    struct tutti_view view = {.members = NULL};
    struct tutti_regroup_member *members = NULL;
    struct tutti_peer *peers = NULL;
    struct pollfd *polls = NULL;
    struct tutti_address address;
    uint32_t own_id = regroup->view.members[regroup->place].id;
    int status = tutti_view_read(body->data, body->bytes, &view, &regroup->err);

    if (status < 0)
        return status;
    tutti_address_of_peer(leader->fd, &address);
    tutti_view_resolve(&view, &address, &regroup->view);
    members = calloc(view.count, sizeof(members[0]));
    peers = calloc(view.count, sizeof(peers[0]));
    polls = calloc(1 + TUTTI_LISTENER_POLL_MAX + TUTTI_REGROUP_CALLS + (size_t)view.count,
                   sizeof(polls[0]));
    if (members == NULL || peers == NULL || polls == NULL)
        status = tutti_nomem(&regroup->err);
    else if (view.incarnation <= regroup->view.incarnation ||
             tutti_view_find(&view, own_id) == view.count)
        status = tutti_fail(&regroup->err, TUTTI_EIO, "process %u of %u proposes a wrong group",
                            regroup->leader, regroup->view.count);
    if (status < 0) {
        free(members);
        free(peers);
        free(polls);
        tutti_view_done(&view);
        return status;
    }
    for (uint32_t i = 0; i < view.count; i++)
        peers[i].fd = -1;
    peers[0] = *leader; /* the first of those whom it proposes is itself */
    members[0].standing = TUTTI_STANDING_HERE;
    tutti_view_done(&regroup->view);
    free(regroup->members);
    free(regroup->peers);
    free(regroup->polls);
    regroup->view = view;
    regroup->members = members;
    regroup->peers = peers;
    regroup->polls = polls;
    regroup->leader = 0;
    regroup->place = tutti_view_find(&view, own_id);
    regroup->incarnation_max = view.incarnation;
    return 0;
}

static void hear_proposal(struct tutti_regroup *regroup, const struct tutti_packet *body)
{
    struct tutti_packet *accept = tutti_packet_new(TUTTI_FRAME_HEAD_BYTES);
    int status = accept == NULL ? tutti_nomem(&regroup->err) : take(regroup, body);

    if (status < 0) {
        tutti_packet_drop(accept);
        regroup->status = status;
        return;
    }
    tutti_frame_write_head(
        &(struct tutti_frame){.type = TUTTI_FRAME_ACCEPT, .incarnation = regroup->view.incarnation},
        accept->data);
    tutti_peer_tell(&regroup->peers[0], accept);
    if (!tutti_peer_send(&regroup->peers[0]))
        tutti_regroup_cut_off(regroup, 0);
}

static void hear_stop(struct tutti_regroup *regroup, const struct tutti_packet *body)
{
    struct tutti_ending ending;

    if (!tutti_frame_read_stop(body->data, body->bytes, &ending))
        tutti_regroup_fail(regroup, -TUTTI_EIO, "process %u of %u stops for no known reason",
                           regroup->leader, regroup->view.count);
    else
        tutti_regroup_fail(regroup, ending.status, "%s", ending.err.text);
}

static void hear_leader(struct tutti_regroup *regroup, const struct tutti_frame *frame,
                        const struct tutti_packet *body)
{
    if (frame->type == TUTTI_FRAME_PROPOSE)
        hear_proposal(regroup, body);
    else if (frame->type == TUTTI_FRAME_COMMIT && frame->incarnation == regroup->view.incarnation &&
             regroup->view.incarnation > regroup->group->view.incarnation)
        regroup->phase = TUTTI_REGROUP_DONE;
    else if (frame->type == TUTTI_FRAME_STOP)
        hear_stop(regroup, body);
    else if (frame->type == TUTTI_FRAME_BYE)
        tutti_regroup_fail(regroup, -TUTTI_ETIME,
                           "process %u of %u is left behind: process %u has heard nothing of it",
                           regroup->place, regroup->view.count, regroup->leader);
}

/* ---- both ---- */

static void hear_member(struct tutti_regroup *regroup, uint32_t place,
                        const struct tutti_frame *frame)
{
    if (frame->type == TUTTI_FRAME_ACCEPT && regroup->phase == TUTTI_REGROUP_AGREES &&
        frame->incarnation == regroup->proposed.incarnation)
        regroup->members[place].accepted = true;
    else if (frame->type == TUTTI_FRAME_BYE)
        tutti_regroup_fail(regroup, -TUTTI_ETIME,
                           "process %u of %u is left behind: process %u has heard nothing of it",
                           regroup->place, regroup->view.count, place);
    else if (frame->type == TUTTI_FRAME_STOP)
        tutti_regroup_cut_off(regroup, place);
}

void tutti_regroup_listen_to(struct tutti_regroup *regroup, uint32_t place)
{
    enum tutti_heard heard = TUTTI_HEARD_FRAME;

    for (int i = 0; i < FRAMES_A_TURN && heard == TUTTI_HEARD_FRAME; i++) {
        struct tutti_peer *peer = &regroup->peers[place];
        struct tutti_packet *room = NULL;
        struct tutti_packet *body = NULL;
        struct tutti_frame frame;

        if (peer->fd < 0 || regroup->status < 0 || regroup->phase == TUTTI_REGROUP_DONE)
            return; /* what comes after COMMIT is for the next group */
        peer->heard_ps = tutti_regroup_now(regroup);
        heard = tutti_peer_hear(peer, TUTTI_FRAME_PART_BYTES_MAX, &room, &frame, &body);
        if (heard == TUTTI_HEARD_FRAME && regroup->phase == TUTTI_REGROUP_FOLLOWS) {
            hear_leader(regroup, &frame, body);
            place = regroup->leader; /* by the view that it may have taken */
        } else if (heard == TUTTI_HEARD_FRAME) {
            hear_member(regroup, place, &frame);
        }
        tutti_packet_drop(body);
    }
    if (heard == TUTTI_HEARD_NO_MEMORY)
        tutti_regroup_fail(regroup, -TUTTI_ENOMEM, "out of memory");
    else if (heard == TUTTI_HEARD_END)
        tutti_regroup_cut_off(regroup, place);
    else if (heard == TUTTI_HEARD_NOISE)
        tutti_regroup_lose(regroup, place, TUTTI_STANDING_GONE);
}
