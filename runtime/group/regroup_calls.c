/* The connections of a regroup: who calls here, who is called, and what either learns by it. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/group/regroup.h"

static const tutti_ps PAUSE_PS = 10 * TUTTI_PS_PER_MS; /* until one who cannot yet is asked again */

/* ---- who calls here ---- */

static bool refuse(struct tutti_client *client, enum tutti_handshake_reason reason, uint32_t value)
{
    tutti_handshake_refuse(&client->handshake, reason, value, "");
    return false;
}

/* Place `from` leads and wants this one. */
static bool answer_probe(struct tutti_regroup *regroup, struct tutti_client *client, uint32_t from)
{
    bool other = regroup->phase == TUTTI_REGROUP_FOLLOWS && regroup->leader > from;
    bool leads = regroup->phase == TUTTI_REGROUP_GATHERS || regroup->phase == TUTTI_REGROUP_AGREES;

    /* It was taken for lost, and others have come together since: of two leaders one goes on. */
    if (other || leads)
        return refuse(client, TUTTI_HANDSHAKE_LEFT_BEHIND, regroup->incarnation_max);
    if (regroup->phase == TUTTI_REGROUP_SEEKS && from < regroup->place &&
        !regroup->members[from].calling) {
        regroup->members[from].standing = TUTTI_STANDING_UNKNOWN;
        regroup->members[from].not_before_ps = 0;
    }
    return refuse(client, TUTTI_HANDSHAKE_NOT_YET, 0);
}

static bool let_in(struct tutti_regroup *regroup, struct tutti_client *client, uint32_t from)
{
    struct tutti_peer *peer = &regroup->peers[from];
    const struct tutti_hello *hello = &client->handshake.said;
    tutti_ps now_ps = tutti_regroup_now(regroup);
    tutti_ps left_ps =
        (tutti_ps)(hello->key < UINT32_MAX ? hello->key : UINT32_MAX) * TUTTI_PS_PER_MS;
    tutti_ps half_ps = tutti_group_after(now_ps, left_ps / 4 * 3);

    if (regroup->phase != TUTTI_REGROUP_GATHERS || from < regroup->place)
        return refuse(client, TUTTI_HANDSHAKE_NOT_YET, 0);
    tutti_handshake_welcome(&client->handshake, 0, NULL);
    if (tutti_handshake_talk(&client->handshake, client->fd) != 1)
        return false;
    tutti_socket_tune(client->fd, (uint32_t)(regroup->group->stall_ps / TUTTI_PS_PER_MS), false);
    tutti_peer_close(peer); /* one that calls again has given its first call up */
    tutti_peer_open(peer, client->fd, now_ps);
    regroup->members[from].standing = TUTTI_STANDING_HERE;
    /* Of what it has left a quarter is for agreeing. */
    if (half_ps < regroup->half_ps)
        regroup->half_ps = half_ps;
    return true;
}

static bool proved(void *data, struct tutti_client *client)
{
    struct tutti_regroup *regroup = data;
    const struct tutti_hello *hello = &client->handshake.said;
    uint32_t from;

    /* A data connection of the next incarnation, of one that is there before this one, or of the
     * last, of one that does not know yet; a newcomer: all try again. */
    if (hello->kind != TUTTI_HANDSHAKE_SHRINK || regroup->is_newcomer)
        return refuse(client,
                      hello->kind == TUTTI_HANDSHAKE_LINK ? TUTTI_HANDSHAKE_BROKEN_OFF
                                                          : TUTTI_HANDSHAKE_NOT_YET,
                      0);
    from = tutti_view_find(&regroup->view, hello->index);
    if (from == regroup->view.count)
        return refuse(client, TUTTI_HANDSHAKE_LEFT_BEHIND, regroup->view.incarnation);
    if (from == regroup->place || hello->peer != regroup->view.members[regroup->place].id)
        return refuse(client, TUTTI_HANDSHAKE_NOT_WANTED, 0);
    if (hello->incarnation > regroup->incarnation_max)
        regroup->incarnation_max = hello->incarnation;
    return hello->round == 1 ? answer_probe(regroup, client, from) : let_in(regroup, client, from);
}

static void refused(void *data, const struct tutti_client *client, const char *why)
{
    const struct tutti_regroup *regroup = data;
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    tutti_progress_refused(regroup->group, tutti_address_text(&client->from, text), why);
}

const struct tutti_listener_ops tutti_regroup_listener_ops = {.proved = proved, .refused = refused};

/* ---- who is called ---- */

static void end_call(struct tutti_regroup *regroup, struct tutti_regroup_slot *slot)
{
    if (!slot->used)
        return;
    tutti_call_end(&slot->call);
    regroup->members[slot->place].calling = false;
    slot->used = false;
}

