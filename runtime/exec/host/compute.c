/* COMPUTE steps: waited for, really done in the rank's thread, or handed to its work thread. */
#include <assert.h>

#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/host/lane_state.h"
#include "runtime/exec/host/work_threads.h"
#include "runtime/status.h"

/* To hand a work over and to hear of its end takes two wake-ups: one that took less the last time
 * holds the messages up for no longer if it is done at once. */
static const tutti_ps SHORT_PS = 40 * TUTTI_PS_PER_US;

/* What took this much longer here than on the emulated machine was late. */
static const tutti_ps LATE_PS = 20 * TUTTI_PS_PER_US;

static struct tutti_work_call call_of(const struct tutti_thread_stage *stage,
                                      const struct tutti_step *step)
{
    return (struct tutti_work_call){
        .work = &stage->schedule->work[step->peer - 1],
        .step = step,
        .rank = stage->rank,
        .iteration = atomic_load_explicit(&tutti_rank_peer_of(stage, stage->rank)->iteration,
                                          memory_order_relaxed) -
                     1,
        .in = stage->bufs[TUTTI_BUF_IN],
        .out = stage->bufs[TUTTI_BUF_OUT],
        .scratch = stage->bufs[TUTTI_BUF_SCRATCH],
        .state = stage->bufs[TUTTI_BUF_STATE],
    };
}

static int name_culprit(const struct tutti_thread_stage *stage, const struct tutti_post *post,
                        int status, struct tutti_err *err)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    return tutti_wrap(err, status, "rank %u, lane %u, step %llu (%s), work '%s'", stage->rank,
                      post->lane, (unsigned long long)post->index,
                      tutti_step_text(post->step, text),
                      stage->schedule->work[post->step->peer - 1].name);
}

/* In the rank's thread; the bytes that it reads lie where they belong. */
static int do_here(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                   struct tutti_err *err)
{
    const struct tutti_work_call call = call_of(stage, lane_state->post.step);
    tutti_ps start_ps = 0;
    int status;

    assert(!stage->flow->holds);
    if (stage->timed || stage->rank_work != NULL)
        start_ps = tutti_wait_set_now(stage->wait_set);
    if (stage->timed)
        lane_state->start_ps = start_ps;
    status = call.work->run(&call, err);
    if (status < 0)
        return name_culprit(stage, &lane_state->post, status, err);
    if (stage->rank_work != NULL)
        stage->rank_work->took_ps[lane_state->post.step->peer - 1] =
            tutti_wait_set_now(stage->wait_set) - start_ps;
    return 1;
}

/* Whether the work is handed over: always where a clock is kept, and behind another one, for a rank
 * does one at a time; else if it is not short, and the rank has something else to look after. */
static bool is_handed_over(const struct tutti_thread_stage *stage, const struct tutti_step *step)
{
    tutti_ps took_ps;

    if (stage->rank_work == NULL)
        return false;
    took_ps = stage->rank_work->took_ps[step->peer - 1];
    if (stage->flow->holds || stage->rank_work->job_count > 0)
        return true;
    if (took_ps > 0 && took_ps < SHORT_PS)
        return false;
    return stage->busy_count > 1 || stage->watched_count > 0;
}

static void hand_over(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state)
{
    uint32_t lane = lane_state->post.lane;

    if (stage->helpers != NULL) /* all that was to be done before lies where it belongs */
        tutti_helpers_settle(stage->helpers);
    stage->rank_work->jobs[lane].call = call_of(stage, lane_state->post.step);
    tutti_rank_work_post(stage->rank_work, lane, !stage->flow->holds);
    lane_state->handed_over = true;
}

/* How the work and its time on the emulated machine agree. */
static void count_lateness(struct tutti_thread_stage *stage, const struct tutti_step *step,
                           const struct tutti_posted_work *job)
{
    struct tutti_rank_work *rank_work = stage->rank_work;
    struct tutti_shaper *shaper = stage->pacer->shaper;
    double there_ps = (double)shaper->ops->step_ps(shaper, stage->rank, step);
    double here_ps = (double)(job->end_ps - job->posted_ps);

    rank_work->done_count++;
    if (here_ps > there_ps * stage->slowdown + (double)LATE_PS)
        rank_work->late_count++;
    if (there_ps > 0 && here_ps > there_ps * rank_work->slowdown_min)
        rank_work->slowdown_min = here_ps / there_ps;
}

/* The work thread has done it. */
static int take_back(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                     struct tutti_err *err)
{
    struct tutti_rank_work *rank_work = stage->rank_work;
    const struct tutti_step *step = lane_state->post.step;
    const struct tutti_posted_work *job = &rank_work->jobs[lane_state->post.lane];

    tutti_rank_work_take(rank_work, lane_state->post.lane);
    if (job->status < 0) {
        *err = rank_work->err;
        return name_culprit(stage, &lane_state->post, job->status, err);
    }
    rank_work->took_ps[step->peer - 1] = job->end_ps - job->start_ps;
    if (stage->flow->holds) {
        count_lateness(stage, step, job);
    } else if (stage->timed) {
        lane_state->start_ps = job->start_ps;
        lane_state->end_ps = job->end_ps;
    }
    return 1;
}

/* On the clock of an emulated machine a work takes as long as there, and while it takes longer here
 * that clock stands still; else it takes the time that it takes. */
int tutti_stage_compute(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                        struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;

    if (step->peer == 0 || stage->schedule->work[step->peer - 1].run == NULL)
        return stage->flow->is_over(stage, lane_state);
    if (!lane_state->handed_over) {
        if (!is_handed_over(stage, step))
            return do_here(stage, lane_state, err);
        hand_over(stage, lane_state);
    }
    if (stage->flow->holds && !stage->flow->is_over(stage, lane_state))
        return 0;
    if (!tutti_rank_work_has_ended(stage->rank_work, lane_state->post.lane))
        return 0;
    return take_back(stage, lane_state, err);
}

bool tutti_thread_stage_awaits_work(const struct tutti_thread_stage *stage)
{
    bool awaits = false;
    tutti_ps now_ps;

    assert(stage->flow->holds);
    if (stage->rank_work == NULL || stage->rank_work->job_count == 0)
        return false;
    now_ps = stage->pacer->ops->now(stage->pacer);
    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_lane_state *lane_state = &stage->places[stage->busy[i]];

        if (lane_state->handed_over && lane_state->started && lane_state->until_ps <= now_ps &&
            tutti_rank_work_await(stage->rank_work, lane_state->post.lane))
            awaits = true; /* the others are to wake it, too */
    }
    return awaits;
}

void tutti_thread_stage_withdraw_work(struct tutti_thread_stage *stage)
{
    tutti_rank_work_withdraw(stage->rank_work);
}

tutti_ps tutti_stage_next_end(const struct tutti_thread_stage *stage, struct tutti_backoff *backoff)
{
    const struct tutti_rank_work *rank_work = stage->rank_work;
    tutti_ps end_ps = tutti_thread_stage_next_end(stage);

    if (rank_work == NULL || rank_work->job_count == 0)
        return end_ps;
    if (rank_work->crowded ||
        (rank_work->job_count == stage->busy_count && stage->watched_count == 0))
        tutti_wait_set_rest_at_once(stage->wait_set, backoff);
    return end_ps > 0 ? end_ps : INT64_MAX;
}
