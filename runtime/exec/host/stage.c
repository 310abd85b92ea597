/* One rank of the threads backend: moves and reduces data straight from the sender's memory. */
#include "runtime/exec/host/stage.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/host/lane_state.h"
#include "runtime/exec/host/work_threads.h"
#include "runtime/status.h"

enum {
    /* After this much work the stage reports what it has, so that the engine can post SENDs of
     * other lanes before the stage goes on: about a microsecond's worth. */
    WORK_BYTES_BEFORE_REPORT = 16 << 10,
};

/* ---- messages ---- */

static void watch(struct tutti_thread_stage *stage, struct tutti_connection *connection)
{
    if (connection->watched)
        return;
    connection->watched = true;
    stage->watched[stage->watched_count++] = connection;
}

/* Whether the SEND about to get its slot has been written to its destination already. */
static bool is_pushed(struct tutti_lane_state *lane_state)
{
    bool pushed;

    if (lane_state->targets == lane_state->targets_end ||
        lane_state->targets->step != lane_state->post.index)
        return false;
    pushed = (lane_state->pushed & 1) != 0;
    lane_state->pushed >>= 1;
    lane_state->targets++;
    return pushed;
}

/* 1: has its slot, 0: there is none, or a negative status. */
static int try_send(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                    struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;
    struct tutti_connection *connection = lane_state->out;
    struct tutti_slot *slot;

    /* Slots come free only when their SEND is reported: `ended_count` is the engine's view. */
    if (connection->sent_count - connection->ended_count == connection->slot_count)
        return 0;
    slot = &connection->slots[connection->sent_slot];
    connection->sent_slot =
        connection->sent_slot + 1 == connection->slot_count ? 0 : connection->sent_slot + 1;
    connection->sent_count++;
    slot->bytes = step->bytes;
    slot->step = lane_state->post.index;
    slot->start_ps = tutti_time_of(stage);
    watch(stage, connection);
    if (connection->endpoint != NULL) {
        stage->flow->sent_away(stage, connection, slot);
        return tutti_remote_send(stage, lane_state, err);
    }
    slot->data = is_pushed(lane_state) ? NULL : tutti_at(stage, step->src_buf, step->src_offset);
    atomic_store(&slot->serial, connection->sent_count);
    stage->flow->sent(stage, connection, slot);
    return 1;
}

/* The message that the lane's RECV waits for, or NULL. */
static struct tutti_slot *arrived(const struct tutti_thread_stage *stage,
                                  const struct tutti_connection *connection)
{
    struct tutti_slot *slot = &connection->slots[connection->taken_slot];

    return stage->flow->arrived(stage, connection, slot) ? slot : NULL;
}

/* The sender may write the bytes of the oldest message again. */
void tutti_stage_release(struct tutti_thread_stage *stage, struct tutti_connection *connection)
{
    connection->taken_slot =
        connection->taken_slot + 1 == connection->slot_count ? 0 : connection->taken_slot + 1;
    connection->taken_count++;
    atomic_store(&connection->released_count, connection->taken_count);
    stage->flow->released(stage, connection);
}

/* A fused message that its REDUCE has not consumed is stored after all, as without FUSE. */
static void unfuse(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state)
{
    const struct tutti_step *step = &lane_state->fused_step;

    tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset),
                     lane_state->fused->data, step->bytes);
    lane_state->fused = NULL;
    tutti_stage_release(stage, lane_state->in);
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

static int try_recv(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                    struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;
    struct tutti_slot *slot = arrived(stage, lane_state->in);

    if (slot == NULL)
        return 0;
    if (slot->bytes != step->bytes)
        return tutti_stage_refuse(stage, &lane_state->post, step, slot->bytes, slot->step, err);
    if ((step->flags & TUTTI_STEP_FUSE) != 0) {
        lane_state->fused = slot;
        lane_state->fused_step = *step;
        return 1;
    }
    if (slot->data != NULL && !lane_state->ahead) /* else the sender has put it there */
        tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset), slot->data,
                         step->bytes);
    lane_state->ahead = false;
    tutti_stage_release(stage, lane_state->in);
    return 1;
}

