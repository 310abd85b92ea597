/* Counting who sleeps, with a waker who is held up in the middle: the wait set is compiled in here,
 * so that the test decides what happens between two of its atomic operations. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/test.h"

static void (*meanwhile)(void); /* happens once, right after the next exchange */

static int held_up(int old)
{
    void (*then)(void) = meanwhile;

    meanwhile = NULL;
    if (then != NULL)
        then();
    return old;
}

/* A machine that was started `ahead_s` seconds before it was. */
static time_t ahead_s;

static int old_clock(clockid_t clock, struct timespec *ret)
{
    int status = clock_gettime(clock, ret);

    ret->tv_sec += ahead_s;
    return status;
}

static int old_wait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *limit)
{
    struct timespec real = {.tv_sec = limit->tv_sec - ahead_s, .tv_nsec = limit->tv_nsec};

    return pthread_cond_timedwait(condition, lock, &real);
}

#define clock_gettime          old_clock
#define pthread_cond_timedwait old_wait
#undef atomic_exchange
#define atomic_exchange(object, value) \
    held_up(atomic_exchange_explicit(object, value, memory_order_seq_cst))

#include "runtime/exec/host/wait_set.c"

static struct tutti_wait_set wait_set;
static struct tutti_backoff backoff;
static int second_wait;

/* A wait that neither spins nor yields: after the first look the sleeper is up, the next sleeps. */
static void begin_wait(void)
{
    backoff = (struct tutti_backoff){.yield_until_ps = 1};
}

/* Rank 0 has seen its sleeper go down: it takes its message, and waits for another. */
static void take_and_wait_again(void)
{
    tutti_wait_set_resume(&wait_set, 0, &backoff);
    begin_wait();
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), 0);
    second_wait = tutti_wait_set_wait(&wait_set, 0, &backoff, 0);
}

static void open_wait_set(void)
{
    struct tutti_err err = {""};

    CHECK_OK(tutti_wait_set_open(&wait_set, 2, 2, 2 * TUTTI_PS_PER_MS, &err), err);
    wait_set.spin_count = 0;
    begin_wait();
}

TEST(a_waker_who_is_held_up_is_not_taken_for_asleep)
{
    open_wait_set();
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), 0); /* the sleeper is up */
    meanwhile = take_and_wait_again;
    tutti_wait_set_wake(&wait_set, 0); /* by rank 1 */
    CHECK(meanwhile == NULL);
    CHECK_INT(second_wait, -TUTTI_ETIME); /* rank 1 is awake: this is no deadlock */
    CHECK_INT(atomic_load(&wait_set.idle_count), 0);
    tutti_wait_set_close(&wait_set);
}

TEST(the_last_to_sleep_finds_the_deadlock)
{
    open_wait_set();
    CHECK_INT(tutti_wait_set_leave(&wait_set), 0); /* rank 1 has ended */
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), 0);
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), -TUTTI_ECHECK);
    tutti_wait_set_close(&wait_set);
}

/* 200 days are more picoseconds than 63 bits hold. */
TEST(a_deadline_passes_on_a_machine_that_has_run_for_long)
{
    tutti_ps before_ps;

    ahead_s = 200 * 24 * 3600;
    open_wait_set();
    before_ps = tutti_wait_set_now(&wait_set);
    CHECK(before_ps > 0);
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), 0);
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), -TUTTI_ETIME);
    CHECK(tutti_wait_set_now(&wait_set) - before_ps >= 2 * TUTTI_PS_PER_MS);
    tutti_wait_set_close(&wait_set);
    ahead_s = 0;
}

TEST(a_deadline_may_be_as_late_as_can_be_said)
{
    open_wait_set();
    wait_set.deadline_ps = INT64_MAX;
    CHECK_INT(tutti_wait_set_leave(&wait_set), 0);
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), 0);
    CHECK_INT(tutti_wait_set_wait(&wait_set, 0, &backoff, 0), -TUTTI_ECHECK);
    CHECK_INT(tutti_wait_set_after(1, INT64_MAX), INT64_MAX);
    tutti_wait_set_close(&wait_set);
}
