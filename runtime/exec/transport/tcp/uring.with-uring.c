/* The engine `uring`: reading and writing is handed to io_uring, which says what is done. A look
 * that finds nothing reads two words of memory and asks the system nothing. */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"

enum { QUEUE_ENTRIES = 64, COMPLETIONS_MAX = 16384 };

/* One direction of a connection with the system. */
struct flight {
    struct tutti_tcp_conn *conn; /* NULL: the wakeup */
    bool out;
    bool busy;
    struct msghdr header;
    struct iovec iov[TUTTI_TCP_IOVS];
};

/* Both directions; what a connection has as its own. */
struct pair {
    struct flight in;
    struct flight out;
};

struct tutti_tcp_engine_state {
    struct io_uring ring;
    struct pair *pairs; /* [conn_count], given to connections as they come */
    uint32_t pair_count;
    struct flight wakeup;
    bool rung; /* the wakeup has: the next rest is none */
};

/* The best kind of ring that this system has: completions are then worked off when we ask, by us
 * alone, and we are told where to look whether it is worth asking. */
static int make_ring(struct io_uring *ring, uint32_t completions)
{
    static const unsigned kinds[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        0,
    };
    int status = -EINVAL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && status == -EINVAL; i++) {
        struct io_uring_params params = {.flags = kinds[i] | IORING_SETUP_CQSIZE,
                                         .cq_entries = completions};

        status = io_uring_queue_init_params(QUEUE_ENTRIES, ring, &params);
    }
    return status;
}

static int refuse(int status, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK, "this machine gives us no io_uring: %s%s",
                      strerror(-status),
                      status == -EPERM    ? " (a sandbox, or kernel.io_uring_disabled)"
                      : status == -ENOSYS ? " (an old or a small kernel, or a sandbox)"
                                          : "");
}

int tutti_tcp_uring_check(struct tutti_err *err)
{
    struct io_uring ring;
    int status = make_ring(&ring, 2 * QUEUE_ENTRIES);

    if (status < 0)
        return refuse(status, err);
    io_uring_queue_exit(&ring);
    return 0;
}

static int uring_open(struct tutti_tcp_progress *progress, uint32_t conn_count,
                      struct tutti_err *err)
{
    struct tutti_tcp_engine_state *state = calloc(1, sizeof(*state));
    uint32_t completions = 2 * QUEUE_ENTRIES;
    int status;

    if (state == NULL)
        return tutti_nomem(err);
    while (completions < 2 * conn_count + 2 && completions < COMPLETIONS_MAX)
        completions *= 2;
    state->pairs = calloc((size_t)conn_count + 1, sizeof(state->pairs[0]));
    status = state->pairs == NULL ? tutti_nomem(err) : make_ring(&state->ring, completions);
    if (state->pairs == NULL || status < 0) {
        if (state->pairs != NULL)
            status = refuse(status, err);
        free(state->pairs);
        free(state);
        return status;
    }
    (void)io_uring_register_ring_fd(&state->ring); /* saves a look-up in each call */
    progress->state = state;
    return 0;
}

/* The thread that handed everything over has ended, and the system has taken it back with that. */
static void uring_close(struct tutti_tcp_progress *progress)
{
    io_uring_queue_exit(&progress->state->ring);
    free(progress->state->pairs);
    free(progress->state);
    progress->state = NULL;
}

/* NULL: the queue is full, and the system takes nothing from it before completions are worked off;
 * whoever stays listed has it tried again by the next move. */
static struct io_uring_sqe *entry(struct tutti_tcp_engine_state *state)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&state->ring);

    if (sqe == NULL && io_uring_submit(&state->ring) > 0)
        sqe = io_uring_get_sqe(&state->ring);
    return sqe;
}

static struct pair *pair_of(struct tutti_tcp_engine_state *state, struct tutti_tcp_conn *conn)
{
    struct pair *pair = conn->own;

    if (pair == NULL) {
        pair = &state->pairs[state->pair_count++];
        pair->in.conn = conn;
        pair->out.conn = conn;
        pair->out.out = true;
        conn->own = pair;
    }
    return pair;
}

