/* Where everything of a cut step lies, and the entries of its work table. */
#include "runtime/workload/parallel_plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { LINE = 64, NAME = 40, PIECES_MAX = 1 << 20 };

bool tutti_parallel_meets(const struct tutti_parallel_plan *p, uint8_t axis)
{
    return axis > 0 && p->params.axes[axis - 1].size > 1;
}

uint32_t tutti_parallel_pieces(const struct tutti_parallel_plan *p, uint32_t stage,
                               enum tutti_pass pass)
{
    if (pass == TUTTI_PASS_WEIGHTS && !tutti_pipeline_splits(p->params.pipeline))
        return 0;
    return p->params.stages[stage].passes[pass].piece_count;
}

enum tutti_pass tutti_parallel_sums_in(const struct tutti_parallel_plan *p)
{
    return tutti_pipeline_splits(p->params.pipeline) ? TUTTI_PASS_WEIGHTS : TUTTI_PASS_BACKWARD;
}

uint32_t tutti_parallel_ready(const struct tutti_parallel_plan *p, uint32_t stage,
                              uint32_t reduction)
{
    const uint32_t count = tutti_parallel_pieces(p, stage, tutti_parallel_sums_in(p));

    return count - 1 - p->params.stages[stage].reductions[reduction].early;
}

/* ---- what can be ----------------------------------------------------------------------------- */

