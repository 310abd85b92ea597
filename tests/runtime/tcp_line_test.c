/* What goes over the connections of a line, with a stranger's bytes among it: on whichever of them
 * they stand, the message that they are in is not taken for done, and its sender is named. */
#include "runtime/exec/transport/tcp/line.h"

#include "runtime/exec/transport/tcp/tcp.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { CONNS = 3, MESSAGES = 12, SLOTS = 4, BYTES_MAX = 2 << 20, STREAM_BYTES = 4 * BYTES_MAX };

/* One end, in memory. */
struct end {
    struct tutti_tcp_progress progress;
    struct tutti_tcp_conn *list[CONNS];
    struct tutti_tcp_conn conns[CONNS];
    struct tutti_tcp_send_desc send_descs[SLOTS];
    struct tutti_tcp_line line;
    struct tutti_endpoint endpoint;
};

/* What is on its way over a connection. */
struct stream {
    char *bytes;
    size_t written;
    size_t read;
};

static struct end from;
static struct end to;
static struct stream streams[CONNS];
static char *sent;
static char *got;
static char *pieces;
static struct tutti_random dice;

/* Where the stranger writes. */
static struct {
    uint64_t message; /* MESSAGES: nowhere */
    uint32_t conn;
    uint64_t after; /* bytes of what the connection carries of it */
    uint32_t noise_bytes;
} stranger;

static uint64_t below(uint64_t most)
{
    return tutti_random_below(&dice, most);
}

static void open_end(struct end *end, bool sends, bool strict)
{
    *end = (struct end){.progress = {.rank = sends ? 1 : 0, .event_fd = -1}};
    end->progress.list = end->list;
    end->endpoint = (struct tutti_endpoint){.rank = end->progress.rank,
                                            .peer = 1 - end->progress.rank,
                                            .slot_count = SLOTS,
                                            .sends = sends,
                                            .strict = strict};
    end->line = (struct tutti_tcp_line){.progress = &end->progress,
                                        .out = sends ? &end->endpoint : NULL,
                                        .in = sends ? NULL : &end->endpoint,
                                        .peer = end->endpoint.peer,
                                        .process = end->endpoint.peer,
                                        .conn_count = CONNS,
                                        .conns = end->conns,
                                        .send_descs = end->send_descs};
    for (uint32_t i = 0; i < CONNS; i++)
        end->conns[i] = (struct tutti_tcp_conn){
            .line = &end->line, .index = i, .fd = -1, .piece = pieces + i * TUTTI_TCP_PIECE};
}

static bool open_world(bool strict)
{
    for (uint32_t i = 0; i < CONNS; i++) {
        if (streams[i].bytes == NULL)
            streams[i].bytes = malloc(STREAM_BYTES);
        streams[i].written = 0;
        streams[i].read = 0;
        if (streams[i].bytes == NULL)
            return false;
    }
    sent = sent != NULL ? sent : malloc(BYTES_MAX);
    got = got != NULL ? got : malloc(BYTES_MAX);
    pieces = pieces != NULL ? pieces : aligned_alloc(64, CONNS * TUTTI_TCP_PIECE);
    if (sent == NULL || got == NULL || pieces == NULL)
        return false;
    open_end(&from, true, strict);
    open_end(&to, false, strict);
    return true;
}

