/* Rounds that pass on what they receive; see flow_relay.h. Most rounds of rings are such, and what
 * a lane and its two connections are at stays in registers from one to the next. Schedules that
 * know their relays are asked for them, and write no steps. */
#include "sim/play/flow_relay.h"

#include "sim/play/flow_await.h"
#include "sim/play/flow_state.h"
#include "sim/sim.h"

/* What messages of one size are on a connection; sizes seldom change. */
struct weight {
    uint64_t bytes;
    tutti_ps busy_ps;  /* of its links */
    tutti_ps paced_ps; /* of itself */
};

static bool weigh(struct tutti_flow *flow, const struct wire *wire, uint64_t payload,
                  struct weight *weight)
{
    uint64_t bytes = tutti_wire_bytes(flow->opts->protocol, payload);

    if (flow->opts->model == TUTTI_MODEL_FAIR && (bytes >= EXACT || wire->bytes_per_s >= EXACT))
        return false;
    *weight =
        (struct weight){.bytes = payload,
                        .busy_ps = wire_ps(flow, bytes, wire->bytes_per_s),
                        .paced_ps = tutti_add_ps(wire->pace.slice_ps,
                                                 wire_ps(flow, bytes, wire->pace.bytes_per_s))};
    if (flow->opts->model == TUTTI_MODEL_FAIR)
        weight->busy_ps = weight->paced_ps; /* a connection has its links to itself */
    return true;
}

/* How many relays need not wait: messages are there and slots are free. */
static uint32_t count_ready(const struct tutti_flow *flow, const struct wire *in,
                            const struct wire *out)
{
    uint32_t free_count = flow->slot_count - out->under_way;

    return in->under_way < free_count ? in->under_way : free_count;
}

/* Books `count` rounds on both connections, and wakes who waited for them. */
static void book(struct tutti_flow *flow, struct wire *in, struct wire *out, uint32_t count)
{
    in->under_way -= count;
    out->under_way += count;
    out->sent_count += count;
    if (in->send_waits) {
        in->send_waits = false;
        wake(flow, in->send_lane);
    }
    if (in->is_awaited) {
        in->is_awaited = false;
        tutti_flow_wake_waiters(flow, &flow->lanes[in->send_lane]);
    }
    if (out->recv_waits) {
        out->recv_waits = false;
        wake(flow, out->recv_lane);
    }
}

/* Plays `count` relays that need not wait; fewer where a message is not of the size it should be,
 * or is so large that doubles round. `paced`: whether the connection out is, a constant. */
static inline __attribute__((always_inline)) uint32_t play_relays(struct tutti_flow *flow,
                                                                  struct lane *lane,
                                                                  const struct tutti_relays *relays,
                                                                  uint32_t count, bool paced)
{
    struct wire *in = &flow->flow_wires[lane->from_wire];
    struct wire *out = &flow->flow_wires[lane->to_wire];
    struct slot *in_slots = &flow->slots[in->slot_first];
    struct slot *out_slots = &flow->slots[out->slot_first];
    bool latency_first = flow->opts->model == TUTTI_MODEL_FAIR;
    tutti_ps before_ps = latency_first ? out->latency_ps : 0;
    tutti_ps after_ps = latency_first ? 0 : out->latency_ps;
    tutti_ps free_ps = free_of(flow, out);
    tutti_ps leave_ps = out->free_ps;
    tutti_ps begin_ps = INT64_MAX; /* the first asks for the link */
    tutti_ps now_ps = lane->now_ps;
    tutti_ps drain_ps_max = flow->drain_ps_max;
    struct weight weight = {.bytes = 0};
    uint32_t taken_slot = in->taken_slot;
    uint32_t sent_slot = out->sent_slot;
    uint32_t step_count = relays->reduces ? 3 : 2; /* the SEND is the last */
    uint64_t index = lane->index;
    uint32_t done = 0;

    for (; done < count; done++) {
        struct slot *taken = &in_slots[taken_slot];
        struct slot *sent = &out_slots[sent_slot];
        uint64_t bytes = relays->bytes[done];
        tutti_ps ready_ps;
        tutti_ps start_ps;

        if (taken->bytes != bytes ||
            ((done == 0 || bytes != weight.bytes) && !weigh(flow, out, bytes, &weight)))
            break;
        now_ps = taken->at_ps > now_ps ? taken->at_ps : now_ps;
        taken->at_ps = now_ps;
        now_ps = sent->at_ps > now_ps ? sent->at_ps : now_ps;
        ready_ps = tutti_add_ps(now_ps, before_ps);
        begin_ps = begin_ps < ready_ps ? begin_ps : ready_ps;
        start_ps = free_ps > ready_ps ? free_ps : ready_ps;
        free_ps = tutti_add_ps(start_ps, weight.busy_ps);
        leave_ps =
            paced ? tutti_add_ps(tutti_later_ps(start_ps, leave_ps), weight.paced_ps) : free_ps;
        drain_ps_max = tutti_later_ps(drain_ps_max, leave_ps - ready_ps);
        index += step_count;
        *sent = (struct slot){tutti_add_ps(leave_ps, after_ps), bytes, index - 1};
        taken_slot = next_slot(flow, taken_slot);
        sent_slot = next_slot(flow, sent_slot);
    }
    in->taken_slot = taken_slot;
    out->sent_slot = sent_slot;
    out->free_ps = leave_ps;
    if (done > 0)
        use_links(flow, out, begin_ps, free_ps);
    lane->now_ps = now_ps;
    flow->drain_ps_max = drain_ps_max;
    return done;
}

static bool can_relay(const struct tutti_flow *flow)
{
    return flow->schedule->ops->relays != NULL && flow->record == NULL && flow->jitter_q32 == 0 &&
           flow->opts->reduce_bytes_per_s == 0;
}

bool tutti_flow_relay(struct tutti_flow *flow, struct lane *lane, uint32_t id, uint32_t *ret_count)
{
    const struct tutti_schedule *schedule = flow->schedule;
    struct tutti_relays relays;
    struct wire *in;
    struct wire *out;
    uint32_t ready;
    uint32_t found;
    uint32_t done = 0;

    *ret_count = can_relay(flow) ? 1 : flow->round_count;
    if (*ret_count > 1 || lane->position > 0 || lane->from_wire == NONE || lane->to_wire == NONE)
        return true;
    in = &flow->flow_wires[lane->from_wire];
    out = &flow->flow_wires[lane->to_wire];
    ready = count_ready(flow, in, out);
    found = schedule->ops->relays(schedule, id / schedule->lane_count, id % schedule->lane_count,
                                  lane->round, ready + 1, &relays);
    if (found == 0 || relays.from != lane->from || relays.to != lane->to)
        return true;
    ready = found < ready ? found : ready;
    if (ready > 0)
        done = is_paced(out) ? play_relays(flow, lane, &relays, ready, true)
                             : play_relays(flow, lane, &relays, ready, false);
    if (done > 0) { /* as many SENDs completed as were started */
        uint64_t step_count = (uint64_t)done * (relays.reduces ? 3 : 2);

        book(flow, in, out, done);
        lane->round += done;
        lane->index += step_count;
        flow->step_count += step_count;
    }
    if (done == found) {
        *ret_count = 0; /* there may be more of them, or none: to be asked again */
    } else if (in->under_way == 0) {
        in->recv_waits = true;
        return false;
    }
    return true;
}
