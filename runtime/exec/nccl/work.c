/* What ranks do between the messages: REDUCE, COPY and COMPUTE as operations of our kernels, joined
 * where a lane adds to one place several times, and cut so that many blocks have a piece each. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/nccl/ranks.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

/* As planned: addresses are still offsets. */
struct tutti_nccl_op {
    struct tutti_level_stage at;
    uint32_t number;                      /* in the order of lanes: ties of a stage */
    uint8_t bufs[TUTTI_CUDA_SOURCES_MAX]; /* enum tutti_buf; TUTTI_BUF_COUNT: staging */
    uint64_t offsets[TUTTI_CUDA_SOURCES_MAX];
    uint32_t src_count;
    uint8_t dst_buf;
    uint64_t dst_offset;
    uint64_t bytes;
    uint64_t duration_ns;
    uint32_t divide_by;
    bool reduces;
    enum tutti_dtype dtype;
    enum tutti_op op;
    const struct tutti_step *work; /* NULL, or a COMPUTE that the host does */
    uint32_t work_lane;
    uint64_t work_index;
};

/* The lane that is being planned. */
struct planning {
    const struct tutti_nccl_loaded *run;
    const struct tutti_nccl_part *part;
    struct tutti_nccl_work *work;
    const uint64_t *staged;
    uint64_t step_first;        /* of the lane, in `staged` */
    struct tutti_nccl_op *last; /* of the lane, which what follows may join; or NULL */
    uint32_t last_stage;        /* of the last step in it */
};

static void add_source(struct tutti_nccl_op *op, unsigned buf, uint64_t offset)
{
    op->bufs[op->src_count] = (uint8_t)buf;
    op->offsets[op->src_count++] = offset;
}

static void add_src(const struct planning *p, struct tutti_nccl_op *op,
                    const struct tutti_step *step, uint64_t index, bool fused)
{
    if (fused)
        add_source(op, TUTTI_BUF_COUNT, p->staged[p->step_first + index - 1]);
    else
        add_source(op, step->src_buf, step->src_offset);
}

/* Adds to where the operation before has just written, one stage later, with nothing ordered in
 * between: then what it adds is there already when that operation begins. */
static bool joins(const struct planning *p, const struct tutti_step *step,
                  struct tutti_level_stage at, struct tutti_reduction r)
{
    const struct tutti_nccl_op *last = p->last;

    return last != NULL && step->kind == TUTTI_REDUCE && last->reduces && last->divide_by == 0 &&
           last->at.level == at.level && p->last_stage + 1 == at.stage &&
           last->dst_buf == step->acc_buf && last->dst_offset == step->acc_offset &&
           last->dst_buf == step->dst_buf && last->dst_offset == step->dst_offset &&
           last->bytes == step->bytes && last->dtype == r.dtype && last->op == r.op &&
           last->src_count < TUTTI_CUDA_SOURCES_MAX;
}

static void plan_compute(struct planning *p, const struct tutti_step *step,
                         struct tutti_level_stage at, uint32_t lane, uint64_t index)
{
    const struct tutti_schedule *schedule = p->run->load.schedule;
    bool works = step->peer != 0 && schedule->work[step->peer - 1].run != NULL;

    p->work->ops[p->work->op_count] = (struct tutti_nccl_op){
        .at = at,
        .number = p->work->op_count,
        .duration_ns = works ? 0 : (uint64_t)(step->duration_ps + 999) / 1000,
        .work = works ? step : NULL,
        .work_lane = lane,
        .work_index = index,
    };
    p->work->op_count++;
    p->last = NULL;
}

static void plan_data(struct planning *p, const struct tutti_step *step,
                      struct tutti_level_stage at, uint64_t index, bool fused)
{
    struct tutti_reduction r = tutti_step_reduction(p->run->load.schedule, step);
    bool last = (step->flags & TUTTI_STEP_LAST) != 0 && r.op == TUTTI_AVG;
    struct tutti_nccl_op *op = p->last;

