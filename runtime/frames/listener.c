/* Where others come: all hellos that are under way move on together, so that nobody who is slow
 * to prove, or never does, keeps the others waiting; see frames.h. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/frames/connection.h"

enum { IN_BYTES = TUTTI_WIRE_HELLO_BYTES + TUTTI_WIRE_PROOF_BYTES, NO_FILES_MS = 50 };

/* One who has come: has sent so much of a hello and a proof. */
struct waiting {
    int fd;
    tutti_ps due_ps;
    struct tutti_wire_talk talk;
    bool said_hello; /* the server's hello has gone */
    uint8_t in[IN_BYTES];
    size_t got;
};

struct tutti_frames_listener {
    int fd;
    int epoll_fd; /* of fd and of all that wait */
    struct tutti_frames_opts opts;
    uint8_t *secret;
    char address[TUTTI_FRAMES_ADDRESS_BYTES];
    uint16_t port;
    size_t count;
    struct waiting waiting[TUTTI_FRAMES_WAITING_MAX]; /* in the order of their coming */
};

/* ---- listening ------------------------------------------------------------------------------- */

/* The address to listen at, for a name that is none of this host all of them. */
static int choose(const char *text, tutti_ps wait_ps, struct tutti_address *ret,
                  struct tutti_err *err)
{
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    int status = tutti_address_split(text, host, &port, err);

    if (status == 0 && !tutti_address_of_numbers(host, ret))
        status = tutti_address_resolve(host, port, 0, wait_ps, ret, err);
    if (status < 0)
        return status;
    if (!tutti_address_is_own(ret))
        tutti_address_any(ret->as.any.sa_family, false, ret);
    tutti_address_set_port(ret, port);
    return 0;
}

static int open_socket(struct tutti_frames_listener *l, const char *address, struct tutti_err *err)
{
    struct tutti_address at;
    int status = 0;

    if (l->opts.has_listen_fd)
        tutti_address_of_socket(l->opts.listen_fd, &at);
    else
        status = choose(address != NULL ? address : "127.0.0.1:0", l->opts.deadline_ps, &at, err);
    if (status < 0)
        return status;
    if (l->opts.secret == NULL && !tutti_address_is_loopback(&at))
        return tutti_fail(err, TUTTI_EINVAL,
                          "without a secret loopback alone is listened at, not '%s' (TUTTI_SECRET "
                          "of %d bytes or more, drawn at random)",
                          address != NULL ? address : tutti_address_text(&at, l->address),
                          TUTTI_FRAMES_SECRET_BYTES_MIN);
    if (!l->opts.has_listen_fd) {
        status = tutti_address_listen(&at, &l->fd, err);
        if (status < 0)
            return status;
        tutti_address_of_socket(l->fd, &at);
    }
    (void)tutti_address_text(&at, l->address);
    l->port = tutti_address_port(&at);
    return 0;
}

static int watch(struct tutti_frames_listener *l, int fd, struct tutti_err *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot wait at '%s': %s", l->address, strerror(errno));
    return 0;
}

static int keep_secret(struct tutti_frames_listener *l, struct tutti_err *err)
{
    if (l->opts.secret == NULL)
        return 0;
    l->secret = malloc(l->opts.secret_bytes);
    if (l->secret == NULL)
        return tutti_nomem(err);
    memcpy(l->secret, l->opts.secret, l->opts.secret_bytes);
    l->opts.secret = l->secret;
    return 0;
}

int tutti_frames_listen(const struct tutti_frames_opts *opts, const char *address,
                        struct tutti_frames_listener **ret, struct tutti_err *err)
{
    struct tutti_frames_listener *l = calloc(1, sizeof(*l));
    int status = l == NULL ? tutti_nomem(err) : tutti_frames_take(opts, &l->opts, err);

    if (l == NULL)
        return status;
    l->fd = -1;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (status == 0 && l->epoll_fd < 0)
        status = tutti_fail(err, TUTTI_EIO, "cannot wait for connections: %s", strerror(errno));
    if (status == 0)
        status = open_socket(l, address, err);
    if (status == 0)
        status = keep_secret(l, err);
    if (status == 0)
        status = watch(l, l->opts.has_listen_fd ? l->opts.listen_fd : l->fd, err);
    if (status < 0) {
        tutti_frames_listener_close(l);
        return status;
    }
    if (l->opts.has_listen_fd)
        l->fd = l->opts.listen_fd;
    *ret = l;
    return 0;
}

