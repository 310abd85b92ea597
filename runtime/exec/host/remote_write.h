/* Results written straight to where they will be received, found before the threads start.
 *
 * A REDUCE whose result the next steps of its lane send on may write it into the receivers' outputs
 * as well, in the same pass: the result is read from memory no second time. That is right if no
 * step of the receiver, in the same iteration, touches those bytes before its RECV; such a RECV is
 * a window (as of one-sided communication). Two-shot all-reduce, where each rank reduces a part and
 * sends it to all, becomes one pass over inputs and outputs: 2 n S bytes of traffic, the least
 * there is.
 *
 * What the check of schedules orders stays ordered: the SENDs that follow have no dependencies of
 * their own, so all that comes before them has happened when the REDUCE runs; and what comes before
 * the RECV in its own rank does not touch the bytes. Private to runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_REMOTE_WRITE_H
#define TUTTI_RUNTIME_EXEC_HOST_REMOTE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/host/connection.h"
#include "runtime/schedule.h"

struct tutti_err;

enum { TUTTI_REMOTE_WRITE_TARGETS_MAX = 16 };

/* One receiver: SEND number `step` of the pusher's lane lands at out + offset of rank `to`. */
struct tutti_remote_write_target {
    uint64_t step;
    uint64_t offset;
    uint32_t to;
};

/* One REDUCE and its targets, in the order of their SENDs. */
struct tutti_remote_write {
    uint64_t step; /* index of the REDUCE in its lane */
    size_t target_first;
    uint32_t target_count; /* 1 .. TUTTI_REMOTE_WRITE_TARGETS_MAX */
};

struct tutti_remote_writes {
    struct tutti_remote_write *remote_writes; /* rank by rank, lane by lane, in program order */
    size_t *lane_first; /* [(rank - first_rank) * lane_count + lane], and one more; NULL: none */
    struct tutti_remote_write_target *targets;
    /* [rank - first_rank]: a bit for each buffer that other ranks read, of this process or, what is
     * large, of this host: they have in their caches what is written there; NULL: nothing is
     * known. */
    uint8_t *handed;
};

/* Whether other ranks read what rank first_rank + `own` has in a buffer. */
static inline bool tutti_remote_writes_helper_on(const struct tutti_remote_writes *remote_writes,
                                                 uint32_t own, unsigned buf)
{
    return remote_writes->handed != NULL && (remote_writes->handed[own] >> buf & 1) != 0;
}

/* Walks the programs of this process, within which alone results are pushed. Large ones are left
 * alone: then nothing is pushed. */
int tutti_thread_remote_writes_open(struct tutti_remote_writes *remote_writes,
                                    const struct tutti_schedule *schedule,
                                    const struct tutti_connections *connections,
                                    struct tutti_err *err);
void tutti_thread_remote_writes_close(struct tutti_remote_writes *remote_writes);

#endif
