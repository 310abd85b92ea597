/* Strangers at a port of a group: what they say and how they leave, drawn by `dice`; and what the
 * process that they come to has of memory and descriptors. Private to the tests of groups. */
#ifndef TUTTI_TESTS_RUNTIME_GROUP_STRANGERS_H
#define TUTTI_TESTS_RUNTIME_GROUP_STRANGERS_H

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "build.h"
#include "runtime/group/address.h"
#include "runtime/group/frame.h"
#include "runtime/group/handshake.h"
#include "runtime/random.h"
#include "tests/runtime/group_world.h"
#include "tests/runtime/proc.h"

enum {
    COUNT = 3,      /* of the group */
    SLOW_MAX = 160, /* slow ones at a time: more than a listener has room for */
};

/* What the C library may take for itself meanwhile; sanitizers keep what is freed for a while. */
static const long growth_bytes_max = sizeof(TUTTI_BUILD_SANITIZE) > 1 ? 64 << 20 : 512 << 10;

static const char secret[] = "open sesame open";

static struct tutti_address port_address;
static struct tutti_random dice;
static enum tutti_handshake_kind usual_kind =
    TUTTI_HANDSHAKE_JOIN; /* what those who know the listener want */

static uint64_t below(uint64_t most)
{
    return tutti_random_below(&dice, most);
}

static void fill(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)tutti_random_next(&dice);
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- process 0 ---- */

/* What process 0, another process than this, tells of its life. */
static struct told {
    int status;
    uint32_t logged_count;
    char text[TUTTI_ERR_TEXT_BYTES];
    char last_line[300];
} * told;

static bool share_told(void)
{
    if (told == NULL)
        told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return false;
    *told = (struct told){.status = 1};
    return true;
}

static void take_line(void *data, const char *line)
{
    (void)data;
    told->logged_count++;
    snprintf(told->last_line, sizeof(told->last_line), "%s", line);
}

static pid_t start_process_0(struct group_world *world)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0) {
        close(world->listen_fd);
        return pid;
    }
    world->ones[0].opts.log = take_line;
    (void)group_live(&world->ones[0]);
    told->status = world->ones[0].status;
    snprintf(told->text, sizeof(told->text), "%s", world->ones[0].err.text);
    _exit(0);
}

/* ---- strangers ---- */

static int enter(void)
{
    int fd = socket(port_address.as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, &port_address.as.any, port_address.bytes) != 0) {
        TEST_FAIL("cannot connect: %s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

/* Whatever of it is taken: the other side may have closed. */
static void tell(int fd, const uint8_t *bytes, size_t count)
{
    (void)send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void hang_up_at_once(int fd)
{
    const struct linger hard = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

/* A hello as good as one can be without the secret. */
static void make_handshake(struct tutti_handshake *handshake, const char *key)
{
    const struct tutti_hello hello = {.kind = below(4) > 0 ? usual_kind
                                              : usual_kind == TUTTI_HANDSHAKE_JOIN
                                                  ? TUTTI_HANDSHAKE_LINK
                                                  : TUTTI_HANDSHAKE_JOIN,
                                      .index = (uint32_t)below(COUNT + 1),
                                      .count = below(4) == 0 ? (uint32_t)below(9) : COUNT,
                                      .port = (uint32_t)below(65536),
                                      .peer = (uint32_t)below(COUNT),
                                      .round = (uint32_t)below(50),
                                      .key = below(10)};
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];

    fill(nonce, sizeof(nonce));
    tutti_handshake_client(handshake, key, key == NULL ? 0 : strlen(key), nonce, &hello);
}

/* Reads up to `bytes`, for a while. */
static size_t hear(int fd, uint8_t *to, size_t bytes)
{
    size_t used = 0;

    while (used < bytes) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        ssize_t got = poll(&one, 1, 1000) == 1 ? recv(fd, to + used, bytes - used, 0) : 0;

        if (got <= 0)
            return used;
        used += (size_t)got;
    }
    return used;
}

static void say_rubbish(int fd)
{
    static uint8_t rubbish[1 << 17];
    size_t count = below(10) == 0 ? sizeof(rubbish) : (size_t)below(3000);

    fill(rubbish, count);
    tell(fd, rubbish, count);
}

static void say_half(int fd)
{
    struct tutti_handshake handshake;

    make_handshake(&handshake, secret);
    tell(fd, handshake.out, (size_t)below(handshake.out_bytes));
}

static void say_changed(int fd)
{
    struct tutti_handshake handshake;
    uint8_t proof[TUTTI_HANDSHAKE_PROOF_BYTES];

    make_handshake(&handshake, secret);
    for (uint64_t i = 1 + below(4); i > 0; i--)
        handshake.hello[below(sizeof(handshake.hello))] = (uint8_t)tutti_random_next(&dice);
    tell(fd, handshake.out, handshake.out_bytes);
    fill(proof, sizeof(proof));
    tell(fd, proof, sizeof(proof));
}

static void say_ones(int fd)
{
    struct tutti_handshake handshake;
    uint8_t much[4096];

    make_handshake(&handshake, secret);
    memset(handshake.hello + TUTTI_HANDSHAKE_PREFIX_BYTES, 0xff,
           sizeof(handshake.hello) - TUTTI_HANDSHAKE_PREFIX_BYTES);
    tell(fd, handshake.out, handshake.out_bytes);
    memset(much, 0xff, sizeof(much));
    tell(fd, much, sizeof(much));
}

/* The right hello, and the proof of a secret that is nearly the right one; then frames as if it had
 * been let in. */
static void guess(int fd)
{
    static const char *const keys[] = {"open Sesame open", "", "open sesame open ",
                                       "open sesame ope"};
    struct tutti_handshake handshake;
    uint8_t frames[2 * TUTTI_FRAME_HEAD_BYTES] = {0};

    make_handshake(&handshake, keys[below(4)]);
    tell(fd, handshake.out, handshake.out_bytes);
    tutti_handshake_sent(&handshake, handshake.out_bytes);
    if (hear(fd, handshake.in, handshake.in_bytes) < handshake.in_bytes)
        return;
    tutti_handshake_took(&handshake, handshake.in_bytes);
    if (handshake.out_bytes == 0)
        return;
    tell(fd, handshake.out, handshake.out_bytes);
    tutti_handshake_sent(&handshake, handshake.out_bytes);
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE, .bytes = 1 << 24},
                           frames);
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_BYE},
                           frames + TUTTI_FRAME_HEAD_BYTES);
    tell(fd, frames, sizeof(frames));
    if (hear(fd, handshake.in, handshake.in_bytes) < handshake.in_bytes)
        return;
    tutti_handshake_took(&handshake, handshake.in_bytes);
    if (handshake.state == TUTTI_HANDSHAKE_DONE)
        TEST_FAIL("a stranger is let in");
}

