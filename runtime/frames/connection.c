/* Frames over a connection: what is sent, what is received, and how it ends; see frames.h. */
#include "runtime/frames/connection.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* The head, the parts, and the tag after them. */
enum { VECTOR_COUNT = TUTTI_FRAMES_PARTS_MAX + 2 };

struct tutti_frames *tutti_frames_new(int fd, const struct tutti_frames_opts *opts,
                                      const struct tutti_wire_talk *talk, bool server)
{
    struct tutti_frames *frames = calloc(1, sizeof(*frames));
    struct tutti_address address;

    if (frames == NULL)
        return NULL;
    frames->fd = fd;
    frames->bytes_max = opts->bytes_max;
    frames->deadline_ps = opts->deadline_ps;
    tutti_wire_seal_of(talk, server, &frames->out);
    tutti_wire_seal_of(talk, !server, &frames->in);
    tutti_address_of_peer(fd, &address);
    (void)tutti_address_text(&address, frames->address);
    tutti_frames_set_name(frames, "a process");
    return frames;
}

void tutti_frames_set_name(struct tutti_frames *frames, const char *what)
{
    (void)snprintf(frames->name, sizeof(frames->name), "%.*s ('%s')", TUTTI_FRAMES_NAME_BYTES, what,
                   frames->address);
}

const char *tutti_frames_name(const struct tutti_frames *frames)
{
    return frames->name;
}

int tutti_frames_fd(const struct tutti_frames *frames)
{
    return frames->fd;
}

bool tutti_frames_ended(const struct tutti_frames *frames)
{
    return frames->ended < 0;
}

/* Nothing can come after it; the first reason stays. */
static void end(struct tutti_frames *frames, enum tutti_status code, const char *how, int error)
{
    if (frames->ended == 0)
        frames->ended = tutti_fail(&frames->why, code, "%s %s%s%s", frames->name, how,
                                   error != 0 ? ": " : "", error != 0 ? strerror(error) : "");
}

