/* Of strangers, forgeries and noise nothing gets in, and the listener lives on. */
#include <sys/resource.h>
#include <time.h>

#include "runtime/random.h"
#include "tests/runtime/frames_world.h"

/* ---- who is refused, and that the listener lives --------------------------------------------- */

static void lives(struct tutti_frames_listener *listener, const char *with)
{
    struct client c;
    struct tutti_frames *frames = meet(listener, &c, with, NULL);

    CHECK(frames != NULL);
    end_client(&c);
    CHECK_OK(c.status, c.err);
    tutti_frames_close(frames);
}

static void refuse(const char *of_server, const char *of_client, const char *said,
                   const char *log_says)
{
    struct tutti_frames_listener *listener = listener_with(of_server);
    struct tutti_frames *frames = NULL;
    struct client c;

    REQUIRE(listener != NULL);
    start_client(&c, listener, of_client, NULL);
    logged[0] = '\0';
    for (int i = 0; i < 100 && logged[0] == '\0'; i++)
        CHECK_INT(tutti_frames_accept(listener, 20 * TUTTI_PS_PER_MS, &frames, NULL), 0);
    CHECK(frames == NULL);
    end_client(&c);
    CHECK_INT(c.status, -TUTTI_EINVAL);
    if (strstr(c.err.text, said) == NULL || strstr(c.err.text, "the server ('127.") == NULL)
        TEST_FAIL("'%s' does not say '%s'", c.err.text, said);
    if (strstr(logged, log_says) == NULL)
        TEST_FAIL("logged '%s', not '%s'", logged, log_says);
    lives(listener, of_server);
    tutti_frames_listener_close(listener);
}

TEST(another_secret_is_refused_by_name)
{
    refuse(secret, "another secret of thirty-two bytes", "has another secret than this process",
           "it has another secret");
    refuse(secret, NULL, "wants a secret, and this process has none", "it has no secret");
    refuse(NULL, secret, "has no secret, and this process has one", "it has a secret");
}

TEST(another_version_is_refused_by_name)
{
    struct tutti_frames_listener *listener = listener_with(secret);
    struct tutti_wire_hello hello;
    struct raw raw;

    REQUIRE(listener != NULL);
    CHECK(raw_hello(&raw, listener, "9.8.7\x1b"));
    CHECK(strstr(logged, "it is of tutti 9.8.7? (protocol 1), this process of " TUTTI_BUILD_VERSION
                         " (1)") != NULL);
    CHECK(tutti_wire_read_hello(raw.talk.server, &hello));
    CHECK_INT(hello.word, TUTTI_WIRE_OTHER_VERSION);
    CHECK_TEXT(hello.tutti, TUTTI_BUILD_VERSION);
    raw_done(&raw, NULL);
    lives(listener, secret);
    tutti_frames_listener_close(listener);
}

/* A server of the test's own making, of another version, or that does not know the secret. */
static void meet_impostor(const char *tutti, const char *said)
{
    static const uint8_t nonce[TUTTI_WIRE_NONCE_BYTES] = "likewise";
    const uint8_t answer[TUTTI_WIRE_ANSWER_BYTES] = {0};
    struct tutti_frames_listener *listener = listener_with(NULL); /* its socket alone */
    uint8_t in[TUTTI_WIRE_HELLO_BYTES];
    uint8_t out[TUTTI_WIRE_HELLO_BYTES];
    uint8_t proof[TUTTI_WIRE_PROOF_BYTES];
    struct pollfd one;
    struct client c;
    int fd;

    REQUIRE(listener != NULL);
    start_client(&c, listener, secret, NULL);
    one = (struct pollfd){.fd = tutti_frames_listener_fd(listener), .events = POLLIN};
    CHECK_INT(poll(&one, 1, 8000), 1);
    fd = accept(*(const int *)(const void *)listener, NULL, NULL); /* its first field */
    CHECK(raw_hear(fd, in, sizeof(in)));
    tutti_wire_write_hello(TUTTI_WIRE_GO_ON, tutti, nonce, out);
    CHECK(raw_say(fd, out, sizeof(out)));
    if (strcmp(tutti, TUTTI_BUILD_VERSION) == 0)
        CHECK(raw_hear(fd, proof, sizeof(proof)) && raw_say(fd, answer, sizeof(answer)));
    end_client(&c);
    close(fd);
    CHECK_INT(c.status, -TUTTI_EINVAL);
    if (strstr(c.err.text, said) == NULL)
        TEST_FAIL("'%s' does not say '%s'", c.err.text, said);
    tutti_frames_listener_close(listener);
}

