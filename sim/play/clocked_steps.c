/* Steps of a play by the clock; see clocked_steps.h. What completes is noted in the order in which
 * the stage (sim/play/stage.c) tells the engine: where lanes of a rank want a link in the same
 * instant, that order decides. */
#include "sim/play/clocked_steps.h"

#include <assert.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/play/clocked_state.h"
#include "sim/play/start.h"
#include "sim/sim.h"

static int give_up(struct tutti_clocked *clocked)
{
    clocked->unsuited = true;
    return 0;
}

/* Every lane is in there at most once, and every message: there is always room. */
static void push_done(struct tutti_clocked *clocked, uint32_t entry)
{
    assert(clocked->done_count < clocked->done_capacity);
    clocked->done[(clocked->done_first + clocked->done_count) & (clocked->done_capacity - 1)] =
        entry;
    clocked->done_count++;
}

static struct brief *brief_of(struct lane *lane)
{
    return &lane->brief[lane->brief_at];
}

static int note(struct tutti_clocked *clocked, uint32_t id, enum tutti_step_kind kind,
                uint32_t peer, uint64_t index, uint64_t bytes, tutti_ps start_ps)
{
    struct tutti_event event = {
        .start_ps = start_ps,
        .end_ps = clocked->now,
        .rank = id / clocked->schedule->lane_count,
        .lane = (uint16_t)(id % clocked->schedule->lane_count),
        .kind = (uint8_t)kind,
        .peer = peer,
        .step = index,
        .bytes = kind == TUTTI_COMPUTE ? 0 : bytes,
    };

    return tutti_record_add(clocked->record, &event);
}

