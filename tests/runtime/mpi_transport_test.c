/* The transport on MPI by itself: messages of all lengths between all ranks of all processes, in
 * order, stored or handed over; what is broken off leaves nothing behind. Run under mpirun. */
#include "build.h"
#include "runtime/exec/transport/mpi/open.h"
#include "runtime/exec/transport/transport.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/runtime/mpi_job.h"
#include "tests/test.h"

enum { LANES = 2, SLOTS = 5, ENDPOINTS_MAX = 512, MESSAGES = 100, LONGEST = 1500000 };

/* One way of the traffic, driven by this program in the place of an execution. */
struct end {
    struct tutti_endpoint *endpoint;
    uint64_t begun;   /* messages */
    uint64_t checked; /* receives: whose bytes have been looked at */
    char *bufs[SLOTS];
    uint64_t taken; /* of the receive descriptor, where it is handed over */
};

struct traffic {
    struct tutti_group *group;
    struct tutti_transport *transport;
    struct tutti_transport_plan plan;
    struct tutti_endpoint endpoints[ENDPOINTS_MAX];
    struct end ends[ENDPOINTS_MAX];
    uint32_t per_process; /* ranks */
};

static struct traffic traffic;

static uint64_t length_of(uint64_t message)
{
    static const uint64_t lengths[MESSAGES] = {0,    1,      8,      3967,   3968,
                                               3969, 100000, 262144, 262145, LONGEST};

    return lengths[message % MESSAGES];
}

static char byte_of(const struct tutti_endpoint *endpoint, uint64_t message, uint64_t i)
{
    uint32_t from = endpoint->sends ? endpoint->rank : endpoint->peer;
    uint32_t to = endpoint->sends ? endpoint->peer : endpoint->rank;

    return (char)(from * 31 + to * 7 + endpoint->lane * 3 + message * 11 + i % 251);
}

/* Messages 1, 4, 7, ... are handed over, others stored. */
static void take(void *data, uint64_t offset, const void *piece, uint64_t bytes)
{
    struct end *end = data;

    CHECK(offset == end->taken);
    CHECK((uintptr_t)piece % 8 == 0);
    CHECK(offset + bytes == length_of(end->begun - 1) || bytes % TUTTI_PIECE_BYTES == 0);
    for (uint64_t i = 0; i < bytes; i++) {
        if (((const char *)piece)[i] != byte_of(end->endpoint, end->begun - 1, offset + i)) {
            TEST_FAIL("wrong byte %" PRIu64 " of message %" PRIu64, offset + i, end->begun - 1);
            break;
        }
    }
    end->taken = offset + bytes;
}

static bool is_strict(const struct tutti_endpoint *endpoint, uint64_t message)
{
    return tutti_random_hash(test_seed, message, endpoint->lane, 0) % 2 == 0;
}

static bool is_taken(uint64_t message)
{
    return message % 3 == 1;
}

/* ---- the world ---- */

static void add_endpoint(uint32_t rank, uint32_t peer, uint32_t lane, bool sends)
{
    struct tutti_endpoint *endpoint = &traffic.endpoints[traffic.plan.endpoint_count];
    struct end *end = &traffic.ends[traffic.plan.endpoint_count++];

    *endpoint = (struct tutti_endpoint){.rank = rank,
                                        .peer = peer,
                                        .lane = lane,
                                        .slot_count = SLOTS,
                                        .message_count = MESSAGES,
                                        .bytes_max = LONGEST,
                                        .sends = sends};
    *end = (struct end){.endpoint = endpoint};
    for (int i = 0; i < SLOTS; i++)
        end->bufs[i] = malloc(LONGEST);
}

static void add_pair(uint32_t rank, uint32_t peer)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        /* The direction from the lower rank comes first. */
        add_endpoint(rank, peer, lane, rank < peer);
        add_endpoint(rank, peer, lane, rank > peer);
    }
}

