/* The memory that the processes of a shared pacer share: shared_pacer_memory.c makes it,
 * shared_pacer.c conducts in it, shared_pacer_open.c is for before and after. Private to those
 * three. */
#ifndef TUTTI_RUNTIME_EXEC_EMULATE_SHARED_PACER_MEMORY_H
#define TUTTI_RUNTIME_EXEC_EMULATE_SHARED_PACER_MEMORY_H

#include <semaphore.h>

#include "runtime/exec/emulate/shared_pacer.h"

struct tutti_group;

/* Where a worker thread sleeps. */
enum {
    TUTTI_SHARED_PACER_NOWHERE,
    TUTTI_SHARED_PACER_ON_TRANSPORT, /* which a thread of its own process must wake */
    TUTTI_SHARED_PACER_ON_WAKEUP,    /* not to be woken by what comes from others */
};

/* One a process. What is not atomic is the process's own while it plays, and the timekeeper's while
 * nobody does. */
struct tutti_shared_pacer_member {
    _Alignas(TUTTI_CACHE_LINE) atomic_int state;
    atomic_bool rung;         /* something has happened: look again before waiting */
    atomic_bool sends_matter; /* as in struct tutti_pacer_worker, as is until_ps */
    atomic_int asleep;        /* where */
    tutti_ps until_ps;
    uint32_t rank_count;
    uint32_t sent_first; /* what it has sent is from here on in the list of all */
    uint32_t sent_count; /* since the clock went on */
    sem_t wakeup;
    sem_t transport_wakeup; /* of the thread that wakes who sleeps on the transport */
};

struct tutti_shared_pacer_sent {
    uint64_t bytes;
    uint32_t connection;
};

/* Followed by members, arrived counts, released counts, and what has been sent. */
struct tutti_shared_pacer_memory {
    _Alignas(TUTTI_CACHE_LINE) atomic_uint playing_count; /* processes; 0: the clock may go on */
    atomic_int stuck;                                     /* nothing can ever happen */
    atomic_int broken;                                    /* somebody has failed */
    atomic_uint_fast64_t generation;
    _Atomic tutti_ps now_ps; /* on the other machine's clock */
    int64_t base_s;          /* on the monotonic clock: the times that follow count from here */
    _Atomic tutti_ps epoch_ps;
    _Atomic tutti_ps due_ps; /* when the next instant is; past, if that is not known yet */
};

static inline struct tutti_shared_pacer_member *
tutti_shared_pacer_members(const struct tutti_shared_pacer *shared_pacer)
{
    return (struct tutti_shared_pacer_member *)(shared_pacer->memory + 1);
}

static inline struct tutti_shared_pacer_member *
tutti_shared_pacer_own_member(const struct tutti_shared_pacer *shared_pacer)
{
    return &tutti_shared_pacer_members(shared_pacer)[shared_pacer->process];
}

static inline atomic_uint_fast64_t *
tutti_shared_pacer_arrivals(const struct tutti_shared_pacer *shared_pacer)
{
    return (atomic_uint_fast64_t *)(tutti_shared_pacer_members(shared_pacer) +
                                    shared_pacer->process_count);
}

static inline atomic_uint_fast64_t *
tutti_shared_pacer_releases(const struct tutti_shared_pacer *shared_pacer)
{
    return tutti_shared_pacer_arrivals(shared_pacer) + shared_pacer->all.connection_count;
}

static inline struct tutti_shared_pacer_sent *
tutti_shared_pacer_sent(const struct tutti_shared_pacer *shared_pacer)
{
    return (struct tutti_shared_pacer_sent *)(tutti_shared_pacer_releases(shared_pacer) +
                                              shared_pacer->all.connection_count);
}

/* Collective: makes the memory, or finds that which the first process has made; in that one, the
 * shaper is told all connections. */
int tutti_shared_pacer_share(struct tutti_shared_pacer *shared_pacer, struct tutti_group *group,
                             tutti_ps deadline_ps, struct tutti_err *err);

#endif
