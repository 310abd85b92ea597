/* The listener: clients who have not proved anything yet. Each has a fixed room and a short time,
 * and no one of them can hold up another. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/group/bytes.h"
#include "runtime/group/talk.h"

static const tutti_ps CLIENT_PS = 5 * TUTTI_PS_PER_S;   /* from the first byte to the proof */
static const tutti_ps LEAVE_PS = TUTTI_PS_PER_S;        /* to read why it was refused */
static const tutti_ps CROWD_PS = 250 * TUTTI_PS_PER_MS; /* when others want in, that is enough */
static const tutti_ps NO_SOCKET_PS = 100 * TUTTI_PS_PER_MS; /* until the next try to accept */

enum { ACCEPT_MAX = 64, DRAIN_BYTES_MAX = 1 << 16 };

static tutti_ps client_due(const struct tutti_client *client)
{
    return client->since_ps + (client->leaving ? LEAVE_PS : CLIENT_PS);
}

static void forget(struct tutti_listener *listener, uint32_t index)
{
    struct tutti_client *to = &listener->clients[index];
    const struct tutti_client *last = &listener->clients[listener->client_count - 1];

    assert(index < listener->client_count);
    if (to->fd >= 0)
        close(to->fd);
    listener->client_count--;
    if (index == listener->client_count)
        return;
    *to = *last;
    tutti_handshake_moved(&to->handshake, &last->handshake);
}

static uint32_t oldest(const struct tutti_listener *listener)
{
    uint32_t found = 0;

    for (uint32_t i = 1; i < listener->client_count; i++)
        if (listener->clients[i].since_ps < listener->clients[found].since_ps)
            found = i;
    return found;
}

static void throw_out(struct tutti_listener *listener, uint32_t index, const char *why)
{
    if (!listener->clients[index].leaving)
        listener->ops->refused(listener->data, &listener->clients[index], why);
    forget(listener, index);
}

/* What the refusal was about, for those who listen. */
static void explain(const struct tutti_handshake *handshake, char *why)
{
    switch ((enum tutti_handshake_reason)handshake->reason) {
    case TUTTI_HANDSHAKE_OTHER_VERSION:
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "version %u of the protocol, not %d",
                 handshake->value, TUTTI_HANDSHAKE_VERSION);
        break;
    case TUTTI_HANDSHAKE_NO_SECRET:
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "it has no secret");
        break;
    case TUTTI_HANDSHAKE_UNWANTED_SECRET:
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "it has a secret, and this process none");
        break;
    case TUTTI_HANDSHAKE_WRONG_SECRET:
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "it has the wrong secret");
        break;
    default:
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "reason %u", handshake->reason);
    }
}

static void see_off(struct tutti_listener *listener, struct tutti_client *client, tutti_ps now_ps)
{
    char why[TUTTI_CLIENT_WHY_BYTES];

    /* Those who were refused after their proof have been named by who refused them. */
    if (client->handshake.reason <= TUTTI_HANDSHAKE_WRONG_SECRET) {
        explain(&client->handshake, why);
        listener->ops->refused(listener->data, client, why);
    }
    client->leaving = true;
    client->since_ps = now_ps;
    (void)shutdown(client->fd, SHUT_WR);
}

static void stranger(struct tutti_listener *listener, uint32_t index)
{
    const uint8_t *said = listener->clients[index].handshake.hello;
    char why[TUTTI_CLIENT_WHY_BYTES];
    char shown[9] = "";

    for (size_t i = 0; i < sizeof(shown) - 1; i++)
        shown[i] = said[i] >= 0x20 && said[i] < 0x7f && said[i] != '\'' ? (char)said[i] : '?';
    snprintf(why, sizeof(why), "not of this protocol (it began with '%s')", shown);
    throw_out(listener, index, why);
}