/* All ways of this process, in the order that an execution gives them. */
static bool world_open(uint32_t per_process)
{
    struct tutti_err err = {{0}};
    uint32_t total;
    uint32_t first;

    traffic = (struct traffic){.per_process = per_process};
    CHECK_OK(tutti_mpi_group_open(&traffic.group, &err), err);
    if (traffic.group == NULL)
        return false;
    CHECK_OK(tutti_mpi_transport_open(traffic.group, &traffic.transport, &err), err);
    if (traffic.transport == NULL)
        return false;
    total = traffic.group->count * per_process;
    first = traffic.group->index * per_process;
    traffic.plan = (struct tutti_transport_plan){.rank_count = total,
                                                 .first_rank = first,
                                                 .own_count = per_process,
                                                 .endpoints = traffic.endpoints,
                                                 .crowded = true,
                                                 .deadline_ps = 60 * TUTTI_PS_PER_S};
    for (uint32_t low = 0; low < total; low++) {
        for (uint32_t high = low + 1; high < total; high++) {
            bool has_low = low - first < per_process;
            bool has_high = high - first < per_process;

            if (has_low != has_high)
                add_pair(has_low ? low : high, has_low ? high : low);
        }
    }
    return true;
}

static void world_close(void)
{
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++)
        for (int k = 0; k < SLOTS; k++)
            free(traffic.ends[i].bufs[k]);
    if (traffic.transport != NULL)
        traffic.transport->ops->close(traffic.transport);
    tutti_group_close(traffic.group);
}

static void begin(void)
{
    struct tutti_err err = {{0}};

    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++) {
        traffic.ends[i].begun = 0;
        traffic.ends[i].checked = 0;
        traffic.endpoints[i].done_count = 0;
    }
    CHECK_OK(traffic.transport->ops->begin(traffic.transport, traffic.group, &traffic.plan, &err),
             err);
}

static void meet(void)
{
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_group_exchange(traffic.group, NULL, 0, NULL, 60 * TUTTI_PS_PER_S, &err), err);
}

/* ---- traffic ---- */

static int drive_send(struct end *end, struct tutti_err *err)
{
    struct tutti_endpoint *endpoint = end->endpoint;
    uint64_t message = end->begun;
    char *buf = end->bufs[message % SLOTS];
    struct tutti_send_desc send_desc = {.src = buf,
                                        .bytes = length_of(message),
                                        .step = 100 + message,
                                        .strict = is_strict(endpoint, message)};

    if (message == MESSAGES || message - endpoint->done_count == SLOTS)
        return 0;
    for (uint64_t i = 0; i < send_desc.bytes; i++)
        buf[i] = byte_of(endpoint, message, i);
    end->begun++;
    return traffic.transport->ops->send(traffic.transport, endpoint, &send_desc, err);
}

static int drive_recv(struct end *end, struct tutti_err *err)
{
    struct tutti_endpoint *endpoint = end->endpoint;
    struct tutti_recv_desc recv_desc = {.dst = end->bufs[0], .bytes = length_of(end->begun)};

    if (end->checked < endpoint->done_count) {
        uint64_t message = end->checked++;

        CHECK_INT(endpoint->came_bytes, length_of(message));
        CHECK_INT(endpoint->came_step, 100 + message);
        if (is_taken(message))
            CHECK_INT(end->taken, length_of(message));
        for (uint64_t i = 0; i < length_of(message) && !is_taken(message); i++) {
            if (end->bufs[0][i] == byte_of(endpoint, message, i))
                continue;
            TEST_FAIL("byte %" PRIu64 " of message %" PRIu64 " is wrong", i, message);
            break;
        }
    }
    if (end->begun == MESSAGES || end->begun > end->checked)
        return 0;
    if (is_taken(end->begun)) {
        recv_desc.take = take;
        recv_desc.data = end;
        end->taken = 0;
    }
    end->begun++;
    return traffic.transport->ops->recv(traffic.transport, endpoint, &recv_desc, err);
}

