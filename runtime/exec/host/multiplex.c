/* Plays several ranks in one thread; see multiplex.h. */
#include "runtime/exec/host/multiplex.h"

#include <assert.h>

#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/host/helpers.h"
#include "runtime/exec/host/stage.h"

static int post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    struct tutti_multiplex *multiplex = data;
    uint32_t number = post->rank - multiplex->stages[0].rank;

    assert(number < multiplex->count);
    return tutti_thread_stage_post(&multiplex->stages[number], post, err);
}

static void use_helpers(const struct tutti_multiplex *multiplex)
{
    if (multiplex->stages[0].helpers != NULL)
        tutti_helpers_settle(multiplex->stages[0].helpers);
}

/* One look at all ranks. What was posted before it may be needed by what it finds, and what it
 * finds by what is posted when that is known; by themselves the lanes that are under way at one
 * time do not depend on each other. */
static int look(struct tutti_multiplex *multiplex, struct tutti_done *done, uint32_t max,
                struct tutti_err *err)
{
    uint32_t count = 0;

    use_helpers(multiplex);
    for (uint32_t i = 0; i < multiplex->count && count < max; i++) {
        int status = tutti_thread_stage_look(&multiplex->stages[i], done + count, max - count, err);

        if (status < 0)
            return status;
        count += (uint32_t)status;
    }
    use_helpers(multiplex);
    return (int)count;
}

/* Whether anything had been put off. */
static bool settle(struct tutti_multiplex *multiplex)
{
    bool found = false;

    for (uint32_t i = 0; i < multiplex->count; i++) {
        if (multiplex->stages[i].chain_count == 0)
            continue;
        found = true;
        tutti_thread_stage_settle_all(&multiplex->stages[i]);
    }
    return found;
}

/* Until the clock brings something for one of the ranks. */
static int wait_for_clock(struct tutti_multiplex *multiplex, tutti_ps *since_ps,
                          struct tutti_err *err)
{
    struct tutti_thread_stage *first = &multiplex->stages[0];
    uint32_t busy_count = 0;
    tutti_ps until_ps = 0;
    bool sends_matter = false;

    for (uint32_t i = 0; i < multiplex->count; i++) {
        const struct tutti_thread_stage *stage = &multiplex->stages[i];
        tutti_ps end_ps = tutti_thread_stage_next_end(stage);

        if (end_ps > 0 && (until_ps == 0 || end_ps < until_ps))
            until_ps = end_ps;
        busy_count += stage->busy_count;
        if (stage->busy_count > 0 || stage->watched_count > 0) /* else it has ended */
            sends_matter = sends_matter || tutti_thread_stage_hangs_on_sends(stage);
    }
    if (busy_count < tutti_engine_lanes_left(first->engine))
        sends_matter = true;
    return first->pacer->ops->wait(first->pacer, multiplex->worker_index, until_ps, sends_matter,
                                   since_ps, err);
}

/* Until something is due: what the messages under way will bring. Whether there was any. */
static bool work_ahead(struct tutti_multiplex *multiplex)
{
    enum { BYTES_AT_A_TIME = 1 << 20 }; /* some 50 us */
    struct tutti_pacer *pacer = multiplex->stages[0].pacer;
    uint64_t bytes = 0;

    if (pacer->ops->may_work_ahead == NULL ||
        !pacer->ops->may_work_ahead(pacer, multiplex->worker_index))
        return false;
    for (uint32_t i = 0; i < multiplex->count && bytes < BYTES_AT_A_TIME; i++)
        bytes += tutti_thread_stage_work_ahead(&multiplex->stages[i], BYTES_AT_A_TIME - bytes);
    use_helpers(multiplex);
    return bytes > 0;
}

/* Whether a message has arrived on the other machine for one of the ranks, and not here. */
static bool lags(const struct tutti_multiplex *multiplex)
{
    for (uint32_t i = 0; i < multiplex->count; i++) {
        if (tutti_thread_stage_lags(&multiplex->stages[i]))
            return true;
    }
    return false;
}

/* Whether a step is over on the other machine whose work is not done here; each of them is to wake
 * this thread. */
static bool awaits_work(const struct tutti_multiplex *multiplex)
{
    bool awaits = false;

    for (uint32_t i = 0; multiplex->has_works && i < multiplex->count; i++) {
        if (tutti_thread_stage_awaits_work(&multiplex->stages[i]))
            awaits = true;
    }
    return awaits;
}

/* After a look that has found nothing: 0: look again, or a negative status. */
static int wait(struct tutti_multiplex *multiplex, struct tutti_backoff *backoff,
                tutti_ps *since_ps, struct tutti_err *err)
{
    struct tutti_thread_stage *first = &multiplex->stages[0];
    bool awaits;
    int status;

    if (settle(multiplex) || work_ahead(multiplex)) /* who waits may as well work */
        return 0;
    status = tutti_wait_set_move(first->wait_set, multiplex->worker_index, err);
    if (status < 0)
        return tutti_thread_stage_lost(first, status, err);
    if (status > 0) {
        tutti_wait_set_resume(first->wait_set, multiplex->worker_index, backoff);
        return 0;
    }
    awaits = awaits_work(multiplex);
    if (awaits || (first->wait_set->transport != NULL && lags(multiplex))) {
        err->text[0] = '\0';
        if (awaits)
            tutti_wait_set_rest_at_once(first->wait_set, backoff);
        status = tutti_wait_set_wait(first->wait_set, multiplex->worker_index, backoff,
                                     awaits ? INT64_MAX : 0);
    } else {
        tutti_wait_set_resume(first->wait_set, multiplex->worker_index, backoff);
        status = wait_for_clock(multiplex, since_ps, err);
    }
    if (status < 0 && err->text[0] != '\0')
        return tutti_thread_stage_lost(first, status, err);
    return status < 0 ? tutti_thread_stage_gave_up(first, status, err) : 0;
}

static int poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct tutti_multiplex *multiplex = data;
    struct tutti_backoff backoff = {0};
    tutti_ps since_ps = 0;
    int count = 0;

    while (count == 0) {
        count = look(multiplex, done, max, err);
        if (count == 0)
            count = wait(multiplex, &backoff, &since_ps, err);
    }
    tutti_wait_set_resume(multiplex->stages[0].wait_set, multiplex->worker_index, &backoff);
    return count;
}

const struct tutti_stage_ops tutti_multiplex_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = post, .poll = poll};
