/* Frames in, packets out. */
#include "runtime/group/peer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tutti_packet *tutti_packet_new(size_t bytes)
{
    struct tutti_packet *packet = malloc(sizeof(*packet) + bytes);

    if (packet == NULL)
        return NULL;
    atomic_init(&packet->holder_count, 1);
    packet->bytes = bytes;
    return packet;
}

struct tutti_packet *tutti_packet_of_head(enum tutti_frame_type type, uint32_t incarnation)
{
    struct tutti_packet *packet = tutti_packet_new(TUTTI_FRAME_HEAD_BYTES);

    if (packet != NULL)
        tutti_frame_write_head(&(struct tutti_frame){.type = type, .incarnation = incarnation},
                               packet->data);
    return packet;
}

struct tutti_packet *tutti_packet_hold(struct tutti_packet *packet)
{
    atomic_fetch_add(&packet->holder_count, 1);
    return packet;
}

void tutti_packet_drop(struct tutti_packet *packet)
{
    if (packet != NULL && atomic_fetch_sub(&packet->holder_count, 1) == 1)
        free(packet);
}

void tutti_peer_open(struct tutti_peer *peer, int fd, tutti_ps now_ps)
{
    struct tutti_address address;

    assert(peer->fd < 0);
    peer->fd = fd;
    peer->here = true;
    peer->heard_ps = now_ps;
    tutti_address_of_peer(fd, &address);
    (void)tutti_address_text(&address, peer->address);
}

void tutti_peer_close(struct tutti_peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
    for (uint32_t i = 0; i < peer->out_count; i++)
        tutti_packet_drop(peer->out[i]);
    peer->out_count = 0;
    peer->out_bytes = 0;
    tutti_packet_drop(peer->body);
    peer->body = NULL;
    peer->has_frame = false;
    peer->head_bytes = 0;
}

/* Bytes that came, 0: none now, -1: the end (errno). */
static ssize_t take(int fd, uint8_t *to, size_t bytes)
{
    ssize_t got = recv(fd, to, bytes, MSG_DONTWAIT);

    if (got > 0)
        return got;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (got == 0)
        errno = 0;
    return -1;
}

/* The head is whole: room for the body. */
static enum tutti_heard begin_body(struct tutti_peer *peer, size_t exchange_bytes_max,
                                   struct tutti_packet **room)
{
    struct tutti_frame *frame = &peer->frame;

    assert(peer->body == NULL);
    if (!tutti_frame_read_head(peer->head, frame) ||
        (frame->type == TUTTI_FRAME_EXCHANGE && frame->bytes > exchange_bytes_max))
        return TUTTI_HEARD_NOISE;
    peer->has_frame = true;
    peer->body_bytes = 0;
    if (frame->bytes == 0 && frame->type != TUTTI_FRAME_EXCHANGE)
        return TUTTI_HEARD_FRAME;
    if (frame->type == TUTTI_FRAME_EXCHANGE && *room != NULL && (*room)->bytes == frame->bytes) {
        peer->body = *room;
        *room = NULL;
    } else {
        peer->body = tutti_packet_new(frame->bytes);
    }
    return peer->body == NULL ? TUTTI_HEARD_NO_MEMORY : TUTTI_HEARD_FRAME;
}

enum tutti_heard tutti_peer_hear(struct tutti_peer *peer, size_t exchange_bytes_max,
                                 struct tutti_packet **room, struct tutti_frame *ret,
                                 struct tutti_packet **ret_body)
{
    ssize_t got = 1;

    assert(peer->fd >= 0);
    while (peer->head_bytes < sizeof(peer->head)) {
        got = take(peer->fd, peer->head + peer->head_bytes, sizeof(peer->head) - peer->head_bytes);
        if (got <= 0)
            return got < 0 ? TUTTI_HEARD_END : TUTTI_HEARD_NOTHING;
        peer->head_bytes += (size_t)got;
    }
    if (!peer->has_frame) {
        enum tutti_heard heard = begin_body(peer, exchange_bytes_max, room);

        if (heard != TUTTI_HEARD_FRAME)
            return heard;
    }
    while (peer->body != NULL && peer->body_bytes < peer->body->bytes) {
        got = take(peer->fd, peer->body->data + peer->body_bytes,
                   peer->body->bytes - peer->body_bytes);
        if (got <= 0)
            return got < 0 ? TUTTI_HEARD_END : TUTTI_HEARD_NOTHING;
        peer->body_bytes += (size_t)got;
    }
    *ret = peer->frame;
    *ret_body = peer->body;
    peer->body = NULL;
    peer->has_frame = false;
    peer->head_bytes = 0;
    return TUTTI_HEARD_FRAME;
}

void tutti_peer_tell(struct tutti_peer *peer, struct tutti_packet *packet)
{
    assert(peer->out_count < TUTTI_PEER_OUT_MAX);
    peer->out[peer->out_count++] = packet;
}

bool tutti_peer_send(struct tutti_peer *peer)
{
    while (peer->out_count > 0) {
        struct tutti_packet *first = peer->out[0];
        ssize_t gone = send(peer->fd, first->data + peer->out_bytes, first->bytes - peer->out_bytes,
                            MSG_DONTWAIT | MSG_NOSIGNAL);

        if (gone < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        peer->out_bytes += (size_t)gone;
        if (peer->out_bytes < first->bytes)
            continue;
        peer->out_bytes = 0;
        peer->out_count--;
        memmove(peer->out, peer->out + 1, peer->out_count * sizeof(peer->out[0]));
        tutti_packet_drop(first);
    }
    return true;
}
