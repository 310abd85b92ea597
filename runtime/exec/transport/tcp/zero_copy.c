/* Lending: the pages of a message go into a pipe and from there into the socket, and are not copied
 * on the way. Over loopback they reach the receiver's socket as they are, so that a message is
 * copied once, by who receives it, and its sender need not wait for cache lines that another core
 * holds. TCP's acknowledgement says nothing then: it is given before the receiver has read.
 *
 * In what follows no fault is an error: where lending cannot be, messages are copied. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/exec/transport/tcp/tcp.h"

static bool open_pipe(struct tutti_tcp_pipe *pipe)
{
    *pipe = (struct tutti_tcp_pipe){.fds = {-1, -1}};
    if (pipe2(pipe->fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    if (fcntl(pipe->fds[1], F_SETPIPE_SZ, TUTTI_TCP_AT_ONCE) >= TUTTI_TCP_AT_ONCE)
        return true;
    /* Pages in pipes are limited for each user; with few at a time copying is faster. */
    close(pipe->fds[0]);
    close(pipe->fds[1]);
    return false;
}

static uint32_t open_pipes(struct tutti_tcp *tcp, uint32_t need)
{
    struct tutti_tcp_pipe *larger;

    if (need <= tcp->pipe_count)
        return need;
    larger = realloc(tcp->pipes, need * sizeof(larger[0]));
    if (larger == NULL)
        return tcp->pipe_count;
    tcp->pipes = larger;
    while (tcp->pipe_count < need && open_pipe(&tcp->pipes[tcp->pipe_count]))
        tcp->pipe_count++;
    return tcp->pipe_count;
}

/* Linux 6.5 and some after it forget in splice(2) that the socket does not block: not for long. */
static void limit_wait(int fd)
{
    struct timeval limit = {.tv_usec = 1000};

    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

void tutti_tcp_pipes_fill(struct tutti_tcp *tcp)
{
    uint32_t need = 0;
    uint32_t have;
    uint32_t used = 0;

    for (uint32_t i = 0; i < tcp->line_count; i++)
        need += tcp->lines[i].lends ? tcp->lines[i].conn_count : 0;
    have = open_pipes(tcp, need);
    for (uint32_t i = 0; i < tcp->line_count; i++) {
        struct tutti_tcp_line *line = &tcp->lines[i];

        line->lends = line->lends && have - used >= line->conn_count;
        for (uint32_t k = 0; line->lends && k < line->conn_count; k++) {
            assert(tcp->pipes[used].bytes ==
                   0); /* the last execution was told of all it had lent */
            line->conns[k].pipe = &tcp->pipes[used++];
            limit_wait(line->conns[k].fd);
        }
    }
}

void tutti_tcp_pipes_drop(struct tutti_tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->pipe_count; i++) {
        close(tcp->pipes[i].fds[0]);
        close(tcp->pipes[i].fds[1]);
    }
    free(tcp->pipes);
    tcp->pipes = NULL;
    tcp->pipe_count = 0;
}

/* From here on the line copies, what is in its pipes as well: from where it comes from. */
static void stop_lending(struct tutti_tcp_line *line)
{
    for (uint32_t i = 0; i < line->conn_count; i++) {
        struct tutti_tcp_conn *conn = &line->conns[i];

        while (conn->pipe->bytes > 0) {
            ssize_t got = read(conn->pipe->fds[0], conn->piece, TUTTI_TCP_PIECE);

            conn->pipe->bytes = got > 0 ? conn->pipe->bytes - (uint64_t)got : 0;
        }
    }
    line->lends = false;
}

static bool is_passing(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* Moves pages into the pipe, and out of it into the socket. */
static ssize_t pass(struct tutti_tcp_conn *conn, const struct iovec *bytes)
{
    struct tutti_tcp_pipe *pipe = conn->pipe;
    struct iovec rest = {.iov_base = (char *)bytes->iov_base + pipe->bytes,
                         .iov_len = bytes->iov_len - (size_t)pipe->bytes};
    ssize_t came = 0;
    ssize_t went;

    if (rest.iov_len > 0)
        came = vmsplice(pipe->fds[1], &rest, 1, SPLICE_F_NONBLOCK);
    if (came < 0 && !is_passing(errno))
        return -1;
    pipe->bytes += came > 0 ? (uint64_t)came : 0;
    /* The seal comes after it. */
    went = splice(pipe->fds[0], NULL, conn->fd, NULL, (size_t)pipe->bytes,
                  SPLICE_F_NONBLOCK | SPLICE_F_MORE);
    pipe->bytes -= went > 0 ? (uint64_t)went : 0;
    return went;
}

ssize_t tutti_tcp_zero_copy(struct tutti_tcp_conn *conn, const struct iovec *bytes)
{
    ssize_t went = pass(conn, bytes);

    if (went >= 0 || is_passing(errno))
        return went;
    stop_lending(conn->line);
    return send(conn->fd, bytes->iov_base, bytes->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
}