/* What an honest process said on another connection: its hello, and the proof for another nonce. */
static void replay(int fd)
{
    const struct tutti_hello hello = {.kind = usual_kind, .index = 1, .count = COUNT, .port = 4242};
    static const uint8_t nonces[2][TUTTI_HANDSHAKE_NONCE_BYTES] = {"once", "twice"};
    struct tutti_handshake honest;
    struct tutti_handshake host;
    uint8_t answer[TUTTI_HANDSHAKE_WELCOME_BYTES];

    tutti_handshake_client(&honest, secret, strlen(secret), nonces[0], &hello);
    tutti_handshake_server(&host, secret, strlen(secret), nonces[1]);
    tell(fd, honest.out, honest.out_bytes);
    while (honest.state == TUTTI_HANDSHAKE_WANTS_CHALLENGE) {
        struct tutti_handshake *from = honest.out_bytes > 0 ? &honest : &host;
        struct tutti_handshake *to = from == &honest ? &host : &honest;
        size_t bytes = from->out_bytes < to->in_bytes ? from->out_bytes : to->in_bytes;

        memcpy(to->in, from->out, bytes);
        tutti_handshake_sent(from, bytes);
        tutti_handshake_took(to, bytes);
    }
    tell(fd, honest.out, honest.out_bytes);
    if (hear(fd, answer, TUTTI_HANDSHAKE_CHALLENGE_BYTES) < TUTTI_HANDSHAKE_CHALLENGE_BYTES)
        return;
    if (hear(fd, answer, sizeof(answer)) == sizeof(answer) && answer[3] == TUTTI_HANDSHAKE_WELCOME)
        TEST_FAIL("a replay is let in");
}

static void say_http(int fd)
{
    static const char request[] =
        "POST /rendezvous HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";

    tell(fd, (const uint8_t *)request, strlen(request));
}

static void say_version(int fd)
{
    struct tutti_handshake handshake;

    make_handshake(&handshake, secret);
    fill(handshake.hello + 8, 4);
    tell(fd, handshake.out, TUTTI_HANDSHAKE_PREFIX_BYTES + (size_t)below(80));
}

static void say_nothing(int fd)
{
    (void)fd;
}

static void say_no_secret(int fd)
{
    struct tutti_handshake handshake;

    make_handshake(&handshake, NULL);
    tell(fd, handshake.out, handshake.out_bytes);
}

static void (*const sayings[])(int fd) = {say_rubbish, say_half,     say_changed, say_ones,
                                          guess,       replay,       say_http,    say_version,
                                          say_nothing, say_no_secret};

enum { SAYING_COUNT = sizeof(sayings) / sizeof(sayings[0]) };

/* Those who come and do not go, a byte now and then. */
static struct {
    int fds[SLOW_MAX];
    size_t count;
} slow;

static void linger(int fd)
{
    size_t at;

    if (slow.count < SLOW_MAX) {
        slow.fds[slow.count++] = fd;
        return;
    }
    at = (size_t)below(slow.count);
    close(slow.fds[at]);
    slow.fds[at] = fd;
}

static void trickle(void)
{
    uint8_t byte = 't';

    if (slow.count > 0)
        tell(slow.fds[below(slow.count)], &byte, 1);
}

static void attack(uint64_t count)
{
    for (uint64_t i = 0; i < count && test_failures == 0; i++) {
        int fd = enter();
        uint64_t end;

        if (fd < 0)
            return;
        sayings[below(SAYING_COUNT)](fd);
        trickle();
        end = below(100);
        if (end < 3) {
            linger(fd);
        } else if (end < 20) {
            uint8_t rest[256];

            (void)shutdown(fd, SHUT_WR);
            (void)hear(fd, rest, sizeof(rest));
            close(fd);
        } else if (end < 40) {
            hang_up_at_once(fd);
        } else {
            close(fd);
        }
    }
}

static void see_off_the_slow(void)
{
    while (slow.count > 0)
        close(slow.fds[--slow.count]);
}

#endif
