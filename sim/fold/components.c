/* The play of a ring's quotient component by component; see components.h. */
#include "sim/fold/components.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/fold/component.h"
#include "sim/net/net.h"
#include "sim/play/start.h"
#include "sim/play/wires.h"
#include "sim/sim.h"

#define NONE UINT32_MAX

enum { LOOKS_MAX = 16 };

/* ---- the clock ------------------------------------------------------------------------------- */

static tutti_ps earliest(const struct tutti_components *components)
{
    tutti_ps least = INT64_MAX;

    for (uint32_t i = 0; i < components->component_count; i++)
        least =
            components->components[i].next_ps < least ? components->components[i].next_ps : least;
    return least;
}

/* Windows that few steps fall into, with many components to look at, are not worth it. */
static bool is_slow(const struct tutti_components *components, uint64_t window_count)
{
    return window_count * components->component_count / LOOKS_MAX >
           components->simulated_count + components->wire_count;
}

/* Plays all components, window by window. Returns when the earliest event is, at the end or where
 * it was given up. */
static tutti_ps run_windows(struct tutti_components *components,
                            struct tutti_component_steady *steady, uint64_t step_count_max)
{
    uint64_t window_count = 0;
    tutti_ps next_ps = earliest(components);

    while (next_ps < INT64_MAX / 2 && components->simulated_count <= step_count_max &&
           !components->vague && !is_slow(components, window_count)) {
        tutti_ps end_ps = next_ps + components->least_ps;

        if (components->mark_ps <= next_ps) {
            tutti_component_steady_watch(steady, components);
            next_ps = earliest(components);
            continue;
        }
        end_ps = components->mark_ps < end_ps ? components->mark_ps : end_ps;
        for (uint32_t i = 0; i < components->component_count; i++) {
            if (components->components[i].next_ps < end_ps)
                tutti_component_run(components, &components->components[i], end_ps);
        }
        next_ps = earliest(components);
        window_count++;
    }
    return next_ps;
}

static int run(struct tutti_components *components, uint64_t step_count_max, struct tutti_err *err)
{
    uint64_t limit = step_count_max > 0 ? step_count_max : UINT64_MAX - 1;
    struct tutti_component_steady *steady = NULL;
    int status = tutti_component_steady_new(components, &steady, err);
    tutti_ps next_ps;

    if (status < 0)
        return status;
    next_ps = run_windows(components, steady, limit);
    tutti_component_steady_free(steady);
    if (components->simulated_count > limit)
        return tutti_fail(err, TUTTI_ELACK,
                          "it takes more than %" PRIu64 " steps to simulate, folded",
                          step_count_max);
    if (components->vague)
        return tutti_fail(err, TUTTI_ELACK, "its links are not shared in round numbers");
    if (next_ps < INT64_MAX)
        return tutti_fail(err, TUTTI_ELACK, "its times do not suit a play by components");
    for (uint32_t i = 0; i < components->wire_count; i++) {
        if (components->wires[i].received_count < components->round_count)
            return tutti_fail(err, TUTTI_ELACK, "'%s': lanes wait for each other",
                              components->schedule->name);
    }
    return 0;
}

/* ---- coming and going ------------------------------------------------------------------------ */

/* All lanes are rings of one phase, as long as each other, and have one wire each way. */
static int check_lanes(struct tutti_components *components, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = components->quotient;
    const struct tutti_schedule *schedule = components->schedule;

    if (schedule->ops->ring_chunk == NULL || quotient->wire_count != quotient->lane_count)
        return tutti_fail(err, TUTTI_ELACK, "'%s' is no ring", schedule->name);
    if (components->opts->reduce_bytes_per_s > 0)
        return tutti_fail(err, TUTTI_ELACK, "'%s': reductions take time", schedule->name);
    for (uint32_t i = 0; i < quotient->lane_count; i++) {
        const struct tutti_quotient_lane *lane = &quotient->lanes[i];
        struct tutti_ring_phase phase;

        if (lane->out_count != 1 || lane->in_count != 1 || lane->dep != NONE ||
            quotient->wires[quotient->out_wire[lane->out_first]].out_count != 1 ||
            quotient->wires[quotient->out_wire[lane->out_first]].in_count != 1 ||
            !schedule->ops->ring_chunk(schedule, lane->lane, lane->rank, &phase) ||
            (i > 0 && (phase.transfer_count != components->round_count ||
                       phase.reduce_count != components->reduce_count)))
            return tutti_fail(err, TUTTI_ELACK, "'%s': its lanes are not rings alike",
                              schedule->name);
        components->round_count = phase.transfer_count;
        components->reduce_count = phase.reduce_count;
    }
    return 0;
}

static int make(struct tutti_components *components, struct tutti_err *err)
{
    size_t count = components->wire_count;

    components->components = calloc(count, sizeof(*components->components));
    components->wires = calloc(count, sizeof(*components->wires));
    components->event_ps = calloc(count, sizeof(*components->event_ps));
    components->slots = calloc(count * components->slot_count, sizeof(*components->slots));
    components->number = calloc(count, sizeof(*components->number));
    if (components->components == NULL || components->wires == NULL ||
        components->event_ps == NULL || components->slots == NULL || components->number == NULL)
        return tutti_nomem(err);
    return tutti_components_find(components, err);
}

