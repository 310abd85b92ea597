/* A step of a cut model as a schedule: tasks piece by piece, with collectives between them;
 * messages between stages; gradients; the optimizer. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/coll.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "runtime/workload/parallel_plan.h"

enum { LANE_WORK, LANE_REDUCE = TUTTI_LANES_OF_STAGES, LANES = TUTTI_PARALLEL_LANES };

/* A collective that several steps call. */
struct callee {
    uint8_t axis;
    struct tutti_contract contract;
    struct tutti_schedule *schedule; /* NULL: the builder has it */
    uint32_t index;                  /* there */
};

struct maker {
    const struct tutti_parallel_plan *plan;
    const struct tutti_pipeline_params *pipeline;
    struct callee *callees;
    uint32_t callee_count;
    uint32_t callee_room;
    struct tutti_pipeline_task *tasks; /* of the device in hand */
    uint32_t *left;                    /* [chunk]: micro-batches whose gradients are to come */
    struct tutti_builder *builder;
    uint32_t rank;
    uint32_t device;
    uint32_t pipeline_number;
    uint32_t step_count[LANES]; /* of the rank in hand */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static struct tutti_contract contract_of(enum tutti_collective collective, enum tutti_dtype dtype,
                                         uint64_t count)
{
    return (struct tutti_contract){
        .collective = collective, .dtype = dtype, .op = TUTTI_SUM, .count = count};
}

static const struct callee *find(const struct maker *m, uint8_t axis,
                                 const struct tutti_contract *c)
{
    for (uint32_t i = 0; i < m->callee_count; i++)
        if (m->callees[i].axis == axis && m->callees[i].contract.collective == c->collective &&
            m->callees[i].contract.dtype == c->dtype && m->callees[i].contract.count == c->count)
            return &m->callees[i];
    return NULL;
}

static int generate(const struct maker *m, struct callee *callee, struct tutti_err *err)
{
    const struct tutti_parallel_schedule_params *p = &m->plan->params;
    const uint32_t size = callee->axis > 0 ? p->axes[callee->axis - 1].size : p->rank_count;
    const struct tutti_shape shape = tutti_shape_flat(size);
    const struct tutti_coll_params params = {.collective = callee->contract.collective,
                                             .dtype = callee->contract.dtype,
                                             .op = callee->contract.op,
                                             .count = callee->contract.count};

    if (p->collective != NULL)
        return p->collective(p->context, &params, callee->axis, size, &callee->schedule, err);
    return tutti_coll_generate("ring", &params, &shape, &callee->schedule, err);
}

/* Makes it unless it is known. */
static int want(struct maker *m, uint8_t axis, struct tutti_contract contract,
                struct tutti_err *err)
{
    const uint32_t size =
        axis > 0 ? m->plan->params.axes[axis - 1].size : m->plan->params.rank_count;
    struct callee *callee;
    int status;

    if (size < 2 || contract.count == 0 || find(m, axis, &contract) != NULL)
        return 0;
    if (m->callee_count == m->callee_room) {
        const uint32_t room = 2 * m->callee_room + 16;
        struct callee *more = realloc(m->callees, room * sizeof(*more));

        if (more == NULL)
            return tutti_nomem(err);
        m->callees = more;
        m->callee_room = room;
    }
    callee = &m->callees[m->callee_count];
    *callee = (struct callee){.axis = axis, .contract = contract};
    status = generate(m, callee, err);
    m->callee_count += status == 0;
    return status;
}

/* *ret_staging, *ret_reduce_staging: scratch that those of either lane need at most. */
static int make_callees(struct maker *m, uint64_t *ret_staging, uint64_t *ret_reduce_staging,
                        struct tutti_err *err)
{
    const struct tutti_parallel_plan *p = m->plan;
    uint32_t tasks_end;
    int status =
        want(m, 0, contract_of(TUTTI_ALLREDUCE, TUTTI_FLOAT64, p->params.report_elements), err);

