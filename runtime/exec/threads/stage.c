/* One rank of the threads backend: moves and reduces data straight from the sender's memory. */
#include "runtime/exec/threads/stage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/threads/place.h"
#include "runtime/status.h"

enum {
    /* After this much work the stage reports what it has, so that the engine can post SENDs of
     * other lanes before the stage goes on: about a microsecond's worth. */
    WORK_BYTES_BEFORE_REPORT = 16 << 10,
};

/* ---- messages ---- */

static void watch(struct tutti_thread_stage *stage, struct tutti_wire *wire)
{
    if (wire->watched)
        return;
    wire->watched = true;
    stage->watched[stage->watched_count++] = wire;
}

/* Whether the SEND about to get its slot has been written to its destination already. */
static bool is_pushed(struct tutti_place *place)
{
    bool pushed;

    if (place->targets == place->targets_end || place->targets->step != place->post.index)
        return false;
    pushed = (place->pushed & 1) != 0;
    place->pushed >>= 1;
    place->targets++;
    return pushed;
}

/* 1: has its slot, 0: there is none, or a negative status. */
static int try_send(struct tutti_thread_stage *stage, struct tutti_place *place,
                    struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_wire *wire = place->out;
    struct tutti_slot *slot;

    /* Slots come free only when their SEND is reported: `ended_count` is the engine's view. */
    if (wire->sent_count - wire->ended_count == wire->slot_count)
        return 0;
    slot = &wire->slots[wire->sent_slot];
    wire->sent_slot = wire->sent_slot + 1 == wire->slot_count ? 0 : wire->sent_slot + 1;
    wire->sent_count++;
    slot->bytes = step->bytes;
    slot->step = place->post.index;
    slot->start_ps = tutti_time_of(stage);
    watch(stage, wire);
    if (wire->way != NULL) {
        if (stage->conductor != NULL)
            tutti_conductor_send(stage->conductor, wire, slot);
        return tutti_remote_send(stage, place, err);
    }
    slot->data = is_pushed(place) ? NULL : tutti_at(stage, step->src_buf, step->src_offset);
    atomic_store(&slot->serial, wire->sent_count);
    if (stage->conductor != NULL)
        tutti_conductor_send(stage->conductor, wire, slot);
    else
        tutti_hall_wake(stage->hall, wire->to);
    return 1;
}

/* The message that the lane's RECV waits for, or NULL. */
static struct tutti_slot *arrived(const struct tutti_thread_stage *stage,
                                  const struct tutti_wire *wire)
{
    struct tutti_slot *slot = &wire->slots[wire->taken_slot];

    if (stage->conductor != NULL)
        return tutti_conductor_arrived(stage->conductor, wire, slot) ? slot : NULL;
    return atomic_load(&slot->serial) == wire->taken_count + 1 ? slot : NULL;
}

/* The sender may write the bytes of the oldest message again. */
void tutti_stage_release(struct tutti_thread_stage *stage, struct tutti_wire *wire)
{
    wire->taken_slot = wire->taken_slot + 1 == wire->slot_count ? 0 : wire->taken_slot + 1;
    wire->taken_count++;
    atomic_store(&wire->released_count, wire->taken_count);
    if (stage->conductor != NULL)
        tutti_conductor_release(stage->conductor, wire);
    else
        tutti_hall_wake(stage->hall, wire->from);
}

/* A fused message that its REDUCE has not consumed is stored after all, as without FUSE. */
static void unfuse(struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_step *step = &place->fused_step;

    tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset), place->fused->data,
                     step->bytes);
    place->fused = NULL;
    tutti_stage_release(stage, place->in);
}

int tutti_stage_refuse(const struct tutti_thread_stage *stage, const struct tutti_post *post,
                       const struct tutti_step *step, uint64_t came_bytes, uint64_t came_step,
                       struct tutti_err *err)
{
    uint64_t index = post->index - (post->step->kind == TUTTI_REDUCE);
    char text[TUTTI_STEP_TEXT_BYTES];

    return tutti_fail(err, TUTTI_ECHECK,
                      "rank %u, lane %u, step %llu (%s): rank %u sent %llu bytes in its step %llu",
                      stage->rank, post->lane, (unsigned long long)index,
                      tutti_step_text(step, text), step->peer, (unsigned long long)came_bytes,
                      (unsigned long long)came_step);
}

