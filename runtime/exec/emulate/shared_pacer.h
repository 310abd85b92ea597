/* The shared pacer: the pacer (pacer.h) of several processes of one host. What they do, what they
 * have sent, and the clock are in memory that they share, without locks. A thread plays all ranks
 * of its process (multiplex.h); that of the first process, the timekeeper, has the shaper and keeps
 * the clock, also when its own ranks have ended. Messages go over the transport all the same, as
 * fast as that is, and are taken when they are due.
 *
 * A process that waits for what the clock brings still moves bytes, its own and those of others.
 * One that has a message due which is not all there counts as playing: the clock stands still until
 * it is. Who waits spins while something is near, and else sleeps on the transport; since other
 * processes cannot ring there, a thread of its own does that for them. Private to the files
 * shared_pacer*.c. */
#ifndef TUTTI_RUNTIME_EXEC_EMULATE_SHARED_PACER_H
#define TUTTI_RUNTIME_EXEC_EMULATE_SHARED_PACER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/host/connection.h"
#include "runtime/exec/host/wait_set.h"

struct tutti_group;
struct tutti_schedule;
struct tutti_shared_pacer_memory;

enum { TUTTI_SHARED_PACER_PROCESSES_MAX = 1024 };

struct tutti_shared_pacer {
    struct tutti_pacer base; /* first member: the pacer casts back */
    struct tutti_group *group;
    struct tutti_shared_pacer_memory *memory; /* shared */
    size_t memory_bytes;
    struct tutti_wait_set *wait_set;
    double slowdown;
    uint32_t process; /* this one */
    uint32_t process_count;
    bool spins; /* no more processes than processors */
    bool small; /* what is under way does not wait for who receives it */
    uint32_t rank_count;
    struct tutti_connections all; /* of all processes, in the same order everywhere */
    pthread_t thread;             /* wakes the worker thread when others have rung */
    bool has_thread;
    atomic_bool over;
    /* The timekeeper's alone: */
    uint64_t *sent_counts; /* [connection of all] */
    tutti_ps since_ps;     /* when the last instant came */
};

static inline struct tutti_shared_pacer *tutti_shared_pacer_of(struct tutti_pacer *base)
{
    return (struct tutti_shared_pacer *)base;
}

/* ---- shared_pacer.c ---- */

extern const struct tutti_pacer_ops tutti_shared_pacer_ops;

/* ---- shared_pacer_open.c ---- */

int tutti_shared_pacer_connect(struct tutti_pacer *base, tutti_ps deadline_ps,
                               struct tutti_err *err);
void tutti_shared_pacer_disconnect(struct tutti_pacer *base);
void tutti_shared_pacer_close(struct tutti_pacer *base);

#endif
