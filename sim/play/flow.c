/* Data flow in place of events; see flow.h.
 *
 * A lane is a sequential program, and what it waits for is a message or a slot: both are known once
 * its peer has got that far. So each lane is run until it has to wait for another, and the order in
 * which lanes are run does not matter (Kahn 1974), as long as no link has to choose between lanes:
 *   alphabeta  the first link of every route serves one lane at a time, in the order of its program
 *   fair       every link of every route serves one connection at a time; then its rate is that of
 *              its narrowest link, or its pace, all the time
 * Links get to know their users as connections are made, and where there are several, that their
 * turns lie apart is seen as messages are sent; else the attempt ends.
 *
 * A connection keeps one time for each of its slots: when the message in it arrives, and after that
 * when it was taken and the slot is free again. */
#include "sim/play/flow.h"

#include <assert.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/play/flow_await.h"
#include "sim/play/flow_relay.h"
#include "sim/play/flow_state.h"
#include "sim/play/start.h"
#include "sim/sim.h"
#include "topo/topo.h"

/* ---- connections ----------------------------------------------------------------------------- */

/* Called by `wires` for a new connection with its route. */
static int flow_connect(struct tutti_net *net, const uint32_t *links, uint32_t link_count,
                        struct tutti_pace pace)
{
    struct tutti_flow *flow = (struct tutti_flow *)net;
    struct tutti_memory *memory = flow->opts->memory;
    bool fair = flow->opts->model == TUTTI_MODEL_FAIR;
    uint32_t owner = fair ? flow->wire_count : flow->sender;
    uint64_t slots = ((uint64_t)flow->wire_count + 1) * flow->slot_count;
    struct wire *wire;

    if (tutti_memory_grow(memory, &flow->flow_wires, &flow->wire_capacity,
                          (uint64_t)flow->wire_count + 1, sizeof(*flow->flow_wires)) < 0 ||
        tutti_memory_grow(memory, &flow->slots, &flow->slot_capacity, slots, sizeof(*flow->slots)) <
            0 ||
        (flow->record != NULL && tutti_memory_grow(memory, &flow->starts, &flow->start_capacity,
                                                   slots, sizeof(*flow->starts)) < 0))
        return -TUTTI_ENOMEM;
    wire = &flow->flow_wires[flow->wire_count];
    memset(&flow->slots[slots - flow->slot_count], 0, flow->slot_count * sizeof(*flow->slots));
    *wire = (struct wire){
        .bytes_per_s = UINT64_MAX, .pace = pace, .slot_first = slots - flow->slot_count};
    for (uint32_t i = 0; i < link_count; i++) {
        uint64_t rate = tutti_link_rate(flow->opts->topo, flow->opts->protocol, links[i]);
        uint32_t user;

        wire->bytes_per_s = rate < wire->bytes_per_s ? rate : wire->bytes_per_s;
        if (!fair && i > 0)
            continue;
        if (tutti_flow_links_user(&flow->links, links[i], owner, &user) < 0)
            return -TUTTI_ENOMEM;
        wire->user_first = i == 0 ? user : wire->user_first;
        wire->user_count++;
        assert(user == wire->user_first + i);
    }
    if (fair)
        wire->bytes_per_s = pace.bytes_per_s;
    flow->wire_count++;
    return 0;
}

static const struct tutti_net_ops flow_net_ops = {
    .size = sizeof(struct tutti_net_ops), .name = "flow", .connect = flow_connect};

static uint32_t lane_id(const struct tutti_flow *flow, uint32_t rank, uint32_t lane)
{
    return rank * flow->schedule->lane_count + lane;
}

static void list_wire(struct tutti_flow *flow, uint32_t id)
{
    struct wire *wire = &flow->flow_wires[id];
    struct lane *sender = &flow->lanes[wire->send_lane];
    struct lane *receiver = &flow->lanes[wire->recv_lane];

    wire->next_to = sender->to_first;
    sender->to_first = id;
    wire->next_from = receiver->from_first;
    receiver->from_first = id;
}

