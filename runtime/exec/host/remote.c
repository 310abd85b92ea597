/* SENDs and RECVs whose other end is in another process: handed to the transport, and looked after
 * until it says that they are done. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/device/kernels.h"
#include "runtime/exec/host/lane_state.h"
#include "runtime/status.h"

/* ---- what a program says about its SENDs and RECVs, found before it is played ---- */

static bool marked(const struct tutti_thread_stage *stage, uint32_t lane, uint64_t step)
{
    size_t bit = stage->mark_first[lane] + (size_t)step;

    return (stage->marks[bit / 64] >> bit % 64 & 1) != 0;
}

static void mark(struct tutti_thread_stage *stage, uint32_t lane, uint64_t step, bool value)
{
    size_t bit = stage->mark_first[lane] + (size_t)step;
    uint64_t mask = UINT64_C(1) << bit % 64;

    if (value)
        stage->marks[bit / 64] |= mask;
    else
        stage->marks[bit / 64] &= ~mask;
}

/* Fused RECVs before their REDUCE: reported early, so that the REDUCE can be done while the message
 * comes. Sets the bits of SENDs in `sends`. */
static void mark_early(struct tutti_thread_stage *stage, uint32_t lane, uint64_t *sends)
{
    struct tutti_cursor cursor;
    struct tutti_step before = {0};
    const struct tutti_step *step;
    uint64_t index = 0;

    tutti_cursor_open(&cursor, stage->schedule, stage->rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (before.kind == TUTTI_RECV && (before.flags & TUTTI_STEP_FUSE) != 0 &&
            !tutti_connections_own(stage->connections, before.peer) &&
            tutti_reads_fused(&before, step))
            mark(stage, lane, index - 1, true);
        if (step->kind == TUTTI_SEND)
            sends[(stage->mark_first[lane] + index) / 64] |=
                UINT64_C(1) << (stage->mark_first[lane] + index) % 64;
        before = *step;
        index++;
    }
}

/* Steps that others depend on by name: a SEND is then strict, and no other is reported early. */
static void mark_waited_for(struct tutti_thread_stage *stage, uint32_t lane, const uint64_t *sends)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    tutti_cursor_open(&cursor, stage->schedule, stage->rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        size_t bit;

        if ((step->flags & TUTTI_STEP_DEP) == 0)
            continue;
        bit = stage->mark_first[step->dep_lane] + step->dep_step;
        if (bit >= stage->mark_first[step->dep_lane + 1])
            continue; /* there is no such step: the engine finds the deadlock */
        mark(stage, step->dep_lane, step->dep_step, (sends[bit / 64] >> bit % 64 & 1) != 0);
    }
}

int tutti_remote_open(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    uint32_t lane_count = stage->schedule->lane_count;
    uint64_t *sends;
    size_t bits = 0;
    size_t words;

    stage->mark_first = calloc((size_t)lane_count + 1, sizeof(stage->mark_first[0]));
    if (stage->mark_first == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < lane_count; i++) {
        bits += (size_t)tutti_schedule_step_count(stage->schedule, stage->rank, i);
        stage->mark_first[i + 1] = bits;
    }
    words = bits / 64 + 1;
    stage->marks = calloc(words, sizeof(stage->marks[0]));
    sends = calloc(words, sizeof(sends[0]));
    if (stage->marks == NULL || sends == NULL) {
        free(sends);
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < lane_count; i++)
        mark_early(stage, i, sends);
    for (uint32_t i = 0; i < lane_count; i++)
        mark_waited_for(stage, i, sends);
    free(sends);
    return 0;
}

/* ---- SEND ---- */

/* A SEND is complete when its RECV is (schedule.h). That can be seen in two ways: a step depends on
 * the SEND, or a later SEND of this connection waits for its slot. Where neither is so, it is
 * enough that the source may be written again. */
int tutti_remote_send(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                      struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;
    struct tutti_connection *connection = lane_state->out;
    uint64_t number =
        (connection->sent_count - 1) % connection->send_total; /* in this iteration, from 0 */
    struct tutti_send_desc send_desc = {
        .src = step->bytes > 0 ? tutti_at(stage, step->src_buf, step->src_offset) : NULL,
        .bytes = step->bytes,
        .step = lane_state->post.index,
        /* Emulated, the receiver says so by other means. */
        .strict =
            !stage->flow->holds && (connection->send_total - number > connection->slot_count ||
                                    marked(stage, lane_state->post.lane, lane_state->post.index)),
    };
    char text[TUTTI_STEP_TEXT_BYTES];
    int status;

    tutti_wait_set_released(stage->wait_set);
    status = stage->wait_set->transport->ops->send(stage->wait_set->transport, connection->endpoint,
                                                   &send_desc, err);
    if (status < 0)
        return tutti_wrap(err, status, "rank %u, lane %u, step %llu (%s)", stage->rank,
                          connection->lane, (unsigned long long)lane_state->post.index,
                          tutti_step_text(step, text));
    return 1;
}

/* ---- RECV ---- */

static int land(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                const struct tutti_recv_desc *recv_desc, const struct tutti_step *step,
                struct tutti_err *err)
{
    int status = stage->wait_set->transport->ops->recv(stage->wait_set->transport,
                                                       lane_state->in->endpoint, recv_desc, err);
    uint64_t index = lane_state->post.index - (lane_state->post.step->kind == TUTTI_REDUCE);
    char text[TUTTI_STEP_TEXT_BYTES];