void tutti_regroup_end_calls(struct tutti_regroup *regroup)
{
    for (uint32_t i = 0; i < TUTTI_REGROUP_CALLS; i++)
        end_call(regroup, &regroup->slots[i]);
}

void tutti_regroup_call(struct tutti_regroup *regroup, uint32_t place)
{
    struct tutti_group_tcp *group = regroup->group;
    const struct tutti_member *members = regroup->view.members;
    tutti_ps now_ps = tutti_regroup_now(regroup);
    tutti_ps left_ps = regroup->due_ps > now_ps ? regroup->due_ps - now_ps : 0;
    struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_SHRINK,
                                .index = members[regroup->place].id,
                                .count = regroup->view.count,
                                .peer = members[place].id,
                                .round = place > regroup->place,
                                .key = (uint64_t)(left_ps / TUTTI_PS_PER_MS) + 1,
                                .incarnation = regroup->incarnation_max,
                                .view = regroup->view.id};
    struct tutti_regroup_slot *slot = regroup->slots;
    struct tutti_address to;

    while (slot < regroup->slots + TUTTI_REGROUP_CALLS && slot->used)
        slot++;
    if (slot == regroup->slots + TUTTI_REGROUP_CALLS)
        return;
    tutti_address_unpack(members[place].address, (uint16_t)members[place].port, group->scope, &to);
    regroup->members[place].not_before_ps = now_ps + PAUSE_PS;
    if (!tutti_call_begin(&slot->call, &to, group->session, sizeof(group->session), &hello, NULL)) {
        if (slot->call.code == ECONNREFUSED)
            tutti_regroup_lose(regroup, place, TUTTI_STANDING_GONE);
        return;
    }
    slot->used = true;
    slot->place = place;
    slot->due_ps = tutti_group_after(now_ps, regroup->quiet_ps);
    regroup->members[place].calling = true;
}

/* Who answers at its address without being of this group: the member is gone, and its port has been
 * given to another program. */
static bool is_somebody_else(const struct tutti_handshake *handshake)
{
    switch (handshake->state) {
    case TUTTI_HANDSHAKE_STRANGER:
    case TUTTI_HANDSHAKE_IMPOSTOR:
        return true;
    case TUTTI_HANDSHAKE_REFUSED:
        return handshake->reason < TUTTI_HANDSHAKE_BROKEN_OFF ||
               handshake->reason == TUTTI_HANDSHAKE_OTHER_KIND ||
               handshake->reason == TUTTI_HANDSHAKE_NOT_WANTED;
    default:
        return false;
    }
}

static void left_behind(struct tutti_regroup *regroup, uint32_t by, uint32_t incarnation)
{
    tutti_regroup_fail(regroup, -TUTTI_ETIME,
                       "process %u of %u is left behind: the others have gone on without it, says "
                       "process %u (incarnation %u)",
                       regroup->place, regroup->view.count, by, incarnation);
}

static void move_call(struct tutti_regroup *regroup, struct tutti_regroup_slot *slot)
{
    struct tutti_regroup_member *member = &regroup->members[slot->place];
    struct tutti_call *call = &slot->call;
    enum tutti_called how = tutti_call_move(call, "", NULL);
    uint32_t place = slot->place;
    int fd = call->fd;

    if (how == TUTTI_CALL_GOING)
        return;
    member->not_before_ps = tutti_regroup_now(regroup) + PAUSE_PS;
    if (how == TUTTI_CALL_DONE && regroup->phase == TUTTI_REGROUP_SEEKS) {
        call->fd = -1;
        tutti_socket_tune(fd, (uint32_t)(regroup->group->stall_ps / TUTTI_PS_PER_MS), false);
        tutti_regroup_follow(regroup, place, fd);
        return;
    }
    if (how == TUTTI_CALL_REFUSED && call->handshake.reason == TUTTI_HANDSHAKE_LEFT_BEHIND)
        left_behind(regroup, place, call->handshake.value);
    else if (call->code == ECONNREFUSED || (call->connected && is_somebody_else(&call->handshake)))
        tutti_regroup_lose(regroup, place, TUTTI_STANDING_GONE);
    end_call(regroup, slot);
}

void tutti_regroup_move_calls(struct tutti_regroup *regroup, const struct pollfd *polls)
{
    for (uint32_t i = 0; i < TUTTI_REGROUP_CALLS && regroup->status == 0; i++) {
        struct tutti_regroup_slot *slot = &regroup->slots[i];

        if (!slot->used || polls[i].fd != slot->call.fd)
            continue;
        if (polls[i].revents != 0)
            move_call(regroup, slot);
        else if (tutti_regroup_now(regroup) >= slot->due_ps)
            end_call(regroup, slot); /* no answer: once more */
    }
}
