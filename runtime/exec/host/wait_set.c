/* Waiting without locks on the data path: spin, yield, sleep with a deadline; and the barrier. */
#include "runtime/exec/host/wait_set.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    /* A hand-off between spinning cores takes 50 to 250 ns and a wake-up 11 to 15 us (Zen 4, KVM),
     * so a wait spins for a few wake-ups' worth of time before it sleeps. */
    SPINS_ALONE = 2000,
    SPINS_SHARED = 2, /* more ranks than processors: the one waited for may need this one */
};

/* Yielding goes on for a few wake-ups' worth of time too, not for so many turns: on a busy machine
 * a single yield can take milliseconds, and whoever sleeps stands in nobody's way. */
static const tutti_ps YIELD_PS = 50 * TUTTI_PS_PER_US;

void *tutti_lines_alloc(size_t count, size_t bytes)
{
    size_t rounded;
    void *memory;

    assert(bytes > 0);
    if (count > (SIZE_MAX - TUTTI_CACHE_LINE) / bytes)
        return NULL;
    rounded = (count * bytes / TUTTI_CACHE_LINE + 1) * TUTTI_CACHE_LINE;
    memory = aligned_alloc(TUTTI_CACHE_LINE, rounded);
    if (memory != NULL)
        memset(memory, 0, rounded);
    return memory;
}

/* On the monotonic clock. */
static struct timespec timespec_of(const struct tutti_wait_set *wait_set, tutti_ps ps)
{
    return (struct timespec){.tv_sec = (time_t)(wait_set->epoch_s + ps / TUTTI_PS_PER_S),
                             .tv_nsec = (long)(ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};
}

/* Sleeps until woken, until `limit_ps`, or until the run is broken off; in a transport also less.
 */
static void sleep_on(struct tutti_wait_set *wait_set, uint32_t rank, tutti_ps limit_ps)
{
    struct tutti_sleeper *sleeper = &wait_set->sleepers[rank - wait_set->first_rank];
    struct timespec limit = timespec_of(wait_set, limit_ps);
    int status = 0;

    if (wait_set->transport != NULL) {
        tutti_ps timeout_ps = limit_ps - tutti_wait_set_now(wait_set);

        if (timeout_ps > 0 && atomic_load(&wait_set->stopped) == 0)
            wait_set->transport->ops->rest(wait_set->transport, rank, timeout_ps);
        return;
    }
    pthread_mutex_lock(&sleeper->lock);
    while (status == 0 && atomic_load(&sleeper->asleep) != 0 &&
           atomic_load(&wait_set->stopped) == 0)
        status = pthread_cond_timedwait(&sleeper->woken, &sleeper->lock, &limit);
    pthread_mutex_unlock(&sleeper->lock);
}

static int sleeper_open(struct tutti_sleeper *sleeper)
{
    pthread_condattr_t attr;
    int status = pthread_condattr_init(&attr);

    if (status != 0)
        return status;
    status = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (status == 0)
        status = pthread_cond_init(&sleeper->woken, &attr);
    pthread_condattr_destroy(&attr);
    if (status != 0)
        return status;
    status = pthread_mutex_init(&sleeper->lock, NULL);
    if (status != 0)
        pthread_cond_destroy(&sleeper->woken);
    return status;
}

static void sleepers_close(struct tutti_wait_set *wait_set, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_destroy(&wait_set->sleepers[i].lock);
        pthread_cond_destroy(&wait_set->sleepers[i].woken);
    }
    free(wait_set->sleepers);
    wait_set->sleepers = NULL;
}

int tutti_wait_set_open(struct tutti_wait_set *wait_set, uint32_t rank_count,
                        uint32_t processor_count, tutti_ps deadline_ps, struct tutti_err *err)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    *wait_set = (struct tutti_wait_set){
        .epoch_s = now.tv_sec - 1, /* so that no time is 0 */
        .rank_count = rank_count,
        .spin_count = rank_count <= processor_count ? SPINS_ALONE : SPINS_SHARED,
        .deadline_ps = deadline_ps,
    };
    wait_set->sleepers =
        aligned_alloc(TUTTI_CACHE_LINE, rank_count * sizeof(wait_set->sleepers[0]));
    if (wait_set->sleepers == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < rank_count; i++) {
        atomic_init(&wait_set->sleepers[i].asleep, 0);
        if (sleeper_open(&wait_set->sleepers[i]) != 0) {
            sleepers_close(wait_set, i);
            return tutti_fail(err, TUTTI_EIO, "cannot make a lock for rank %u", i);
        }
    }
    return 0;
}

