/* CALLs of a step that is played by streams, as NCCL's own collectives: one group a CALL, of all
 * ranks here, on the streams of their GPUs. How far these have come events say, so that no rank is
 * waited for longer than the deadline once those here have come. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/nccl/streams.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

enum { TEXT_BYTES = 96 };

/* ---- open and close -------------------------------------------------------------------------- */

static uint32_t own_count(const struct tutti_nccl_streams *s)
{
    return s->run.load.own_count;
}

static struct tutti_nccl_rank *rank_of(const struct tutti_nccl_streams *s, uint32_t own)
{
    return &s->run.player->ranks[own];
}

static void free_events(const struct tutti_nccl_streams *s, void **events)
{
    for (uint32_t i = 0; events != NULL && i < own_count(s); i++) {
        struct tutti_gpu *gpu = &rank_of(s, i)->gpu;

        if (events[i] != NULL && !gpu->lost && tutti_gpu_enter(gpu, NULL) == 0)
            (void)gpu->driver.event_destroy(events[i]);
    }
    free(events);
}

static void close_call(void *context, void *data)
{
    struct tutti_nccl_streams *s = context;
    struct tutti_nccl_call *call = data;

    free_events(s, call->begun);
    free_events(s, call->ended);
    free(call->in);
    free(call->out);
    free(call);
}

static int take_events(const struct tutti_nccl_streams *s, struct tutti_nccl_call *call,
                       struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < own_count(s) && status == 0; i++) {
        struct tutti_gpu *gpu = &rank_of(s, i)->gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = CALL(gpu, event_create, &call->begun[i], TUTTI_CU_EVENT_NO_TIMING);
        if (status == 0)
            status = CALL(gpu, event_create, &call->ended[i], TUTTI_CU_EVENT_NO_TIMING);
    }
    return status;
}

/* Of a contract, without addresses yet. */
static int new_call(struct tutti_nccl_streams *s, const struct tutti_nccl_call *like,
                    struct tutti_nccl_call **ret, struct tutti_err *err)
{
    const size_t count = (size_t)own_count(s) + 1;
    struct tutti_nccl_call *call = calloc(1, sizeof(*call));
    int status;

    if (call == NULL)
        return tutti_nomem(err);
    *call = *like;
    call->in = calloc(count, sizeof(call->in[0]));
    call->out = calloc(count, sizeof(call->out[0]));
    call->begun = calloc(count, sizeof(call->begun[0]));
    call->ended = calloc(count, sizeof(call->ended[0]));
    status = call->in == NULL || call->out == NULL || call->begun == NULL || call->ended == NULL
                 ? tutti_nomem(err)
                 : take_events(s, call, err);
    if (status < 0)
        close_call(s, call);
    else
        *ret = call;
    return status;
}

static int open_call(void *context, const struct tutti_schedule *schedule,
                     const struct tutti_step *step, uint64_t *const addresses[TUTTI_BUF_COUNT],
                     void **ret, struct tutti_err *err)
{
    struct tutti_nccl_streams *s = context;
    const struct tutti_schedule *callee = schedule->callees[step->peer];
    const struct tutti_nccl_call like = {.contract = callee->contract,
                                         .axis = tutti_schedule_axis(schedule, step->axis),
                                         .axis_number = step->axis};
    struct tutti_nccl_call *call = NULL;
    int status;

    if (callee->contract.collective == TUTTI_CUSTOM)
        return tutti_fail(err, TUTTI_ELACK,
                          "the step calls '%s', which has no contract for NCCL to keep (allreduce, "
                          "reducescatter, allgather, broadcast, ...)",
                          callee->name);
    status = new_call(s, &like, &call, err);
    for (uint32_t i = 0; i < own_count(s) && status == 0; i++) {
        const uint32_t rank = rank_of(s, i)->rank;

        call->in[i] = addresses[step->src_buf][rank] + step->src_offset;
        call->out[i] = addresses[step->dst_buf][rank] + step->dst_offset;
    }
    if (status == 0)
        *ret = call;
    return status;
}

int tutti_nccl_meeting_open(struct tutti_nccl_streams *s, struct tutti_err *err)
{
    const struct tutti_nccl_call like = {.contract = {.collective = TUTTI_BARRIER},
                                         .axis = tutti_schedule_axis(s->run.load.schedule, 0)};
    int status = new_call(s, &like, &s->meeting, err);

    for (uint32_t i = 0; i < own_count(s) && status == 0; i++) {
        struct tutti_gpu *gpu = &rank_of(s, i)->gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = CALL(gpu, alloc, &s->meeting->out[i], 1);
    }
    return status;
}

void tutti_nccl_meeting_close(struct tutti_nccl_streams *s)
{
    for (uint32_t i = 0; s->meeting != NULL && i < own_count(s); i++) {
        struct tutti_gpu *gpu = &rank_of(s, i)->gpu;

        if (s->meeting->out[i] != 0 && !gpu->lost && tutti_gpu_enter(gpu, NULL) == 0)
            (void)gpu->driver.free(s->meeting->out[i]);
    }
    if (s->meeting != NULL)
        close_call(s, s->meeting);
    s->meeting = NULL;
}

/* ---- play ------------------------------------------------------------------------------------ */

static int mark(const struct tutti_nccl_streams *s, void **events, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < own_count(s) && status == 0; i++) {
        struct tutti_gpu *gpu = &rank_of(s, i)->gpu;

        status = tutti_gpu_enter(gpu, err);
        if (status == 0)
            status = CALL(gpu, event_record, events[i], gpu->stream);
    }
    return status;
}

