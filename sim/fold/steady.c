/* Skips rounds that repeat (theory: max-plus systems become periodic; here also with links that are
 * shared). The whole state, relative to the clock and to how far each lane and wire has come, is
 * written down whenever the longest lane has gone on by a period of its program, and compared with
 * one written down earlier: word by word, the doubles bit by bit. If they are equal and the
 * programs repeat, then what happened in between happens again, and again, to the picosecond.
 *
 * Which earlier one: after Brent's way (1980) of finding a cycle with one state kept. It is
 * replaced after ever more comparisons, here a quarter more each time: cycles are short beside what
 * comes before them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/class_play.h"
#include "sim/net/fair.h"

#define NONE UINT32_MAX

/* How far a lane has come. */
struct mark {
    uint64_t round; /* that its next step is in */
    uint64_t index;
    bool ended;
};

struct state {
    tutti_ps now;
    tutti_ps next_ps; /* from now to the next event: a glance that tells most states apart */
    int64_t *words;
    uint32_t word_count;
    uint32_t word_capacity;
    struct mark *marks;  /* [lane] */
    uint64_t *completed; /* [wire] */
    uint64_t *bytes;     /* [wire] */
};

struct tutti_steady {
    struct state then;
    struct state now;
    uint32_t lane;        /* the longest */
    uint64_t next_round;  /* of it: when to look next; UINT64_MAX: never */
    uint64_t compared;    /* states since `then` was kept */
    uint64_t compare_max; /* before it is replaced; 0: there is none yet */
};

/* ---- writing it down ------------------------------------------------------------------------- */

static int64_t *room_for(struct state *state, uint32_t count)
{
    if (tutti_grow(&state->words, &state->word_capacity, (uint64_t)state->word_count + count,
                   sizeof(*state->words)) < 0)
        return NULL;
    state->word_count += count;
    return state->words + state->word_count - count;
}

static struct mark mark_of(const struct tutti_class_lane *lane)
{
    return (struct mark){.round = lane->step != NULL ? lane->first_round + lane->step->round
                                                     : lane->round_count,
                         .index = lane->index,
                         .ended = lane->step == NULL};
}

static int write_lane(struct state *state, const struct tutti_class_play *play, uint32_t id)
{
    const struct tutti_class_lane *lane = &play->lanes[id];
    const struct tutti_quotient_lane *is = &play->quotient->lanes[id];
    uint32_t slot_count = play->schedule->slot_count;
    int64_t *out = room_for(state, 3 + is->out_count * (slot_count + 1) + is->in_count);

    if (out == NULL)
        return -TUTTI_ENOMEM;
    state->marks[id] = mark_of(lane);
    *out++ = lane->step == NULL ? -1 : (int64_t)lane->step->number;
    *out++ = lane->fused == NONE ? -1 : (int64_t)lane->fused_place;
    *out++ = lane->busy_ps < 0 ? -1 : lane->busy_ps - play->now;
    for (uint32_t place = is->out_first; place < is->out_first + is->out_count; place++) {
        uint64_t completed = play->wires[play->quotient->out_wire[place]].completed_count;
        uint64_t sent = play->out_sent[place];

        *out++ = (int64_t)(sent - completed);
        for (uint32_t i = 0; i < slot_count; i++) { /* which steps are under way */
            uint64_t m = completed + i;

            *out++ = m < sent
                         ? (int64_t)(lane->index -
                                     play->send_index[(size_t)place * slot_count + m % slot_count])
                         : -1;
        }
    }
    for (uint32_t place = is->in_first; place < is->in_first + is->in_count; place++)
        *out++ = (int64_t)(play->in_taken[place] -
                           play->wires[play->quotient->in_wire[place]].completed_count);
    return 0;
}

