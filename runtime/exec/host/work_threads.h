/* Work threads: they really do the works of COMPUTE steps, while the threads of the ranks go on
 * with messages. A rank has its works done by one of them, never two at a time, in the order in
 * which it passes them on. Who has nothing to do sleeps. Private to runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_WORK_THREADS_H
#define TUTTI_RUNTIME_EXEC_HOST_WORK_THREADS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/status.h"

struct tutti_wait_set;
struct tutti_work_thread;
struct tutti_work_threads;

/* A work that is handed over; of one lane, which has one at a time. The rank's thread fills it, the
 * work thread has it from post until `ended`. */
struct tutti_posted_work {
    struct tutti_work_call call;
    struct tutti_rank_work *rank_work;
    struct tutti_posted_work *next;
    bool wakes;          /* the rank is woken at the end, whether it waits or not */
    atomic_bool awaited; /* it is about to sleep until the end */
    atomic_bool ended;   /* what follows is there */
    int status;
    tutti_ps posted_ps; /* on the wait set's clock, as all times here */
    tutti_ps start_ps;
    tutti_ps end_ps;
};

/* What a rank has handed over; of its thread, but for what says otherwise. */
struct tutti_rank_work {
    bool served; /* by a work thread; the others stay as they are */
    struct tutti_work_thread *thread;
    uint32_t worker_index;          /* who is woken */
    struct tutti_posted_work *jobs; /* [lane] */
    uint32_t job_count;             /* posted, and not taken */
    bool crowded;                   /* there are more threads on this host than processors */
    tutti_ps *took_ps;              /* [work]: the last time; 0: not done yet */
    uint64_t late_count;  /* works of an emulated machine that took longer here than there */
    uint64_t done_count;  /* all of those */
    double slowdown_min;  /* at which the slowest of them would have been in time */
    bool failed;          /* the work thread's: one has, and no other is begun */
    struct tutti_err err; /* why */
};

/* All borrowed until close. */
struct tutti_work_threads_opts {
    struct tutti_wait_set *wait_set;
    const struct tutti_schedule *schedule;
    uint32_t first_rank;
    uint32_t own_count;
    const uint32_t *worker_of; /* [own]: with a pacer; NULL: the rank */
    bool remote;               /* other processes have ranks, too */
    uint32_t thread_max;       /* fewer threads than ranks serve several each */
    const cpu_set_t *processors;
    bool pins;              /* the ranks of this host have processors of their own: */
    uint32_t pinned_count;  /* so many, in turn, */
    uint32_t pinned_before; /* and so many before those of this process */
};

/* Finds the ranks of which works can be done beside something else; *ret is NULL if there is none.
 * With a pacer that is every rank with a real work; else one with messages in another lane, or to
 * other processes. */
int tutti_work_threads_open(const struct tutti_work_threads_opts *opts,
                            struct tutti_work_threads **ret, struct tutti_err *err);
/* All that follow take NULL: nothing happens. */
int tutti_work_threads_start(struct tutti_work_threads *threads, struct tutti_err *err);
void tutti_work_threads_join(struct tutti_work_threads *threads); /* when nothing is posted */
void tutti_work_threads_close(struct tutti_work_threads *threads);
/* Of rank first_rank + own; NULL: its works are done in its own thread. */
struct tutti_rank_work *tutti_work_threads_of(struct tutti_work_threads *threads, uint32_t own);

/* ---- in the rank's thread ---- */

/* Passes on jobs[lane], which has its call. `wakes`: the rank is woken at the end, as by
 * tutti_wait_set_wake. */
void tutti_rank_work_post(struct tutti_rank_work *rank_work, uint32_t lane, bool wakes);
/* From now on the rank will be woken. Whether the job has not ended. */
bool tutti_rank_work_await(struct tutti_rank_work *rank_work, uint32_t lane);
/* After the end. When this returns the rank will not be woken for the job any more, unless it was
 * posted with `wakes`. */
void tutti_rank_work_take(struct tutti_rank_work *rank_work, uint32_t lane);
/* The play has failed: what has not begun is dropped, and what runs waited for. NULL: nothing. */
void tutti_rank_work_withdraw(struct tutti_rank_work *rank_work);

static inline bool tutti_rank_work_has_ended(const struct tutti_rank_work *rank_work, uint32_t lane)
{
    return atomic_load(&rank_work->jobs[lane].ended);
}

#endif
