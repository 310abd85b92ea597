/* The transport over sockets: gives each endpoint its line, and each rank its progress context. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"

static struct tutti_tcp *tcp_of(const struct tutti_transport *transport)
{
    return (struct tutti_tcp *)(uintptr_t)transport; /* `base` is its first member */
}

static struct tutti_tcp_progress *progress_at(const struct tutti_tcp *tcp, uint32_t rank)
{
    const struct tutti_transport_plan *plan = tcp->plan;

    assert(rank - plan->first_rank < plan->own_count);
    return &tcp->desks[plan->together ? 0 : rank - plan->first_rank];
}

static struct tutti_tcp_progress *progress_of(const struct tutti_transport *transport,
                                              uint32_t rank)
{
    return progress_at(tcp_of(transport), rank);
}

/* ---- the beginning ---- */

/* Whether the endpoint has messages of which the receiver says that it has them. */
static bool stands_alone(const struct tutti_endpoint *endpoint)
{
    return endpoint->strict || (endpoint->near && endpoint->bytes_max >= TUTTI_TCP_ZERO_COPY_MIN);
}

/* Whether the endpoint and the one before it in the list run between the same ranks on one lane,
 * each way, and none needs a line for itself. */
static bool shares(const struct tutti_endpoint *endpoint, const struct tutti_endpoint *before)
{
    return endpoint->rank == before->rank && endpoint->peer == before->peer &&
           endpoint->lane == before->lane && !stands_alone(endpoint) && !stands_alone(before);
}

static void add_lines(struct tutti_tcp *tcp)
{
    const struct tutti_transport_plan *plan = tcp->plan;

    for (uint32_t i = 0; i < plan->endpoint_count; i++) {
        struct tutti_endpoint *endpoint = &plan->endpoints[i];
        struct tutti_tcp_line *line = &tcp->lines[tcp->line_count];

        if (i > 0 && shares(endpoint, &plan->endpoints[i - 1])) {
            line = plan->endpoints[i - 1].own;
        } else {
            *line = (struct tutti_tcp_line){
                .progress = progress_at(tcp, endpoint->rank),
                .peer = endpoint->peer,
                .process = tutti_group_of_rank(plan->rank_count, tcp->pool_count, endpoint->peer),
                .conn_count = 1,
            };
            tcp->line_count++;
        }
        *(endpoint->sends ? &line->out : &line->in) = endpoint;
        endpoint->own = line;
        line->zero_copy_min =
            plan->crowded ? TUTTI_TCP_ZERO_COPY_CROWDED_MIN : TUTTI_TCP_ZERO_COPY_MIN;
        line->lends = tcp->engine->lends && endpoint->sends && endpoint->near &&
                      endpoint->bytes_max >= line->zero_copy_min;
        if (endpoint->bytes_max >= TUTTI_TCP_STRIPE_MIN)
            line->conn_count = tcp->opts.connections;
    }
}

static void point_line(struct tutti_tcp *tcp, struct tutti_tcp_line *line, size_t *send_desc_at)
{
    line->conns = &tcp->conns[tcp->conn_count];
    tcp->conn_count += line->conn_count;
    for (uint32_t k = 0; k < line->conn_count; k++) {
        struct tutti_tcp_conn *conn = &line->conns[k];

        conn->line = line;
        conn->index = k;
        conn->fd = -1;
        conn->piece =
            tcp->pieces + (tcp->engine->keeps_pieces ? (size_t)(conn - tcp->conns)
                                                     : (size_t)(line->progress - tcp->desks)) *
                              TUTTI_TCP_PIECE;
    }
    if (line->out != NULL) {
        line->send_descs = &tcp->send_descs[*send_desc_at];
        *send_desc_at += line->out->slot_count;
    }
}

/* Arrays for lines, connections and send descriptors; adds up how many connections each process
 * needs. */