const char *tutti_frames_listener_address(const struct tutti_frames_listener *listener)
{
    return listener->address;
}

uint16_t tutti_frames_listener_port(const struct tutti_frames_listener *listener)
{
    return listener->port;
}

int tutti_frames_listener_fd(const struct tutti_frames_listener *listener)
{
    return listener->epoll_fd;
}

void tutti_frames_listener_close(struct tutti_frames_listener *listener)
{
    if (listener == NULL)
        return;
    for (size_t i = 0; i < listener->count; i++)
        close(listener->waiting[i].fd);
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->epoll_fd >= 0)
        close(listener->epoll_fd);
    free(listener->secret);
    free(listener);
}

/* ---- those that have come -------------------------------------------------------------------- */

static void tell(const struct tutti_frames_listener *l, const struct waiting *w, const char *why)
{
    struct tutti_address address;
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    struct tutti_err line; /* without control characters, whatever strangers sent */

    if (l->opts.log == NULL)
        return;
    tutti_address_of_peer(w->fd, &address);
    (void)tutti_fail(&line, TUTTI_EIO, "'%s' is refused: %s", tutti_address_text(&address, text),
                     why);
    l->opts.log(l->opts.log_data, line.text);
}

/* So little always has room in a socket that has sent nothing yet. */
static bool say(const struct waiting *w, const void *data, size_t bytes)
{
    return send(w->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* What the server answers to a hello, and why it refuses, in `why` (256 bytes). */
static enum tutti_wire_word judge(const struct tutti_frames_listener *l,
                                  const struct tutti_wire_hello *said, char *why)
{
    const char *own = tutti_frames_version();
    bool has_secret = said->word == TUTTI_WIRE_HAS_SECRET;

    if (said->protocol != TUTTI_WIRE_PROTOCOL || strcmp(said->tutti, own) != 0) {
        (void)snprintf(why, 256, "it is of tutti %s (protocol %u), this process of %s (%d)",
                       said->tutti, said->protocol, own, TUTTI_WIRE_PROTOCOL);
        return TUTTI_WIRE_OTHER_VERSION;
    }
    if (l->secret != NULL && !has_secret) {
        (void)snprintf(why, 256, "it has no secret");
        return TUTTI_WIRE_NO_SECRET;
    }
    if (l->secret == NULL && has_secret) {
        (void)snprintf(why, 256, "it has a secret, and this process has none");
        return TUTTI_WIRE_UNWANTED_SECRET;
    }
    return TUTTI_WIRE_GO_ON;
}

enum progress { WAITS, PROVED, REFUSED };

/* The hello is whole, or its prefix is and tells another version. */
static enum progress answer_hello(struct tutti_frames_listener *l, struct waiting *w)
{
    uint8_t nonce[TUTTI_WIRE_NONCE_BYTES];
    struct tutti_wire_hello said;
    enum tutti_wire_word word;
    char why[256] = "";

    if (!tutti_wire_read_hello(w->in, &said)) {
        tell(l, w, "what it says is not of this protocol");
        return REFUSED;
    }
    word = judge(l, &said, why);
    if (word != TUTTI_WIRE_OTHER_VERSION && w->got < TUTTI_WIRE_HELLO_BYTES)
        return WAITS;
    if (!tutti_frames_draw(nonce, sizeof(nonce)))
        return REFUSED;
    memcpy(w->talk.client, w->in, sizeof(w->talk.client));
    tutti_wire_write_hello(word, tutti_frames_version(), nonce, w->talk.server);
    w->said_hello = say(w, w->talk.server, sizeof(w->talk.server));
    if (word != TUTTI_WIRE_GO_ON)
        tell(l, w, why);
    return word == TUTTI_WIRE_GO_ON && w->said_hello ? WAITS : REFUSED;
}

static enum progress answer_proof(const struct tutti_frames_listener *l, struct waiting *w)
{
    uint8_t proof[TUTTI_WIRE_PROOF_BYTES];
    uint8_t answer[TUTTI_WIRE_ANSWER_BYTES] = {TUTTI_WIRE_GO_ON};

    tutti_wire_prove(&w->talk, false, proof);
    if (!tutti_bytes_same(proof, w->in + TUTTI_WIRE_HELLO_BYTES, sizeof(proof))) {
        answer[0] = TUTTI_WIRE_WRONG_SECRET;
        (void)say(w, answer, sizeof(answer));
        tell(l, w, "it has another secret");
        return REFUSED;
    }
    tutti_wire_prove(&w->talk, true, answer + 4);
    return say(w, answer, sizeof(answer)) ? PROVED : REFUSED;
}

static enum progress move(struct tutti_frames_listener *l, struct waiting *w)
{
    for (;;) {
        size_t want = w->said_hello ? IN_BYTES : TUTTI_WIRE_HELLO_BYTES;
        ssize_t came = w->got < want ? recv(w->fd, w->in + w->got, want - w->got, MSG_DONTWAIT) : 0;
        enum progress progress = WAITS;

        if (came < 0 && errno == EINTR)
            continue;
        if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return tutti_frames_now() < w->due_ps ? WAITS : REFUSED;
        if (came <= 0)
            return REFUSED; /* has gone, and nobody needs to be told */
        w->got += (size_t)came;
        if (!w->said_hello && w->got >= TUTTI_WIRE_PREFIX_BYTES)
            progress = answer_hello(l, w);
        else if (w->got == IN_BYTES)
            progress = answer_proof(l, w);
        if (progress != WAITS)
            return progress;
    }
}

static void forget(struct tutti_frames_listener *l, size_t index, bool and_close)
{
    struct waiting *w = &l->waiting[index];

    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    if (and_close)
        close(w->fd);
    l->count--;
    memmove(w, w + 1, (l->count - index) * sizeof(*w));
}

/* Takes who has come, so many at once as may wait, so that those who come faster than that keep
 * nobody here; of too many the one that has waited longest goes. */
static void let_come(struct tutti_frames_listener *l)
{
    for (int i = 0; i < TUTTI_FRAMES_WAITING_MAX; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct waiting *w;

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        /* The socket stays readable as long as no file is free: a poll would return at once. */
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            (void)poll(NULL, 0, NO_FILES_MS);
        if (fd < 0)
            return;
        if (l->count == TUTTI_FRAMES_WAITING_MAX)
            forget(l, 0, true);
        if (watch(l, fd, NULL) < 0) {
            close(fd);
            continue;
        }
        w = &l->waiting[l->count++];
        *w = (struct waiting){.fd = fd, .due_ps = tutti_frames_due(l->opts.deadline_ps)};
        w->talk.secret = l->secret;
        w->talk.secret_bytes = l->opts.secret_bytes;
    }
}

/* The first that has proved; *ret NULL: none yet. */
static int move_all(struct tutti_frames_listener *l, struct tutti_frames **ret,
                    struct tutti_err *err)
{
    let_come(l);
    for (size_t i = 0; i < l->count;) {
        enum progress progress = move(l, &l->waiting[i]);

        if (progress == PROVED) {
            struct waiting *w = &l->waiting[i];
            struct tutti_frames *frames = tutti_frames_new(w->fd, &l->opts, &w->talk, true);

            forget(l, i, frames == NULL);
            *ret = frames;
            if (frames != NULL)
                tutti_socket_tune(frames->fd, 30000, true);
            return frames == NULL ? tutti_nomem(err) : 0;
        }
        if (progress == REFUSED)
            forget(l, i, true);
        else
            i++;
    }
    return 0;
}

/* When the first of those that wait is to be sent away. */
static tutti_ps next_due(const struct tutti_frames_listener *l, tutti_ps due_ps)
{
    return l->count > 0 && l->waiting[0].due_ps < due_ps ? l->waiting[0].due_ps : due_ps;
}

int tutti_frames_accept(struct tutti_frames_listener *listener, tutti_ps timeout_ps,
                        struct tutti_frames **ret, struct tutti_err *err)
{
    tutti_ps due_ps = tutti_frames_due(timeout_ps);

    *ret = NULL;
    for (;;) {
        struct pollfd one = {.fd = listener->epoll_fd, .events = POLLIN};
        int status = move_all(listener, ret, err);

        if (status < 0 || *ret != NULL || tutti_frames_left_ms(due_ps) == 0)
            return status;
        (void)poll(&one, 1, tutti_frames_left_ms(next_due(listener, due_ps)));
    }
}
