/* The mailbox's clock on a machine that has been up for a year: the mailbox is compiled in here,
 * with a clock of the test's. */
#include <pthread.h>
#include <time.h>

#include "tests/test.h"

/* The machine was started so much before it was. */
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

#include "runtime/group/mailbox.c"

TEST(time_goes_on_after_106_days)
{
    static const time_t ages_s[] = {0, 366 * 86400};

    for (size_t i = 0; i < 2; i++) {
        struct tutti_mailbox mailbox;
        struct tutti_err err = {""};
        tutti_ps start_ps;
        tutti_ps waited_ps;

        ahead_s = ages_s[i];
        CHECK_OK(tutti_mailbox_open(&mailbox, &err), err);
        start_ps = tutti_mailbox_now(&mailbox);
        CHECK(start_ps > 0 && start_ps < 10 * TUTTI_PS_PER_S);
        CHECK(tutti_mailbox_ms_until(&mailbox, start_ps + 5 * TUTTI_PS_PER_S) <= 5001);
        CHECK(tutti_mailbox_ms_until(&mailbox, start_ps + 5 * TUTTI_PS_PER_S) > 1000);
        CHECK_INT(tutti_mailbox_ms_until(&mailbox, start_ps - 1), 0);
        CHECK_INT(tutti_mailbox_ms_until(&mailbox, INT64_MAX), 60000);
        pthread_mutex_lock(&mailbox.lock);
        while (tutti_mailbox_wait(&mailbox, start_ps + 50 * TUTTI_PS_PER_MS))
            ;
        pthread_mutex_unlock(&mailbox.lock);
        waited_ps = tutti_mailbox_now(&mailbox) - start_ps;
        CHECK(waited_ps >= 50 * TUTTI_PS_PER_MS);
        tutti_mailbox_close(&mailbox);
    }
    CHECK(tutti_group_after(5, INT64_MAX) == INT64_MAX);
    CHECK_INT(tutti_group_after(5, -1), 5);
}