TEST(a_client_is_as_careful)
{
    meet_impostor("9.8.7", "is of tutti 9.8.7 (protocol 1), this process of " TUTTI_BUILD_VERSION);
    meet_impostor(TUTTI_BUILD_VERSION, "does not know the secret");
}

TEST(beyond_loopback_only_with_a_secret)
{
    struct tutti_frames_opts opts = opts_of(NULL);
    struct tutti_frames_listener *listener = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_frames_listen(&opts, "0.0.0.0:0", &listener, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "without a secret loopback alone is listened at, not '0.0.0.0:0' "
                         "(TUTTI_SECRET of 32 bytes or more, drawn at random)");
    opts = opts_of("sixteen bytes...");
    CHECK_INT(tutti_frames_listen(&opts, NULL, &listener, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a secret of 16 bytes can be guessed (32 or more, drawn at random)");
    opts = opts_of(secret);
    CHECK_OK(tutti_frames_listen(&opts, "0.0.0.0:0", &listener, &err), err);
    lives(listener, secret);
    tutti_frames_listener_close(listener);
}

/* More strangers than can wait, none of whom ever says a word, keep nobody waiting. */
TEST(who_is_slow_keeps_nobody_waiting)
{
    struct tutti_frames_listener *listener = listener_with(secret);
    int fds[TUTTI_FRAMES_WAITING_MAX + 8];

    REQUIRE(listener != NULL);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        fds[i] = raw_socket(listener);
    lives(listener, secret);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        close(fds[i]);
    tutti_frames_listener_close(listener);
}

/* Of what may be opened nothing is left: it waits, and does not spin until one may come. */
TEST(a_listener_without_files_waits)
{
    struct tutti_frames_listener *listener = listener_with(secret);
    struct tutti_frames *frames = NULL;
    struct timespec spent[2];
    struct rlimit limit;
    struct rlimit less;
    int next;
    int fd;

    REQUIRE(listener != NULL);
    fd = raw_socket(listener);
    next = dup(fd);
    close(next);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    less = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &less) == 0);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent[0]);
    CHECK_INT(tutti_frames_accept(listener, 400 * TUTTI_PS_PER_MS, &frames, NULL), 0);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent[1]);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK(frames == NULL);
    CHECK((double)(spent[1].tv_sec - spent[0].tv_sec) +
              (double)(spent[1].tv_nsec - spent[0].tv_nsec) / 1e9 <
          0.03);
    close(fd);
    lives(listener, secret);
    tutti_frames_listener_close(listener);
}

/* ---- forged frames --------------------------------------------------------------------------- */

TEST(a_changed_byte_ends_the_connection)
{
    struct tutti_frames_listener *listener = listener_with(secret);

    REQUIRE(listener != NULL);
    for (size_t at = 0; at < FRAME_BYTES; at++) {
        uint8_t bytes[FRAME_BYTES];
        struct raw raw;
        struct tutti_frames *frames = raw_meet(&raw, listener);

        REQUIRE(frames != NULL);
        raw_frame(&raw, 1, bytes);
        bytes[at] ^= 0x10;
        CHECK(raw_say(raw.fd, bytes, sizeof(bytes)));
        expect_end(frames, -TUTTI_ECHECK, "whose MAC is wrong");
        raw_done(&raw, frames);
    }
    lives(listener, secret);
    tutti_frames_listener_close(listener);
}

/* A first frame is taken; then comes it again, the one after the next, or one of its own session's
 * other direction. */
TEST(a_replayed_or_omitted_frame_ends_the_connection)
{
    struct tutti_frames_listener *listener = listener_with(secret);

    REQUIRE(listener != NULL);
    for (int how = 0; how < 3; how++) {
        uint8_t bytes[3][FRAME_BYTES];
        struct tutti_frames_got got = {.type = 0};
        struct raw raw;
        struct tutti_frames *frames = raw_meet(&raw, listener);

        REQUIRE(frames != NULL);
        for (uint32_t i = 0; i < 3; i++)
            raw_frame(&raw, i + 1, bytes[i]);
        CHECK(raw_say(raw.fd, bytes[0], FRAME_BYTES));
        CHECK_INT(tutti_frames_receive(frames, SOON_PS, &got, NULL), 0);
        CHECK_INT(got.type, 1);
        CHECK_INT(memcmp(got.data, "tutti", TEXT_BYTES), 0);
        if (how == 2) {
            tutti_wire_seal_of(&raw.talk, true, &raw.out);
            raw.out.counter = 1;
            raw_frame(&raw, 2, bytes[0]);
        }
        CHECK(raw_say(raw.fd, how == 1 ? bytes[2] : bytes[0], FRAME_BYTES));
        expect_end(frames, -TUTTI_ECHECK, "changed, replayed or out of order");
        raw_done(&raw, frames);
    }
    tutti_frames_listener_close(listener);
}

