/* Where the time of a step goes: the gaps between works of a rank, by what they waited for. */
#include "runtime/schedule.h"
#include "runtime/wide.h"
#include "sim/train/train.h"

static tutti_ps *part_of(struct tutti_train_split *split, uint32_t lane)
{
    return lane == TUTTI_LANE_GATHER   ? &split->gather_ps
           : lane == TUTTI_LANE_ACROSS ? &split->across_ps
                                       : &split->reduce_ps;
}

/* A gap between works, or after the last. */
static void add_gap(struct tutti_train_notes *n, uint32_t lane, tutti_ps gap_ps)
{
    tutti_ps late_ps = lane < TUTTI_STRATEGY_LANES ? n->late_ps[lane] : 0;

    late_ps = late_ps < gap_ps ? late_ps : gap_ps;
    n->split.late_ps += late_ps;
    *part_of(&n->split, lane) += gap_ps - late_ps;
    for (uint32_t i = 0; i < TUTTI_STRATEGY_LANES; i++)
        n->late_ps[i] = 0;
}

static void note_call(struct tutti_train_notes *n, const struct tutti_step_note *note)
{
    tutti_ps from_ps = note->came_ps > n->work_end_ps ? note->came_ps : n->work_end_ps;

    n->communication_ps += note->end_ps - note->begin_ps;
    if (note->begin_ps > from_ps)
        n->late_ps[note->lane] += note->begin_ps - from_ps;
}

static void note_work(struct tutti_train_notes *n, const struct tutti_step_note *note)
{
    const struct tutti_schedule *s = n->train->schedule;
    const struct tutti_step *step = note->step;
    const uint32_t *pace = n->train->ask.pace_ppm;
    tutti_ps alone_ps = step->duration_ps;
    uint32_t lane = (step->flags & TUTTI_STEP_DEP) != 0 ? step->dep_lane : TUTTI_LANE_REDUCE;

    if (pace != NULL)
        alone_ps = (tutti_ps)tutti_muldiv((uint64_t)alone_ps, pace[note->rank], TUTTI_PACE);
    add_gap(n, lane, note->begin_ps - n->work_end_ps);
    if (step->peer > 0 && s->work[step->peer - 1].kind == TUTTI_WORK_INPUT)
        n->split.input_ps += alone_ps;
    else
        n->split.compute_ps += alone_ps;
    n->split.slowed_ps += note->end_ps - note->begin_ps - alone_ps;
    n->work_end_ps = note->end_ps;
}

void tutti_train_note(void *context, const struct tutti_step_note *note)
{
    struct tutti_train_notes *n = context;
    const struct tutti_train_ask *ask = &n->train->ask;

    if (ask->note != NULL)
        ask->note(ask->note_context, note);
    if (note->rank != 0)
        return;
    if (note->lane < TUTTI_STRATEGY_LANES)
        n->lane_end_ps[note->lane] = note->end_ps;
    if (note->lane == TUTTI_LANE_WORK)
        note_work(n, note);
    else if (note->step->kind == TUTTI_CALL && note->lane < TUTTI_STRATEGY_LANES)
        note_call(n, note);
}

void tutti_train_notes_end(struct tutti_train_notes *n, tutti_ps total_ps)
{
    uint32_t last = TUTTI_LANE_REDUCE;

    for (uint32_t lane = TUTTI_LANE_REDUCE; lane < TUTTI_STRATEGY_LANES; lane++)
        if (n->lane_end_ps[lane] > n->lane_end_ps[last])
            last = lane;
    add_gap(n, last, total_ps - n->work_end_ps);
}