static int check_piece(const struct tutti_parallel_plan *p,
                       const struct tutti_parallel_piece *piece, bool is_last, uint32_t stage,
                       struct tutti_err *err)
{
    if (piece->duration_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a piece of stage '%" PRIu32 "' takes less than no time", stage);
    if (piece->axis > p->params.axis_count || (is_last && piece->axis > 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "a piece of stage '%" PRIu32 "' with axis '%u' behind it (1 to %" PRIu32
                          "; behind the last of a pass none)",
                          stage, (unsigned)piece->axis, p->params.axis_count);
    if (piece->axis > 0 && piece->collective != TUTTI_ALLREDUCE &&
        piece->collective != TUTTI_ALLGATHER && piece->collective != TUTTI_REDUCESCATTER &&
        piece->collective != TUTTI_ALLTOALL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a collective '%s' between pieces (allreduce, allgather, reducescatter "
                          "or alltoall)",
                          tutti_collective_name(piece->collective));
    if (tutti_times(piece->count, 16 * (uint64_t)p->params.rank_count) > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a collective of '%" PRIu64 "' elements between pieces", piece->count);
    return 0;
}

static int check_stage(const struct tutti_parallel_plan *p, uint32_t index, struct tutti_err *err)
{
    const struct tutti_parallel_stage *s = &p->params.stages[index];
    int status = 0;

    for (int pass = 0; pass < 3 && status == 0; pass++) {
        const uint32_t count = tutti_parallel_pieces(p, index, (enum tutti_pass)pass);
        const bool is_pass =
            pass != TUTTI_PASS_WEIGHTS || tutti_pipeline_splits(p->params.pipeline);

        if (is_pass && (count == 0 || count > PIECES_MAX))
            return tutti_fail(err, TUTTI_EINVAL,
                              "a pass of stage '%" PRIu32 "' of %" PRIu32 " pieces (1 to %d)",
                              index, count, PIECES_MAX);
        for (uint32_t i = 0; i < count && status == 0; i++)
            status = check_piece(p, &s->passes[pass].pieces[i], i + 1 == count, index, err);
    }
    for (uint32_t i = 0; i < s->reduction_count && status == 0; i++)
        if (s->reductions[i].early >= tutti_parallel_pieces(p, index, tutti_parallel_sums_in(p)))
            status = tutti_fail(err, TUTTI_EINVAL,
                                "gradients of stage '%" PRIu32 "' are there '%" PRIu32
                                "' pieces before the last of a pass of %" PRIu32,
                                index, s->reductions[i].early,
                                tutti_parallel_pieces(p, index, tutti_parallel_sums_in(p)));
        else if (s->reductions[i].axis > p->params.axis_count ||
                 s->reductions[i].elements > UINT64_C(1) << 56)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "%" PRIu64 " gradients of stage '%" PRIu32
                                "' that axis '%u' reduces (0 to %" PRIu32 ")",
                                s->reductions[i].elements, index, (unsigned)s->reductions[i].axis,
                                p->params.axis_count);
    return status;
}

static int check(struct tutti_parallel_plan *p, struct tutti_err *err)
{
    const struct tutti_parallel_schedule_params *q = &p->params;
    uint32_t group;
    uint32_t member;
    int status = tutti_pipeline_check(q->pipeline, err);

    if (status < 0)
        return status;
    if (q->rank_count == 0 || q->axis_count > TUTTI_AXES_MAX || q->pipeline_axis > q->axis_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a step of '%" PRIu32 "' ranks, the pipelines axis '%" PRIu32
                          "' of %" PRIu32,
                          q->rank_count, q->pipeline_axis, q->axis_count);
    p->pipelines = q->pipeline_axis > 0 ? q->axes[q->pipeline_axis - 1]
                                        : tutti_mesh_axis("all", 0, &q->rank_count, 1, 0);
    if (p->pipelines.size != q->pipeline->device_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "pipelines of '%" PRIu32 "' devices on an axis of %" PRIu32,
                          q->pipeline->device_count, p->pipelines.size);
    for (uint32_t rank = 0; rank < q->rank_count; rank++)
        if (!tutti_axis_find(&p->pipelines, rank, &group, &member))
            return tutti_fail(err, TUTTI_EINVAL, "rank '%" PRIu32 "' is in no pipeline", rank);
    for (uint32_t i = 0; i < p->stage_count && status == 0; i++)
        status = check_stage(p, i, err);
    return status;
}

/* ---- where things lie ------------------------------------------------------------------------ */

/* Bytes on lines of their own, so that what two ranks write is in no line of both. */
static uint64_t take(uint64_t *used, uint64_t bytes)
{
    const uint64_t at = *used;

    *used = tutti_plus(at, tutti_plus(bytes, LINE - 1) / LINE * LINE);
    return at;
}

static uint64_t boundary(const struct tutti_parallel_plan *p, uint32_t stage)
{
    return stage + 1 < p->stage_count ? p->params.stages[stage].boundary_bytes : 0;
}

/* Ranks of a group bring and take as many bytes as the contract says; of an all-reduce in place. */
static struct tutti_parallel_exchange place_exchange(const struct tutti_parallel_plan *p,
                                                     const struct tutti_parallel_piece *piece,
                                                     uint64_t *used)
{
    struct tutti_parallel_exchange e = {0};
    struct tutti_contract contract = {.collective = piece->collective,
                                      .dtype = piece->dtype,
                                      .op = TUTTI_SUM,
                                      .count = piece->count};

    if (!tutti_parallel_meets(p, piece->axis))
        return e;
    tutti_contract_bytes(&contract, p->params.axes[piece->axis - 1].size, &e.in_bytes,
                         &e.out_bytes);
    e.in = take(used, e.in_bytes);
    e.out = piece->collective == TUTTI_ALLREDUCE ? e.in : take(used, e.out_bytes);
    return e;
}

static bool place_exchanges(struct tutti_parallel_plan *p, struct tutti_arena *arena,
                            uint32_t index, uint64_t *used)
{
    struct tutti_parallel_place *s = &p->places[index];

    for (int pass = 0; pass < 3; pass++) {
        const uint32_t count = tutti_parallel_pieces(p, index, (enum tutti_pass)pass);

        s->exchanges[pass] =
            tutti_arena_take(arena, (size_t)count + 1, sizeof(s->exchanges[pass][0]));
        if (s->exchanges[pass] == NULL)
            return false;
        for (uint32_t i = 0; i < count; i++)
            s->exchanges[pass][i] =
                place_exchange(p, &p->params.stages[index].passes[pass].pieces[i], used);
    }
    return true;
}

/* Bytes of a device: of a micro-batch in scratch, and in state. */
struct used {
    uint64_t record;
    uint64_t weights;
    uint64_t gradients;
};

static bool place_stage(struct tutti_parallel_plan *p, struct tutti_arena *arena, uint32_t index,
                        struct used *devices)
{
    const struct tutti_parallel_stage *stage = &p->params.stages[index];
    struct tutti_parallel_place *s = &p->places[index];
    const struct tutti_parallel_place *before = index > 0 ? s - 1 : NULL;
    uint64_t elements = 0;
    struct used *used;

    tutti_pipeline_place(p->params.pipeline, index, &s->ends.device, &s->ends.chunk);
    used = &devices[s->ends.device];
    if (before != NULL && before->ends.device == s->ends.device) {
        s->ends.input = before->ends.output;
        s->ends.input_gradient = before->ends.output_gradient;
    } else if (before != NULL) {
        s->ends.input = take(&used->record, boundary(p, index - 1));
        s->ends.input_gradient = take(&used->record, boundary(p, index - 1));
    }
    s->ends.output = take(&used->record, boundary(p, index));
    s->ends.output_gradient = take(&used->record, boundary(p, index));
    for (uint32_t i = 0; i < stage->reduction_count; i++)
        elements = tutti_plus(elements, stage->reductions[i].elements);
    s->weight_bytes = tutti_times(elements, tutti_dtype_bytes(p->params.weights));
    s->gradient_bytes = tutti_times(elements, tutti_dtype_bytes(p->params.gradients));
    s->weights = take(&used->weights, s->weight_bytes);
    s->gradients = take(&used->gradients, s->gradient_bytes);
    return place_exchanges(p, arena, index, &used->record);
}

/* Gradients lie behind the weights of all chunks of any device. */
static int place_all(struct tutti_parallel_plan *p, struct tutti_arena *arena,
                     struct tutti_err *err)
{
    const uint32_t devices = p->params.pipeline->device_count;
    struct used *used = tutti_arena_take(arena, devices, sizeof(*used));
    uint64_t gradients = 0;
    uint64_t at;

    p->places = tutti_arena_take(arena, p->stage_count, sizeof(*p->places));
    if (used == NULL || p->places == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < p->stage_count; i++)
        if (!place_stage(p, arena, i, used))
            return tutti_nomem(err);
    p->record_bytes = LINE;
    for (uint32_t i = 0; i < devices; i++) {
        p->record_bytes = used[i].record > p->record_bytes ? used[i].record : p->record_bytes;
        p->weight_bytes = used[i].weights > p->weight_bytes ? used[i].weights : p->weight_bytes;
        gradients = used[i].gradients > gradients ? used[i].gradients : gradients;
    }
    for (uint32_t i = 0; i < p->stage_count; i++)
        p->places[i].gradients = tutti_plus(p->places[i].gradients, p->weight_bytes);
    p->state_bytes = tutti_plus(p->weight_bytes, gradients);
    at = tutti_times(p->record_bytes, p->params.pipeline->micro_batches);
    p->report = take(&at, (uint64_t)p->params.report_elements * sizeof(double));
    p->report_sum = p->params.rank_count > 1
                        ? take(&at, (uint64_t)p->params.report_elements * sizeof(double))
                        : p->report;
    p->sums = take(&at, sizeof(double));
    p->staging = at;
    if (at > INT64_MAX || p->state_bytes > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a step of more bytes than can be counted");
    return 0;
}

/* ---- the work table -------------------------------------------------------------------------- */

struct entry {
    struct tutti_work *work;
    struct tutti_region *reads;
    struct tutti_region *writes;
};

static void add(struct tutti_region *to, uint32_t *count, enum tutti_buf buf, uint8_t whole,
                uint64_t offset, uint64_t bytes)
{
    if (bytes > 0)
        to[(*count)++] = (struct tutti_region){
            .buf = (uint8_t)buf, .whole = whole, .offset = offset, .bytes = bytes};
}

static void add_read(struct entry *e, enum tutti_buf buf, uint64_t offset, uint64_t bytes)
{
    add(e->reads, &e->work->read_count, buf, 0, offset, bytes);
}

static void add_write(struct entry *e, enum tutti_buf buf, uint64_t offset, uint64_t bytes)
{
    add(e->writes, &e->work->write_count, buf, 0, offset, bytes);
}

/* `room` regions of either kind; false: no memory. */
static bool open_entry(struct tutti_parallel_plan *p, struct tutti_arena *arena, uint32_t number,
                       tutti_ps time_ps, uint32_t room, struct entry *ret)
{
    char *name = tutti_arena_take(arena, NAME, 1);

    *ret = (struct entry){.work = &p->work[number],
                          .reads = tutti_arena_take(arena, room, sizeof(*ret->reads)),
                          .writes = tutti_arena_take(arena, room, sizeof(*ret->writes))};
    if (name == NULL || ret->reads == NULL || ret->writes == NULL)
        return false;
    *ret->work = (struct tutti_work){.name = name,
                                     .duration_ps = time_ps,
                                     .reads = ret->reads,
                                     .writes = ret->writes,
                                     .run = p->params.run,
                                     .context = p->params.run_context};
    return true;
}

static char *name_of(const struct entry *e)
{
    return (char *)(uintptr_t)e->work->name; /* of open_entry */
}

/* Gradients of weights that a piece adds to. */
static void add_sums(struct entry *e, const struct tutti_parallel_plan *p, uint32_t stage,
                     uint32_t piece)
{
    const struct tutti_parallel_stage *s = &p->params.stages[stage];
    uint64_t at = p->places[stage].gradients;

    for (uint32_t i = 0; i < s->reduction_count; i++) {
        const uint64_t bytes = s->reductions[i].elements * tutti_dtype_bytes(p->params.gradients);

        if (piece <= tutti_parallel_ready(p, stage, i)) {
            add_read(e, TUTTI_BUF_STATE, at, bytes);
            add_write(e, TUTTI_BUF_STATE, at, bytes);
        }
        at += bytes;
    }
}

/* What a pass as a whole reads at its beginning and leaves at its end. */
static void add_ends(struct entry *e, const struct tutti_parallel_plan *p, uint32_t stage,
                     enum tutti_pass pass, bool is_last)
{
    const struct tutti_parallel_place *s = &p->places[stage];
    const uint64_t before = stage > 0 ? boundary(p, stage - 1) : 0;

    if (pass != TUTTI_PASS_WEIGHTS)
        add_read(e, TUTTI_BUF_STATE, s->weights, s->weight_bytes);
    add_read(e, TUTTI_BUF_SCRATCH, s->ends.input, before);
    if (pass != TUTTI_PASS_FORWARD)
        add_read(e, TUTTI_BUF_SCRATCH, s->ends.output_gradient, boundary(p, stage));
    if (is_last && pass == TUTTI_PASS_FORWARD)
        add_write(e, TUTTI_BUF_SCRATCH, s->ends.output, boundary(p, stage));
    if (is_last && pass == TUTTI_PASS_BACKWARD)
        add_write(e, TUTTI_BUF_SCRATCH, s->ends.input_gradient, before);
}

static bool list_pass(struct tutti_parallel_plan *p, struct tutti_arena *arena, uint32_t stage,
                      enum tutti_pass pass)
{
    static const char *const names[] = {"forward", "backward", "weights"};
    const struct tutti_parallel_pass *q = &p->params.stages[stage].passes[pass];
    const uint32_t count = tutti_parallel_pieces(p, stage, pass);
    const struct tutti_parallel_exchange *x = p->places[stage].exchanges[pass];
    const uint32_t room = 8 + p->params.stages[stage].reduction_count;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t number = p->places[stage].first_entry[pass] + i;
        struct entry e;

        if (!open_entry(p, arena, number, q->pieces[i].duration_ps, room, &e))
            return false;
        (void)snprintf(name_of(&e), NAME,
                       i > 0 ? "stage%" PRIu32 ".%s.%" PRIu32 : "stage%" PRIu32 ".%s", stage,
                       names[pass], i);
        add_ends(&e, p, stage, pass, i + 1 == count);
        if (pass == tutti_parallel_sums_in(p))
            add_sums(&e, p, stage, i);
        if (i > 0)
            add(e.reads, &e.work->read_count, TUTTI_BUF_SCRATCH,
                q->pieces[i - 1].collective == TUTTI_ALLREDUCE ? q->pieces[i - 1].axis + 1u : 0,
                x[i - 1].out, x[i - 1].out_bytes);
        add_write(&e, TUTTI_BUF_SCRATCH, x[i].in, x[i].in_bytes);
    }
    return true;
}

/* Of each device what sees gradients summed: of all its chunks, in order. */
static bool list_device(struct tutti_parallel_plan *p, struct tutti_arena *arena, uint32_t device,
                        bool updates)
{
    const struct tutti_pipeline_params *q = p->params.pipeline;
    const uint32_t number =
        p->work_count - (updates ? q->device_count : 2 * q->device_count) + device;
    uint32_t room = 4;
    struct entry e;

    for (uint32_t c = 0; c < tutti_pipeline_chunks(q); c++)
        room += 2 + p->params.stages[tutti_pipeline_stage(q, device, c)].reduction_count;
    if (!open_entry(p, arena, number, updates ? p->params.optimizer_ps : 0, room, &e))
        return false;
    (void)snprintf(name_of(&e), NAME, "device%" PRIu32 ".%s", device,
                   updates ? "optimizer" : "sums");
    e.work->kind = TUTTI_WORK_OPTIMIZER;
    for (uint32_t c = 0; c < tutti_pipeline_chunks(q); c++) {
        const uint32_t stage = tutti_pipeline_stage(q, device, c);
        const struct tutti_parallel_stage *s = &p->params.stages[stage];
        const struct tutti_parallel_place *place = &p->places[stage];
        uint64_t at = place->gradients;

        for (uint32_t i = 0; i < s->reduction_count; i++) {
            const uint64_t bytes =
                s->reductions[i].elements * tutti_dtype_bytes(p->params.gradients);
            const uint8_t axis = s->reductions[i].axis;

            add(e.reads, &e.work->read_count, TUTTI_BUF_STATE,
                tutti_parallel_meets(p, axis) ? (uint8_t)(axis + 1) : 0, at, bytes);
            at += bytes;
        }
        if (updates) {
            add_read(&e, TUTTI_BUF_STATE, place->weights, place->weight_bytes);
            add_write(&e, TUTTI_BUF_STATE, place->weights, place->weight_bytes);
        }
    }
    if (updates)
        add(e.reads, &e.work->read_count, TUTTI_BUF_SCRATCH, p->params.rank_count > 1 ? 1 : 0,
            p->report_sum, (uint64_t)p->params.report_elements * sizeof(double));
    else if (p->params.report_elements > 0)
        add_write(&e, TUTTI_BUF_SCRATCH, p->sums, sizeof(double));
    return true;
}

static bool list_step(struct tutti_parallel_plan *p, struct tutti_arena *arena)
{
    struct entry e;

    if (!open_entry(p, arena, TUTTI_PARALLEL_INPUT, p->params.input_ps, 1, &e))
        return false;
    (void)snprintf(name_of(&e), NAME, "input");
    e.work->kind = TUTTI_WORK_INPUT;
    if (!open_entry(p, arena, TUTTI_PARALLEL_REPORT, 0, 1, &e))
        return false;
    (void)snprintf(name_of(&e), NAME, "report");
    if (p->params.report_elements > 0) {
        add_read(&e, TUTTI_BUF_SCRATCH, p->sums, sizeof(double));
        add_write(&e, TUTTI_BUF_SCRATCH, p->report,
                  (uint64_t)p->params.report_elements * sizeof(double));
    }
    return true;
}

static int list_work(struct tutti_parallel_plan *p, struct tutti_arena *arena,
                     struct tutti_err *err)
{
    const uint32_t devices = p->params.pipeline->device_count;
    uint64_t count = TUTTI_PARALLEL_STAGES;
    bool listed = true;

    for (uint32_t i = 0; i < p->stage_count; i++)
        for (int pass = 0; pass < 3; pass++) {
            p->places[i].first_entry[pass] = (uint32_t)count;
            count += tutti_parallel_pieces(p, i, (enum tutti_pass)pass);
            if (count > PIECES_MAX)
                return tutti_fail(err, TUTTI_EINVAL, "a step of more than %d pieces", PIECES_MAX);
        }
    p->work_count = (uint32_t)count + 2 * devices;
    p->work = tutti_arena_take(arena, p->work_count, sizeof(*p->work));
    listed = p->work != NULL && list_step(p, arena);
    for (uint32_t i = 0; i < p->stage_count; i++)
        for (int pass = 0; pass < 3 && listed; pass++)
            listed = list_pass(p, arena, i, (enum tutti_pass)pass);
    for (uint32_t i = 0; i < devices && listed; i++)
        listed = list_device(p, arena, i, false) && list_device(p, arena, i, true);
    return listed ? 0 : tutti_nomem(err);
}

int tutti_parallel_plan_make(const struct tutti_parallel_schedule_params *params,
                             struct tutti_arena *arena, struct tutti_parallel_plan *ret,
                             struct tutti_err *err)
{
    struct tutti_parallel_plan p = {.work = NULL};
    int status =
        tutti_take("tutti_parallel_schedule_params", &p.params, sizeof(p.params), params,
                   TUTTI_BYTES_TO(struct tutti_parallel_schedule_params, report_elements), err);

    if (status == 0)
        status = tutti_pipeline_check(p.params.pipeline, err);
    if (status < 0)
        return status;
    p.stage_count = tutti_pipeline_stage_count(p.params.pipeline);
    status = check(&p, err);
    if (status == 0)
        status = place_all(&p, arena, err);
    if (status == 0)
        status = list_work(&p, arena, err);
    if (status == 0)
        *ret = p;
    return status;
}

/* ---- reading it ------------------------------------------------------------------------------ */

struct tutti_parallel_entry tutti_parallel_entry_of(const struct tutti_parallel_plan *p,
                                                    const struct tutti_step *step)
{
    const uint32_t entry = step->peer - 1;
    const uint32_t devices = p->params.pipeline->device_count;
    struct tutti_parallel_entry task = {.kind = TUTTI_PARALLEL_IS_PIECE};

    assert(step->kind == TUTTI_COMPUTE && entry < p->work_count);
    if (entry < TUTTI_PARALLEL_STAGES) {
        task.kind =
            entry == TUTTI_PARALLEL_INPUT ? TUTTI_PARALLEL_IS_INPUT : TUTTI_PARALLEL_IS_REPORT;
        return task;
    }
    if (entry >= p->work_count - 2 * devices) {
        const uint32_t at = entry - (p->work_count - 2 * devices);

        task.kind = at < devices ? TUTTI_PARALLEL_IS_SUMS : TUTTI_PARALLEL_IS_OPTIMIZER;
        task.device = at % devices;
        return task;
    }
    for (uint32_t i = 0; i < p->stage_count; i++)
        for (int pass = 0; pass < 3; pass++)
            if (entry - p->places[i].first_entry[pass] <
                tutti_parallel_pieces(p, i, (enum tutti_pass)pass)) {
                task.stage = i;
                task.pass = (enum tutti_pass)pass;
                task.piece = entry - p->places[i].first_entry[pass];
            }
    task.micro_batch = (uint32_t)(step->src_offset / p->record_bytes);
    return task;
}
