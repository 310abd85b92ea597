/* The side that connects, and goes on trying until its deadline; see frames.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/frames/connection.h"

enum { PAUSE_MS_FIRST = 5, PAUSE_MS_MAX = 200, SILENCE_MS = 30000 };

struct call {
    const struct tutti_frames_opts *opts;
    tutti_ps due_ps;
    bool once; /* nobody waits for who is not there */
    char who[TUTTI_FRAMES_NAME_BYTES + TUTTI_FRAMES_ADDRESS_BYTES + 8]; /* in messages */
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    uint32_t skip;   /* which of the host's addresses is next */
    bool no_address; /* there is none of that number */
    int fd;
    struct tutti_wire_talk talk;
};

static int wait_for(const struct call *call, short events, struct tutti_err *err)
{
    struct pollfd one = {.fd = call->fd, .events = events};

    while (one.revents == 0) {
        int left_ms = tutti_frames_left_ms(call->due_ps);

        if (left_ms == 0)
            return tutti_fail(err, TUTTI_EIO, "%s does not answer", call->who);
        (void)poll(&one, 1, left_ms);
    }
    return 0;
}

static int open_socket(struct call *call, struct tutti_err *err)
{
    struct tutti_address to;
    struct tutti_address own;
    int error = 0;
    socklen_t bytes = sizeof(error);
    int status = tutti_address_resolve(call->host, call->port, call->skip,
                                       call->due_ps - tutti_frames_now(), &to, err);

    call->no_address = status < 0;
    if (status < 0)
        return status;
    call->fd = socket(to.as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->fd < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot open a socket: %s", strerror(errno));
    tutti_socket_unpaced(call->fd);
    if (connect(call->fd, &to.as.any, to.bytes) != 0 && errno != EINPROGRESS)
        return tutti_fail(err, TUTTI_EIO, "cannot connect to %s: %s", call->who, strerror(errno));
    status = wait_for(call, POLLOUT, err);
    if (status < 0)
        return status;
    (void)getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    tutti_address_of_socket(call->fd, &own);
    if (tutti_address_same(&own, &to)) /* a free port of this host, connected to itself */
        error = ECONNREFUSED;
    if (error != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot connect to %s: %s", call->who, strerror(error));
    tutti_socket_tune(call->fd, SILENCE_MS, true);
    return 0;
}

static int say(const struct call *call, const void *data, size_t bytes, struct tutti_err *err)
{
    if (send(call->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)bytes)
        return tutti_fail(err, TUTTI_EIO, "%s closed during the handshake", call->who);
    return 0;
}

static int hear(const struct call *call, uint8_t *to, size_t bytes, struct tutti_err *err)
{
    size_t got = 0;

    while (got < bytes) {
        ssize_t came;
        int status = wait_for(call, POLLIN, err);

        if (status < 0)
            return status;
        came = recv(call->fd, to + got, bytes - got, MSG_DONTWAIT);
        if (came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR))
            return tutti_fail(err, TUTTI_EIO, "%s closed during the handshake", call->who);
        got += came > 0 ? (size_t)came : 0;
    }
    return 0;
}

/* What the server's hello says. Of another version no more than the prefix can be relied on. */
static int read_hello(struct call *call, struct tutti_err *err)
{
    struct tutti_wire_hello said;
    int status = hear(call, call->talk.server, TUTTI_WIRE_PREFIX_BYTES, err);

    if (status < 0)
        return status;
    if (!tutti_wire_read_hello(call->talk.server, &said))
        return tutti_fail(err, TUTTI_EIO, "what answers as %s is not of this protocol", call->who);
    if (said.protocol != TUTTI_WIRE_PROTOCOL || strcmp(said.tutti, tutti_frames_version()) != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s is of tutti %s (protocol %u), this process of %s (%d)", call->who,
                          said.tutti, said.protocol, tutti_frames_version(), TUTTI_WIRE_PROTOCOL);
    switch (said.word) {
    case TUTTI_WIRE_GO_ON:
        return hear(call, call->talk.server + TUTTI_WIRE_PREFIX_BYTES, TUTTI_WIRE_NONCE_BYTES, err);
    case TUTTI_WIRE_NO_SECRET:
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s wants a secret, and this process has none (TUTTI_SECRET)", call->who);
    case TUTTI_WIRE_UNWANTED_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "%s has no secret, and this process has one",
                          call->who);
    default:
        return tutti_fail(err, TUTTI_EINVAL, "%s refuses this process (%u)", call->who, said.word);
    }
}

