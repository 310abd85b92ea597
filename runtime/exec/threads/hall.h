/* Where the threads of a run meet: waiting, waking, the barrier, and how a run is broken off.
 * Private to runtime/exec/threads. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_HALL_H
#define TUTTI_RUNTIME_EXEC_THREADS_HALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/threads/carrier.h"
#include "runtime/status.h"
#include "runtime/units.h"

enum { TUTTI_CACHE_LINE = 64 };

/* One a rank. A rank that finds nothing to do spins, yields, and at last sleeps on its bell: it
 * raises `asleep`, looks once more, and only then sleeps; whoever brings it work publishes that
 * first and reads `asleep` after. Both are sequentially consistent, so one sees the other. */
struct tutti_bell {
    _Alignas(TUTTI_CACHE_LINE) atomic_int asleep;
    pthread_mutex_t lock; /* guards the sleep itself: no wake-up between check and wait */
    pthread_cond_t woken;
};

struct tutti_hall {
    uint32_t first_rank;           /* of this process, which alone have bells */
    uint32_t rank_count;           /* of this process */
    uint32_t spin_count;           /* looks before the first yield */
    bool crowded;                  /* with a carrier: more threads on this host than processors */
    tutti_ps deadline_ps;          /* of one wait */
    struct tutti_carrier *carrier; /* NULL: there are no other processes */
    int64_t epoch_s; /* where the hall's clock begins, on the monotonic clock: picoseconds since
                             the machine was started would be too many after 106 days */
    struct tutti_bell *bells;
    /* Ranks that have slept since their last fruitless look, or have ended; for a moment also less,
     * never more but for one whose deadline has passed. When it reaches rank_count, nobody is left
     * who could bring anybody work: a deadlock, exactly. With other processes it never does: from
     * here nobody can say that they are idle, so a deadline decides. */
    _Alignas(TUTTI_CACHE_LINE) atomic_uint idle_count;
    atomic_uint left_count;                        /* ranks that have ended */
    _Alignas(TUTTI_CACHE_LINE) atomic_int stopped; /* 1: every rank leaves as soon as it sees it */
    atomic_int blamed;                             /* 1: status and err have an owner */
    int status;                                    /* first error; read after the threads joined */
    struct tutti_err err;
    _Alignas(TUTTI_CACHE_LINE) atomic_uint arrived;
    atomic_uint generation; /* of the barrier */
};

/* A rank may overwrite what another of its process has read, once what came of that has gone to
 * another process and come back. That orders the two, but not for ThreadSanitizer, which sees one
 * process: it is told where ranks hand messages to the carrier and where they look for them. */
#if defined(__SANITIZE_THREAD__)
void __tsan_release(void *);
void __tsan_acquire(void *);
static inline void tutti_hall_goes_out(struct tutti_hall *hall)
{
    __tsan_release(&hall->carrier);
}
static inline void tutti_hall_comes_in(struct tutti_hall *hall)
{
    __tsan_acquire(&hall->carrier);
}
#else
static inline void tutti_hall_goes_out(struct tutti_hall *hall)
{
    (void)hall;
}
static inline void tutti_hall_comes_in(struct tutti_hall *hall)
{
    (void)hall;
}
#endif

/* One wait of one rank: zero it, and call rest after each fruitless look. */
struct tutti_nap {
    uint32_t look_count;
    bool raised;             /* our `asleep` is up; the look that follows decides */
    tutti_ps yield_until_ps; /* 0: not yielding yet */
    tutti_ps since_ps;       /* when the patience began to be measured; 0: not yet */
};

/* `ps` >= 0 after `now_ps`, or as far off as can be said. */
static inline tutti_ps tutti_hall_after(tutti_ps now_ps, tutti_ps ps)
{
    return ps > INT64_MAX - now_ps ? INT64_MAX : now_ps + ps;
}

int tutti_hall_open(struct tutti_hall *hall, uint32_t rank_count, uint32_t processor_count,
                    tutti_ps deadline_ps, struct tutti_err *err);
void tutti_hall_close(struct tutti_hall *hall);

/* Other processes have ranks as well, reached through `carrier`, in which the ranks now sleep.
 * Before the threads start. */
void tutti_hall_connect(struct tutti_hall *hall, struct tutti_carrier *carrier, uint32_t first_rank,
                        bool crowded);

tutti_ps tutti_hall_now(const struct tutti_hall *hall); /* > 0, from about when it was opened */
void tutti_hall_breathe(void); /* tells the processor that this is a spinning wait */

/* After a fruitless look. `until_ps` > 0: there will be something to do at that time, so this is no
 * deadlock and no deadline runs. Returns 0 (look again), -TUTTI_ETIME (the deadline passed),
 * -TUTTI_ECHECK (nobody can ever bring work), -TUTTI_EIO (the run is broken off). */
int tutti_hall_rest(struct tutti_hall *hall, uint32_t rank, struct tutti_nap *nap,
                    tutti_ps until_ps);

/* After a look that found something: ends the wait. */
void tutti_hall_rise(struct tutti_hall *hall, uint32_t rank, struct tutti_nap *nap);

void tutti_hall_wake_up(struct tutti_hall *hall, uint32_t rank);

/* Work for `rank` has been published with a seq_cst store: wakes it if it sleeps. */
static inline void tutti_hall_wake(struct tutti_hall *hall, uint32_t rank)
{
    if (atomic_load(&hall->bells[rank - hall->first_rank].asleep) != 0)
        tutti_hall_wake_up(hall, rank);
}

/* For who is told by others when to rise, and keeps count himself of who sleeps: lies down, so that
 * a ring from now on ends the sleep; sleeps until then, until `limit_ps`, or until the run is
 * broken off. */
void tutti_hall_lie_down(struct tutti_hall *hall, uint32_t rank);
void tutti_hall_sleep(struct tutti_hall *hall, uint32_t rank, tutti_ps limit_ps);
void tutti_hall_ring(struct tutti_hall *hall, uint32_t rank);

/* Having lain down: whether nobody has rung yet. */
static inline bool tutti_hall_lies(const struct tutti_hall *hall, uint32_t rank)
{
    return atomic_load(&hall->bells[rank - hall->first_rank].asleep) != 0;
}

/* Moves what comes from other processes and goes there, if there are any: as `move` of carriers. */
static inline int tutti_hall_move(struct tutti_hall *hall, uint32_t rank, struct tutti_err *err)
{
    return hall->carrier == NULL ? 0 : hall->carrier->ops->move(hall->carrier, rank, err);
}

/* All ranks of this process meet. Errors as rest. */
int tutti_hall_meet(struct tutti_hall *hall, uint32_t rank);

/* This rank has played all it had to play. -TUTTI_ECHECK if that leaves others waiting for ever. */
int tutti_hall_leave(struct tutti_hall *hall);

/* Breaks the run off; the first caller's status and message stay. */
void tutti_hall_stop(struct tutti_hall *hall, int status, const struct tutti_err *err);

#endif
