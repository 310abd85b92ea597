/* What every backend has in common: arguments are checked and calls flattened before it plays; and
 * runs, which it may hold open. */
#include "runtime/backend.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/shaper.h"
#include "runtime/status.h"

void tutti_backend_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                         uint32_t *ret_first, uint32_t *ret_count)
{
    *ret_first = 0;
    *ret_count = rank_count;
    if (backend->ops->ranks != NULL)
        backend->ops->ranks(backend, rank_count, ret_first, ret_count);
    assert(*ret_first <= rank_count && *ret_count <= rank_count - *ret_first);
}

/* A run, also on a backend that holds nothing open. */
struct tutti_run {
    struct tutti_backend *backend;
    struct tutti_play play;
    struct tutti_schedule *flat; /* NULL: the schedule had no calls */
    void *own;                   /* the backend's */
    bool has_begun;
    int status; /* of the step that failed */
};

static int check_buffers(const struct tutti_backend *backend, const struct tutti_play *play,
                         struct tutti_err *err)
{
    struct tutti_buf_sizes sizes;
    uint32_t first;
    uint32_t count;

    if ((play->in == NULL) != (play->out == NULL))
        return tutti_fail(err, TUTTI_EINVAL,
                          "only one of the input and output buffers is given (both or neither)");
    tutti_backend_ranks(backend, play->schedule->rank_count, &first, &count);
    for (uint32_t i = first; play->in != NULL && i < first + count; i++) {
        tutti_schedule_buf_sizes(play->schedule, i, &sizes);
        if ((play->in[i] == NULL && sizes.in_bytes > 0) ||
            (play->out[i] == NULL && sizes.out_bytes > 0))
            return tutti_fail(err, TUTTI_EINVAL, "rank %u has no buffer", i);
    }
    return 0;
}

static int check_play(const struct tutti_backend *backend, const struct tutti_play *play,
                      struct tutti_err *err)
{
    if (play->schedule == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "there is no schedule to play");
    if (play->schedule->rank_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "the schedule '%s' has no ranks (at least 1)",
                          play->schedule->name);
    if (play->deadline_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "the deadline lies in the past (0 or more)");
    if (play->lead_ps < 0 || (play->lead_ps > 0 && !play->barrier))
        return tutti_fail(err, TUTTI_EINVAL, "a lead needs a barrier, and is not negative");
    if (play->between != NULL && backend->ops->open_run == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "the backend '%s' knows no hook between iterations (threads, tcp, mpi, "
                          "cuda and nccl do)",
                          backend->ops->name);
    return check_buffers(backend, play, err);
}

/* `iteration_count`: of the play or step that is asked for. */
static int check_count(uint32_t iteration_count, struct tutti_err *err)
{
    if (iteration_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "there is no iteration to play (at least 1)");
    return 0;
}

static int take(const struct tutti_play *play, struct tutti_play *ret, struct tutti_err *err)
{
    return tutti_take("tutti_play", ret, sizeof(*ret), play,
                      TUTTI_BYTES_TO(struct tutti_play, record), err);
}

static int open_taken(struct tutti_backend *backend, const struct tutti_play *play,
                      struct tutti_run *run, struct tutti_err *err)
{
    int status = 0;

    assert(backend->ops->size == sizeof(struct tutti_backend_ops));
    assert((backend->ops->open_run == NULL) == (backend->ops->step_run == NULL));
    *run = (struct tutti_run){.backend = backend, .play = *play};
    if (play->schedule->callee_count > 0 && !backend->ops->calls) {
        status = tutti_schedule_flatten(play->schedule, &run->flat, err);
        run->play.schedule = run->flat;
    }
    if (status == 0 && backend->ops->open_run != NULL)
        status = backend->ops->open_run(backend, &run->play, &run->own, err);
    if (status < 0)
        tutti_schedule_free(run->flat);
    return status;
}

static void close_taken(struct tutti_run *run)
{
    if (run->own != NULL)
        run->backend->ops->close_run(run->own);
    tutti_schedule_free(run->flat);
}

int tutti_run_open(struct tutti_backend *backend, const struct tutti_play *play,
                   struct tutti_run **ret, struct tutti_err *err)
{
    struct tutti_run *held;
    struct tutti_play own;
    struct tutti_run run;
    int status = take(play, &own, err);

    own.iteration_count = 1;
    if (status == 0)
        status = check_play(backend, &own, err);
    if (status == 0)
        status = open_taken(backend, &own, &run, err);
    if (status < 0)
        return status;
    held = malloc(sizeof(*held));
    if (held == NULL) {
        close_taken(&run);
        return tutti_nomem(err);
    }
    *held = run;
    *ret = held;
    return 0;
}

int tutti_run_step(struct tutti_run *run, uint32_t count, struct tutti_played *ret,
                   struct tutti_err *err)
{
    uint32_t warmup_count = run->has_begun ? 0 : run->play.warmup_count;
    const struct tutti_backend_ops *ops = run->backend->ops;
    struct tutti_play play = run->play;
    int status = check_count(count, err);

    if (status < 0)
        return status;
    if (run->status < 0)
        return tutti_fail(err, (enum tutti_status) - run->status,
                          "the run has ended with an error in an earlier step");
    run->has_begun = true;
    play.warmup_count = warmup_count;
    play.iteration_count = count;
    status = ops->step_run != NULL ? ops->step_run(run->own, warmup_count, count, ret, err)
                                   : ops->play(run->backend, &play, ret, err);
    if (status < 0)
        run->status = status;
    return status;
}

void tutti_run_close(struct tutti_run *run)
{
    if (run == NULL)
        return;
    close_taken(run);
    free(run);
}

int tutti_backend_play(struct tutti_backend *backend, const struct tutti_play *play,
                       struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_play own;
    struct tutti_run run;
    int status = take(play, &own, err);

    if (status == 0)
        status = check_play(backend, &own, err);
    if (status == 0)
        status = check_count(own.iteration_count, err);
    if (status == 0)
        status = open_taken(backend, &own, &run, err);
    if (status < 0)
        return status;
    status = tutti_run_step(&run, own.iteration_count, ret, err);
    close_taken(&run);
    return status;
}

void tutti_backend_close(struct tutti_backend *backend)
{
    if (backend != NULL)
        backend->ops->close(backend);
}

void tutti_shaper_close(struct tutti_shaper *shaper)
{
    if (shaper != NULL)
        shaper->ops->close(shaper);
}