static int write_wire(struct state *state, const struct tutti_class_play *play, uint32_t id)
{
    const struct tutti_class_wire *wire = &play->wires[id];
    uint32_t under_way = (uint32_t)(wire->sent_count - wire->completed_count);
    int64_t *out = room_for(state, 3 + TUTTI_FAIR_CONNECTION_WORDS +
                                       under_way * (5 + TUTTI_FAIR_MESSAGE_WORDS));

    if (out == NULL)
        return -TUTTI_ENOMEM;
    state->completed[id] = wire->completed_count;
    state->bytes[id] = wire->bytes;
    *out++ = under_way;
    *out++ = (int64_t)(wire->arrived_count - wire->completed_count);
    *out++ = (int64_t)(wire->taken_count - wire->completed_count);
    tutti_fair_look_connection(play->net, id, play->now, out);
    out += TUTTI_FAIR_CONNECTION_WORDS;
    for (uint64_t m = wire->completed_count; m < wire->sent_count; m++) {
        uint32_t slot_count = play->schedule->slot_count;
        uint32_t number = id * slot_count + (uint32_t)(m % slot_count);
        const struct tutti_class_slot *slot = &play->slots[number];

        *out++ = slot->sent_ps - play->now;
        *out++ = m < wire->taken_count ? slot->taken_ps - play->now : 0;
        *out++ = (int64_t)slot->bytes;
        *out++ = slot->sends;
        *out++ = slot->takes;
        out[0] = out[1] = 0;
        if (m >= wire->arrived_count)
            tutti_fair_look_message(play->net, number, play->now, out);
        out += TUTTI_FAIR_MESSAGE_WORDS;
    }
    return 0;
}

static int write_state(struct state *state, const struct tutti_class_play *play, tutti_ps next_ps)
{
    int status = 0;

    state->now = play->now;
    state->next_ps = next_ps;
    state->word_count = 0;
    for (uint32_t i = 0; i < play->quotient->lane_count && status == 0; i++)
        status = write_lane(state, play, i);
    for (uint32_t i = 0; i < play->quotient->wire_count && status == 0; i++)
        status = write_wire(state, play, i);
    return status;
}

/* ---- how often it repeats -------------------------------------------------------------------- */

static uint64_t steady_rounds(const struct tutti_class_play *play, uint32_t id, uint64_t round,
                              uint64_t *ret_period)
{
    const struct tutti_quotient_lane *is = &play->quotient->lanes[id];

    return play->schedule->ops->steady(play->schedule, is->rank, is->lane, round, ret_period);
}

/* Runs of rounds like that between the two states that lie wholly in what repeats of a lane's
 * program; UINT64_MAX for one that has stood still. *ret_periods: how many periods a run has. */
static uint64_t runs_of_lane(const struct tutti_steady *steady, const struct tutti_class_play *play,
                             uint32_t id, uint64_t *ret_periods)
{
    const struct mark *then = &steady->then.marks[id];
    const struct mark *now = &steady->now.marks[id];
    uint64_t rounds = now->round - then->round;
    uint64_t period = 1;
    uint64_t left;

    *ret_periods = 0;
    if (then->index == now->index)
        return UINT64_MAX;
    if (now->ended || rounds == 0)
        return 0;
    left = steady_rounds(play, id, then->round, &period);
    if (left <= now->round - then->round || rounds % period != 0)
        return 0;
    *ret_periods = rounds / period;
    return (left - 1 - rounds) / rounds;
}

static uint64_t count_runs(const struct tutti_steady *steady, const struct tutti_class_play *play)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t id = 0; id < play->quotient->lane_count; id++) {
        uint32_t dep = play->quotient->lanes[id].dep;
        uint64_t periods;
        uint64_t its_periods;
        uint64_t runs = runs_of_lane(steady, play, id, &periods);

        least = runs < least ? runs : least;
        if (dep == NONE || least == 0)
            continue;
        /* One that does not keep pace with the lane it waits for would meet it some time. */
        (void)runs_of_lane(steady, play, dep, &its_periods);
        if (periods != its_periods)
            return 0;
    }
    return least == UINT64_MAX ? 0 : least;
}

/* ---- skipping -------------------------------------------------------------------------------- */

static void move_lane(const struct tutti_steady *steady, struct tutti_class_play *play, uint32_t id,
                      uint64_t runs, tutti_ps later_ps)
{
    struct tutti_class_lane *lane = &play->lanes[id];
    const struct tutti_quotient_lane *is = &play->quotient->lanes[id];
    uint64_t rounds = steady->now.marks[id].round - steady->then.marks[id].round;
    uint64_t steps = steady->now.marks[id].index - steady->then.marks[id].index;
    uint32_t slot_count = play->schedule->slot_count;
    uint32_t number;

    if (lane->busy_ps >= 0)
        lane->busy_ps += later_ps;
    if (lane->step == NULL || steps == 0)
        return;
    lane->index += steps * runs;
    number = lane->step->number;
    tutti_class_hold(play, id, lane->first_round + lane->step->round + rounds * runs);
    lane->step += number;
    for (uint32_t place = is->out_first; place < is->out_first + is->out_count; place++) {
        for (uint32_t i = 0; i < slot_count; i++)
            play->send_index[(size_t)place * slot_count + i] += steps * runs;
    }
}

