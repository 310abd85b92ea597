/* What goes over the connections of a line, byte by byte; who moves it is the engines' business. */
#include "runtime/exec/tcp/line.h"

#include <assert.h>
#include <string.h>

#include "runtime/exec/tcp/tcp.h"
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

static void want(struct tutti_tcp_conn *conn, bool in, bool out)
{
    conn->wants_in = conn->wants_in || in;
    conn->wants_out = conn->wants_out || out;
    tutti_tcp_desk_list(conn->line->desk, conn);
}

static int gone(const struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err)
{
    const struct tutti_tcp_line *line = conn->line;

    return tutti_fail(err, TUTTI_EIO, "rank %u (process %u) is gone: %s", line->peer, line->process,
                      result == 0 ? "it has closed the connection" : strerror((int)-result));
}

/* ---- sending ---- */

void tutti_tcp_line_send(struct tutti_tcp_line *line, const struct tutti_parcel *parcel)
{
    struct tutti_tcp_parcel *own = &line->parcels[line->sent_count % line->out->slot_count];

    assert(line->sent_count - line->out->done_count < line->out->slot_count);
    *own = (struct tutti_tcp_parcel){
        .parcel = *parcel,
        .head = {.magic = MAGIC,
                 .strict = parcel->strict,
                 .bytes = parcel->bytes,
                 .step = parcel->step},
    };
    line->sent_count++;
    for (uint32_t i = 0; i < line->conn_count; i++) {
        uint64_t first;

        if (i > 0 && part_of(&line->conns[i], parcel->bytes, &first) == 0)
            break;
        own->parts_left++;
        want(&line->conns[i], false, true);
    }
    if (parcel->strict) {
        assert(line->in == NULL);
        line->strict_count = line->sent_count;
        want(&line->conns[0], true, false);
    }
}

/* In order, so that the first that is not done holds up the count. */
static void count_done(struct tutti_tcp_line *line)
{
    struct tutti_way *way = line->out;

    while (way->done_count < line->gone_count) {
        const struct tutti_tcp_parcel *own = &line->parcels[way->done_count % way->slot_count];

        if (own->parcel.strict && line->told_count <= way->done_count)
            break;
        way->done_count++;
    }
}

/* The message that the connection has to carry next, or NULL; those of which it has no part are
 * passed over. */
static struct tutti_tcp_parcel *next_parcel(struct tutti_tcp_conn *conn, uint64_t *ret_first,
                                            uint64_t *ret_bytes)
{
    struct tutti_tcp_line *line = conn->line;

    for (; conn->out_number < line->sent_count; conn->out_number++) {
        struct tutti_tcp_parcel *own = &line->parcels[conn->out_number % line->out->slot_count];

        *ret_bytes = part_of(conn, own->parcel.bytes, ret_first);
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
                            .iov_len = sizeof(line->word_out) - conn->out_gone};
    return 1;
}

uint32_t tutti_tcp_line_out(struct tutti_tcp_conn *conn, struct iovec *iov)
{
    struct tutti_tcp_parcel *own;
    uint64_t head_bytes = conn->index == 0 ? sizeof(own->head) : 0;
    uint64_t first;
    uint64_t bytes;
    uint64_t gone_bytes;
    uint32_t count = 0;

    if (!conn->wants_out)
        return 0;
    if (conn->line->out == NULL)
        return word_out(conn, iov);
    own = next_parcel(conn, &first, &bytes);
    if (own == NULL) {
        conn->wants_out = false;
        return 0;
    }
    if (conn->out_gone < head_bytes)
        iov[count++] = (struct iovec){.iov_base = (char *)&own->head + conn->out_gone,
                                      .iov_len = head_bytes - conn->out_gone};
    gone_bytes = conn->out_gone > head_bytes ? conn->out_gone - head_bytes : 0;
    if (gone_bytes < bytes)
        iov[count++] = (struct iovec){
            .iov_base = (char *)(uintptr_t)own->parcel.src + first + gone_bytes,
            .iov_len = least(bytes - gone_bytes, TUTTI_TCP_AT_ONCE),
        };
    return count;
}

int tutti_tcp_line_went(struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err)
{
    struct tutti_tcp_line *line = conn->line;
    struct tutti_tcp_parcel *own;
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
    own = next_parcel(conn, &first, &bytes);
    assert(own != NULL);
    if (conn->out_gone < bytes + (conn->index == 0 ? sizeof(own->head) : 0))
        return 0;
    conn->out_gone = 0;
    conn->out_number++;
    own->parts_left--;
    conn->wants_out = conn->out_number < line->sent_count;
    while (line->gone_count < line->sent_count &&
           line->parcels[line->gone_count % line->out->slot_count].parts_left == 0)
        line->gone_count++;
    count_done(line);
    return 0;
}

