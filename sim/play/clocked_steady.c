/* Skips rounds that repeat in a play by the clock; see clocked_steady.h. Whenever the longest lane
 * has gone on by a period of its program, a glance at the state is kept as a hash. Once one comes
 * again, all of the state that decides how the play goes on is written down as words, relative to
 * the clock and to how far each lane has come, and once more after as long. If it is the same then,
 * word by word, and what is under way arrives in the same order, then what happened in between
 * happens again and again, to the picosecond and in the same order, as long as programs repeat.
 *
 * The order matters: where lanes of a rank want a link in the same instant, the first to ask gets
 * it, and which is first hangs on what completed first in that instant (sim/play/stage.c). */
#include "sim/play/clocked_steady.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/alphabeta.h"
#include "sim/play/clocked_state.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { LOOKS_MAX = 1 << 16, BACK_MAX = 64 }; /* periods of the longest lane that a run may have */

/* How far a lane has come. */
struct mark {
    uint64_t round; /* that it is at */
    uint64_t index;
};

struct state {
    tutti_ps now;
    uint64_t step_count;
    uint64_t look; /* its number */
    int64_t *words;
    uint32_t word_count;
    uint32_t word_capacity;
    uint64_t *order; /* wires of what is under way, first those that arrive first; then timers */
    uint32_t order_count;
    struct mark *marks;   /* [lane] */
    uint64_t *sent_count; /* [wire] */
};

struct tutti_clocked_steady {
    struct state then;
    struct state now;
    uint64_t *hashes; /* [LOOKS_MAX] */
    uint64_t look_count;
    uint64_t run_looks;  /* looks from `then` until it should be the same; 0: nothing is kept */
    uint32_t lane;       /* the longest */
    uint64_t next_round; /* of it: when to look next; UINT64_MAX: never */
    uint64_t step_count_max;
    uint64_t skipped_count;         /* steps */
    struct tutti_queue_item *items; /* scratch */
    uint32_t item_capacity;
    bool over;
};

/* ---- writing it down ------------------------------------------------------------------------- */

static int64_t *room_for(struct state *state, uint32_t count)
{
    if (tutti_grow(&state->words, &state->word_capacity, (uint64_t)state->word_count + count,
                   sizeof(*state->words)) < 0)
        return NULL;
    return state->words + state->word_count;
}

/* A lane, and those that wait for it in the order in which they will be woken. */
static int write_lane(struct state *state, const struct tutti_clocked *clocked, uint32_t id)
{
    const struct lane *lane = &clocked->lanes[id];
    int64_t *out = room_for(state, 2 + clocked->schedule->lane_count);
    int64_t *first = out;

    if (out == NULL)
        return -TUTTI_ENOMEM;
    *out++ =
        (int64_t)lane->brief_at | (int64_t)lane->brief_count << 8 | (int64_t)lane->written << 16;
    *out++ = lane->fused == NONE ? -1 : (int64_t)lane->fused;
    for (uint32_t waiter = lane->waiter_first; waiter != NONE;
         waiter = clocked->lanes[waiter].waiter_next)
        *out++ = waiter;
    state->word_count += (uint32_t)(out - first);
    return 0;
}

static int write_wire(struct state *state, const struct tutti_clocked *clocked, uint32_t id)
{
    const struct wire *wire = &clocked->wires[id];
    const struct lane *lane = &clocked->lanes[wire->send_lane];
    int64_t *out = room_for(state, 2 + 4 * wire->under_way);
    int64_t *first = out;

    if (out == NULL)
        return -TUTTI_ENOMEM;
    *out++ =
        (int64_t)wire->under_way << 2 | (wire->send_waits ? 2 : 0) | (wire->recv_waits ? 1 : 0);
    *out++ = tutti_alphabeta_connection_ps(clocked->net, id, clocked->now);
    for (uint32_t m = wire->first; m != NONE; m = clocked->messages[m].next) {
        const struct message *message = &clocked->messages[m];

        *out++ = (int64_t)(lane->index - message->index);
        *out++ = (int64_t)message->bytes;
        *out++ = message->arrived ? -1 : tutti_alphabeta_message_ps(clocked->net, m, clocked->now);
        *out++ = message->arrived ? 0 : clocked->now - message->start_ps;
    }
    assert(out - first <= 2 + 4 * (int64_t)wire->under_way);
    state->word_count += (uint32_t)(out - first);
    return 0;
}

