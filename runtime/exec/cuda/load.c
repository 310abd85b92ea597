/* A plan on a GPU: memory, upload, launches, and what a kernel that gave up has left. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/status.h"

enum { ALIGNMENT = 512, THREADS_MAX = 512, THREADS_MIN = 64 };

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* Where the parts of the memory begin; counted before there is any. */
struct layout {
    uint64_t bytes;
    uint64_t ops;
    uint64_t lanes;
    uint64_t waits;
    uint64_t signals;
    uint64_t lines; /* from here to `stamps` zeros */
    uint64_t counters;
    uint64_t meeting;
    uint64_t verdicts;
    uint64_t stop;
    uint64_t stamps;
};

static uint64_t part(struct layout *layout, uint64_t count, uint64_t bytes)
{
    uint64_t at = layout->bytes;

    layout->bytes += (count * bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static struct layout lay_out(struct tutti_gpu_load *load, bool stamped)
{
    const struct tutti_cuda_plan *plan = load->plan;
    uint32_t op_count = load->by_levels ? load->graph.piece_count : plan->op_count;
    struct layout layout = {0};

    for (uint32_t r = 0; r < plan->schedule->rank_count; r++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(plan->schedule, r, &sizes);
        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
            load->addresses[b][r] = part(&layout, tutti_buf_size_of(&sizes, (enum tutti_buf)b), 1);
    }
    load->buffer_bytes = layout.bytes;
    layout.ops = part(&layout, op_count + 1, sizeof(struct tutti_cuda_op));
    layout.lanes = part(&layout, load->by_levels ? op_count : plan->lane_total,
                        sizeof(struct tutti_cuda_lane));
    layout.waits = part(&layout, plan->wait_count, sizeof(struct tutti_cuda_flag));
    layout.signals = part(&layout, plan->signal_count, sizeof(struct tutti_cuda_flag));
    layout.lines = part(&layout, plan->line_bytes, 1);
    layout.counters =
        part(&layout, tutti_cuda_counter_count(plan), sizeof(struct tutti_cuda_counter));
    layout.meeting = part(&layout, 1, sizeof(struct tutti_cuda_counter));
    layout.verdicts = part(&layout, plan->lane_total, sizeof(struct tutti_cuda_verdict));
    layout.stop = part(&layout, 1, sizeof(uint32_t));
    layout.stamps = part(&layout, stamped ? op_count : 0, sizeof(struct tutti_cuda_stamp));
    return layout;
}

/* ---- the kernel and its shape ---- */

/* Enough threads that each has a few words of the largest operation. */
uint32_t tutti_gpu_threads_for(const struct tutti_cuda_plan *plan)
{
    uint64_t wanted = (plan->op_bytes_max / (plan->lined ? 8 : 16) + 31) / 32 * 32;

    return wanted > THREADS_MAX   ? THREADS_MAX
           : wanted < THREADS_MIN ? THREADS_MIN
                                  : (uint32_t)wanted;
}

/* How many blocks the GPU keeps at work together. */
static int count_resident(struct tutti_gpu_load *load, uint32_t *ret, struct tutti_err *err)
{
    int blocks = 0;
    int status =
        CALL(load->gpu, resident_blocks, &blocks, load->kernel, (int)load->thread_count, 0);

    *ret = (uint32_t)blocks * (uint32_t)load->gpu->multiprocessor_count;
    return status;
}

/* More lanes fit if they are narrower. `ret_fits`: NULL, or gets whether they do. */
static int fit_blocks(struct tutti_gpu_load *load, bool chosen, bool *ret_fits,
                      struct tutti_err *err)
{
    uint32_t lanes = load->plan->lane_total;
    uint32_t resident = 0;
    int status = count_resident(load, &resident, err);

    while (status == 0 && lanes > resident && !chosen && load->thread_count / 2 >= THREADS_MIN) {
        load->thread_count = load->thread_count / 64 * 32;
        status = count_resident(load, &resident, err);
    }
    if (status == 0 && ret_fits != NULL)
        *ret_fits = lanes <= resident;
    else if (status == 0 && lanes > resident)
        status = tutti_fail(err, TUTTI_ELACK,
                            "the schedule '%s' has %u lanes in all, and this GPU keeps %u blocks "
                            "of %u threads at work together (fewer channels)",
                            load->plan->schedule->name, lanes, resident, load->thread_count);
    return status;
}

static int find_kernel(struct tutti_gpu_load *load, bool *ret_fits, struct tutti_err *err)
{
    struct tutti_gpu *gpu = load->gpu;
    const struct tutti_reduction *reduction = &load->plan->reduction;
    bool chosen = load->thread_count != 0;
    char name[64];
    int registers = 0;
    int status;

    if (load->plan->mixed)
        (void)snprintf(name, sizeof(name), "tutti_play_mixed");
    else
        (void)snprintf(name, sizeof(name), "tutti_play_%s_%s", tutti_dtype_name(reduction->dtype),
                       tutti_op_name(reduction->op));
    status = CALL(gpu, module_function, &load->kernel, gpu->module, name);
    if (status == 0) /* also loads it, where that is put off */
        status =
            CALL(gpu, function_attribute, &registers, TUTTI_CU_FUNCTION_REGISTERS, load->kernel);
    if (!chosen)
        load->thread_count = tutti_gpu_threads_for(load->plan);
    return status < 0 || load->by_levels ? status : fit_blocks(load, chosen, ret_fits, err);
}

int tutti_gpu_fits(struct tutti_gpu *gpu, const struct tutti_cuda_plan *plan, uint32_t thread_count,
                   bool *ret, struct tutti_err *err)
{
    struct tutti_gpu_load load = {.gpu = gpu, .plan = plan, .thread_count = thread_count};

    return find_kernel(&load, ret, err);
}

/* ---- opening ---- */

static int take_memory(struct tutti_gpu_load *load, const struct layout *layout,
                       struct tutti_err *err)
{
    size_t left = 0;
    size_t total = 0;
    int status = CALL(load->gpu, memory_info, &left, &total);

    if (status == 0 && layout->bytes > left)
        status = tutti_fail(err, TUTTI_ELACK,
                            "%u ranks need %.1f GiB on the GPU, and it has %.1f GiB left (fewer "
                            "ranks, or smaller sizes)",
                            load->plan->schedule->rank_count, (double)layout->bytes / 0x1p30,
                            (double)left / 0x1p30);
    return status < 0 ? status : CALL(load->gpu, alloc, &load->memory, (size_t)layout->bytes);
}

static int upload_lanes(struct tutti_gpu_load *load, const struct layout *layout,
                        const struct tutti_cuda_op *ops, uint32_t op_count,
                        const struct tutti_cuda_lane *lanes, uint32_t lane_count,
                        struct tutti_err *err)
{
    int status =
        tutti_gpu_upload(load->gpu, load->memory + layout->ops, ops, op_count * sizeof(*ops), err);

    return status < 0 ? status
                      : tutti_gpu_upload(load->gpu, load->memory + layout->lanes, lanes,
                                         lane_count * sizeof(*lanes), err);
}

/* Each piece is a lane of its own. */
static int upload_pieces(struct tutti_gpu_load *load, const struct layout *layout,
                         const struct tutti_cuda_op *ops, struct tutti_err *err)
{
    uint32_t count = load->graph.piece_count;
    struct tutti_cuda_op *pieces = calloc((size_t)count + 1, sizeof(*pieces));
    struct tutti_cuda_lane *lanes = calloc((size_t)count + 1, sizeof(*lanes));
    int status = pieces == NULL || lanes == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        tutti_gpu_graph_pieces(load, ops, pieces, lanes);
        status = upload_lanes(load, layout, pieces, count, lanes, count, err);
    }
    free(pieces);
    free(lanes);
    return status;
}

static int upload_ops(struct tutti_gpu_load *load, const struct layout *layout,
                      struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->plan;
    const uint64_t lines = load->memory + layout->lines;
    const uint64_t *const bases[TUTTI_CUDA_BASES] = {
        load->addresses[TUTTI_BUF_SCRATCH], load->addresses[TUTTI_BUF_IN],
        load->addresses[TUTTI_BUF_OUT],     load->addresses[TUTTI_BUF_SCRATCH],
        load->addresses[TUTTI_BUF_STATE],   &lines};
    struct tutti_cuda_op *ops = calloc((size_t)plan->op_count + 1, sizeof(*ops));
    struct tutti_cuda_lane *lanes = calloc((size_t)plan->lane_total + 1, sizeof(*lanes));
    int status = ops == NULL || lanes == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        tutti_cuda_resolve(plan, bases, ops, lanes);
        status = load->by_levels ? upload_pieces(load, layout, ops, err)
                                 : upload_lanes(load, layout, ops, plan->op_count, lanes,
                                                plan->lane_total, err);
    }
    if (status == 0)
        status = tutti_gpu_upload(load->gpu, load->memory + layout->waits, plan->waits,
                                  plan->wait_count * sizeof(plan->waits[0]), err);
    if (status == 0)
        status = tutti_gpu_upload(load->gpu, load->memory + layout->signals, plan->signals,
                                  plan->signal_count * sizeof(plan->signals[0]), err);
    free(ops);
    free(lanes);
    return status;
}

