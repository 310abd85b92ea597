/* The carrier over sockets: gives each way its line, and each rank its desk. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/exec/tcp/tcp.h"
#include "runtime/status.h"

static struct tutti_tcp *tcp_of(const struct tutti_carrier *carrier)
{
    return (struct tutti_tcp *)(uintptr_t)carrier; /* `base` is its first member */
}

static struct tutti_tcp_desk *desk_at(const struct tutti_tcp *tcp, uint32_t rank)
{
    const struct tutti_carried *carried = tcp->carried;

    assert(rank - carried->first_rank < carried->own_count);
    return &tcp->desks[carried->together ? 0 : rank - carried->first_rank];
}

static struct tutti_tcp_desk *desk_of(const struct tutti_carrier *carrier, uint32_t rank)
{
    return desk_at(tcp_of(carrier), rank);
}

/* ---- the beginning ---- */

/* Whether the way has messages of which the receiver says that it has them. */
static bool stands_alone(const struct tutti_way *way)
{
    return way->strict || (way->near && way->bytes_max >= TUTTI_TCP_LEND_MIN);
}

/* Whether the way and the one before it in the list run between the same ranks on one lane, each
 * way, and none needs a line for itself. */
static bool shares(const struct tutti_way *way, const struct tutti_way *before)
{
    return way->rank == before->rank && way->peer == before->peer && way->lane == before->lane &&
           !stands_alone(way) && !stands_alone(before);
}

static void add_lines(struct tutti_tcp *tcp)
{
    const struct tutti_carried *carried = tcp->carried;

    for (uint32_t i = 0; i < carried->way_count; i++) {
        struct tutti_way *way = &carried->ways[i];
        struct tutti_tcp_line *line = &tcp->lines[tcp->line_count];

        if (i > 0 && shares(way, &carried->ways[i - 1])) {
            line = carried->ways[i - 1].own;
        } else {
            *line = (struct tutti_tcp_line){
                .desk = desk_at(tcp, way->rank),
                .peer = way->peer,
                .process = tutti_crew_of_rank(carried->rank_count, tcp->pool_count, way->peer),
                .conn_count = 1,
            };
            tcp->line_count++;
        }
        *(way->sends ? &line->out : &line->in) = way;
        way->own = line;
        line->lend_min = carried->crowded ? TUTTI_TCP_LEND_CROWDED_MIN : TUTTI_TCP_LEND_MIN;
        line->lends =
            tcp->engine->lends && way->sends && way->near && way->bytes_max >= line->lend_min;
        if (way->bytes_max >= TUTTI_TCP_STRIPE_MIN)
            line->conn_count = tcp->opts.connections;
    }
}

static void point_line(struct tutti_tcp *tcp, struct tutti_tcp_line *line, size_t *parcel_at)
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
                                                     : (size_t)(line->desk - tcp->desks)) *
                              TUTTI_TCP_PIECE;
    }
    if (line->out != NULL) {
        line->parcels = &tcp->parcels[*parcel_at];
        *parcel_at += line->out->slot_count;
    }
}