static bool is_over(void)
{
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++) {
        const struct end *end = &traffic.ends[i];

        if (end->endpoint->done_count < MESSAGES ||
            (!end->endpoint->sends && end->checked < MESSAGES))
            return false;
    }
    return true;
}

/* All messages of all ways. */
static void play(void)
{
    const struct tutti_transport_ops *ops = traffic.transport->ops;
    struct tutti_err err = {{0}};
    int status = 0;

    begin();
    while (!is_over() && status >= 0) {
        int moved = 0;

        for (uint32_t i = 0; i < traffic.plan.endpoint_count && status >= 0; i++) {
            struct end *end = &traffic.ends[i];

            status = end->endpoint->sends ? drive_send(end, &err) : drive_recv(end, &err);
        }
        for (uint32_t r = 0; r < traffic.per_process && status >= 0; r++) {
            status = ops->move(traffic.transport, traffic.plan.first_rank + r, &err);
            moved += status;
        }
        if (status >= 0 && moved == 0)
            ops->rest(traffic.transport, traffic.plan.first_rank, TUTTI_PS_PER_MS);
    }
    CHECK_OK(status < 0 ? status : 0, err);
    ops->end(traffic.transport, 0);
}

static bool is_skipped(void)
{
    if (TUTTI_BUILD_HAVE_MPI)
        return false;
    test_skip_reason = "this build has no MPI";
    return true;
}

TEST(all_messages_arrive_in_order)
{
    for (uint32_t per_process = 1; per_process <= 2 && !is_skipped(); per_process++) {
        REQUIRE(world_open(per_process));
        play();
        play();
        world_close();
    }
}

/* Every rank sends to every other of another process; the lanes do not wait for each other. */
static struct end *first_end(bool sends)
{
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++)
        if (traffic.endpoints[i].sends == sends)
            return &traffic.ends[i];
    return NULL;
}

TEST(a_strict_message_is_done_when_it_has_been_stored)
{
    struct tutti_err err = {{0}};
    const struct tutti_transport_ops *ops;

    if (is_skipped())
        return;
    REQUIRE(world_open(1));
    ops = traffic.transport->ops;
    begin();
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++) {
        struct tutti_send_desc send_desc = {.src = "abcdefg", .bytes = 8, .strict = true};

        if (traffic.endpoints[i].sends)
            CHECK_OK(ops->send(traffic.transport, &traffic.endpoints[i], &send_desc, &err), err);
    }
    for (int i = 0; i < 1000; i++)
        CHECK(ops->move(traffic.transport, traffic.group->index, &err) >= 0);
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++)
        CHECK_INT(traffic.endpoints[i].done_count, 0);
    meet(); /* nobody has received yet */
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++) {
        struct tutti_recv_desc recv_desc = {.dst = traffic.ends[i].bufs[0], .bytes = 8};

        if (!traffic.endpoints[i].sends)
            CHECK_OK(ops->recv(traffic.transport, &traffic.endpoints[i], &recv_desc, &err), err);
    }
    for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++) {
        while (traffic.endpoints[i].done_count == 0)
            if (ops->move(traffic.transport, traffic.group->index, &err) == 0)
                ops->rest(traffic.transport, traffic.group->index, TUTTI_PS_PER_MS);
        if (!traffic.endpoints[i].sends)
            CHECK_TEXT(traffic.ends[i].bufs[0], "abcdefg");
    }
    ops->end(traffic.transport, 0);
    world_close();
}

