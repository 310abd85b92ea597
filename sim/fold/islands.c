/* The play of a ring's quotient island by island; see islands.h. */
#include "sim/fold/islands.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/fold/island.h"
#include "sim/net/net.h"
#include "sim/play/start.h"
#include "sim/play/wires.h"
#include "sim/sim.h"

#define NONE UINT32_MAX

enum { LOOKS_MAX = 16 };

/* ---- the clock ------------------------------------------------------------------------------- */

static tutti_ps earliest(const struct tutti_islands *islands)
{
    tutti_ps least = INT64_MAX;

    for (uint32_t i = 0; i < islands->island_count; i++)
        least = islands->islands[i].next_ps < least ? islands->islands[i].next_ps : least;
    return least;
}

/* Windows that few steps fall into, with many islands to look at, are not worth it. */
static bool is_slow(const struct tutti_islands *islands, uint64_t window_count)
{
    return window_count * islands->island_count / LOOKS_MAX >
           islands->simulated_count + islands->wire_count;
}

/* Plays all islands, window by window. Returns when the earliest event is, at the end or where it
 * was given up. */
static tutti_ps run_windows(struct tutti_islands *islands, struct tutti_island_steady *steady,
                            uint64_t step_count_max)
{
    uint64_t window_count = 0;
    tutti_ps next_ps = earliest(islands);

    while (next_ps < INT64_MAX / 2 && islands->simulated_count <= step_count_max &&
           !islands->vague && !is_slow(islands, window_count)) {
        tutti_ps end_ps = next_ps + islands->least_ps;

        if (islands->mark_ps <= next_ps) {
            tutti_island_steady_watch(steady, islands);
            next_ps = earliest(islands);
            continue;
        }
        end_ps = islands->mark_ps < end_ps ? islands->mark_ps : end_ps;
        for (uint32_t i = 0; i < islands->island_count; i++) {
            if (islands->islands[i].next_ps < end_ps)
                tutti_island_run(islands, &islands->islands[i], end_ps);
        }
        next_ps = earliest(islands);
        window_count++;
    }
    return next_ps;
}