/* All that the connection has to write, in bites as a system takes them. */
static void write_all(uint32_t index, uint64_t message)
{
    struct tutti_tcp_conn *conn = &from.conns[index];
    struct stream *stream = &streams[index];
    struct iovec iov[TUTTI_TCP_IOVS];
    uint64_t written = 0;
    uint32_t count;

    while ((count = tutti_tcp_line_out(conn, iov)) > 0) {
        bool here = message == stranger.message && index == stranger.conn;
        uint64_t bite = 1 + below(300000);
        uint64_t taken = 0;
        struct tutti_err err;

        if (here && written < stranger.after && stranger.after - written < bite)
            bite = stranger.after - written;
        if (here && written == stranger.after) {
            for (uint32_t i = 0; i < stranger.noise_bytes; i++)
                stream->bytes[stream->written++] = (char)below(256);
            stranger.conn = CONNS; /* once */
        }
        for (uint32_t i = 0; i < count && taken < bite; i++) {
            size_t bytes = (size_t)(iov[i].iov_len < bite - taken ? iov[i].iov_len : bite - taken);

            memcpy(stream->bytes + stream->written, iov[i].iov_base, bytes);
            stream->written += bytes;
            taken += bytes;
        }
        written += taken;
        CHECK_OK(tutti_tcp_line_went(conn, (int64_t)taken, &err), err);
    }
}

/* Lets the connection read what is there. */
static int read_all(uint32_t index, struct tutti_err *err)
{
    struct tutti_tcp_conn *conn = &to.conns[index];
    struct stream *stream = &streams[index];
    struct iovec iov[TUTTI_TCP_IOVS];
    uint32_t count;
    int status = 0;

    while (status == 0 && stream->read < stream->written &&
           (count = tutti_tcp_line_in(conn, iov)) > 0) {
        uint64_t bite = 1 + below(300000);
        uint64_t taken = 0;

        for (uint32_t i = 0; i < count && taken < bite; i++) {
            size_t bytes = (size_t)(iov[i].iov_len < bite - taken ? iov[i].iov_len : bite - taken);

            if (bytes > stream->written - stream->read)
                bytes = stream->written - stream->read;
            memcpy(iov[i].iov_base, stream->bytes + stream->read, bytes);
            stream->read += bytes;
            taken += bytes;
            if (bytes < iov[i].iov_len)
                break;
        }
        status = tutti_tcp_line_came(conn, (int64_t)taken, err);
    }
    if (stream->read == stream->written) {
        stream->read = 0;
        stream->written = 0;
    }
    return status;
}

static void keep(void *data, uint64_t offset, const void *piece, uint64_t bytes)
{
    memcpy((char *)data + offset, piece, (size_t)bytes);
}

static uint64_t some_bytes(void)
{
    static const uint64_t sizes[] = {0,
                                     8,
                                     1000,
                                     TUTTI_TCP_SEALED_MIN - 1,
                                     TUTTI_TCP_SEALED_MIN,
                                     100000,
                                     TUTTI_TCP_STRIPE_MIN,
                                     1000003,
                                     BYTES_MAX};

    return sizes[below(sizeof(sizes) / sizeof(sizes[0]))];
}

/* One message; 0 if it came as it was sent. */
static int bring(uint64_t number, uint64_t bytes, bool fused, struct tutti_err *err)
{
    const struct tutti_send_desc send_desc = {.src = sent, .bytes = bytes, .step = number};
    const struct tutti_recv_desc recv_desc = {
        .dst = got, .bytes = bytes, .take = fused ? keep : NULL, .data = got};
    int status = 0;

    for (uint64_t i = 0; i < bytes; i += 97)
        sent[i] = (char)below(256);
    memset(got, 0, (size_t)bytes);
    tutti_tcp_line_send(&from.line, &send_desc);
    tutti_tcp_line_recv(&to.line, &recv_desc);
    for (uint32_t i = 0; i < CONNS; i++)
        write_all(i, number);
    for (uint32_t i = 0; i < CONNS && status == 0; i++) { /* whichever comes first */
        uint32_t conn = (uint32_t)(i + number) % CONNS;

        if (to.conns[conn].wants_in)
            status = read_all(conn, err);
    }
    return status;
}