    if (step->bytes == 0)
        return;
    if (joins(p, step, at, r)) {
        add_src(p, op, step, index, fused);
    } else {
        op = &p->work->ops[p->work->op_count];
        *op = (struct tutti_nccl_op){.at = at,
                                     .number = p->work->op_count++,
                                     .dst_buf = step->dst_buf,
                                     .dst_offset = step->dst_offset,
                                     .bytes = step->bytes,
                                     .reduces = step->kind == TUTTI_REDUCE,
                                     .dtype = r.dtype,
                                     .op = r.op};
        if (op->reduces)
            add_source(op, step->acc_buf, step->acc_offset);
        add_src(p, op, step, index, fused);
        p->last = op;
    }
    p->last_stage = at.stage;
    if (last) {
        op->divide_by = r.divisor;
        op->reduces = true;
    }
}

static void plan_lane(struct planning *p, uint32_t lane)
{
    const struct tutti_nccl_loaded *run = p->run;
    uint32_t lane_count = run->load.schedule->lane_count;
    uint32_t rank = p->part->rank->rank;
    const struct tutti_program_lane *program =
        &run->program.lanes[(rank - run->load.first_rank) * lane_count + lane];
    const struct tutti_level_stage *stages =
        &run->levels.stages[run->levels.step_first[rank * lane_count + lane]];
    bool fused = false;

    p->last = NULL;
    for (uint64_t i = 0; i < program->step_count; i++) {
        const struct tutti_step *step = &program->steps[i];

        if ((step->flags & TUTTI_STEP_DEP) != 0)
            p->last = NULL;
        if (step->kind == TUTTI_COMPUTE)
            plan_compute(p, step, stages[i], lane, i);
        else if (step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY)
            plan_data(p, step, stages[i], i, fused);
        fused = step->kind == TUTTI_RECV && (step->flags & TUTTI_STEP_FUSE) != 0;
    }
    p->step_first += program->step_count;
}

