/* Both ends of connections in one process: a listener, clients in threads of their own, and a
 * client that is made of wire.h by hand. */
#ifndef TUTTI_TESTS_RUNTIME_FRAMES_WORLD_H
#define TUTTI_TESTS_RUNTIME_FRAMES_WORLD_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "build.h"
#include "runtime/frames/connection.h"
#include "tests/test.h"

static const char secret[] = "0123456789abcdef0123456789abcdef";
static const tutti_ps SOON_PS = 8 * TUTTI_PS_PER_S;

static char logged[2048];

__attribute__((unused)) static void keep_log(void *data, const char *line)
{
    (void)data;
    snprintf(logged, sizeof(logged), "%s", line);
}

__attribute__((unused)) static struct tutti_frames_opts opts_of(const char *with)
{
    return (struct tutti_frames_opts){.size = sizeof(struct tutti_frames_opts),
                                      .secret = with,
                                      .secret_bytes = with == NULL ? 0 : strlen(with),
                                      .bytes_max = 4 << 20,
                                      .deadline_ps = SOON_PS,
                                      .log = keep_log};
}

/* ---- a client in a thread, or by hand -------------------------------------------------------- */

struct client {
    pthread_t thread;
    struct tutti_frames_opts opts;
    char address[TUTTI_FRAMES_ADDRESS_BYTES];
    struct tutti_frames *frames;
    struct tutti_err err;
    int status;
    void (*then)(struct client *client);
};

__attribute__((unused)) static void *run_client(void *data)
{
    struct client *c = data;

    c->status =
        tutti_frames_connect(&c->opts, c->address, SOON_PS, "the server", &c->frames, &c->err);
    if (c->status == 0 && c->then != NULL)
        c->then(c);
    return NULL;
}

__attribute__((unused)) static void start_client(struct client *c,
                                                 const struct tutti_frames_listener *listener,
                                                 const char *with,
                                                 void (*then)(struct client *client))
{
    *c = (struct client){.opts = opts_of(with), .then = then};
    snprintf(c->address, sizeof(c->address), "%s", tutti_frames_listener_address(listener));
    if (pthread_create(&c->thread, NULL, run_client, c) != 0)
        abort();
}

__attribute__((unused)) static void end_client(struct client *c)
{
    (void)pthread_join(c->thread, NULL);
    tutti_frames_close(c->frames);
}

__attribute__((unused)) static struct tutti_frames_listener *listener_with(const char *with)
{
    struct tutti_frames_opts opts = opts_of(with);
    struct tutti_frames_listener *listener = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_frames_listen(&opts, NULL, &listener, &err), err);
    return listener;
}

/* Both ends, after the handshake. */
__attribute__((unused)) static struct tutti_frames *meet(struct tutti_frames_listener *listener,
                                                         struct client *c, const char *with,
                                                         void (*then)(struct client *client))
{
    struct tutti_frames *frames = NULL;
    struct tutti_err err = {""};

    start_client(c, listener, with, then);
    CHECK_OK(tutti_frames_accept(listener, SOON_PS, &frames, &err), err);
    return frames;
}

/* A client of the test's own making: a socket, and what wire.h says. */
struct raw {
    int fd;
    struct tutti_wire_talk talk;
    struct tutti_wire_seal out;
};

__attribute__((unused)) static int raw_socket(const struct tutti_frames_listener *listener)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(tutti_frames_listener_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        abort();
    return fd;
}

__attribute__((unused)) static bool raw_say(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

__attribute__((unused)) static bool raw_hear(int fd, void *to, size_t bytes)
{
    return recv(fd, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* Says its hello, and hears what the listener answers. */
__attribute__((unused)) static bool
raw_hello(struct raw *raw, struct tutti_frames_listener *listener, const char *tutti)
{
    static const uint8_t nonce[TUTTI_WIRE_NONCE_BYTES] = "not used before";
    struct tutti_frames *frames = NULL;

    raw->talk.secret = secret;
    raw->talk.secret_bytes = strlen(secret);
    raw->fd = raw_socket(listener);
    tutti_wire_write_hello(TUTTI_WIRE_HAS_SECRET, tutti, nonce, raw->talk.client);
    if (!raw_say(raw->fd, raw->talk.client, sizeof(raw->talk.client)))
        return false;
    for (struct pollfd one = {.fd = raw->fd, .events = POLLIN}; poll(&one, 1, 1) == 0;)
        if (tutti_frames_accept(listener, 0, &frames, NULL) < 0 || frames != NULL)
            return false;
    return raw_hear(raw->fd, raw->talk.server, sizeof(raw->talk.server));
}

/* The accepted end of a session whose other end the test plays. */
__attribute__((unused)) static struct tutti_frames *raw_meet(struct raw *raw,
                                                             struct tutti_frames_listener *listener)
{
    uint8_t proof[TUTTI_WIRE_PROOF_BYTES];
    uint8_t answer[TUTTI_WIRE_ANSWER_BYTES];
    struct tutti_frames *frames = NULL;

    CHECK(raw_hello(raw, listener, TUTTI_BUILD_VERSION));
    tutti_wire_prove(&raw->talk, false, proof);
    CHECK(raw_say(raw->fd, proof, sizeof(proof)));
    CHECK_INT(tutti_frames_accept(listener, SOON_PS, &frames, NULL), 0);
    CHECK(raw_hear(raw->fd, answer, sizeof(answer)));
    CHECK_INT(answer[0], TUTTI_WIRE_GO_ON);
    tutti_wire_seal_of(&raw->talk, false, &raw->out);
    return frames;
}

enum { TEXT_BYTES = 5, FRAME_BYTES = TUTTI_WIRE_HEAD_BYTES + TEXT_BYTES + TUTTI_WIRE_TAG_BYTES };

/* The bytes of the next frame: its type and five of payload. */
__attribute__((unused)) static void raw_frame(struct raw *raw, uint32_t type,
                                              uint8_t ret[FRAME_BYTES])
{
    const struct tutti_wire_head head = {.type = type, .bytes = TEXT_BYTES};
    struct tutti_hmac hmac;

    tutti_wire_write_head(&raw->out, &head, ret);
    memcpy(ret + TUTTI_WIRE_HEAD_BYTES, "tutti", TEXT_BYTES);
    tutti_wire_begin_tag(&raw->out, ret, &hmac);
    tutti_hmac_add(&hmac, "tutti", TEXT_BYTES);
    tutti_wire_end_tag(&hmac, ret + TUTTI_WIRE_HEAD_BYTES + TEXT_BYTES);
    raw->out.counter++;
}

__attribute__((unused)) static void raw_done(struct raw *raw, struct tutti_frames *frames)
{
    close(raw->fd);
    tutti_frames_close(frames);
}

__attribute__((unused)) static void expect_end(struct tutti_frames *frames, int status,
                                               const char *words)
{
    struct tutti_frames_got got;
    struct tutti_err err = {""};

    for (int again = 0; again < 2; again++) {
        CHECK_INT(tutti_frames_receive(frames, SOON_PS, &got, &err), status);
        if (strstr(err.text, words) == NULL || strstr(err.text, "127.0.0.1:") == NULL)
            TEST_FAIL("'%s' does not say '%s'", err.text, words);
    }
    CHECK(tutti_frames_ended(frames));
    CHECK(tutti_frames_ready(frames));
}

#endif
