/* The shared pacer: the pacer (pacer.h) of several processes of one host. What they do, what they
 * have sent, and the clock are in memory that they share, without locks. A thread plays all ranks
 * of its process (multiplex.h); that of the first process, the timekeeper, has the shaper and keeps
 * the clock, also when its own ranks have ended. Messages go over the transport all the same, as
 * fast as that is, and are taken when they are due.
 *
 * A process that waits for what the clock brings still moves bytes, its own and those of others.
 * One that has a message due which is not all there counts as playing: the clock stands still until
 * it is. Who waits spins while something is near, and else sleeps on the transport; since other
 * processes cannot ring there, a thread of its own does that for them. Private to
 * runtime/exec/emulate. */
#ifndef TUTTI_RUNTIME_EXEC_EMULATE_SHARED_PACER_H
#define TUTTI_RUNTIME_EXEC_EMULATE_SHARED_PACER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/host/connection.h"
#include "runtime/exec/host/wait_set.h"
#include "runtime/shaper.h"
#include "runtime/threads.h"

struct tutti_group;
struct tutti_schedule;
struct tutti_shared_pacer_memory;

enum { TUTTI_SHARED_PACER_PROCESSES_MAX = 1024 };

struct tutti_shared_pacer {
    struct tutti_shared_pacer_memory *memory; /* shared */
    size_t memory_bytes;
    struct tutti_wait_set *wait_set;
    struct tutti_shaper *shaper;
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
    struct tutti_lateness lateness;
};

/* In each process before the execution begins: finds the connections of all, and their numbers for
 * `own`. */
int tutti_shared_pacer_prepare(struct tutti_shared_pacer *shared_pacer,
                               struct tutti_connections *own, const struct tutti_schedule *schedule,
                               struct tutti_err *err);
/* Collective: the processes share memory from now on. `wait set` and `shaper` are borrowed. */
int tutti_shared_pacer_open(struct tutti_shared_pacer *shared_pacer,
                            struct tutti_wait_set *wait_set, struct tutti_shaper *shaper,
                            double slowdown, struct tutti_group *group, tutti_ps deadline_ps,
                            struct tutti_err *err);
void tutti_shared_pacer_close(struct tutti_shared_pacer *shared_pacer);

tutti_ps tutti_shared_pacer_now(
    const struct tutti_shared_pacer *shared_pacer); /* on the other machine's clock */
tutti_ps tutti_shared_pacer_time(
    const struct tutti_shared_pacer *shared_pacer); /* when that is due, by the wait set */

tutti_ps tutti_shared_pacer_epoch(const struct tutti_shared_pacer *shared_pacer);

/* As those of the pacer, for all ranks of this process. With errors of the transport, and no
 * others, there is a message in *err. */
int tutti_shared_pacer_begin(struct tutti_shared_pacer *shared_pacer, uint64_t generation,
                             struct tutti_err *err);
void tutti_shared_pacer_end(struct tutti_shared_pacer *shared_pacer);
/* This process has failed: nobody waits any more. */
void tutti_shared_pacer_break(struct tutti_shared_pacer *shared_pacer);
void tutti_shared_pacer_send(struct tutti_shared_pacer *shared_pacer,
                             const struct tutti_connection *connection, uint64_t bytes);
bool tutti_shared_pacer_arrived(const struct tutti_shared_pacer *shared_pacer,
                                const struct tutti_connection *connection);
/* The receiver of a connection has taken `connection->taken_count` messages. */
void tutti_shared_pacer_release(struct tutti_shared_pacer *shared_pacer,
                                const struct tutti_connection *connection);
uint64_t tutti_shared_pacer_released(const struct tutti_shared_pacer *shared_pacer,
                                     const struct tutti_connection *connection);
int tutti_shared_pacer_wait(struct tutti_shared_pacer *shared_pacer, tutti_ps until_ps,
                            bool sends_matter, tutti_ps *since_ps, struct tutti_err *err);

#endif
