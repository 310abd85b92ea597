/* Rounds that repeat, skipped on all ranks; see periods.h. In a full pipeline along a tree almost
 * every rank has a timeline of its own, so that there are no classes to play one of; but once each
 * link has all it can carry, everything comes back to a state in which it was some items ago.
 * Where that never comes the whole play has been made, as it would have been without. */
#include "sim/fold/periods.h"

#include <assert.h>

#include "runtime/status.h"
#include "sim/play/clocked.h"
#include "sim/play/estimate.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum {
    PERIODS_MIN = 64,         /* of the longest lane: less is played anyway before they repeat */
    STEPS_TRIED = 128 << 20,  /* where playing all would take too long: about a minute, */
    STEPS_A_SECOND = 1 << 20, /* and no longer than is allowed */
};

/* Periods of the longest lane. */
static uint64_t periods_of(const struct tutti_schedule *schedule)
{
    uint64_t most = 0;

    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        uint64_t period = 1;
        uint64_t rounds = schedule->ops->steady(schedule, 0, lane, 0, &period);

        most = rounds / period > most ? rounds / period : most;
    }
    return most;
}

/* Pipelines of several lanes, which share the links out of their ranks: others flow, or are
 * relays, for which there are better ways. */
static bool is_pipeline(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule)
{
    return opts->model == TUTTI_MODEL_ALPHABETA && opts->memory == NULL &&
           schedule->lane_count > 1 && schedule->ops->steady != NULL &&
           schedule->ops->relays == NULL && periods_of(schedule) >= PERIODS_MIN;
}

int tutti_periods_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err)
{
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_clocked *clocked = NULL;
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    uint64_t limit = step_count_max > 0 ? step_count_max : UINT64_MAX;
    struct tutti_folded folded = {.class_count = 0};
    int status;

    if (!is_pipeline(opts, schedule))
        return -TUTTI_ELACK;
    assert(!opts->topo->has_bursts);
    if (tutti_play_fits(opts, &play, false, NULL) < 0) {
        uint64_t allowed = (uint64_t)opts->seconds_max * STEPS_A_SECOND;

        limit = limit < STEPS_TRIED ? limit : STEPS_TRIED;
        limit = limit < allowed ? limit : allowed;
    }
    status = tutti_clocked_new(opts, schedule, &clocked, err);
    if (status == 0)
        status = tutti_clocked_skip(clocked, limit, err);
    if (status == 0)
        status = tutti_clocked_play(clocked, opts->seed, launch_ps, NULL, &folded.end_ps,
                                    &folded.step_count, err);
    if (status == 0)
        status =
            tutti_fail(err, TUTTI_ELACK,
                       tutti_clocked_is_over(clocked) ? "'%s': its rounds do not repeat in time"
                                                      : "'%s' cannot be played by the clock",
                       schedule->name);
    else if (status == 1)
        folded.class_count = tutti_clocked_has_skipped(clocked) ? schedule->rank_count : 0;
    tutti_clocked_free(clocked);
    if (status < 0)
        return status;
    *ret = folded;
    return 0;
}
