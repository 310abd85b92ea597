/* Weighs the steps of a schedule by what their passes take on this machine; see calibrate.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tools/calibrate.h"

/* Steps that are kept at once, at 72 bytes; larger schedules are not looked at. */
static const uint64_t steps_max = UINT64_C(1) << 22;

/* One lane of one rank. */
struct lane {
    struct tutti_step *steps;
    uint8_t *pass; /* [step]: SEND, RECV: enum tutti_host_pass */
    uint64_t step_count;
    uint64_t *sends; /* indices of its SENDs, by peer, then in program order */
    uint64_t send_count;
    uint64_t *recvs;
    uint64_t recv_count;
};

struct weighing {
    const struct tutti_schedule *schedule;
    const struct tutti_host_point *point;
    struct lane *lanes; /* [rank * lane_count + lane] */
};

static struct lane *lane_of(const struct weighing *w, uint32_t rank, uint32_t lane)
{
    return &w->lanes[(size_t)rank * w->schedule->lane_count + lane];
}

static void close_weighing(struct weighing *w)
{
    size_t count = (size_t)w->schedule->rank_count * w->schedule->lane_count;

    for (size_t i = 0; w->lanes != NULL && i < count; i++) {
        free(w->lanes[i].steps);
        free(w->lanes[i].pass);
        free(w->lanes[i].sends);
        free(w->lanes[i].recvs);
    }
    free(w->lanes);
}

/* ---- keeping the steps ----------------------------------------------------------------------- */

static int compare_by_peer(const void *left, const void *right, void *context)
{
    const struct tutti_step *steps = context;
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    if (steps[a].peer != steps[b].peer)
        return steps[a].peer < steps[b].peer ? -1 : 1;
    return (a > b) - (a < b);
}

static int keep_lane(struct weighing *w, uint32_t rank, uint32_t number)
{
    struct lane *lane = lane_of(w, rank, number);
    uint64_t count = tutti_schedule_step_count(w->schedule, rank, number);
    struct tutti_cursor cursor;

    lane->steps = calloc(count + 1, sizeof(*lane->steps));
    lane->pass = calloc(count + 1, sizeof(*lane->pass));
    lane->sends = calloc(count + 1, sizeof(*lane->sends));
    lane->recvs = calloc(count + 1, sizeof(*lane->recvs));
    if (lane->steps == NULL || lane->pass == NULL || lane->sends == NULL || lane->recvs == NULL)
        return -TUTTI_ENOMEM;
    tutti_cursor_open(&cursor, w->schedule, rank, number);
    for (; lane->step_count < count; lane->step_count++) {
        const struct tutti_step *step = tutti_cursor_next(&cursor);

        assert(step != NULL);
        lane->steps[lane->step_count] = *step;
        if (step->kind == TUTTI_SEND)
            lane->sends[lane->send_count++] = lane->step_count;
        if (step->kind == TUTTI_RECV)
            lane->recvs[lane->recv_count++] = lane->step_count;
    }
    qsort_r(lane->sends, lane->send_count, sizeof(*lane->sends), compare_by_peer, lane->steps);
    qsort_r(lane->recvs, lane->recv_count, sizeof(*lane->recvs), compare_by_peer, lane->steps);
    return 0;
}

/* ---- which pass a message is ----------------------------------------------------------------- */

/* The REDUCE whose result SEND number `index` passes on at once: nothing but SENDs in between. */
static bool sends_result(const struct lane *lane, uint64_t index)
{
    const struct tutti_step *send = &lane->steps[index];

    while (index > 0 && lane->steps[index - 1].kind == TUTTI_SEND)
        index--;
    if (index == 0 || lane->steps[index - 1].kind != TUTTI_REDUCE)
        return false;
    return lane->steps[index - 1].dst_buf == send->src_buf &&
           lane->steps[index - 1].dst_offset <= send->src_offset &&
           send->src_offset + send->bytes <=
               lane->steps[index - 1].dst_offset + lane->steps[index - 1].bytes;
}

static enum tutti_host_pass pass_of(const struct lane *from, uint64_t send,
                                    const struct tutti_step *recv)
{
    bool input = from->steps[send].src_buf == TUTTI_BUF_IN;

    if ((recv->flags & TUTTI_STEP_FUSE) != 0)
        return input ? TUTTI_PASS_REDUCE_INPUT : TUTTI_PASS_REDUCE_FRESH;
    if (recv->dst_buf == TUTTI_BUF_OUT && sends_result(from, send))
        return TUTTI_PASS_PUSH;
    return input ? TUTTI_PASS_TAKE_INPUT : TUTTI_PASS_TAKE;
}

