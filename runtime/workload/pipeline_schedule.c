/* A step of a pipeline as a schedule: tasks are COMPUTE steps, messages go between stages. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/pipeline.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "runtime/workload/pipeline_ways.h"

enum { LANE_WORK, LANES = TUTTI_LANES_OF_STAGES, REGIONS_OF_ENTRY = 8, NAME = 32 };

struct stage {
    struct tutti_stage_ends ends;
    uint64_t weights; /* in state; gradients behind them */
};

struct maker {
    const struct tutti_pipeline_schedule_params *params;
    const struct tutti_pipeline_params *pipeline;
    struct tutti_arena *arena; /* of all that follows, until the schedule is made */
    uint32_t stage_count;
    uint32_t task_count;
    struct stage *stages;
    uint64_t *record_bytes; /* [device]: of a micro-batch, in scratch */
    uint64_t *state_bytes;  /* [device] */
    struct tutti_work *work;
    uint32_t work_count;
    struct tutti_pipeline_task *tasks; /* of the device in hand */
    struct tutti_builder *builder;
    uint32_t step_count[LANES]; /* likewise */
};

static uint64_t boundary(const struct maker *m, uint32_t stage)
{
    return stage + 1 < m->stage_count ? m->params->boundary_bytes[stage] : 0;
}

/* ---- where things lie ------------------------------------------------------------------------ */

static uint64_t take(uint64_t *used, uint64_t bytes)
{
    uint64_t at = *used;

    *used = tutti_plus(*used, bytes);
    return at;
}

/* Neighbours on one device share what goes between them. Stages are placed in order. */
static void place(struct maker *m, uint32_t index)
{
    struct stage *s = &m->stages[index];
    const struct stage *before = index > 0 ? s - 1 : NULL;
    uint64_t *used;

    tutti_pipeline_place(m->pipeline, index, &s->ends.device, &s->ends.chunk);
    used = &m->record_bytes[s->ends.device];
    if (before != NULL && before->ends.device == s->ends.device) {
        s->ends.input = before->ends.output;
        s->ends.input_gradient = before->ends.output_gradient;
    } else if (before != NULL) {
        s->ends.input = take(used, boundary(m, index - 1));
        s->ends.input_gradient = take(used, boundary(m, index - 1));
    }
    s->ends.output = take(used, boundary(m, index));
    s->ends.output_gradient = take(used, boundary(m, index));
    s->weights =
        take(&m->state_bytes[s->ends.device], tutti_times(2, m->params->weight_bytes[index]));
}

/* ---- the work table -------------------------------------------------------------------------- */

struct entry {
    struct tutti_work *work;
    struct tutti_region *reads; /* room for REGIONS_OF_ENTRY, or two a chunk */
    struct tutti_region *writes;
};

static void add_read(struct entry *e, enum tutti_buf buf, uint64_t offset, uint64_t bytes)
{
    if (bytes > 0)
        e->reads[e->work->read_count++] =
            (struct tutti_region){.buf = (uint8_t)buf, .offset = offset, .bytes = bytes};
}

static void add_write(struct entry *e, enum tutti_buf buf, uint64_t offset, uint64_t bytes)
{
    if (bytes > 0)
        e->writes[e->work->write_count++] =
            (struct tutti_region){.buf = (uint8_t)buf, .offset = offset, .bytes = bytes};
}

/* False: no memory. */
static bool open_entry(struct maker *m, uint32_t number, const char *of, uint32_t index,
                       const char *what, tutti_ps time_ps, struct entry *ret)
{
    const uint32_t chunks = tutti_pipeline_chunks(m->pipeline);
    const uint32_t room = 2 * chunks > REGIONS_OF_ENTRY ? 2 * chunks : REGIONS_OF_ENTRY;
    char *name = tutti_arena_take(m->arena, NAME, 1);

    *ret = (struct entry){.work = &m->work[number],
                          .reads = tutti_arena_take(m->arena, room, sizeof(*ret->reads)),
                          .writes = tutti_arena_take(m->arena, room, sizeof(*ret->writes))};
    if (name == NULL || ret->reads == NULL || ret->writes == NULL)
        return false;
    (void)snprintf(name, NAME, "%s%" PRIu32 ".%s", of, index, what);
    *ret->work = (struct tutti_work){.name = name,
                                     .duration_ps = time_ps,
                                     .reads = ret->reads,
                                     .writes = ret->writes,
                                     .run = m->params->run,
                                     .context = m->params->run_context};
    return true;
}

static void add_input(struct entry *e, const struct maker *m, uint32_t stage)
{
    if (stage > 0)
        add_read(e, TUTTI_BUF_SCRATCH, m->stages[stage].ends.input, boundary(m, stage - 1));
}