static int try_recv(struct tutti_thread_stage *stage, struct tutti_place *place,
                    struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_slot *slot = arrived(stage, place->in);

    if (slot == NULL)
        return 0;
    if (slot->bytes != step->bytes)
        return tutti_stage_refuse(stage, &place->post, step, slot->bytes, slot->step, err);
    if ((step->flags & TUTTI_STEP_FUSE) != 0) {
        place->fused = slot;
        place->fused_step = *step;
        return 1;
    }
    if (slot->data != NULL && !place->ahead) /* else the sender has put it there */
        tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset), slot->data,
                         step->bytes);
    place->ahead = false;
    tutti_stage_release(stage, place->in);
    return 1;
}

/* ---- steps ---- */

/* Whether a step that takes time is over: COMPUTE, and all with a conductor, on its clock. */
static bool is_due(const struct tutti_thread_stage *stage, struct tutti_place *place)
{
    const struct tutti_conductor *conductor = stage->conductor;
    const struct tutti_step *step = place->post.step;
    tutti_ps now_ps;

    if (conductor == NULL && step->kind != TUTTI_COMPUTE)
        return true;
    now_ps = conductor != NULL ? tutti_conductor_now(conductor) : tutti_hall_now(stage->hall);
    if (!place->started) {
        tutti_ps takes_ps = conductor == NULL
                                ? step->duration_ps
                                : conductor->shaper->ops->step_ps(conductor->shaper, step);

        place->started = true;
        place->until_ps = tutti_hall_after(now_ps, takes_ps);
        if (conductor == NULL)
            place->start_ps = now_ps;
    }
    return place->until_ps <= now_ps;
}

/* 1: the step has finished (a SEND: started), 0: not yet, or a negative status. */
static int try_step(struct tutti_thread_stage *stage, struct tutti_place *place,
                    struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    const struct tutti_contract *contract = &stage->schedule->contract;

    switch (step->kind) {
    case TUTTI_SEND:
        return try_send(stage, place, err);
    case TUTTI_RECV:
        return place->in->way != NULL ? tutti_remote_recv(stage, place, err)
                                      : try_recv(stage, place, err);
    case TUTTI_REDUCE:
        if (place->awaited)
            return tutti_remote_reduce(stage, place, err);
        if (!is_due(stage, place))
            return 0;
        tutti_stage_reduce(stage, place);
        return 1;
    case TUTTI_COPY:
        if (!is_due(stage, place))
            return 0;
        tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset),
                         tutti_at(stage, step->src_buf, step->src_offset), step->bytes);
        if (tutti_divisor(stage, step) == 0)
            return 1;
        if (stage->hands != NULL)
            tutti_hands_settle(stage->hands);
        tutti_finish(
            contract->dtype, contract->op, tutti_at(stage, step->dst_buf, step->dst_offset),
            (size_t)step->bytes / tutti_dtype_bytes(contract->dtype), tutti_divisor(stage, step));
        return 1;
    default:
        assert(step->kind == TUTTI_COMPUTE);
        return is_due(stage, place);
    }
}

void tutti_thread_stage_settle_chains(struct tutti_thread_stage *stage)
{
    for (uint32_t i = 0; stage->chain_count > 0 && i < stage->schedule->lane_count; i++) {
        if (stage->places[i].chain.length > 0)
            tutti_stage_settle_chain(stage, &stage->places[i]);
    }
}

/* ---- the stage ---- */

int tutti_thread_stage_post(struct tutti_thread_stage *stage, const struct tutti_post *post,
                            struct tutti_err *err)
{
    struct tutti_place *place = &stage->places[post->lane];
    uint32_t peer = post->step->peer;
    int status;

    if ((post->step->flags & TUTTI_STEP_DEP) != 0)
        tutti_thread_stage_settle_chains(stage);
    else if (place->chain.length > 0 &&
             ((post->step->kind == TUTTI_RECV && !tutti_wires_own(stage->wires, peer)) ||
              !tutti_stage_goes_with(&place->chain, place, post->step)))
        tutti_stage_settle_chain(stage, place);
    if (place->fused != NULL && !tutti_reads_fused(&place->fused_step, post->step))
        unfuse(stage, place);
    place->post = *post;
    place->started = false;
    if (post->step->kind == TUTTI_SEND) {
        if (place->out == NULL || place->out->to != peer)
            place->out = tutti_thread_wires_find(stage->wires, stage->rank, peer, post->lane);
        assert(place->out != NULL);
        status = try_send(stage, place, err);
        if (status < 0)
            return status;
        place->started = status > 0;
    } else {
        if (post->step->kind == TUTTI_RECV && (place->in == NULL || place->in->from != peer))
            place->in = tutti_thread_wires_find(stage->wires, peer, stage->rank, post->lane);
        place->start_ps = tutti_time_of(stage);
    }
    stage->busy[stage->busy_count++] = post->lane;
    return 0;
}

