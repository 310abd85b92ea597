/* The play of components; see components.h. Lanes follow the rules of sim/play/stage.c: a message
 * waits for a slot, and is taken once the lane has sent its own of that round. Messages follow
 * those of sim/net/fair.c, whose numbers these are, bit by bit. */
#include <assert.h>

#include "runtime/schedule.h"
#include "sim/fold/component.h"
#include "sim/net/net.h"

/* ---- lanes ----------------------------------------------------------------------------------- */

static struct tutti_component_slot *slot_at(const struct tutti_components *components, uint32_t id,
                                            uint32_t slot)
{
    return &components->slots[(size_t)id * components->slot_count + slot];
}

static uint32_t slot_after(const struct tutti_components *components, uint32_t slot)
{
    return slot + 1 < components->slot_count ? slot + 1 : 0;
}

static bool is_full(const struct tutti_components *components,
                    const struct tutti_component_wire *wire)
{
    return wire->queued_count + wire->arrived_count == components->slot_count;
}

static void send(struct tutti_components *components, uint32_t id)
{
    struct tutti_component_wire *wire = &components->wires[id];
    struct tutti_component_slot *slot = slot_at(components, id, wire->sent_slot);

    wire->now_ps = tutti_later_ps(wire->now_ps, slot->at_ps);
    slot->at_ps = tutti_add_ps(wire->now_ps, wire->latency_ps);
    slot->bytes = wire->carried_bytes;
    wire->sent_slot = slot_after(components, wire->sent_slot);
    if (wire->queued_count++ == 0) {
        struct tutti_component *component = &components->components[wire->component];

        components->event_ps[id] = slot->at_ps;
        if (slot->at_ps < component->next_ps)
            component->next_ps = slot->at_ps;
    }
    if (id == 0 && components->mark_ps == INT64_MAX)
        components->mark_ps = slot->at_ps;
    wire->sent_count++;
    components->simulated_count++;
}

static void receive(struct tutti_components *components, struct tutti_component_wire *wire,
                    struct tutti_component_wire *prev)
{
    struct tutti_component_slot *slot = slot_at(components, wire->prev, prev->arrived_slot);

    wire->now_ps = slot->at_ps = tutti_later_ps(wire->now_ps, slot->at_ps);
    wire->carried_bytes = slot->bytes;
    prev->arrived_slot = slot_after(components, prev->arrived_slot);
    prev->arrived_count--;
    wire->received_count++;
    components->simulated_count += wire->received_count <= components->reduce_count ? 2 : 1;
}

/* Takes all steps that a lane can take by what is known; true: the lane before, which waited for a
 * slot, can go on. */
static bool run_lane(struct tutti_components *components, uint32_t id)
{
    struct tutti_component_wire *wire = &components->wires[id];
    struct tutti_component_wire *prev = &components->wires[wire->prev];
    bool freed = false;

    for (;;) {
        if (wire->sent_count > wire->received_count) {
            if (prev->arrived_count == 0)
                return freed;
            freed |= is_full(components, prev);
            receive(components, wire, prev);
        } else {
            if (wire->sent_count == components->round_count || is_full(components, wire))
                return freed;
            send(components, id);
        }
    }
}

static void run_lanes(struct tutti_components *components, uint32_t id)
{
    while (run_lane(components, id))
        id = components->wires[id].prev;
}