/* ---- steps ---- */

/* 1: the step has finished (a SEND: started), 0: not yet, or a negative status. */
static int try_step(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                    struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;
    struct tutti_reduction reduction;

    switch (step->kind) {
    case TUTTI_SEND:
        return try_send(stage, lane_state, err);
    case TUTTI_RECV:
        return lane_state->in->endpoint != NULL ? tutti_remote_recv(stage, lane_state, err)
                                                : try_recv(stage, lane_state, err);
    case TUTTI_REDUCE:
        if (lane_state->awaited)
            return tutti_remote_reduce(stage, lane_state, err);
        if (!stage->flow->is_over(stage, lane_state))
            return 0;
        tutti_stage_reduce(stage, lane_state);
        return 1;
    case TUTTI_COPY:
        if (!stage->flow->is_over(stage, lane_state))
            return 0;
        tutti_stage_copy(stage, tutti_at(stage, step->dst_buf, step->dst_offset),
                         tutti_at(stage, step->src_buf, step->src_offset), step->bytes);
        reduction = tutti_reduction_of(stage, step);
        if (reduction.divisor == 0)
            return 1;
        if (stage->helpers != NULL)
            tutti_helpers_settle(stage->helpers);
        tutti_finish(reduction.dtype, reduction.op,
                     tutti_at(stage, step->dst_buf, step->dst_offset),
                     (size_t)step->bytes / tutti_dtype_bytes(reduction.dtype), reduction.divisor);
        return 1;
    default:
        assert(step->kind == TUTTI_COMPUTE);
        return tutti_stage_compute(stage, lane_state, err);
    }
}

void tutti_thread_stage_settle_all(struct tutti_thread_stage *stage)
{
    for (uint32_t i = 0; stage->chain_count > 0 && i < stage->schedule->lane_count; i++) {
        if (stage->places[i].deferred.length > 0)
            tutti_stage_settle_deferred(stage, &stage->places[i]);
    }
}

/* ---- the stage ---- */

int tutti_thread_stage_post(struct tutti_thread_stage *stage, const struct tutti_post *post,
                            struct tutti_err *err)
{
    struct tutti_lane_state *lane_state = &stage->places[post->lane];
    uint32_t peer = post->step->peer;
    int status;

    if ((post->step->flags & TUTTI_STEP_DEP) != 0)
        tutti_thread_stage_settle_all(stage);
    else if (lane_state->deferred.length > 0 &&
             ((post->step->kind == TUTTI_RECV &&
               !tutti_connections_own(stage->connections, peer)) ||
              !tutti_stage_goes_with(&lane_state->deferred, lane_state, post->step)))
        tutti_stage_settle_deferred(stage, lane_state);
    if (lane_state->fused != NULL && !tutti_reads_fused(&lane_state->fused_step, post->step))
        unfuse(stage, lane_state);
    lane_state->post = *post;
    lane_state->started = false;
    lane_state->handed_over = false;
    lane_state->end_ps = 0;
    if (post->step->kind == TUTTI_SEND) {
        if (lane_state->out == NULL || lane_state->out->to != peer)
            lane_state->out =
                tutti_thread_connections_find(stage->connections, stage->rank, peer, post->lane);
        assert(lane_state->out != NULL);
        status = try_send(stage, lane_state, err);
        if (status < 0)
            return status;
        lane_state->started = status > 0;
    } else {
        if (post->step->kind == TUTTI_RECV &&
            (lane_state->in == NULL || lane_state->in->from != peer))
            lane_state->in =
                tutti_thread_connections_find(stage->connections, peer, stage->rank, post->lane);
        lane_state->start_ps = tutti_time_of(stage);
    }
    stage->busy[stage->busy_count++] = post->lane;
    return 0;
}

