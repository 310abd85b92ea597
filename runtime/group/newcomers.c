/* Newcomers at process 0: they have proved the secret, and wait to be admitted. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/progress.h"

struct tutti_newcomers *tutti_newcomers_new(void)
{
    struct tutti_newcomers *newcomers = calloc(1, sizeof(*newcomers));

    for (uint32_t i = 0; newcomers != NULL && i < TUTTI_NEWCOMERS_MAX; i++)
        newcomers->peers[i].fd = -1;
    return newcomers;
}

void tutti_newcomers_free(struct tutti_newcomers *newcomers)
{
    for (uint32_t i = 0; newcomers != NULL && i < TUTTI_NEWCOMERS_MAX; i++)
        tutti_peer_close(&newcomers->peers[i]);
    free(newcomers);
}

static bool refuse(struct tutti_client *client, enum tutti_handshake_reason reason,
                   const char *note)
{
    tutti_handshake_refuse(&client->handshake, reason, 0, note);
    return false;
}

/* Any member knows where process 0 is; a note has room for every address but a few of IPv6 with the
 * name of an interface, which are cut, and then found wrong. */
static bool send_on(struct tutti_group_tcp *group, struct tutti_client *client)
{
    struct tutti_address root;
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    char note[TUTTI_HANDSHAKE_NOTE_BYTES];

    tutti_group_tcp_where(group, 0, &root);
    (void)snprintf(note, sizeof(note), "%.51s", tutti_address_text(&root, text));
    return refuse(client, TUTTI_HANDSHAKE_ELSEWHERE, note);
}

bool tutti_newcomers_proved(struct tutti_group_tcp *group, struct tutti_client *client)
{
    static const uint8_t as_seen[16] = {0};
    const struct tutti_hello *hello = &client->handshake.said;
    struct tutti_newcomers *newcomers = group->newcomers;
    struct tutti_peer *peer;
    bool ready;

    pthread_mutex_lock(&group->mailbox.lock);
    ready = group->mailbox.complete && !group->mailbox.over;
    pthread_mutex_unlock(&group->mailbox.lock);
    if (!ready)
        return refuse(client, TUTTI_HANDSHAKE_NOT_YET, "");
    if (group->base.index != 0)
        return send_on(group, client);
    if (hello->port == 0 || hello->port > UINT16_MAX)
        return refuse(client, TUTTI_HANDSHAKE_OTHER_KIND, "");
    if (newcomers->count == TUTTI_NEWCOMERS_MAX || newcomers->next_id == UINT32_MAX)
        return refuse(client, TUTTI_HANDSHAKE_TOO_MANY, "");
    client->handshake.value = newcomers->next_id;
    tutti_handshake_welcome(&client->handshake, 0, group->session);
    if (tutti_handshake_talk(&client->handshake, client->fd) != 1)
        return false;
    peer = &newcomers->peers[newcomers->count];
    tutti_socket_tune(client->fd, (uint32_t)(group->stall_ps / TUTTI_PS_PER_MS), false);
    tutti_peer_open(peer, client->fd, tutti_mailbox_now(&group->mailbox));
    peer->member = (struct tutti_member){.id = newcomers->next_id++, .port = hello->port};
    memcpy(peer->member.address, hello->address, sizeof(peer->member.address));
    if (memcmp(hello->address, as_seen, sizeof(as_seen)) == 0)
        tutti_address_pack(&client->from, peer->member.address);
    newcomers->count++;
    atomic_store(&group->mailbox.newcomer_count, newcomers->count);
    return true;
}

/* The others move up: who came first is admitted first. */
static void forget(struct tutti_group_tcp *group, uint32_t at)
{
    struct tutti_newcomers *newcomers = group->newcomers;

    tutti_peer_close(&newcomers->peers[at]);
    newcomers->count--;
    memmove(&newcomers->peers[at], &newcomers->peers[at + 1],
            (newcomers->count - at) * sizeof(newcomers->peers[0]));
    newcomers->peers[newcomers->count] = (struct tutti_peer){.fd = -1};
    atomic_store(&group->mailbox.newcomer_count, newcomers->count);
}

size_t tutti_newcomers_polls(const struct tutti_group_tcp *group, struct pollfd *ret)
{
    const struct tutti_newcomers *newcomers = group->newcomers;
    size_t count = newcomers == NULL ? 0 : newcomers->count;

    for (size_t i = 0; i < count; i++)
        ret[i] = (struct pollfd){
            .fd = newcomers->peers[i].fd,
            .events = (short)(POLLIN | (newcomers->peers[i].out_count > 0 ? POLLOUT : 0))};
    return count;
}

/* It has only to show that it lives. False: it has gone, or says something else. */
static bool listen_to(struct tutti_peer *peer, tutti_ps now_ps)
{
    struct tutti_packet *room = NULL;
    struct tutti_packet *body = NULL;
    struct tutti_frame frame;
    enum tutti_heard heard = tutti_peer_hear(peer, 0, &room, &frame, &body);

    peer->heard_ps = now_ps;
    tutti_packet_drop(body);
    return heard == TUTTI_HEARD_NOTHING ||
           (heard == TUTTI_HEARD_FRAME && frame.type == TUTTI_FRAME_PING);
}

void tutti_newcomers_move(struct tutti_group_tcp *group, const struct pollfd *polls,
                          size_t poll_count, tutti_ps now_ps, bool beats)
{
    /* From the last to the first: what is forgotten moves those behind it. */
    for (size_t i = poll_count; i-- > 0;) {
        struct tutti_peer *peer = &group->newcomers->peers[i];
        bool lives = true;

        if ((polls[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            lives = listen_to(peer, now_ps);
        if (lives && beats && peer->out_count == 0)
            tutti_peer_tell(peer, tutti_packet_hold(group->ping));
        lives = lives && tutti_peer_send(peer) && now_ps - peer->heard_ps < group->stall_ps;
        if (!lives)
            forget(group, (uint32_t)i);
    }
}