/* ---- receiving ---- */

void tutti_tcp_line_recv(struct tutti_tcp_line *line, const struct tutti_landing *landing)
{
    assert(!line->has_landing);
    line->landing = *landing;
    line->has_landing = true;
    line->parts_left = 0;
    for (uint32_t i = 0; i < line->conn_count; i++) {
        struct tutti_tcp_conn *conn = &line->conns[i];

        conn->in_bytes = part_of(conn, landing->bytes, &conn->in_first);
        conn->in_got = 0;
        conn->head_got = 0;
        conn->rest_bytes = 0;
        if (i > 0 && conn->in_bytes == 0)
            continue;
        line->parts_left++;
        want(conn, true, false);
    }
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
    if (conn->index == 0 && conn->head_got < sizeof(line->head))
        iov[count++] = (struct iovec){.iov_base = (char *)&line->head + conn->head_got,
                                      .iov_len = sizeof(line->head) - conn->head_got};
    if (left == 0)
        return count;
    if (line->landing.take == NULL) {
        iov[count++] =
            (struct iovec){.iov_base = (char *)line->landing.dst + conn->in_first + conn->in_got,
                           .iov_len = least(left, TUTTI_TCP_AT_ONCE)};
        return count;
    }
    memcpy(conn->piece, conn->rest, conn->rest_bytes);
    iov[count++] = (struct iovec){.iov_base = conn->piece + conn->rest_bytes,
                                  .iov_len = least(left, TUTTI_TCP_PIECE - conn->rest_bytes)};
    return count;
}

static void take(struct tutti_tcp_conn *conn, uint64_t bytes)
{
    const struct tutti_landing *landing = &conn->line->landing;
    uint64_t have = conn->rest_bytes + bytes;
    uint64_t whole = have;

    if (conn->in_got < conn->in_bytes)
        whole -= have % TUTTI_PIECE_BYTES;
    if (whole > 0)
        landing->take(landing->data, conn->in_first + conn->in_got - have, conn->piece, whole);
    conn->rest_bytes = (uint32_t)(have - whole);
    memcpy(conn->rest, conn->piece + whole, conn->rest_bytes);
}

static void finish(struct tutti_tcp_line *line)
{
    line->has_landing = false;
    line->in->came_bytes = line->head.bytes;
    line->in->came_step = line->head.step;
    line->in->done_count++;
    if (line->head.strict != 0 && line->out == NULL) {
        line->tell_count = line->in->done_count;
        want(&line->conns[0], false, true);
    }
}

static void word_came(struct tutti_tcp_conn *conn, uint64_t bytes)
{
    struct tutti_tcp_line *line = conn->line;

    conn->head_got += (uint32_t)bytes;
    if (conn->head_got < sizeof(line->word_in))
        return;
    conn->head_got = 0;
    line->told_count = line->word_in;
    conn->wants_in = line->told_count < line->strict_count;
    count_done(line);
}

int tutti_tcp_line_came(struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err)
{
    struct tutti_tcp_line *line = conn->line;
    uint64_t bytes = (uint64_t)result;

    if (result <= 0)
        return gone(conn, result, err);
    if (line->in == NULL) {
        word_came(conn, bytes);
        return 0;
    }
    if (conn->index == 0 && conn->head_got < sizeof(line->head)) {
        uint64_t head_bytes = least(bytes, sizeof(line->head) - conn->head_got);

        conn->head_got += (uint32_t)head_bytes;
        bytes -= head_bytes;
        if (conn->head_got < sizeof(line->head))
            return 0;
        if (line->head.magic != MAGIC)
            return tutti_fail(err, TUTTI_EIO, "rank %u (process %u) has sent what is no message",
                              line->peer, line->process);
        if (line->head.bytes != line->landing.bytes) { /* the game is over, which others say */
            conn->wants_in = false;
            finish(line);
            return 0;
        }
    }
    conn->in_got += bytes;
    assert(conn->in_got <= conn->in_bytes);
    if (line->landing.take != NULL && bytes > 0)
        take(conn, bytes);
    if (conn->in_got < conn->in_bytes)
        return 0;
    conn->wants_in = false;
    if (--line->parts_left == 0)
        finish(line);
    return 0;
}