static void report(const struct tutti_thread_stage *stage,
                   const struct tutti_lane_state *lane_state, struct tutti_done *done)
{
    *done = (struct tutti_done){
        .rank = stage->rank,
        .lane = lane_state->post.lane,
        .index = lane_state->post.index,
        .what =
            lane_state->post.step->kind == TUTTI_SEND ? TUTTI_DONE_STARTED : TUTTI_DONE_FINISHED,
        .start_ps = lane_state->start_ps,
        .end_ps = lane_state->end_ps > 0 ? lane_state->end_ps : tutti_time_of(stage),
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
        struct tutti_lane_state *lane_state = &stage->places[stage->busy[i]];
        bool is_send = lane_state->post.step->kind == TUTTI_SEND;
        int status = is_send && lane_state->started ? 1 : try_step(stage, lane_state, err);

        if (status < 0)
            return status;
        if (status == 0) {
            stage->busy[kept++] = stage->busy[i];
            continue;
        }
        report(stage, lane_state, &done[count++]);
        if (!is_send && lane_state->post.step->kind != TUTTI_COMPUTE)
            work_bytes += lane_state->post.step->bytes;
    }
    for (; i < stage->busy_count; i++)
        stage->busy[kept++] = stage->busy[i];
    stage->busy_count = kept;
    return (int)count;
}

/* One look at the messages that receivers have released. */
static int look_at_connections(struct tutti_thread_stage *stage, struct tutti_done *done,
                               uint32_t max)
{
    uint32_t count = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < stage->watched_count; i++) {
        struct tutti_connection *connection = stage->watched[i];
        uint64_t released = connection->endpoint != NULL
                                ? stage->flow->taken_away(stage, connection)
                                : atomic_load(&connection->released_count);

        while (connection->ended_count < released && count < max) {
            const struct tutti_slot *slot = &connection->slots[connection->ended_slot];

            done[count++] = (struct tutti_done){
                .rank = stage->rank,
                .lane = connection->lane,
                .index = slot->step,
                .what = TUTTI_DONE_FINISHED,
                .start_ps = slot->start_ps,
                .end_ps = tutti_time_of(stage),
            };
            connection->ended_count++;
            connection->ended_slot = connection->ended_slot + 1 == connection->slot_count
                                         ? 0
                                         : connection->ended_slot + 1;
        }
        connection->watched = connection->ended_count < connection->sent_count;
        if (connection->watched)
            stage->watched[kept++] = connection;
    }
    stage->watched_count = kept;
    return (int)count;
}

int tutti_thread_stage_look(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max,
                            struct tutti_err *err)
{
    int count;

    tutti_wait_set_acquired(stage->wait_set);
    count = look_at_lanes(stage, done, max, err);
    return count != 0 ? count : look_at_connections(stage, done, max);
}

tutti_ps tutti_thread_stage_next_end(const struct tutti_thread_stage *stage)
{
    tutti_ps first_ps = 0;

    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_lane_state *lane_state = &stage->places[stage->busy[i]];
        unsigned kind = lane_state->post.step->kind;

        if (kind == TUTTI_SEND || kind == TUTTI_RECV || !lane_state->started)
            continue;
        if (first_ps == 0 || lane_state->until_ps < first_ps)
            first_ps = lane_state->until_ps;
    }
    return first_ps;
}

