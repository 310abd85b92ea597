/* The transport over sockets and its engines, which move the bytes. Private to
 * runtime/exec/transport/tcp.
 *
 * A progress context has a thread that does all its work, that of its rank or of all; an engine
 * serves one. Lines say what there is to read and to write (line.h), engines do it: `poll` with
 * calls that do not wait, `uring` by handing it to io_uring and asking what is done. */
#ifndef TUTTI_RUNTIME_EXEC_TRANSPORT_TCP_TCP_H
#define TUTTI_RUNTIME_EXEC_TRANSPORT_TCP_TCP_H

#include "runtime/exec/transport/tcp/line.h"
#include "runtime/group.h"
#include "runtime/group_tcp.h"
#include "runtime/tcp.h"

struct tutti_tcp_engine_state;

/* What a rank has on its connections. */
struct tutti_tcp_progress {
    uint32_t rank;
    int event_fd;                 /* rings when another thread wakes the rank */
    struct tutti_tcp_conn **list; /* connections that want something, or did */
    uint32_t list_count;
    char *piece;                          /* for engines that need one at a time */
    struct tutti_tcp_engine_state *state; /* the engine's; made in the rank's thread */
};

static inline void tutti_tcp_progress_list(struct tutti_tcp_progress *progress,
                                           struct tutti_tcp_conn *conn)
{
    if (conn->listed)
        return;
    conn->listed = true;
    progress->list[progress->list_count++] = conn;
}

struct tutti_tcp_engine_ops {
    const char *name;
    bool keeps_pieces; /* each connection needs a piece of its own */
    bool lends;        /* hands what is to be lent to tutti_tcp_zero_copy */
    /* At the first move, in the rank's thread; `conn_count` connections can be listed. */
    int (*open)(struct tutti_tcp_progress *progress, uint32_t conn_count, struct tutti_err *err);
    void (*close)(struct tutti_tcp_progress *progress); /* after the thread has ended */
    /* The connection has something to write: at once, if that is of use. */
    int (*push)(struct tutti_tcp_progress *progress, struct tutti_tcp_conn *conn,
                struct tutti_err *err);
    /* As of transports. */
    int (*move)(struct tutti_tcp_progress *progress, struct tutti_err *err);
    void (*rest)(struct tutti_tcp_progress *progress, tutti_ps timeout_ps);
};

extern const struct tutti_tcp_engine_ops tutti_tcp_poll;
extern const struct tutti_tcp_engine_ops tutti_tcp_uring; /* only if check gives 0 */

/* Connections to another process that are there, for this execution and the next. */
struct tutti_tcp_pool {
    int *fds;
    uint32_t count;
};

typedef int tutti_tcp_links_fn(struct tutti_group *group, const struct tutti_group_tcp_link *wanted,
                               size_t count, int *ret_fds, tutti_ps deadline_ps,
                               struct tutti_err *err);

struct tutti_tcp {
    struct tutti_transport base;
    const struct tutti_tcp_engine_ops *engine;
    tutti_tcp_links_fn *links;
    struct tutti_tcp_opts opts; /* but for the text of congestion */
    char congestion[32];
    struct tutti_tcp_pool *pools; /* [process] */
    uint32_t pool_count;
    struct tutti_tcp_pipe *pipes; /* for this execution and the next */
    uint32_t pipe_count;
    uint32_t
        generation; /* counts the executions that were broken off: connections are then made anew */
    /* Of an execution. */
    const struct tutti_transport_plan *plan;
    struct tutti_tcp_progress *desks; /* [own rank], or one for all */
    uint32_t progress_count;
    struct tutti_tcp_line *lines;
    uint32_t line_count;
    struct tutti_tcp_conn *conns;
    uint32_t conn_count;
    struct tutti_tcp_send_desc *send_descs;
    char *pieces;
};

/* ---- pool.c ---- */

/* Collective: makes sure that there are need[p] connections to each process p. `status`: negative
 * if this process cannot go on, and err says why; 0 comes back where another one cannot, which it
 * will say itself, and nothing has been filled then. */
int tutti_tcp_pools_fill(struct tutti_tcp *tcp, struct tutti_group *group, const uint32_t *need,
                         int status, bool *ret_filled, struct tutti_err *err);
void tutti_tcp_pools_drop(struct tutti_tcp *tcp); /* closes all connections */

/* ---- zero_copy.c ---- */

/* Gives the connections of all lines that are to lend their pipes, which they share with nobody.
 * Where there are not enough, lines lend nothing. */
void tutti_tcp_pipes_fill(struct tutti_tcp *tcp);
void tutti_tcp_pipes_drop(struct tutti_tcp *tcp); /* also if they are not empty */

/* Lends the socket as much of `bytes`, the next of the message being sent, as it takes. As send(2)
 * without waiting, but that it may raise SIGPIPE. */
ssize_t tutti_tcp_zero_copy(struct tutti_tcp_conn *conn, const struct iovec *bytes);

/* ---- transport.c ---- */

extern const struct tutti_transport_ops tutti_tcp_transport_ops;

/* ---- tcp.c ---- */

/* tutti_tcp_open with connections made by `links`. */
int tutti_tcp_open_with(const struct tutti_tcp_opts *opts, tutti_tcp_links_fn *links,
                        struct tutti_backend **ret, struct tutti_err *err);

#endif