static void fill_args(struct tutti_gpu_load *load, const struct layout *layout)
{
    uintptr_t memory = (uintptr_t)load->memory;

    load->stamps = load->memory + layout->stamps;
    load->args = (struct tutti_cuda_args){
        .ops = (const struct tutti_cuda_op *)(memory + layout->ops),
        .lanes = (const struct tutti_cuda_lane *)(memory + layout->lanes),
        .waits = (const struct tutti_cuda_flag *)(memory + layout->waits),
        .signals = (const struct tutti_cuda_flag *)(memory + layout->signals),
        .counters = (struct tutti_cuda_counter *)(memory + layout->counters),
        .meeting = (struct tutti_cuda_counter *)(memory + layout->meeting),
        .verdicts = (struct tutti_cuda_verdict *)(memory + layout->verdicts),
        .stop = (uint32_t *)(memory + layout->stop),
        .abort = (const uint32_t *)(uintptr_t)load->gpu->abort_address,
        .deadline_ns = UINT64_MAX,
        .iteration = 1,
    };
}

static int fill(struct tutti_gpu_load *load, bool stamped, struct tutti_err *err)
{
    uint32_t ranks = load->plan->schedule->rank_count;
    struct layout layout;
    int status = 0;

    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++) {
        load->addresses[b] = calloc((size_t)ranks, sizeof(load->addresses[b][0]));
        if (load->addresses[b] == NULL)
            status = tutti_nomem(err);
    }
    if (status == 0)
        status = find_kernel(load, NULL, err);
    if (status == 0 && load->by_levels)
        status = tutti_gpu_graph_plan(load, err);
    if (status < 0)
        return status;
    layout = lay_out(load, stamped);
    status = take_memory(load, &layout, err);
    if (status < 0)
        return status;
    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
        for (uint32_t r = 0; r < ranks; r++)
            load->addresses[b][r] += load->memory;
    fill_args(load, &layout);
    status = upload_ops(load, &layout, err);
    if (status == 0)
        status = tutti_gpu_fill(load->gpu, load->memory + layout.lines, 0,
                                (size_t)(layout.stamps - layout.lines), err);
    if (status == 0)
        status = load->by_levels ? tutti_gpu_graph_make(load, err) : tutti_gpu_work_open(load, err);
    return status;
}