void tutti_wait_set_close(struct tutti_wait_set *wait_set)
{
    if (wait_set->sleepers != NULL)
        sleepers_close(wait_set, wait_set->rank_count);
}

void tutti_wait_set_connect(struct tutti_wait_set *wait_set, struct tutti_transport *transport,
                            uint32_t first_rank, bool crowded)
{
    wait_set->transport = transport;
    wait_set->first_rank = first_rank;
    wait_set->crowded = crowded;
    wait_set->spin_count = 0; /* each look asks the system: the clock alone says when to sleep */
}

/* Ranks that must be idle for nobody to be left who could bring work. */
static uint32_t everybody(const struct tutti_wait_set *wait_set)
{
    return wait_set->rank_count + (wait_set->transport != NULL);
}

tutti_ps tutti_wait_set_now(const struct tutti_wait_set *wait_set)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)(now.tv_sec - wait_set->epoch_s) * TUTTI_PS_PER_S +
           (tutti_ps)now.tv_nsec * TUTTI_PS_PER_NS;
}

int tutti_wait_set_wait(struct tutti_wait_set *wait_set, uint32_t rank,
                        struct tutti_backoff *backoff, tutti_ps until_ps)
{
    struct tutti_sleeper *sleeper = &wait_set->sleepers[rank - wait_set->first_rank];
    tutti_ps limit_ps;
    tutti_ps now_ps;
    bool alone;
    bool woken;

    if (atomic_load_explicit(&wait_set->stopped, memory_order_relaxed) != 0)
        return -TUTTI_EIO;
    backoff->look_count++;
    if (backoff->look_count <= wait_set->spin_count) {
        tutti_cpu_relax();
        return 0;
    }
    now_ps = tutti_wait_set_now(wait_set);
    if (backoff->yield_until_ps == 0)
        backoff->yield_until_ps = now_ps + YIELD_PS;
    if (backoff->since_ps == 0 || until_ps > 0)
        backoff->since_ps = now_ps;
    if (now_ps < backoff->yield_until_ps) {
        if (wait_set->transport != NULL && !wait_set->crowded)
            tutti_cpu_relax();
        else
            sched_yield();
        return 0;
    }
    if (!backoff->raised) {
        backoff->raised = true;
        atomic_store(&sleeper->asleep, 1);
        return 0;
    }
    backoff->raised = false;
    backoff->look_count = 0;
    backoff->yield_until_ps = 0;
    /* One who will have something to do later on is not idle. */
    alone = until_ps == 0 && atomic_fetch_add(&wait_set->idle_count, 1) + 1 == everybody(wait_set);
    limit_ps =
        until_ps > 0 ? until_ps : tutti_wait_set_after(backoff->since_ps, wait_set->deadline_ps);
    if (!alone)
        sleep_on(wait_set, rank, limit_ps);
    /* A waker has counted us down; who woke by himself does it himself. */
    woken = atomic_exchange(&sleeper->asleep, 0) == 0;
    if (until_ps == 0 && !woken)
        atomic_fetch_sub(&wait_set->idle_count, 1);
    else if (until_ps > 0 && woken)
        atomic_fetch_add(&wait_set->idle_count, 1); /* we had not counted up */
    if (alone)
        return -TUTTI_ECHECK;
    return until_ps == 0 && !woken && tutti_wait_set_now(wait_set) >= limit_ps ? -TUTTI_ETIME : 0;
}

void tutti_wait_set_rest_at_once(const struct tutti_wait_set *wait_set,
                                 struct tutti_backoff *backoff)
{
    backoff->look_count = wait_set->spin_count;
    backoff->yield_until_ps = 1; /* long ago */
}

void tutti_wait_set_resume(struct tutti_wait_set *wait_set, uint32_t rank,
                           struct tutti_backoff *backoff)
{
    /* A waker who saw our sleeper up has counted us down already; we had not yet counted up. */
    if (backoff->raised &&
        atomic_exchange(&wait_set->sleepers[rank - wait_set->first_rank].asleep, 0) == 0)
        atomic_fetch_add(&wait_set->idle_count, 1);
    *backoff = (struct tutti_backoff){0};
}