static int write_links(struct state *state, const struct tutti_clocked *clocked, uint32_t count)
{
    int64_t *out = room_for(state, count);

    if (out == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t link = 0; link < count; link++)
        *out++ = tutti_alphabeta_link_ps(clocked->net, link, clocked->now);
    state->word_count += count;
    return 0;
}

static int write_words(struct state *state, const struct tutti_clocked *clocked,
                       uint32_t link_count)
{
    int status = 0;

    state->now = clocked->now;
    state->step_count = clocked->step_count;
    state->word_count = 0;
    for (uint32_t id = 0; id < clocked->lane_count && status == 0; id++)
        status = write_lane(state, clocked, id);
    for (uint32_t id = 0; id < clocked->wire_count && status == 0; id++)
        status = write_wire(state, clocked, id);
    return status < 0 ? status : write_links(state, clocked, link_count);
}

static int reserve_items(struct tutti_clocked_steady *steady, uint64_t count)
{
    return tutti_grow(&steady->items, &steady->item_capacity, count, sizeof(*steady->items));
}

/* What is under way in the order of arriving, and how far everything has come. */
static int write_order(struct tutti_clocked_steady *steady, struct state *state,
                       const struct tutti_clocked *clocked)
{
    uint64_t most = (uint64_t)clocked->message_count + clocked->lane_count;
    uint32_t count;

    free(state->order);
    free(state->marks);
    free(state->sent_count);
    state->order = calloc((size_t)most * 2 + 1, sizeof(*state->order));
    state->marks = calloc((size_t)clocked->lane_count + 1, sizeof(*state->marks));
    state->sent_count = calloc((size_t)clocked->wire_count + 1, sizeof(*state->sent_count));
    if (state->order == NULL || state->marks == NULL || state->sent_count == NULL ||
        reserve_items(steady, most) < 0)
        return -TUTTI_ENOMEM;
    state->order_count = 0;
    count = tutti_queue_list(tutti_alphabeta_arrivals(clocked->net), steady->items);
    for (uint32_t i = 0; i < count; i++)
        state->order[state->order_count++] = clocked->messages[steady->items[i].id].wire;
    count = tutti_queue_list(&clocked->timers, steady->items);
    for (uint32_t i = 0; i < count; i++) {
        state->order[state->order_count++] = steady->items[i].id;
        state->order[state->order_count++] = (uint64_t)(steady->items[i].at_ps - clocked->now);
    }
    for (uint32_t id = 0; id < clocked->lane_count; id++)
        state->marks[id] = (struct mark){clocked->lanes[id].round, clocked->lanes[id].index};
    for (uint32_t id = 0; id < clocked->wire_count; id++)
        state->sent_count[id] = clocked->wires[id].sent_count;
    return 0;
}

