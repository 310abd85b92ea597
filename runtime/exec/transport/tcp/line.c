/* What goes over the connections of a line, byte by byte; who moves it is the engines' business. */
#include "runtime/exec/transport/tcp/line.h"

#include <assert.h>
#include <string.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/status.h"

static const uint32_t MAGIC = 0x69747574; /* "tuti" */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The part of a message that a connection carries: from *ret_first on. */
static uint64_t part_of(const struct tutti_tcp_conn *conn, uint64_t bytes, uint64_t *ret_first)
{
    uint64_t count = bytes < TUTTI_TCP_STRIPE_MIN ? 1 : conn->line->conn_count;
    uint64_t share = (bytes / count / TUTTI_PIECE_BYTES + 1) * TUTTI_PIECE_BYTES;

    *ret_first = least(conn->index * share, bytes);
    return conn->index < count ? least(share, bytes - *ret_first) : 0;
}

/* How long the seal of a message is. */
static uint64_t seal_bytes_of(uint64_t bytes)
{
    return bytes < TUTTI_TCP_SEALED_MIN ? 0 : sizeof(uint64_t);
}

static uint64_t seal_of(const struct tutti_tcp_head *head)
{
    return ~(head->number << 32 | head->magic);
}

/* To be lent, not copied. */
static bool is_lent(const struct tutti_tcp_line *line, uint64_t bytes)
{
    return line->lends && bytes >= line->zero_copy_min;
}

static void want(struct tutti_tcp_conn *conn, bool in, bool out)
{
    conn->wants_in = conn->wants_in || in;
    conn->wants_out = conn->wants_out || out;
    tutti_tcp_progress_list(conn->line->progress, conn);
}

static int gone(const struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err)
{
    const struct tutti_tcp_line *line = conn->line;

    return tutti_fail(err, TUTTI_EIO, "rank %u (process %u) is gone: %s", line->peer, line->process,
                      result == 0 ? "it has closed the connection" : strerror((int)-result));
}

/* ---- sending ---- */

void tutti_tcp_line_send(struct tutti_tcp_line *line, const struct tutti_send_desc *send_desc)
{
    struct tutti_tcp_send_desc *own = &line->send_descs[line->sent_count % line->out->slot_count];

    assert(line->sent_count - line->out->done_count < line->out->slot_count);
    *own = (struct tutti_tcp_send_desc){.send_desc = *send_desc};
    own->send_desc.strict = send_desc->strict || is_lent(line, send_desc->bytes);
    line->sent_count++;
    for (uint32_t i = 0; i < line->conn_count; i++) {
        struct tutti_tcp_conn *conn = &line->conns[i];
        uint64_t first;

        if (i > 0 && part_of(conn, send_desc->bytes, &first) == 0) {
            /* Who has nothing to do follows: later the ring holds another message in its place. */
            conn->out_number += conn->out_number + 1 == line->sent_count;
            continue;
        }
        own->parts_left++;
        want(conn, false, true);
    }
    if (own->send_desc.strict) {
        assert(line->in == NULL);
        line->strict_count = line->sent_count;
        want(&line->conns[0], true, false);
    }
}

/* In order, so that the first that is not done holds up the count. */
static void count_done(struct tutti_tcp_line *line)
{
    struct tutti_endpoint *endpoint = line->out;

    while (endpoint->done_count < line->gone_count) {
        const struct tutti_tcp_send_desc *own =
            &line->send_descs[endpoint->done_count % endpoint->slot_count];

        if (own->send_desc.strict && line->told_count <= endpoint->done_count)
            break;
        endpoint->done_count++;
    }
}

/* The message that the connection has to carry next, or NULL; those of which it has no part are
 * passed over. */
static struct tutti_tcp_send_desc *next_send_desc(struct tutti_tcp_conn *conn, uint64_t *ret_first,
                                                  uint64_t *ret_bytes)
{
    struct tutti_tcp_line *line = conn->line;

    for (; conn->out_number < line->sent_count; conn->out_number++) {
        struct tutti_tcp_send_desc *own =
            &line->send_descs[conn->out_number % line->out->slot_count];

        *ret_bytes = part_of(conn, own->send_desc.bytes, ret_first);
        if (conn->index == 0 || *ret_bytes > 0)
            return own;
    }
    return NULL;
}

static uint32_t word_out(struct tutti_tcp_conn *conn, struct iovec *iov)
{
    struct tutti_tcp_line *line = conn->line;

    if (conn->out_gone == 0)
        line->word_out = line->tell_count;
    iov[0] = (struct iovec){.iov_base = (char *)&line->word_out + conn->out_gone,
                            .iov_len = sizeof(line->word_out) - (size_t)conn->out_gone};
    return 1;
}

/* What stands before and behind the connection's part. */
static void address_part(struct tutti_tcp_conn *conn, const struct tutti_send_desc *send_desc)
{
    conn->out_head = (struct tutti_tcp_head){.magic = MAGIC,
                                             .strict = send_desc->strict,
                                             .conn = (uint16_t)conn->index,
                                             .number = conn->out_number,
                                             .bytes = send_desc->bytes,
                                             .step = send_desc->step};
    conn->out_seal = seal_of(&conn->out_head);
}