void tutti_components_begin(struct tutti_components *components, tutti_ps begin_ps)
{
    for (uint32_t id = 0; id < components->wire_count; id++)
        components->wires[id].now_ps = begin_ps;
    for (uint32_t id = 0; id < components->wire_count; id++)
        run_lanes(components, id);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_same(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* How long a whole message takes: mostly as long as the one before. */
static tutti_ps drain_whole_ps(struct tutti_component_wire *wire)
{
    if (!is_same(wire->left_bytes, wire->full_bytes) || !is_same(wire->rate, wire->full_rate)) {
        wire->full_bytes = wire->left_bytes;
        wire->full_rate = wire->rate;
        wire->full_ps = tutti_drain_ps(wire->left_bytes, wire->rate);
    }
    return wire->full_ps;
}

/* The oldest queued message of a wire, of some length, begins to drain. */
static void drain(struct tutti_components *components, struct tutti_component *component,
                  uint32_t id, tutti_ps now)
{
    struct tutti_component_wire *wire = &components->wires[id];
    uint64_t bit = UINT64_C(1) << (id - component->first);

    wire->left_bytes = slot_at(components, id, wire->queued_slot)->bytes;
    wire->since_ps = now;
    component->changed |= bit & ~component->draining;
    component->draining |= bit;
    components->event_ps[id] = wire->rate > 0 ? tutti_add_ps(now, drain_whole_ps(wire)) : INT64_MAX;
}

/* The turn of the oldest queued message of a wire, as soon as it is ready. */
static void look_at_next(struct tutti_components *components, struct tutti_component *component,
                         uint32_t id, tutti_ps now)
{
    struct tutti_component_wire *wire = &components->wires[id];
    uint64_t bit = UINT64_C(1) << (id - component->first);
    const struct tutti_component_slot *slot = slot_at(components, id, wire->queued_slot);
    bool ready = wire->queued_count > 0 && slot->at_ps <= now;

    if (ready && wire->slice_ps == 0 && slot->bytes > 0) {
        drain(components, component, id, now);
        return;
    }
    component->changed |= bit & component->draining;
    component->draining &= ~bit;
    wire->rate = 0;
    if (ready && wire->slice_ps > 0) {
        component->beginning |= bit;
        components->event_ps[id] = tutti_add_ps(now, wire->slice_ps);
        return;
    }
    components->event_ps[id] =
        wire->queued_count == 0 ? INT64_MAX : tutti_later_ps(slot->at_ps, now);
}

/* The event of a wire. True: more happens on it at this instant. */
static bool happen(struct tutti_components *components, struct tutti_component *component,
                   uint32_t id, tutti_ps now)
{
    struct tutti_component_wire *wire = &components->wires[id];
    struct tutti_component_slot *slot = slot_at(components, id, wire->queued_slot);
    uint64_t bit = UINT64_C(1) << (id - component->first);
    bool drained = (component->draining & bit) != 0;
    bool waits = !drained && wire->slice_ps > 0 && (component->beginning & bit) == 0;
    bool again;

    assert(wire->queued_count > 0);
    component->beginning &= ~bit;
    if (waits) {
        look_at_next(components, component, id, now);
        return false;
    }
    if (!drained && slot->bytes > 0) {
        drain(components, component, id, now);
        return false;
    }
    components->drain_ps_max = tutti_later_ps(components->drain_ps_max, now - slot->at_ps);
    slot->at_ps = now;
    wire->queued_slot = slot_after(components, wire->queued_slot);
    wire->queued_count--;
    wire->arrived_count++;
    look_at_next(components, component, id, now);
    again = components->event_ps[id] <= now;
    run_lanes(components, wire->next);
    return again;
}

/* A wire drains at another rate from now on. */
static void change_rate(struct tutti_components *components, uint32_t id, double rate, tutti_ps now)
{
    struct tutti_component_wire *wire = &components->wires[id];
    double before = wire->rate;
    tutti_ps took_ps;

    wire->rate = rate;
    if (before > 0) {
        double seconds = (double)(now - wire->since_ps) / (double)TUTTI_PS_PER_S;

        wire->left_bytes -= before * seconds;
        if (wire->left_bytes < 0)
            wire->left_bytes = 0;
        wire->since_ps = now;
        took_ps = tutti_drain_ps(wire->left_bytes, rate);
    } else {
        took_ps = drain_whole_ps(wire);
    }
    components->event_ps[id] = tutti_add_ps(now, took_ps);
}

static void settle_set(struct tutti_components *components, struct tutti_component *component,
                       uint64_t set, tutti_ps now)
{
    const double *rates = tutti_component_rates(components, component, set);

    for (; set != 0; set &= set - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(set);
        uint32_t id = component->first + place;

        if (!is_same(rates[place], components->wires[id].rate))
            change_rate(components, id, rates[place], now);
    }
}

/* Of the wires that drain, one, those it meets, those that they meet and so on. */
static uint64_t part_of(const struct tutti_components *components,
                        const struct tutti_component *component, uint64_t one)
{
    const struct tutti_component_wire *wires = &components->wires[component->first];
    uint64_t part = one;

    for (uint64_t fresh = one; fresh != 0;) {
        uint64_t met = wires[__builtin_ctzll(fresh)].meets & component->draining & ~part;

        part |= met;
        fresh = (fresh & (fresh - 1)) | met;
    }
    return part;
}

/* The ends of those whose rates have changed are moved. */
static void settle(struct tutti_components *components, struct tutti_component *component,
                   tutti_ps now)
{
    uint64_t touched = component->draining;

    if (component->by == TUTTI_COMPONENT_BY_PART) {
        touched = component->changed;
        for (uint64_t left = component->changed; left != 0; left &= left - 1)
            touched |= components->wires[component->first + (uint32_t)__builtin_ctzll(left)].meets;
        touched &= component->draining;
    }
    component->changed = 0;
    while (touched != 0) {
        uint64_t set = component->by == TUTTI_COMPONENT_BY_PART
                           ? part_of(components, component, touched & (~touched + 1))
                           : touched;

        settle_set(components, component, set, now);
        touched &= ~set;
    }
}

static tutti_ps earliest(const tutti_ps *event_ps, uint32_t count)
{
    tutti_ps least = event_ps[0];

    for (uint32_t i = 1; i < count; i++)
        least = event_ps[i] < least ? event_ps[i] : least;
    return least;
}

void tutti_component_run(struct tutti_components *components, struct tutti_component *component,
                         tutti_ps end_ps)
{
    const tutti_ps *event_ps = &components->event_ps[component->first];
    tutti_ps now = earliest(event_ps, component->count);

    while (now < end_ps) {
        bool again = true;

        while (again) {
            again = false;
            for (uint32_t i = 0; i < component->count; i++) {
                if (event_ps[i] == now)
                    again |= happen(components, component, component->first + i, now);
            }
        }
        if (component->changed != 0)
            settle(components, component, now);
        now = earliest(event_ps, component->count);
    }
    component->next_ps = now;
}