int tutti_gpu_load_open(struct tutti_gpu_load *load, struct tutti_gpu *gpu,
                        const struct tutti_cuda_plan *plan, bool by_levels, uint32_t thread_count,
                        bool stamped, struct tutti_err *err)
{
    struct tutti_gpu_load made = {
        .by_levels = by_levels,
        .stamped = stamped,
        .gpu = gpu,
        .plan = plan,
        .thread_count = thread_count,
    };
    int status;

    __atomic_store_n(gpu->abort, 0, __ATOMIC_RELAXED);
    status = fill(&made, stamped, err);

    if (status < 0) {
        tutti_gpu_load_close(&made);
        return status;
    }
    *load = made;
    return 0;
}

int tutti_gpu_load_meetings(struct tutti_gpu_load *load, uint32_t count, struct tutti_err *err)
{
    int status;

    if (count <= load->meeting_capacity)
        return 0;
    if (load->meetings != 0)
        (void)load->gpu->driver.free(load->meetings);
    load->meetings = 0;
    load->meeting_capacity = 0;
    status = CALL(load->gpu, alloc, &load->meetings, count * sizeof(uint64_t));
    if (status < 0)
        return status;
    load->meeting_capacity = count;
    load->args.meetings_ns = (uint64_t *)(uintptr_t)load->meetings;
    return 0;
}

