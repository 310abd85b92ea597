/* The engine `poll`: sockets are read and written without waiting, and poll(2) sleeps on them. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"

struct tutti_tcp_engine_state {
    struct pollfd *fds; /* [conn_count + 1] */
};

static int poll_open(struct tutti_tcp_progress *progress, uint32_t conn_count,
                     struct tutti_err *err)
{
    struct tutti_tcp_engine_state *state = calloc(1, sizeof(*state));
    sigset_t pipe;

    if (state == NULL)
        return tutti_nomem(err);
    state->fds = calloc((size_t)conn_count + 1, sizeof(state->fds[0]));
    if (state->fds == NULL) {
        free(state);
        return tutti_nomem(err);
    }
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL); /* of a peer that is gone we hear otherwise */
    progress->state = state;
    return 0;
}

static void poll_close(struct tutti_tcp_progress *progress)
{
    if (progress->state != NULL)
        free(progress->state->fds);
    free(progress->state);
    progress->state = NULL;
}

/* As sendmsg, one after the other: what is lent goes another way. */
static ssize_t send_each(struct tutti_tcp_conn *conn, const struct iovec *iov, size_t count)
{
    ssize_t went = 0;

    for (size_t i = 0; i < count; i++) {
        int more = i + 1 < count ? MSG_MORE : 0;
        ssize_t now = i == conn->lent_at ? tutti_tcp_zero_copy(conn, &iov[i])
                                         : send(conn->fd, iov[i].iov_base, iov[i].iov_len,
                                                MSG_DONTWAIT | MSG_NOSIGNAL | more);

        if (now < 0)
            return went > 0 ? went : now;
        went += now;
        if ((size_t)now < iov[i].iov_len)
            break;
    }
    return went;
}

/* 1: something went, 0: nothing can go now, or a negative status. */
static int poll_push(struct tutti_tcp_progress *progress, struct tutti_tcp_conn *conn,
                     struct tutti_err *err)
{
    struct iovec iov[TUTTI_TCP_IOVS];
    struct msghdr header = {.msg_iov = iov};
    ssize_t went;
    int status;

    (void)progress;
    header.msg_iovlen = tutti_tcp_line_out(conn, iov);
    if (header.msg_iovlen == 0)
        return 0;
    went = conn->lent_at < header.msg_iovlen
               ? send_each(conn, iov, header.msg_iovlen)
               : sendmsg(conn->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (went < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    status = tutti_tcp_line_went(conn, went < 0 ? -errno : went, err);
    return status < 0 ? status : 1;
}

static int pull(struct tutti_tcp_conn *conn, struct tutti_err *err)
{
    struct iovec iov[TUTTI_TCP_IOVS];
    struct msghdr header = {.msg_iov = iov};
    ssize_t came;
    int status;

    header.msg_iovlen = tutti_tcp_line_in(conn, iov);
    if (header.msg_iovlen == 0)
        return 0;
    came = header.msg_iovlen == 1 ? recv(conn->fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT)
                                  : recvmsg(conn->fd, &header, MSG_DONTWAIT);
    if (came < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    status = tutti_tcp_line_came(conn, came < 0 ? -errno : came, err);
    return status < 0 ? status : 1;
}

/* Reading first: it may free a peer who waits, and gives the words that are written after. */
static int poll_move(struct tutti_tcp_progress *progress, struct tutti_err *err)
{
    uint32_t kept = 0;
    int moved = 0;
    int status = 0;

    for (uint32_t i = 0; i < progress->list_count; i++) {
        struct tutti_tcp_conn *conn = progress->list[i];

        if (conn->wants_in && status >= 0)
            status = pull(conn, err);
        moved += status > 0;
        if (conn->wants_out && status >= 0)
            status = poll_push(progress, conn, err);
        moved += status > 0;
        conn->listed = conn->wants_in || conn->wants_out;
        if (conn->listed)
            progress->list[kept++] = conn;
        status = status > 0 ? 0 : status;
    }
    progress->list_count = kept;
    return status < 0 ? status : moved;
}

static void poll_rest(struct tutti_tcp_progress *progress, tutti_ps timeout_ps)
{
    struct pollfd *fds = progress->state->fds;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ps / TUTTI_PS_PER_S),
                               .tv_nsec = (long)(timeout_ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};
    uint64_t rings;

    fds[0] = (struct pollfd){.fd = progress->event_fd, .events = POLLIN};
    for (uint32_t i = 0; i < progress->list_count; i++) {
        const struct tutti_tcp_conn *conn = progress->list[i];

        fds[i + 1] = (struct pollfd){
            .fd = conn->fd,
            .events = (short)((conn->wants_in ? POLLIN : 0) | (conn->wants_out ? POLLOUT : 0)),
        };
    }
    if (ppoll(fds, progress->list_count + 1, &timeout, NULL) > 0 && fds[0].revents != 0)
        (void)!read(progress->event_fd, &rings, sizeof(rings));
}

const struct tutti_tcp_engine_ops tutti_tcp_poll = {
    .name = "poll",
    .lends = true,
    .open = poll_open,
    .close = poll_close,
    .push = poll_push,
    .move = poll_move,
    .rest = poll_rest,
};
