/* A plan on a GPU: memory, upload, launches. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/cuda/gpu.h"
#include "runtime/status.h"

enum { ALIGNMENT = 512, THREADS_MAX = 512, THREADS_MIN = 64 };

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

static uint64_t part(struct tutti_gpu_layout *layout, uint64_t count, uint64_t bytes)
{
    uint64_t at = layout->bytes;

    layout->bytes += (count * bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static struct tutti_gpu_layout lay_out(struct tutti_gpu_load *load)
{
    const struct tutti_cuda_plan *plan = load->plan;
    uint32_t op_count = load->by_levels ? load->graph.piece_count : load->part.op_count;
    struct tutti_gpu_layout layout = {0};

    for (uint32_t r = load->part.rank_first; r < load->part.rank_end; r++) {
        struct tutti_buf_sizes sizes;

        if (load->lent != NULL)
            continue;
        tutti_schedule_buf_sizes(plan->schedule, r, &sizes);
        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
            load->addresses[b][r] = part(&layout, tutti_buf_size_of(&sizes, (enum tutti_buf)b), 1);
    }
    load->buffer_bytes = layout.bytes;
    layout.ops = part(&layout, op_count + 1, sizeof(struct tutti_cuda_op));
    layout.lanes = part(&layout, load->by_levels ? op_count : load->part.lane_count,
                        sizeof(struct tutti_cuda_lane));
    layout.waits = part(&layout, plan->wait_count, sizeof(struct tutti_cuda_flag));
    layout.signals = part(&layout, plan->signal_count, sizeof(struct tutti_cuda_flag));
    layout.lines = part(&layout, plan->home_bytes[load->part.gpu], 1);
    layout.counters =
        part(&layout, tutti_cuda_counter_count(plan), sizeof(struct tutti_cuda_counter));
    layout.meeting = part(&layout, 1, sizeof(struct tutti_cuda_counter));
    layout.verdicts = part(&layout, load->part.lane_count, sizeof(struct tutti_cuda_verdict));
    layout.stop = part(&layout, 1, sizeof(uint32_t));
    layout.stamps = part(&layout, load->stamped ? op_count : 0, sizeof(struct tutti_cuda_stamp));
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
    uint32_t lanes = load->part.lane_count;
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
                            "the schedule '%s' has %u lanes in all%s, and this GPU keeps %u blocks "
                            "of %u threads at work together (fewer channels)",
                            load->plan->schedule->name, lanes,
                            load->plan->spread.gpu_count > 1 ? " on a GPU" : "", resident,
                            load->thread_count);
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
    struct tutti_gpu_load load = {.gpu = gpu,
                                  .plan = plan,
                                  .part = tutti_cuda_part_of(plan, 0),
                                  .thread_count = thread_count};

    return find_kernel(&load, ret, err);
}

/* ---- opening ---- */

static int take_memory(struct tutti_gpu_load *load, struct tutti_err *err)
{
    const struct tutti_gpu_layout *layout = &load->layout;
    size_t left = 0;
    size_t total = 0;
    int status = CALL(load->gpu, memory_info, &left, &total);

    if (status == 0 && layout->bytes > left)
        status = tutti_fail(err, TUTTI_ELACK,
                            "%u ranks need %.1f GiB on the GPU, and it has %.1f GiB left (fewer "
                            "ranks, or smaller sizes)",
                            load->part.rank_end - load->part.rank_first,
                            (double)layout->bytes / 0x1p30, (double)left / 0x1p30);
    return status < 0 ? status : CALL(load->gpu, alloc, &load->memory, (size_t)layout->bytes);
}

static int upload_lanes(struct tutti_gpu_load *load, const struct tutti_cuda_op *ops,
                        uint32_t op_count, const struct tutti_cuda_lane *lanes, uint32_t lane_count,
                        struct tutti_err *err)
{
    int status = tutti_gpu_upload(load->gpu, load->memory + load->layout.ops, ops,
                                  op_count * sizeof(*ops), err);

    return status < 0 ? status
                      : tutti_gpu_upload(load->gpu, load->memory + load->layout.lanes, lanes,
                                         lane_count * sizeof(*lanes), err);
}

/* Each piece is a lane of its own. */
static int upload_pieces(struct tutti_gpu_load *load, const struct tutti_cuda_op *ops,
                         struct tutti_err *err)
{
    uint32_t count = load->graph.piece_count;
    struct tutti_cuda_op *pieces = calloc((size_t)count + 1, sizeof(*pieces));
    struct tutti_cuda_lane *lanes = calloc((size_t)count + 1, sizeof(*lanes));
    int status = pieces == NULL || lanes == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        tutti_gpu_graph_pieces(load, ops, pieces, lanes);
        status = upload_lanes(load, pieces, count, lanes, count, err);
    }
    free(pieces);
    free(lanes);
    return status;
}

