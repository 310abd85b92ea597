/* The board: orders from callers, answers from the keeper, and the end of it all. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/crew/keeper.h"

tutti_ps tutti_board_now(const struct tutti_board *board)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert(now.tv_sec > board->epoch_s);
    return (now.tv_sec - board->epoch_s) * TUTTI_PS_PER_S + now.tv_nsec * TUTTI_PS_PER_NS;
}

tutti_ps tutti_crew_after(tutti_ps now_ps, tutti_ps ps)
{
    if (ps < 0)
        ps = 0;
    return ps > INT64_MAX - now_ps ? INT64_MAX : now_ps + ps;
}

int tutti_board_ms_until(const struct tutti_board *board, tutti_ps due_ps)
{
    tutti_ps left_ps = due_ps - tutti_board_now(board);

    if (left_ps <= 0)
        return 0;
    return left_ps > 60 * TUTTI_PS_PER_S ? 60000 : (int)(left_ps / TUTTI_PS_PER_MS) + 1;
}

int tutti_board_open(struct tutti_board *board, struct tutti_err *err)
{
    pthread_condattr_t attributes;
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    *board = (struct tutti_board){.poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .epoch_s = now.tv_sec - 1};
    (void)pthread_mutex_init(&board->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&board->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (board->poke_fd < 0 || board->over_fd < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make an eventfd: %s", strerror(errno));
    return 0;
}

void tutti_board_close(struct tutti_board *board)
{
    if (board->poke_fd >= 0)
        close(board->poke_fd);
    if (board->over_fd >= 0)
        close(board->over_fd);
    tutti_parcel_drop(board->mine);
    tutti_parcel_drop(board->room);
    tutti_parcel_drop(board->all);
    (void)pthread_cond_destroy(&board->changed);
    (void)pthread_mutex_destroy(&board->lock);
}

static void raise_fd(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof(one));

    assert(written == sizeof(one) || errno == EAGAIN); /* full: it is raised already */
}

void tutti_board_poke(struct tutti_board *board)
{
    raise_fd(board->poke_fd);
}

bool tutti_board_end(struct tutti_board *board, const struct tutti_ending *ending)
{
    bool first;

    assert(ending->status < 0);
    pthread_mutex_lock(&board->lock);
    first = !board->over;
    if (first) {
        board->over = true;
        board->ending = *ending;
        pthread_cond_broadcast(&board->changed);
    }
    pthread_mutex_unlock(&board->lock);
    if (first)
        raise_fd(board->over_fd);
    return first;
}

int tutti_board_told(struct tutti_board *board, uint32_t index, uint32_t count,
                     struct tutti_err *err)
{
    struct tutti_ending ending;

    pthread_mutex_lock(&board->lock);
    assert(board->over);
    ending = board->ending;
    pthread_mutex_unlock(&board->lock);
    if (err != NULL)
        *err = ending.err;
    if (ending.origin != TUTTI_ENDING_PLAIN && ending.origin != index)
        (void)tutti_wrap(err, ending.status, "process %u of %u", ending.origin, count);
    return ending.status;
}

bool tutti_board_wait(struct tutti_board *board, tutti_ps due_ps)
{
    struct timespec due = {.tv_sec = (time_t)(board->epoch_s + due_ps / TUTTI_PS_PER_S),
                           .tv_nsec = (long)(due_ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};

    return pthread_cond_timedwait(&board->changed, &board->lock, &due) != ETIMEDOUT;
}