TEST(what_nobody_disturbs_comes_as_it_was_sent)
{
    struct tutti_err err = {""};

    tutti_random_seed(&dice, test_seed);
    REQUIRE(open_world(false));
    stranger.message = MESSAGES;
    for (uint64_t i = 0; i < MESSAGES * 4; i++) {
        uint64_t bytes = some_bytes();

        CHECK_OK(bring(i, bytes, below(2) == 0, &err), err);
        CHECK_INT(to.endpoint.done_count, i + 1);
        CHECK_INT(from.endpoint.done_count, i + 1);
        CHECK_INT(to.endpoint.came_bytes, bytes);
        CHECK_INT(to.endpoint.came_step, i);
        if (memcmp(sent, got, (size_t)bytes) != 0)
            TEST_FAIL("message %" PRIu64 " of %" PRIu64 " bytes is not what was sent", i, bytes);
    }
}

/* Before a message on any of its connections, or anywhere within what one carries of a long one:
 * a write of a short one is not divided. */
static void disturb(uint64_t story)
{
    struct tutti_err err = {""};
    char name[64];
    uint32_t conn;
    uint64_t part;
    uint64_t last = 1 + below(MESSAGES - 1);
    uint64_t bytes = some_bytes();
    bool striped = bytes >= TUTTI_TCP_STRIPE_MIN;
    int status = 0;

    stranger.message = last;
    stranger.conn = striped ? (uint32_t)below(CONNS) : 0;
    stranger.noise_bytes = 1 + (uint32_t)below(100);
    part = sizeof(struct tutti_tcp_head) + bytes / (striped ? CONNS : 1);
    stranger.after = bytes >= TUTTI_TCP_SEALED_MIN && below(2) == 0 ? below(part) : 0;
    conn = stranger.conn;
    snprintf(name, sizeof(name), "(connection %u of %d)", conn + 1, CONNS);
    for (uint64_t i = 0; i < last; i++)
        CHECK_OK(bring(i, some_bytes(), below(2) == 0, &err), err);
    status = bring(last, bytes, below(2) == 0, &err);
    if (stranger.conn < CONNS) /* the last connection's part is shorter: he came too late */
        return;
    if (status != -TUTTI_EIO || to.endpoint.done_count != last)
        TEST_FAIL("story %" PRIu64 ": %u bytes after %" PRIu64 " of %" PRIu64
                  " on connection %u: status %d, %" PRIu64 " of %" PRIu64 " messages done",
                  story, stranger.noise_bytes, stranger.after, bytes, conn, status,
                  to.endpoint.done_count, last);
    else if (strstr(err.text, "rank 1 (process 1) has sent ") == NULL ||
             strstr(err.text, name) == NULL)
        TEST_FAIL("story %" PRIu64 ": '%s' lacks '%s'", story, err.text, name);
}

TEST(a_strangers_bytes_are_found_on_any_connection)
{
    uint64_t count = test_count(5000, 400);

    tutti_random_seed(&dice, test_seed);
    for (uint64_t i = 0; i < count && test_failures == 0; i++) {
        REQUIRE(open_world(false));
        disturb(i);
    }
}

/* Of a strict message the receiver says that it has it; of one that was never sent nobody can. */
TEST(a_word_that_says_too_much_is_found)
{
    static const uint64_t words[] = {0, 2, UINT64_MAX};
    const struct tutti_send_desc send_desc = {.src = "four", .bytes = 4, .strict = true};
    struct tutti_err err = {""};

    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct iovec iov[TUTTI_TCP_IOVS];

        REQUIRE(open_world(true));
        tutti_tcp_line_send(&from.line, &send_desc);
        write_all(0, 0);
        CHECK_INT(from.endpoint.done_count, 0);
        REQUIRE(tutti_tcp_line_in(&from.conns[0], iov) == 1);
        memcpy(iov[0].iov_base, &words[i], sizeof(words[i]));
        CHECK_INT(tutti_tcp_line_came(&from.conns[0], sizeof(words[i]), &err), -TUTTI_EIO);
        CHECK_INT(from.endpoint.done_count, 0);
        CHECK(strstr(err.text, "rank 0 (process 0) has sent word") != NULL);
    }
}