static void add_output_gradient(struct entry *e, const struct maker *m, uint32_t stage)
{
    if (stage + 1 < m->stage_count)
        add_read(e, TUTTI_BUF_SCRATCH, m->stages[stage].ends.output_gradient, boundary(m, stage));
}

static void add_sums(struct entry *e, const struct maker *m, uint32_t stage)
{
    const uint64_t bytes = m->params->weight_bytes[stage];

    add_read(e, TUTTI_BUF_STATE, m->stages[stage].weights + bytes, bytes);
    add_write(e, TUTTI_BUF_STATE, m->stages[stage].weights + bytes, bytes);
}

static bool list_stage(struct maker *m, uint32_t stage)
{
    const struct tutti_stage_times *t = &m->params->times[stage];
    const struct stage *s = &m->stages[stage];
    const bool splits = tutti_pipeline_splits(m->pipeline);
    const uint64_t bytes = m->params->weight_bytes[stage];
    struct entry e;

    if (!open_entry(m, 3 * stage, "stage", stage, "forward", t->forward_ps, &e))
        return false;
    add_read(&e, TUTTI_BUF_STATE, s->weights, bytes);
    add_input(&e, m, stage);
    if (stage + 1 < m->stage_count)
        add_write(&e, TUTTI_BUF_SCRATCH, s->ends.output, boundary(m, stage));
    if (!open_entry(m, 3 * stage + 1, "stage", stage, "backward",
                    t->backward_ps + (splits ? 0 : t->weights_ps), &e))
        return false;
    add_read(&e, TUTTI_BUF_STATE, s->weights, bytes);
    add_input(&e, m, stage);
    add_output_gradient(&e, m, stage);
    if (stage > 0)
        add_write(&e, TUTTI_BUF_SCRATCH, s->ends.input_gradient, boundary(m, stage - 1));
    if (!splits)
        add_sums(&e, m, stage);
    if (!open_entry(m, 3 * stage + 2, "stage", stage, "weights", t->weights_ps, &e))
        return false;
    add_input(&e, m, stage);
    add_output_gradient(&e, m, stage);
    add_sums(&e, m, stage);
    return true;
}

static bool list_optimizer(struct maker *m, uint32_t device)
{
    struct entry e;

    if (!open_entry(m, 3 * m->stage_count + device, "device", device, "optimizer",
                    m->params->optimizer_ps, &e))
        return false;
    e.work->kind = TUTTI_WORK_OPTIMIZER;
    for (uint32_t chunk = 0; chunk < tutti_pipeline_chunks(m->pipeline); chunk++) {
        const uint32_t stage = tutti_pipeline_stage(m->pipeline, device, chunk);
        const uint64_t bytes = m->params->weight_bytes[stage];

        add_read(&e, TUTTI_BUF_STATE, m->stages[stage].weights, bytes);
        add_write(&e, TUTTI_BUF_STATE, m->stages[stage].weights, bytes);
        add_sums(&e, m, stage);
    }
    return true;
}

/* ---- programs -------------------------------------------------------------------------------- */

static uint32_t lane_of(const struct maker *m, uint32_t sender, uint32_t direction)
{
    return tutti_pipeline_lane(m->pipeline->device_count, sender, direction);
}

/* Appends a step that waits for step `after` of lane `of`; UINT32_MAX: for none. */
static uint32_t append(struct maker *m, uint32_t rank, uint32_t lane, struct tutti_step step,
                       uint32_t of, uint32_t after)
{
    if (after != UINT32_MAX) {
        step.flags |= TUTTI_STEP_DEP;
        step.dep_lane = (uint16_t)of;
        step.dep_step = after;
    }
    (void)tutti_builder_add(m->builder, rank, lane, &step, NULL); /* finish tells */
    return m->step_count[lane]++;
}

static struct tutti_pipeline_way way_of(const struct maker *m, uint32_t stage, enum tutti_pass pass)
{
    const struct stage *s = &m->stages[stage];

    return tutti_pipeline_way_of(
        stage > 0 ? &s[-1].ends : NULL, stage > 0 ? boundary(m, stage - 1) : 0, &s->ends,
        boundary(m, stage), stage + 1 < m->stage_count ? &s[1].ends : NULL, pass);
}

static void write_task(struct maker *m, uint32_t device, const struct tutti_pipeline_task *task)
{
    const uint32_t stage = tutti_pipeline_stage(m->pipeline, device, task->chunk);
    const struct tutti_pipeline_way way = way_of(m, stage, task->pass);
    const uint32_t entry = 3 * stage + (uint32_t)task->pass;
    const uint64_t shift = m->record_bytes[device] * task->micro_batch;
    struct tutti_step step = tutti_step_compute(&m->work[entry], entry);
    uint32_t lane = 0;
    uint32_t received = UINT32_MAX;
    uint32_t done;

    if (way.receives) {
        lane = lane_of(m, way.from, way.direction);
        received = append(m, device, lane,
                          tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_SCRATCH, way.in + shift},
                                          way.in_bytes, way.from),
                          0, UINT32_MAX);
    }
    step.src_buf = TUTTI_BUF_SCRATCH;
    step.src_offset = shift;
    done = append(m, device, LANE_WORK, step, lane, received);
    if (way.sends)
        (void)append(m, device, lane_of(m, device, way.direction),
                     tutti_step_send((struct tutti_buf_at){TUTTI_BUF_SCRATCH, way.out + shift},
                                     way.out_bytes, way.to),
                     LANE_WORK, done);
}