uint32_t tutti_tcp_line_out(struct tutti_tcp_conn *conn, struct iovec *iov)
{
    const uint64_t head_bytes = sizeof(conn->out_head);
    const struct tutti_tcp_send_desc *own;
    uint64_t first;
    uint64_t bytes;
    uint64_t gone_bytes;
    uint64_t next_bytes;
    uint32_t count = 0;

    conn->lent_at = TUTTI_TCP_IOVS;
    if (!conn->wants_out)
        return 0;
    if (conn->line->out == NULL)
        return word_out(conn, iov);
    own = next_send_desc(conn, &first, &bytes);
    if (own == NULL) {
        conn->wants_out = false;
        return 0;
    }
    if (conn->out_gone == 0)
        address_part(conn, &own->send_desc);
    if (conn->out_gone < head_bytes)
        iov[count++] = (struct iovec){.iov_base = (char *)&conn->out_head + conn->out_gone,
                                      .iov_len = (size_t)(head_bytes - conn->out_gone)};
    gone_bytes = conn->out_gone > head_bytes ? conn->out_gone - head_bytes : 0;
    next_bytes = gone_bytes < bytes ? least(bytes - gone_bytes, TUTTI_TCP_AT_ONCE) : 0;
    if (next_bytes > 0 && is_lent(conn->line, own->send_desc.bytes))
        conn->lent_at = count;
    if (next_bytes > 0)
        iov[count++] = (struct iovec){
            .iov_base = (char *)(uintptr_t)own->send_desc.src + first + gone_bytes,
            .iov_len = (size_t)next_bytes,
        };
    if (gone_bytes + next_bytes >= bytes && seal_bytes_of(own->send_desc.bytes) > 0) {
        uint64_t gone_seal = gone_bytes > bytes ? gone_bytes - bytes : 0;

        iov[count++] = (struct iovec){.iov_base = (char *)&conn->out_seal + gone_seal,
                                      .iov_len = sizeof(conn->out_seal) - (size_t)gone_seal};
    }
    return count;
}

int tutti_tcp_line_went(struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err)
{
    struct tutti_tcp_line *line = conn->line;
    struct tutti_tcp_send_desc *own;
    uint64_t first;
    uint64_t bytes;

    if (result < 0)
        return gone(conn, result, err);
    conn->out_gone += (uint64_t)result;
    if (line->out == NULL) {
        if (conn->out_gone == sizeof(line->word_out)) {
            conn->out_gone = 0;
            line->said_count = line->word_out;
            conn->wants_out = line->said_count < line->tell_count;
        }
        return 0;
    }
    own = next_send_desc(conn, &first, &bytes);
    assert(own != NULL);
    if (conn->out_gone < sizeof(conn->out_head) + bytes + seal_bytes_of(own->send_desc.bytes))
        return 0;
    conn->out_gone = 0;
    conn->out_number++;
    own->parts_left--;
    /* While all that it passes over is in the ring. */
    conn->wants_out = next_send_desc(conn, &first, &bytes) != NULL;
    while (line->gone_count < line->sent_count &&
           line->send_descs[line->gone_count % line->out->slot_count].parts_left == 0)
        line->gone_count++;
    count_done(line);
    return 0;
}

/* ---- receiving ---- */

void tutti_tcp_line_recv(struct tutti_tcp_line *line, const struct tutti_recv_desc *recv_desc)
{
    assert(!line->has_recv_desc);
    line->recv_desc = *recv_desc;
    line->has_recv_desc = true;
    line->parts_left = 0;
    for (uint32_t i = 0; i < line->conn_count; i++) {
        struct tutti_tcp_conn *conn = &line->conns[i];

        conn->in_bytes = part_of(conn, recv_desc->bytes, &conn->in_first);
        conn->in_got = 0;
        conn->head_got = 0;
        conn->seal_got = 0;
        conn->rest_bytes = 0;
        if (i > 0 && conn->in_bytes == 0)
            continue;
        line->parts_left++;
        want(conn, true, false);
    }
}

/* Where the next bytes of the connection's part go. */
static struct iovec part_in(struct tutti_tcp_conn *conn, uint64_t left)
{
    const struct tutti_recv_desc *recv_desc = &conn->line->recv_desc;

    if (recv_desc->take == NULL)
        return (struct iovec){.iov_base = (char *)recv_desc->dst + conn->in_first + conn->in_got,
                              .iov_len = (size_t)least(left, TUTTI_TCP_AT_ONCE)};
    memcpy(conn->piece, conn->rest, conn->rest_bytes);
    return (struct iovec){.iov_base = conn->piece + conn->rest_bytes,
                          .iov_len = (size_t)least(left, TUTTI_TCP_PIECE - conn->rest_bytes)};
}