/* The connection to a rank, or from one, among the few that a lane has used last; or NONE. */
static uint32_t known_to(const struct tutti_flow *flow, uint32_t id, uint32_t to)
{
    uint32_t wire = flow->lanes[id].to_first;

    for (int i = 0; i < WIRES_TRIED && wire != NONE; i++) {
        if (flow->wires.wires[wire].to == to)
            return wire;
        wire = flow->flow_wires[wire].next_to;
    }
    return NONE;
}

static uint32_t known_from(const struct tutti_flow *flow, uint32_t id, uint32_t from)
{
    uint32_t wire = flow->lanes[id].from_first;

    for (int i = 0; i < WIRES_TRIED && wire != NONE; i++) {
        if (flow->wires.wires[wire].from == from)
            return wire;
        wire = flow->flow_wires[wire].next_from;
    }
    return NONE;
}

/* Finds or makes a connection; what is wrong with it (its message would name a step) makes the
 * schedule unsuited. */
static int find_wire(struct tutti_flow *flow, uint32_t from, uint32_t to, uint32_t lane,
                     uint32_t *ret, struct tutti_err *err)
{
    uint32_t known = flow->wire_count;
    int status;

    flow->sender = lane_id(flow, from, lane);
    status = tutti_wires_find(&flow->wires, from, to, lane, ret, err);
    if (status == -TUTTI_ENOMEM)
        return status;
    if (status < 0) {
        flow->unsuited = true;
        return 0;
    }
    if (flow->wire_count > known) {
        struct wire *wire = &flow->flow_wires[*ret];

        wire->latency_ps = flow->wires.wires[*ret].latency_ps;
        wire->send_lane = flow->sender;
        wire->recv_lane = lane_id(flow, to, lane);
        list_wire(flow, *ret);
    }
    return 0;
}

/* When a message leaves a connection under alphabeta that has its own pace, and whose first link
 * begins to send it at `begin_ps`. */
static tutti_ps leave_ps(struct tutti_flow *flow, struct wire *wire, tutti_ps begin_ps,
                         uint64_t bytes, uint64_t stretch)
{
    tutti_ps busy_ps =
        tutti_add_ps(wire->pace.slice_ps, wire_ps(flow, bytes, wire->pace.bytes_per_s));

    if (stretch != 0)
        busy_ps = tutti_stretch_ps(busy_ps, stretch);
    wire->free_ps = tutti_add_ps(tutti_later_ps(begin_ps, wire->free_ps), busy_ps);
    return wire->free_ps;
}