static void write_device(struct maker *m, uint32_t device)
{
    const uint32_t optimizer = 3 * m->stage_count + device;

    memset(m->step_count, 0, sizeof(m->step_count));
    tutti_pipeline_tasks(m->pipeline, device, m->tasks);
    for (uint32_t i = 0; i < m->task_count; i++)
        write_task(m, device, &m->tasks[i]);
    (void)append(m, device, LANE_WORK, tutti_step_compute(&m->work[optimizer], optimizer), 0,
                 UINT32_MAX);
}

/* ---- making ---------------------------------------------------------------------------------- */

static uint64_t largest(const uint64_t *values, uint32_t count)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static int open_builder(struct maker *m, struct tutti_err *err)
{
    const uint32_t devices = m->pipeline->device_count;
    const uint32_t messages = m->pipeline->micro_batches * tutti_pipeline_chunks(m->pipeline);
    const struct tutti_schedule_desc desc = {
        .name = "pipeline",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM},
        .rank_count = devices,
        .lane_count = LANES,
        .slot_count = messages, /* nobody waits to be rid of what is done */
        .scratch_bytes = tutti_times(largest(m->record_bytes, devices), m->pipeline->micro_batches),
        .state_bytes = largest(m->state_bytes, devices),
        .work = m->work,
        .work_count = m->work_count,
    };

    if (desc.scratch_bytes > INT64_MAX || desc.state_bytes > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a pipeline of more bytes than can be counted");
    return tutti_builder_new(&desc, &m->builder, err);
}

static int make(struct maker *m, struct tutti_schedule **ret, struct tutti_err *err)
{
    const uint32_t devices = m->pipeline->device_count;
    bool listed = true;
    int status;

    m->stages = tutti_arena_take(m->arena, m->stage_count, sizeof(*m->stages));
    m->record_bytes = tutti_arena_take(m->arena, devices, sizeof(*m->record_bytes));
    m->state_bytes = tutti_arena_take(m->arena, devices, sizeof(*m->state_bytes));
    m->work_count = 3 * m->stage_count + devices;
    m->work = tutti_arena_take(m->arena, m->work_count, sizeof(*m->work));
    m->tasks = tutti_arena_take(m->arena, m->task_count, sizeof(*m->tasks));
    if (m->stages == NULL || m->record_bytes == NULL || m->state_bytes == NULL || m->work == NULL ||
        m->tasks == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < m->stage_count; i++)
        place(m, i);
    for (uint32_t i = 0; i < m->stage_count && listed; i++)
        listed = list_stage(m, i);
    for (uint32_t i = 0; i < devices && listed; i++)
        listed = list_optimizer(m, i);
    status = listed ? open_builder(m, err) : tutti_nomem(err);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < devices; i++)
        write_device(m, i);
    return tutti_builder_finish(m->builder, ret, err);
}

static int check(const struct tutti_pipeline_schedule_params *p, struct tutti_err *err)
{
    int status = tutti_pipeline_check(p->pipeline, err);

    for (uint32_t i = 0; status == 0 && i < tutti_pipeline_stage_count(p->pipeline); i++)
        if (p->times[i].forward_ps < 0 || p->times[i].backward_ps < 0 || p->times[i].weights_ps < 0)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "stage %" PRIu32 " of a pipeline takes less than no time", i);
    return status;
}

int tutti_pipeline_schedule(const struct tutti_pipeline_schedule_params *given,
                            struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_pipeline_schedule_params params;
    struct maker m = {.params = &params};
    int status =
        tutti_take("tutti_pipeline_schedule_params", &params, sizeof(params), given,
                   TUTTI_BYTES_TO(struct tutti_pipeline_schedule_params, run_context), err);

    if (status == 0)
        status = check(&params, err);
    if (status < 0)
        return status;
    m.pipeline = params.pipeline;
    m.stage_count = tutti_pipeline_stage_count(m.pipeline);
    m.task_count = tutti_pipeline_task_count(m.pipeline);
    m.arena = tutti_arena_new();
    status = m.arena == NULL ? tutti_nomem(err) : make(&m, ret, err);
    if (m.arena != NULL)
        tutti_arena_free(m.arena);
    return status;
}
