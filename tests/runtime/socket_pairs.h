/* Connections between "processes" of one program (host_backend.h): pairs of sockets, in the place
 * of tutti_group_tcp_links. */
#ifndef TUTTI_TESTS_RUNTIME_SOCKET_PAIRS_H
#define TUTTI_TESTS_RUNTIME_SOCKET_PAIRS_H

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/exec/transport/tcp/tcp.h"
#include "tests/runtime/host_backend.h"

enum { PAIRS_MAX = 256 };

/* Connections wanted by one side, until the other side wants them too. */
static struct {
    pthread_mutex_t lock; /* guards all of it */
    struct {
        uint64_t key;
        int fd; /* of the side that has not come; -1: none */
    } waiting[PAIRS_MAX];
    uint32_t count;
} exchange_of_pairs = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int pair_up(uint64_t key)
{
    int fds[2];

    for (uint32_t i = 0; i < exchange_of_pairs.count; i++) {
        if (exchange_of_pairs.waiting[i].key != key || exchange_of_pairs.waiting[i].fd < 0)
            continue;
        fds[0] = exchange_of_pairs.waiting[i].fd;
        exchange_of_pairs.waiting[i] = exchange_of_pairs.waiting[--exchange_of_pairs.count];
        return fds[0];
    }
    if (exchange_of_pairs.count == PAIRS_MAX ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    exchange_of_pairs.waiting[exchange_of_pairs.count].key = key;
    exchange_of_pairs.waiting[exchange_of_pairs.count++].fd = fds[1];
    return fds[0];
}

static int links(struct tutti_group *group, const struct tutti_group_tcp_link *wanted, size_t count,
                 int *ret_fds, tutti_ps deadline_ps, struct tutti_err *err)
{
    (void)group;
    (void)deadline_ps;
    (void)err;
    pthread_mutex_lock(&exchange_of_pairs.lock);
    for (size_t i = 0; i < count; i++)
        ret_fds[i] = pair_up(wanted[i].key);
    pthread_mutex_unlock(&exchange_of_pairs.lock);
    return 0;
}

/* What an attempt that failed has left behind. */
static void drop_pairs(void)
{
    while (exchange_of_pairs.count > 0)
        close(exchange_of_pairs.waiting[--exchange_of_pairs.count].fd);
}

/* Two processes, with backends from `open`, play a schedule twice, and record it. */
static inline int play_over_pairs(const struct tutti_schedule *schedule,
                                  host_backend_open_one *open, void *data, struct tutti_err *err)
{
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 2,
                              .barrier = true,
                              .record = &record};
    int status = host_backend_open(2, open, data, &backend, err);

    tutti_record_init(&record);
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    tutti_record_done(&record);
    drop_pairs();
    return status;
}

#endif
