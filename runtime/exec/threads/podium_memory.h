/* The memory that the processes of a podium share: podium_memory.c makes it, podium.c conducts in
 * it, podium_open.c is for before and after. Private to those three. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_PODIUM_MEMORY_H
#define TUTTI_RUNTIME_EXEC_THREADS_PODIUM_MEMORY_H

#include <semaphore.h>

#include "runtime/exec/threads/podium.h"

struct tutti_crew;

/* Where a player sleeps. */
enum {
    TUTTI_PODIUM_NOWHERE,
    TUTTI_PODIUM_ON_CARRIER, /* which a thread of its own process must wake */
    TUTTI_PODIUM_ON_BELL,    /* not to be woken by what comes from others */
};

/* One a process. What is not atomic is the process's own while it plays, and the keeper's while
 * nobody does. */
struct tutti_podium_seat {
    _Alignas(TUTTI_CACHE_LINE) atomic_int state;
    atomic_bool rung;         /* something has happened: look again before waiting */
    atomic_bool sends_matter; /* as in struct tutti_seat, as is until_ps */
    atomic_int asleep;        /* where */
    tutti_ps until_ps;
    uint32_t rank_count;
    uint32_t sent_first; /* what it has sent is from here on in the list of all */
    uint32_t sent_count; /* since the clock went on */
    sem_t bell;
    sem_t carrier_bell; /* of the thread that wakes who sleeps on the carrier */
};

struct tutti_podium_sent {
    uint64_t bytes;
    uint32_t wire;
};

/* Followed by seats, arrived counts, released counts, and what has been sent. */
struct tutti_podium_memory {
    _Alignas(TUTTI_CACHE_LINE) atomic_uint playing_count; /* processes; 0: the clock may go on */
    atomic_int stuck;                                     /* nothing can ever happen */
    atomic_int broken;                                    /* somebody has failed */
    atomic_uint_fast64_t generation;
    _Atomic tutti_ps now_ps; /* on the other machine's clock */
    int64_t base_s;          /* on the monotonic clock: the times that follow count from here */
    _Atomic tutti_ps epoch_ps;
    _Atomic tutti_ps due_ps; /* when the next instant is; past, if that is not known yet */
};

static inline struct tutti_podium_seat *tutti_podium_seats(const struct tutti_podium *podium)
{
    return (struct tutti_podium_seat *)(podium->memory + 1);
}

static inline struct tutti_podium_seat *tutti_podium_own_seat(const struct tutti_podium *podium)
{
    return &tutti_podium_seats(podium)[podium->process];
}

static inline atomic_uint_fast64_t *tutti_podium_arrivals(const struct tutti_podium *podium)
{
    return (atomic_uint_fast64_t *)(tutti_podium_seats(podium) + podium->process_count);
}

static inline atomic_uint_fast64_t *tutti_podium_releases(const struct tutti_podium *podium)
{
    return tutti_podium_arrivals(podium) + podium->all.wire_count;
}

static inline struct tutti_podium_sent *tutti_podium_sent(const struct tutti_podium *podium)
{
    return (struct tutti_podium_sent *)(tutti_podium_releases(podium) + podium->all.wire_count);
}

/* Collective: makes the memory, or finds that which the first process has made; in that one, the
 * shaper is told all connections. */
int tutti_podium_share(struct tutti_podium *podium, struct tutti_crew *crew, tutti_ps deadline_ps,
                       struct tutti_err *err);

#endif
