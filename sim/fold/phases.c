/* Schedules made of ring phases; see phases.h. Phases are played in order, and within a phase lane
 * after lane. Times of a lane are known after each phase, so a lane that takes turns with another
 * finds what it waits for: when the other's neighbour had taken its last message.
 *
 * Links: a family of hops that shares no link with another serves one phase of one lane, or several
 * that are in order: a lane comes after itself, or by what the schedule says. Where it is not known
 * to be so, the times at which links become free are written down and compared; unless links have
 * room for all that goes over them at once, as where a protocol paces connections. */
#include "sim/fold/phases.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/fold.h"
#include "sim/fold/phase.h"
#include "sim/fold/rings.h"
#include "sim/play/start.h"
#include "sim/sim.h"

enum { PHASES_MAX = 16, UPDATES_MAX = 1 << 28 };

struct lane {
    uint32_t phase_count;
    struct tutti_ring_phase phases[PHASES_MAX];
    uint32_t families[PHASES_MAX];
    struct tutti_rank_times times[PHASES_MAX + 1]; /* [p]: ready for phase p; then the end */
};

struct play {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct lane *lanes;   /* [lane_count] */
    uint32_t phase_count; /* of the longest lane */
    tutti_ps *starts_ps;  /* [rank], or NULL: all start together */
    bool compares;        /* times on links */
    struct tutti_hops hops;
    struct tutti_hops *known; /* where they come from, and go */
    struct tutti_phase_context context;
    uint32_t simulated_count;
    tutti_ps end_ps;
};

bool tutti_phases_suit(const struct tutti_schedule *schedule)
{
    bool all = schedule->ops->ring_phases != NULL;

    for (uint32_t i = 0; all && i < schedule->lane_count; i++) {
        uint32_t count = schedule->ops->ring_phases(schedule, i, NULL, 0);

        all = count > 0 && count <= PHASES_MAX;
    }
    return all;
}

/* ---- what there is to play ------------------------------------------------------------------- */

static int read_lanes(struct play *play, uint32_t *ret_size_max, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    int status = 0;

    *ret_size_max = 0;
    play->lanes = calloc(schedule->lane_count, sizeof(*play->lanes));
    if (play->lanes == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < schedule->lane_count; i++) {
        struct lane *lane = &play->lanes[i];

        lane->phase_count = schedule->ops->ring_phases(schedule, i, lane->phases, PHASES_MAX);
        assert(lane->phase_count <= PHASES_MAX);
        for (uint32_t p = 0; p < lane->phase_count && status == 0; p++) {
            uint32_t size = lane->phases[p].size;

            *ret_size_max = size > *ret_size_max ? size : *ret_size_max;
            status = tutti_hops_add(&play->hops, i, &lane->phases[p], &lane->families[p], err);
        }
        if (lane->phase_count > play->phase_count)
            play->phase_count = lane->phase_count;
    }
    return status;
}

/* Whether every family serves one phase after the other by what the schedule says, be it a lane
 * after itself: then times on its links need not be compared. */
static bool takes_turns(const struct play *play)
{
    struct {
        uint32_t lane;
        uint32_t phase; /* + 1; 0: none yet */
    } last[TUTTI_HOP_FAMILIES_MAX] = {{.phase = 0}};

    for (uint32_t p = 0; p < play->phase_count; p++) {
        for (uint32_t i = 0; i < play->schedule->lane_count; i++) {
            const struct lane *lane = &play->lanes[i];
            uint32_t family = lane->families[p];

            if (p >= lane->phase_count)
                continue;
            if (last[family].phase > 0 && last[family].lane != i &&
                (last[family].phase != p || last[family].lane != lane->phases[p].after_lane))
                return false;
            last[family].lane = i;
            last[family].phase = p + 1;
        }
    }
    return true;
}

