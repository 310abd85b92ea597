/* A plan told to those who predict it; see runtime/cuda_work.h. */
#include "runtime/cuda_work.h"

#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/status.h"

/* The work and its arrays, in one piece of memory each. */
struct whole {
    struct tutti_cuda_work work; /* first: what callers have */
    uint32_t *op_first;
    struct tutti_cuda_work_op *ops;
    struct tutti_cuda_work_flag *flags;
};

static uint32_t count_flags(const struct tutti_cuda_plan *plan)
{
    uint32_t count = plan->wait_count + plan->signal_count;

    for (uint32_t o = 0; o < plan->op_count; o++)
        count += plan->ops[o].src_count + (uint32_t)plan->ops[o].dst_count;
    return count;
}

static void add_flag(struct whole *whole, uint32_t counter, uint32_t value)
{
    whole->flags[whole->work.flag_count++] = (struct tutti_cuda_work_flag){counter, value};
}

static void take_op(const struct tutti_cuda_plan *plan, const struct tutti_cuda_planned_op *from,
                    struct whole *whole)
{
    struct tutti_cuda_work_op *op = &whole->ops[whole->work.op_count++];
    uint32_t lines = tutti_cuda_counter_count(plan);

    *op = (struct tutti_cuda_work_op){.bytes = from->bytes,
                                      .duration_ps = from->duration_ps,
                                      .src_count = from->src_count,
                                      .dst_count = from->dst_count};
    op->wait_first = whole->work.flag_count;
    for (uint32_t w = 0; w < from->wait_count; w++)
        add_flag(whole, plan->waits[from->wait_first + w].counter,
                 plan->waits[from->wait_first + w].value);
    for (uint32_t s = 0; s < from->src_count; s++) {
        if (!tutti_cuda_is_line(&from->src[s]))
            continue;
        add_flag(whole, lines + from->src[s].rank, 1);
        op->line_count++;
    }
    op->wait_count = whole->work.flag_count - op->wait_first;
    op->signal_first = whole->work.flag_count;
    for (uint32_t d = 0; d < from->dst_count; d++) {
        if (!tutti_cuda_is_line(&from->dst[d]))
            continue;
        add_flag(whole, lines + from->dst[d].rank, 1);
        op->line_count++;
    }
    for (uint32_t i = 0; i < from->signal_count; i++)
        add_flag(whole, plan->signals[from->signal_first + i].counter,
                 plan->signals[from->signal_first + i].value);
    op->signal_count = whole->work.flag_count - op->signal_first;
}

static void take_sizes(const struct tutti_cuda_plan *plan, struct tutti_cuda_work *work)
{
    for (uint32_t r = 0; r < plan->schedule->rank_count; r++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(plan->schedule, r, &sizes);
        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
            work->buffer_bytes += tutti_buf_size_of(&sizes, (enum tutti_buf)b);
    }
    work->moved_bytes = plan->moved_bytes;
    work->thread_count = tutti_gpu_threads_for(plan);
}

static int take(const struct tutti_cuda_plan *plan, struct tutti_cuda_work **ret,
                struct tutti_err *err)
{
    struct whole *whole = calloc(1, sizeof(*whole));

    if (whole == NULL)
        return tutti_nomem(err);
    whole->op_first = calloc((size_t)plan->lane_total + 1, sizeof(*whole->op_first));
    whole->ops = calloc((size_t)plan->op_count + 1, sizeof(*whole->ops));
    whole->flags = calloc((size_t)count_flags(plan) + 1, sizeof(*whole->flags));
    if (whole->op_first == NULL || whole->ops == NULL || whole->flags == NULL) {
        tutti_cuda_work_free(&whole->work);
        return tutti_nomem(err);
    }
    for (uint32_t l = 0; l <= plan->lane_total; l++)
        whole->op_first[l] = plan->op_first[l];
    for (uint32_t o = 0; o < plan->op_count; o++)
        take_op(plan, &plan->ops[o], whole);
    whole->work.lane_count = plan->lane_total;
    whole->work.line_first = tutti_cuda_counter_count(plan);
    whole->work.counter_count = whole->work.line_first + plan->message_count;
    whole->work.op_first = whole->op_first;
    whole->work.ops = whole->ops;
    whole->work.flags = whole->flags;
    take_sizes(plan, &whole->work);
    *ret = &whole->work;
    return 0;
}

int tutti_cuda_work_new(const struct tutti_schedule *schedule, struct tutti_cuda_work **ret,
                        struct tutti_err *err)
{
    struct tutti_cuda_plan plan;
    int status = tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_LINED, err);

    if (status < 0)
        return status;
    status = take(&plan, ret, err);
    tutti_cuda_plan_close(&plan);
    return status;
}

void tutti_cuda_work_free(struct tutti_cuda_work *work)
{
    struct whole *whole = (struct whole *)work;

    if (whole == NULL)
        return;
    free(whole->op_first);
    free(whole->ops);
    free(whole->flags);
    free(whole);
}
