/* The backend `threads`: one process, a thread a rank (fewer where it emulates), data really moved
 * and reduced. A rank whose COMPUTEs are really done (work.h) beside messages on other lanes has a
 * second thread for them. */
#ifndef TUTTI_RUNTIME_THREADS_H
#define TUTTI_RUNTIME_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/backend.h"

TUTTI_API_BEGIN

struct tutti_shaper;

struct tutti_threads_opts {
    size_t size; /* sizeof(struct tutti_threads_opts): runtime/api.h */
    /* Rank r on the r-th processor that this process may use, round robin; its second thread on
     * those that no rank has, or, if there is none, on any other than its own. */
    bool pin;
    /* NULL, or (borrowed) the machine whose times messages and steps take, `slowdown` times as long
     * as there; 0: as fast as it goes. Data are moved and added all the same. Records then have
     * the times of that machine, slowed down. */
    struct tutti_shaper *shaper;
    double slowdown;
    /* With a shaper: how many threads play the ranks, each a block of them; no more than ranks. 0:
     * one, which those of the other processors help where much is to be moved at one time. */
    uint32_t thread_count;
};

/* How the time of the other machine was kept in the last play. An instant is late here when what
 * comes before it was not done in time. */
struct tutti_lateness {
    tutti_ps clock_ps;      /* of the other machine when the last iteration ended */
    uint64_t instant_count; /* instants there at which something happened, of all iterations */
    uint64_t late_count;    /* of these */
    tutti_ps late_ps_max;
    tutti_ps work_ps; /* here: while some rank was at work, between instants, */
    tutti_ps rest_ps; /* and while all waited for the next one to be due */
    /* COMPUTEs of this process's ranks that were really done, of all iterations; how many of them
     * took longer here than there, slowed down, be it because they waited for a processor; and the
     * slowdown with which the slowest of them would have been in time (0: none was timed). */
    uint64_t computed_count;
    uint64_t computed_late_count;
    double computed_slowdown;
};

/* Opens the backend; opts may be NULL. Default deadline of a wait: 30 s. */
int tutti_threads_open(const struct tutti_threads_opts *opts, struct tutti_backend **ret,
                       struct tutti_err *err);

/* After a play that succeeded, on a backend with a shaper. */
struct tutti_lateness tutti_threads_lateness(const struct tutti_backend *backend);

TUTTI_API_END

#endif