static int say_end(const struct tutti_frames *frames, struct tutti_err *err)
{
    assert(frames->ended < 0);
    if (err != NULL)
        *err = frames->why;
    return frames->ended;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Fills what is there into `to`, up to `bytes` from *got on. False: not all of it is there. */
static bool take(struct tutti_frames *frames, uint8_t *to, uint64_t bytes, uint64_t *got)
{
    while (*got < bytes) {
        ssize_t came = recv(frames->fd, to + *got, (size_t)(bytes - *got), MSG_DONTWAIT);

        if (came > 0) {
            *got += (uint64_t)came;
        } else if (came == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            end(frames, TUTTI_EIO, came == 0 ? "has closed the connection" : "has gone",
                came == 0 ? 0 : errno);
            return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static bool take_small(struct tutti_frames *frames, uint8_t *to, size_t bytes, size_t *got)
{
    uint64_t had = *got;
    bool all = take(frames, to, bytes, &had);

    *got = (size_t)had;
    return all;
}

static bool take_head(struct tutti_frames *frames)
{
    char how[96];

    if (frames->head_got == TUTTI_WIRE_HEAD_BYTES)
        return true;
    if (!take_small(frames, frames->head_bytes_in, TUTTI_WIRE_HEAD_BYTES, &frames->head_got))
        return false;
    switch (tutti_wire_read_head(&frames->in, frames->head_bytes_in, frames->bytes_max,
                                 &frames->head)) {
    case TUTTI_WIRE_READ:
        return true;
    case TUTTI_WIRE_FORGED:
        end(frames, TUTTI_ECHECK,
            frames->in.on ? "sent a frame whose MAC is wrong: changed, replayed or out of order"
                          : "sent what is no frame",
            0);
        return false;
    case TUTTI_WIRE_TOO_LONG:
        (void)snprintf(how, sizeof(how), "announces a frame of %llu bytes (at most %llu)",
                       (unsigned long long)frames->head.bytes,
                       (unsigned long long)frames->bytes_max);
        end(frames, TUTTI_EINVAL, how, 0);
        return false;
    }
    return false;
}

static bool tag_holds(const struct tutti_frames *frames)
{
    uint8_t tag[TUTTI_WIRE_TAG_BYTES];
    struct tutti_hmac hmac;

    tutti_wire_begin_tag(&frames->in, frames->head_bytes_in, &hmac);
    tutti_hmac_add(&hmac, frames->coming.data, (size_t)frames->head.bytes);
    tutti_wire_end_tag(&hmac, tag);
    return tutti_bytes_same(tag, frames->tag, sizeof(tag));
}

static bool take_tag(struct tutti_frames *frames)
{
    if (!frames->in.on || frames->head.bytes == 0)
        return true;
    if (!take_small(frames, frames->tag, sizeof(frames->tag), &frames->tag_got))
        return false;
    if (!tag_holds(frames))
        end(frames, TUTTI_ECHECK, "sent a frame whose MAC is wrong: its payload was changed", 0);
    return frames->ended == 0;
}

/* Receives what is there, up to one frame. -TUTTI_ENOMEM: not now. */
static int advance(struct tutti_frames *frames, struct tutti_err *err)
{
    if (frames->whole || frames->ended < 0 || !take_head(frames))
        return 0;
    if (frames->head.bytes > frames->coming.room) {
        free(frames->coming.data);
        frames->coming.room = 0;
        frames->coming.data = malloc((size_t)frames->head.bytes);
        if (frames->coming.data == NULL)
            return tutti_nomem(err);
        frames->coming.room = frames->head.bytes;
    }
    if (!take(frames, frames->coming.data, frames->head.bytes, &frames->payload_got) ||
        !take_tag(frames))
        return 0;
    frames->in.counter++;
    frames->whole = true;
    return 0;
}

bool tutti_frames_ready(struct tutti_frames *frames)
{
    return advance(frames, NULL) < 0 || frames->whole || frames->ended < 0;
}

static void give(struct tutti_frames *frames, struct tutti_frames_got *ret)
{
    struct tutti_frames_buffer last = frames->given;

    frames->given = frames->coming;
    frames->coming = last;
    *ret = (struct tutti_frames_got){
        .type = frames->head.type, .data = frames->given.data, .bytes = frames->head.bytes};
    frames->head_got = 0;
    frames->payload_got = 0;
    frames->tag_got = 0;
    frames->whole = false;
}

int tutti_frames_receive(struct tutti_frames *frames, tutti_ps timeout_ps,
                         struct tutti_frames_got *ret, struct tutti_err *err)
{
    tutti_ps due_ps = tutti_frames_due(timeout_ps);
    char time[TUTTI_UNIT_TEXT_BYTES];

    for (;;) {
        struct pollfd one = {.fd = frames->fd, .events = POLLIN};
        int status = advance(frames, err);
        int left_ms = tutti_frames_left_ms(due_ps);

        if (status < 0)
            return status;
        if (frames->whole) {
            give(frames, ret);
            return 0;
        }
        if (frames->ended < 0)
            return say_end(frames, err);
        if (left_ms == 0)
            return tutti_fail(err, TUTTI_ETIME, "%s has sent nothing whole within %s", frames->name,
                              tutti_print_time(timeout_ps > 0 ? timeout_ps : 0, time));
        (void)poll(&one, 1, left_ms);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

struct packet {
    uint8_t head[TUTTI_WIRE_HEAD_BYTES];
    uint8_t tag[TUTTI_WIRE_TAG_BYTES];
    struct tutti_frames_part all[VECTOR_COUNT];
    size_t count;
    uint64_t bytes;
};

static void add(struct packet *packet, const void *data, size_t bytes)
{
    if (bytes == 0)
        return;
    assert(packet->count < VECTOR_COUNT);
    packet->all[packet->count++] = (struct tutti_frames_part){data, bytes};
    packet->bytes += bytes;
}

/* Head, parts and tag of the next frame. */
static void pack(const struct tutti_frames *frames, const struct tutti_wire_head *head,
                 const struct tutti_frames_part *parts, size_t count, struct packet *ret)
{
    ret->count = 0;
    ret->bytes = 0;
    tutti_wire_write_head(&frames->out, head, ret->head);
    add(ret, ret->head, sizeof(ret->head));
    for (size_t i = 0; i < count; i++)
        add(ret, parts[i].data, parts[i].bytes);
    if (frames->out.on && head->bytes > 0) {
        struct tutti_hmac hmac;

        tutti_wire_begin_tag(&frames->out, ret->head, &hmac);
        for (size_t i = 0; i < count; i++)
            if (parts[i].bytes > 0)
                tutti_hmac_add(&hmac, parts[i].data, parts[i].bytes);
        tutti_wire_end_tag(&hmac, ret->tag);
        add(ret, ret->tag, sizeof(ret->tag));
    }
}

/* From byte `gone` of a packet on; bytes that went, 0: none now, -1: nobody takes them (errno). */
static ssize_t push(const struct tutti_frames *frames, const struct packet *packet, uint64_t gone)
{
    struct iovec vectors[VECTOR_COUNT];
    struct msghdr message = {.msg_iov = vectors};
    ssize_t went;

    for (size_t i = 0; i < packet->count; i++) {
        const struct tutti_frames_part *part = &packet->all[i];
        size_t skip = gone < part->bytes ? (size_t)gone : part->bytes;

        gone -= skip;
        if (skip < part->bytes)
            vectors[message.msg_iovlen++] = (struct iovec){
                .iov_base = (uint8_t *)(uintptr_t)part->data + skip, .iov_len = part->bytes - skip};
    }
    went = sendmsg(frames->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (went < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    return went;
}

/* A peer that has gone may have said something before: that is still to be received. */
static int cannot_send(struct tutti_frames *frames, int error, struct tutti_err *err)
{
    if (frames->ended < 0)
        return say_end(frames, err);
    return tutti_fail(err, TUTTI_EIO, "%s has gone: %s", frames->name, strerror(error));
}

static int push_all(struct tutti_frames *frames, const struct packet *packet, struct tutti_err *err)
{
    tutti_ps due_ps = tutti_frames_due(frames->deadline_ps);
    uint64_t gone = 0;

    while (gone < packet->bytes) {
        struct pollfd one = {.fd = frames->fd, .events = POLLOUT};
        ssize_t went = push(frames, packet, gone);
        char time[TUTTI_UNIT_TEXT_BYTES];
        int left_ms;

        if (went < 0)
            return cannot_send(frames, errno, err);
        gone += (uint64_t)went;
        if (gone == packet->bytes || went > 0)
            continue;
        left_ms = tutti_frames_left_ms(due_ps);
        if (left_ms == 0) {
            end(frames, TUTTI_ETIME, "does not take what is sent", 0);
            return tutti_fail(err, TUTTI_ETIME, "%s has not taken a frame within %s", frames->name,
                              tutti_print_time(frames->deadline_ps, time));
        }
        one.events = (short)(one.events | (frames->whole || frames->ended < 0 ? 0 : POLLIN));
        (void)poll(&one, 1, left_ms);
        if ((one.revents & POLLIN) != 0 && advance(frames, err) < 0)
            return -TUTTI_ENOMEM;
    }
    return 0;
}

int tutti_frames_send(struct tutti_frames *frames, uint32_t type,
                      const struct tutti_frames_part *parts, size_t count, struct tutti_err *err)
{
    struct tutti_wire_head head = {.type = type};
    struct packet packet;
    int status;

    if (count > TUTTI_FRAMES_PARTS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a frame of %zu parts (at most %d)", count,
                          TUTTI_FRAMES_PARTS_MAX);
    for (size_t i = 0; i < count; i++)
        head.bytes += parts[i].bytes;
    if (head.bytes > frames->bytes_max)
        return tutti_fail(err, TUTTI_EINVAL, "a frame of %llu bytes for %s (at most %llu)",
                          (unsigned long long)head.bytes, frames->name,
                          (unsigned long long)frames->bytes_max);
    if (frames->ended < 0)
        return say_end(frames, err);
    pack(frames, &head, parts, count, &packet);
    frames->out.counter++;
    status = push_all(frames, &packet, err);
    if (status == -TUTTI_ENOMEM) /* half a frame may lie in it */
        end(frames, TUTTI_ENOMEM, "was sent half a frame: memory ran out", 0);
    return status;
}

void tutti_frames_close(struct tutti_frames *frames)
{
    if (frames == NULL)
        return;
    close(frames->fd);
    free(frames->coming.data);
    free(frames->given.data);
    free(frames);
}
