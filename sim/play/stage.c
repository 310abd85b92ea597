/* The stage of the simulator; see stage.h. All that happens at one instant is handed to the engine
 * before the clock goes on, so that what it starts in return starts at that instant too. */
#include "sim/play/stage.h"
#include "sim/play/estimate.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/backend.h"
#include "runtime/status.h"
#include "sim/play/start.h"
#include "topo/topo.h"

/* Puts before a message whose step it is about. */
static int blame(int status, uint32_t rank, uint32_t lane, uint64_t index,
                 const struct tutti_step *step, struct tutti_err *err)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    if (status == -TUTTI_ENOMEM)
        return status;
    return tutti_wrap(err, status, "rank %" PRIu32 ", lane %" PRIu32 ", step %" PRIu64 " (%s)",
                      rank, lane, index, tutti_step_text(step, text));
}

static int say(struct tutti_stage *stage, struct tutti_done done, struct tutti_err *err)
{
    if (tutti_grow(&stage->ready, &stage->ready_capacity, (uint64_t)stage->ready_count + 1,
                   sizeof(*stage->ready)) < 0)
        return tutti_nomem(err);
    stage->ready[stage->ready_count++] = done;
    return 0;
}

static int finished(struct tutti_stage *stage, uint32_t rank, uint32_t lane, uint64_t index,
                    tutti_ps start_ps, struct tutti_err *err)
{
    return say(stage,
               (struct tutti_done){.rank = rank,
                                   .lane = lane,
                                   .index = index,
                                   .what = TUTTI_DONE_FINISHED,
                                   .start_ps = start_ps,
                                   .end_ps = stage->now},
               err);
}

static struct tutti_stage_lane *lane_of(struct tutti_stage *stage, uint32_t rank, uint32_t lane)
{
    return &stage->lanes[(size_t)rank * stage->schedule->lane_count + lane];
}

/* ---- messages ------------------------------------------------------------------------------- */

/* The waiting SEND of a wire gets its slot: its lane may go on, its message is under way. */
static int send_start(struct tutti_stage *stage, uint32_t id, struct tutti_err *err)
{
    struct tutti_wire *wire = &stage->wires.wires[id];
    uint64_t stretch_q32 = tutti_stretch_of(stage->seed, stage->jitter_q32, wire, wire->sent_count);
    uint32_t number;
    struct tutti_message *message;
    int status = tutti_wires_push(&stage->wires, id, &number, err);

    if (status < 0)
        return status;
    message = &stage->wires.messages[number];
    message->step = wire->send_step;
    message->index = wire->send_index;
    message->start_ps = stage->now;
    wire->send_waits = false;
    stage->net->ops->start(
        stage->net,
        &(struct tutti_net_send){.message = number,
                                 .connection = id,
                                 .bytes =
                                     tutti_wire_bytes(stage->opts->protocol, message->step->bytes),
                                 .latency_ps = tutti_stretch_ps(wire->latency_ps, stretch_q32),
                                 .stretch_q32 = stretch_q32},
        stage->now);
    return say(stage,
               (struct tutti_done){.rank = wire->from,
                                   .lane = wire->lane,
                                   .index = wire->send_index,
                                   .what = TUTTI_DONE_STARTED,
                                   .start_ps = stage->now,
                                   .end_ps = stage->now},
               err);
}

static bool has_slot(const struct tutti_stage *stage, const struct tutti_wire *wire)
{
    return wire->sent_count - wire->completed_count < stage->schedule->slot_count;
}

/* The oldest message of a wire has been taken: its SEND is complete and its slot is free. */
static int message_complete(struct tutti_stage *stage, uint32_t id, struct tutti_err *err)
{
    struct tutti_wire *wire = &stage->wires.wires[id];
    const struct tutti_message *message = &stage->wires.messages[wire->first];
    int status = finished(stage, wire->from, wire->lane, message->index, message->start_ps, err);

    assert(message->arrived);
    tutti_wires_pop(&stage->wires, id);
    if (status == 0 && wire->send_waits && has_slot(stage, wire))
        status = send_start(stage, id, err);
    return status;
}