uint32_t tutti_tcp_line_in(struct tutti_tcp_conn *conn, struct iovec *iov)
{
    struct tutti_tcp_line *line = conn->line;
    uint64_t left = conn->in_bytes - conn->in_got;
    uint32_t count = 0;

    if (!conn->wants_in)
        return 0;
    if (line->in == NULL) {
        iov[0] = (struct iovec){.iov_base = (char *)&line->word_in + conn->head_got,
                                .iov_len = sizeof(line->word_in) - conn->head_got};
        return 1;
    }
    if (conn->head_got < sizeof(conn->in_head))
        iov[count++] = (struct iovec){.iov_base = (char *)&conn->in_head + conn->head_got,
                                      .iov_len = sizeof(conn->in_head) - conn->head_got};
    if (left > 0)
        iov[count] = part_in(conn, left);
    left -= left > 0 ? iov[count++].iov_len : 0;
    if (left == 0 && seal_bytes_of(line->recv_desc.bytes) > 0)
        iov[count++] = (struct iovec){.iov_base = (char *)&conn->in_seal + conn->seal_got,
                                      .iov_len = sizeof(conn->in_seal) - conn->seal_got};
    return count;
}

static void take(struct tutti_tcp_conn *conn, uint64_t bytes)
{
    const struct tutti_recv_desc *recv_desc = &conn->line->recv_desc;
    uint64_t have = conn->rest_bytes + bytes;
    uint64_t whole = have;

    if (conn->in_got < conn->in_bytes)
        whole -= have % TUTTI_PIECE_BYTES;
    if (whole > 0)
        recv_desc->take(recv_desc->data, conn->in_first + conn->in_got - have, conn->piece, whole);
    conn->rest_bytes = (uint32_t)(have - whole);
    memcpy(conn->rest, conn->piece + whole, conn->rest_bytes);
}

static void finish(struct tutti_tcp_line *line)
{
    line->has_recv_desc = false;
    line->in->came_bytes = line->head.bytes;
    line->in->came_step = line->head.step;
    line->in->done_count++;
    if (line->head.strict != 0 && line->out == NULL) {
        line->tell_count = line->in->done_count;
        want(&line->conns[0], false, true);
    }
}

static int stray(const struct tutti_tcp_conn *conn, const char *what, struct tutti_err *err)
{
    const struct tutti_tcp_line *line = conn->line;

    return tutti_fail(err, TUTTI_EIO, "rank %u (process %u) has sent %s (connection %u of %u)",
                      line->peer, line->process, what, conn->index + 1, line->conn_count);
}

static int word_came(struct tutti_tcp_conn *conn, uint64_t bytes, struct tutti_err *err)
{
    struct tutti_tcp_line *line = conn->line;

    conn->head_got += (uint32_t)bytes;
    if (conn->head_got < sizeof(line->word_in))
        return 0;
    conn->head_got = 0;
    if (line->word_in <= line->told_count || line->word_in > line->sent_count)
        return stray(conn, "word of messages that it was not sent", err);
    line->told_count = line->word_in;
    conn->wants_in = line->told_count < line->strict_count;
    count_done(line);
    return 0;
}

/* The head is there. 1: of the message that is waited for; 0: of one of another length. */
static int look_at_head(struct tutti_tcp_conn *conn, struct tutti_err *err)
{
    struct tutti_tcp_line *line = conn->line;
    const struct tutti_tcp_head *head = &conn->in_head;

    if (head->magic != MAGIC)
        return stray(conn, "what is no message", err);
    if (head->number != line->in->done_count || head->conn != conn->index)
        return stray(conn, "a message out of step", err);
    line->head = *head;
    if (head->bytes == line->recv_desc.bytes)
        return 1;
    finish(line); /* the execution is over, which others say */
    return 0;
}

int tutti_tcp_line_came(struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err)
{
    struct tutti_tcp_line *line = conn->line;
    uint64_t bytes = (uint64_t)result;
    uint64_t part_bytes;

    if (result <= 0)
        return gone(conn, result, err);
    if (line->in == NULL)
        return word_came(conn, bytes, err);
    conn->wants_in = line->has_recv_desc;
    if (!line->has_recv_desc) /* it has ended with another length, and the execution with it */
        return 0;
    if (conn->head_got < sizeof(conn->in_head)) {
        uint64_t head_bytes = least(bytes, sizeof(conn->in_head) - conn->head_got);
        int status;

        conn->head_got += (uint32_t)head_bytes;
        bytes -= head_bytes;
        if (conn->head_got < sizeof(conn->in_head))
            return 0;
        status = look_at_head(conn, err);
        conn->wants_in = status > 0;
        if (status <= 0)
            return status;
    }
    part_bytes = least(bytes, conn->in_bytes - conn->in_got);
    conn->in_got += part_bytes;
    conn->seal_got += (uint32_t)(bytes - part_bytes);
    if (line->recv_desc.take != NULL && part_bytes > 0)
        take(conn, part_bytes);
    if (conn->in_got < conn->in_bytes || conn->seal_got < seal_bytes_of(line->recv_desc.bytes))
        return 0;
    if (conn->seal_got > 0 && conn->in_seal != seal_of(&conn->in_head))
        return stray(conn, "more than its message", err);
    conn->wants_in = false;
    if (--line->parts_left == 0)
        finish(line);
    return 0;
}