static int lay_starts(struct play *play, struct tutti_err *err)
{
    const struct tutti_sim_opts *opts = play->opts;
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    tutti_ps first_ps = tutti_rank_begin_ps(opts, 0, launch_ps);
    tutti_ps last_ps = first_ps;
    uint32_t n = play->schedule->rank_count;
    bool together = true;

    for (uint32_t i = 1; i < n && opts->start_ps != NULL; i++)
        together &= opts->start_ps[i] == opts->start_ps[0];
    if (!together) {
        play->starts_ps = malloc(n * sizeof(*play->starts_ps));
        if (play->starts_ps == NULL)
            return tutti_nomem(err);
        for (uint32_t i = 0; i < n; i++) {
            play->starts_ps[i] = tutti_rank_begin_ps(opts, i, launch_ps);
            last_ps = play->starts_ps[i] > last_ps ? play->starts_ps[i] : last_ps;
        }
    }
    for (uint32_t i = 0; i < play->schedule->lane_count; i++)
        play->lanes[i].times[0] = (struct tutti_rank_times){
            .all_ps = first_ps, .each_ps = play->starts_ps, .last_ps = last_ps};
    return 0;
}

/* ---- playing --------------------------------------------------------------------------------- */

/* Whether slots of a phase may still be taken by an earlier phase over the same connections: not if
 * it has waited for its turn, for then all that was sent over them has been taken. */
static bool shares_slots(const struct play *play, const struct lane *lane, uint32_t earlier,
                         uint32_t phase)
{
    return lane->families[earlier] == lane->families[phase] &&
           (play->compares || lane->phases[phase].after_lane == TUTTI_LANE_NONE);
}

/* The finish of the latest earlier phase of a lane that shares slots with this one, or NULL. */
static const struct tutti_rank_times *slots_before(const struct play *play, const struct lane *lane,
                                                   uint32_t phase)
{
    for (uint32_t p = phase; p-- > 0;) {
        if (shares_slots(play, lane, p, phase))
            return &lane->times[p + 1];
    }
    return NULL;
}

static int play_phase(struct play *play, uint32_t number, uint32_t p, struct tutti_err *err)
{
    struct lane *lane = &play->lanes[number];
    uint32_t after = lane->phases[p].after_lane;
    struct tutti_phase_ask ask = {.phase = &lane->phases[p],
                                  .lane = number,
                                  .is_last = p + 1 == lane->phase_count,
                                  .family = lane->families[p],
                                  .ready = &lane->times[p]};
    uint32_t simulated_count = 0;
    int status;

    if (after != TUTTI_LANE_NONE) {
        const struct lane *other = &play->lanes[after];

        assert(after < play->schedule->lane_count);
        if (p == 0 || other->phase_count < p || other->families[p - 1] != lane->families[p])
            return tutti_fail(err, TUTTI_ELACK, "lanes wait for each other on different links");
        ask.turn = &other->times[p];
    }
    ask.slots = slots_before(play, lane, p);
    status = tutti_phase_play(&play->context, &ask, &lane->times[p + 1], &simulated_count, err);
    if (simulated_count > play->simulated_count)
        play->simulated_count = simulated_count;
    return status;
}

static void forget(struct play *play, struct tutti_rank_times *times)
{
    if (times->each_ps != play->starts_ps)
        tutti_phase_give_back(&play->context, times);
    times->each_ps = NULL;
}

/* Forgets the times that no later phase asks for: after phase p those that it began with, but for
 * ends of phases over whose connections the lane goes again. */
static void forget_old(struct play *play, struct lane *lane, uint32_t p)
{
    bool again = false;

    for (uint32_t later = p + 1; later < lane->phase_count && p > 0; later++)
        again |= shares_slots(play, lane, p - 1, later);
    if (p < lane->phase_count && !again)
        forget(play, &lane->times[p]);
}

