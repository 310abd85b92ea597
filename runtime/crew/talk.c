/* A greeting over a socket, from either side, and the calling side in full. */
#include "runtime/crew/talk.h"

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

int tutti_greet_talk(struct tutti_greet *greet, int fd)
{
    while (greet->out_bytes > 0 || greet->in_bytes > 0) {
        ssize_t moved;

        if (greet->out_bytes > 0) {
            moved = send(fd, greet->out, greet->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (moved > 0)
                tutti_greet_sent(greet, (size_t)moved);
        } else {
            /* Never more than is wanted: what follows belongs to others. */
            moved = recv(fd, greet->in, greet->in_bytes, MSG_DONTWAIT);
            if (moved > 0)
                tutti_greet_took(greet, (size_t)moved);
        }
        if (moved == 0)
            errno = 0;
        if (moved <= 0)
            return moved < 0 && later() ? 0 : -1;
    }
    return 1;
}

short tutti_greet_events(const struct tutti_greet *greet)
{
    return greet->out_bytes > 0 ? POLLOUT : POLLIN;
}

bool tutti_greet_nonce(uint8_t ret[TUTTI_GREET_NONCE_BYTES])
{
    return getrandom(ret, TUTTI_GREET_NONCE_BYTES, 0) == TUTTI_GREET_NONCE_BYTES;
}

bool tutti_call_begin(struct tutti_call *call, const struct tutti_address *to, const void *secret,
                      size_t secret_bytes, const struct tutti_hello *hello, struct tutti_err *err)
{
    uint8_t nonce[TUTTI_GREET_NONCE_BYTES];
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    *call = (struct tutti_call){.fd = -1, .to = *to};
    if (!tutti_greet_nonce(nonce)) {
        (void)tutti_fail(err, TUTTI_EIO, "no random bytes: %s", strerror(errno));
        return false;
    }
    tutti_greet_guest(&call->greet, secret, secret_bytes, nonce, hello);
    call->fd = socket(to->as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (call->fd >= 0)
        tutti_socket_unpaced(call->fd);
    if (call->fd < 0 || (connect(call->fd, &to->as.any, to->bytes) != 0 && errno != EINPROGRESS &&
                         errno != EINTR)) {
        (void)tutti_fail(err, TUTTI_EIO, "cannot connect to '%s': %s", tutti_address_text(to, text),
                         strerror(errno));
        tutti_call_end(call);
        return false;
    }
    return true;
}

short tutti_call_events(const struct tutti_call *call)
{
    return call->connected ? tutti_greet_events(&call->greet) : POLLOUT;
}

static enum tutti_called connected(struct tutti_call *call, const char *name, struct tutti_err *err)
{
    struct tutti_address own;
    int code = 0;
    socklen_t bytes = sizeof(code);

    (void)getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &code, &bytes);
    if (code != 0) {
        (void)tutti_fail(err, TUTTI_EIO, "cannot connect to '%s': %s", name, strerror(code));
        return TUTTI_CALL_FAILED;
    }
    tutti_address_of_socket(call->fd, &own);
    /* A free port of this host that nobody listens at, taken for this very call: TCP allows it. */
    if (tutti_address_same(&own, &call->to)) {
        (void)tutti_fail(err, TUTTI_EIO, "cannot connect to '%s': nobody listens", name);
        return TUTTI_CALL_FAILED;
    }
    call->connected = true;
    return TUTTI_CALL_GOING;
}

/* Why, in words, and as a status. */
static int refused(const struct tutti_greet *greet, const char *name, struct tutti_err *err)
{
    const struct tutti_hello *said = &greet->said;

    switch ((enum tutti_greet_reason)greet->reason) {
    case TUTTI_GREET_OTHER_VERSION:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has version %u of the protocol, this process %d",
                          name, greet->value, TUTTI_GREET_VERSION);
    case TUTTI_GREET_NO_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' wants a secret, and this process has none",
                          name);
    case TUTTI_GREET_UNWANTED_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has no secret, and this process has one", name);
    case TUTTI_GREET_WRONG_SECRET:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has another secret than this process", name);
    case TUTTI_GREET_OTHER_COUNT:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' counts %u processes, this process %u", name,
                          greet->value, said->count);
    case TUTTI_GREET_NO_SUCH_INDEX:
        return tutti_fail(err, TUTTI_EINVAL, "'%s' takes no process %u of %u", name, said->index,
                          said->count);
    case TUTTI_GREET_TWICE:
        return tutti_fail(err, TUTTI_EINVAL,
                          "process %u of %u has already come to '%s', from '%.51s'", said->index,
                          said->count, name, greet->note);
    case TUTTI_GREET_NOT_WANTED:
        return tutti_fail(err, TUTTI_EINVAL,
                          "process %u wants a link with process %u and key %llu, which does not",
                          said->index, said->peer, (unsigned long long)said->key);
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
    talked = tutti_greet_talk(&call->greet, call->fd);
    call->proving = call->greet.state == TUTTI_GREET_WANTS_WELCOME && call->greet.out_bytes == 0;
    if (talked < 0) {
        (void)tutti_fail(err, TUTTI_EIO, "'%s' closed before its greeting ended%s%s", name,
                         errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        return TUTTI_CALL_FAILED;
    }
    if (talked == 0)
        return TUTTI_CALL_GOING;
    switch (call->greet.state) {
    case TUTTI_GREET_DONE:
        return TUTTI_CALL_DONE;
    case TUTTI_GREET_REFUSED:
        call->status = refused(&call->greet, name, err);
        return TUTTI_CALL_REFUSED;
    case TUTTI_GREET_IMPOSTOR:
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