/* Waits or signals of the whole plan: operations name them by their numbers. */
static int upload_flags(struct tutti_gpu_load *load, uint64_t at,
                        const struct tutti_cuda_flag *flags, uint32_t count, struct tutti_err *err)
{
    struct tutti_cuda_flag *resolved = calloc((size_t)count + 1, sizeof(*resolved));
    int status;

    if (resolved == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < count; i++)
        resolved[i] = tutti_cuda_resolve_flag(load->plan, flags[i]);
    status =
        tutti_gpu_upload(load->gpu, load->memory + at, resolved, count * sizeof(*resolved), err);
    free(resolved);
    return status;
}

static int upload_ops(struct tutti_gpu_load *load, struct tutti_err *err)
{
    const struct tutti_cuda_plan *plan = load->plan;
    const uint64_t *const bases[TUTTI_CUDA_BASES] = {
        load->addresses[TUTTI_BUF_SCRATCH], load->addresses[TUTTI_BUF_IN],
        load->addresses[TUTTI_BUF_OUT],     load->addresses[TUTTI_BUF_SCRATCH],
        load->addresses[TUTTI_BUF_STATE],   load->homes};
    struct tutti_cuda_op *ops = calloc((size_t)load->part.op_count + 1, sizeof(*ops));
    struct tutti_cuda_lane *lanes = calloc((size_t)load->part.lane_count + 1, sizeof(*lanes));
    int status = ops == NULL || lanes == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        tutti_cuda_resolve(plan, &load->part, bases, ops, lanes);
        status = load->by_levels ? upload_pieces(load, ops, err)
                                 : upload_lanes(load, ops, load->part.op_count, lanes,
                                                load->part.lane_count, err);
    }
    if (status == 0)
        status = upload_flags(load, load->layout.waits, plan->waits, plan->wait_count, err);
    if (status == 0)
        status = upload_flags(load, load->layout.signals, plan->signals, plan->signal_count, err);
    free(ops);
    free(lanes);
    return status;
}

static void fill_args(struct tutti_gpu_load *load)
{
    const struct tutti_gpu_layout *layout = &load->layout;
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
        .gpu_count = load->plan->spread.gpu_count,
        .gpu = load->part.gpu,
    };
}

int tutti_gpu_load_take(struct tutti_gpu_load *load, struct tutti_err *err)
{
    uint32_t ranks = load->plan->schedule->rank_count;
    int status = 0;

    __atomic_store_n(load->gpu->abort, 0, __ATOMIC_RELAXED);
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
    load->layout = lay_out(load);
    status = take_memory(load, err);
    if (status < 0)
        return status;
    for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
        for (uint32_t r = load->part.rank_first; r < load->part.rank_end; r++)
            load->addresses[b][r] =
                load->lent != NULL ? load->lent[b][r] : load->addresses[b][r] + load->memory;
    load->homes[load->part.gpu] = load->memory + load->layout.lines;
    fill_args(load);
    return 0;
}

int tutti_gpu_load_send(struct tutti_gpu_load *load, struct tutti_err *err)
{
    int status = upload_ops(load, err);

    if (status == 0)
        status = tutti_gpu_fill(load->gpu, load->memory + load->layout.lines, 0,
                                (size_t)(load->layout.stamps - load->layout.lines), err);
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
        .part = tutti_cuda_part_of(plan, 0),
        .thread_count = thread_count,
    };
    int status;

    assert(plan->spread.gpu_count == 1);
    status = tutti_gpu_load_take(&made, err);
    if (status == 0)
        status = tutti_gpu_load_send(&made, err);
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
    uint32_t several = load->args.gpu_count > 1;
    uint32_t meetings = iteration_count > 1 ? iteration_count + 1 : several;
    struct tutti_gpu *gpu = load->gpu;
    void *parameters[1] = {&load->args};
    int status = 0;

    for (uint32_t i = 0; load->by_levels && i < iteration_count && status == 0; i++)
        status = CALL(gpu, graph_launch, load->graph.played, gpu->stream);
    if (load->by_levels)
        return status;
    load->args.iteration_count = iteration_count;
    load->args.stamps = stamped ? (struct tutti_cuda_stamp *)(uintptr_t)load->stamps : NULL;
    status = CALL(gpu, launch, load->kernel, load->part.lane_count, 1, 1, load->thread_count, 1, 1,
                  0, gpu->stream, parameters);
    load->args.iteration += iteration_count;
    load->args.meeting_base += (uint64_t)meetings * (load->part.lane_count + several);
    load->args.gate_base += meetings;
    return status;
}