static int play_all(struct play *play, struct tutti_err *err)
{
    uint32_t lane_count = play->schedule->lane_count;
    int status = 0;

    for (uint32_t p = 0; p < play->phase_count; p++) {
        for (uint32_t i = 0; i < lane_count && status == 0; i++) {
            if (p < play->lanes[i].phase_count)
                status = play_phase(play, i, p, err);
        }
        for (uint32_t i = 0; i < lane_count && status == 0; i++)
            forget_old(play, &play->lanes[i], p);
    }
    for (uint32_t i = 0; i < lane_count && status == 0; i++) {
        tutti_ps end_ps = play->lanes[i].times[play->lanes[i].phase_count].last_ps;

        play->end_ps = end_ps > play->end_ps ? end_ps : play->end_ps;
    }
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int prepare(struct play *play, struct tutti_err *err)
{
    uint32_t size_max;
    int status = read_lanes(play, &size_max, err);

    if (status < 0)
        return status;
    if (tutti_hops_take(&play->hops, play->opts->topo, play->known) < 0)
        return tutti_nomem(err);
    play->compares = !takes_turns(play);
    status = tutti_hops_find(&play->hops, play->opts, play->compares, err);
    play->compares &= !play->hops.has_room;
    if (status == 0 && !play->hops.exclusive && !play->compares) {
        play->compares = true;
        status = tutti_hops_find(&play->hops, play->opts, true, err);
    }
    if (status == 0)
        status = tutti_phase_context_init(&play->context, play->opts, play->schedule, &play->hops,
                                          size_max, err);
    if (status == 0 && play->compares)
        status = tutti_phase_compare_links(&play->context, err);
    if (status < 0)
        return status;
    return lay_starts(play, err);
}

static uint64_t count_steps(const struct play *play)
{
    uint64_t steps = 0;

    for (uint32_t i = 0; i < play->schedule->lane_count; i++) {
        for (uint32_t p = 0; p < play->lanes[i].phase_count; p++)
            steps +=
                2 * play->lanes[i].phases[p].transfer_count + play->lanes[i].phases[p].reduce_count;
    }
    return steps * play->schedule->rank_count;
}

static void finish(struct play *play)
{
    for (uint32_t i = 0; play->lanes != NULL && i < play->schedule->lane_count; i++) {
        for (uint32_t p = 0; p <= play->lanes[i].phase_count; p++)
            forget(play, &play->lanes[i].times[p]);
    }
    tutti_phase_context_done(&play->context);
    tutti_hops_give(&play->hops, play->known);
    free(play->starts_ps);
    free(play->lanes);
}

int tutti_phases_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      uint64_t step_count_max, struct tutti_hops *known, struct tutti_folded *ret,
                      struct tutti_err *err)
{
    struct play *play = calloc(1, sizeof(*play));
    int status;

    if (play == NULL)
        return tutti_nomem(err);
    play->opts = opts;
    play->schedule = schedule;
    play->known = known;
    play->context.update_count_max = UPDATES_MAX;
    if (step_count_max > 0 && step_count_max < UPDATES_MAX)
        play->context.update_count_max = step_count_max;
    status = prepare(play, err);
    if (status == 0)
        status = play_all(play, err);
    if (status == 0)
        *ret = (struct tutti_folded){.end_ps = play->end_ps,
                                     .step_count = count_steps(play),
                                     .class_count = play->simulated_count};
    finish(play);
    free(play);
    return status;
}

/* Of the phases of one lane; INT64_MAX where a phase goes ways that are not known. Times of shared
 * links are rounded as doubles are: a picosecond a message. */
static tutti_ps lane_least_ps(const struct tutti_hops *known, const struct tutti_sim_opts *opts,
                              const struct tutti_route_weight *best,
                              const struct tutti_ring_phase *phases, uint32_t count)
{
    tutti_ps sum = 0;

    for (uint32_t p = 0; p < count; p++) {
        uint32_t family;
        tutti_ps hop_ps;

        if (!tutti_hops_family(known, &phases[p], &family))
            return INT64_MAX;
        hop_ps = tutti_add_ps(best[family].latency_ps,
                              tutti_hop_busy_ps(opts, best[family].pace, phases[p].bytes));
        if (hop_ps > 1 &&
            tutti_times((uint64_t)hop_ps - 1, phases[p].transfer_count) < INT64_MAX / 4)
            sum = tutti_add_ps(sum, (hop_ps - 1) * (tutti_ps)phases[p].transfer_count);
    }
    return sum;
}

tutti_ps tutti_phases_least_ps(struct tutti_hops *known, const struct tutti_schedule *schedule,
                               const struct tutti_protocol *protocol)
{
    struct tutti_sim_opts opts = {.model = known->model, .protocol = protocol};
    struct tutti_route_weight best[TUTTI_HOP_FAMILIES_MAX];
    tutti_ps most = 0;

    if (!tutti_phases_suit(schedule) || tutti_hops_best(known, protocol, best) < 0)
        return 0;
    for (uint32_t i = 0; i < schedule->lane_count; i++) {
        struct tutti_ring_phase phases[PHASES_MAX];
        uint32_t count = schedule->ops->ring_phases(schedule, i, phases, PHASES_MAX);
        tutti_ps lane_ps = lane_least_ps(known, &opts, best, phases, count);

        if (lane_ps == INT64_MAX)
            return 0;
        most = tutti_later_ps(most, lane_ps);
    }
    return most;
}