/* Ends the sleep of a rank, or its next one. */
static void ring(struct tutti_wait_set *wait_set, uint32_t rank)
{
    struct tutti_sleeper *sleeper = &wait_set->sleepers[rank - wait_set->first_rank];

    if (wait_set->transport != NULL) {
        wait_set->transport->ops->wake(wait_set->transport, rank);
        return;
    }
    /* Who is about to sleep does so by now; and when it wakes, it finds the lock free. */
    pthread_mutex_lock(&sleeper->lock);
    pthread_mutex_unlock(&sleeper->lock);
    pthread_cond_signal(&sleeper->woken);
}

void tutti_wait_set_wake_up(struct tutti_wait_set *wait_set, uint32_t rank)
{
    struct tutti_sleeper *sleeper = &wait_set->sleepers[rank - wait_set->first_rank];

    /* Down before the sleeper: were it after, one who has seen the sleeper could sleep again and be
     * counted twice while we are held up in between, and all would seem idle. Too low does no harm
     * as long as we are awake ourselves. */
    atomic_fetch_sub(&wait_set->idle_count, 1);
    if (atomic_exchange(&sleeper->asleep, 0) == 0) {
        atomic_fetch_add(&wait_set->idle_count, 1); /* somebody else has, or it woke by itself */
        return;
    }
    ring(wait_set, rank);
}

void tutti_wait_set_prepare(struct tutti_wait_set *wait_set, uint32_t rank)
{
    atomic_store(&wait_set->sleepers[rank - wait_set->first_rank].asleep, 1);
}

void tutti_wait_set_sleep(struct tutti_wait_set *wait_set, uint32_t rank, tutti_ps limit_ps)
{
    sleep_on(wait_set, rank, limit_ps);
    atomic_store(&wait_set->sleepers[rank - wait_set->first_rank].asleep, 0);
}

void tutti_wait_set_signal(struct tutti_wait_set *wait_set, uint32_t rank)
{
    if (atomic_exchange(&wait_set->sleepers[rank - wait_set->first_rank].asleep, 0) != 0)
        ring(wait_set, rank);
}

int tutti_wait_set_idle(struct tutti_wait_set *wait_set, uint32_t rank,
                        struct tutti_backoff *backoff)
{
    return tutti_wait_set_wait(wait_set, rank, backoff, INT64_MAX);
}

int tutti_wait_set_barrier(struct tutti_wait_set *wait_set, uint32_t rank)
{
    unsigned generation = atomic_load(&wait_set->generation);
    struct tutti_backoff backoff = {0};
    int status = 0;

    if (atomic_fetch_add(&wait_set->arrived, 1) + 1 == wait_set->rank_count) {
        atomic_store(&wait_set->arrived, 0);
        atomic_store(&wait_set->generation, generation + 1);
        for (uint32_t i = 0; i < wait_set->rank_count; i++)
            tutti_wait_set_wake(wait_set, wait_set->first_rank + i);
        return 0;
    }
    while (status == 0 && atomic_load(&wait_set->generation) == generation)
        status = tutti_wait_set_wait(wait_set, rank, &backoff, 0);
    tutti_wait_set_resume(wait_set, rank, &backoff);
    return status;
}

int tutti_wait_set_leave(struct tutti_wait_set *wait_set)
{
    atomic_fetch_add(&wait_set->left_count,
                     1); /* before the other count: the last to leave sees all */
    if (atomic_fetch_add(&wait_set->idle_count, 1) + 1 == everybody(wait_set) &&
        atomic_load(&wait_set->left_count) < wait_set->rank_count)
        return -TUTTI_ECHECK;
    return 0;
}

/* Subtracted, not set to 0: one who was rung at the end of what is over may not have counted itself
 * up again yet. */
void tutti_wait_set_return(struct tutti_wait_set *wait_set)
{
    atomic_fetch_sub(&wait_set->left_count, wait_set->rank_count);
    atomic_fetch_sub(&wait_set->idle_count, wait_set->rank_count);
}

void tutti_wait_set_stop(struct tutti_wait_set *wait_set, int status, const struct tutti_err *err)
{
    assert(status < 0);
    if (atomic_exchange(&wait_set->blamed, 1) == 0) {
        wait_set->status = status;
        wait_set->err = *err;
        atomic_store(&wait_set->told, 1);
    }
    atomic_store(&wait_set->stopped, 1);
    for (uint32_t i = 0; i < wait_set->rank_count; i++)
        ring(wait_set, wait_set->first_rank + i);
}

int tutti_wait_set_verdict(const struct tutti_wait_set *wait_set, struct tutti_err *err)
{
    while (atomic_load(&wait_set->told) == 0) /* somebody is about to say it */
        sched_yield();
    *err = wait_set->err;
    return wait_set->status;
}