    for (uint32_t s = 0; s < p->stage_count; s++)
        for (int pass = 0; pass < 3; pass++) {
            const uint32_t count = tutti_parallel_pieces(p, s, (enum tutti_pass)pass);
            const struct tutti_parallel_piece *pieces = p->params.stages[s].passes[pass].pieces;

            for (uint32_t i = 0; i < count && status == 0; i++)
                if (pieces[i].axis > 0)
                    status = want(
                        m, pieces[i].axis,
                        contract_of(pieces[i].collective, pieces[i].dtype, pieces[i].count), err);
        }
    tasks_end = m->callee_count;
    for (uint32_t s = 0; s < p->stage_count; s++)
        for (uint32_t i = 0; i < p->params.stages[s].reduction_count && status == 0; i++) {
            const struct tutti_parallel_reduction *r = &p->params.stages[s].reductions[i];

            if (r->axis > 0)
                status = want(m, r->axis,
                              contract_of(TUTTI_ALLREDUCE, p->params.gradients, r->elements), err);
        }
    for (uint32_t i = 0; i < m->callee_count; i++) {
        const uint64_t bytes = m->callees[i].schedule->scratch_bytes;

        *ret_reduce_staging = larger(*ret_reduce_staging, bytes);
        if (i < tasks_end)
            *ret_staging = larger(*ret_staging, bytes);
    }
    return status;
}

static int add_callees(struct maker *m, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < m->callee_count && status == 0; i++) {
        struct callee *c = &m->callees[i];

        status = tutti_builder_add_callee(m->builder, c->schedule, &c->index, err);
        if (status == 0)
            c->schedule = NULL;
    }
    return status;
}

/* ---- programs -------------------------------------------------------------------------------- */

static const uint32_t NOTHING = UINT32_MAX;

/* Appends a step that waits for step `after` of lane `of`; returns its number. */
static uint32_t append(struct maker *m, uint32_t lane, struct tutti_step step, uint32_t of,
                       uint32_t after)
{
    if (after != NOTHING) {
        step.flags |= TUTTI_STEP_DEP;
        step.dep_lane = (uint16_t)of;
        step.dep_step = after;
    }
    (void)tutti_builder_add(m->builder, m->rank, lane, &step, NULL); /* finish tells */
    return m->step_count[lane]++;
}

static uint32_t append_compute(struct maker *m, uint32_t entry, uint64_t shift, uint32_t of,
                               uint32_t after)
{
    struct tutti_step step = tutti_step_compute(&m->plan->work[entry], entry);

    step.src_buf = TUTTI_BUF_SCRATCH;
    step.src_offset = shift;
    return append(m, LANE_WORK, step, of, after);
}

/* False: nobody meets. */
static bool append_call(struct maker *m, uint32_t lane, uint8_t axis,
                        struct tutti_contract contract, struct tutti_buf_at in,
                        struct tutti_buf_at out, uint32_t after)
{
    const struct callee *callee = find(m, axis, &contract);
    const uint64_t staging = lane == LANE_REDUCE ? m->plan->reduce_staging : m->plan->staging;

    if (callee != NULL)
        (void)append(m, lane, tutti_step_call(callee->index, axis, in, out, staging), LANE_WORK,
                     after);
    return callee != NULL;
}

static struct tutti_pipeline_way way_of(const struct maker *m, uint32_t stage, enum tutti_pass pass)
{
    const struct tutti_parallel_place *s = &m->plan->places[stage];
    const struct tutti_parallel_stage *given = &m->plan->params.stages[stage];
    const bool is_last = stage + 1 == m->plan->stage_count;

    return tutti_pipeline_way_of(
        stage > 0 ? &s[-1].ends : NULL, stage > 0 ? given[-1].boundary_bytes : 0, &s->ends,
        is_last ? 0 : given->boundary_bytes, is_last ? NULL : &s[1].ends, pass);
}

static uint32_t lane_of(const struct maker *m, uint32_t sender, uint32_t direction)
{
    return tutti_pipeline_lane(m->pipeline->device_count, sender, direction);
}

static uint32_t rank_of(const struct maker *m, uint32_t device)
{
    return tutti_axis_rank(&m->plan->pipelines, m->pipeline_number, device);
}