/* The first of the SENDs to `peer`. */
static uint64_t first_send(const struct lane *lane, uint32_t peer)
{
    uint64_t low = 0;
    uint64_t high = lane->send_count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (lane->steps[lane->sends[middle]].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The k-th RECV from a peer meets the k-th SEND of that peer to here. */
static void match_lane(struct weighing *w, uint32_t rank, uint32_t number)
{
    struct lane *to = lane_of(w, rank, number);
    uint64_t next = 0;

    for (uint64_t i = 0; i < to->recv_count; i++) {
        struct tutti_step *recv = &to->steps[to->recvs[i]];
        struct lane *from = lane_of(w, recv->peer, number);
        enum tutti_host_pass pass;

        if (i == 0 || to->steps[to->recvs[i - 1]].peer != recv->peer)
            next = first_send(from, rank);
        assert(next < from->send_count);
        pass = pass_of(from, from->sends[next], recv);
        from->pass[from->sends[next]] = (uint8_t)pass;
        to->pass[to->recvs[i]] = (uint8_t)pass;
        next++;
    }
}

/* ---- weighing -------------------------------------------------------------------------------- */

static uint64_t scale(uint64_t bytes, uint64_t unit_rate, uint64_t rate)
{
    return (uint64_t)((double)bytes * (double)unit_rate / (double)rate);
}

/* Offsets no longer mean anything, and the buffers are as large as it takes. */
static struct tutti_step weigh_step(const struct weighing *w, const struct lane *lane,
                                    uint64_t index)
{
    const uint64_t *rates = w->point->bytes_per_s;
    const struct tutti_step *before = index > 0 ? &lane->steps[index - 1] : NULL;
    struct tutti_step step = lane->steps[index];

    if (step.kind == TUTTI_COMPUTE)
        return step;
    if (step.kind == TUTTI_SEND || step.kind == TUTTI_RECV)
        step.bytes = scale(step.bytes, rates[TUTTI_PASS_TAKE], rates[lane->pass[index]]);
    if (step.kind == TUTTI_REDUCE && before != NULL && before->kind == TUTTI_RECV &&
        (before->flags & TUTTI_STEP_FUSE) != 0)
        step.bytes = 0; /* done while receiving */
    else if (step.kind == TUTTI_REDUCE)
        step.bytes = scale(step.bytes, rates[TUTTI_PASS_COPY], rates[TUTTI_PASS_REDUCE]);
    step.flags &= (uint8_t)~TUTTI_STEP_FUSE;
    step.dst_offset = 0;
    step.src_offset = 0;
    step.acc_offset = 0;
    return step;
}

static int build(const struct weighing *w, struct tutti_schedule **ret, struct tutti_err *err)
{
    const uint64_t room = UINT64_C(1) << 60;
    struct tutti_schedule_desc desc = {
        .name = w->schedule->name,
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_UINT8},
        .rank_count = w->schedule->rank_count,
        .lane_count = w->schedule->lane_count,
        .slot_count = w->schedule->slot_count,
        .in_bytes = room,
        .out_bytes = room,
        .scratch_bytes = room,
    };
    struct tutti_builder *builder = NULL;
    int status = tutti_builder_new(&desc, &builder, err);

    for (uint32_t r = 0; status == 0 && r < desc.rank_count; r++) {
        for (uint32_t l = 0; status == 0 && l < desc.lane_count; l++) {
            const struct lane *lane = lane_of(w, r, l);

            for (uint64_t i = 0; status == 0 && i < lane->step_count; i++) {
                struct tutti_step step = weigh_step(w, lane, i);

                status = tutti_builder_add(builder, r, l, &step, err);
            }
        }
    }
    if (status == 0)
        return tutti_builder_finish(builder, ret, err);
    tutti_builder_free(builder);
    return status;
}

static uint64_t count_steps(const struct tutti_schedule *schedule)
{
    uint64_t count = 0;

    for (uint32_t r = 0; r < schedule->rank_count && count <= steps_max; r++)
        for (uint32_t l = 0; l < schedule->lane_count && count <= steps_max; l++)
            count += tutti_schedule_step_count(schedule, r, l);
    return count;
}

int tutti_host_weigh(const struct tutti_host_point *point, const struct tutti_schedule *schedule,
                     struct tutti_schedule **ret, struct tutti_err *err)
{
    struct weighing w = {.schedule = schedule, .point = point};
    int status = 0;

    assert(schedule->callee_count == 0); /* collectives call nothing */
    *ret = NULL;
    if (count_steps(schedule) > steps_max)
        return 0;
    w.lanes = calloc((size_t)schedule->rank_count * schedule->lane_count, sizeof(*w.lanes));
    if (w.lanes == NULL)
        return tutti_nomem(err);
    for (uint32_t r = 0; status == 0 && r < schedule->rank_count; r++)
        for (uint32_t l = 0; status == 0 && l < schedule->lane_count; l++)
            status = keep_lane(&w, r, l);
    if (status < 0)
        (void)tutti_nomem(err);
    for (uint32_t r = 0; status == 0 && r < schedule->rank_count; r++)
        for (uint32_t l = 0; l < schedule->lane_count; l++)
            match_lane(&w, r, l);
    if (status == 0)
        status = build(&w, ret, err);
    close_weighing(&w);
    return status;
}