    if (status < 0)
        return tutti_wrap(err, status, "rank %u, lane %u, step %llu (%s)", stage->rank,
                          lane_state->post.lane, (unsigned long long)index,
                          tutti_step_text(step, text));
    lane_state->flowing = true;
    return 0;
}

/* Whether the receive descriptor is complete; `step` is the RECV. */
static int landed(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                  const struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_connection *connection = lane_state->in;

    if (connection->endpoint->done_count == connection->taken_count)
        return 0;
    if (!stage->flow->came(stage, connection))
        return 0;
    tutti_wait_set_acquired(stage->wait_set);
    assert(connection->endpoint->done_count == connection->taken_count + 1);
    connection->taken_count++;
    lane_state->flowing = false;
    stage->flow->took(stage, connection);
    if (connection->endpoint->came_bytes != step->bytes)
        return tutti_stage_refuse(stage, &lane_state->post, step, connection->endpoint->came_bytes,
                                  connection->endpoint->came_step, err);
    return 1;
}

int tutti_remote_recv(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                      struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;
    struct tutti_recv_desc recv_desc = {.dst = tutti_at(stage, step->dst_buf, step->dst_offset),
                                        .bytes = step->bytes};
    int status = 0;

    /* The times of a record are those of the steps, so these then come one after the other. */
    if (!stage->timed && !stage->flow->holds && !lane_state->flowing &&
        marked(stage, lane_state->post.lane, lane_state->post.index)) {
        lane_state->awaited = true;
        lane_state->fused_step = *step;
        return 1;
    }
    if (!lane_state->flowing)
        status = land(stage, lane_state, &recv_desc, step, err);
    return status < 0 ? status : landed(stage, lane_state, step, err);
}

bool tutti_thread_stage_lags(const struct tutti_thread_stage *stage)
{
    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_lane_state *lane_state = &stage->places[stage->busy[i]];

        if (lane_state->flowing && stage->flow->came(stage, lane_state->in))
            return true;
    }
    return false;
}

/* ---- REDUCE of what is received ---- */

static void take_piece(void *data, uint64_t offset, const void *piece, uint64_t bytes)
{
    const struct tutti_fused_reduce *fused_reduce = data;
    const struct tutti_thread_stage *stage = fused_reduce->stage;
    const struct tutti_step *step = fused_reduce->step;
    const struct tutti_reduction reduction = tutti_reduction_of(stage, step);
    void *dsts[1 + TUTTI_REMOTE_WRITE_TARGETS_MAX];
    struct tutti_spread spread = {
        .dtype = reduction.dtype,
        .op = reduction.op,
        .count = (size_t)bytes / tutti_dtype_bytes(reduction.dtype),
        .acc = tutti_at(stage, step->acc_buf, step->acc_offset + offset),
        .srcs = &piece,
        .dsts = dsts,
        .src_count = 1,
        .dst_count = fused_reduce->dst_count,
        .divide_by = reduction.divisor,
        .stream = step->bytes >= stage->large_bytes,
    };

    assert(offset + bytes <= step->bytes);
    spread.handed =
        spread.dst_count == 1 &&
        tutti_remote_writes_helper_on(stage->remote_writes,
                                      stage->rank - stage->connections->first_rank, step->dst_buf);
    for (uint32_t i = 0; i < fused_reduce->dst_count; i++)
        dsts[i] = (char *)fused_reduce->dsts[i] + offset;
    if (bytes > 0)
        tutti_reduce_spread(&spread);
}

int tutti_remote_reduce(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                        struct tutti_err *err)
{
    const struct tutti_step *step = lane_state->post.step;
    struct tutti_fused_reduce *fused_reduce = &lane_state->fused_reduce;
    struct tutti_recv_desc recv_desc = {.dst = tutti_at(stage, step->src_buf, step->src_offset),
                                        .bytes = step->bytes,
                                        .take = take_piece,
                                        .data = fused_reduce};
    int status = 0;

    if (!lane_state->flowing) {
        fused_reduce->stage = stage;
        fused_reduce->step = step;
        fused_reduce->dsts[0] = tutti_at(stage, step->dst_buf, step->dst_offset);
        fused_reduce->dst_count = 1;
        tutti_stage_add_targets(stage, lane_state, lane_state->post.index, fused_reduce->dsts,
                                &fused_reduce->dst_count);
        status = land(stage, lane_state, &recv_desc, &lane_state->fused_step, err);
    }
    if (status == 0)
        status = landed(stage, lane_state, &lane_state->fused_step, err);
    if (status > 0)
        lane_state->awaited = false;
    return status;
}

/* ---- the end of an iteration ---- */

int tutti_remote_settle(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    struct tutti_wait_set *wait_set = stage->wait_set;
    const struct tutti_transport_ops *ops = wait_set->transport->ops;
    struct tutti_backoff backoff = {0};
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status = 0;

    while (status == 0 && ops->owes != NULL && ops->owes(wait_set->transport, stage->rank)) {
        status = tutti_wait_set_move(wait_set, stage->rank, err);
        if (status < 0)
            return tutti_wrap(err, status, "rank %u, at the end of its program", stage->rank);
        if (status > 0)
            tutti_wait_set_resume(wait_set, stage->rank, &backoff);
        status = status > 0 ? 0 : tutti_wait_set_wait(wait_set, stage->rank, &backoff, 0);
    }
    tutti_wait_set_resume(wait_set, stage->rank, &backoff);
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: rank %u cannot say what it has received",
                          tutti_print_time(wait_set->deadline_ps, time), stage->rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u, at the end of its program",
                          stage->rank);
    return 0;
}