/* A lane is through with its step, which is not a SEND. */
static int finish(struct tutti_clocked *clocked, uint32_t id, uint32_t peer)
{
    struct lane *lane = &clocked->lanes[id];
    const struct brief *brief = brief_of(lane);

    clocked->step_count++;
    push_done(clocked, id);
    if (clocked->record == NULL)
        return 0;
    return note(clocked, id, (enum tutti_step_kind)brief->kind, peer, lane->index, brief->bytes,
                lane->since_ps);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Room for more messages, and for all that can then complete in one instant. */
static int grow_messages(struct tutti_clocked *clocked)
{
    uint32_t capacity = clocked->done_capacity;
    uint32_t *done;

    if (tutti_memory_grow(clocked->opts->memory, &clocked->messages, &clocked->message_capacity,
                          (uint64_t)clocked->message_count + 1, sizeof(*clocked->messages)) < 0 ||
        clocked->net->ops->reserve(clocked->net, clocked->message_capacity) < 0)
        return -TUTTI_ENOMEM;
    if ((uint64_t)clocked->lane_count + clocked->message_capacity >= NONE / 2)
        return -TUTTI_ENOMEM;
    while (capacity < clocked->lane_count + clocked->message_capacity)
        capacity = capacity == 0 ? 64 : 2 * capacity;
    if (capacity == clocked->done_capacity)
        return 0;
    done = tutti_memory_take(clocked->opts->memory, capacity, sizeof(*done));
    if (done == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < clocked->done_count; i++)
        done[i] = clocked->done[(clocked->done_first + i) & (clocked->done_capacity - 1)];
    tutti_memory_give(clocked->opts->memory, clocked->done);
    clocked->done = done;
    clocked->done_first = 0;
    clocked->done_capacity = capacity;
    return 0;
}

static int take_message(struct tutti_clocked *clocked, uint32_t *ret)
{
    if (clocked->message_free != NONE) {
        *ret = clocked->message_free;
        clocked->message_free = clocked->messages[*ret].next;
        return 0;
    }
    if (clocked->message_count == clocked->message_capacity && grow_messages(clocked) < 0)
        return -TUTTI_ENOMEM;
    *ret = clocked->message_count++;
    return 0;
}

static void give_message(struct tutti_clocked *clocked, uint32_t id)
{
    clocked->messages[id].next = clocked->message_free;
    clocked->message_free = id;
    clocked->under_way--;
}

static void list_send(struct tutti_clocked *clocked, struct lane *lane, uint32_t id)
{
    if (lane->send_first == NONE) {
        lane->send_first = id;
    } else {
        clocked->messages[lane->send_last].next_send = id;
        clocked->messages[id].prev_send = lane->send_last;
    }
    lane->send_last = id;
}

void tutti_clocked_forget(struct tutti_clocked *clocked, uint32_t message)
{
    const struct message *gone = &clocked->messages[message];
    struct lane *lane = &clocked->lanes[clocked->wires[gone->wire].send_lane];

    if (gone->prev_send == NONE)
        lane->send_first = gone->next_send;
    else
        clocked->messages[gone->prev_send].next_send = gone->next_send;
    if (gone->next_send == NONE)
        lane->send_last = gone->prev_send;
    else
        clocked->messages[gone->next_send].prev_send = gone->prev_send;
    give_message(clocked, message);
}

/* The waiting SEND of a wire gets its slot: its lane may go on, its message is under way. */
static int send_start(struct tutti_clocked *clocked, uint32_t id)
{
    struct wire *wire = &clocked->wires[id];
    struct lane *lane = &clocked->lanes[wire->send_lane];
    const struct tutti_protocol *protocol = clocked->opts->protocol;
    uint64_t bytes = brief_of(lane)->bytes;
    uint64_t stretch_q32 = 0;
    uint32_t number;

    if (take_message(clocked, &number) < 0)
        return -TUTTI_ENOMEM;
    if (clocked->jitter_q32 != 0)
        stretch_q32 = tutti_stretch_of(clocked->seed, clocked->jitter_q32,
                                       &clocked->table.wires[id], wire->sent_count);
    clocked->messages[number] = (struct message){.bytes = bytes,
                                                 .index = lane->index,
                                                 .start_ps = clocked->now,
                                                 .wire = id,
                                                 .next = NONE,
                                                 .next_send = NONE,
                                                 .prev_send = NONE};
    if (wire->first == NONE)
        wire->first = number;
    else
        clocked->messages[wire->last].next = number;
    wire->last = number;
    wire->sent_count++;
    wire->under_way++;
    wire->send_waits = false;
    clocked->under_way++;
    if (clocked->has_dependencies)
        list_send(clocked, lane, number);
    clocked->net->ops->start(
        clocked->net,
        &(struct tutti_net_send){
            .message = number,
            .connection = id,
            .bytes = protocol == NULL ? bytes : tutti_wire_bytes(protocol, bytes),
            .latency_ps = stretch_q32 == 0 ? wire->latency_ps
                                           : tutti_stretch_ps(wire->latency_ps, stretch_q32),
            .stretch_q32 = stretch_q32},
        clocked->now);
    push_done(clocked, wire->send_lane);
    return 0;
}

/* The oldest message of a wire has been taken: its SEND is complete and its slot is free. */
static int message_complete(struct tutti_clocked *clocked, uint32_t id)
{
    struct wire *wire = &clocked->wires[id];
    uint32_t number = wire->first;
    const struct message *message = &clocked->messages[number];

    wire->first = message->next;
    wire->under_way--;
    clocked->step_count++;
    if (clocked->record != NULL && note(clocked, wire->send_lane, TUTTI_SEND, wire->to,
                                        message->index, message->bytes, message->start_ps) < 0)
        return -TUTTI_ENOMEM;
    if (clocked->has_dependencies)
        push_done(clocked, clocked->lane_count + number);
    else
        give_message(clocked, number);
    return wire->send_waits ? send_start(clocked, id) : 0;
}

/* The waiting RECV of a wire meets the oldest message if that has arrived. */
static int recv_try(struct tutti_clocked *clocked, uint32_t id)
{
    struct wire *wire = &clocked->wires[id];
    struct lane *lane = &clocked->lanes[wire->recv_lane];
    const struct brief *brief = brief_of(lane);

    if (clocked->messages[wire->first].bytes != brief->bytes)
        return give_up(clocked);
    wire->recv_waits = false;
    if (finish(clocked, wire->recv_lane, wire->from) < 0)
        return -TUTTI_ENOMEM;
    if ((brief->flags & TUTTI_STEP_FUSE) == 0)
        return message_complete(clocked, id);
    lane->fused = id;
    return 0;
}

int tutti_clocked_arrive(struct tutti_clocked *clocked, uint32_t message, struct tutti_err *err)
{
    uint32_t id = clocked->messages[message].wire;
    const struct wire *wire = &clocked->wires[id];
    tutti_ps drain_ps = clocked->now - clocked->messages[message].start_ps - wire->latency_ps;

    clocked->messages[message].arrived = true;
    clocked->drain_ps_max = tutti_later_ps(clocked->drain_ps_max, drain_ps);
    if (!wire->recv_waits || !clocked->messages[wire->first].arrived)
        return 0;
    return recv_try(clocked, id) < 0 ? tutti_nomem(err) : 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Finds or makes a connection; what is wrong with it ends the attempt. */
static int find_wire(struct tutti_clocked *clocked, uint32_t from, uint32_t to, uint32_t lane,
                     uint32_t *ret, struct tutti_err *err)
{
    int status = tutti_wires_find(&clocked->table, from, to, lane, ret, err);

    if (status == -TUTTI_ENOMEM)
        return status;
    if (status < 0)
        return give_up(clocked);
    if (*ret < clocked->wire_count)
        return 0;
    assert(*ret == clocked->wire_count);
    if (tutti_memory_grow(clocked->opts->memory, &clocked->wires, &clocked->wire_capacity,
                          (uint64_t)clocked->wire_count + 1, sizeof(*clocked->wires)) < 0)
        return tutti_nomem(err);
    clocked->wires[clocked->wire_count++] = (struct wire){
        .latency_ps = clocked->table.wires[*ret].latency_ps,
        .send_lane = from * clocked->schedule->lane_count + lane,
        .recv_lane = to * clocked->schedule->lane_count + lane,
        .to = to,
        .from = from,
        .first = NONE,
        .last = NONE,
        .next_to = NONE,
        .next_from = NONE,
    };
    return 0;
}

/* The connection of a SEND: the last one, the one that came next the last time, or looked up. */
static int wire_to(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    uint32_t to = brief_of(lane)->peer;
    uint32_t last = lane->to_wire;
    uint32_t next = last == NONE ? NONE : clocked->wires[last].next_to;
    int status;

    if (last != NONE && clocked->wires[last].to == to)
        return 0;
    if (next != NONE && clocked->wires[next].to == to) {
        lane->to_wire = next;
        return 0;
    }
    status = find_wire(clocked, id / clocked->schedule->lane_count, to,
                       id % clocked->schedule->lane_count, &lane->to_wire, err);
    if (status == 0 && !clocked->unsuited && last != NONE)
        clocked->wires[last].next_to = lane->to_wire;
    return status;
}

/* The same for a RECV. */
static int wire_from(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    uint32_t from = brief_of(lane)->peer;
    uint32_t last = lane->from_wire;
    uint32_t next = last == NONE ? NONE : clocked->wires[last].next_from;
    int status;

    if (last != NONE && clocked->wires[last].from == from)
        return 0;
    if (next != NONE && clocked->wires[next].from == from) {
        lane->from_wire = next;
        return 0;
    }
    status = find_wire(clocked, from, id / clocked->schedule->lane_count,
                       id % clocked->schedule->lane_count, &lane->from_wire, err);
    if (status == 0 && !clocked->unsuited && last != NONE)
        clocked->wires[last].next_from = lane->from_wire;
    return status;
}

/* ---- steps of one lane ----------------------------------------------------------------------- */

static int begin_send(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    int status = wire_to(clocked, id, err);
    struct wire *wire;

    if (status < 0 || clocked->unsuited)
        return status;
    wire = &clocked->wires[lane->to_wire];
    wire->send_waits = true;
    if (wire->under_way == clocked->schedule->slot_count)
        return 0;
    return send_start(clocked, lane->to_wire) < 0 ? tutti_nomem(err) : 0;
}

static int begin_recv(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    int status = wire_from(clocked, id, err);
    struct wire *wire;

    if (status < 0 || clocked->unsuited)
        return status;
    wire = &clocked->wires[lane->from_wire];
    wire->recv_waits = true;
    if (wire->first == NONE || !clocked->messages[wire->first].arrived)
        return 0;
    return recv_try(clocked, lane->from_wire) < 0 ? tutti_nomem(err) : 0;
}

/* REDUCE, COPY or COMPUTE is complete. */
static int finish_local(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    const struct brief *brief = brief_of(lane);
    uint32_t fused = lane->fused;
    int status;

    if (fused != NONE && (brief->kind != TUTTI_REDUCE ||
                          brief->bytes != clocked->messages[clocked->wires[fused].first].bytes))
        return give_up(clocked);
    lane->fused = NONE;
    status = finish(clocked, id, 0);
    if (status == 0 && fused != NONE)
        status = message_complete(clocked, fused);
    return status < 0 ? tutti_nomem(err) : 0;
}

static int begin_local(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    const struct brief *brief = brief_of(&clocked->lanes[id]);
    uint64_t rate = clocked->opts->reduce_bytes_per_s;
    tutti_ps duration_ps = 0;

    if (brief->kind == TUTTI_COMPUTE)
        duration_ps = (tutti_ps)brief->bytes;
    else if (rate > 0)
        duration_ps = tutti_wire_ps(brief->bytes, rate);
    if (duration_ps == 0)
        return finish_local(clocked, id, err);
    tutti_queue_put(&clocked->timers, id, tutti_add_ps(clocked->now, duration_ps));
    return 0;
}

int tutti_clocked_begin(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    tutti_ps begin_ps;

    if (lane->index == 0) {
        begin_ps = tutti_rank_begin_ps(clocked->opts, id / clocked->schedule->lane_count,
                                       clocked->launched_ps);
        lane->held = begin_ps > clocked->now;
        if (lane->held) {
            tutti_queue_put(&clocked->timers, id, begin_ps);
            return 0;
        }
    }
    lane->since_ps = clocked->now;
    if (brief_of(lane)->kind == TUTTI_REDUCE || brief_of(lane)->kind == TUTTI_COPY ||
        brief_of(lane)->kind == TUTTI_COMPUTE)
        return begin_local(clocked, id, err);
    if (lane->fused != NONE)
        return give_up(clocked);
    if (brief_of(lane)->kind == TUTTI_SEND)
        return begin_send(clocked, id, err);
    return begin_recv(clocked, id, err);
}

int tutti_clocked_ring(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    return clocked->lanes[id].held ? tutti_clocked_begin(clocked, id, err)
                                   : finish_local(clocked, id, err);
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool is_faulty(const struct tutti_clocked *clocked, const struct tutti_step *step)
{
    if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane >= clocked->schedule->lane_count)
        return true;
    switch (step->kind) {
    case TUTTI_SEND:
        return is_outside(&clocked->rooms, step->src_buf, step->src_offset, step->bytes);
    case TUTTI_RECV:
        return is_unwritable(&clocked->rooms, step);
    case TUTTI_REDUCE:
    case TUTTI_COPY:
    case TUTTI_COMPUTE:
        return is_unplayable(&clocked->rooms, step);
    default:
        return true;
    }
}

/* Keeps the next steps of the round that was written last. */
static void keep(struct tutti_clocked *clocked, struct lane *lane)
{
    const struct tutti_round *round = &clocked->round;

    lane->brief_at = lane->brief_count = 0;
    while (lane->written < round->step_count && lane->brief_count < STEPS_KEPT) {
        const struct tutti_step *step = &round->step[lane->written++];

        clocked->unsuited |= is_faulty(clocked, step);
        lane->brief[lane->brief_count++] = (struct brief){
            .bytes = step->kind == TUTTI_COMPUTE ? (uint64_t)step->duration_ps : step->bytes,
            .peer = step->peer,
            .dep_step = step->dep_step,
            .dep_lane = step->dep_lane,
            .kind = step->kind,
            .flags = step->flags,
        };
    }
}

static void write_round(struct tutti_clocked *clocked, uint32_t id, uint64_t round)
{
    const struct tutti_schedule *schedule = clocked->schedule;

    clocked->round.step_count = 0;
    schedule->ops->emit(schedule, id / schedule->lane_count, id % schedule->lane_count, round,
                        &clocked->round);
}

bool tutti_clocked_next_step(struct tutti_clocked *clocked, uint32_t id)
{
    struct lane *lane = &clocked->lanes[id];

    if (lane->brief_at + 1 < lane->brief_count) {
        lane->brief_at++;
        return true;
    }
    if (lane->brief_count == STEPS_KEPT) { /* the round may have more */
        write_round(clocked, id, lane->round - 1);
        keep(clocked, lane);
        if (lane->brief_count > 0)
            return true;
    }
    while (lane->round < lane->round_count) {
        write_round(clocked, id, lane->round++);
        lane->written = 0;
        keep(clocked, lane);
        if (lane->brief_count > 0)
            return true;
    }
    return false;
}
