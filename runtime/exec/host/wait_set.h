/* Where the threads of a run meet: waiting, waking, the barrier, and how a run is broken off.
 * Private to runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_WAIT_SET_H
#define TUTTI_RUNTIME_EXEC_HOST_WAIT_SET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/transport/transport.h"
#include "runtime/status.h"
#include "runtime/units.h"

enum { TUTTI_CACHE_LINE = 64 };

/* Zeroed memory for `count` >= 0 things, in cache lines of its own: what one thread writes must not
 * lie beside what another one reads. */
void *tutti_lines_alloc(size_t count, size_t bytes);

/* One a rank. A rank that finds nothing to do spins, yields, and at last sleeps: it
 * raises `asleep`, looks once more, and only then sleeps; whoever brings it work publishes that
 * first and reads `asleep` after. Both are sequentially consistent, so one sees the other. */
struct tutti_sleeper {
    _Alignas(TUTTI_CACHE_LINE) atomic_int asleep;
    pthread_mutex_t lock; /* guards the sleep itself: no wake-up between check and wait */
    pthread_cond_t woken;
};

struct tutti_wait_set {
    uint32_t first_rank;  /* of this process, which alone have sleepers */
    uint32_t rank_count;  /* of this process */
    uint32_t spin_count;  /* looks before the first yield */
    bool crowded;         /* with a transport: more threads on this host than processors */
    tutti_ps deadline_ps; /* of one wait */
    struct tutti_transport *transport; /* NULL: there are no other processes */
    int64_t epoch_s; /* where the wait set's clock begins, on the monotonic clock: picoseconds since
                             the machine was started would be too many after 106 days */
    struct tutti_sleeper *sleepers;
    /* Ranks that have slept since their last fruitless look, or have ended; for a moment also less,
     * never more but for one whose deadline has passed. When it reaches rank_count, nobody is left
     * who could bring anybody work: a deadlock, exactly. With other processes it never does: from
     * here nobody can say that they are idle, so a deadline decides. */
    _Alignas(TUTTI_CACHE_LINE) atomic_uint idle_count;
    atomic_uint left_count;                        /* ranks that have ended */
    _Alignas(TUTTI_CACHE_LINE) atomic_int stopped; /* 1: every rank leaves as soon as it sees it */
    atomic_int blamed;                             /* 1: status and err have an owner */
    atomic_int told;                               /* 1: it has written them */
    int status;                                    /* first error */
    struct tutti_err err;
    _Alignas(TUTTI_CACHE_LINE) atomic_uint arrived;
    atomic_uint generation; /* of the barrier */
};

/* A rank may overwrite what another of its process has read, once what came of that has gone to
 * another process and come back. That orders the two, but not for ThreadSanitizer, which sees one
 * process: it is told where ranks hand messages to the transport and where they look for them. */
#if defined(__SANITIZE_THREAD__)
void __tsan_release(void *);
void __tsan_acquire(void *);
static inline void tutti_wait_set_released(struct tutti_wait_set *wait_set)
{
    __tsan_release(&wait_set->transport);
}
static inline void tutti_wait_set_acquired(struct tutti_wait_set *wait_set)
{
    __tsan_acquire(&wait_set->transport);
}
#else
static inline void tutti_wait_set_released(struct tutti_wait_set *wait_set)
{
    (void)wait_set;
}
static inline void tutti_wait_set_acquired(struct tutti_wait_set *wait_set)
{
    (void)wait_set;
}
#endif

/* One wait of one rank: zero it, and call rest after each fruitless look. */
struct tutti_backoff {
    uint32_t look_count;
    bool raised;             /* our `asleep` is up; the look that follows decides */
    tutti_ps yield_until_ps; /* 0: not yielding yet */
    tutti_ps since_ps;       /* when the patience began to be measured; 0: not yet */
};

/* `ps` >= 0 after `now_ps`, or as far off as can be said. */
static inline tutti_ps tutti_wait_set_after(tutti_ps now_ps, tutti_ps ps)
{
    return ps > INT64_MAX - now_ps ? INT64_MAX : now_ps + ps;
}

