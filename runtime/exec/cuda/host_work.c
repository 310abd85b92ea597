/* Work that the host does in the middle of a program: a lane asks, and whoever waits for the GPU
 * brings over what the work reads, does it, and takes back what it wrote. See gpu.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* ---- memory ---- */

/* The host's own copy of a buffer, where the caller has lent none. */
static int provide(struct tutti_gpu_load *load, enum tutti_buf buf, uint32_t rank,
                   struct tutti_err *err)
{
    struct tutti_gpu_work *work = &load->work;
    struct tutti_buf_sizes sizes;

    if (work->lent[buf][rank] != NULL)
        return 0;
    tutti_schedule_buf_sizes(load->plan->schedule, rank, &sizes);
    work->own[buf][rank] = calloc((size_t)tutti_buf_size_of(&sizes, buf) + 1, 1);
    if (work->own[buf][rank] == NULL)
        return tutti_nomem(err);
    work->lent[buf][rank] = work->own[buf][rank];
    return 0;
}

static bool asks(const struct tutti_cuda_plan *plan, uint32_t lane)
{
    for (uint32_t i = plan->op_first[lane]; i < plan->op_first[lane + 1]; i++)
        if (plan->ops[i].asks)
            return true;
    return false;
}

static int take(struct tutti_gpu_load *load, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->plan;
    struct tutti_gpu_work *work = &load->work;
    size_t bytes = load->part.lane_count * sizeof(*work->requests);
    void *requests = NULL;
    uint64_t address = 0;
    int status = CALL(load->gpu, host_alloc, &requests, bytes, TUTTI_CU_HOST_MAPPED);

    if (status < 0)
        return status;
    work->requests = requests;
    for (uint32_t i = 0; i < load->part.lane_count; i++) {
        work->requests[i] = (struct tutti_cuda_request){0};
        if (asks(plan, load->part.lane_first + i))
            work->lanes[work->lane_count++] = load->part.lane_first + i;
    }
    status = CALL(load->gpu, host_address, &address, requests, 0);
    load->args.requests = (struct tutti_cuda_request *)(uintptr_t)address;
    return status < 0 ? status
                      : CALL(load->gpu, stream_create, &work->stream, TUTTI_CU_STREAM_NON_BLOCKING);
}

int tutti_gpu_work_open(struct tutti_gpu_load *load, struct tutti_err *err)
{
    uint32_t ranks = load->plan->schedule->rank_count;
    struct tutti_gpu_work *work = &load->work;
    int status = 0;

    if (!load->plan->asks)
        return 0;
    work->lanes = calloc((size_t)load->part.lane_count + 1, sizeof(work->lanes[0]));
    if (work->lanes == NULL)
        return tutti_nomem(err);
    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++) {
        work->lent[b] = calloc((size_t)ranks + 1, sizeof(work->lent[b][0]));
        work->own[b] = calloc((size_t)ranks + 1, sizeof(work->own[b][0]));
        if (work->lent[b] == NULL || work->own[b] == NULL)
            return tutti_nomem(err);
    }
    status = take(load, err);
    return status;
}

int tutti_gpu_work_lend(struct tutti_gpu_load *load, void *const *bufs[TUTTI_BUF_COUNT],
                        struct tutti_err *err)
{
    int status = 0;

    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT && load->plan->asks; b++) {
        for (uint32_t r = load->part.rank_first; r < load->part.rank_end && status == 0; r++) {
            load->work.lent[b][r] = bufs[b] == NULL ? NULL : bufs[b][r];
            status = provide(load, (enum tutti_buf)b, r, err);
        }
    }
    return status;
}

