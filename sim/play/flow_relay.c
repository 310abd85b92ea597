/* Rounds that receive a message (and reduce it) and send one, on the connections of the round
 * before; see flow_relay.h. Most rounds of rings are of this form, and what a lane and its two
 * connections are at stays in registers from one to the next. */
#include "sim/play/flow_relay.h"

#include "sim/play/flow_check.h"
#include "sim/play/flow_state.h"
#include "sim/sim.h"

enum { HOW = TUTTI_STEP_DEP | TUTTI_STEP_FUSE };

/* What messages of one size are on a connection; sizes seldom change. */
struct weight {
    uint64_t bytes;
    tutti_ps busy_ps;
};

static bool is_reduction(const struct tutti_flow *flow, const struct tutti_step *step,
                         uint64_t bytes)
{
    return step->kind == TUTTI_REDUCE && (step->flags & HOW) == 0 && step->bytes == bytes &&
           !is_unplayable(flow, step);
}

/* RECV and SEND, or a fused RECV, REDUCE and SEND: on the connections at hand, and flawless. */
static bool is_relay(const struct tutti_flow *flow, const struct lane *lane,
                     const struct tutti_round *round)
{
    const struct tutti_step *recv = &round->step[0];
    const struct tutti_step *send = &round->step[round->step_count == 3 ? 2 : 1];

    if (round->step_count == 3) {
        if ((recv->flags & HOW) != TUTTI_STEP_FUSE || !is_reduction(flow, recv + 1, recv->bytes))
            return false;
    } else if (round->step_count != 2 || (recv->flags & HOW) != 0) {
        return false;
    }
    return recv->kind == TUTTI_RECV && recv->peer == lane->from && !is_unwritable(flow, recv) &&
           send->kind == TUTTI_SEND && send->peer == lane->to && (send->flags & HOW) == 0 &&
           !is_outside(flow, send->src_buf, send->src_offset, send->bytes);
}

static bool weigh(struct tutti_flow *flow, const struct wire *wire, uint64_t payload,
                  struct weight *weight)
{
    uint64_t bytes = tutti_wire_bytes(flow->opts->protocol, payload);

    if (flow->opts->model == TUTTI_MODEL_FAIR && (bytes >= EXACT || wire->bytes_per_s >= EXACT))
        return false;
    *weight = (struct weight){payload, wire_ps(flow, bytes, wire->bytes_per_s)};
    return true;
}

/* How many rounds need not wait: messages are there, slots are free and have been used. */
static uint32_t rounds_ready(const struct tutti_flow *flow, const struct lane *lane, uint32_t count)
{
    const struct wire *in = &flow->flow_wires[lane->from_wire];
    const struct wire *out = &flow->flow_wires[lane->to_wire];
    uint32_t free_count = flow->slot_count - out->under_way;

    if (out->sent_count < flow->slot_count)
        return 0;
    count = count < in->under_way ? count : in->under_way;
    return count < free_count ? count : free_count;
}

/* Books `count` rounds on both connections, and wakes who waited for them. */
static void book(struct tutti_flow *flow, struct lane *lane, uint32_t count)
{
    struct wire *in = &flow->flow_wires[lane->from_wire];
    struct wire *out = &flow->flow_wires[lane->to_wire];

    in->under_way -= count;
    out->under_way += count;
    out->sent_count += count;
    lane->round += count;
    if (in->send_waits) {
        in->send_waits = false;
        wake(flow, in->send_lane);
    }
    if (out->recv_waits) {
        out->recv_waits = false;
        wake(flow, out->recv_lane);
    }
}

static uint32_t relay(struct tutti_flow *flow, struct lane *lane, const struct tutti_round *rounds,
                      uint32_t count)
{
    struct wire *in = &flow->flow_wires[lane->from_wire];
    struct wire *out = &flow->flow_wires[lane->to_wire];
    bool latency_first = flow->opts->model == TUTTI_MODEL_FAIR;
    tutti_ps before_ps = latency_first ? out->latency_ps : 0;
    tutti_ps after_ps = latency_first ? 0 : out->latency_ps;
    tutti_ps free_ps = flow->link_free_ps[out->egress];
    tutti_ps now_ps = lane->now_ps;
    struct weight weight = {.bytes = UINT64_MAX};
    uint64_t step_count = 0;
    uint32_t done = 0;

    for (; done < count && is_relay(flow, lane, &rounds[done]); done++) {
        const struct tutti_round *round = &rounds[done];
        struct slot *taken = &flow->slots[in->slot_first + in->taken_slot];
        struct slot *sent = &flow->slots[out->slot_first + out->sent_slot];
        uint64_t bytes = round->step[round->step_count - 1].bytes;
        tutti_ps ready_ps;

        if (taken->bytes != round->step[0].bytes ||
            (bytes != weight.bytes && !weigh(flow, out, bytes, &weight)))
            break;
        now_ps = taken->at_ps > now_ps ? taken->at_ps : now_ps;
        taken->at_ps = now_ps;
        now_ps = sent->at_ps > now_ps ? sent->at_ps : now_ps;
        ready_ps = tutti_add_ps(now_ps, before_ps);
        free_ps = tutti_add_ps(free_ps > ready_ps ? free_ps : ready_ps, weight.busy_ps);
        *sent = (struct slot){tutti_add_ps(free_ps, after_ps), bytes};
        in->taken_slot = next_slot(flow, in->taken_slot);
        out->sent_slot = next_slot(flow, out->sent_slot);
        step_count += round->step_count;
    }
    flow->link_free_ps[out->egress] = free_ps;
    lane->now_ps = now_ps;
    lane->index += step_count;
    flow->step_count += step_count; /* the SENDs that completed are as many as were started */
    return done;
}

uint32_t tutti_flow_relay(struct tutti_flow *flow, struct lane *lane,
                          const struct tutti_round *rounds, uint32_t count)
{
    uint32_t done = 0;

    if (lane->position > 0 || lane->from_wire == NONE || lane->to_wire == NONE ||
        flow->keeps_sents || flow->jitter_q32 != 0 || flow->opts->reduce_bytes_per_s > 0)
        return 0;
    count = rounds_ready(flow, lane, count);
    if (count > 0)
        done = relay(flow, lane, rounds, count);
    if (done > 0)
        book(flow, lane, done);
    return done;
}
