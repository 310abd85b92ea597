/* Frames over a pair: what is sent, what is received, and how it ends. */
#include "runtime/group/pair.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "runtime/group/address.h"
#include "runtime/group/bytes.h"
#include "runtime/status.h"

static const uint32_t MAGIC = 0x74706169; /* "tpai" */
static const tutti_ps SEND_PS = 30 * TUTTI_PS_PER_S;

enum { FLAG_BYE = 1, SKIP_BYTES = 4096, WAIT_MS_MAX = 60000 };

struct tutti_pair *tutti_pair_new(int fd, uint32_t id, uint64_t key)
{
    struct tutti_pair *pair = calloc(1, sizeof(*pair));
    struct tutti_address address;
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    if (pair == NULL)
        return NULL;
    pair->fd = fd;
    pair->peer.id = id;
    pair->peer.key = key;
    tutti_address_of_peer(fd, &address);
    (void)snprintf(pair->peer.address, sizeof(pair->peer.address), "%s",
                   tutti_address_text(&address, text));
    return pair;
}

/* "process 2 ('10.0.0.3:4242')", "a process ('10.0.0.9:1717')". */
static const char *name(const struct tutti_pair *pair, char *text, size_t bytes)
{
    if (pair->peer.id == TUTTI_PAIR_NO_MEMBER)
        (void)snprintf(text, bytes, "a process ('%s')", pair->peer.address);
    else
        (void)snprintf(text, bytes, "process %u ('%s')", pair->peer.id, pair->peer.address);
    return text;
}

static void end(struct tutti_pair *pair, const char *how, int code)
{
    char who[TUTTI_GROUP_TCP_ADDRESS_BYTES + 64];

    if (pair->ended)
        return;
    pair->ended = true;
    (void)snprintf(pair->why, sizeof(pair->why), "%s %s%s%s", name(pair, who, sizeof(who)), how,
                   code != 0 ? ": " : "", code != 0 ? strerror(code) : "");
}

/* ---- clocks ---- */

/* Milliseconds of the monotonic clock: of deadlines here nothing finer is asked. */
static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t due_ms(tutti_ps ps)
{
    return ps <= 0 ? 0 : now_ms() + ps / TUTTI_PS_PER_MS + (ps % TUTTI_PS_PER_MS > 0);
}

static int left_ms(int64_t due)
{
    int64_t left = due - now_ms();

    return left <= 0 ? 0 : left > WAIT_MS_MAX ? WAIT_MS_MAX : (int)left;
}

/* ---- receiving ---- */

/* Bytes that came, 0: none now, -1: the end. */
static ssize_t take(struct tutti_pair *pair, void *to, size_t bytes)
{
    ssize_t got = recv(pair->fd, to, bytes, MSG_DONTWAIT);

    if (got > 0)
        return got;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    end(pair, "has gone", got == 0 ? 0 : errno);
    return -1;
}

static bool is_old(const struct tutti_pair *pair, const struct tutti_pair_frame *frame)
{
    return frame->incarnation < pair->incarnation ||
           (frame->incarnation == pair->incarnation && frame->step < pair->step);
}

/* The head is whole. False: it is the end. */
static bool read_head(struct tutti_pair *pair)
{
    const uint8_t *from = pair->head;

    pair->frame = (struct tutti_pair_frame){.kind = tutti_get32(from + 4),
                                            .incarnation = tutti_get32(from + 16),
                                            .step = tutti_get64(from + 24),
                                            .bytes = tutti_get64(from + 8)};
    pair->body_bytes = 0;
    if (tutti_get32(from) != MAGIC || pair->frame.bytes > TUTTI_PAIR_BYTES_MAX)
        end(pair, "sends what is no frame", 0);
    else if ((tutti_get32(from + 20) & FLAG_BYE) != 0)
        end(pair, "has closed the pair", 0);
    else
        pair->drops = is_old(pair, &pair->frame);
    return !pair->ended;
}

static void next_frame(struct tutti_pair *pair)
{
    pair->head_bytes = 0;
    pair->body = NULL;
    pair->whole = false;
}

/* Of the body what is there. False: no more now, or it is the end. */
static bool take_body(struct tutti_pair *pair)
{
    uint8_t rest[SKIP_BYTES];

    while (pair->body_bytes < pair->frame.bytes) {
        uint64_t left = pair->frame.bytes - pair->body_bytes;
        ssize_t got = pair->drops ? take(pair, rest, left < SKIP_BYTES ? (size_t)left : SKIP_BYTES)
                                  : take(pair, pair->body + pair->body_bytes, (size_t)left);

        if (got <= 0)
            return false;
        pair->body_bytes += (uint64_t)got;
    }
    return true;
}