int tutti_wait_set_open(struct tutti_wait_set *wait_set, uint32_t rank_count,
                        uint32_t processor_count, tutti_ps deadline_ps, struct tutti_err *err);
void tutti_wait_set_close(struct tutti_wait_set *wait_set);

/* Other processes have ranks as well, reached through `transport`, in which the ranks now sleep.
 * Before the threads start. */
void tutti_wait_set_connect(struct tutti_wait_set *wait_set, struct tutti_transport *transport,
                            uint32_t first_rank, bool crowded);

tutti_ps
tutti_wait_set_now(const struct tutti_wait_set *wait_set); /* > 0, from about when it was opened */
void tutti_cpu_relax(void); /* tells the processor that this is a spinning wait */

/* After a fruitless look. `until_ps` > 0: there will be something to do at that time, so this is no
 * deadlock and no deadline runs. Returns 0 (look again), -TUTTI_ETIME (the deadline passed),
 * -TUTTI_ECHECK (nobody can ever bring work), -TUTTI_EIO (the run is broken off). */
int tutti_wait_set_wait(struct tutti_wait_set *wait_set, uint32_t rank,
                        struct tutti_backoff *backoff, tutti_ps until_ps);

/* Before a wait: it neither spins nor yields, but sleeps after one more look. */
void tutti_wait_set_rest_at_once(const struct tutti_wait_set *wait_set,
                                 struct tutti_backoff *backoff);

/* After a look that found something: ends the wait. */
void tutti_wait_set_resume(struct tutti_wait_set *wait_set, uint32_t rank,
                           struct tutti_backoff *backoff);

void tutti_wait_set_wake_up(struct tutti_wait_set *wait_set, uint32_t rank);

/* Work for `rank` has been published with a seq_cst store: wakes it if it sleeps. */
static inline void tutti_wait_set_wake(struct tutti_wait_set *wait_set, uint32_t rank)
{
    if (atomic_load(&wait_set->sleepers[rank - wait_set->first_rank].asleep) != 0)
        tutti_wait_set_wake_up(wait_set, rank);
}

/* For who is told by others when to rise, and keeps count himself of who sleeps: lies down, so that
 * a ring from now on ends the sleep; sleeps until then, until `limit_ps`, or until the run is
 * broken off. */
void tutti_wait_set_prepare(struct tutti_wait_set *wait_set, uint32_t rank);
void tutti_wait_set_sleep(struct tutti_wait_set *wait_set, uint32_t rank, tutti_ps limit_ps);
void tutti_wait_set_signal(struct tutti_wait_set *wait_set, uint32_t rank);

/* Having lain down: whether nobody has rung yet. */
static inline bool tutti_wait_set_is_prepared(const struct tutti_wait_set *wait_set, uint32_t rank)
{
    return atomic_load(&wait_set->sleepers[rank - wait_set->first_rank].asleep) != 0;
}

/* Moves what comes from other processes and goes there, if there are any: as `move` of transports.
 */
static inline int tutti_wait_set_move(struct tutti_wait_set *wait_set, uint32_t rank,
                                      struct tutti_err *err)
{
    return wait_set->transport == NULL
               ? 0
               : wait_set->transport->ops->move(wait_set->transport, rank, err);
}

/* Waits for something that nobody here owes: as wait, but it is no deadlock and has no deadline. */
int tutti_wait_set_idle(struct tutti_wait_set *wait_set, uint32_t rank,
                        struct tutti_backoff *backoff);

/* All ranks of this process meet. Errors as wait. */
int tutti_wait_set_barrier(struct tutti_wait_set *wait_set, uint32_t rank);

/* This rank has played all it had to play. -TUTTI_ECHECK if that leaves others waiting for ever. */
int tutti_wait_set_leave(struct tutti_wait_set *wait_set);
/* All ranks have left, and will play again. */
void tutti_wait_set_return(struct tutti_wait_set *wait_set);

/* Breaks the run off; the first caller's status and message stay. */
void tutti_wait_set_stop(struct tutti_wait_set *wait_set, int status, const struct tutti_err *err);
/* With what the run has been broken off, by whoever it was; not before. */
int tutti_wait_set_verdict(const struct tutti_wait_set *wait_set, struct tutti_err *err);

#endif
