/* What each rank here has of a run: memory on its GPU, the messages of each level, the launches
 * between them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/nccl/ranks.h"

enum { ALIGNMENT = 512 };

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

static const enum tutti_buf bufs[] = {TUTTI_BUF_IN, TUTTI_BUF_OUT, TUTTI_BUF_SCRATCH,
                                      TUTTI_BUF_STATE};

/* Where a part of `bytes` begins. */
static uint64_t place(uint64_t *at, uint64_t bytes)
{
    uint64_t begin = *at;

    *at += (bytes / ALIGNMENT + 1) * ALIGNMENT;
    return begin;
}

/* ---- messages ---- */

/* What is being collected of a part. */
struct collecting {
    const struct tutti_nccl_loaded *run;
    struct tutti_nccl_part *part;
    uint64_t *staged;  /* [step]: in the staging memory */
    uint64_t *filled;  /* [level]: bytes of the staging memory that are taken */
    uint32_t *numbers; /* [2 * rank]: SENDs to, RECVs from, of the lane */
    uint64_t staging_bytes;
    uint64_t step;
};

/* Memory that is the message's own from its level to that of the REDUCE that reads it. */
static uint64_t stage_message(struct collecting *c, const struct tutti_step *step, uint32_t first,
                              uint32_t last, uint64_t shift)
{
    uint64_t at = 0;

    assert(first <= last);
    for (uint32_t level = first; level <= last; level++)
        at = c->filled[level] > at ? c->filled[level] : at;
    at = (at + 15) / 16 * 16 + shift;
    for (uint32_t level = first; level <= last; level++)
        c->filled[level] = at + step->bytes;
    if (at + step->bytes > c->staging_bytes)
        c->staging_bytes = at + step->bytes;
    return at;
}

/* `at`: of this step, and behind it that of the next. */
static void collect_step(struct collecting *c, const struct tutti_step *step, uint32_t lane,
                         const struct tutti_level_stage *at)
{
    bool is_send = step->kind == TUTTI_SEND;
    struct tutti_nccl_message *message = &c->part->messages[c->part->message_count];
    uint32_t number = c->numbers[2 * step->peer + !is_send]++;
    bool fused = (step->flags & TUTTI_STEP_FUSE) != 0;

    if (step->bytes == 0) /* on both sides */
        return;
    *message = (struct tutti_nccl_message){
        .bytes = step->bytes,
        .level = at->level,
        .peer = step->peer,
        .lane = lane,
        .number = number,
        .is_send = is_send,
        .buf = fused     ? TUTTI_BUF_COUNT
               : is_send ? step->src_buf
                         : step->dst_buf,
        .at = is_send ? step->src_offset : step->dst_offset,
    };
    if (fused) /* in 16 bytes it begins where that begins to which it is added */
        message->at = c->staged[c->step] =
            stage_message(c, step, at[0].level, at[1].level, step[1].dst_offset % 16);
    c->part->message_count++;
}

static void collect_lane(struct collecting *c, uint32_t lane)
{
    const struct tutti_nccl_loaded *run = c->run;
    uint32_t lane_count = run->load.schedule->lane_count;
    uint32_t rank = c->part->rank->rank;
    const struct tutti_program_lane *program =
        &run->program.lanes[(rank - run->load.first_rank) * lane_count + lane];
    const struct tutti_level_stage *stages =
        &run->levels.stages[run->levels.step_first[rank * lane_count + lane]];

    memset(c->numbers, 0, 2 * (size_t)run->load.schedule->rank_count * sizeof(c->numbers[0]));
    for (uint64_t i = 0; i < program->step_count; i++, c->step++) {
        const struct tutti_step *step = &program->steps[i];

        if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV)
            collect_step(c, step, lane, &stages[i]);
    }
}

/* The same on both sides of a connection: NCCL matches in order, per pair of ranks. */
static int by_level(const void *left, const void *right)
{
    const struct tutti_nccl_message *a = left;
    const struct tutti_nccl_message *b = right;

    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->peer != b->peer)
        return a->peer < b->peer ? -1 : 1;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return b->is_send - a->is_send;
}

static int collect(struct collecting *c, struct tutti_err *err)
{
    const struct tutti_nccl_loaded *run = c->run;
    uint32_t lane_count = run->load.schedule->lane_count;
    uint32_t first = (c->part->rank->rank - run->load.first_rank) * lane_count;
    uint64_t step_count = 0;

    for (uint32_t l = 0; l < lane_count; l++)
        step_count += run->program.lanes[first + l].step_count;
    c->staged = calloc((size_t)step_count + 1, sizeof(c->staged[0]));
    c->filled = calloc((size_t)run->levels.level_count + 1, sizeof(c->filled[0]));
    c->numbers = calloc(2 * (size_t)run->load.schedule->rank_count, sizeof(c->numbers[0]));
    c->part->messages = calloc((size_t)step_count + 1, sizeof(c->part->messages[0]));
    if (c->staged == NULL || c->filled == NULL || c->numbers == NULL || c->part->messages == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < lane_count; l++)
        collect_lane(c, l);
    if (c->part->message_count > 0)
        qsort(c->part->messages, c->part->message_count, sizeof(c->part->messages[0]), by_level);
    return 0;
}