/* Receives what is there, up to one frame. -TUTTI_ENOMEM: not now. */
static int receive(struct tutti_pair *pair, struct tutti_err *err)
{
    while (!pair->whole && !pair->ended) {
        while (pair->head_bytes < sizeof(pair->head)) {
            ssize_t got =
                take(pair, pair->head + pair->head_bytes, sizeof(pair->head) - pair->head_bytes);

            if (got <= 0)
                return 0;
            pair->head_bytes += (size_t)got;
            if (pair->head_bytes == sizeof(pair->head) && !read_head(pair))
                return 0;
        }
        if (!pair->drops && pair->frame.bytes > 0 && pair->body == NULL)
            pair->body = malloc((size_t)pair->frame.bytes);
        if (!pair->drops && pair->frame.bytes > 0 && pair->body == NULL)
            return tutti_nomem(err);
        if (!take_body(pair))
            return 0;
        pair->whole = !pair->drops;
        pair->dropped_count += pair->drops;
        if (pair->drops)
            next_frame(pair);
    }
    return 0;
}

/* One that became old while it waited is dropped as well. */
static void drop_old(struct tutti_pair *pair)
{
    if (!pair->whole || !is_old(pair, &pair->frame))
        return;
    free(pair->body);
    pair->dropped_count++;
    next_frame(pair);
}

static bool has_something(struct tutti_pair *pair)
{
    drop_old(pair);
    return pair->whole || pair->ended;
}

int tutti_pair_recv(struct tutti_pair *pair, tutti_ps timeout_ps, struct tutti_pair_event *ret,
                    struct tutti_err *err)
{
    int64_t due = due_ms(timeout_ps);
    bool late = false;

    free(pair->given);
    pair->given = NULL;
    while (!has_something(pair) && !late) {
        struct pollfd one = {.fd = pair->fd, .events = POLLIN};
        int status = receive(pair, err);

        if (status < 0)
            return status;
        if (has_something(pair))
            break;
        late = timeout_ps <= 0 || now_ms() >= due;
        if (!late)
            (void)poll(&one, 1, left_ms(due));
    }
    *ret = (struct tutti_pair_event){.what = TUTTI_PAIR_NOTHING};
    if (pair->whole) {
        pair->given = pair->body;
        pair->frame.data = pair->body;
        ret->what = TUTTI_PAIR_FRAME;
        ret->frame = pair->frame;
        next_frame(pair);
    } else if (pair->ended) {
        ret->what = TUTTI_PAIR_END;
        ret->why = pair->why;
    }
    return 0;
}

void tutti_pair_expect(struct tutti_pair *pair, uint32_t incarnation, uint64_t step)
{
    pair->incarnation = incarnation;
    pair->step = step;
}

uint64_t tutti_pair_dropped(const struct tutti_pair *pair)
{
    return pair->dropped_count;
}

/* ---- sending ---- */

static void write_head(const struct tutti_pair_frame *frame, uint32_t flags,
                       uint8_t to[TUTTI_PAIR_HEAD_BYTES])
{
    tutti_put32(to, MAGIC);
    tutti_put32(to + 4, frame->kind);
    tutti_put64(to + 8, frame->bytes);
    tutti_put32(to + 16, frame->incarnation);
    tutti_put32(to + 20, flags);
    tutti_put64(to + 24, frame->step);
}