/* What this rank waits for. A RECV that was reported early is named, not the REDUCE after it. */
static void waiting_for(const struct tutti_thread_stage *stage, char *buf, size_t buf_bytes)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    tutti_engine_waiting_for(stage->engine, buf, buf_bytes);
    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_lane_state *lane_state = &stage->places[stage->busy[i]];

        if (!lane_state->awaited || lane_state->post.step->kind != TUTTI_REDUCE)
            continue;
        snprintf(buf, buf_bytes, "rank %u, lane %u, step %llu (%s)", stage->rank,
                 lane_state->post.lane, (unsigned long long)lane_state->post.index - 1,
                 tutti_step_text(&lane_state->fused_step, text));
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
                          tutti_print_time(stage->wait_set->deadline_ps, time), text);
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
    struct tutti_backoff backoff = {0};
    int count;

    for (;;) {
        int status;

        count = tutti_thread_stage_look(stage, done, max, err);
        if (count != 0)
            break;
        if (stage->chain_count > 0) { /* who waits may as well work */
            tutti_thread_stage_settle_all(stage);
            continue;
        }
        status = tutti_wait_set_move(stage->wait_set, stage->rank, err);
        if (status > 0) {
            tutti_wait_set_resume(stage->wait_set, stage->rank, &backoff);
            continue;
        }
        if (status < 0) {
            count = tutti_thread_stage_lost(stage, status, err);
            break;
        }
        status = tutti_wait_set_wait(stage->wait_set, stage->rank, &backoff,
                                     tutti_stage_next_end(stage, &backoff));
        if (status < 0) {
            count = tutti_thread_stage_gave_up(stage, status, err);
            break;
        }
    }
    tutti_wait_set_resume(stage->wait_set, stage->rank, &backoff);
    return count;
}

const struct tutti_stage_ops tutti_thread_stage_ops = {
    .size = sizeof(struct tutti_stage_ops), .post = post, .poll = poll};

int tutti_thread_stage_open(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    uint32_t lane_count = stage->schedule->lane_count;
    size_t out_count = stage->connections->out_counts[stage->rank - stage->connections->first_rank];

    stage->places = tutti_lines_alloc(1, lane_count * sizeof(stage->places[0]) +
                                             (out_count + 1) * sizeof(stage->watched[0]) +
                                             lane_count * sizeof(stage->busy[0]));
    if (stage->places == NULL)
        return tutti_nomem(err);
    stage->watched = (struct tutti_connection **)(stage->places + lane_count);
    stage->busy = (uint32_t *)(stage->watched + out_count + 1);
    return stage->wait_set->transport != NULL ? tutti_remote_open(stage, err) : 0;
}

void tutti_thread_stage_begin(struct tutti_thread_stage *stage)
{
    const struct tutti_remote_writes *remote_writes = stage->remote_writes;
    struct tutti_rank_peer *me = tutti_rank_peer_of(stage, stage->rank);

    for (uint32_t i = 0; remote_writes->lane_first != NULL && i < stage->schedule->lane_count;
         i++) {
        const size_t *first =
            &remote_writes->lane_first[(size_t)(stage->rank - stage->connections->first_rank) *
                                           stage->schedule->lane_count +
                                       i];

        stage->places[i].remote_write = remote_writes->remote_writes + first[0];
        stage->places[i].remote_write_end = remote_writes->remote_writes + first[1];
    }
    atomic_store_explicit(&me->iteration,
                          atomic_load_explicit(&me->iteration, memory_order_relaxed) + 1,
                          memory_order_release);
}

int tutti_thread_stage_settle(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    assert(stage->rank_work == NULL || stage->rank_work->job_count == 0);
    for (uint32_t i = 0; i < stage->schedule->lane_count; i++) {
        if (stage->places[i].deferred.length > 0)
            tutti_stage_settle_deferred(stage, &stage->places[i]);
        if (stage->places[i].fused != NULL)
            unfuse(stage, &stage->places[i]);
    }
    if (stage->helpers != NULL)
        tutti_helpers_settle(stage->helpers);
    return stage->wait_set->transport != NULL ? tutti_remote_settle(stage, err) : 0;
}

void tutti_thread_stage_close(struct tutti_thread_stage *stage)
{
    free(stage->places);
    free(stage->marks);
    free(stage->mark_first);
    stage->marks = NULL;
    stage->mark_first = NULL;
    stage->places = NULL;
    stage->busy = NULL;
    stage->watched = NULL;
}