/* Slots are numbered by messages: what is under way stays in its slots if the messages of the runs
 * fill whole turns of them. */
static bool keeps_slots(const struct tutti_steady *steady, const struct tutti_class_play *play,
                        uint64_t runs)
{
    for (uint32_t id = 0; id < play->quotient->wire_count; id++) {
        uint64_t messages = steady->now.completed[id] - steady->then.completed[id];

        if (messages % play->schedule->slot_count * (runs % play->schedule->slot_count) %
                play->schedule->slot_count !=
            0)
            return false;
    }
    return true;
}

static void move_wires(const struct tutti_steady *steady, struct tutti_class_play *play,
                       uint64_t runs, tutti_ps later_ps)
{
    const struct tutti_quotient *quotient = play->quotient;
    uint32_t slot_total = quotient->wire_count * play->schedule->slot_count;

    for (uint32_t id = 0; id < quotient->lane_count; id++) {
        const struct tutti_quotient_lane *is = &quotient->lanes[id];

        for (uint32_t k = is->out_first; k < is->out_first + is->out_count; k++)
            play->out_sent[k] += runs * (steady->now.completed[quotient->out_wire[k]] -
                                         steady->then.completed[quotient->out_wire[k]]);
        for (uint32_t k = is->in_first; k < is->in_first + is->in_count; k++)
            play->in_taken[k] += runs * (steady->now.completed[quotient->in_wire[k]] -
                                         steady->then.completed[quotient->in_wire[k]]);
    }
    for (uint32_t id = 0; id < quotient->wire_count; id++) {
        struct tutti_class_wire *wire = &play->wires[id];
        uint64_t messages = runs * (steady->now.completed[id] - steady->then.completed[id]);

        wire->sent_count += messages;
        wire->arrived_count += messages;
        wire->taken_count += messages;
        wire->completed_count += messages;
        wire->bytes += runs * (steady->now.bytes[id] - steady->then.bytes[id]);
    }
    for (uint32_t i = 0; i < slot_total; i++) {
        play->slots[i].sent_ps += later_ps;
        play->slots[i].taken_ps += later_ps;
    }
}

/* For who plays programs that repeat more often. */
static void note_skip(const struct tutti_steady *steady, const struct tutti_class_play *play,
                      uint64_t runs)
{
    struct tutti_class_skip *skip = play->skip;

    skip->runs = runs;
    skip->run_ps = steady->now.now - steady->then.now;
    for (uint32_t id = 0; id < play->quotient->lane_count; id++) {
        uint64_t steps = steady->now.marks[id].index - steady->then.marks[id].index;

        skip->step_count += steps * play->quotient->lanes[id].size;
        if (steps > 0)
            skip->rounds[id] = steady->now.marks[id].round - steady->then.marks[id].round;
    }
    for (uint32_t id = 0; id < play->quotient->wire_count; id++)
        skip->run_bytes[id] = steady->now.bytes[id] - steady->then.bytes[id];
}

static int skip(const struct tutti_steady *steady, struct tutti_class_play *play, uint64_t runs)
{
    tutti_ps later_ps = (tutti_ps)runs * (steady->now.now - steady->then.now);
    int status = tutti_fair_shift(play->net, later_ps);

    if (status < 0)
        return status;
    if (play->skip->runs == 0)
        note_skip(steady, play, runs);
    tutti_queue_clear(&play->timers);
    for (uint32_t id = 0; id < play->quotient->lane_count; id++) {
        move_lane(steady, play, id, runs, later_ps);
        if (play->lanes[id].busy_ps >= 0)
            tutti_queue_put(&play->timers, id, play->lanes[id].busy_ps);
    }
    move_wires(steady, play, runs, later_ps);
    play->now += later_ps;
    return 0;
}

