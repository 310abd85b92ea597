/* The podium: the conductor (conductor.h) of several processes of one host. What they do, what they
 * have sent, and the clock are in memory that they share, without locks. A thread plays all ranks
 * of its process (ensemble.h); that of the first process, the keeper, has the shaper and keeps the
 * clock, also when its own ranks have ended. Messages go over the carrier all the same, as fast as
 * that is, and are taken when they are due.
 *
 * A process that waits for what the clock brings still moves bytes, its own and those of others.
 * One that has a message due which is not all there counts as playing: the clock stands still until
 * it is. Who waits spins while something is near, and else sleeps on the carrier; since other
 * processes cannot ring there, a thread of its own does that for them.
 * Private to runtime/exec/threads. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_PODIUM_H
#define TUTTI_RUNTIME_EXEC_THREADS_PODIUM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/threads/hall.h"
#include "runtime/exec/threads/wire.h"
#include "runtime/shaper.h"
#include "runtime/threads.h"

struct tutti_crew;
struct tutti_schedule;
struct tutti_podium_memory;

enum { TUTTI_PODIUM_PROCESSES_MAX = 1024 };

struct tutti_podium {
    struct tutti_podium_memory *memory; /* shared */
    size_t memory_bytes;
    struct tutti_hall *hall;
    struct tutti_shaper *shaper;
    double slowdown;
    uint32_t process; /* this one */
    uint32_t process_count;
    bool spins; /* no more processes than processors */
    bool small; /* what is under way does not wait for who receives it */
    uint32_t rank_count;
    struct tutti_wires all; /* of all processes, in the same order everywhere */
    pthread_t thread;       /* wakes the player when others have rung */
    bool has_thread;
    atomic_bool over;
    /* The keeper's alone: */
    uint64_t *sent_counts; /* [wire of all] */
    tutti_ps since_ps;     /* when the last instant came */
    struct tutti_tempo tempo;
};

/* In each process before the game begins: finds the wires of all, and their numbers for `own`. */
int tutti_podium_prepare(struct tutti_podium *podium, struct tutti_wires *own,
                         const struct tutti_schedule *schedule, struct tutti_err *err);
/* Collective: the processes share memory from now on. `hall` and `shaper` are borrowed. */
int tutti_podium_open(struct tutti_podium *podium, struct tutti_hall *hall,
                      struct tutti_shaper *shaper, double slowdown, struct tutti_crew *crew,
                      tutti_ps deadline_ps, struct tutti_err *err);
void tutti_podium_close(struct tutti_podium *podium);

tutti_ps tutti_podium_now(const struct tutti_podium *podium);  /* on the other machine's clock */
tutti_ps tutti_podium_time(const struct tutti_podium *podium); /* when that is due, by the hall */

tutti_ps tutti_podium_epoch(const struct tutti_podium *podium);

/* As those of the conductor, for all ranks of this process. With errors of the carrier, and no
 * others, there is a message in *err. */
int tutti_podium_begin(struct tutti_podium *podium, uint64_t generation, struct tutti_err *err);
void tutti_podium_end(struct tutti_podium *podium);
/* This process has failed: nobody waits any more. */
void tutti_podium_break(struct tutti_podium *podium);
void tutti_podium_send(struct tutti_podium *podium, const struct tutti_wire *wire, uint64_t bytes);
bool tutti_podium_arrived(const struct tutti_podium *podium, const struct tutti_wire *wire);
/* The receiver of a wire has taken `wire->taken_count` messages. */
void tutti_podium_release(struct tutti_podium *podium, const struct tutti_wire *wire);
uint64_t tutti_podium_released(const struct tutti_podium *podium, const struct tutti_wire *wire);
int tutti_podium_wait(struct tutti_podium *podium, tutti_ps until_ps, bool sends_matter,
                      tutti_ps *since_ps, struct tutti_err *err);

#endif