static void report(const struct tutti_thread_stage *stage, const struct tutti_place *place,
                   struct tutti_done *done)
{
    *done = (struct tutti_done){
        .rank = stage->rank,
        .lane = place->post.lane,
        .index = place->post.index,
        .what = place->post.step->kind == TUTTI_SEND ? TUTTI_DONE_STARTED : TUTTI_DONE_FINISHED,
        .start_ps = place->start_ps,
        .end_ps = tutti_time_of(stage),
    };
}

/* One look at the steps under way in this rank's lanes. */
static int look_at_lanes(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max,
                         struct tutti_err *err)
{
    uint64_t work_bytes = 0;
    uint32_t count = 0;
    uint32_t kept = 0;
    uint32_t i = 0;

    for (; i < stage->busy_count && count < max && work_bytes < WORK_BYTES_BEFORE_REPORT; i++) {
        struct tutti_place *place = &stage->places[stage->busy[i]];
        bool is_send = place->post.step->kind == TUTTI_SEND;
        int status = is_send && place->started ? 1 : try_step(stage, place, err);

        if (status < 0)
            return status;
        if (status == 0) {
            stage->busy[kept++] = stage->busy[i];
            continue;
        }
        report(stage, place, &done[count++]);
        if (!is_send && place->post.step->kind != TUTTI_COMPUTE)
            work_bytes += place->post.step->bytes;
    }
    for (; i < stage->busy_count; i++)
        stage->busy[kept++] = stage->busy[i];
    stage->busy_count = kept;
    return (int)count;
}

/* One look at the messages that receivers have released. */
static int look_at_wires(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max)
{
    uint32_t count = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < stage->watched_count; i++) {
        struct tutti_wire *wire = stage->watched[i];
        uint64_t released =
            wire->way != NULL ? wire->way->done_count : atomic_load(&wire->released_count);

        if (wire->way != NULL && stage->conductor != NULL &&
            released > tutti_conductor_released(stage->conductor, wire))
            released = tutti_conductor_released(stage->conductor, wire);
        while (wire->ended_count < released && count < max) {
            const struct tutti_slot *slot = &wire->slots[wire->ended_slot];

            done[count++] = (struct tutti_done){
                .rank = stage->rank,
                .lane = wire->lane,
                .index = slot->step,
                .what = TUTTI_DONE_FINISHED,
                .start_ps = slot->start_ps,
                .end_ps = tutti_time_of(stage),
            };
            wire->ended_count++;
            wire->ended_slot = wire->ended_slot + 1 == wire->slot_count ? 0 : wire->ended_slot + 1;
        }
        wire->watched = wire->ended_count < wire->sent_count;
        if (wire->watched)
            stage->watched[kept++] = wire;
    }
    stage->watched_count = kept;
    return (int)count;
}

int tutti_thread_stage_look(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max,
                            struct tutti_err *err)
{
    int count;

    tutti_hall_comes_in(stage->hall);
    count = look_at_lanes(stage, done, max, err);
    return count != 0 ? count : look_at_wires(stage, done, max);
}

tutti_ps tutti_thread_stage_next_end(const struct tutti_thread_stage *stage)
{
    tutti_ps first_ps = 0;

    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_place *place = &stage->places[stage->busy[i]];
        unsigned kind = place->post.step->kind;

        if (kind == TUTTI_SEND || kind == TUTTI_RECV || !place->started)
            continue;
        if (first_ps == 0 || place->until_ps < first_ps)
            first_ps = place->until_ps;
    }
    return first_ps;
}

/* What this rank waits for. A RECV that was reported early is named, not the REDUCE after it. */
static void waiting_for(const struct tutti_thread_stage *stage, char *buf, size_t buf_bytes)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    tutti_engine_waiting_for(stage->engine, buf, buf_bytes);
    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_place *place = &stage->places[stage->busy[i]];

        if (!place->awaited || place->post.step->kind != TUTTI_REDUCE)
            continue;
        snprintf(buf, buf_bytes, "rank %u, lane %u, step %llu (%s)", stage->rank, place->post.lane,
                 (unsigned long long)place->post.index - 1,
                 tutti_step_text(&place->fused_step, text));
        break;
    }
}