void tutti_gpu_load_close(struct tutti_gpu_load *load)
{
    bool there = load->gpu != NULL && !load->gpu->lost;

    tutti_gpu_work_close(load);
    tutti_gpu_graph_close(load);
    if (load->memory != 0 && there)
        (void)load->gpu->driver.free(load->memory);
    if (load->meetings != 0 && there)
        (void)load->gpu->driver.free(load->meetings);
    for (int b = 0; b < TUTTI_BUF_COUNT; b++)
        free(load->addresses[b]);
    *load = (struct tutti_gpu_load){0};
}

/* ---- playing ---- */

int tutti_gpu_launch(struct tutti_gpu_load *load, uint32_t iteration_count, bool stamped,
                     struct tutti_err *err)
{
    struct tutti_gpu *gpu = load->gpu;
    void *parameters[1] = {&load->args};
    int status = 0;

    for (uint32_t i = 0; load->by_levels && i < iteration_count && status == 0; i++)
        status = CALL(gpu, graph_launch, load->graph.played, gpu->stream);
    if (load->by_levels)
        return status;
    load->args.iteration_count = iteration_count;
    load->args.stamps = stamped ? (struct tutti_cuda_stamp *)(uintptr_t)load->stamps : NULL;
    status = CALL(gpu, launch, load->kernel, load->plan->lane_total, 1, 1, load->thread_count, 1, 1,
                  0, gpu->stream, parameters);
    load->args.iteration += iteration_count;
    if (iteration_count > 1)
        load->args.meeting_base += (uint64_t)(iteration_count + 1) * load->plan->lane_total;
    return status;
}

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

static int blame(const struct tutti_cuda_plan *plan, const struct tutti_cuda_verdict *verdicts,
                 tutti_ps deadline_ps, struct tutti_err *err)
{
    uint32_t lane = find_culprit(plan, verdicts);
    char text[TUTTI_CUDA_STEP_TEXT_BYTES];

    if (lane == UINT32_MAX)
        return tutti_fail(err, TUTTI_ETIME, "the deadline of %.3g s passed",
                          (double)deadline_ps / 1e12);
    if (verdicts[lane].op == TUTTI_CUDA_MEETING)
        return tutti_fail(err, TUTTI_ETIME,
                          "rank %u, lane %u: the deadline of %.3g s passed while lanes met between "
                          "iterations",
                          lane / plan->schedule->lane_count, lane % plan->schedule->lane_count,
                          (double)deadline_ps / 1e12);
    return tutti_fail(
        err, TUTTI_ETIME, "%s: the deadline of %.3g s passed",
        tutti_cuda_step_text(plan, lane, waiting_step(plan, lane, &verdicts[lane]), text),
        (double)deadline_ps / 1e12);
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
    status = tutti_gpu_download(load->gpu, verdicts, (uint64_t)(uintptr_t)load->args.verdicts,
                                plan->lane_total * sizeof(*verdicts), err);
    if (status == 0)
        status = blame(plan, verdicts, deadline_ps, err);
    free(verdicts);
    return status;
}