/* Bytes that went, 0: none now, -1: nobody is there to take them (errno). */
static ssize_t give(struct tutti_pair *pair, uint8_t *head, const struct tutti_pair_frame *frame,
                    uint64_t gone)
{
    uint64_t body_gone = gone > TUTTI_PAIR_HEAD_BYTES ? gone - TUTTI_PAIR_HEAD_BYTES : 0;
    struct iovec iov[2];
    struct msghdr message = {.msg_iov = iov};
    ssize_t went;

    if (gone < TUTTI_PAIR_HEAD_BYTES)
        iov[message.msg_iovlen++] = (struct iovec){.iov_base = head + gone,
                                                   .iov_len = TUTTI_PAIR_HEAD_BYTES - (size_t)gone};
    if (frame->bytes > body_gone)
        iov[message.msg_iovlen++] =
            (struct iovec){.iov_base = (uint8_t *)(uintptr_t)frame->data + body_gone,
                           .iov_len = (size_t)(frame->bytes - body_gone)};
    went = sendmsg(pair->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (went < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    return went;
}

/* What the peer said before it went comes first: its end is kept for recv. */
static int lost(const struct tutti_pair *pair, int code, struct tutti_err *err)
{
    char who[TUTTI_GROUP_TCP_ADDRESS_BYTES + 64];

    if (pair->ended)
        return tutti_fail(err, TUTTI_EIO, "%s", pair->why);
    return tutti_fail(err, TUTTI_EIO, "%s has gone: %s", name(pair, who, sizeof(who)),
                      strerror(code));
}

int tutti_pair_send(struct tutti_pair *pair, const struct tutti_pair_frame *frame,
                    tutti_ps deadline_ps, struct tutti_err *err)
{
    tutti_ps wait_ps = deadline_ps > 0 ? deadline_ps : SEND_PS;
    int64_t due = due_ms(wait_ps);
    uint8_t head[TUTTI_PAIR_HEAD_BYTES];
    uint64_t gone = 0;

    if (frame->bytes > TUTTI_PAIR_BYTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a frame of %llu bytes is too long (at most %d)",
                          (unsigned long long)frame->bytes, TUTTI_PAIR_BYTES_MAX);
    write_head(frame, 0, head);
    while (gone < TUTTI_PAIR_HEAD_BYTES + frame->bytes) {
        ssize_t went = pair->ended ? -1 : give(pair, head, frame, gone);
        struct pollfd one = {.fd = pair->fd, .events = POLLOUT};

        if (went < 0)
            return lost(pair, errno, err);
        gone += (uint64_t)went;
        if (went > 0)
            continue;
        if (now_ms() >= due) {
            char how[96];
            char time[TUTTI_UNIT_TEXT_BYTES];

            (void)snprintf(how, sizeof(how), "has not taken a frame within %s",
                           tutti_print_time(wait_ps, time));
            end(pair, how, 0);
            return tutti_fail(err, TUTTI_ETIME, "%s", pair->why);
        }
        if (!pair->whole && receive(pair, NULL) == 0 && !pair->whole)
            one.events |= POLLIN;
        if (!pair->ended)
            (void)poll(&one, 1, left_ms(due));
    }
    return 0;
}

/* ---- several ---- */

int tutti_pair_wait(struct tutti_pair *const *pairs, size_t count, tutti_ps timeout_ps, size_t *at,
                    struct tutti_err *err)
{
    int64_t due = due_ms(timeout_ps);
    struct pollfd *polls = calloc(count + 1, sizeof(polls[0]));
    size_t first = *at < count ? *at : 0;
    size_t found = count;
    int status = polls == NULL ? tutti_nomem(err) : 0;
    bool late = false;

    while (status == 0 && found == count) {
        for (size_t k = 0; k < count && found == count && status == 0; k++) {
            size_t i = (first + k) % count;

            status = receive(pairs[i], err);
            if (status == 0 && has_something(pairs[i]))
                found = i;
            polls[i] = (struct pollfd){.fd = pairs[i]->fd, .events = POLLIN};
        }
        if (status < 0 || found < count || late)
            break;
        (void)poll(polls, (nfds_t)count, left_ms(due));
        late = timeout_ps <= 0 || now_ms() >= due; /* and looks once more */
    }
    free(polls);
    if (status == 0)
        *at = found;
    return status;
}

int tutti_pair_fd(const struct tutti_pair *pair)
{
    return pair->fd;
}

const struct tutti_pair_peer *tutti_pair_peer(const struct tutti_pair *pair)
{
    return &pair->peer;
}

/* What is still to be read here would make the system throw away, at close, what the peer has not
 * read yet of ours: so it is read first, what there is. */
void tutti_pair_close(struct tutti_pair *pair)
{
    uint8_t head[TUTTI_PAIR_HEAD_BYTES];
    uint8_t rest[SKIP_BYTES];
    const struct tutti_pair_frame bye = {.bytes = 0};

    if (pair == NULL)
        return;
    if (!pair->ended) {
        write_head(&bye, FLAG_BYE, head);
        (void)give(pair, head, &bye, 0);
        (void)shutdown(pair->fd, SHUT_WR);
        for (int i = 0; i < 1024 && recv(pair->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
            ;
    }
    close(pair->fd);
    free(pair->given);
    free(pair->body);
    free(pair);
}
