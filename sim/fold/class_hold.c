/* What a lane of a class play holds of its program: a round at a time, or a whole period of rounds
 * that repeat. */
#include <assert.h>

#include "sim/fold/class_play.h"

#define NONE UINT32_MAX

/* The place of a peer among `ranks`; programs mostly go on to the next or the same. */
static uint32_t place_of(const uint32_t *ranks, uint32_t count, uint32_t rank, uint32_t *guess)
{
    uint32_t at = *guess;

    for (uint32_t tried = 0; tried <= count; tried++) {
        if (at >= count)
            at = 0;
        if (ranks[at] == rank) {
            *guess = at;
            return at;
        }
        at++;
    }
    assert(false); /* the program was read before */
    return 0;
}

/* Writes a round of a lane; returns how many steps it has, or NONE where one depends on another. */
static uint32_t write_round(struct tutti_class_play *play, uint32_t id, uint64_t round)
{
    const struct tutti_quotient_lane *is = &play->quotient->lanes[id];
    bool depends = false;

    play->round.step_count = 0;
    play->schedule->ops->emit(play->schedule, is->rank, is->lane, round, &play->round);
    assert(play->round.step_count <= TUTTI_ROUND_STEPS_MAX);
    for (uint32_t i = 0; i < play->round.step_count; i++)
        depends |= (play->round.step[i].flags & TUTTI_STEP_DEP) != 0;
    return depends ? NONE : play->round.step_count;
}

/* Adds the round that was written. */
static void hold_round(struct tutti_class_play *play, uint32_t id)
{
    const struct tutti_quotient *quotient = play->quotient;
    const struct tutti_quotient_lane *is = &quotient->lanes[id];
    struct tutti_class_lane *lane = &play->lanes[id];

    assert(lane->step_count + play->round.step_count <= TUTTI_CLASS_HELD_MAX);
    for (uint32_t i = 0; i < play->round.step_count; i++) {
        const struct tutti_step *step = &play->round.step[i];
        struct tutti_class_step *held = &play->held[lane->step_count++];

        *held = (struct tutti_class_step){.bytes = step->bytes,
                                          .dep_step = step->dep_step,
                                          .dep_lane = step->dep_lane,
                                          .kind = step->kind,
                                          .flags = step->flags,
                                          .round = (uint8_t)lane->held_rounds,
                                          .number = (uint8_t)i};
        if (step->kind == TUTTI_SEND)
            held->place = is->out_first + place_of(quotient->out_rank + is->out_first,
                                                   is->out_count, step->peer, &lane->out_guess);
        else if (step->kind == TUTTI_RECV)
            held->place = is->in_first + place_of(quotient->in_rank + is->in_first, is->in_count,
                                                  step->peer, &lane->in_guess);
    }
    lane->held_rounds++;
}

/* Adds the rest of a period of rounds that repeat, if all of it can be held: steps that depend on
 * others do not repeat to the letter. */
static void hold_period(struct tutti_class_play *play, uint32_t id)
{
    const struct tutti_quotient_lane *is = &play->quotient->lanes[id];
    struct tutti_class_lane *lane = &play->lanes[id];
    uint64_t first = lane->first_round;
    uint32_t kept = lane->step_count;
    uint64_t period = 1;
    uint64_t count = 0;

    if (play->schedule->ops->steady != NULL)
        count = play->schedule->ops->steady(play->schedule, is->rank, is->lane, first, &period);
    if (count / 2 < period || period > TUTTI_CLASS_HELD_MAX)
        return;
    for (uint64_t round = first + 1; round < first + period; round++) {
        uint32_t more = write_round(play, id, round);

        if (more > TUTTI_CLASS_HELD_MAX - lane->step_count) { /* NONE, too */
            lane->step_count = kept;
            lane->held_rounds = 1;
            lane->one_by_one = true;
            return;
        }
        hold_round(play, id);
    }
    lane->same_end = first + count;
}

void tutti_class_hold(struct tutti_class_play *play, uint32_t id, uint64_t round)
{
    struct tutti_class_lane *lane = &play->lanes[id];

    lane->step_count = 0;
    for (; round < lane->round_count && lane->step_count == 0; round++) {
        uint32_t count = write_round(play, id, round);

        lane->first_round = round;
        lane->held_rounds = 0;
        lane->same_end = 0;
        hold_round(play, id);
        if (count != NONE && count > 0 && !lane->one_by_one)
            hold_period(play, id);
    }
    lane->steps = &play->few[(size_t)id * TUTTI_CLASS_HELD_FEW];
    if (lane->step_count > TUTTI_CLASS_HELD_FEW)
        lane->steps = &play->many[(size_t)id * TUTTI_CLASS_HELD_MAX];
    for (uint32_t i = 0; i < lane->step_count; i++)
        lane->steps[i] = play->held[i];
    lane->step = lane->step_count > 0 ? lane->steps : NULL;
}