static int lay_out(struct tutti_tcp *tcp, uint32_t *need, struct tutti_err *err)
{
    size_t send_desc_count = 0;
    size_t conn_count = 0;

    tcp->progress_count = tcp->plan->own_count;
    if (tcp->plan->together && tcp->progress_count > 1)
        tcp->progress_count = 1;
    tcp->desks = calloc((size_t)tcp->progress_count + 1, sizeof(tcp->desks[0]));
    tcp->lines = calloc((size_t)tcp->plan->endpoint_count + 1, sizeof(tcp->lines[0]));
    if (tcp->desks == NULL || tcp->lines == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < tcp->progress_count; i++)
        tcp->desks[i] =
            (struct tutti_tcp_progress){.rank = tcp->plan->first_rank + i, .event_fd = -1};
    add_lines(tcp);
    for (uint32_t i = 0; i < tcp->line_count; i++) {
        need[tcp->lines[i].process] += tcp->lines[i].conn_count;
        conn_count += tcp->lines[i].conn_count;
        send_desc_count += tcp->lines[i].out != NULL ? tcp->lines[i].out->slot_count : 0;
    }
    tcp->conns = calloc(conn_count + 1, sizeof(tcp->conns[0]));
    tcp->send_descs = calloc(send_desc_count + 1, sizeof(tcp->send_descs[0]));
    tcp->pieces =
        aligned_alloc(4096, ((tcp->engine->keeps_pieces ? conn_count : tcp->progress_count) + 1) *
                                TUTTI_TCP_PIECE);
    if (tcp->conns == NULL || tcp->send_descs == NULL || tcp->pieces == NULL)
        return tutti_nomem(err);
    send_desc_count = 0;
    for (uint32_t i = 0; i < tcp->line_count; i++)
        point_line(tcp, &tcp->lines[i], &send_desc_count);
    for (uint32_t i = 0; i < tcp->progress_count; i++) {
        tcp->desks[i].event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (tcp->desks[i].event_fd < 0)
            return tutti_fail(err, TUTTI_EIO, "cannot make an eventfd: %s", strerror(errno));
        tcp->desks[i].list = calloc(conn_count + 1, sizeof(tcp->desks[i].list[0]));
        if (tcp->desks[i].list == NULL)
            return tutti_nomem(err);
    }
    return 0;
}

/* Both processes count their connections in the order of the lines. */
static void connect_lines(struct tutti_tcp *tcp, uint32_t *used)
{
    for (uint32_t i = 0; i < tcp->line_count; i++) {
        struct tutti_tcp_line *line = &tcp->lines[i];

        for (uint32_t k = 0; k < line->conn_count; k++)
            line->conns[k].fd = tcp->pools[line->process].fds[used[line->process]++];
    }
}

static void clear(struct tutti_tcp *tcp)
{
    for (uint32_t i = 0; tcp->desks != NULL && i < tcp->progress_count; i++) {
        struct tutti_tcp_progress *progress = &tcp->desks[i];

        if (progress->state != NULL)
            tcp->engine->close(progress);
        if (progress->event_fd >= 0)
            close(progress->event_fd);
        free(progress->list);
    }
    free(tcp->desks);
    free(tcp->lines);
    free(tcp->conns);
    free(tcp->send_descs);
    free(tcp->pieces);
    tcp->desks = NULL;
    tcp->lines = NULL;
    tcp->conns = NULL;
    tcp->send_descs = NULL;
    tcp->pieces = NULL;
    tcp->line_count = 0;
    tcp->conn_count = 0;
    tcp->plan = NULL;
}

static int tcp_begin(struct tutti_transport *transport, struct tutti_group *group,
                     const struct tutti_transport_plan *plan, struct tutti_err *err)
{
    struct tutti_tcp *tcp = tcp_of(transport);
    uint32_t *need = calloc(2 * (size_t)group->count, sizeof(need[0])); /* and how many are used */
    bool filled;
    int status;

    assert(tcp->plan == NULL);
    tcp->plan = plan;
    status = need == NULL ? tutti_nomem(err) : lay_out(tcp, need, err);
    status = tutti_tcp_pools_fill(tcp, group, need, status, &filled, err);
    if (filled)
        connect_lines(tcp, need + group->count);
    if (filled)
        tutti_tcp_pipes_fill(tcp);
    if (status < 0)
        clear(tcp);
    free(need);
    return status;
}

