/* SENDs and RECVs whose other end is in another process: handed to the carrier, and looked after
 * until it says that they are done. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/kernels.h"
#include "runtime/exec/threads/place.h"
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
            !tutti_wires_own(stage->wires, before.peer) && tutti_reads_fused(&before, step))
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
 * the SEND, or a later SEND of this wire waits for its slot. Where neither is so, it is enough
 * that the source may be written again. */
int tutti_remote_send(struct tutti_thread_stage *stage, struct tutti_place *place,
                      struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_wire *wire = place->out;
    uint64_t number = (wire->sent_count - 1) % wire->send_total; /* in this iteration, from 0 */
    struct tutti_parcel parcel = {
        .src = step->bytes > 0 ? tutti_at(stage, step->src_buf, step->src_offset) : NULL,
        .bytes = step->bytes,
        .step = place->post.index,
        /* Emulated, the receiver says so by other means. */
        .strict = stage->conductor == NULL && (wire->send_total - number > wire->slot_count ||
                                               marked(stage, place->post.lane, place->post.index)),
    };
    char text[TUTTI_STEP_TEXT_BYTES];
    int status;

    tutti_hall_goes_out(stage->hall);
    status = stage->hall->carrier->ops->send(stage->hall->carrier, wire->way, &parcel, err);
    if (status < 0)
        return tutti_wrap(err, status, "rank %u, lane %u, step %llu (%s)", stage->rank, wire->lane,
                          (unsigned long long)place->post.index, tutti_step_text(step, text));
    return 1;
}

/* ---- RECV ---- */

static int land(struct tutti_thread_stage *stage, struct tutti_place *place,
                const struct tutti_landing *landing, const struct tutti_step *step,
                struct tutti_err *err)
{
    int status =
        stage->hall->carrier->ops->recv(stage->hall->carrier, place->in->way, landing, err);
    uint64_t index = place->post.index - (place->post.step->kind == TUTTI_REDUCE);
    char text[TUTTI_STEP_TEXT_BYTES];

    if (status < 0)
        return tutti_wrap(err, status, "rank %u, lane %u, step %llu (%s)", stage->rank,
                          place->post.lane, (unsigned long long)index, tutti_step_text(step, text));
    place->flowing = true;
    return 0;
}

/* Whether the landing is complete; `step` is the RECV. */
static int landed(struct tutti_thread_stage *stage, struct tutti_place *place,
                  const struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_wire *wire = place->in;

    if (wire->way->done_count == wire->taken_count)
        return 0;
    if (stage->conductor != NULL && !tutti_conductor_arrived(stage->conductor, wire, NULL))
        return 0;
    tutti_hall_comes_in(stage->hall);
    assert(wire->way->done_count == wire->taken_count + 1);
    wire->taken_count++;
    place->flowing = false;
    if (stage->conductor != NULL)
        tutti_conductor_release(stage->conductor, wire);
    if (wire->way->came_bytes != step->bytes)
        return tutti_stage_refuse(stage, &place->post, step, wire->way->came_bytes,
                                  wire->way->came_step, err);
    return 1;
}

int tutti_remote_recv(struct tutti_thread_stage *stage, struct tutti_place *place,
                      struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_landing landing = {.dst = tutti_at(stage, step->dst_buf, step->dst_offset),
                                    .bytes = step->bytes};
    int status = 0;

    /* The times of a record are those of the steps, so these then come one after the other. */
    if (!stage->timed && stage->conductor == NULL && !place->flowing &&
        marked(stage, place->post.lane, place->post.index)) {
        place->awaited = true;
        place->fused_step = *step;
        return 1;
    }
    if (!place->flowing)
        status = land(stage, place, &landing, step, err);
    return status < 0 ? status : landed(stage, place, step, err);
}

bool tutti_thread_stage_lags(const struct tutti_thread_stage *stage)
{
    for (uint32_t i = 0; i < stage->busy_count; i++) {
        const struct tutti_place *place = &stage->places[stage->busy[i]];

        if (place->flowing && tutti_conductor_arrived(stage->conductor, place->in, NULL))
            return true;
    }
    return false;
}

/* ---- REDUCE of what is received ---- */

static void take_piece(void *data, uint64_t offset, const void *piece, uint64_t bytes)
{
    const struct tutti_flow *flow = data;
    const struct tutti_thread_stage *stage = flow->stage;
    const struct tutti_step *step = flow->step;
    const struct tutti_contract *contract = &stage->schedule->contract;
    void *dsts[1 + TUTTI_PUSH_TARGETS_MAX];
    struct tutti_spread spread = {
        .dtype = contract->dtype,
        .op = contract->op,
        .count = (size_t)bytes / tutti_dtype_bytes(contract->dtype),
        .acc = tutti_at(stage, step->acc_buf, step->acc_offset + offset),
        .srcs = &piece,
        .dsts = dsts,
        .src_count = 1,
        .dst_count = flow->dst_count,
        .divide_by = tutti_divisor(stage, step),
        .stream = step->bytes >= stage->large_bytes,
    };

    assert(offset + bytes <= step->bytes);
    spread.handed =
        spread.dst_count == 1 &&
        tutti_pushes_hand_on(stage->pushes, stage->rank - stage->wires->first_rank, step->dst_buf);
    for (uint32_t i = 0; i < flow->dst_count; i++)
        dsts[i] = (char *)flow->dsts[i] + offset;
    if (bytes > 0)
        tutti_reduce_spread(&spread);
}

int tutti_remote_reduce(struct tutti_thread_stage *stage, struct tutti_place *place,
                        struct tutti_err *err)
{
    const struct tutti_step *step = place->post.step;
    struct tutti_flow *flow = &place->flow;
    struct tutti_landing landing = {.dst = tutti_at(stage, step->src_buf, step->src_offset),
                                    .bytes = step->bytes,
                                    .take = take_piece,
                                    .data = flow};
    int status = 0;

    if (!place->flowing) {
        flow->stage = stage;
        flow->step = step;
        flow->dsts[0] = tutti_at(stage, step->dst_buf, step->dst_offset);
        flow->dst_count = 1;
        tutti_stage_add_landings(stage, place, place->post.index, flow->dsts, &flow->dst_count);
        status = land(stage, place, &landing, &place->fused_step, err);
    }
    if (status == 0)
        status = landed(stage, place, &place->fused_step, err);
    if (status > 0)
        place->awaited = false;
    return status;
}

/* ---- the end of an iteration ---- */

int tutti_remote_settle(struct tutti_thread_stage *stage, struct tutti_err *err)
{
    struct tutti_hall *hall = stage->hall;
    const struct tutti_carrier_ops *ops = hall->carrier->ops;
    struct tutti_nap nap = {0};
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status = 0;

    while (status == 0 && ops->owes != NULL && ops->owes(hall->carrier, stage->rank)) {
        status = tutti_hall_move(hall, stage->rank, err);
        if (status < 0)
            return tutti_wrap(err, status, "rank %u, at the end of its program", stage->rank);
        if (status > 0)
            tutti_hall_rise(hall, stage->rank, &nap);
        status = status > 0 ? 0 : tutti_hall_rest(hall, stage->rank, &nap, 0);
    }
    tutti_hall_rise(hall, stage->rank, &nap);
    if (status == -TUTTI_ETIME)
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: rank %u cannot say what it has received",
                          tutti_print_time(hall->deadline_ps, time), stage->rank);
    if (status < 0)
        return tutti_fail(err, TUTTI_EIO, "broken off: rank %u, at the end of its program",
                          stage->rank);
    return 0;
}
