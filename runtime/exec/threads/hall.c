/* Waiting without locks on the data path: spin, yield, sleep with a deadline; and the barrier. */
#include "runtime/exec/threads/hall.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
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

/* On the monotonic clock. */
static struct timespec timespec_of(const struct tutti_hall *hall, tutti_ps ps)
{
    return (struct timespec){.tv_sec = (time_t)(hall->epoch_s + ps / TUTTI_PS_PER_S),
                             .tv_nsec = (long)(ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};
}

/* Sleeps until woken, until `limit_ps`, or until the run is broken off; in a carrier also less. */
static void sleep_on(struct tutti_hall *hall, uint32_t rank, tutti_ps limit_ps)
{
    struct tutti_bell *bell = &hall->bells[rank - hall->first_rank];
    struct timespec limit = timespec_of(hall, limit_ps);
    int status = 0;

    if (hall->carrier != NULL) {
        tutti_ps timeout_ps = limit_ps - tutti_hall_now(hall);

        if (timeout_ps > 0 && atomic_load(&hall->stopped) == 0)
            hall->carrier->ops->rest(hall->carrier, rank, timeout_ps);
        return;
    }
    pthread_mutex_lock(&bell->lock);
    while (status == 0 && atomic_load(&bell->asleep) != 0 && atomic_load(&hall->stopped) == 0)
        status = pthread_cond_timedwait(&bell->woken, &bell->lock, &limit);
    pthread_mutex_unlock(&bell->lock);
}

static int bell_open(struct tutti_bell *bell)
{
    pthread_condattr_t attr;
    int status = pthread_condattr_init(&attr);

    if (status != 0)
        return status;
    status = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (status == 0)
        status = pthread_cond_init(&bell->woken, &attr);
    pthread_condattr_destroy(&attr);
    if (status != 0)
        return status;
    status = pthread_mutex_init(&bell->lock, NULL);
    if (status != 0)
        pthread_cond_destroy(&bell->woken);
    return status;
}

static void bells_close(struct tutti_hall *hall, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_destroy(&hall->bells[i].lock);
        pthread_cond_destroy(&hall->bells[i].woken);
    }
    free(hall->bells);
    hall->bells = NULL;
}

int tutti_hall_open(struct tutti_hall *hall, uint32_t rank_count, uint32_t processor_count,
                    tutti_ps deadline_ps, struct tutti_err *err)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    *hall = (struct tutti_hall){
        .epoch_s = now.tv_sec - 1, /* so that no time is 0 */
        .rank_count = rank_count,
        .spin_count = rank_count <= processor_count ? SPINS_ALONE : SPINS_SHARED,
        .deadline_ps = deadline_ps,
    };
    hall->bells = aligned_alloc(TUTTI_CACHE_LINE, rank_count * sizeof(hall->bells[0]));
    if (hall->bells == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < rank_count; i++) {
        atomic_init(&hall->bells[i].asleep, 0);
        if (bell_open(&hall->bells[i]) != 0) {
            bells_close(hall, i);
            return tutti_fail(err, TUTTI_EIO, "cannot make a lock for rank %u", i);
        }
    }
    return 0;
}

void tutti_hall_close(struct tutti_hall *hall)
{
    if (hall->bells != NULL)
        bells_close(hall, hall->rank_count);
}

void tutti_hall_connect(struct tutti_hall *hall, struct tutti_carrier *carrier, uint32_t first_rank,
                        bool crowded)
{
    hall->carrier = carrier;
    hall->first_rank = first_rank;
    hall->crowded = crowded;
    hall->spin_count = 0; /* each look asks the system: the clock alone says when to sleep */
}

/* Ranks that must be idle for nobody to be left who could bring work. */
static uint32_t everybody(const struct tutti_hall *hall)
{
    return hall->rank_count + (hall->carrier != NULL);
}

tutti_ps tutti_hall_now(const struct tutti_hall *hall)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)(now.tv_sec - hall->epoch_s) * TUTTI_PS_PER_S +
           (tutti_ps)now.tv_nsec * TUTTI_PS_PER_NS;
}