/* True: it is read out, or has said too much. */
static bool drained(struct tutti_client *client)
{
    uint8_t rubbish[4096];
    ssize_t got = 1;

    while (got > 0 && client->drained_bytes < DRAIN_BYTES_MAX) {
        got = recv(client->fd, rubbish, sizeof(rubbish), MSG_DONTWAIT);
        if (got > 0)
            client->drained_bytes += (size_t)got;
    }
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void ended(struct tutti_listener *listener, uint32_t index, int code)
{
    char why[TUTTI_CLIENT_WHY_BYTES];

    snprintf(why, sizeof(why), "%s before it had proved anything",
             code != 0 ? strerror(code) : "it closed");
    throw_out(listener, index, why);
}

static void move_client(struct tutti_listener *listener, uint32_t index, tutti_ps now_ps)
{
    struct tutti_client *client = &listener->clients[index];
    int talked;

    if (client->leaving) {
        if (drained(client))
            forget(listener, index);
        return;
    }
    talked = tutti_handshake_talk(&client->handshake, client->fd);
    if (talked == 1 && client->handshake.state == TUTTI_HANDSHAKE_PROVED) {
        if (listener->ops->proved(listener->data, client)) {
            client->fd = -1;
            forget(listener, index);
            return;
        }
        talked = tutti_handshake_talk(&client->handshake, client->fd);
    }
    if (talked < 0)
        ended(listener, index, errno);
    else if (talked == 1 && client->handshake.state == TUTTI_HANDSHAKE_STRANGER)
        stranger(listener, index);
    else if (talked == 1)
        see_off(listener, client, now_ps);
}

/* Makes room for one more; false: not now. */
static bool make_room(struct tutti_listener *listener, tutti_ps now_ps)
{
    uint32_t first = oldest(listener);

    if (listener->client_count < TUTTI_CLIENT_MAX)
        return true;
    if (now_ps < listener->clients[first].since_ps + CROWD_PS) {
        listener->shut_until_ps = listener->clients[first].since_ps + CROWD_PS;
        return false;
    }
    throw_out(listener, first, "it is slow, and others wait");
    return true;
}

static void no_socket(struct tutti_listener *listener, tutti_ps now_ps)
{
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return;
    if (listener->client_count > 0)
        throw_out(listener, oldest(listener), "this process has no more sockets");
    else
        listener->shut_until_ps = now_ps + NO_SOCKET_PS;
}

static void let_in(struct tutti_listener *listener, tutti_ps now_ps)
{
    for (int i = 0; i < ACCEPT_MAX && make_room(listener, now_ps); i++) {
        struct tutti_client *client;
        uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
            no_socket(listener, now_ps);
            return;
        }
        if (!tutti_handshake_nonce(nonce)) {
            close(fd);
            return;
        }
        client = &listener->clients[listener->client_count++];
        *client = (struct tutti_client){.fd = fd, .since_ps = now_ps};
        tutti_address_of_peer(fd, &client->from);
        tutti_handshake_server(&client->handshake, listener->secret, listener->secret_bytes, nonce);
        if (listener->members_key != NULL)
            tutti_handshake_expect_members(&client->handshake, listener->members_key,
                                           listener->members_key_bytes);
    }
}

size_t tutti_listener_polls(struct tutti_listener *listener, tutti_ps now_ps, struct pollfd *ret)
{
    if (listener->fd < 0)
        return 0;
    if (listener->shut_until_ps <= now_ps)
        listener->shut_until_ps = 0;
    ret[0] =
        (struct pollfd){.fd = listener->shut_until_ps > 0 ? -1 : listener->fd, .events = POLLIN};
    for (uint32_t i = 0; i < listener->client_count; i++)
        ret[1 + i] = (struct pollfd){
            .fd = listener->clients[i].fd,
            .events = listener->clients[i].leaving
                          ? POLLIN
                          : tutti_handshake_events(&listener->clients[i].handshake)};
    return 1 + listener->client_count;
}

void tutti_listener_move(struct tutti_listener *listener, const struct pollfd *polls,
                         tutti_ps now_ps)
{
    if (listener->fd < 0)
        return;
    /* From the last to the first: what is forgotten is replaced by one already seen. */
    for (uint32_t i = listener->client_count; i-- > 0;) {
        if (polls[1 + i].revents != 0)
            move_client(listener, i, now_ps);
        else if (now_ps >= client_due(&listener->clients[i]))
            throw_out(listener, i, "it has proved nothing for 5s");
    }
    if ((polls[0].revents & POLLIN) != 0)
        let_in(listener, now_ps);
}

tutti_ps tutti_listener_due(const struct tutti_listener *listener)
{
    tutti_ps due = listener->shut_until_ps > 0 ? listener->shut_until_ps : INT64_MAX;

    for (uint32_t i = 0; i < listener->client_count; i++)
        if (client_due(&listener->clients[i]) < due)
            due = client_due(&listener->clients[i]);
    return due;
}

void tutti_listener_clear(struct tutti_listener *listener)
{
    while (listener->client_count > 0)
        forget(listener, listener->client_count - 1);
    listener->shut_until_ps = 0;
}

void tutti_listener_close(struct tutti_listener *listener)
{
    tutti_listener_clear(listener);
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}