/* Puts into the queue what the connection wants, and the system does not have yet. */
static void queue(struct tutti_tcp_engine_state *state, struct flight *flight)
{
    struct tutti_tcp_conn *conn = flight->conn;
    struct io_uring_sqe *sqe;
    uint32_t count;

    if (flight->busy || !(flight->out ? conn->wants_out : conn->wants_in))
        return;
    count =
        flight->out ? tutti_tcp_line_out(conn, flight->iov) : tutti_tcp_line_in(conn, flight->iov);
    sqe = count > 0 ? entry(state) : NULL;
    if (sqe == NULL)
        return;
    flight->header = (struct msghdr){.msg_iov = flight->iov, .msg_iovlen = count};
    flight->busy = true;
    if (flight->out && count == 1)
        io_uring_prep_send(sqe, conn->fd, flight->iov[0].iov_base, flight->iov[0].iov_len,
                           MSG_NOSIGNAL);
    else if (flight->out)
        io_uring_prep_sendmsg(sqe, conn->fd, &flight->header, MSG_NOSIGNAL);
    else if (count == 1)
        io_uring_prep_recv(sqe, conn->fd, flight->iov[0].iov_base, flight->iov[0].iov_len, 0);
    else
        io_uring_prep_recvmsg(sqe, conn->fd, &flight->header, 0);
    io_uring_sqe_set_data(sqe, flight);
}

static int failed(int status, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EIO, "io_uring: %s", strerror(-status));
}

static int submit(struct tutti_tcp_engine_state *state, struct tutti_err *err)
{
    int status = io_uring_sq_ready(&state->ring) > 0 ? io_uring_submit(&state->ring) : 0;

    return status < 0 && status != -EINTR && status != -EAGAIN && status != -EBUSY
               ? failed(status, err)
               : 0;
}

static int uring_push(struct tutti_tcp_progress *progress, struct tutti_tcp_conn *conn,
                      struct tutti_err *err)
{
    queue(progress->state, &pair_of(progress->state, conn)->out);
    return submit(progress->state, err);
}

/* 1: something has moved, 0: nothing that counts, or a negative status. */
static int complete(struct tutti_tcp_progress *progress, struct flight *flight, int result,
                    struct tutti_err *err)
{
    int status;

    flight->busy = false;
    if (flight->conn == NULL) {
        progress->state->rung = true;
        return 0;
    }
    if (result == -EAGAIN || result == -EINTR)
        return 0;
    status = flight->out ? tutti_tcp_line_went(flight->conn, result, err)
                         : tutti_tcp_line_came(flight->conn, result, err);
    if (status < 0)
        return status;
    queue(progress->state, flight); /* goes on at once */
    return 1;
}

static int uring_move(struct tutti_tcp_progress *progress, struct tutti_err *err)
{
    struct tutti_tcp_engine_state *state = progress->state;
    struct io_uring_cqe *cqe;
    uint32_t kept = 0;
    int moved = 0;
    int status = 0;

    for (uint32_t i = 0; i < progress->list_count; i++) {
        struct tutti_tcp_conn *conn = progress->list[i];
        struct pair *pair = pair_of(state, conn);

        queue(state, &pair->in);
        queue(state, &pair->out);
        conn->listed = conn->wants_in || conn->wants_out;
        if (conn->listed)
            progress->list[kept++] = conn;
    }
    progress->list_count = kept;
    status = submit(state, err);
    while (status == 0 && io_uring_peek_cqe(&state->ring, &cqe) == 0) {
        struct flight *flight = io_uring_cqe_get_data(cqe);
        int result = cqe->res;

        io_uring_cqe_seen(&state->ring, cqe);
        status = complete(progress, flight, result, err);
        moved += status > 0;
        status = status > 0 ? 0 : status;
    }
    if (status == 0)
        status = submit(state, err);
    return status < 0 ? status : moved;
}

static void uring_rest(struct tutti_tcp_progress *progress, tutti_ps timeout_ps)
{
    struct tutti_tcp_engine_state *state = progress->state;
    struct __kernel_timespec timeout = {.tv_sec = timeout_ps / TUTTI_PS_PER_S,
                                        .tv_nsec = timeout_ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS};
    struct io_uring_cqe *cqe;
    uint64_t rings;

    /* Whoever rang before the last move did so perhaps after the rank had looked around. */
    if (state->rung) {
        state->rung = false;
        (void)!read(progress->event_fd, &rings, sizeof(rings));
        return;
    }
    if (!state->wakeup.busy) {
        struct io_uring_sqe *sqe = entry(state);

        if (sqe != NULL) {
            io_uring_prep_poll_add(sqe, progress->event_fd, POLLIN);
            io_uring_sqe_set_data(sqe, &state->wakeup);
            state->wakeup.busy = true;
        }
    }
    /* What is there is taken by the next move. */
    (void)io_uring_submit_and_wait_timeout(&state->ring, &cqe, 1, &timeout, NULL);
}

const struct tutti_tcp_engine_ops tutti_tcp_uring = {
    .name = "uring",
    .keeps_pieces = true,
    .open = uring_open,
    .close = uring_close,
    .push = uring_push,
    .move = uring_move,
    .rest = uring_rest,
};