/* When a message that starts now will have arrived. */
static tutti_ps arrival_of(struct tutti_flow *flow, uint32_t id, uint64_t payload, tutti_ps now_ps)
{
    struct wire *wire = &flow->flow_wires[id];
    uint64_t bytes = payload;
    uint64_t stretch = 0;
    tutti_ps latency_ps = wire->latency_ps;
    tutti_ps free_ps = free_of(flow, wire);
    tutti_ps begin_ps;
    tutti_ps busy_ps;

    if (flow->opts->protocol != NULL)
        bytes = tutti_wire_bytes(flow->opts->protocol, payload);
    if (flow->jitter_q32 != 0) {
        stretch = tutti_stretch_of(flow->seed, flow->jitter_q32, &flow->wires.wires[id],
                                   wire->sent_count);
        latency_ps = tutti_stretch_ps(latency_ps, stretch);
    }
    if (flow->opts->model == TUTTI_MODEL_FAIR) { /* the latency first, then the bytes in order */
        tutti_ps ready_ps = tutti_add_ps(now_ps, latency_ps);

        busy_ps =
            stretch == 0 && bytes < EXACT && wire->bytes_per_s < EXACT
                ? wire_ps(flow, bytes, wire->bytes_per_s)
                : tutti_drain_ps(tutti_stretch_bytes(bytes, stretch), (double)wire->bytes_per_s);
        begin_ps = tutti_add_ps(tutti_later_ps(free_ps, ready_ps),
                                tutti_stretch_ps(wire->pace.slice_ps, stretch));
        free_ps = tutti_add_ps(begin_ps, busy_ps);
        flow->drain_ps_max = tutti_later_ps(flow->drain_ps_max, free_ps - ready_ps);
        use_links(flow, wire, ready_ps, free_ps);
        return free_ps;
    }
    busy_ps = wire_ps(flow, bytes, wire->bytes_per_s);
    if (stretch != 0)
        busy_ps = tutti_stretch_ps(busy_ps, stretch);
    begin_ps = tutti_later_ps(free_ps, now_ps);
    free_ps = tutti_add_ps(begin_ps, busy_ps);
    use_links(flow, wire, now_ps, free_ps);
    if (is_paced(wire))
        free_ps = leave_ps(flow, wire, begin_ps, bytes, stretch);
    flow->drain_ps_max = tutti_later_ps(flow->drain_ps_max, free_ps - now_ps);
    return tutti_add_ps(free_ps, latency_ps);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int note(struct tutti_flow *flow, uint32_t id, uint64_t index, const struct tutti_step *step,
                uint32_t peer, tutti_ps start_ps, tutti_ps end_ps)
{
    struct tutti_event event = {
        .start_ps = start_ps,
        .end_ps = end_ps,
        .rank = id / flow->schedule->lane_count,
        .lane = (uint16_t)(id % flow->schedule->lane_count),
        .kind = step->kind,
        .peer = peer,
        .step = index,
        .bytes = step->kind == TUTTI_COMPUTE ? 0 : step->bytes,
    };

    return tutti_record_add(flow->record, &event);
}

/* The message in a slot has been taken: for who wants to know. Seldom, so kept out of the way. */
static __attribute__((noinline)) int tell_taken(struct tutti_flow *flow, uint32_t id,
                                                uint64_t place, tutti_ps now_ps)
{
    struct wire *wire = &flow->flow_wires[id];
    const struct slot *slot = &flow->slots[place];

    if (wire->is_awaited) {
        wire->is_awaited = false;
        tutti_flow_wake_waiters(flow, &flow->lanes[wire->send_lane]);
    }
    if (flow->record == NULL)
        return 0;
    return note(flow, wire->send_lane, slot->index,
                &(struct tutti_step){.kind = TUTTI_SEND, .bytes = slot->bytes},
                flow->wires.wires[id].to, flow->starts[place], now_ps);
}

/* The oldest message of a connection has been taken at `now_ps`: its slot is free. */
static inline __attribute__((always_inline)) int complete(struct tutti_flow *flow, uint32_t id,
                                                          tutti_ps now_ps)
{
    struct wire *wire = &flow->flow_wires[id];
    uint64_t place = wire->slot_first + wire->taken_slot;

    flow->slots[place].at_ps = now_ps;
    wire->taken_slot = next_slot(flow, wire->taken_slot);
    wire->under_way--;
    flow->step_count++;
    if (wire->send_waits) {
        wire->send_waits = false;
        wake(flow, wire->send_lane);
    }
    return wire->is_awaited || flow->record != NULL ? tell_taken(flow, id, place, now_ps) : 0;
}

static int give_up(struct tutti_flow *flow)
{
    flow->unsuited = true;
    return 0;
}

/* This and its like: 1: the lane goes on; 0: it has to wait, or the attempt is over; or a negative
 * status. */
static int do_send(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                   const struct tutti_step *step, struct tutti_err *err)
{
    uint32_t lane_count = flow->schedule->lane_count;
    struct wire *wire;
    struct slot *slot;

    if (is_outside(&flow->rooms, step->src_buf, step->src_offset, step->bytes))
        return give_up(flow);
    if (lane->to != step->peer || lane->to_wire == NONE) {
        int status = 0;

        lane->to_wire = known_to(flow, id, step->peer);
        if (lane->to_wire == NONE)
            status =
                find_wire(flow, id / lane_count, step->peer, id % lane_count, &lane->to_wire, err);
        if (status < 0 || flow->unsuited)
            return status;
        lane->to = step->peer;
        flow->flow_wires[lane->to_wire].again = false;
    }
    wire = &flow->flow_wires[lane->to_wire];
    if (wire->under_way == flow->slot_count) {
        wire->send_waits = true;
        return 0;
    }
    slot = &flow->slots[wire->slot_first + wire->sent_slot];
    if (slot->at_ps > lane->now_ps)
        lane->now_ps = slot->at_ps;
    if (flow->record != NULL)
        flow->starts[wire->slot_first + wire->sent_slot] = lane->now_ps;
    slot->at_ps = arrival_of(flow, lane->to_wire, step->bytes, lane->now_ps);
    slot->bytes = step->bytes;
    slot->index = lane->index;
    wire->sent_slot = next_slot(flow, wire->sent_slot);
    wire->sent_count++;
    wire->under_way++;
    if (wire->recv_waits) {
        wire->recv_waits = false;
        wake(flow, wire->recv_lane);
    }
    return 1;
}

static int do_recv(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                   const struct tutti_step *step, struct tutti_err *err)
{
    uint32_t lane_count = flow->schedule->lane_count;
    const struct slot *slot;
    struct wire *wire;
    tutti_ps posted_ps = lane->now_ps;
    int status = 0;

    if (is_unwritable(&flow->rooms, step))
        return give_up(flow);
    if (lane->from != step->peer || lane->from_wire == NONE) {
        lane->from_wire = known_from(flow, id, step->peer);
        if (lane->from_wire == NONE)
            status = find_wire(flow, step->peer, id / lane_count, id % lane_count, &lane->from_wire,
                               err);
        if (status < 0 || flow->unsuited)
            return status;
        lane->from = step->peer;
    }
    wire = &flow->flow_wires[lane->from_wire];
    if (wire->under_way == 0) {
        wire->recv_waits = true;
        return 0;
    }
    slot = &flow->slots[wire->slot_first + wire->taken_slot];
    if (slot->bytes != step->bytes)
        return give_up(flow);
    if (slot->at_ps > lane->now_ps)
        lane->now_ps = slot->at_ps;
    if (flow->record != NULL)
        status = note(flow, id, lane->index, step, step->peer, posted_ps, lane->now_ps);
    flow->step_count++;
    if ((step->flags & TUTTI_STEP_FUSE) != 0)
        lane->fused = lane->from_wire;
    else if (status == 0)
        status = complete(flow, lane->from_wire, lane->now_ps);
    return status < 0 ? status : 1;
}

/* REDUCE, COPY and COMPUTE. */
static int do_local(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                    const struct tutti_step *step)
{
    tutti_ps start_ps = lane->now_ps;
    uint32_t fused = lane->fused;
    const struct wire *wire;
    int status = 0;

    if (is_unplayable(&flow->rooms, step))
        return give_up(flow);
    if (step->kind == TUTTI_COMPUTE) {
        lane->now_ps = tutti_add_ps(start_ps, step->duration_ps);
    } else if (flow->opts->reduce_bytes_per_s > 0) {
        lane->now_ps =
            tutti_add_ps(start_ps, wire_ps(flow, step->bytes, flow->opts->reduce_bytes_per_s));
    }
    flow->step_count++;
    if (flow->record != NULL)
        status = note(flow, id, lane->index, step, 0, start_ps, lane->now_ps);
    if (fused == NONE || status < 0)
        return status < 0 ? status : 1;
    lane->fused = NONE;
    wire = &flow->flow_wires[fused];
    if (step->kind != TUTTI_REDUCE ||
        step->bytes != flow->slots[wire->slot_first + wire->taken_slot].bytes)
        return give_up(flow);
    status = complete(flow, fused, lane->now_ps);
    return status < 0 ? status : 1;
}

static int do_step(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                   const struct tutti_step *step, struct tutti_err *err)
{
    if ((step->flags & TUTTI_STEP_DEP) != 0 && !tutti_flow_await(flow, lane, id, step))
        return 0;
    switch (step->kind) {
    case TUTTI_SEND:
        return do_send(flow, lane, id, step, err);
    case TUTTI_RECV:
        return do_recv(flow, lane, id, step, err);
    case TUTTI_REDUCE:
    case TUTTI_COPY:
    case TUTTI_COMPUTE:
        return do_local(flow, lane, id, step);
    default:
        return give_up(flow);
    }
}

/* Does the steps of one round; 1: all of them. */
static int do_round(struct tutti_flow *flow, struct lane *lane, uint32_t id,
                    const struct tutti_round *round, struct tutti_err *err)
{
    while (lane->position < round->step_count) {
        int status = do_step(flow, lane, id, &round->step[lane->position], err);

        if (status != 1)
            return status;
        lane->position++;
        lane->index++;
    }
    lane->round++;
    lane->position = 0;
    return 1;
}

/* Runs a lane until it has to wait or ends. A lane often gets as far as its neighbours have slots:
 * so many rounds are written at a time. What is not used is written anew the next time. */
static int run_lane(struct tutti_flow *flow, uint32_t id, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = flow->schedule;
    struct lane *lane = &flow->lanes[id];
    uint64_t begun = lane->index;
    int status = 1;

    while (status == 1 && lane->round < lane->round_count) {
        uint64_t left;
        uint32_t count;

        if (!tutti_flow_relay(flow, lane, id, &count))
            break;
        left = lane->round_count - lane->round;
        count = left < count ? (uint32_t)left : count;
        tutti_schedule_emit(schedule, id / schedule->lane_count, id % schedule->lane_count,
                            lane->round, count, flow->rounds);
        for (uint32_t i = 0; i < count && status == 1; i++)
            status = do_round(flow, lane, id, &flow->rounds[i], err);
    }
    if (lane->now_ps > flow->end_ps)
        flow->end_ps = lane->now_ps;
    /* Lanes that could wake each other, or themselves, for nothing would do so for ever. */
    if (lane->waiter_first != NONE && lane->index > begun)
        tutti_flow_wake_waiters(flow, lane);
    return status < 0 ? status : 0;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void rewind_all(struct tutti_flow *flow, tutti_ps start_ps)
{
    const struct tutti_schedule *schedule = flow->schedule;

    for (uint32_t i = 0; i < flow->wire_count; i++) {
        struct wire *wire = &flow->flow_wires[i];

        wire->sent_count = 0;
        wire->free_ps = 0;
        wire->sent_slot = wire->taken_slot = wire->under_way = 0;
        wire->send_waits = wire->recv_waits = wire->is_awaited = false;
    }
    if (flow->wire_count > 0)
        memset(flow->slots, 0, (size_t)flow->wire_count * flow->slot_count * sizeof(*flow->slots));
    tutti_flow_links_reset(&flow->links);
    flow->ready_first = flow->ready_count = 0;
    flow->step_count = 0;
    flow->end_ps = start_ps;
    flow->drain_ps_max = 0;
    for (uint32_t i = 0; i < flow->lane_count; i++) {
        uint32_t rank = i / schedule->lane_count;

        flow->lanes[i] = (struct lane){
            .now_ps = tutti_rank_begin_ps(flow->opts, rank, start_ps),
            .round_count = schedule->ops->round_count(schedule, rank, i % schedule->lane_count),
            .fused = NONE,
            .to_wire = NONE,
            .from_wire = NONE,
            .to_first = NONE,
            .from_first = NONE,
            .waiter_first = NONE,
        };
    }
    for (uint32_t i = 0; i < flow->wire_count; i++)
        list_wire(flow, i);
    /* Any order will do. Who runs after the one it receives from finds the more to do at a time: in
     * rings, neighbouring lanes go round in opposite ways. */
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        for (uint32_t i = 0; i < schedule->rank_count; i++) {
            uint32_t rank = lane % 2 == 0 ? i : schedule->rank_count - 1 - i;

            wake(flow, lane_id(flow, rank, lane));
        }
    }
}

static bool all_ended(const struct tutti_flow *flow)
{
    bool ended = true;

    for (uint32_t i = 0; i < flow->lane_count; i++)
        ended &= flow->lanes[i].round == flow->lanes[i].round_count && flow->lanes[i].fused == NONE;
    for (uint32_t i = 0; i < flow->wire_count; i++)
        ended &= flow->flow_wires[i].under_way == 0;
    return ended;
}

/* Runs lanes until none can go on. */
static int run_all(struct tutti_flow *flow, tutti_ps start_ps, struct tutti_err *err)
{
    int status = 0;

    rewind_all(flow, start_ps);
    while (flow->ready_count > 0 && status == 0 && !flow->unsuited) {
        uint32_t id = flow->ready[flow->ready_first];

        flow->ready_first = flow->ready_first + 1 == flow->lane_count ? 0 : flow->ready_first + 1;
        flow->ready_count--;
        status = run_lane(flow, id, err);
    }
    return status;
}

int tutti_flow_play(struct tutti_flow *flow, uint64_t seed, tutti_ps start_ps,
                    struct tutti_record *record, tutti_ps *ret_end_ps, uint64_t *ret_step_count,
                    struct tutti_err *err)
{
    if (flow->unsuited)
        return 0;
    flow->seed = seed;
    flow->record = record;
    if (record != NULL &&
        tutti_memory_grow(flow->opts->memory, &flow->starts, &flow->start_capacity,
                          flow->slot_capacity, sizeof(*flow->starts)) < 0)
        return tutti_nomem(err);
    if (run_all(flow, start_ps, err) < 0)
        return tutti_nomem(err);
    flow->unsuited |= !all_ended(flow); /* a deadlock: the stage will say who waits for what */
    if (flow->unsuited)
        return 0;
    *ret_end_ps = flow->end_ps;
    *ret_step_count = flow->step_count;
    return 1;
}

tutti_ps tutti_flow_drain_ps_max(const struct tutti_flow *flow)
{
    return flow->drain_ps_max;
}

int tutti_flow_new(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                   struct tutti_flow **ret, struct tutti_err *err)
{
    struct tutti_memory *memory = opts->memory;
    uint64_t lane_count = (uint64_t)schedule->rank_count * schedule->lane_count;
    struct tutti_flow *flow = tutti_memory_take(memory, 1, sizeof(*flow));
    int status;

    if (flow == NULL)
        return tutti_nomem(err);
    flow->net.ops = &flow_net_ops;
    flow->opts = opts;
    flow->schedule = schedule;
    flow->lane_count = (uint32_t)lane_count;
    flow->slot_count = schedule->slot_count;
    flow->round_count = schedule->slot_count < ROUNDS_MAX ? schedule->slot_count + 1 : ROUNDS_MAX;
    flow->rooms = rooms_of(schedule);
    flow->jitter_q32 = tutti_jitter_q32(opts->jitter);
    flow->unsuited = lane_count >= NONE || schedule->slot_count > FLOW_SLOTS_MAX;
    status = tutti_wires_init(&flow->wires, opts->topo, opts->protocol, &flow->net, memory, err);
    if (status == 0 && !flow->unsuited) {
        flow->lanes = tutti_memory_take(memory, (size_t)flow->lane_count + 1, sizeof(*flow->lanes));
        flow->ready = tutti_memory_take(memory, (size_t)flow->lane_count + 1, sizeof(*flow->ready));
        if (tutti_flow_links_init(&flow->links, opts->topo->link_count, memory) < 0 ||
            flow->lanes == NULL || flow->ready == NULL)
            status = tutti_nomem(err);
    }
    if (status < 0) {
        tutti_flow_free(flow);
        return status;
    }
    *ret = flow;
    return 0;
}

void tutti_flow_free(struct tutti_flow *flow)
{
    struct tutti_memory *memory;

    if (flow == NULL)
        return;
    memory = flow->opts->memory;
    tutti_wires_done(&flow->wires);
    tutti_memory_give(memory, flow->flow_wires);
    tutti_memory_give(memory, flow->slots);
    tutti_memory_give(memory, flow->starts);
    tutti_flow_links_done(&flow->links);
    tutti_memory_give(memory, flow->lanes);
    tutti_memory_give(memory, flow->ready);
    tutti_memory_give(memory, flow);
}
