/* The memory that the processes of a podium share: podium_memory.c makes it, podium.c conducts in
 * it. Private to those two. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_PODIUM_MEMORY_H
#define TUTTI_RUNTIME_EXEC_THREADS_PODIUM_MEMORY_H

#include "runtime/exec/threads/podium.h"

struct tutti_crew;

struct tutti_podium_seat {
    _Alignas(TUTTI_CACHE_LINE) atomic_int state; /* written under the lock */
    atomic_bool sends_matter;
    bool rung;
    bool called; /* its process is to rouse it */
    uint32_t process;
    tutti_ps until_ps;
};

struct tutti_podium_sent {
    uint64_t bytes;
    uint32_t wire;
};

/* Followed by seats, arrived counts, released counts, and what has been sent. */
struct tutti_podium_memory {
    _Alignas(TUTTI_CACHE_LINE) pthread_mutex_t lock; /* guards all but what is atomic */
    uint32_t playing_count;
    uint32_t waiting_count;
    uint32_t sent_count; /* since the clock went on */
    uint64_t generation;
    int64_t epoch_s;  /* on the monotonic clock, */
    int64_t epoch_ps; /* and picoseconds on top */
    _Atomic tutti_ps now_ps;
    atomic_int stopped; /* somebody died with the lock in hand */
    atomic_int stuck;   /* nothing can ever happen */
    tutti_ps clock_ps;
    pthread_cond_t bells[TUTTI_PODIUM_PROCESSES_MAX];
};

static inline struct tutti_podium_seat *tutti_podium_seats(const struct tutti_podium *podium)
{
    return (struct tutti_podium_seat *)(podium->memory + 1);
}

static inline atomic_uint_fast64_t *tutti_podium_arrivals(const struct tutti_podium *podium)
{
    return (atomic_uint_fast64_t *)(tutti_podium_seats(podium) + podium->rank_count);
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