/* Not beyond what the clock counts. */
static uint64_t within_clock(const struct tutti_steady *steady, uint64_t runs)
{
    uint64_t run_ps = (uint64_t)(steady->now.now - steady->then.now);
    uint64_t left_ps = (uint64_t)(INT64_MAX / 2 - steady->now.now);

    if (steady->now.now > INT64_MAX / 2 || run_ps == 0)
        return 0;
    return left_ps / run_ps < runs ? left_ps / run_ps : runs;
}

static bool is_same(const struct tutti_steady *steady)
{
    return steady->compare_max > 0 && steady->then.word_count == steady->now.word_count &&
           memcmp(steady->then.words, steady->now.words,
                  steady->now.word_count * sizeof(*steady->now.words)) == 0;
}

/* Looks again once the longest lane has gone through another period; if its program does not repeat
 * here, at its next round. */
static void plan_next(struct tutti_steady *steady, const struct tutti_class_play *play)
{
    struct mark mark = mark_of(&play->lanes[steady->lane]);
    uint64_t period = 1;

    steady->next_round = UINT64_MAX;
    if (mark.ended)
        return;
    (void)steady_rounds(play, steady->lane, mark.round, &period);
    steady->next_round = mark.round + period;
}

static void swap_states(struct tutti_steady *steady)
{
    struct state kept = steady->then;

    steady->then = steady->now;
    steady->now = kept;
}

int tutti_steady_watch(struct tutti_steady *steady, struct tutti_class_play *play,
                       tutti_ps event_ps)
{
    const struct tutti_class_lane *lane = &play->lanes[steady->lane];
    uint64_t runs = 0;
    int status = 0;

    if (steady->next_round == UINT64_MAX || mark_of(lane).round < steady->next_round)
        return 0;
    if (steady->compared + 1 < steady->compare_max &&
        steady->then.next_ps != event_ps - play->now) {
        steady->compared++;
        plan_next(steady, play);
        return 0;
    }
    status = write_state(&steady->now, play, event_ps - play->now);
    if (status < 0)
        return status;
    if (is_same(steady)) {
        runs = within_clock(steady, count_runs(steady, play));
        while (runs > 0 && !keeps_slots(steady, play, runs))
            runs--;
    }
    if (runs > 0) {
        status = skip(steady, play, runs);
        steady->compare_max = 0;
    } else if (++steady->compared >= steady->compare_max) {
        swap_states(steady);
        steady->compared = 0;
        steady->compare_max += 1 + steady->compare_max / 4;
    }
    plan_next(steady, play);
    return status;
}

/* ---- coming and going ------------------------------------------------------------------------ */

int tutti_steady_new(const struct tutti_class_play *play, struct tutti_steady **ret,
                     struct tutti_err *err)
{
    size_t lanes = play->quotient->lane_count;
    size_t wires = (size_t)play->quotient->wire_count + 1;
    struct tutti_steady *steady = calloc(1, sizeof(*steady));

    if (steady == NULL)
        return tutti_nomem(err);
    steady->then.marks = calloc(lanes, sizeof(*steady->then.marks));
    steady->now.marks = calloc(lanes, sizeof(*steady->now.marks));
    steady->then.completed = calloc(wires, sizeof(*steady->then.completed));
    steady->now.completed = calloc(wires, sizeof(*steady->now.completed));
    steady->then.bytes = calloc(wires, sizeof(*steady->then.bytes));
    steady->now.bytes = calloc(wires, sizeof(*steady->now.bytes));
    if (steady->then.marks == NULL || steady->now.marks == NULL || steady->then.completed == NULL ||
        steady->now.completed == NULL || steady->then.bytes == NULL || steady->now.bytes == NULL) {
        tutti_steady_free(steady);
        return tutti_nomem(err);
    }
    for (uint32_t id = 1; id < lanes; id++) {
        if (play->lanes[id].round_count > play->lanes[steady->lane].round_count)
            steady->lane = id;
    }
    steady->next_round = play->schedule->ops->steady == NULL ? UINT64_MAX : 1;
    *ret = steady;
    return 0;
}

void tutti_steady_free(struct tutti_steady *steady)
{
    if (steady == NULL)
        return;
    free(steady->then.words);
    free(steady->then.marks);
    free(steady->then.completed);
    free(steady->then.bytes);
    free(steady->now.words);
    free(steady->now.marks);
    free(steady->now.completed);
    free(steady->now.bytes);
    free(steady);
}
