/* CALLs of a step that is played by streams: each is a plan of its own, of all groups of its axis
 * at once, and one launch a GPU. */
#include <stdlib.h>

#include "runtime/exec/cuda/gpus.h"
#include "runtime/exec/cuda/streams_calls.h"
#include "runtime/status.h"

/* The step's schedule with that CALL alone. */
struct alone {
    struct tutti_schedule base; /* first: a schedule is this */
    struct tutti_step call;
};

struct call {
    struct alone alone;
    struct tutti_schedule *flat;
    struct tutti_cuda_plan plan;
    struct tutti_gpus_load load;
};

static uint64_t round_count(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    const struct tutti_step *call = &((const struct alone *)schedule)->call;
    const struct tutti_axis axis = tutti_schedule_axis(schedule, call->axis);
    uint32_t group;
    uint32_t member;

    return lane == 0 && tutti_axis_find(&axis, rank, &group, &member) ? 1 : 0;
}

static void emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                 uint64_t round, struct tutti_round *out)
{
    (void)rank;
    (void)lane;
    (void)round;
    out->step[out->step_count++] = ((const struct alone *)schedule)->call;
}

static const struct tutti_schedule_ops alone_ops = {
    .size = sizeof(struct tutti_schedule_ops), .round_count = round_count, .emit = emit};

/* What a CALL reads and leaves in the step's scratch is the OUT of it alone: the plan may leave out
 * what nobody reads of a scratch, and here others read it. */
static uint8_t kept(uint8_t buf)
{
    return buf == TUTTI_BUF_SCRATCH ? TUTTI_BUF_OUT : buf;
}

/* Callees and axes are the step's. */
static int single_out(const struct tutti_schedule *schedule, const struct tutti_step *call,
                      struct alone *ret, struct tutti_err *err)
{
    *ret = (struct alone){.base = {.ops = &alone_ops,
                                   .name = schedule->callees[call->peer]->name,
                                   .contract = {.collective = TUTTI_CUSTOM},
                                   .rank_count = schedule->rank_count,
                                   .lane_count = 1,
                                   .slot_count = schedule->slot_count,
                                   .callee_count = schedule->callee_count,
                                   .callees = schedule->callees,
                                   .in_bytes = schedule->in_bytes,
                                   .out_bytes = schedule->scratch_bytes,
                                   .scratch_bytes = schedule->scratch_bytes,
                                   .state_bytes = schedule->state_bytes,
                                   .axes = schedule->axes,
                                   .axis_count = schedule->axis_count},
                          .call = *call};
    ret->call.flags &= (uint8_t)~TUTTI_STEP_DEP;
    ret->call.src_buf = kept(call->src_buf);
    ret->call.dst_buf = kept(call->dst_buf);
    if (call->src_buf == TUTTI_BUF_OUT || call->dst_buf == TUTTI_BUF_OUT)
        return tutti_fail(err, TUTTI_ELACK, "streams play no CALL of '%s' on the step's output",
                          ret->base.name);
    return 0;
}

static void close_call(void *context, void *call)
{
    struct call *c = call;

    (void)context;
    tutti_gpus_load_close(&c->load);
    tutti_cuda_plan_close(&c->plan);
    tutti_schedule_free(c->flat);
    free(c);
}

static int open_call(void *context, const struct tutti_schedule *schedule,
                     const struct tutti_step *step, uint64_t *const addresses[TUTTI_BUF_COUNT],
                     void **ret, struct tutti_err *err)
{
    const struct tutti_cuda_caller *caller = context;
    uint64_t *const lent[TUTTI_BUF_COUNT] = {[TUTTI_BUF_IN] = addresses[TUTTI_BUF_IN],
                                             [TUTTI_BUF_OUT] = addresses[TUTTI_BUF_SCRATCH],
                                             [TUTTI_BUF_SCRATCH] = addresses[TUTTI_BUF_SCRATCH],
                                             [TUTTI_BUF_STATE] = addresses[TUTTI_BUF_STATE]};
    struct tutti_cuda_spread spread;
    struct call *c = calloc(1, sizeof(*c));
    int status = c == NULL ? tutti_nomem(err)
                           : tutti_gpus_spread(caller->gpus, schedule->rank_count, &spread, err);

    if (status == 0)
        status = single_out(schedule, step, &c->alone, err);
    if (status == 0)
        status = tutti_schedule_flatten(&c->alone.base, &c->flat, err);
    if (status == 0)
        status = tutti_gpu_enter(&caller->gpus->gpus[0], err);
    if (status == 0)
        status = tutti_cuda_plan_spread(&c->plan, c->flat, TUTTI_CUDA_LINED, &spread, err);
    if (status == 0)
        status = tutti_gpus_load_open(
            &c->load, caller->gpus, &c->plan,
            &(struct tutti_gpus_way){.lent = lent, .thread_count = caller->thread_count}, err);
    for (uint32_t g = 0; status == 0 && g < c->load.count; g++)
        c->load.loads[g].args.deadline_ns = (uint64_t)caller->deadline_ps / 1000;
    if (status < 0) {
        if (c != NULL)
            close_call(context, c);
        return status;
    }
    *ret = c;
    return 0;
}

static int start(void *context, void *call, struct tutti_err *err)
{
    struct call *c = call;

    (void)context;
    return tutti_gpus_launch(&c->load, 1, false, err);
}

static int verdict(void *context, void *call, struct tutti_err *err)
{
    const struct tutti_cuda_caller *caller = context;
    struct call *c = call;

    return tutti_gpus_verdict(&c->load, caller->deadline_ps, err);
}

const struct tutti_streams_calls tutti_cuda_calls = {
    .open = open_call, .close = close_call, .start = start, .verdict = verdict};
