/* The play of islands; see islands.h. Lanes follow the rules of sim/play/stage.c: a message waits
 * for a slot, and is taken once the lane has sent its own of that round. Messages follow those of
 * sim/net/fair.c, whose numbers these are, bit by bit. */
#include <assert.h>

#include "runtime/schedule.h"
#include "sim/fold/island.h"
#include "sim/net/net.h"

/* ---- lanes ----------------------------------------------------------------------------------- */

static struct tutti_island_slot *slot_at(const struct tutti_islands *islands, uint32_t id,
                                         uint32_t slot)
{
    return &islands->slots[(size_t)id * islands->slot_count + slot];
}

static uint32_t slot_after(const struct tutti_islands *islands, uint32_t slot)
{
    return slot + 1 < islands->slot_count ? slot + 1 : 0;
}

static bool is_full(const struct tutti_islands *islands, const struct tutti_island_wire *wire)
{
    return wire->queued_count + wire->arrived_count == islands->slot_count;
}

static void send(struct tutti_islands *islands, uint32_t id)
{
    struct tutti_island_wire *wire = &islands->wires[id];
    struct tutti_island_slot *slot = slot_at(islands, id, wire->sent_slot);

    wire->now_ps = tutti_later_ps(wire->now_ps, slot->at_ps);
    slot->at_ps = tutti_add_ps(wire->now_ps, wire->latency_ps);
    slot->bytes = wire->carried_bytes;
    wire->sent_slot = slot_after(islands, wire->sent_slot);
    if (wire->queued_count++ == 0) {
        struct tutti_island *island = &islands->islands[wire->island];

        islands->event_ps[id] = slot->at_ps;
        if (slot->at_ps < island->next_ps)
            island->next_ps = slot->at_ps;
    }
    if (id == 0 && islands->mark_ps == INT64_MAX)
        islands->mark_ps = slot->at_ps;
    wire->sent_count++;
    islands->simulated_count++;
}

static void receive(struct tutti_islands *islands, struct tutti_island_wire *wire,
                    struct tutti_island_wire *prev)
{
    struct tutti_island_slot *slot = slot_at(islands, wire->prev, prev->arrived_slot);

    wire->now_ps = slot->at_ps = tutti_later_ps(wire->now_ps, slot->at_ps);
    wire->carried_bytes = slot->bytes;
    prev->arrived_slot = slot_after(islands, prev->arrived_slot);
    prev->arrived_count--;
    wire->received_count++;
    islands->simulated_count += wire->received_count <= islands->reduce_count ? 2 : 1;
}

/* Takes all steps that a lane can take by what is known; true: the lane before, which waited for a
 * slot, can go on. */
static bool run_lane(struct tutti_islands *islands, uint32_t id)
{
    struct tutti_island_wire *wire = &islands->wires[id];
    struct tutti_island_wire *prev = &islands->wires[wire->prev];
    bool freed = false;

    for (;;) {
        if (wire->sent_count > wire->received_count) {
            if (prev->arrived_count == 0)
                return freed;
            freed |= is_full(islands, prev);
            receive(islands, wire, prev);
        } else {
            if (wire->sent_count == islands->round_count || is_full(islands, wire))
                return freed;
            send(islands, id);
        }
    }
}

static void run_lanes(struct tutti_islands *islands, uint32_t id)
{
    while (run_lane(islands, id))
        id = islands->wires[id].prev;
}