enum { ALL_PIECES = -1 };

/* Gradients of a stage that are there behind a piece, or all, which step `after` of the tasks has
 * ended, for which the first collective waits; returns what the next would have to wait for. */
static uint32_t reduce(struct maker *m, uint32_t stage, int64_t piece, uint32_t after)
{
    const struct tutti_parallel_stage *s = &m->plan->params.stages[stage];
    struct tutti_buf_at at = {TUTTI_BUF_STATE, m->plan->places[stage].gradients};

    for (uint32_t i = 0; i < s->reduction_count; i++) {
        const struct tutti_parallel_reduction *r = &s->reductions[i];
        const bool is_there =
            piece == ALL_PIECES || piece == (int64_t)tutti_parallel_ready(m->plan, stage, i);

        if (is_there && r->axis > 0 &&
            append_call(m, LANE_REDUCE, r->axis,
                        contract_of(TUTTI_ALLREDUCE, m->plan->params.gradients, r->elements), at,
                        at, after))
            after = NOTHING;
        at.offset += r->elements * tutti_dtype_bytes(m->plan->params.gradients);
    }
    return after;
}

static void write_task(struct maker *m, const struct tutti_pipeline_task *task)
{
    const struct tutti_parallel_plan *p = m->plan;
    const uint32_t stage = tutti_pipeline_stage(m->pipeline, m->device, task->chunk);
    const struct tutti_parallel_piece *pieces = p->params.stages[stage].passes[task->pass].pieces;
    const struct tutti_parallel_exchange *x = p->places[stage].exchanges[task->pass];
    const struct tutti_pipeline_way way = way_of(m, stage, task->pass);
    const uint32_t count = tutti_parallel_pieces(p, stage, task->pass);
    const uint64_t shift = p->record_bytes * task->micro_batch;
    const bool ends = task->pass == tutti_parallel_sums_in(p) && --m->left[task->chunk] == 0;
    uint32_t lane = 0;
    uint32_t received = NOTHING;
    uint32_t done = NOTHING;

    if (way.receives) {
        lane = lane_of(m, way.from, way.direction);
        received = append(m, lane,
                          tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_SCRATCH, way.in + shift},
                                          way.in_bytes, rank_of(m, way.from)),
                          0, NOTHING);
    }
    for (uint32_t i = 0; i < count; i++) {
        done = append_compute(m, p->places[stage].first_entry[task->pass] + i, shift, lane,
                              i == 0 ? received : NOTHING);
        if (ends && p->params.overlap)
            (void)reduce(m, stage, i, done);
        if (pieces[i].axis > 0)
            (void)append_call(m, LANE_WORK, pieces[i].axis,
                              contract_of(pieces[i].collective, pieces[i].dtype, pieces[i].count),
                              (struct tutti_buf_at){TUTTI_BUF_SCRATCH, x[i].in + shift},
                              (struct tutti_buf_at){TUTTI_BUF_SCRATCH, x[i].out + shift}, NOTHING);
    }
    if (way.sends)
        (void)append(m, lane_of(m, m->device, way.direction),
                     tutti_step_send((struct tutti_buf_at){TUTTI_BUF_SCRATCH, way.out + shift},
                                     way.out_bytes, rank_of(m, way.to)),
                     LANE_WORK, done);
}

/* Once gradients are summed: what all say, and the update. */
static void write_end(struct maker *m)
{
    const struct tutti_parallel_plan *p = m->plan;
    const uint32_t devices = m->pipeline->device_count;
    const uint32_t sums = p->work_count - 2 * devices + m->device;
    const uint32_t reduced =
        m->step_count[LANE_REDUCE] > 0 ? m->step_count[LANE_REDUCE] - 1 : NOTHING;

    (void)append_compute(m, sums, 0, LANE_REDUCE, reduced);
    if (p->params.report_elements > 0) {
        (void)append_compute(m, TUTTI_PARALLEL_REPORT, 0, 0, NOTHING);
        (void)append_call(m, LANE_WORK, 0,
                          contract_of(TUTTI_ALLREDUCE, TUTTI_FLOAT64, p->params.report_elements),
                          (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->report},
                          (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->report_sum}, NOTHING);
    }
    (void)append_compute(m, sums + devices, 0, 0, NOTHING);
}

