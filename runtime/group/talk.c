/* A greeting over a socket, from either side, and the calling side in full. */
#include "runtime/group/talk.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/status.h"

static bool later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int tutti_handshake_talk(struct tutti_handshake *handshake, int fd)
{
    while (handshake->out_bytes > 0 || handshake->in_bytes > 0) {
        ssize_t moved;

        if (handshake->out_bytes > 0) {
            moved = send(fd, handshake->out, handshake->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (moved > 0)
                tutti_handshake_sent(handshake, (size_t)moved);
        } else {
            /* Never more than is wanted: what follows belongs to others. */
            moved = recv(fd, handshake->in, handshake->in_bytes, MSG_DONTWAIT);
            if (moved > 0)
                tutti_handshake_took(handshake, (size_t)moved);
        }
        if (moved == 0)
            errno = 0;
        if (moved <= 0)
            return moved < 0 && later() ? 0 : -1;
    }
    return 1;
}

short tutti_handshake_events(const struct tutti_handshake *handshake)
{
    return handshake->out_bytes > 0 ? POLLOUT : POLLIN;
}

bool tutti_handshake_nonce(uint8_t ret[TUTTI_HANDSHAKE_NONCE_BYTES])
{
    return getrandom(ret, TUTTI_HANDSHAKE_NONCE_BYTES, 0) == TUTTI_HANDSHAKE_NONCE_BYTES;
}

bool tutti_call_begin(struct tutti_call *call, const struct tutti_address *to, const void *secret,
                      size_t secret_bytes, const struct tutti_hello *hello, struct tutti_err *err)
{
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    *call = (struct tutti_call){.fd = -1, .to = *to};
    if (!tutti_handshake_nonce(nonce)) {
        (void)tutti_fail(err, TUTTI_EIO, "no random bytes: %s", strerror(errno));
        return false;
    }
    tutti_handshake_client(&call->handshake, secret, secret_bytes, nonce, hello);
    call->fd = socket(to->as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->fd >= 0)
        tutti_socket_unpaced(call->fd);
    if (call->fd < 0 || (connect(call->fd, &to->as.any, to->bytes) != 0 && errno != EINPROGRESS &&
                         errno != EINTR)) {
        call->code = errno;
        (void)tutti_fail(err, TUTTI_EIO, "cannot connect to '%s': %s", tutti_address_text(to, text),
                         strerror(call->code));
        tutti_call_end(call);
        return false;
    }
    return true;
}

short tutti_call_events(const struct tutti_call *call)
{
    return call->connected ? tutti_handshake_events(&call->handshake) : POLLOUT;
}

static enum tutti_called connected(struct tutti_call *call, const char *name, struct tutti_err *err)
{
    struct tutti_address own;
    int code = 0;
    socklen_t bytes = sizeof(code);

    (void)getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &code, &bytes);
    call->code = code;
    if (code != 0) {
        (void)tutti_fail(err, TUTTI_EIO, "cannot connect to '%s': %s", name, strerror(code));
        return TUTTI_CALL_FAILED;
    }
    tutti_address_of_socket(call->fd, &own);
    /* A free port of this host that nobody listens at, taken for this very call: TCP allows it. */
    if (tutti_address_same(&own, &call->to)) {
        call->code = ECONNREFUSED;
        (void)tutti_fail(err, TUTTI_EIO, "cannot connect to '%s': nobody listens", name);
        return TUTTI_CALL_FAILED;
    }
    call->connected = true;
    return TUTTI_CALL_GOING;
}

/* Why, in words, and as a status. */
static int refused(const struct tutti_handshake *handshake, const char *name, struct tutti_err *err)
{
    const struct tutti_hello *said = &handshake->said;

    switch ((enum tutti_handshake_reason)handshake->reason) {
    case TUTTI_HANDSHAKE_OTHER_VERSION:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has version %u of the protocol, this process %d",
                          name, handshake->value, TUTTI_HANDSHAKE_VERSION);
    case TUTTI_HANDSHAKE_NO_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' wants a secret, and this process has none",
                          name);
    case TUTTI_HANDSHAKE_UNWANTED_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has no secret, and this process has one", name);
    case TUTTI_HANDSHAKE_WRONG_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has another secret than this process", name);
    case TUTTI_HANDSHAKE_OTHER_COUNT:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' counts %u processes, this process %u", name,
                          handshake->value, said->count);
    case TUTTI_HANDSHAKE_NO_SUCH_INDEX:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' takes no process %u of %u", name, said->index,
                          said->count);
    case TUTTI_HANDSHAKE_TWICE:
        return tutti_fail(err, TUTTI_EINVAL,
                          "process %u of %u has already come to '%s', from '%.51s'", said->index,
                          said->count, name, handshake->note);
    case TUTTI_HANDSHAKE_NOT_WANTED:
        return tutti_fail(err, TUTTI_EINVAL,
                          "process %u wants a link with process %u and key %llu, which does not",
                          said->index, said->peer, (unsigned long long)said->key);
    case TUTTI_HANDSHAKE_NOT_YET:
        return tutti_fail(err, TUTTI_EIO, "'%s' lets nobody in now", name);
    case TUTTI_HANDSHAKE_LEFT_BEHIND:
        return tutti_fail(err, TUTTI_ETIME,
                          "the others have gone on without this process (incarnation %u)",
                          handshake->value);
    case TUTTI_HANDSHAKE_ELSEWHERE:
        return tutti_fail(err, TUTTI_EIO, "newcomers are let in at '%.51s', not at '%s'",
                          handshake->note, name);
    case TUTTI_HANDSHAKE_TOO_MANY:
        return tutti_fail(err, TUTTI_EIO, "too many wait at '%s'", name);
    default:
        return tutti_fail(err, TUTTI_EIO, "'%s' has broken off", name);
    }
}

enum tutti_called tutti_call_move(struct tutti_call *call, const char *name, struct tutti_err *err)
{
    int talked;

    assert(call->fd >= 0);
    if (!call->connected) {
        enum tutti_called how = connected(call, name, err);

        if (how != TUTTI_CALL_GOING)
            return how;
    }
    talked = tutti_handshake_talk(&call->handshake, call->fd);
    call->proving =
        call->handshake.state == TUTTI_HANDSHAKE_WANTS_WELCOME && call->handshake.out_bytes == 0;
    if (talked < 0) {
        (void)tutti_fail(err, TUTTI_EIO, "'%s' closed before its greeting ended%s%s", name,
                         errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        return TUTTI_CALL_FAILED;
    }
    if (talked == 0)
        return TUTTI_CALL_GOING;
    switch (call->handshake.state) {
    case TUTTI_HANDSHAKE_DONE:
        return TUTTI_CALL_DONE;
    case TUTTI_HANDSHAKE_REFUSED:
        call->status = refused(&call->handshake, name, err);
        return TUTTI_CALL_REFUSED;
    case TUTTI_HANDSHAKE_IMPOSTOR:
        call->status =
            tutti_fail(err, TUTTI_EINVAL, "what answers at '%s' does not know the secret", name);
        return TUTTI_CALL_REFUSED;
    default:
        (void)tutti_fail(err, TUTTI_EIO, "what answers at '%s' is not of this protocol", name);
        return TUTTI_CALL_FAILED;
    }
}

void tutti_call_end(struct tutti_call *call)
{
    if (call->fd >= 0)
        close(call->fd);
    call->fd = -1;
}