static int shake(struct call *call, struct tutti_err *err)
{
    const bool has_secret = call->talk.secret_bytes > 0;
    uint8_t nonce[TUTTI_WIRE_NONCE_BYTES];
    uint8_t proof[TUTTI_WIRE_PROOF_BYTES];
    uint8_t answer[TUTTI_WIRE_ANSWER_BYTES];
    int status;

    if (!tutti_frames_draw(nonce, sizeof(nonce)))
        return tutti_fail(err, TUTTI_EIO, "no random bytes: %s", strerror(errno));
    tutti_wire_write_hello(has_secret ? TUTTI_WIRE_HAS_SECRET : TUTTI_WIRE_GO_ON,
                           tutti_frames_version(), nonce, call->talk.client);
    status = say(call, call->talk.client, sizeof(call->talk.client), err);
    if (status == 0)
        status = read_hello(call, err);
    if (status < 0)
        return status;
    tutti_wire_prove(&call->talk, false, proof);
    status = say(call, proof, sizeof(proof), err);
    if (status == 0)
        status = hear(call, answer, sizeof(answer), err);
    if (status < 0)
        return status;
    if (answer[0] != TUTTI_WIRE_GO_ON)
        return tutti_fail(err, TUTTI_EINVAL, "%s has another secret than this process", call->who);
    tutti_wire_prove(&call->talk, true, proof);
    if (!tutti_bytes_same(proof, answer + 4, sizeof(proof)))
        return tutti_fail(err, TUTTI_EINVAL, "what answers as %s does not know the secret",
                          call->who);
    return 0;
}

static int try_once(struct call *call, struct tutti_frames **ret, struct tutti_err *err)
{
    int status = open_socket(call, err);

    if (status == 0)
        status = shake(call, err);
    if (status == 0) {
        *ret = tutti_frames_new(call->fd, call->opts, &call->talk, false);
        status = *ret == NULL ? tutti_nomem(err) : 0;
    }
    if (status < 0 && call->fd >= 0)
        close(call->fd);
    call->fd = -1;
    return status;
}

/* All addresses of the host in turn, again and again; `last` is why the last one failed. */
static int try_all(struct call *call, struct tutti_frames **ret, struct tutti_err *last)
{
    int pause_ms = PAUSE_MS_FIRST;

    for (;;) {
        struct tutti_err now;
        int status = try_once(call, ret, &now);
        bool was_last = call->no_address && call->skip > 0;

        if (status < 0 && !was_last)
            *last = now;
        if (status != -TUTTI_EIO)
            return status;
        call->skip = call->no_address ? 0 : call->skip + 1;
        if (!call->no_address)
            continue;
        if (call->once || tutti_frames_left_ms(call->due_ps) <= pause_ms)
            return status;
        (void)poll(NULL, 0, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MS_MAX ? pause_ms * 2 : PAUSE_MS_MAX;
    }
}

static int connect_to(const struct tutti_frames_opts *opts, const char *address,
                      tutti_ps deadline_ps, bool once, const char *what, struct tutti_frames **ret,
                      struct tutti_err *err)
{
    struct tutti_frames_opts own;
    struct call call = {.opts = &own, .once = once, .fd = -1};
    struct tutti_frames *frames = NULL;
    struct tutti_err last = {""};
    int status = tutti_frames_take(opts, &own, err);

    if (status == 0)
        status = tutti_address_split(address, call.host, &call.port, err);
    if (status < 0)
        return status;
    call.due_ps = tutti_frames_due(deadline_ps);
    call.talk.secret = own.secret;
    call.talk.secret_bytes = own.secret_bytes;
    (void)snprintf(call.who, sizeof(call.who), "%.*s ('%.300s')", TUTTI_FRAMES_NAME_BYTES, what,
                   address);
    status = try_all(&call, &frames, &last);
    if (status < 0) {
        if (err != NULL)
            *err = last;
        return status;
    }
    tutti_frames_set_name(frames, what);
    *ret = frames;
    return 0;
}

int tutti_frames_connect(const struct tutti_frames_opts *opts, const char *address,
                         tutti_ps deadline_ps, const char *what, struct tutti_frames **ret,
                         struct tutti_err *err)
{
    return connect_to(opts, address, deadline_ps, false, what, ret, err);
}

int tutti_frames_connect_once(const struct tutti_frames_opts *opts, const char *address,
                              tutti_ps deadline_ps, const char *what, struct tutti_frames **ret,
                              struct tutti_err *err)
{
    return connect_to(opts, address, deadline_ps, true, what, ret, err);
}