TEST(two_gibibytes_are_refused_before_anything_is_allocated)
{
    const struct tutti_wire_head head = {.type = 1, .bytes = UINT64_C(2) << 30};
    struct tutti_frames_listener *listener = listener_with(secret);
    uint8_t bytes[TUTTI_WIRE_HEAD_BYTES];
    struct tutti_frames *frames;
    struct raw raw;

    REQUIRE(listener != NULL);
    frames = raw_meet(&raw, listener);
    REQUIRE(frames != NULL);
    tutti_wire_write_head(&raw.out, &head, bytes);
    CHECK(raw_say(raw.fd, bytes, sizeof(bytes)));
    expect_end(frames, -TUTTI_EINVAL, "announces a frame of 2147483648 bytes (at most 4194304)");
    CHECK_INT(frames->coming.room, 0);
    CHECK_INT(tutti_frames_send(frames, 1, NULL, 0, NULL), -TUTTI_EINVAL);
    raw_done(&raw, frames);
    lives(listener, secret);
    tutti_frames_listener_close(listener);
}

/* ---- noise ----------------------------------------------------------------------------------- */

/* A stream of frames, some bytes of it changed or cut: what is taken is what was sent, up to the
 * first change. */
static void be_hostile(struct tutti_random *random, bool with_secret)
{
    struct tutti_wire_talk talk = {.secret = secret, .secret_bytes = with_secret ? 32 : 0};
    const struct tutti_frames_opts opts = {.bytes_max = 64, .deadline_ps = SOON_PS};
    struct tutti_frames_got got;
    struct tutti_frames *frames;
    uint8_t bytes[4 * FRAME_BYTES];
    struct raw raw = {.fd = -1};
    size_t changed = tutti_random_below(random, sizeof(bytes));
    size_t count = 0;
    int fds[2];

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    frames = tutti_frames_new(fds[0], &opts, &talk, true);
    REQUIRE(frames != NULL);
    tutti_wire_seal_of(&talk, false, &raw.out);
    raw.out.on = true; /* without a secret the tags are noise of their own */
    for (uint32_t i = 0; i < 4; i++)
        raw_frame(&raw, i, bytes + i * FRAME_BYTES);
    for (uint64_t i = 0; i <= tutti_random_below(random, 8); i++)
        bytes[changed + tutti_random_below(random, sizeof(bytes) - changed)] ^=
            (uint8_t)(1 + tutti_random_below(random, 255));
    CHECK(raw_say(fds[1], bytes, sizeof(bytes) - tutti_random_below(random, 40)));
    close(fds[1]);
    while (tutti_frames_receive(frames, SOON_PS, &got, NULL) == 0) {
        CHECK_INT(got.type, count);
        CHECK(!with_secret || memcmp(got.data, "tutti", TEXT_BYTES) == 0);
        count++;
    }
    CHECK(tutti_frames_ended(frames));
    CHECK(count <= (with_secret ? 4 : 0));
    tutti_frames_close(frames);
}

TEST(ten_thousand_hostile_streams)
{
    uint64_t cases = test_count(100000, 10000);
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < cases && test_failures == 0; i++)
        be_hostile(&random, i % 8 != 0);
}

/* Hellos that are wrong in a byte, or noise, or cut: nobody gets in, the listener lives. */
TEST(hostile_hellos_leave_the_listener_alive)
{
    static const uint8_t nonce[TUTTI_WIRE_NONCE_BYTES] = "of a stranger";
    struct tutti_frames_listener *listener = listener_with(secret);
    struct tutti_random random;
    uint64_t cases = test_count(10000, 1000);

    REQUIRE(listener != NULL);
    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < cases && test_failures == 0; i++) {
        uint8_t bytes[TUTTI_WIRE_HELLO_BYTES + TUTTI_WIRE_PROOF_BYTES];
        struct tutti_frames *frames = NULL;
        int fd = raw_socket(listener);

        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (uint8_t)tutti_random_below(&random, 256);
        if (i % 4 > 0)
            tutti_wire_write_hello(TUTTI_WIRE_HAS_SECRET, TUTTI_BUILD_VERSION, nonce, bytes);
        if (i % 4 > 1)
            bytes[tutti_random_below(&random, sizeof(bytes))] ^= 1;
        (void)raw_say(fd, bytes, 1 + tutti_random_below(&random, sizeof(bytes)));
        close(fd);
        CHECK_INT(tutti_frames_accept(listener, 0, &frames, NULL), 0);
        CHECK(frames == NULL);
    }
    lives(listener, secret);
    tutti_frames_listener_close(listener);
}
