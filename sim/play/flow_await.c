/* Dependencies in a play by data flow; see flow_await.h.
 *
 * When a SEND was complete is written in its slot until the slot is used again. What is not in a
 * slot any more, and every other kind of step, was complete no later than its lane has got to now:
 * enough to know for a lane that has got at least as far. */
#include "sim/play/flow_await.h"

#include <assert.h>

#include "runtime/schedule.h"
#include "sim/play/flow_state.h"

/* The slot of a connection with the SEND that is step `index` of its lane, or NONE. */
static uint32_t find_slot(const struct tutti_flow *flow, const struct wire *wire, uint64_t index)
{
    uint32_t used =
        wire->sent_count < flow->slot_count ? (uint32_t)wire->sent_count : flow->slot_count;

    for (uint32_t slot = 0; slot < used; slot++) {
        if (flow->slots[wire->slot_first + slot].index == index)
            return slot;
    }
    return NONE;
}

static bool is_taken(const struct tutti_flow *flow, const struct wire *wire, uint32_t slot)
{
    uint32_t behind = slot >= wire->taken_slot ? slot - wire->taken_slot
                                               : slot + flow->slot_count - wire->taken_slot;

    return behind >= wire->under_way;
}

static bool wait_for(struct lane *lane, uint32_t id, struct lane *other)
{
    lane->waiter_next = other->waiter_first;
    other->waiter_first = id;
    return false;
}

bool tutti_flow_await(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                      const struct tutti_step *step)
{
    struct lane *other = lane - id % flow->schedule->lane_count + step->dep_lane;

    if (step->dep_lane >= flow->schedule->lane_count ||
        (other == lane && step->dep_step >= lane->index)) {
        flow->unsuited = true;
        return false;
    }
    if (step->dep_step >= other->index)
        return wait_for(lane, id, other);
    for (uint32_t i = other->to_first; i != NONE; i = flow->flow_wires[i].next_to) {
        struct wire *wire = &flow->flow_wires[i];
        uint32_t slot = find_slot(flow, wire, step->dep_step);
        tutti_ps done_ps;

        if (slot == NONE)
            continue;
        if (!is_taken(flow, wire, slot)) {
            wire->is_awaited = true;
            return wait_for(lane, id, other);
        }
        done_ps = flow->slots[wire->slot_first + slot].at_ps;
        lane->now_ps = done_ps > lane->now_ps ? done_ps : lane->now_ps;
        return true;
    }
    flow->unsuited |= other->now_ps > lane->now_ps;
    return !flow->unsuited;
}

void tutti_flow_wake_waiters(struct tutti_flow *flow, struct lane *lane)
{
    uint32_t id = lane->waiter_first;

    lane->waiter_first = NONE;
    while (id != NONE) {
        uint32_t next = flow->lanes[id].waiter_next;

        wake(flow, id);
        id = next;
    }
}