void tutti_islands_begin(struct tutti_islands *islands, tutti_ps begin_ps)
{
    for (uint32_t id = 0; id < islands->wire_count; id++)
        islands->wires[id].now_ps = begin_ps;
    for (uint32_t id = 0; id < islands->wire_count; id++)
        run_lanes(islands, id);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_same(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* How long a whole message takes: mostly as long as the one before. */
static tutti_ps drain_whole_ps(struct tutti_island_wire *wire)
{
    if (!is_same(wire->left_bytes, wire->full_bytes) || !is_same(wire->rate, wire->full_rate)) {
        wire->full_bytes = wire->left_bytes;
        wire->full_rate = wire->rate;
        wire->full_ps = tutti_drain_ps(wire->left_bytes, wire->rate);
    }
    return wire->full_ps;
}

/* The oldest queued message of a wire, of some length, begins to drain. */
static void drain(struct tutti_islands *islands, struct tutti_island *island, uint32_t id,
                  tutti_ps now)
{
    struct tutti_island_wire *wire = &islands->wires[id];
    uint64_t bit = UINT64_C(1) << (id - island->first);

    wire->left_bytes = slot_at(islands, id, wire->queued_slot)->bytes;
    wire->since_ps = now;
    island->changed |= bit & ~island->draining;
    island->draining |= bit;
    islands->event_ps[id] = wire->rate > 0 ? tutti_add_ps(now, drain_whole_ps(wire)) : INT64_MAX;
}

/* The turn of the oldest queued message of a wire, as soon as it is ready. */
static void look_at_next(struct tutti_islands *islands, struct tutti_island *island, uint32_t id,
                         tutti_ps now)
{
    struct tutti_island_wire *wire = &islands->wires[id];
    uint64_t bit = UINT64_C(1) << (id - island->first);
    const struct tutti_island_slot *slot = slot_at(islands, id, wire->queued_slot);
    bool ready = wire->queued_count > 0 && slot->at_ps <= now;

    if (ready && wire->slice_ps == 0 && slot->bytes > 0) {
        drain(islands, island, id, now);
        return;
    }
    island->changed |= bit & island->draining;
    island->draining &= ~bit;
    wire->rate = 0;
    if (ready && wire->slice_ps > 0) {
        island->beginning |= bit;
        islands->event_ps[id] = tutti_add_ps(now, wire->slice_ps);
        return;
    }
    islands->event_ps[id] = wire->queued_count == 0 ? INT64_MAX : tutti_later_ps(slot->at_ps, now);
}

/* The event of a wire. True: more happens on it at this instant. */
static bool happen(struct tutti_islands *islands, struct tutti_island *island, uint32_t id,
                   tutti_ps now)
{
    struct tutti_island_wire *wire = &islands->wires[id];
    struct tutti_island_slot *slot = slot_at(islands, id, wire->queued_slot);
    uint64_t bit = UINT64_C(1) << (id - island->first);
    bool drained = (island->draining & bit) != 0;
    bool waits = !drained && wire->slice_ps > 0 && (island->beginning & bit) == 0;
    bool again;

    assert(wire->queued_count > 0);
    island->beginning &= ~bit;
    if (waits) {
        look_at_next(islands, island, id, now);
        return false;
    }
    if (!drained && slot->bytes > 0) {
        drain(islands, island, id, now);
        return false;
    }
    islands->drain_ps_max = tutti_later_ps(islands->drain_ps_max, now - slot->at_ps);
    slot->at_ps = now;
    wire->queued_slot = slot_after(islands, wire->queued_slot);
    wire->queued_count--;
    wire->arrived_count++;
    look_at_next(islands, island, id, now);
    again = islands->event_ps[id] <= now;
    run_lanes(islands, wire->next);
    return again;
}

/* A wire drains at another rate from now on. */
static void change_rate(struct tutti_islands *islands, uint32_t id, double rate, tutti_ps now)
{
    struct tutti_island_wire *wire = &islands->wires[id];
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
    islands->event_ps[id] = tutti_add_ps(now, took_ps);
}

static void settle_set(struct tutti_islands *islands, struct tutti_island *island, uint64_t set,
                       tutti_ps now)
{
    const double *rates = tutti_island_rates(islands, island, set);

    for (; set != 0; set &= set - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(set);
        uint32_t id = island->first + place;

        if (!is_same(rates[place], islands->wires[id].rate))
            change_rate(islands, id, rates[place], now);
    }
}

/* Of the wires that drain, one, those it meets, those that they meet and so on. */
static uint64_t part_of(const struct tutti_islands *islands, const struct tutti_island *island,
                        uint64_t one)
{
    const struct tutti_island_wire *wires = &islands->wires[island->first];
    uint64_t part = one;

    for (uint64_t fresh = one; fresh != 0;) {
        uint64_t met = wires[__builtin_ctzll(fresh)].meets & island->draining & ~part;

        part |= met;
        fresh = (fresh & (fresh - 1)) | met;
    }
    return part;
}

/* The ends of those whose rates have changed are moved. */
static void settle(struct tutti_islands *islands, struct tutti_island *island, tutti_ps now)
{
    uint64_t touched = island->draining;

    if (island->by == TUTTI_ISLAND_BY_PART) {
        touched = island->changed;
        for (uint64_t left = island->changed; left != 0; left &= left - 1)
            touched |= islands->wires[island->first + (uint32_t)__builtin_ctzll(left)].meets;
        touched &= island->draining;
    }
    island->changed = 0;
    while (touched != 0) {
        uint64_t set = island->by == TUTTI_ISLAND_BY_PART
                           ? part_of(islands, island, touched & (~touched + 1))
                           : touched;

        settle_set(islands, island, set, now);
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

void tutti_island_run(struct tutti_islands *islands, struct tutti_island *island, tutti_ps end_ps)
{
    const tutti_ps *event_ps = &islands->event_ps[island->first];
    tutti_ps now = earliest(event_ps, island->count);

    while (now < end_ps) {
        bool again = true;

        while (again) {
            again = false;
            for (uint32_t i = 0; i < island->count; i++) {
                if (event_ps[i] == now)
                    again |= happen(islands, island, island->first + i, now);
            }
        }
        if (island->changed != 0)
            settle(islands, island, now);
        now = earliest(event_ps, island->count);
    }
    island->next_ps = now;
}