/* Arrays for lines, connections and parcels; adds up how many connections each process needs. */
static int lay_out(struct tutti_tcp *tcp, uint32_t *need, struct tutti_err *err)
{
    size_t parcel_count = 0;
    size_t conn_count = 0;

    tcp->desk_count = tcp->carried->own_count;
    if (tcp->carried->together && tcp->desk_count > 1)
        tcp->desk_count = 1;
    tcp->desks = calloc((size_t)tcp->desk_count + 1, sizeof(tcp->desks[0]));
    tcp->lines = calloc((size_t)tcp->carried->way_count + 1, sizeof(tcp->lines[0]));
    if (tcp->desks == NULL || tcp->lines == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < tcp->desk_count; i++)
        tcp->desks[i] =
            (struct tutti_tcp_desk){.rank = tcp->carried->first_rank + i, .event_fd = -1};
    add_lines(tcp);
    for (uint32_t i = 0; i < tcp->line_count; i++) {
        need[tcp->lines[i].process] += tcp->lines[i].conn_count;
        conn_count += tcp->lines[i].conn_count;
        parcel_count += tcp->lines[i].out != NULL ? tcp->lines[i].out->slot_count : 0;
    }
    tcp->conns = calloc(conn_count + 1, sizeof(tcp->conns[0]));
    tcp->parcels = calloc(parcel_count + 1, sizeof(tcp->parcels[0]));
    tcp->pieces = aligned_alloc(
        4096, ((tcp->engine->keeps_pieces ? conn_count : tcp->desk_count) + 1) * TUTTI_TCP_PIECE);
    if (tcp->conns == NULL || tcp->parcels == NULL || tcp->pieces == NULL)
        return tutti_nomem(err);
    parcel_count = 0;
    for (uint32_t i = 0; i < tcp->line_count; i++)
        point_line(tcp, &tcp->lines[i], &parcel_count);
    for (uint32_t i = 0; i < tcp->desk_count; i++) {
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
    for (uint32_t i = 0; tcp->desks != NULL && i < tcp->desk_count; i++) {
        struct tutti_tcp_desk *desk = &tcp->desks[i];

        if (desk->state != NULL)
            tcp->engine->close(desk);
        if (desk->event_fd >= 0)
            close(desk->event_fd);
        free(desk->list);
    }
    free(tcp->desks);
    free(tcp->lines);
    free(tcp->conns);
    free(tcp->parcels);
    free(tcp->pieces);
    tcp->desks = NULL;
    tcp->lines = NULL;
    tcp->conns = NULL;
    tcp->parcels = NULL;
    tcp->pieces = NULL;
    tcp->line_count = 0;
    tcp->conn_count = 0;
    tcp->carried = NULL;
}

static int tcp_begin(struct tutti_carrier *carrier, struct tutti_crew *crew,
                     const struct tutti_carried *carried, struct tutti_err *err)
{
    struct tutti_tcp *tcp = tcp_of(carrier);
    uint32_t *need = calloc(2 * (size_t)crew->count, sizeof(need[0])); /* and how many are used */
    bool filled;
    int status;

    assert(tcp->carried == NULL);
    tcp->carried = carried;
    status = need == NULL ? tutti_nomem(err) : lay_out(tcp, need, err);
    status = tutti_tcp_pools_fill(tcp, crew, need, status, &filled, err);
    if (filled)
        connect_lines(tcp, need + crew->count);
    if (filled)
        tutti_tcp_pipes_fill(tcp);
    if (status < 0)
        clear(tcp);
    free(need);
    return status;
}

/* ---- the game ---- */

/* The engine is made in the thread that uses it. */
static int open_desk(struct tutti_tcp *tcp, struct tutti_tcp_desk *desk, struct tutti_err *err)
{
    return desk->state != NULL ? 0 : tcp->engine->open(desk, tcp->conn_count, err);
}

static int tcp_send(struct tutti_carrier *carrier, struct tutti_way *way,
                    const struct tutti_parcel *parcel, struct tutti_err *err)
{
    struct tutti_tcp *tcp = tcp_of(carrier);
    struct tutti_tcp_line *line = way->own;
    int status = open_desk(tcp, line->desk, err);

    assert(line->out == way);
    if (status < 0)
        return status;
    tutti_tcp_line_send(line, parcel);
    for (uint32_t i = 0; i < line->conn_count && status >= 0; i++) {
        if (line->conns[i].wants_out)
            status = tcp->engine->push(line->desk, &line->conns[i], err);
    }
    return status < 0 ? status : 0;
}

static int tcp_recv(struct tutti_carrier *carrier, struct tutti_way *way,
                    const struct tutti_landing *landing, struct tutti_err *err)
{
    struct tutti_tcp_line *line = way->own;

    (void)carrier;
    (void)err;
    assert(line->in == way);
    tutti_tcp_line_recv(line, landing);
    return 0;
}

static int tcp_move(struct tutti_carrier *carrier, uint32_t rank, struct tutti_err *err)
{
    struct tutti_tcp *tcp = tcp_of(carrier);
    struct tutti_tcp_desk *desk = desk_of(carrier, rank);
    int status = open_desk(tcp, desk, err);

    return status < 0 ? status : tcp->engine->move(desk, err);
}

static bool tcp_owes(const struct tutti_carrier *carrier, uint32_t rank)
{
    const struct tutti_tcp_desk *desk = desk_of(carrier, rank);

    for (uint32_t i = 0; i < desk->list_count; i++) {
        if (desk->list[i]->wants_out)
            return true;
    }
    return false;
}

static void tcp_rest(struct tutti_carrier *carrier, uint32_t rank, tutti_ps timeout_ps)
{
    tcp_of(carrier)->engine->rest(desk_of(carrier, rank), timeout_ps);
}

static void tcp_wake(struct tutti_carrier *carrier, uint32_t rank)
{
    uint64_t one = 1;

    (void)!write(desk_of(carrier, rank)->event_fd, &one, sizeof(one));
}

static void tcp_stop(struct tutti_carrier *carrier)
{
    struct tutti_tcp *tcp = tcp_of(carrier);

    for (uint32_t i = 0; i < tcp->conn_count; i++)
        (void)shutdown(tcp->conns[i].fd, SHUT_RDWR);
}

static void tcp_end(struct tutti_carrier *carrier, int status)
{
    struct tutti_tcp *tcp = tcp_of(carrier);

    clear(tcp);
    if (status < 0) {
        tutti_tcp_pools_drop(tcp);
        tutti_tcp_pipes_drop(tcp);
    }
}

static void tcp_close(struct tutti_carrier *carrier)
{
    struct tutti_tcp *tcp = tcp_of(carrier);

    assert(tcp->carried == NULL);
    tutti_tcp_pools_drop(tcp);
    tutti_tcp_pipes_drop(tcp);
    free(tcp->pools);
    free(tcp);
}

const struct tutti_carrier_ops tutti_tcp_carrier_ops = {
    .size = sizeof(struct tutti_carrier_ops),
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