/* A few bytes for many, many for a few; handed over or not. */
static void mismatch(uint64_t sent, uint64_t expected)
{
    const struct tutti_transport_ops *ops = traffic.transport->ops;
    struct tutti_err err = {{0}};
    struct end *out = first_end(true);
    struct end *in = first_end(false);
    struct tutti_send_desc send_desc = {.src = out->bufs[0], .bytes = sent, .step = 7};
    struct tutti_recv_desc recv_desc = {.dst = in->bufs[0], .bytes = expected};

    begin();
    memset(out->bufs[0], 1, LONGEST);
    CHECK_OK(ops->send(traffic.transport, out->endpoint, &send_desc, &err), err);
    CHECK_OK(ops->recv(traffic.transport, in->endpoint, &recv_desc, &err), err);
    while (in->endpoint->done_count == 0 && err.text[0] == '\0')
        if (ops->move(traffic.transport, traffic.group->index, &err) == 0)
            ops->rest(traffic.transport, traffic.group->index, TUTTI_PS_PER_MS);
    CHECK_TEXT(err.text, "");
    CHECK_INT(in->endpoint->came_bytes, sent);
    CHECK_INT(in->endpoint->came_step, 7);
    ops->end(traffic.transport, -TUTTI_ECHECK);
}

TEST(a_message_of_another_length_is_told_and_leaves_nothing_behind)
{
    if (is_skipped())
        return;
    REQUIRE(world_open(1));
    /* In a ring all have a partner to send to and one to receive from: of two alone is sure. */
    if (traffic.group->count == 2) {
        mismatch(8, 4);
        mismatch(4, 8);
        mismatch(8, LONGEST);
        mismatch(LONGEST, 8);
        mismatch(LONGEST, LONGEST - 1);
        mismatch(LONGEST - 300000, LONGEST);
        play();
    }
    world_close();
}

TEST(who_breaks_off_is_heard_and_nothing_is_left_behind)
{
    const struct tutti_transport_ops *ops;
    struct tutti_err err = {{0}};
    int status = 0;

    if (is_skipped())
        return;
    REQUIRE(world_open(1));
    ops = traffic.transport->ops;
    for (int turn = 0; turn < 3; turn++) {
        begin();
        for (uint32_t i = 0; i < traffic.plan.endpoint_count; i++) {
            struct end *end = &traffic.ends[i];

            /* Lane 0 is sent to and lane 1 received from, by nobody else. */
            for (int k = 0; end->endpoint->sends && end->endpoint->lane == 0 && k < SLOTS; k++) {
                struct tutti_send_desc send_desc = {
                    .src = end->bufs[k], .bytes = k == 0 ? 100 : LONGEST, .strict = k == 1};

                CHECK_OK(ops->send(traffic.transport, end->endpoint, &send_desc, &err), err);
            }
            if (!end->endpoint->sends && end->endpoint->lane == 1) {
                struct tutti_recv_desc recv_desc = {.dst = end->bufs[0], .bytes = LONGEST};

                CHECK_OK(ops->recv(traffic.transport, end->endpoint, &recv_desc, &err), err);
            }
        }
        if (traffic.group->index == 0)
            ops->stop(traffic.transport);
        while (traffic.group->index > 0 && status >= 0) {
            status = ops->move(traffic.transport, traffic.group->index, &err);
            if (status == 0)
                ops->rest(traffic.transport, traffic.group->index, TUTTI_PS_PER_MS);
        }
        if (traffic.group->index > 0) {
            CHECK_INT(status, -TUTTI_EIO);
            CHECK(strstr(err.text, "process 0 of ") == err.text);
        }
        status = 0;
        ops->end(traffic.transport, -TUTTI_EIO);
    }
    play();
    world_close();
}

TEST(a_sleeper_is_woken)
{
    const struct tutti_transport_ops *ops;

    if (is_skipped())
        return;
    REQUIRE(world_open(1));
    ops = traffic.transport->ops;
    begin();
    ops->wake(traffic.transport, traffic.group->index);
    ops->rest(traffic.transport, traffic.group->index, 1000 * TUTTI_PS_PER_S);
    ops->rest(traffic.transport, traffic.group->index, TUTTI_PS_PER_MS);
    ops->end(traffic.transport, 0);
    world_close();
}