static int put_rank(const struct tutti_nccl_streams *s, const struct tutti_nccl_call *call,
                    uint32_t own, struct tutti_err *err)
{
    const struct tutti_nccl_rank *rank = rank_of(s, own);
    struct tutti_nccl_member member = tutti_nccl_member_of(s->run.player, rank);
    uint32_t group;

    if (call->axis_number > 0) {
        if (!tutti_axis_find(&call->axis, rank->rank, &group, &member.rank))
            return 0;
        member.comm = rank->groups[call->axis_number - 1];
        member.rank_count = call->axis.size;
    }
    return tutti_nccl_native(&s->run.player->library, &member, &call->contract, call->in[own],
                             call->out[own], err);
}

static int put_all(struct tutti_nccl_streams *s, const struct tutti_nccl_call *call,
                   struct tutti_err *err)
{
    int status = tutti_nccl_group_begin(&s->run.player->library, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < own_count(s) && status == 0; i++)
        status = put_rank(s, call, i, err);
    status = tutti_nccl_group_end(&s->run.player->library, status, err);
    return status < 0
               ? status
               : tutti_nccl_settle(
                     &s->run, call == s->meeting ? TUTTI_NCCL_MEETING : TUTTI_NCCL_CALLING, err);
}

/* "NCCL's own allreduce of 7850 float among 4 ranks" */
static const char *describe(const struct tutti_nccl_call *call, char text[TEXT_BYTES])
{
    const struct tutti_contract *c = &call->contract;

    (void)snprintf(text, TEXT_BYTES, "NCCL's own %s of %" PRIu64 " %s among %u ranks",
                   tutti_collective_name(c->collective), c->count, tutti_dtype_name(c->dtype),
                   call->axis.size);
    return text;
}

static int start(void *context, void *data, struct tutti_err *err)
{
    struct tutti_nccl_streams *s = context;
    struct tutti_nccl_call *call = data;
    char text[TEXT_BYTES];
    int status = mark(s, call->begun, err);

    if (status == 0)
        status = put_all(s, call, err);
    if (status == 0)
        status = mark(s, call->ended, err);
    if (status < 0)
        return call == s->meeting ? status : tutti_wrap(err, status, "%s", describe(call, text));
    call->since_ns = 0;
    call->next = NULL;
    if (s->last != NULL)
        s->last->next = call;
    else
        s->first = call;
    s->last = call;
    return 0;
}

/* 1: all ranks here are past it; 0: not yet. */
static int is_past(const struct tutti_nccl_streams *s, void *const *events, uint32_t *ret_own,
                   struct tutti_err *err)
{
    for (uint32_t i = 0; i < own_count(s); i++) {
        struct tutti_gpu *gpu = &rank_of(s, i)->gpu;
        const int result = gpu->driver.event_query(events[i]);

        *ret_own = i;
        if (result == TUTTI_CU_NOT_READY)
            return 0;
        if (result != TUTTI_CU_SUCCESS)
            return tutti_cuda_check(&gpu->driver, result, "event_query", err);
    }
    return 1;
}

static int is_late(const struct tutti_nccl_streams *s, const struct tutti_nccl_call *call,
                   uint32_t own, struct tutti_err *err)
{
    const double deadline_s = (double)s->run.load.deadline_ps / 1e12;
    const uint32_t rank = rank_of(s, own)->rank;
    char text[TEXT_BYTES];

    if (call == s->meeting)
        return tutti_fail(err, TUTTI_ETIME,
                          "rank %u: the deadline of %.3g s passed while ranks met before a step",
                          rank, deadline_s);
    return tutti_fail(err, TUTTI_ETIME, "rank %u, %s: the deadline of %.3g s passed", rank,
                      describe(call, text), deadline_s);
}

static int look(void *context, struct tutti_err *err)
{
    struct tutti_nccl_streams *s = context;
    bool settled;
    uint32_t own = 0;
    uint32_t unused;
    int status = tutti_nccl_look(&s->run, &settled, err);

    while (status == 0 && s->first != NULL) {
        struct tutti_nccl_call *call = s->first;
        const int past = is_past(s, call->ended, &own, err);

        if (past < 0)
            return past;
        if (past == 0 && call->since_ns == 0) {
            status = is_past(s, call->begun, &unused, err);
            call->since_ns = status > 0 ? tutti_nccl_now_ns() : 0;
            return status < 0 ? status : 0;
        }
        if (past == 0)
            return tutti_nccl_now_ns() - call->since_ns > s->run.load.deadline_ps / TUTTI_PS_PER_NS
                       ? is_late(s, call, own, err)
                       : 0;
        s->first = call->next;
        s->last = s->first == NULL ? NULL : s->last;
    }
    return status;
}

int tutti_nccl_meet(struct tutti_nccl_streams *s, struct tutti_err *err)
{
    int status = start(s, s->meeting, err);

    while (status == 0 && s->first != NULL) {
        status = look(s, err);
        (void)sched_yield();
    }
    return status;
}

static void leave(void *context)
{
    struct tutti_nccl_streams *s = context;

    s->first = s->last = NULL;
    tutti_nccl_abort(s->run.player);
}

const struct tutti_streams_calls tutti_nccl_calls = {
    .open = open_call, .close = close_call, .start = start, .look = look, .leave = leave};