/* ---- the execution ---- */

/* The engine is made in the thread that uses it. */
static int open_progress(struct tutti_tcp *tcp, struct tutti_tcp_progress *progress,
                         struct tutti_err *err)
{
    return progress->state != NULL ? 0 : tcp->engine->open(progress, tcp->conn_count, err);
}

static int tcp_send(struct tutti_transport *transport, struct tutti_endpoint *endpoint,
                    const struct tutti_send_desc *send_desc, struct tutti_err *err)
{
    struct tutti_tcp *tcp = tcp_of(transport);
    struct tutti_tcp_line *line = endpoint->own;
    int status = open_progress(tcp, line->progress, err);

    assert(line->out == endpoint);
    if (status < 0)
        return status;
    tutti_tcp_line_send(line, send_desc);
    for (uint32_t i = 0; i < line->conn_count && status >= 0; i++) {
        if (line->conns[i].wants_out)
            status = tcp->engine->push(line->progress, &line->conns[i], err);
    }
    return status < 0 ? status : 0;
}

static int tcp_recv(struct tutti_transport *transport, struct tutti_endpoint *endpoint,
                    const struct tutti_recv_desc *recv_desc, struct tutti_err *err)
{
    struct tutti_tcp_line *line = endpoint->own;

    (void)transport;
    (void)err;
    assert(line->in == endpoint);
    tutti_tcp_line_recv(line, recv_desc);
    return 0;
}

static int tcp_move(struct tutti_transport *transport, uint32_t rank, struct tutti_err *err)
{
    struct tutti_tcp *tcp = tcp_of(transport);
    struct tutti_tcp_progress *progress = progress_of(transport, rank);
    int status = open_progress(tcp, progress, err);

    return status < 0 ? status : tcp->engine->move(progress, err);
}

static bool tcp_owes(const struct tutti_transport *transport, uint32_t rank)
{
    const struct tutti_tcp_progress *progress = progress_of(transport, rank);

    for (uint32_t i = 0; i < progress->list_count; i++) {
        if (progress->list[i]->wants_out)
            return true;
    }
    return false;
}

static void tcp_rest(struct tutti_transport *transport, uint32_t rank, tutti_ps timeout_ps)
{
    tcp_of(transport)->engine->rest(progress_of(transport, rank), timeout_ps);
}

static void tcp_wake(struct tutti_transport *transport, uint32_t rank)
{
    uint64_t one = 1;

    (void)!write(progress_of(transport, rank)->event_fd, &one, sizeof(one));
}

static void tcp_stop(struct tutti_transport *transport)
{
    struct tutti_tcp *tcp = tcp_of(transport);

    for (uint32_t i = 0; i < tcp->conn_count; i++)
        (void)shutdown(tcp->conns[i].fd, SHUT_RDWR);
}

static void tcp_end(struct tutti_transport *transport, int status)
{
    struct tutti_tcp *tcp = tcp_of(transport);

    clear(tcp);
    if (status < 0) {
        tutti_tcp_pools_drop(tcp);
        tutti_tcp_pipes_drop(tcp);
    }
}

static void tcp_close(struct tutti_transport *transport)
{
    struct tutti_tcp *tcp = tcp_of(transport);

    assert(tcp->plan == NULL);
    tutti_tcp_pools_drop(tcp);
    tutti_tcp_pipes_drop(tcp);
    free(tcp->pools);
    free(tcp);
}

const struct tutti_transport_ops tutti_tcp_transport_ops = {
    .size = sizeof(struct tutti_transport_ops),
    .name = "tcp",
    .close = tcp_close,
    .begin = tcp_begin,
    .send = tcp_send,
    .recv = tcp_recv,
    .move = tcp_move,
    .owes = tcp_owes,
    .rest = tcp_rest,
    .wake = tcp_wake,
    .stop = tcp_stop,
    .end = tcp_end,
};