/* The waiting RECV of a wire meets the oldest message if that has arrived. */
static int recv_try(struct tutti_stage *stage, uint32_t id, struct tutti_err *err)
{
    struct tutti_wire *wire = &stage->wires.wires[id];
    const struct tutti_step *recv = wire->recv_step;
    const struct tutti_message *message;
    int status;

    if (!wire->recv_waits || wire->first == TUTTI_MESSAGE_NONE ||
        !stage->wires.messages[wire->first].arrived)
        return 0;
    message = &stage->wires.messages[wire->first];
    if (message->step->bytes != recv->bytes) {
        status = tutti_fail(err, TUTTI_ECHECK,
                            "the message has '%" PRIu64 "' bytes (as many as are received): step "
                            "%" PRIu64 " of rank %" PRIu32,
                            message->step->bytes, message->index, wire->from);
        return blame(status, wire->to, wire->lane, wire->recv_index, recv, err);
    }
    wire->recv_waits = false;
    if ((recv->flags & TUTTI_STEP_FUSE) != 0) {
        lane_of(stage, wire->to, wire->lane)->fused = id;
        return finished(stage, wire->to, wire->lane, wire->recv_index, wire->recv_ps, err);
    }
    tutti_carry_recv(&stage->carry, wire->to, recv, wire->from, message->step);
    status = finished(stage, wire->to, wire->lane, wire->recv_index, wire->recv_ps, err);
    return status < 0 ? status : message_complete(stage, id, err);
}

static int send_post(struct tutti_stage *stage, const struct tutti_post *post,
                     struct tutti_err *err)
{
    struct tutti_stage_lane *lane = lane_of(stage, post->rank, post->lane);
    struct tutti_wire *wire;
    int status = 0;

    if (lane->to != post->step->peer || lane->to_wire == UINT32_MAX) {
        status = tutti_wires_find(&stage->wires, post->rank, post->step->peer, post->lane,
                                  &lane->to_wire, err);
        if (status < 0)
            return blame(status, post->rank, post->lane, post->index, post->step, err);
        lane->to = post->step->peer;
    }
    wire = &stage->wires.wires[lane->to_wire];
    assert(!wire->send_waits);
    wire->send_waits = true;
    wire->send_step = post->step;
    wire->send_index = post->index;
    return has_slot(stage, wire) ? send_start(stage, lane->to_wire, err) : 0;
}

static int recv_post(struct tutti_stage *stage, const struct tutti_post *post,
                     struct tutti_err *err)
{
    struct tutti_stage_lane *lane = lane_of(stage, post->rank, post->lane);
    struct tutti_wire *wire;
    int status = 0;

    if (lane->from != post->step->peer || lane->from_wire == UINT32_MAX) {
        status = tutti_wires_find(&stage->wires, post->step->peer, post->rank, post->lane,
                                  &lane->from_wire, err);
        if (status < 0)
            return blame(status, post->rank, post->lane, post->index, post->step, err);
        lane->from = post->step->peer;
    }
    wire = &stage->wires.wires[lane->from_wire];
    assert(!wire->recv_waits);
    wire->recv_waits = true;
    wire->recv_step = post->step;
    wire->recv_index = post->index;
    wire->recv_ps = stage->now;
    return recv_try(stage, lane->from_wire, err);
}

/* ---- steps of one rank ----------------------------------------------------------------------- */

