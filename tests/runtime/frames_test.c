/* Frames between two processes: what is sent arrives, and all ends and deadlines are named. */
#include "tests/runtime/frames_world.h"

/* ---- what is sent arrives -------------------------------------------------------------------- */

static const size_t sizes[] = {0, 1, 15, 4096, 70000, 3 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static uint8_t byte_of(size_t step, size_t i)
{
    return (uint8_t)(step * 31 + i * 7 + (i >> 8));
}

/* Sends each size in three parts before it hears the other's: both send first. */
static void echo(struct tutti_frames *frames)
{
    uint8_t *data = malloc(sizes[SIZES - 1]);
    struct tutti_err err = {""};

    for (size_t s = 0; s < SIZES; s++) {
        const struct tutti_frames_part parts[3] = {
            {data, sizes[s] / 2}, {NULL, 0}, {data + sizes[s] / 2, sizes[s] - sizes[s] / 2}};
        struct tutti_frames_got got = {.type = 0};
        size_t wrong = 0;

        for (size_t i = 0; i < sizes[s]; i++)
            data[i] = byte_of(s, i);
        CHECK_OK(tutti_frames_send(frames, (uint32_t)s + 7, parts, 3, &err), err);
        CHECK_OK(tutti_frames_receive(frames, SOON_PS, &got, &err), err);
        CHECK_INT(got.type, s + 7);
        CHECK_INT(got.bytes, sizes[s]);
        for (size_t i = 0; i < got.bytes; i++)
            wrong += got.data[i] != byte_of(s, i);
        CHECK_INT(wrong, 0);
    }
    free(data);
}

static void echo_back(struct client *c)
{
    echo(c->frames);
    tutti_frames_close(c->frames);
    c->frames = NULL;
}

static void go_both_ways(const char *with)
{
    struct tutti_frames_listener *listener = listener_with(with);
    struct tutti_frames *frames;
    struct client c;

    REQUIRE(listener != NULL);
    frames = meet(listener, &c, with, echo_back);
    REQUIRE(frames != NULL);
    tutti_frames_set_name(frames, "worker 3");
    echo(frames);
    expect_end(frames, -TUTTI_EIO, "worker 3 ('127.0.0.1:");
    expect_end(frames, -TUTTI_EIO, "has closed the connection");
    end_client(&c);
    CHECK_OK(c.status, c.err);
    tutti_frames_close(frames);
    tutti_frames_listener_close(listener);
}

TEST(frames_go_both_ways)
{
    go_both_ways(NULL);
}

TEST(frames_go_both_ways_with_a_secret)
{
    go_both_ways(secret);
}

static void send_three(struct client *c)
{
    const struct tutti_frames_part part = {"abc", 3};

    for (uint32_t type = 1; type <= 3; type++)
        (void)tutti_frames_send(c->frames, type, &part, 1, NULL);
    tutti_frames_close(c->frames);
    c->frames = NULL;
}

/* What was sent before the end comes before it, and a frame is there once `ready` says so. */
TEST(an_end_comes_after_what_was_sent)
{
    struct tutti_frames_listener *listener = listener_with(secret);
    struct tutti_frames_got got;
    struct tutti_frames *frames;
    struct client c;

    REQUIRE(listener != NULL);
    frames = meet(listener, &c, secret, send_three);
    end_client(&c);
    REQUIRE(frames != NULL);
    for (uint32_t type = 1; type <= 3; type++) {
        CHECK(tutti_frames_ready(frames));
        CHECK_INT(tutti_frames_receive(frames, 0, &got, NULL), 0);
        CHECK_INT(got.type, type);
    }
    expect_end(frames, -TUTTI_EIO, "has closed");
    tutti_frames_close(frames);
    tutti_frames_listener_close(listener);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

TEST(every_wait_has_a_deadline_and_a_name)
{
    const struct tutti_frames_opts opts = opts_of(NULL);
    struct tutti_frames_listener *listener = listener_with(NULL);
    const struct tutti_frames_part much = {calloc(1, 4 << 20), 4 << 20};
    struct tutti_frames_got got;
    struct tutti_frames *frames = NULL;
    struct tutti_err err = {""};
    struct client c;
    char address[TUTTI_FRAMES_ADDRESS_BYTES];
    int status = 0;

    REQUIRE(listener != NULL);
    CHECK_INT(tutti_frames_accept(listener, 0, &frames, &err), 0);
    CHECK(frames == NULL);
    frames = meet(listener, &c, NULL, NULL);
    REQUIRE(frames != NULL);
    CHECK_INT(tutti_frames_receive(frames, 20 * TUTTI_PS_PER_MS, &got, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "a process ('127.0.0.1:") != NULL);
    CHECK(!tutti_frames_ended(frames));
    frames->deadline_ps = 30 * TUTTI_PS_PER_MS; /* nobody reads at the other end */
    for (int i = 0; i < 16 && status == 0; i++)
        status = tutti_frames_send(frames, 1, &much, 1, &err);
    CHECK_INT(status, -TUTTI_ETIME);
    CHECK(strstr(err.text, "has not taken a frame within 30ms") != NULL);
    CHECK(tutti_frames_ended(frames));
    tutti_frames_close(frames);
    end_client(&c);
    snprintf(address, sizeof(address), "%s", tutti_frames_listener_address(listener));
    tutti_frames_listener_close(listener);
    CHECK_INT(tutti_frames_connect(&opts, address, 30 * TUTTI_PS_PER_MS, "parameter server 1",
                                   &frames, &err),
              -TUTTI_EIO);
    CHECK(strstr(err.text, "cannot connect to parameter server 1 ('127.0.0.1:") != NULL);
    free((void *)(uintptr_t)much.data);
}

static void send_late(struct client *c)
{
    (void)poll(NULL, 0, 30);
    send_three(c);
}

/* The longest that can be said is no moment in the past. */
TEST(the_longest_timeout_is_one)
{
    struct tutti_frames_opts opts = opts_of(NULL);
    struct tutti_frames_listener *listener;
    struct tutti_frames_got got = {.type = 0};
    struct tutti_frames *frames = NULL;
    struct tutti_err err = {""};
    struct client c;

    opts.deadline_ps = INT64_MAX;
    CHECK_OK(tutti_frames_listen(&opts, NULL, &listener, &err), err);
    start_client(&c, listener, NULL, send_late);
    CHECK_OK(tutti_frames_accept(listener, INT64_MAX, &frames, &err), err);
    REQUIRE(frames != NULL);
    CHECK_OK(tutti_frames_receive(frames, INT64_MAX, &got, &err), err);
    CHECK_INT(got.type, 1);
    end_client(&c);
    tutti_frames_close(frames);
    tutti_frames_listener_close(listener);
}

/* ---- values ---------------------------------------------------------------------------------- */

TEST(values_are_read_as_they_were_written)
{
    uint8_t room[64];
    struct tutti_frames_writer writer = {.data = room, .room = sizeof(room)};
    struct tutti_frames_reader reader = {.data = room};

    tutti_frames_put_u32(&writer, 0x01020304);
    CHECK_INT(room[0], 4); /* little-endian */
    tutti_frames_put_u64(&writer, UINT64_C(0x1122334455667788));
    tutti_frames_put_double(&writer, -0.5);
    tutti_frames_put_text(&writer, "worker");
    tutti_frames_put_bytes(&writer, "xyz", 3);
    CHECK(!writer.full);
    reader.bytes = writer.bytes;
    CHECK_INT(tutti_frames_get_u32(&reader), 0x01020304);
    CHECK(tutti_frames_get_u64(&reader) == UINT64_C(0x1122334455667788));
    CHECK(tutti_frames_get_double(&reader) < -0.49 && !reader.bad);
    CHECK_TEXT(tutti_frames_get_text(&reader), "worker");
    CHECK(!tutti_frames_get_all(&reader));
    CHECK_INT(memcmp(tutti_frames_get_bytes(&reader, 3), "xyz", 3), 0);
    CHECK(tutti_frames_get_all(&reader));
    CHECK_INT(tutti_frames_get_u32(&reader), 0);
    CHECK(reader.bad && tutti_frames_get_bytes(&reader, 0) == NULL);
}

TEST(values_stop_at_the_end)
{
    uint8_t room[10];
    struct tutti_frames_writer writer = {.data = room, .room = sizeof(room)};
    uint8_t no_text[] = {3, 0, 0, 0, 'a', 0, 'b', 0};
    struct tutti_frames_reader reader = {.data = no_text, .bytes = sizeof(no_text)};

    tutti_frames_put_u64(&writer, 1);
    tutti_frames_put_u32(&writer, 2);
    CHECK(writer.full && writer.bytes == 8);
    tutti_frames_put_bytes(&writer, "a", 1); /* nor anything after it */
    CHECK_INT(writer.bytes, 8);
    CHECK_TEXT(tutti_frames_get_text(&reader), "");
    CHECK(reader.bad);
    reader = (struct tutti_frames_reader){.data = (const uint8_t *)"\xff\xff\xff\xff", .bytes = 4};
    CHECK_TEXT(tutti_frames_get_text(&reader), "");
    CHECK(reader.bad);
}