/* ---- memory ---- */

/* NCCL's own collective in place: in and out of a rank, which overlap at the caller's, do so here.
 * The steps of a schedule are told of it otherwise (tutti_schedule_in_place). */
static void overlap(const struct tutti_nccl_loaded *run, struct tutti_nccl_part *part)
{
    const tutti_handle *handles = run->load.buffers->handles[part - run->parts];
    uint64_t in = (uint64_t)handles[TUTTI_BUF_IN];
    uint64_t out = (uint64_t)handles[TUTTI_BUF_OUT];

    if (!run->player->opts.native)
        return;
    if (in >= out && in - out + part->sizes.in_bytes <= part->sizes.out_bytes)
        part->addresses[TUTTI_BUF_IN] = part->addresses[TUTTI_BUF_OUT] + (in - out);
    else if (out > in && out - in + part->sizes.out_bytes <= part->sizes.in_bytes)
        part->addresses[TUTTI_BUF_OUT] = part->addresses[TUTTI_BUF_IN] + (out - in);
}

static int take_memory(struct tutti_nccl_part *part, const struct tutti_nccl_work *work,
                       uint64_t staging_bytes, struct tutti_err *err)
{
    struct tutti_gpu *gpu = &part->rank->gpu;
    uint32_t pieces = tutti_nccl_work_pieces(part, work);
    uint64_t bytes = 0;
    size_t left = 0;
    size_t total = 0;
    int status;

    for (size_t b = 0; b < sizeof(bufs) / sizeof(bufs[0]); b++)
        part->addresses[bufs[b]] = place(&bytes, tutti_buf_size_of(&part->sizes, bufs[b]));
    part->staging = place(&bytes, staging_bytes);
    part->flag = place(&bytes, 1);
    part->ops = place(&bytes, pieces * sizeof(struct tutti_cuda_op));
    part->lanes = place(&bytes, pieces * sizeof(struct tutti_cuda_lane));
    status = CALL(gpu, memory_info, &left, &total);
    if (status == 0 && bytes > left)
        return tutti_fail(err, TUTTI_ELACK,
                          "rank %u needs %.1f GiB on its GPU, and that has %.1f GiB left (smaller "
                          "sizes)",
                          part->rank->rank, (double)bytes / 0x1p30, (double)left / 0x1p30);
    if (status == 0)
        status = CALL(gpu, alloc, &part->memory, (size_t)bytes);
    if (status == 0)
        status = tutti_gpu_fill(gpu, part->memory, 0, (size_t)bytes, err);
    for (size_t b = 0; b < sizeof(bufs) / sizeof(bufs[0]); b++)
        part->addresses[bufs[b]] += part->memory;
    part->addresses[TUTTI_BUF_NONE] = part->addresses[TUTTI_BUF_SCRATCH];
    part->staging += part->memory;
    part->flag += part->memory;
    part->ops += part->memory;
    part->lanes += part->memory;
    for (uint32_t i = 0; i < part->message_count; i++) {
        struct tutti_nccl_message *message = &part->messages[i];

        message->at +=
            message->buf == TUTTI_BUF_COUNT ? part->staging : part->addresses[message->buf];
    }
    return status;
}

/* ---- events ---- */

static int by_point(const void *left, const void *right)
{
    const struct tutti_level_stage *a = &((const struct tutti_nccl_unit *)left)->at;
    const struct tutti_level_stage *b = &((const struct tutti_nccl_unit *)right)->at;

    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    return (a->stage > b->stage) - (a->stage < b->stage);
}

/* Messages of a level, or a launch, each with an event at its end. */
static void list_units(struct tutti_nccl_part *part)
{
    for (uint32_t i = 0; i < part->message_count; i++)
        if (i == 0 || part->messages[i].level != part->messages[i - 1].level)
            part->units[part->unit_count++].at.level = part->messages[i].level;
    for (uint32_t i = 0; i < part->launch_count; i++)
        part->units[part->unit_count++].at = part->launches[i].at;
    if (part->unit_count > 0)
        qsort(part->units, part->unit_count, sizeof(part->units[0]), by_point);
}

static int open_events(struct tutti_nccl_part *part, bool recorded, struct tutti_err *err)
{
    struct tutti_gpu *gpu = &part->rank->gpu;
    uint32_t units = recorded ? part->message_count + part->launch_count : 0;
    int status = 0;

    part->marks = calloc(TUTTI_NCCL_MARKS, sizeof(part->marks[0]));
    part->units = calloc((size_t)units + 1, sizeof(part->units[0]));
    if (part->marks == NULL || part->units == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < TUTTI_NCCL_MARKS && status == 0; i++)
        status = CALL(gpu, event_create, &part->marks[i], TUTTI_CU_EVENT_NO_TIMING);
    if (status == 0 && recorded)
        status = CALL(gpu, event_create, &part->begin, 0);
    if (recorded)
        list_units(part);
    for (uint32_t i = 0; i < part->unit_count && status == 0; i++)
        status = CALL(gpu, event_create, &part->units[i].end, 0);
    return status;
}