/* Those of a kernel next to each other within a stage. */
static int by_place(const void *left, const void *right)
{
    const struct tutti_nccl_op *a = left;
    const struct tutti_nccl_op *b = right;

    if (a->at.level != b->at.level)
        return a->at.level < b->at.level ? -1 : 1;
    if (a->at.stage != b->at.stage)
        return a->at.stage < b->at.stage ? -1 : 1;
    if (a->dtype != b->dtype)
        return a->dtype < b->dtype ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

int tutti_nccl_work_plan(const struct tutti_nccl_loaded *run, const struct tutti_nccl_part *part,
                         const uint64_t *staged, struct tutti_nccl_work *work,
                         struct tutti_err *err)
{
    struct planning p = {.run = run, .part = part, .work = work, .staged = staged};
    uint32_t lane_count = run->load.schedule->lane_count;
    uint32_t first = (part->rank->rank - run->load.first_rank) * lane_count;
    uint64_t step_count = 0;

    for (uint32_t l = 0; l < lane_count; l++)
        step_count += run->program.lanes[first + l].step_count;
    work->ops = calloc((size_t)step_count + 1, sizeof(*work->ops));
    if (work->ops == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < lane_count; l++)
        plan_lane(&p, l);
    if (work->op_count > 0)
        qsort(work->ops, work->op_count, sizeof(*work->ops), by_place);
    return 0;
}

/* ---- pieces ---- */

enum { PIECE_BYTES = 16 << 10, THREADS = 512 };

static bool same_launch(const struct tutti_nccl_op *a, const struct tutti_nccl_op *b)
{
    return a->at.level == b->at.level && a->at.stage == b->at.stage && a->dtype == b->dtype &&
           a->op == b->op && a->work == NULL && b->work == NULL;
}

static uint64_t address_of(const struct tutti_nccl_part *part, unsigned buf, uint64_t offset)
{
    return (buf == TUTTI_BUF_COUNT ? part->staging : part->addresses[buf]) + offset;
}

/* Piece `k` of `count`, each a multiple of 512 bytes but the last. */
static struct tutti_cuda_op piece_of(const struct tutti_nccl_part *part,
                                     const struct tutti_nccl_op *op, uint32_t k, uint32_t count)
{
    uint64_t share = (op->bytes / count + 511) / 512 * 512;
    uint64_t begin = k * share < op->bytes ? k * share : op->bytes;
    uint64_t end = k + 1 == count || begin + share > op->bytes ? op->bytes : begin + share;
    struct tutti_cuda_op piece = {.bytes = end - begin,
                                  .duration_ns = op->duration_ns,
                                  .divide_by = op->divide_by,
                                  .src_count = (uint16_t)op->src_count,
                                  .dst_count = op->src_count > 0,
                                  .flagged = 1};

    for (uint32_t s = 0; s < op->src_count; s++)
        piece.src[s] = address_of(part, op->bufs[s], op->offsets[s]) + begin;
    if (op->src_count > 0)
        piece.dst[0] = address_of(part, op->dst_buf, op->dst_offset) + begin;
    return piece;
}

static uint32_t pieces_for(uint64_t bytes, uint32_t most)
{
    uint64_t wanted = bytes / PIECE_BYTES;

    return wanted < 1 ? 1 : wanted > most ? most : (uint32_t)wanted;
}

static int find_kernel(struct tutti_nccl_part *part, const struct tutti_nccl_op *op, void **ret,
                       struct tutti_err *err)
{
    struct tutti_gpu *gpu = &part->rank->gpu;
    char name[64];
    int registers = 0;
    int status;

    (void)snprintf(name, sizeof(name), "tutti_play_%s_%s", tutti_dtype_name(op->dtype),
                   tutti_op_name(op->op));
    status = CALL(gpu, module_function, ret, gpu->module, name);
    if (status == 0) /* also loads it, where that is put off */
        status = CALL(gpu, function_attribute, &registers, TUTTI_CU_FUNCTION_REGISTERS, *ret);
    return status;
}

/* Operations [first, end) at one time: as many blocks as the GPU has multiprocessors. */
static int cut_launch(struct tutti_nccl_part *part, struct tutti_nccl_work *work, uint32_t first,
                      uint32_t end, struct tutti_err *err)
{
    uint32_t blocks = (uint32_t)part->rank->gpu.multiprocessor_count;
    uint32_t most = (blocks + end - first - 1) / (end - first); /* of an operation */
    struct tutti_nccl_launch *launch = &part->launches[part->launch_count++];

    launch->at = work->ops[first].at;
    launch->lane_first = work->lane_count;
    launch->work = work->ops[first].work;
    launch->work_lane = work->ops[first].work_lane;
    launch->work_index = work->ops[first].work_index;
    if (launch->work != NULL)
        return 0;
    for (uint32_t i = first; i < end; i++) {
        uint32_t count = pieces_for(work->ops[i].bytes, most);

        for (uint32_t k = 0; k < count; k++) {
            work->lanes[work->lane_count++] =
                (struct tutti_cuda_lane){.op_first = work->piece_count, .op_count = 1};
            work->pieces[work->piece_count++] = piece_of(part, &work->ops[i], k, count);
        }
    }
    launch->lane_count = work->lane_count - launch->lane_first;
    return find_kernel(part, &work->ops[first], &launch->kernel, err);
}

int tutti_nccl_work_cut(struct tutti_nccl_part *part, struct tutti_nccl_work *work,
                        struct tutti_err *err)
{
    int status = 0;
    uint32_t end;

    part->launches = calloc((size_t)work->op_count + 1, sizeof(part->launches[0]));
    work->pieces = calloc((size_t)tutti_nccl_work_pieces(part, work) + 1, sizeof(*work->pieces));
    work->lanes = calloc((size_t)tutti_nccl_work_pieces(part, work) + 1, sizeof(*work->lanes));
    if (part->launches == NULL || work->pieces == NULL || work->lanes == NULL)
        return tutti_nomem(err);
    for (uint32_t first = 0; first < work->op_count && status == 0; first = end) {
        for (end = first + 1;
             end < work->op_count && same_launch(&work->ops[first], &work->ops[end]);)
            end++;
        status = cut_launch(part, work, first, end, err);
    }
    return status;
}

uint32_t tutti_nccl_work_pieces(const struct tutti_nccl_part *part,
                                const struct tutti_nccl_work *work)
{
    uint32_t blocks = (uint32_t)part->rank->gpu.multiprocessor_count;
    uint32_t count = 0;

    for (uint32_t i = 0; i < work->op_count; i++)
        count += pieces_for(work->ops[i].bytes, blocks);
    return count;
}

void tutti_nccl_work_free(struct tutti_nccl_work *work)
{
    free(work->ops);
    free(work->pieces);
    free(work->lanes);
    *work = (struct tutti_nccl_work){0};
}
