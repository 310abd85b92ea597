/* Plays several ranks in one thread; see ensemble.h. */
#include "runtime/exec/threads/ensemble.h"

#include <assert.h>

#include "runtime/exec/threads/hands.h"
#include "runtime/exec/threads/stage.h"

static int post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    struct tutti_ensemble *ensemble = data;
    uint32_t number = post->rank - ensemble->stages[0].rank;

    assert(number < ensemble->count);
    return tutti_thread_stage_post(&ensemble->stages[number], post, err);
}

static void use_hands(const struct tutti_ensemble *ensemble)
{
    if (ensemble->stages[0].hands != NULL)
        tutti_hands_settle(ensemble->stages[0].hands);
}

/* One look at all ranks. What was posted before it may be needed by what it finds, and what it
 * finds by what is posted when that is known; by themselves the lanes that are under way at one
 * time do not depend on each other. */
static int look(struct tutti_ensemble *ensemble, struct tutti_done *done, uint32_t max,
                struct tutti_err *err)
{
    uint32_t count = 0;

    use_hands(ensemble);
    for (uint32_t i = 0; i < ensemble->count && count < max; i++) {
        int status = tutti_thread_stage_look(&ensemble->stages[i], done + count, max - count, err);

        if (status < 0)
            return status;
        count += (uint32_t)status;
    }
    use_hands(ensemble);
    return (int)count;
}

/* Whether anything had been put off. */
static bool settle(struct tutti_ensemble *ensemble)
{
    bool found = false;

    for (uint32_t i = 0; i < ensemble->count; i++) {
        if (ensemble->stages[i].chain_count == 0)
            continue;
        found = true;
        tutti_thread_stage_settle_chains(&ensemble->stages[i]);
    }
    return found;
}

/* Until the clock brings something for one of the ranks. */
static int wait_for_clock(struct tutti_ensemble *ensemble, tutti_ps *since_ps,
                          struct tutti_err *err)
{
    struct tutti_thread_stage *first = &ensemble->stages[0];
    uint32_t busy_count = 0;
    tutti_ps until_ps = 0;
    bool sends_matter = false;

    for (uint32_t i = 0; i < ensemble->count; i++) {
        const struct tutti_thread_stage *stage = &ensemble->stages[i];
        tutti_ps end_ps = tutti_thread_stage_next_end(stage);

        if (end_ps > 0 && (until_ps == 0 || end_ps < until_ps))
            until_ps = end_ps;
        busy_count += stage->busy_count;
        if (stage->busy_count > 0 || stage->watched_count > 0) /* else it has ended */
            sends_matter = sends_matter || tutti_thread_stage_hangs_on_sends(stage);
    }
    if (busy_count < tutti_engine_lanes_left(first->engine))
        sends_matter = true;
    return tutti_conductor_wait(first->conductor, ensemble->seat, until_ps, sends_matter, since_ps,
                                err);
}

/* Until something is due: what the messages under way will bring. Whether there was any. */
static bool work_ahead(struct tutti_ensemble *ensemble)
{
    enum { BYTES_AT_A_TIME = 1 << 20 }; /* some 50 us */
    struct tutti_conductor *conductor = ensemble->stages[0].conductor;
    uint64_t bytes = 0;
    bool is_due;

    if (conductor->podium != NULL)
        return false;
    is_due = tutti_conductor_is_due(conductor);
    for (uint32_t i = 0; i < ensemble->count && bytes < BYTES_AT_A_TIME && !is_due; i++)
        bytes += tutti_thread_stage_work_ahead(&ensemble->stages[i], BYTES_AT_A_TIME - bytes);
    tutti_conductor_has_work(conductor, ensemble->seat, is_due);
    use_hands(ensemble);
    return bytes > 0;
}

/* Whether a message has arrived on the other machine for one of the ranks, and not here. */
static bool lags(const struct tutti_ensemble *ensemble)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        if (tutti_thread_stage_lags(&ensemble->stages[i]))
            return true;
    }
    return false;
}

/* After a look that has found nothing: 0: look again, or a negative status. */
static int wait(struct tutti_ensemble *ensemble, struct tutti_nap *nap, tutti_ps *since_ps,
                struct tutti_err *err)
{
    struct tutti_thread_stage *first = &ensemble->stages[0];
    int status;

    if (settle(ensemble) || work_ahead(ensemble)) /* who waits may as well work */
        return 0;
    status = tutti_hall_move(first->hall, ensemble->seat, err);
    if (status < 0)
        return tutti_thread_stage_lost(first, status, err);
    if (status > 0) {
        tutti_hall_rise(first->hall, ensemble->seat, nap);
        return 0;
    }
    if (first->hall->carrier != NULL && lags(ensemble)) {
        err->text[0] = '\0';
        status = tutti_hall_rest(first->hall, ensemble->seat, nap, 0);
    } else {
        tutti_hall_rise(first->hall, ensemble->seat, nap);
        status = wait_for_clock(ensemble, since_ps, err);
    }
    if (status < 0 && err->text[0] != '\0')
        return tutti_thread_stage_lost(first, status, err);
    return status < 0 ? tutti_thread_stage_gave_up(first, status, err) : 0;
}

static int poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct tutti_ensemble *ensemble = data;
    struct tutti_nap nap = {0};
    tutti_ps since_ps = 0;
    int count = 0;

    while (count == 0) {
        count = look(ensemble, done, max, err);
        if (count == 0)
            count = wait(ensemble, &nap, &since_ps, err);
    }
    tutti_hall_rise(ensemble->stages[0].hall, ensemble->seat, &nap);
    return count;
}

const struct tutti_stage_ops tutti_ensemble_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = post, .poll = poll};
