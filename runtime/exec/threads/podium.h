/* The podium: the conductor (conductor.h) of several processes of one host. What the ranks do, what
 * they have sent, and the clock are in memory that the processes share; a thread of the first
 * process, which has the shaper, keeps the clock, and one in each process rouses its ranks.
 * Messages go over the carrier all the same, as fast as that is, and are taken when they are due.
 *
 * A rank that waits for what the clock brings still moves bytes, its own and those of others. One
 * whose message is due, but not all there, counts as playing: the clock stands still until it is.
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
    uint32_t rank_count;
    struct tutti_wires all; /* of all processes, in the same order everywhere */
    pthread_t thread;
    bool has_thread;
    atomic_bool over;
    /* The first process's thread alone: */
    uint64_t *sent_counts; /* [wire of all] */
    uint64_t generation;
    tutti_ps since_ps;
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

/* Of the last game; in the first process. */
struct tutti_tempo tutti_podium_tempo(struct tutti_podium *podium);

tutti_ps tutti_podium_now(const struct tutti_podium *podium);  /* on the other machine's clock */
tutti_ps tutti_podium_time(const struct tutti_podium *podium); /* when that is due, by the hall */

tutti_ps tutti_podium_epoch(const struct tutti_podium *podium);

/* As those of the conductor. */
int tutti_podium_begin(struct tutti_podium *podium, uint32_t rank, uint64_t generation);
void tutti_podium_end(struct tutti_podium *podium, uint32_t rank);
void tutti_podium_send(struct tutti_podium *podium, const struct tutti_wire *wire, uint64_t bytes);
bool tutti_podium_arrived(const struct tutti_podium *podium, const struct tutti_wire *wire);
/* The receiver of a wire has taken `wire->taken_count` messages. */
void tutti_podium_release(struct tutti_podium *podium, const struct tutti_wire *wire);
uint64_t tutti_podium_released(const struct tutti_podium *podium, const struct tutti_wire *wire);
/* *since_ps: when the wait began, or 0. Returns early when there may be bytes to move. */
int tutti_podium_wait(struct tutti_podium *podium, uint32_t rank, tutti_ps until_ps,
                      bool sends_matter, tutti_ps *since_ps);

#endif
