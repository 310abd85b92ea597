/* The mailbox: orders from callers, answers from the progress thread, and the end of it all. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/group/progress.h"

tutti_ps tutti_mailbox_now(const struct tutti_mailbox *mailbox)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert(now.tv_sec > mailbox->epoch_s);
    return (now.tv_sec - mailbox->epoch_s) * TUTTI_PS_PER_S + now.tv_nsec * TUTTI_PS_PER_NS;
}

tutti_ps tutti_group_after(tutti_ps now_ps, tutti_ps ps)
{
    if (ps < 0)
        ps = 0;
    return ps > INT64_MAX - now_ps ? INT64_MAX : now_ps + ps;
}

int tutti_mailbox_ms_until(const struct tutti_mailbox *mailbox, tutti_ps due_ps)
{
    tutti_ps left_ps = due_ps - tutti_mailbox_now(mailbox);

    if (left_ps <= 0)
        return 0;
    return left_ps > 60 * TUTTI_PS_PER_S ? 60000 : (int)(left_ps / TUTTI_PS_PER_MS) + 1;
}

int tutti_mailbox_open(struct tutti_mailbox *mailbox, struct tutti_err *err)
{
    pthread_condattr_t attributes;
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    *mailbox = (struct tutti_mailbox){.poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                      .over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                      .epoch_s = now.tv_sec - 1};
    (void)pthread_mutex_init(&mailbox->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&mailbox->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (mailbox->poke_fd < 0 || mailbox->over_fd < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make an eventfd: %s", strerror(errno));
    return 0;
}

void tutti_mailbox_close(struct tutti_mailbox *mailbox)
{
    if (mailbox->poke_fd >= 0)
        close(mailbox->poke_fd);
    if (mailbox->over_fd >= 0)
        close(mailbox->over_fd);
    tutti_packet_drop(mailbox->mine);
    tutti_packet_drop(mailbox->room);
    tutti_packet_drop(mailbox->all);
    (void)pthread_cond_destroy(&mailbox->changed);
    (void)pthread_mutex_destroy(&mailbox->lock);
}

static void raise_fd(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));

    assert(written == sizeof(one) || errno == EAGAIN); /* full: it is raised already */
}

void tutti_mailbox_poke(struct tutti_mailbox *mailbox)
{
    raise_fd(mailbox->poke_fd);
}

void tutti_mailbox_drain(struct tutti_mailbox *mailbox)
{
    uint64_t count;
    ssize_t got = read(mailbox->poke_fd, &count, sizeof(count));

    (void)got; /* nothing there is fine */
}

bool tutti_mailbox_end(struct tutti_mailbox *mailbox, const struct tutti_ending *ending)
{
    bool first;

    assert(ending->status < 0);
    pthread_mutex_lock(&mailbox->lock);
    first = !mailbox->over;
    if (first) {
        mailbox->over = true;
        mailbox->ending = *ending;
        pthread_cond_broadcast(&mailbox->changed);
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (first)
        raise_fd(mailbox->over_fd);
    return first;
}

int tutti_mailbox_told(struct tutti_mailbox *mailbox, uint32_t index, uint32_t count,
                       struct tutti_err *err)
{
    struct tutti_ending ending;

    pthread_mutex_lock(&mailbox->lock);
    assert(mailbox->over);
    ending = mailbox->ending;
    pthread_mutex_unlock(&mailbox->lock);
    if (err != NULL)
        *err = ending.err;
    if (ending.origin != TUTTI_ENDING_PLAIN && ending.origin != index)
        (void)tutti_wrap(err, ending.status, "process %u of %u", ending.origin, count);
    return ending.status;
}

bool tutti_mailbox_wait(struct tutti_mailbox *mailbox, tutti_ps due_ps)
{
    struct timespec due = {.tv_sec = (time_t)(mailbox->epoch_s + due_ps / TUTTI_PS_PER_S),
                           .tv_nsec = (long)(due_ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};

    return pthread_cond_timedwait(&mailbox->changed, &mailbox->lock, &due) != ETIMEDOUT;
}