void tutti_gpu_work_close(struct tutti_gpu_load *load)
{
    struct tutti_gpu_work *work = &load->work;
    bool there = load->gpu != NULL && !load->gpu->lost;

    for (int b = 0; b < TUTTI_BUF_COUNT; b++) {
        for (uint32_t r = 0; work->own[b] != NULL && r < load->plan->schedule->rank_count; r++)
            free(work->own[b][r]);
        free(work->own[b]);
        free(work->lent[b]);
    }
    if (work->stream != NULL && there)
        (void)load->gpu->driver.stream_destroy(work->stream);
    if (work->requests != NULL && there)
        (void)load->gpu->driver.host_free(work->requests);
    free(work->lanes);
    *work = (struct tutti_gpu_work){0};
}

/* ---- doing it ---- */

/* The kernel waits meanwhile, and copies do not: they have a stream of their own. */
static int settle(struct tutti_gpu_load *load, struct tutti_err *err)
{
    int result;

    while ((result = load->gpu->driver.stream_query(load->work.stream)) == TUTTI_CU_NOT_READY)
        ;
    return tutti_cuda_check(&load->gpu->driver, result, "stream_query", err);
}

/* What the work reads, to the host; what it writes as well, of which it may leave some. `back`:
 * what it writes, to the GPU. */
static int move(struct tutti_gpu_load *load, const struct tutti_work_call *call, bool back,
                struct tutti_err *err)
{
    const struct tutti_work *work = call->work;
    uint32_t count = back ? work->write_count : work->read_count + work->write_count;
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        bool reads = !back && i < work->read_count;
        const struct tutti_region *region =
            reads ? &work->reads[i] : &work->writes[back ? i : i - work->read_count];
        struct tutti_region at = tutti_region_at(region, call->step);
        char *here = (char *)load->work.lent[at.buf][call->rank] + at.offset;
        uint64_t there = load->addresses[at.buf][call->rank] + at.offset;

        if (at.bytes == 0 || at.buf == TUTTI_BUF_IN) /* nobody writes that one */
            continue;
        status = back ? CALL(load->gpu, upload, there, here, (size_t)at.bytes, load->work.stream)
                      : CALL(load->gpu, download, here, there, (size_t)at.bytes, load->work.stream);
    }
    return status < 0 ? status : settle(load, err);
}

static int work_for(struct tutti_gpu_load *load, uint32_t lane, uint64_t asked,
                    struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->plan;
    const struct tutti_cuda_planned_op *op = &plan->ops[plan->op_first[lane] + (uint32_t)asked - 1];
    const struct tutti_step *step = tutti_cuda_step(plan, lane, op->host_step);
    uint32_t rank = lane / plan->schedule->lane_count;
    const struct tutti_work_call call = {
        .work = &plan->schedule->work[step->peer - 1],
        .step = step,
        .rank = rank,
        .iteration = (asked >> 32) - 1,
        .in = load->work.lent[TUTTI_BUF_IN][rank],
        .out = load->work.lent[TUTTI_BUF_OUT][rank],
        .scratch = load->work.lent[TUTTI_BUF_SCRATCH][rank],
        .state = load->work.lent[TUTTI_BUF_STATE][rank],
    };
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];
    int status = move(load, &call, false, err);

    assert(op->asks);
    if (status < 0)
        return status;
    status = call.work->run(&call, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s, work '%s'",
                          tutti_cuda_step_text(plan, lane, op->host_step, text), call.work->name);
    return move(load, &call, true, err);
}

int tutti_gpu_work_serve(struct tutti_gpu_load *load, struct tutti_err *err)
{
    for (uint32_t i = 0; i < load->work.lane_count; i++) {
        struct tutti_cuda_request *request =
            &load->work.requests[load->work.lanes[i] - load->part.lane_first];
        uint64_t asked = __atomic_load_n(&request->asked, __ATOMIC_ACQUIRE);
        int status;

        if (asked == request->answered)
            continue;
        status = work_for(load, load->work.lanes[i], asked, err);
        if (status < 0)
            return status;
        __atomic_store_n(&request->answered, asked, __ATOMIC_RELEASE);
    }
    return 0;
}
