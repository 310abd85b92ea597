/* What every backend has in common: arguments are checked and calls flattened before it plays. */
#include "runtime/backend.h"

#include <assert.h>

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

static int check_play(const struct tutti_backend *backend, const struct tutti_play *play,
                      struct tutti_err *err)
{
    uint32_t first;
    uint32_t count;

    if (play->schedule == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "there is no schedule to play");
    if (play->schedule->rank_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "the schedule '%s' has no ranks (at least 1)",
                          play->schedule->name);
    if ((play->in == NULL) != (play->out == NULL))
        return tutti_fail(err, TUTTI_EINVAL,
                          "only one of the input and output buffers is given (both or neither)");
    if (play->iteration_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "there is no iteration to play (at least 1)");
    if (play->deadline_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "the deadline lies in the past (0 or more)");
    if (play->lead_ps < 0 || (play->lead_ps > 0 && !play->barrier))
        return tutti_fail(err, TUTTI_EINVAL, "a lead needs a barrier, and is not negative");
    tutti_backend_ranks(backend, play->schedule->rank_count, &first, &count);
    for (uint32_t i = first; play->in != NULL && i < first + count; i++) {
        if ((play->in[i] == NULL && play->schedule->in_bytes > 0) ||
            (play->out[i] == NULL && play->schedule->out_bytes > 0))
            return tutti_fail(err, TUTTI_EINVAL, "rank %u has no buffer", i);
    }
    return 0;
}

int tutti_backend_play(struct tutti_backend *backend, const struct tutti_play *play,
                       struct tutti_played *ret, struct tutti_err *err)
{
    struct tutti_schedule *flat = NULL;
    struct tutti_play own;
    int status = tutti_take("tutti_play", &own, sizeof(own), play,
                            TUTTI_BYTES_TO(struct tutti_play, record), err);

    assert(backend->ops->size == sizeof(struct tutti_backend_ops));
    if (status == 0)
        status = check_play(backend, &own, err);
    if (status < 0)
        return status;
    if (own.schedule->callee_count > 0) {
        status = tutti_schedule_flatten(own.schedule, &flat, err);
        if (status < 0)
            return status;
        own.schedule = flat;
    }
    status = backend->ops->play(backend, &own, ret, err);
    tutti_schedule_free(flat);
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
