/* netlab_probe: what a network of tools/netlab does, by plain sockets: one process on each host.
 *
 *   netlab_probe ring BYTES TIMES   a ring all-reduce's messages: 2(n-1) steps of BYTES/n
 *   netlab_probe pair BYTES TIMES   one message from rank 0 to rank 1 and back
 *
 * Rank 0 prints, for each time: what, bytes, microseconds. TUTTI_RANK and TUTTI_SIZE say who it is;
 * rank r is host "h<r>". All hosts have one clock, being one machine: each time starts at a moment
 * that rank 0 names, PAUSE_NS ahead, so that token buckets are full, and ends when the last rank
 * does. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/status.h"
#include "runtime/units.h"

enum {
    RANKS_MAX = 64,
    CONTROL_PORT = 7700,
    RING_PORT = 7701,
    PAUSE_NS = 20000000,
    WAIT_MS = 20000, /* for anything; then it gives up and says for what */
};

struct probe {
    uint32_t rank;
    uint32_t count;
    int control[RANKS_MAX]; /* of rank 0: to each other; of others: [0] */
    int next;
    int previous;
    uint8_t *out;
    uint8_t *in;
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* Sends and receives at once, either or both; blocks, but not for ever. */
static int move(int to, const uint8_t *out, size_t out_bytes, int from, uint8_t *in,
                size_t in_bytes, struct tutti_err *err)
{
    while (out_bytes + in_bytes > 0) {
        struct pollfd fds[2] = {{.fd = out_bytes > 0 ? to : -1, .events = POLLOUT},
                                {.fd = in_bytes > 0 ? from : -1, .events = POLLIN}};
        ssize_t count;

        if (poll(fds, 2, WAIT_MS) <= 0)
            return tutti_fail(err, TUTTI_ETIME, "%zu bytes to go and %zu to come after %d ms",
                              out_bytes, in_bytes, WAIT_MS);
        if (fds[0].revents != 0) {
            count = send(to, out, out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (count < 0 && errno != EAGAIN)
                return tutti_fail(err, TUTTI_EIO, "cannot send: %s", strerror(errno));
            out += count > 0 ? count : 0;
            out_bytes -= count > 0 ? (size_t)count : 0;
        }
        if (fds[1].revents != 0) {
            count = recv(from, in, in_bytes, MSG_DONTWAIT);
            if (count == 0 || (count < 0 && errno != EAGAIN))
                return tutti_fail(err, TUTTI_EIO, "cannot receive: %s",
                                  count == 0 ? "the other end has gone" : strerror(errno));
            in += count > 0 ? count : 0;
            in_bytes -= count > 0 ? (size_t)count : 0;
        }
    }
    return 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void no_delay(int fd)
{
    int yes = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

static int listen_on(uint16_t port, int *ret, struct tutti_err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;

    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, RANKS_MAX) < 0) {
        tutti_fail(err, TUTTI_EIO, "cannot listen on port %u: %s", port, strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return -TUTTI_EIO;
    }
    *ret = fd;
    return 0;
}

/* The peer says its rank first. */
static int accept_one(int listener, int *ret, uint32_t *ret_rank, struct tutti_err *err)
{
    struct pollfd waits = {.fd = listener, .events = POLLIN};
    int fd = poll(&waits, 1, WAIT_MS) > 0 ? accept(listener, NULL, NULL) : -1;
    int status;

    if (fd < 0)
        return tutti_fail(err, TUTTI_ETIME, "nobody connects in %d ms", WAIT_MS);
    no_delay(fd);
    status = move(-1, NULL, 0, fd, (uint8_t *)ret_rank, sizeof(*ret_rank), err);
    if (status < 0)
        (void)close(fd);
    else
        *ret = fd;
    return status;
}

static int address_of(uint32_t rank, uint16_t port, struct sockaddr_in *ret, struct tutti_err *err)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char name[32];

    (void)snprintf(name, sizeof(name), "h%u", rank);
    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        return tutti_fail(err, TUTTI_EIO, "no address of host '%s'", name);
    memcpy(ret, found->ai_addr, sizeof(*ret));
    ret->sin_port = htons(port);
    freeaddrinfo(found);
    return 0;
}

static int connect_to(const struct probe *probe, uint32_t rank, uint16_t port, int *ret,
                      struct tutti_err *err)
{
    struct sockaddr_in address;
    int64_t end_ns = now_ns() + (int64_t)WAIT_MS * 1000000;
    int status = address_of(rank, port, &address, err);
    int fd = -1;

    while (status == 0 && fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
            break;
        if (fd >= 0)
            (void)close(fd);
        fd = -1;
        if (now_ns() > end_ns)
            status =
                tutti_fail(err, TUTTI_ETIME, "rank %u does not answer in %d ms", rank, WAIT_MS);
        sleep_until(now_ns() + 10000000);
    }
    if (status < 0)
        return status;
    no_delay(fd);
    status = move(fd, (const uint8_t *)&probe->rank, sizeof(probe->rank), -1, NULL, 0, err);
    if (status < 0)
        (void)close(fd);
    else
        *ret = fd;
    return status;
}

static int meet(struct probe *probe, struct tutti_err *err)
{
    int control = -1;
    int ring = -1;
    uint32_t peer = 0;
    int status = listen_on(RING_PORT, &ring, err);

    if (status == 0 && probe->rank == 0)
        status = listen_on(CONTROL_PORT, &control, err);
    if (status == 0 && probe->rank > 0)
        status = connect_to(probe, 0, CONTROL_PORT, &probe->control[0], err);
    for (uint32_t i = 1; i < probe->count && probe->rank == 0 && status == 0; i++) {
        int fd = -1;

        status = accept_one(control, &fd, &peer, err);
        if (status == 0 && peer < RANKS_MAX)
            probe->control[peer] = fd;
    }
    if (status == 0)
        status = connect_to(probe, (probe->rank + 1) % probe->count, RING_PORT, &probe->next, err);
    if (status == 0)
        status = accept_one(ring, &probe->previous, &peer, err);
    if (ring >= 0)
        (void)close(ring);
    if (control >= 0)
        (void)close(control);
    return status;
}

/* ---- what is measured ------------------------------------------------------------------------ */

static int play_ring(struct probe *probe, uint64_t bytes, struct tutti_err *err)
{
    size_t chunk = (size_t)(bytes / probe->count);
    int status = 0;

    for (uint32_t step = 0; step < 2 * (probe->count - 1) && status == 0; step++)
        status = move(probe->next, probe->out, chunk, probe->previous, probe->in, chunk, err);
    return status;
}

static int play_pair(struct probe *probe, uint64_t bytes, struct tutti_err *err)
{
    int fd = probe->rank == 0 ? probe->control[1] : probe->control[0];
    int status = 0;

    if (probe->rank == 0)
        status = move(fd, probe->out, (size_t)bytes, -1, NULL, 0, err);
    if (status == 0 && probe->rank < 2)
        status = move(-1, NULL, 0, fd, probe->in, (size_t)bytes, err);
    if (status == 0 && probe->rank == 1)
        status = move(fd, probe->out, (size_t)bytes, -1, NULL, 0, err);
    return status;
}

/* Rank 0 tells all when to start, and hears from all when they ended. */
static int play(struct probe *probe, const char *what, uint64_t bytes, struct tutti_err *err)
{
    int64_t start_ns = now_ns() + PAUSE_NS;
    int64_t end_ns = 0;
    int status = 0;

    for (uint32_t i = 1; i < probe->count && probe->rank == 0 && status == 0; i++)
        status =
            move(probe->control[i], (const uint8_t *)&start_ns, sizeof(start_ns), -1, NULL, 0, err);
    if (probe->rank > 0)
        status = move(-1, NULL, 0, probe->control[0], (uint8_t *)&start_ns, sizeof(start_ns), err);
    if (status < 0)
        return status;
    sleep_until(start_ns);
    status = what[0] == 'r' ? play_ring(probe, bytes, err) : play_pair(probe, bytes, err);
    if (status < 0)
        return status;
    end_ns = now_ns();
    if (probe->rank > 0)
        return move(probe->control[0], (const uint8_t *)&end_ns, sizeof(end_ns), -1, NULL, 0, err);
    for (uint32_t i = 1; i < probe->count && status == 0; i++) {
        int64_t other_ns = 0;

        status = move(-1, NULL, 0, probe->control[i], (uint8_t *)&other_ns, sizeof(other_ns), err);
        end_ns = other_ns > end_ns ? other_ns : end_ns;
    }
    printf("%s %llu %.1f\n", what, (unsigned long long)bytes, (double)(end_ns - start_ns) / 1e3);
    (void)fflush(stdout);
    return status;
}

static int read_number(const char *name, uint64_t min, uint64_t max, uint64_t *ret,
                       struct tutti_err *err)
{
    const char *text = getenv(name);
    int status;

    if (text == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no %s (tools/netlab sets it)", name);
    status = tutti_read_count(text, min, max, ret, err);
    return status < 0 ? tutti_wrap(err, status, "%s", name) : 0;
}

static int run(int argc, char **argv, struct probe *probe, struct tutti_err *err)
{
    uint64_t rank = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t times = 0;
    int status;

    if (argc != 4 || (strcmp(argv[1], "ring") != 0 && strcmp(argv[1], "pair") != 0))
        return tutti_fail(err, TUTTI_EINVAL, "usage: netlab_probe ring|pair BYTES TIMES");
    status = tutti_read_size(argv[2], &bytes, err);
    if (status == 0)
        status = tutti_read_count(argv[3], 1, 1000000, &times, err);
    if (status == 0)
        status = read_number("TUTTI_SIZE", 2, RANKS_MAX, &count, err);
    if (status == 0)
        status = read_number("TUTTI_RANK", 0, count - 1, &rank, err);
    if (status < 0)
        return status;
    probe->rank = (uint32_t)rank;
    probe->count = (uint32_t)count;
    probe->out = calloc(1, (size_t)bytes + 1);
    probe->in = calloc(1, (size_t)bytes + 1);
    status = probe->out == NULL || probe->in == NULL ? tutti_nomem(err) : meet(probe, err);
    for (uint64_t i = 0; i < times && status == 0; i++)
        status = play(probe, argv[1], bytes, err);
    return status;
}

int main(int argc, char **argv)
{
    struct probe probe = {.next = -1};
    struct tutti_err err = {.text = ""};
    int status = run(argc, argv, &probe, &err);

    free(probe.out);
    free(probe.in);
    if (status == 0)
        return 0;
    fprintf(stderr, "netlab_probe: %s\n", err.text);
    return status == -TUTTI_EINVAL ? 2 : 1;
}