static void close_events(struct tutti_nccl_part *part)
{
    const struct tutti_cuda_driver *driver = &part->rank->gpu.driver;

    for (uint32_t i = 0; part->marks != NULL && i < TUTTI_NCCL_MARKS; i++)
        if (part->marks[i] != NULL)
            (void)driver->event_destroy(part->marks[i]);
    for (uint32_t i = 0; i < part->unit_count; i++)
        if (part->units[i].end != NULL)
            (void)driver->event_destroy(part->units[i].end);
    if (part->begin != NULL)
        (void)driver->event_destroy(part->begin);
}

/* ---- parts ---- */

static int make_program(struct collecting *c, struct tutti_nccl_work *work, struct tutti_err *err)
{
    struct tutti_nccl_part *part = c->part;
    struct tutti_gpu *gpu = &part->rank->gpu;
    int status = c->run->player->opts.native ? 0 : collect(c, err);

    if (status == 0 && !c->run->player->opts.native)
        status = tutti_nccl_work_plan(c->run, part, c->staged, work, err);
    if (status == 0)
        status = take_memory(part, work, c->staging_bytes, err);
    if (status == 0)
        overlap(c->run, part);
    if (status == 0)
        status = tutti_nccl_work_cut(part, work, err);
    if (status == 0)
        status = tutti_gpu_upload(gpu, part->ops, work->pieces,
                                  work->piece_count * sizeof(work->pieces[0]), err);
    if (status == 0)
        status = tutti_gpu_upload(gpu, part->lanes, work->lanes,
                                  work->lane_count * sizeof(work->lanes[0]), err);
    return status;
}

static int open_part(struct tutti_nccl_loaded *run, uint32_t own, struct tutti_err *err)
{
    struct tutti_nccl_part *part = &run->parts[own];
    struct collecting c = {.run = run, .part = part};
    struct tutti_nccl_work work = {0};
    int status;

    part->rank = &run->player->ranks[own];
    tutti_schedule_buf_sizes(run->load.schedule, part->rank->rank, &part->sizes);
    status = tutti_gpu_enter(&part->rank->gpu, err);
    if (status == 0)
        status = make_program(&c, &work, err);
    if (status == 0)
        status = open_events(part, run->load.recorded && !run->player->opts.native, err);
    tutti_nccl_work_free(&work);
    free(c.staged);
    free(c.filled);
    free(c.numbers);
    return status;
}

int tutti_nccl_parts_open(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    int status = 0;

    run->parts = calloc((size_t)run->load.own_count + 1, sizeof(run->parts[0]));
    if (run->parts == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++)
        status = open_part(run, i, err);
    return status;
}

void tutti_nccl_parts_close(struct tutti_nccl_loaded *run)
{
    for (uint32_t i = 0; run->parts != NULL && i < run->load.own_count; i++) {
        struct tutti_nccl_part *part = &run->parts[i];

        if (part->rank != NULL && !part->rank->gpu.lost) {
            (void)tutti_gpu_enter(&part->rank->gpu, NULL);
            close_events(part);
            if (part->memory != 0)
                (void)part->rank->gpu.driver.free(part->memory);
        }
        free(part->messages);
        free(part->launches);
        free(part->marks);
        free(part->units);
    }
    free(run->parts);
    run->parts = NULL;
}

/* The memory of the run loop's buffers is the host's. */
static void *host_buffer(const struct tutti_nccl_loaded *run, uint32_t own, enum tutti_buf buf)
{
    return tutti_handle_address(run->load.buffers->handles[own][buf]);
}

int tutti_nccl_parts_write(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        const struct tutti_nccl_part *part = &run->parts[i];

        status = tutti_gpu_enter(&part->rank->gpu, err);
        for (size_t b = 0; b < sizeof(bufs) / sizeof(bufs[0]) && status == 0; b++)
            if (bufs[b] != TUTTI_BUF_SCRATCH) /* the output, too: not all need be written */
                status = tutti_gpu_upload(&part->rank->gpu, part->addresses[bufs[b]],
                                          host_buffer(run, i, bufs[b]),
                                          (size_t)tutti_buf_size_of(&part->sizes, bufs[b]), err);
    }
    return status;
}

int tutti_nccl_parts_read(struct tutti_nccl_loaded *run, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < run->load.own_count && status == 0; i++) {
        const struct tutti_nccl_part *part = &run->parts[i];

        status = tutti_gpu_enter(&part->rank->gpu, err);
        for (size_t b = 0; b < sizeof(bufs) / sizeof(bufs[0]) && status == 0; b++)
            if (bufs[b] == TUTTI_BUF_OUT || bufs[b] == TUTTI_BUF_STATE)
                status = tutti_gpu_download(&part->rank->gpu, host_buffer(run, i, bufs[b]),
                                            part->addresses[bufs[b]],
                                            (size_t)tutti_buf_size_of(&part->sizes, bufs[b]), err);
    }
    return status;
}