static int duration_of(const struct tutti_stage *stage, const struct tutti_post *post,
                       tutti_ps *ret_ps, struct tutti_err *err)
{
    const struct tutti_step *step = post->step;
    const struct tutti_topo *topo = stage->opts->topo;
    uint32_t v = tutti_topo_rank_node(topo, post->rank);
    struct tutti_node device = tutti_topo_node(topo, v);
    char name[TUTTI_NODE_NAME_BYTES];

    if (step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY) {
        *ret_ps = stage->opts->reduce_bytes_per_s == 0
                      ? 0
                      : tutti_wire_ps(step->bytes, stage->opts->reduce_bytes_per_s);
        return 0;
    }
    if (stage->opts->compute_ps != NULL) {
        *ret_ps = stage->opts->compute_ps(stage->opts->compute_context, post->rank, step);
        return 0;
    }
    if (step->duration_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "a duration of '%" PRId64 "' ps (0 or more)",
                          step->duration_ps);
    if (step->duration_ps > 0 || step->flops == 0) {
        *ret_ps = step->duration_ps;
        return 0;
    }
    if (device.flops_per_s == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the rate of device '%s' is not known (COMPUTE with a duration, or a "
                          "topology whose devices state flops)",
                          tutti_topo_node_name(topo, v, name));
    *ret_ps = tutti_wire_ps(step->flops, device.flops_per_s); /* flops at flops a second */
    return 0;
}

/* The message that a REDUCE reads in place of its src, if the RECV before it was fused. */
static int fused_message(struct tutti_stage *stage, struct tutti_stage_lane *lane,
                         uint32_t *ret_wire, struct tutti_err *err)
{
    const struct tutti_message *message;

    *ret_wire = lane->fused;
    if (lane->fused == UINT32_MAX)
        return 0;
    message = &stage->wires.messages[stage->wires.wires[lane->fused].first];
    if (lane->step->kind != TUTTI_REDUCE || lane->step->bytes != message->step->bytes)
        return tutti_fail(err, TUTTI_ECHECK,
                          "does not read the '%" PRIu64
                          "' bytes of the fused RECV before it (a REDUCE of all of them)",
                          message->step->bytes);
    lane->fused = UINT32_MAX;
    return 0;
}

/* A REDUCE of a part of an element would leave bytes behind: no schedule should, no file may. */
static int check_elements(const struct tutti_stage *stage, const struct tutti_post *post,
                          struct tutti_err *err)
{
    size_t element_bytes =
        tutti_dtype_bytes(tutti_step_reduction(stage->schedule, post->step).dtype);

    if (post->step->kind != TUTTI_REDUCE || post->step->bytes % element_bytes == 0)
        return 0;
    return tutti_fail(err, TUTTI_ECHECK, "cuts an element of %zu bytes", element_bytes);
}

/* The step that a lane was busy with is complete. */
static int local_finish(struct tutti_stage *stage, uint32_t id, struct tutti_err *err)
{
    struct tutti_stage_lane *lane = &stage->lanes[id];
    uint32_t rank = id / stage->schedule->lane_count;
    const struct tutti_wire *wire = NULL;
    const struct tutti_step *send = NULL;
    uint32_t fused;
    int status = fused_message(stage, lane, &fused, err);

    if (status < 0)
        return blame(status, rank, id % stage->schedule->lane_count, lane->index, lane->step, err);
    if (fused != UINT32_MAX) {
        wire = &stage->wires.wires[fused];
        send = stage->wires.messages[wire->first].step;
    }
    if (lane->step->kind != TUTTI_COMPUTE)
        tutti_carry_local(&stage->carry, rank, lane->step, wire != NULL ? wire->from : rank, send);
    else
        status = tutti_carry_work(&stage->carry, rank, lane->step, stage->iteration, err);
    if (status < 0)
        return blame(status, rank, id % stage->schedule->lane_count, lane->index, lane->step, err);
    status =
        finished(stage, rank, id % stage->schedule->lane_count, lane->index, lane->start_ps, err);
    if (status == 0 && fused != UINT32_MAX)
        status = message_complete(stage, fused, err);
    return status;
}

static int local_post(struct tutti_stage *stage, const struct tutti_post *post,
                      struct tutti_err *err)
{
    struct tutti_stage_lane *lane = lane_of(stage, post->rank, post->lane);
    uint32_t id = (uint32_t)(lane - stage->lanes);
    tutti_ps duration_ps = 0;
    int status = check_elements(stage, post, err);

    if (status == 0)
        status = duration_of(stage, post, &duration_ps, err);
    if (status < 0)
        return blame(status, post->rank, post->lane, post->index, post->step, err);
    lane->step = post->step;
    lane->index = post->index;
    lane->start_ps = stage->now;
    if (duration_ps == 0)
        return local_finish(stage, id, err);
    tutti_queue_put(&stage->timers, id, tutti_add_ps(stage->now, duration_ps));
    return 0;
}

/* ---- the two calls of the engine ------------------------------------------------------------- */

static int begin(struct tutti_stage *stage, const struct tutti_post *post, struct tutti_err *err)
{
    switch ((enum tutti_step_kind)post->step->kind) {
    case TUTTI_SEND:
        return send_post(stage, post, err);
    case TUTTI_RECV:
        return recv_post(stage, post, err);
    case TUTTI_REDUCE:
    case TUTTI_COPY:
    case TUTTI_COMPUTE:
        return local_post(stage, post, err);
    case TUTTI_CALL:
        break;
    }
    return blame(tutti_fail(err, TUTTI_EINVAL, "cannot be played (a flat schedule has no calls)"),
                 post->rank, post->lane, post->index, post->step, err);
}

/* Before a rank has begun, its lanes can have posted nothing but their first steps: those wait. */
static int stage_post(void *opaque, const struct tutti_post *post, struct tutti_err *err)
{
    struct tutti_stage *stage = opaque;
    tutti_ps begin_ps = tutti_rank_begin_ps(stage->opts, post->rank, stage->launched_ps);
    struct tutti_stage_lane *lane;

    if (begin_ps <= stage->now)
        return begin(stage, post, err);
    lane = lane_of(stage, post->rank, post->lane);
    assert(post->index == 0 && !lane->held);
    lane->held = true;
    lane->step = post->step;
    tutti_queue_put(&stage->timers, (uint32_t)(lane - stage->lanes), begin_ps);
    return 0;
}

/* The time of a lane has come: its rank begins, or the step it was busy with is complete. */
static int timer_rang(struct tutti_stage *stage, uint32_t id, struct tutti_err *err)
{
    struct tutti_stage_lane *lane = &stage->lanes[id];
    struct tutti_post first = {.rank = id / stage->schedule->lane_count,
                               .lane = id % stage->schedule->lane_count,
                               .step = lane->step};

    if (!lane->held)
        return local_finish(stage, id, err);
    lane->held = false;
    return begin(stage, &first, err);
}

/* Works off all timers and arrivals of the next instant; 0: there is none. */
static int advance(struct tutti_stage *stage, struct tutti_err *err)
{
    tutti_ps timer_ps = INT64_MAX;
    tutti_ps net_ps = INT64_MAX;
    bool timer = tutti_queue_next(&stage->timers, &timer_ps);
    bool net = stage->net->ops->next(stage->net, stage->now, &net_ps);
    int status = 0;

    if (!timer && !net)
        return 0;
    assert(timer_ps >= stage->now); /* time never runs back */
    assert(net_ps >= stage->now);
    stage->now = timer_ps < net_ps ? timer_ps : net_ps;
    status = tutti_play_goes_on(stage->opts, stage->net, err);
    while (status == 0 && tutti_queue_next(&stage->timers, &timer_ps) && timer_ps <= stage->now)
        status = timer_rang(stage, tutti_queue_pop(&stage->timers), err);
    while (status == 0) {
        uint32_t number = stage->net->ops->arrived(stage->net, stage->now);

        if (number == TUTTI_MESSAGE_NONE)
            break;
        stage->wires.messages[number].arrived = true;
        status = recv_try(stage, stage->wires.messages[number].wire, err);
    }
    return status < 0 ? status : 1;
}

/* One at a time: what follows from it is posted before the next is handed out, so the order of
 * things within an instant does not hang on how many the engine can take. */
static int stage_poll(void *opaque, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct tutti_stage *stage = opaque;

    assert(max > 0);
    while (stage->ready_count == 0) {
        int status = advance(stage, err);

        if (status <= 0)
            return status;
    }
    done[0] = stage->ready[stage->ready_first++];
    if (stage->ready_first == stage->ready_count)
        stage->ready_first = stage->ready_count = 0;
    return 1;
}

const struct tutti_stage_ops tutti_stage_ops_sim = {
    .size = sizeof(struct tutti_stage_ops),
    .post = stage_post,
    .poll = stage_poll,
};

/* ---- coming and going ------------------------------------------------------------------------ */

static int net_open(struct tutti_stage *stage, struct tutti_err *err)
{
    const struct tutti_topo *topo = stage->opts->topo;
    const struct tutti_net_ops *ops = tutti_net_of(stage->opts->model);

    stage->link_rates = calloc((size_t)topo->link_count + 1, sizeof(*stage->link_rates));
    if (stage->link_rates == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < topo->link_count; i++)
        stage->link_rates[i] = tutti_link_rate(topo, stage->opts->protocol, i);
    if (topo->has_bursts && tutti_link_bursts(NULL, topo, &stage->link_bursts) < 0)
        return tutti_nomem(err);
    return ops->open(&(struct tutti_net_links){.link_count = topo->link_count,
                                               .bytes_per_s = stage->link_rates,
                                               .burst_bytes = stage->link_bursts},
                     &stage->net, err);
}

int tutti_stage_init(struct tutti_stage *stage, const struct tutti_sim_opts *opts,
                     const struct tutti_play *play, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    uint64_t lane_count = (uint64_t)schedule->rank_count * schedule->lane_count;
    int status;

    *stage = (struct tutti_stage){.opts = opts, .schedule = schedule};
    if (lane_count >= UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%" PRIu64 "' lanes over all ranks (less than 2^32)",
                          lane_count);
    stage->lane_count = (uint32_t)lane_count;
    stage->jitter_q32 = tutti_jitter_q32(opts->jitter);
    status = net_open(stage, err);
    if (status == 0)
        status = tutti_wires_init(&stage->wires, opts->topo, opts->protocol, stage->net, NULL, err);
    if (status == 0)
        status = tutti_carry_init(&stage->carry, play, opts->carry, err);
    if (status == 0) {
        stage->lanes = calloc((size_t)stage->lane_count + 1, sizeof(*stage->lanes));
        if (stage->lanes == NULL || tutti_queue_reserve(&stage->timers, (uint32_t)lane_count) < 0)
            status = tutti_nomem(err);
    }
    if (status < 0)
        tutti_stage_done(stage);
    return status;
}

void tutti_stage_done(struct tutti_stage *stage)
{
    tutti_wires_done(&stage->wires);
    tutti_carry_done(&stage->carry);
    tutti_queue_done(&stage->timers);
    if (stage->net != NULL)
        stage->net->ops->close(stage->net);
    free(stage->link_rates);
    free(stage->link_bursts);
    free(stage->lanes);
    free(stage->ready);
    *stage = (struct tutti_stage){.now = 0};
}

void tutti_stage_reset(struct tutti_stage *stage, uint64_t seed, tutti_ps start_ps)
{
    stage->now = stage->launched_ps = start_ps;
    stage->seed = seed;
    stage->ready_first = stage->ready_count = 0;
    stage->net->ops->reset(stage->net);
    tutti_wires_reset(&stage->wires);
    tutti_queue_clear(&stage->timers);
    for (uint32_t i = 0; i < stage->lane_count; i++) {
        stage->lanes[i].held = false;
        stage->lanes[i].fused = UINT32_MAX;
        stage->lanes[i].to_wire = UINT32_MAX;
        stage->lanes[i].from_wire = UINT32_MAX;
    }
}
