/* What a kernel that gave up has left: who waited for whom, and in which step. See gpu.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/status.h"

/* The message whose line a lane waited for, or NULL. */
static const struct tutti_cuda_message *awaited_line(const struct tutti_cuda_plan *plan,
                                                     uint32_t lane,
                                                     const struct tutti_cuda_verdict *verdict)
{
    const struct tutti_cuda_planned_op *op = &plan->ops[plan->op_first[lane] + verdict->op];

    if ((verdict->wait & TUTTI_CUDA_LINE) == 0)
        return NULL;
    assert((verdict->wait & ~TUTTI_CUDA_LINE) < op->src_count);
    return &plan->messages[op->src[verdict->wait & ~TUTTI_CUDA_LINE].rank];
}

/* For which lane. */
static uint32_t awaited_lane(const struct tutti_cuda_plan *plan, uint32_t lane,
                             const struct tutti_cuda_verdict *verdict)
{
    const struct tutti_cuda_message *message = awaited_line(plan, lane, verdict);
    const struct tutti_cuda_planned_op *op = &plan->ops[plan->op_first[lane] + verdict->op];

    if (message != NULL)
        return message->from * plan->schedule->lane_count + message->lane;
    assert(verdict->wait < op->wait_count);
    return tutti_cuda_owner(plan, plan->waits[op->wait_first + verdict->wait].counter);
}

/* In which step. */
static uint32_t waiting_step(const struct tutti_cuda_plan *plan, uint32_t lane,
                             const struct tutti_cuda_verdict *verdict)
{
    const struct tutti_cuda_message *message = awaited_line(plan, lane, verdict);
    const struct tutti_cuda_planned_op *op = &plan->ops[plan->op_first[lane] + verdict->op];

    return message != NULL ? message->recv - plan->step_first[lane]
                           : plan->wait_steps[op->wait_first + verdict->wait];
}

/* For another lane: work of the host's takes as long as it takes. */
static bool waited(const struct tutti_cuda_verdict *verdict)
{
    return verdict->given != 0 && verdict->wait != TUTTI_CUDA_HOST;
}

/* Of the lanes that waited, the first that waited for one that did not; else the first. */
static uint32_t find_culprit(const struct tutti_cuda_plan *plan,
                             const struct tutti_cuda_verdict *verdicts)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t l = plan->lane_total; l-- > 0;)
        first = waited(&verdicts[l]) ? l : first;
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        if (!waited(&verdicts[l]) || verdicts[l].op == TUTTI_CUDA_MEETING)
            continue;
        if (!waited(&verdicts[awaited_lane(plan, l, &verdicts[l])]))
            return l;
    }
    return first;
}

/* A lane that did not come where all meet, or UINT32_MAX: all of them wait there. */
static uint32_t find_absent(const struct tutti_cuda_plan *plan,
                            const struct tutti_cuda_verdict *verdicts)
{
    for (uint32_t l = 0; l < plan->lane_total; l++)
        if (verdicts[l].given == 0)
            return l;
    return UINT32_MAX;
}

static int blame_meeting(const struct tutti_cuda_plan *plan,
                         const struct tutti_cuda_verdict *verdicts, uint32_t lane,
                         tutti_ps deadline_ps, struct tutti_err *err)
{
    uint32_t absent = find_absent(plan, verdicts);
    double deadline_s = (double)deadline_ps / 1e12;

    if (absent == UINT32_MAX && verdicts[lane].wait != 0)
        return tutti_fail(err, TUTTI_ETIME,
                          "the deadline of %.3g s passed while GPU %u of %u was late to meet the "
                          "others",
                          deadline_s, verdicts[lane].wait - 1, plan->spread.gpu_count);
    lane = absent != UINT32_MAX ? absent : lane;
    return tutti_fail(err, TUTTI_ETIME,
                      "rank %u, lane %u: the deadline of %.3g s passed while lanes met between "
                      "iterations%s",
                      lane / plan->schedule->lane_count, lane % plan->schedule->lane_count,
                      deadline_s, absent != UINT32_MAX ? ", and it did not come" : "");
}

int tutti_gpu_blame(const struct tutti_cuda_plan *plan, const struct tutti_cuda_verdict *verdicts,
                    tutti_ps deadline_ps, struct tutti_err *err)
{
    uint32_t lane = find_culprit(plan, verdicts);
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];

    if (lane == UINT32_MAX)
        return tutti_fail(err, TUTTI_ETIME, "the deadline of %.3g s passed",
                          (double)deadline_ps / 1e12);
    if (verdicts[lane].op == TUTTI_CUDA_MEETING)
        return blame_meeting(plan, verdicts, lane, deadline_ps, err);
    return tutti_fail(
        err, TUTTI_ETIME, "%s: the deadline of %.3g s passed",
        tutti_cuda_step_text(plan, lane, waiting_step(plan, lane, &verdicts[lane]), text),
        (double)deadline_ps / 1e12);
}

int tutti_gpu_verdicts(struct tutti_gpu_load *load, struct tutti_cuda_verdict *verdicts,
                       struct tutti_err *err)
{
    return tutti_gpu_download(load->gpu, verdicts + load->part.lane_first,
                              (uint64_t)(uintptr_t)load->args.verdicts,
                              load->part.lane_count * sizeof(*verdicts), err);
}

int tutti_gpu_verdict(struct tutti_gpu_load *load, tutti_ps deadline_ps, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->plan;
    struct tutti_cuda_verdict *verdicts;
    uint32_t stop = 0;
    int status = tutti_gpu_download(load->gpu, &stop, (uint64_t)(uintptr_t)load->args.stop,
                                    sizeof(stop), err);

    if (status < 0 || stop == 0)
        return status;
    verdicts = calloc((size_t)plan->lane_total + 1, sizeof(*verdicts));
    if (verdicts == NULL)
        return tutti_nomem(err);
    status = tutti_gpu_verdicts(load, verdicts, err);
    if (status == 0)
        status = tutti_gpu_blame(plan, verdicts, deadline_ps, err);
    free(verdicts);
    return status;
}