bool tutti_thread_stage_hangs_on_sends(const struct tutti_thread_stage *stage)
{
    if (stage->timed || stage->busy_count == 0)
        return true;
    for (uint32_t i = 0; i < stage->busy_count; i++) {
        if (stage->places[stage->busy[i]].post.step->kind == TUTTI_SEND)
            return true;
    }
    return false;
}

int tutti_thread_stage_gave_up(const struct tutti_thread_stage *stage, int status,
                               struct tutti_err *err)
{
    char text[512];
    char time[TUTTI_UNIT_TEXT_BYTES];

    waiting_for(stage, text, sizeof(text));
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME, "deadline of %s passed: %s has not finished",
                          tutti_print_time(stage->hall->deadline_ps, time), text);
    if (status == -TUTTI_ECHECK)
        return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s can never finish", text);
    return tutti_fail(err, TUTTI_EIO, "broken off: %s", text);
}

int tutti_thread_stage_lost(const struct tutti_thread_stage *stage, int status,
                            struct tutti_err *err)
{
    char text[512];

    waiting_for(stage, text, sizeof(text));
    return tutti_wrap(err, status, "%s", text);
}

static int post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    return tutti_thread_stage_post(data, post, err);
}

static int poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct tutti_thread_stage *stage = data;
    struct tutti_nap nap = {0};
    int count;

    for (;;) {
        int status;

        count = tutti_thread_stage_look(stage, done, max, err);
        if (count != 0)
            break;
        if (stage->chain_count > 0) { /* who waits may as well work */
            tutti_thread_stage_settle_chains(stage);
            continue;
        }
        status = tutti_hall_move(stage->hall, stage->rank, err);
        if (status > 0) {
            tutti_hall_rise(stage->hall, stage->rank, &nap);
            continue;
        }
        if (status < 0) {
            count = tutti_thread_stage_lost(stage, status, err);
            break;
        }
        status =
            tutti_hall_rest(stage->hall, stage->rank, &nap, tutti_thread_stage_next_end(stage));
        if (status < 0) {
            count = tutti_thread_stage_gave_up(stage, status, err);
            break;
        }
    }
    tutti_hall_rise(stage->hall, stage->rank, &nap);
    return count;
}

const struct tutti_stage_ops tutti_thread_stage_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = post, .poll = poll};

int tutti_thread_stage_open(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    uint32_t lane_count = stage->schedule->lane_count;
    size_t out_count = stage->wires->out_counts[stage->rank - stage->wires->first_rank];

    stage->places = calloc(lane_count, sizeof(stage->places[0]));
    stage->busy = calloc(lane_count, sizeof(stage->busy[0]));
    stage->watched = calloc(out_count + 1, sizeof(stage->watched[0]));
    if (stage->places == NULL || stage->busy == NULL || stage->watched == NULL) {
        tutti_thread_stage_close(stage);
        return tutti_nomem(err);
    }
    return stage->hall->carrier != NULL ? tutti_remote_open(stage, err) : 0;
}

void tutti_thread_stage_begin(struct tutti_thread_stage *stage)
{
    const struct tutti_pushes *pushes = stage->pushes;
    struct tutti_fellow *me = tutti_fellow_of(stage, stage->rank);

    for (uint32_t i = 0; pushes->lane_first != NULL && i < stage->schedule->lane_count; i++) {
        const size_t *first = &pushes->lane_first[(size_t)(stage->rank - stage->wires->first_rank) *
                                                      stage->schedule->lane_count +
                                                  i];

        stage->places[i].push = pushes->pushes + first[0];
        stage->places[i].push_end = pushes->pushes + first[1];
    }
    atomic_store_explicit(&me->iteration,
                          atomic_load_explicit(&me->iteration, memory_order_relaxed) + 1,
                          memory_order_release);
}

int tutti_thread_stage_settle(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    for (uint32_t i = 0; i < stage->schedule->lane_count; i++) {
        if (stage->places[i].chain.length > 0)
            tutti_stage_settle_chain(stage, &stage->places[i]);
        if (stage->places[i].fused != NULL)
            unfuse(stage, &stage->places[i]);
    }
    if (stage->hands != NULL)
        tutti_hands_settle(stage->hands);
    return stage->hall->carrier != NULL ? tutti_remote_settle(stage, err) : 0;
}

void tutti_thread_stage_close(struct tutti_thread_stage *stage)
{
    free(stage->places);
    free(stage->busy);
    free(stage->watched);
    free(stage->marks);
    free(stage->mark_first);
    stage->marks = NULL;
    stage->mark_first = NULL;
    stage->places = NULL;
    stage->busy = NULL;
    stage->watched = NULL;
}
