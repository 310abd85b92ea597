/* The backend `tcp`: the processes of a group, on one host or many, each with one or more ranks.
 * The ranks of a process are threads and meet in memory, those of others are reached over sockets.
 */
#ifndef TUTTI_RUNTIME_TCP_H
#define TUTTI_RUNTIME_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/backend.h"

TUTTI_API_BEGIN

struct tutti_group;
struct tutti_shaper;

/* What moves the bytes. */
enum tutti_tcp_engine {
    TUTTI_TCP_AUTO,  /* the better of those that this machine has */
    TUTTI_TCP_POLL,  /* non-blocking sockets and poll(2) */
    TUTTI_TCP_URING, /* io_uring; -TUTTI_ELACK where there is none, or it is not permitted */
};

/* Zeroed but for size and group: what is best on most machines. The same in all processes, but for
 * engine and pin. */
struct tutti_tcp_opts {
    size_t size;               /* sizeof(struct tutti_tcp_opts): runtime/api.h */
    struct tutti_group *group; /* of kind tcp; borrowed until the backend is closed */
    enum tutti_tcp_engine engine;
    uint32_t connections;  /* of each pair of ranks and lane, for large messages; 0: 1 */
    uint32_t buffer_bytes; /* of the system for each connection and direction; 0: the system's own
                              choice */
    /* Congestion control, "reno" or what else the system permits; NULL: the system's own choice,
     * but "reno" where bytes do not leave the host. */
    const char *congestion;
    bool pin; /* the ranks of each host on its processors, round robin */
    /* As in struct tutti_threads_opts, in every process; only where all are on one host. Then one
     * thread plays all ranks of a process. How time was kept tells tutti_threads_lateness, in the
     * first process. */
    struct tutti_shaper *shaper;
    double slowdown;
};

enum { TUTTI_TCP_CONNECTIONS_MAX = 16 };

/* Opens the backend; collective. Default deadline of a wait: 30 s. */
int tutti_tcp_open(const struct tutti_tcp_opts *opts, struct tutti_backend **ret,
                   struct tutti_err *err);

/* "auto", "poll", "uring". */
int tutti_tcp_engine_find(const char *name, enum tutti_tcp_engine *ret, struct tutti_err *err);

/* The engine that TUTTI_TCP_AUTO takes here, "poll" or "uring"; and whether there could be io_uring
 * on this machine: 0, or -TUTTI_ELACK with the reason. */
const char *tutti_tcp_engine_name(void);
int tutti_tcp_uring_check(struct tutti_err *err);

TUTTI_API_END

#endif