/* A glance that tells most states apart: how many messages are under way on each wire. */
static uint64_t hash_wires(const struct tutti_clocked *clocked)
{
    uint64_t hash = clocked->under_way;

    for (uint32_t id = 0; id < clocked->wire_count; id++) {
        const struct wire *wire = &clocked->wires[id];

        hash = (hash ^ (uint64_t)wire->under_way << 1 ^ wire->send_waits) *
               UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* ---- how often it repeats -------------------------------------------------------------------- */

static uint64_t steady_rounds(const struct tutti_clocked *clocked, uint32_t id, uint64_t round,
                              uint64_t *ret_period)
{
    const struct tutti_schedule *schedule = clocked->schedule;

    return schedule->ops->steady(schedule, id / schedule->lane_count, id % schedule->lane_count,
                                 round, ret_period);
}

/* Runs of rounds like that between the two states that lie wholly in what repeats of a lane's
 * program; UINT64_MAX for one that has stood still. *ret_periods: how many periods a run has. */
static uint64_t runs_of_lane(const struct tutti_clocked_steady *steady,
                             const struct tutti_clocked *clocked, uint32_t id,
                             uint64_t *ret_periods)
{
    const struct mark *then = &steady->then.marks[id];
    const struct mark *now = &steady->now.marks[id];
    uint64_t rounds = now->round - then->round;
    uint64_t period = 1;
    uint64_t left;

    *ret_periods = 0;
    if (then->index == now->index)
        return UINT64_MAX;
    if (rounds == 0 || then->round == 0)
        return 0;
    left = steady_rounds(clocked, id, then->round - 1, &period); /* the next to be written less 1 */
    if (left <= rounds || rounds % period != 0)
        return 0;
    *ret_periods = rounds / period;
    return (left - 1 - rounds) / rounds;
}

/* Lanes that wait for each other must go on by as many periods; here all do that go on. */
static uint64_t count_runs(const struct tutti_clocked_steady *steady,
                           const struct tutti_clocked *clocked)
{
    uint64_t run_ps = (uint64_t)(steady->now.now - steady->then.now);
    uint64_t left_ps = (uint64_t)(INT64_MAX / 2 - steady->now.now);
    uint64_t least = UINT64_MAX;
    uint64_t periods = 0;

    if (steady->now.now > INT64_MAX / 2 || run_ps == 0)
        return 0;
    for (uint32_t id = 0; id < clocked->lane_count && least > 0; id++) {
        uint64_t its_periods;
        uint64_t runs = runs_of_lane(steady, clocked, id, &its_periods);

        least = runs < least ? runs : least;
        if (its_periods == 0)
            continue;
        if (periods != 0 && its_periods != periods)
            return 0;
        periods = its_periods;
    }
    if (least == UINT64_MAX)
        return 0;
    return left_ps / run_ps < least ? left_ps / run_ps : least;
}

/* ---- skipping -------------------------------------------------------------------------------- */

static void move_lanes(const struct tutti_clocked_steady *steady, struct tutti_clocked *clocked,
                       uint64_t runs)
{
    const struct mark *then = steady->then.marks;
    const struct mark *now = steady->now.marks;

    for (uint32_t id = 0; id < clocked->lane_count; id++) {
        struct lane *lane = &clocked->lanes[id];
        uint32_t first = id - id % clocked->schedule->lane_count;

        if (now[id].index == then[id].index)
            continue;
        lane->round += (now[id].round - then[id].round) * runs;
        lane->index += (now[id].index - then[id].index) * runs;
        for (uint32_t i = 0; i < lane->brief_count; i++) {
            uint32_t other = first + lane->brief[i].dep_lane;

            if ((lane->brief[i].flags & TUTTI_STEP_DEP) != 0)
                lane->brief[i].dep_step +=
                    (uint32_t)((now[other].index - then[other].index) * runs);
        }
    }
}

static void skip(struct tutti_clocked_steady *steady, struct tutti_clocked *clocked, uint64_t runs)
{
    tutti_ps later_ps = (tutti_ps)runs * (steady->now.now - steady->then.now);
    uint64_t steps = runs * (steady->now.step_count - steady->then.step_count);

    for (uint32_t id = 0; id < clocked->wire_count; id++) {
        struct wire *wire = &clocked->wires[id];
        const struct mark *then = &steady->then.marks[wire->send_lane];
        const struct mark *now = &steady->now.marks[wire->send_lane];

        wire->sent_count += runs * (steady->now.sent_count[id] - steady->then.sent_count[id]);
        for (uint32_t m = wire->first; m != NONE; m = clocked->messages[m].next) {
            clocked->messages[m].index += runs * (now->index - then->index);
            clocked->messages[m].start_ps += later_ps;
        }
    }
    move_lanes(steady, clocked, runs);
    tutti_alphabeta_shift(clocked->net, later_ps, steady->items);
    tutti_queue_shift(&clocked->timers, later_ps, steady->items);
    clocked->now += later_ps;
    clocked->step_count += steps;
    steady->skipped_count += steps;
}

/* ---- watching -------------------------------------------------------------------------------- */

static bool is_same(const struct tutti_clocked_steady *steady)
{
    const struct state *then = &steady->then;
    const struct state *now = &steady->now;

    return then->word_count == now->word_count && then->order_count == now->order_count &&
           memcmp(then->words, now->words, now->word_count * sizeof(*now->words)) == 0 &&
           memcmp(then->order, now->order, now->order_count * sizeof(*now->order)) == 0;
}

/* How many looks ago the hash was the same; 0: it was not. */
static uint64_t looks_since(const struct tutti_clocked_steady *steady, uint64_t hash)
{
    for (uint64_t back = 1; back <= BACK_MAX && back <= steady->look_count; back++) {
        if (steady->hashes[(steady->look_count - back) % LOOKS_MAX] == hash)
            return back;
    }
    return 0;
}

static void swap_states(struct tutti_clocked_steady *steady)
{
    struct state kept = steady->then;

    steady->then = steady->now;
    steady->now = kept;
}

static int look(struct tutti_clocked_steady *steady, struct tutti_clocked *clocked)
{
    uint64_t hash = hash_wires(clocked);
    uint64_t since = looks_since(steady, hash);
    uint64_t number = steady->look_count++;
    uint64_t runs = 0;
    int status;

    steady->hashes[number % LOOKS_MAX] = hash;
    if (steady->run_looks > 0 && number < steady->then.look + steady->run_looks)
        return 0;
    steady->now.look = number;
    if (since == 0) {
        steady->run_looks = 0;
        return 0;
    }
    status = write_words(&steady->now, clocked, clocked->opts->topo->link_count);
    if (status == 0)
        status = write_order(steady, &steady->now, clocked);
    if (status == 0 && steady->run_looks > 0 && is_same(steady))
        runs = count_runs(steady, clocked);
    if (status < 0)
        return status;
    if (runs > 0) {
        skip(steady, clocked, runs);
        steady->next_round = UINT64_MAX; /* less than one more such run is left */
    }
    swap_states(steady);
    steady->run_looks = since;
    return 0;
}

int tutti_clocked_steady_watch(struct tutti_clocked_steady *steady, struct tutti_clocked *clocked)
{
    const struct lane *lane = &clocked->lanes[steady->lane];
    uint64_t period = 1;
    int status;

    if (steady->next_round == UINT64_MAX || lane->round < steady->next_round)
        return 0;
    if (clocked->step_count > steady->step_count_max) {
        steady->over = clocked->unsuited = true;
        return 0;
    }
    (void)steady_rounds(clocked, steady->lane, lane->round - 1, &period);
    steady->next_round = lane->round + period;
    status = look(steady, clocked);
    if (lane->round == lane->round_count)
        steady->next_round = UINT64_MAX;
    return status;
}

bool tutti_clocked_steady_has_skipped(const struct tutti_clocked_steady *steady)
{
    return steady->skipped_count > 0;
}

bool tutti_clocked_steady_is_over(const struct tutti_clocked_steady *steady)
{
    return steady->over;
}

/* ---- coming and going ------------------------------------------------------------------------ */

void tutti_clocked_steady_reset(struct tutti_clocked_steady *steady,
                                const struct tutti_clocked *clocked)
{
    steady->lane = 0;
    steady->look_count = steady->run_looks = steady->skipped_count = 0;
    steady->over = false;
    for (uint32_t id = 1; id < clocked->lane_count; id++) {
        if (clocked->lanes[id].round_count > clocked->lanes[steady->lane].round_count)
            steady->lane = id;
    }
    steady->next_round = clocked->schedule->ops->steady == NULL ? UINT64_MAX : 2;
}

int tutti_clocked_steady_new(uint64_t step_count_max, struct tutti_clocked_steady **ret,
                             struct tutti_err *err)
{
    struct tutti_clocked_steady *steady = calloc(1, sizeof(*steady));

    if (steady == NULL)
        return tutti_nomem(err);
    steady->step_count_max = step_count_max;
    steady->hashes = calloc(LOOKS_MAX, sizeof(*steady->hashes));
    if (steady->hashes == NULL) {
        free(steady);
        return tutti_nomem(err);
    }
    *ret = steady;
    return 0;
}

static void free_state(struct state *state)
{
    free(state->words);
    free(state->order);
    free(state->marks);
    free(state->sent_count);
}

void tutti_clocked_steady_free(struct tutti_clocked_steady *steady)
{
    if (steady == NULL)
        return;
    free_state(&steady->then);
    free_state(&steady->now);
    free(steady->hashes);
    free(steady->items);
    free(steady);
}