int tutti_hall_rest(struct tutti_hall *hall, uint32_t rank, struct tutti_nap *nap,
                    tutti_ps until_ps)
{
    struct tutti_bell *bell = &hall->bells[rank - hall->first_rank];
    tutti_ps limit_ps;
    tutti_ps now_ps;
    bool alone;
    bool woken;

    if (atomic_load_explicit(&hall->stopped, memory_order_relaxed) != 0)
        return -TUTTI_EIO;
    nap->look_count++;
    if (nap->look_count <= hall->spin_count) {
        tutti_hall_breathe();
        return 0;
    }
    now_ps = tutti_hall_now(hall);
    if (nap->yield_until_ps == 0)
        nap->yield_until_ps = now_ps + YIELD_PS;
    if (nap->since_ps == 0 || until_ps > 0)
        nap->since_ps = now_ps;
    if (now_ps < nap->yield_until_ps) {
        if (hall->carrier != NULL && !hall->crowded)
            tutti_hall_breathe();
        else
            sched_yield();
        return 0;
    }
    if (!nap->raised) {
        nap->raised = true;
        atomic_store(&bell->asleep, 1);
        return 0;
    }
    nap->raised = false;
    nap->look_count = 0;
    nap->yield_until_ps = 0;
    /* One who will have something to do later on is not idle. */
    alone = until_ps == 0 && atomic_fetch_add(&hall->idle_count, 1) + 1 == everybody(hall);
    limit_ps = until_ps > 0 ? until_ps : tutti_hall_after(nap->since_ps, hall->deadline_ps);
    if (!alone)
        sleep_on(hall, rank, limit_ps);
    /* A waker has counted us down; who woke by himself does it himself. */
    woken = atomic_exchange(&bell->asleep, 0) == 0;
    if (until_ps == 0 && !woken)
        atomic_fetch_sub(&hall->idle_count, 1);
    else if (until_ps > 0 && woken)
        atomic_fetch_add(&hall->idle_count, 1); /* we had not counted up */
    if (alone)
        return -TUTTI_ECHECK;
    return until_ps == 0 && !woken && tutti_hall_now(hall) >= limit_ps ? -TUTTI_ETIME : 0;
}

void tutti_hall_rise(struct tutti_hall *hall, uint32_t rank, struct tutti_nap *nap)
{
    /* A waker who saw our bell up has counted us down already; we had not yet counted up. */
    if (nap->raised && atomic_exchange(&hall->bells[rank - hall->first_rank].asleep, 0) == 0)
        atomic_fetch_add(&hall->idle_count, 1);
    *nap = (struct tutti_nap){0};
}

/* Ends the sleep of a rank, or its next one. */
static void ring(struct tutti_hall *hall, uint32_t rank)
{
    struct tutti_bell *bell = &hall->bells[rank - hall->first_rank];

    if (hall->carrier != NULL) {
        hall->carrier->ops->wake(hall->carrier, rank);
        return;
    }
    /* Who is about to sleep does so by now; and when it wakes, it finds the lock free. */
    pthread_mutex_lock(&bell->lock);
    pthread_mutex_unlock(&bell->lock);
    pthread_cond_signal(&bell->woken);
}

void tutti_hall_wake_up(struct tutti_hall *hall, uint32_t rank)
{
    struct tutti_bell *bell = &hall->bells[rank - hall->first_rank];

    /* Down before the bell: were it after, one who has seen the bell could sleep again and be
     * counted twice while we are held up in between, and all would seem idle. Too low does no harm
     * as long as we are awake ourselves. */
    atomic_fetch_sub(&hall->idle_count, 1);
    if (atomic_exchange(&bell->asleep, 0) == 0) {
        atomic_fetch_add(&hall->idle_count, 1); /* somebody else has, or it woke by itself */
        return;
    }
    ring(hall, rank);
}

void tutti_hall_lie_down(struct tutti_hall *hall, uint32_t rank)
{
    atomic_store(&hall->bells[rank - hall->first_rank].asleep, 1);
}

void tutti_hall_sleep(struct tutti_hall *hall, uint32_t rank, tutti_ps limit_ps)
{
    sleep_on(hall, rank, limit_ps);
    atomic_store(&hall->bells[rank - hall->first_rank].asleep, 0);
}

void tutti_hall_ring(struct tutti_hall *hall, uint32_t rank)
{
    if (atomic_exchange(&hall->bells[rank - hall->first_rank].asleep, 0) != 0)
        ring(hall, rank);
}

int tutti_hall_meet(struct tutti_hall *hall, uint32_t rank)
{
    unsigned generation = atomic_load(&hall->generation);
    struct tutti_nap nap = {0};
    int status = 0;

    if (atomic_fetch_add(&hall->arrived, 1) + 1 == hall->rank_count) {
        atomic_store(&hall->arrived, 0);
        atomic_store(&hall->generation, generation + 1);
        for (uint32_t i = 0; i < hall->rank_count; i++)
            tutti_hall_wake(hall, hall->first_rank + i);
        return 0;
    }
    while (status == 0 && atomic_load(&hall->generation) == generation)
        status = tutti_hall_rest(hall, rank, &nap, 0);
    tutti_hall_rise(hall, rank, &nap);
    return status;
}

int tutti_hall_leave(struct tutti_hall *hall)
{
    atomic_fetch_add(&hall->left_count, 1); /* before the other count: the last to leave sees all */
    if (atomic_fetch_add(&hall->idle_count, 1) + 1 == everybody(hall) &&
        atomic_load(&hall->left_count) < hall->rank_count)
        return -TUTTI_ECHECK;
    return 0;
}

void tutti_hall_stop(struct tutti_hall *hall, int status, const struct tutti_err *err)
{
    assert(status < 0);
    if (atomic_exchange(&hall->blamed, 1) == 0) {
        hall->status = status;
        hall->err = *err;
    }
    atomic_store(&hall->stopped, 1);
    for (uint32_t i = 0; i < hall->rank_count; i++)
        ring(hall, hall->first_rank + i);
}