static int run(struct tutti_islands *islands, uint64_t step_count_max, struct tutti_err *err)
{
    uint64_t limit = step_count_max > 0 ? step_count_max : UINT64_MAX - 1;
    struct tutti_island_steady *steady = NULL;
    int status = tutti_island_steady_new(islands, &steady, err);
    tutti_ps next_ps;

    if (status < 0)
        return status;
    next_ps = run_windows(islands, steady, limit);
    tutti_island_steady_free(steady);
    if (islands->simulated_count > limit)
        return tutti_fail(err, TUTTI_ELACK,
                          "it takes more than %" PRIu64 " steps to simulate, folded",
                          step_count_max);
    if (islands->vague)
        return tutti_fail(err, TUTTI_ELACK, "its links are not shared in round numbers");
    if (next_ps < INT64_MAX)
        return tutti_fail(err, TUTTI_ELACK, "its times do not suit a play by islands");
    for (uint32_t i = 0; i < islands->wire_count; i++) {
        if (islands->wires[i].received_count < islands->round_count)
            return tutti_fail(err, TUTTI_ELACK, "'%s': lanes wait for each other",
                              islands->schedule->name);
    }
    return 0;
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* All lanes are rings of one phase, as long as each other, and have one wire each way. */
static int check_lanes(struct tutti_islands *islands, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = islands->quotient;
    const struct tutti_schedule *schedule = islands->schedule;

    if (schedule->ops->ring_chunk == NULL || quotient->wire_count != quotient->lane_count)
        return tutti_fail(err, TUTTI_ELACK, "'%s' is no ring", schedule->name);
    if (islands->opts->reduce_bytes_per_s > 0)
        return tutti_fail(err, TUTTI_ELACK, "'%s': reductions take time", schedule->name);
    for (uint32_t i = 0; i < quotient->lane_count; i++) {
        const struct tutti_quotient_lane *lane = &quotient->lanes[i];
        struct tutti_ring_phase phase;

        if (lane->out_count != 1 || lane->in_count != 1 || lane->dep != NONE ||
            quotient->wires[quotient->out_wire[lane->out_first]].out_count != 1 ||
            quotient->wires[quotient->out_wire[lane->out_first]].in_count != 1 ||
            !schedule->ops->ring_chunk(schedule, lane->lane, lane->rank, &phase) ||
            (i > 0 && (phase.transfer_count != islands->round_count ||
                       phase.reduce_count != islands->reduce_count)))
            return tutti_fail(err, TUTTI_ELACK, "'%s': its lanes are not rings alike",
                              schedule->name);
        islands->round_count = phase.transfer_count;
        islands->reduce_count = phase.reduce_count;
    }
    return 0;
}

static int make(struct tutti_islands *islands, struct tutti_err *err)
{
    size_t count = islands->wire_count;

    islands->islands = calloc(count, sizeof(*islands->islands));
    islands->wires = calloc(count, sizeof(*islands->wires));
    islands->event_ps = calloc(count, sizeof(*islands->event_ps));
    islands->slots = calloc(count * islands->slot_count, sizeof(*islands->slots));
    islands->number = calloc(count, sizeof(*islands->number));
    if (islands->islands == NULL || islands->wires == NULL || islands->event_ps == NULL ||
        islands->slots == NULL || islands->number == NULL)
        return tutti_nomem(err);
    return tutti_islands_find(islands, err);
}

/* What a lane and its wire begin with. */
static void lay_wire(struct tutti_islands *islands, const struct tutti_quotient_lane *lane)
{
    const struct tutti_quotient *quotient = islands->quotient;
    const struct tutti_protocol *protocol = islands->opts->protocol;
    uint32_t out = quotient->out_wire[lane->out_first];
    const struct tutti_quotient_wire *is = &quotient->wires[out];
    struct tutti_island_wire *wire = &islands->wires[islands->number[out]];
    struct tutti_ring_phase phase;

    (void)islands->schedule->ops->ring_chunk(islands->schedule, lane->lane, lane->rank, &phase);
    wire->prev = islands->number[quotient->in_wire[lane->in_first]];
    wire->next = islands->number[quotient->out_wire[quotient->lanes[is->receiver].out_first]];
    wire->latency_ps = protocol == NULL
                           ? is->latency_ps
                           : tutti_add_ps(is->latency_ps, protocol->message_ps[is->hop]);
    wire->slice_ps = tutti_protocol_pace(protocol, is->hop).slice_ps;
    wire->chunk_bytes = phase.bytes;
    wire->carried_bytes = tutti_stretch_bytes(tutti_wire_bytes(protocol, phase.bytes), 0);
}

static int lay_wires(struct tutti_islands *islands, struct tutti_err *err)
{
    islands->least_ps = INT64_MAX;
    islands->mark_ps = INT64_MAX;
    for (uint32_t i = 0; i < islands->wire_count; i++)
        lay_wire(islands, &islands->quotient->lanes[i]);
    for (uint32_t id = 0; id < islands->wire_count; id++) {
        const struct tutti_island_wire *wire = &islands->wires[id];

        islands->event_ps[id] = INT64_MAX;
        if (wire->latency_ps < islands->least_ps)
            islands->least_ps = wire->latency_ps;
        if (wire->chunk_bytes != islands->wires[0].chunk_bytes)
            islands->mark_ps = TUTTI_ISLAND_NEVER_PS; /* then rounds do not repeat */
    }
    for (uint32_t i = 0; i < islands->island_count; i++)
        islands->islands[i].next_ps = INT64_MAX;
    if (islands->least_ps < 1)
        return tutti_fail(err, TUTTI_ELACK, "its messages may take no time");
    return 0;
}

/* The bytes that the wires of a turn of lanes carry, as they are without a protocol: each those of
 * as many chunks as there are rounds, of its own lane and back against the direction of travel. */
static void sum_turn(const struct tutti_islands *islands, uint32_t first, uint64_t *bytes)
{
    const struct tutti_island_wire *wires = islands->wires;
    uint64_t turn_bytes = 0;
    uint64_t turn = 0;
    uint32_t id = first;
    uint32_t behind = first; /* the first lane whose chunk is not counted */
    uint64_t sum;

    do {
        turn_bytes += wires[id].chunk_bytes;
        turn++;
        id = wires[id].next;
    } while (id != first);
    sum = turn_bytes * (islands->round_count / turn);
    for (uint64_t i = islands->round_count % turn; i > 0; i--) {
        sum += wires[behind].chunk_bytes;
        behind = wires[behind].prev;
    }
    do {
        bytes[id] = sum;
        id = wires[id].next;
        behind = wires[behind].next;
        sum += wires[id].chunk_bytes - wires[behind].chunk_bytes;
    } while (id != first);
}

static int sum_up(const struct tutti_islands *islands, struct tutti_class_played *ret,
                  struct tutti_err *err)
{
    const struct tutti_quotient *quotient = islands->quotient;
    uint32_t count = islands->wire_count;
    uint64_t *bytes = calloc(2 * (size_t)count, sizeof(*bytes));
    struct tutti_class_played played = {.end_ps = 0,
                                        .drain_ps_max = islands->drain_ps_max,
                                        .simulated_count = islands->simulated_count};
    struct tutti_class_skip skip = {.runs = 0};
    int status;

    if (bytes == NULL)
        return tutti_nomem(err);
    for (uint32_t id = 0; id < count; id++)
        bytes[id] = UINT64_MAX;
    for (uint32_t id = 0; id < count; id++) {
        if (bytes[id] == UINT64_MAX)
            sum_turn(islands, id, bytes);
        if (islands->wires[id].now_ps > played.end_ps)
            played.end_ps = islands->wires[id].now_ps;
    }
    for (uint32_t i = 0; i < count; i++) {
        bytes[count + i] = bytes[islands->number[i]];
        played.step_count += quotient->lanes[i].size;
    }
    played.step_count *= 2 * islands->round_count + islands->reduce_count;
    skip.bytes = skip.run_bytes = bytes + count;
    status = tutti_class_load(quotient, &skip, 0, &played, err);
    if (status == 0)
        *ret = played;
    free(bytes);
    return status;
}

int tutti_islands_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       const struct tutti_quotient *quotient, uint64_t step_count_max,
                       struct tutti_class_played *ret, struct tutti_err *err)
{
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    struct tutti_islands islands = {
        .opts = opts,
        .schedule = schedule,
        .quotient = quotient,
        .wire_count = quotient->wire_count,
        .slot_count = schedule->slot_count,
    };
    int status = check_lanes(&islands, err);

    if (status == 0)
        status = make(&islands, err);
    if (status == 0)
        status = lay_wires(&islands, err);
    if (status == 0) {
        tutti_islands_begin(&islands, tutti_rank_begin_ps(opts, 0, launch_ps));
        status = run(&islands, step_count_max, err);
    }
    if (status == 0)
        status = sum_up(&islands, ret, err);
    tutti_maxmin_done(&islands.maxmin);
    free(islands.islands);
    free(islands.wires);
    free(islands.event_ps);
    free(islands.slots);
    free(islands.keys);
    free(islands.rates);
    free(islands.number);
    return status;
}