/* What a lane and its wire begin with. */
static void lay_wire(struct tutti_components *components, const struct tutti_quotient_lane *lane)
{
    const struct tutti_quotient *quotient = components->quotient;
    const struct tutti_protocol *protocol = components->opts->protocol;
    uint32_t out = quotient->out_wire[lane->out_first];
    const struct tutti_quotient_wire *is = &quotient->wires[out];
    struct tutti_component_wire *wire = &components->wires[components->number[out]];
    struct tutti_ring_phase phase;

    (void)components->schedule->ops->ring_chunk(components->schedule, lane->lane, lane->rank,
                                                &phase);
    wire->prev = components->number[quotient->in_wire[lane->in_first]];
    wire->next = components->number[quotient->out_wire[quotient->lanes[is->receiver].out_first]];
    wire->latency_ps = protocol == NULL
                           ? is->latency_ps
                           : tutti_add_ps(is->latency_ps, protocol->message_ps[is->hop]);
    wire->slice_ps = tutti_protocol_pace(protocol, is->hop).slice_ps;
    wire->chunk_bytes = phase.bytes;
    wire->carried_bytes = tutti_stretch_bytes(tutti_wire_bytes(protocol, phase.bytes), 0);
}

static int lay_wires(struct tutti_components *components, struct tutti_err *err)
{
    components->least_ps = INT64_MAX;
    components->mark_ps = INT64_MAX;
    for (uint32_t i = 0; i < components->wire_count; i++)
        lay_wire(components, &components->quotient->lanes[i]);
    for (uint32_t id = 0; id < components->wire_count; id++) {
        const struct tutti_component_wire *wire = &components->wires[id];

        components->event_ps[id] = INT64_MAX;
        if (wire->latency_ps < components->least_ps)
            components->least_ps = wire->latency_ps;
        if (wire->chunk_bytes != components->wires[0].chunk_bytes)
            components->mark_ps = TUTTI_COMPONENT_NEVER_PS; /* then rounds do not repeat */
    }
    for (uint32_t i = 0; i < components->component_count; i++)
        components->components[i].next_ps = INT64_MAX;
    if (components->least_ps < 1)
        return tutti_fail(err, TUTTI_ELACK, "its messages may take no time");
    return 0;
}

/* The bytes that the wires of a turn of lanes carry, as they are without a protocol: each those of
 * as many chunks as there are rounds, of its own lane and back against the direction of travel. */
static void sum_turn(const struct tutti_components *components, uint32_t first, uint64_t *bytes)
{
    const struct tutti_component_wire *wires = components->wires;
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
    sum = turn_bytes * (components->round_count / turn);
    for (uint64_t i = components->round_count % turn; i > 0; i--) {
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

static int sum_up(const struct tutti_components *components, struct tutti_class_played *ret,
                  struct tutti_err *err)
{
    const struct tutti_quotient *quotient = components->quotient;
    uint32_t count = components->wire_count;
    uint64_t *bytes = calloc(2 * (size_t)count, sizeof(*bytes));
    struct tutti_class_played played = {.end_ps = 0,
                                        .drain_ps_max = components->drain_ps_max,
                                        .simulated_count = components->simulated_count};
    struct tutti_class_skip skip = {.runs = 0};
    int status;

    if (bytes == NULL)
        return tutti_nomem(err);
    for (uint32_t id = 0; id < count; id++)
        bytes[id] = UINT64_MAX;
    for (uint32_t id = 0; id < count; id++) {
        if (bytes[id] == UINT64_MAX)
            sum_turn(components, id, bytes);
        if (components->wires[id].now_ps > played.end_ps)
            played.end_ps = components->wires[id].now_ps;
    }
    for (uint32_t i = 0; i < count; i++) {
        bytes[count + i] = bytes[components->number[i]];
        played.step_count += quotient->lanes[i].size;
    }
    played.step_count *= 2 * components->round_count + components->reduce_count;
    skip.bytes = skip.run_bytes = bytes + count;
    status = tutti_class_load(quotient, &skip, 0, &played, err);
    if (status == 0)
        *ret = played;
    free(bytes);
    return status;
}

int tutti_components_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                          const struct tutti_quotient *quotient, uint64_t step_count_max,
                          struct tutti_class_played *ret, struct tutti_err *err)
{
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    struct tutti_components components = {
        .opts = opts,
        .schedule = schedule,
        .quotient = quotient,
        .wire_count = quotient->wire_count,
        .slot_count = schedule->slot_count,
    };
    int status = check_lanes(&components, err);

    if (status == 0)
        status = make(&components, err);
    if (status == 0)
        status = lay_wires(&components, err);
    if (status == 0) {
        tutti_components_begin(&components, tutti_rank_begin_ps(opts, 0, launch_ps));
        status = run(&components, step_count_max, err);
    }
    if (status == 0)
        status = sum_up(&components, ret, err);
    tutti_maxmin_done(&components.maxmin);
    free(components.components);
    free(components.wires);
    free(components.event_ps);
    free(components.slots);
    free(components.keys);
    free(components.rates);
    free(components.number);
    return status;
}