static void write_rank(struct maker *m, uint32_t rank)
{
    const uint32_t chunks = tutti_pipeline_chunks(m->pipeline);
    const uint32_t count = tutti_pipeline_task_count(m->pipeline);
    const bool found = tutti_axis_find(&m->plan->pipelines, rank, &m->pipeline_number, &m->device);
    uint32_t ended;

    assert(found);
    m->rank = rank;
    memset(m->step_count, 0, sizeof(m->step_count));
    for (uint32_t i = 0; i < chunks; i++)
        m->left[i] = m->pipeline->micro_batches;
    tutti_pipeline_tasks(m->pipeline, m->device, m->tasks);
    (void)append_compute(m, TUTTI_PARALLEL_INPUT, 0, 0, NOTHING);
    for (uint32_t i = 0; i < count; i++)
        write_task(m, &m->tasks[i]);
    ended = m->step_count[LANE_WORK] - 1;
    for (uint32_t i = 0; i < chunks && !m->plan->params.overlap; i++)
        ended = reduce(m, tutti_pipeline_stage(m->pipeline, m->device, i), ALL_PIECES, ended);
    write_end(m);
}

/* ---- making ---------------------------------------------------------------------------------- */

static int write_all(struct maker *m, uint64_t scratch_bytes, struct tutti_schedule **ret,
                     struct tutti_err *err)
{
    const struct tutti_parallel_plan *p = m->plan;
    const struct tutti_schedule_desc desc = {
        .name = "parallel",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM},
        .rank_count = p->params.rank_count,
        .lane_count = LANES,
        .scratch_bytes = scratch_bytes,
        .state_bytes = p->state_bytes,
        .axes = p->params.axes,
        .axis_count = p->params.axis_count,
        .work = p->work,
        .work_count = p->work_count,
    };
    int status = tutti_builder_new(&desc, &m->builder, err);

    if (status < 0)
        return status;
    status = add_callees(m, err);
    for (uint32_t rank = 0; rank < p->params.rank_count && status == 0; rank++)
        write_rank(m, rank);
    if (status == 0)
        return tutti_builder_finish(m->builder, ret, err);
    tutti_builder_free(m->builder);
    return status;
}

static int make(struct maker *m, struct tutti_parallel_plan *plan, struct tutti_arena *arena,
                struct tutti_schedule **ret, struct tutti_err *err)
{
    uint64_t staging = 0;
    uint64_t reduce_staging = 0;
    int status = make_callees(m, &staging, &reduce_staging, err);

    m->tasks = tutti_arena_take(arena, tutti_pipeline_task_count(m->pipeline), sizeof(*m->tasks));
    m->left = tutti_arena_take(arena, tutti_pipeline_chunks(m->pipeline), sizeof(*m->left));
    if (status == 0 && (m->tasks == NULL || m->left == NULL))
        status = tutti_nomem(err);
    if (status < 0)
        return status;
    plan->reduce_staging = tutti_plus(plan->staging, (staging + 63) / 64 * 64);
    reduce_staging = tutti_plus(plan->reduce_staging, reduce_staging);
    if (reduce_staging > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a step of more bytes than can be counted");
    return write_all(m, reduce_staging, ret, err);
}

int tutti_parallel_schedule(const struct tutti_parallel_schedule_params *params,
                            struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_parallel_plan plan;
    struct maker m = {.plan = &plan};
    int status =
        arena == NULL ? tutti_nomem(err) : tutti_parallel_plan_make(params, arena, &plan, err);

    if (status == 0) {
        m.pipeline = plan.params.pipeline;
        status = make(&m, &plan, arena, ret, err);
    }
    for (uint32_t i = 0; i < m.callee_count; i++)
        tutti_schedule_free(m.callees[i].schedule);
    free(m.callees);
    tutti_arena_free(arena);
    return status;
}
