/* A trainer whose ranks have parts of the model: how it is cut, and where everything lies. */
#include "runtime/train/cut.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/model.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/train/gpu.h"

/* ---- what goes together ---------------------------------------------------------------------- */

static int check_training(const struct tutti_trainer *t, struct tutti_err *err)
{
    const struct tutti_trainer_params *p = &t->params;
    const struct tutti_strategy *s = &t->strategy;

    if (s->compression != TUTTI_COMPRESS_NONE)
        return tutti_fail(err, TUTTI_EINVAL,
                          "compressed gradients of ranks that have parts of the model (gradients "
                          "as they are)");
    if (s->sharding != TUTTI_SHARD_NONE || s->local_steps > 0 || s->coordinated)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy '%s' of ranks that have parts of the model (one that "
                          "all-reduces gradients: mirrored, multiworkermirrored, ddp)",
                          s->name);
    if (p->gradients != TUTTI_FLOAT32 || tutti_loss_scale_of(&p->loss_scale) > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "gradients of type '%s' of ranks that have parts of the model (float)",
                          tutti_dtype_name(p->gradients));
    if (p->times != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "an emulated machine, with ranks that have parts of the model (none)");
    if (p->backend->ops->calls)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a backend of GPUs, with ranks that have parts of the model (threads, "
                          "tcp or mpi)");
    return 0;
}

static int check_parallel(const struct tutti_train_cut *cut, uint32_t rank_count,
                          struct tutti_err *err)
{
    const struct tutti_parallel *p = &cut->parallel;

    if (p->context > 1 || p->expert > 1 || p->sequence_parallel || p->async_tensor ||
        p->scatter_gather || p->sharding != TUTTI_SHARD_NONE)
        return tutti_fail(err, TUTTI_EINVAL,
                          "context, expert or sequence parallelism, asynchronous tensors or ZeRO "
                          "are simulated alone (tensor, pipeline and data are really trained)");
    if (tutti_parallel_ranks(p) != rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "tensor %u x data %u x pipeline %u on '%u' ranks (%u)",
                          p->tensor, p->data, p->pipeline, rank_count, tutti_parallel_ranks(p));
    return 0;
}

/* Replicas and micro-batches are what follows, unless they are told. */
static int complete(struct tutti_trainer *t, struct tutti_train_cut *cut, struct tutti_err *err)
{
    const struct tutti_trainer_params *p = &t->params;
    const uint32_t micro_batches = p->micro_batches > 0 ? p->micro_batches : 1;
    struct tutti_parallel given;
    uint64_t of_replica;
    int status = tutti_take("tutti_parallel", &given, sizeof(given), p->parallel,
                            TUTTI_BYTES_TO(struct tutti_parallel, imbalance), err);

    if (status < 0)
        return status;
    of_replica =
        (uint64_t)(given.tensor > 0 ? given.tensor : 1) * (given.pipeline > 0 ? given.pipeline : 1);
    if (given.data == 0 && p->rank_count % of_replica != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' ranks in replicas of tensor %u x pipeline %u (a multiple)",
                          p->rank_count, given.tensor, given.pipeline);
    if (given.data == 0)
        given.data = (uint32_t)(p->rank_count / of_replica);
    if (given.micro_batches > 0 && given.micro_batches != micro_batches)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' micro-batches, and %u of the trainer (as many)",
                          given.micro_batches, micro_batches);
    given.micro_batches = micro_batches;
    status = tutti_parallel_complete(&given, &cut->parallel, err);
    if (status == 0)
        status = check_parallel(cut, p->rank_count, err);
    return status < 0 ? status : tutti_parallel_check(&cut->parallel, NULL, err);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Layers of each stage. */
static int cut_layers(struct tutti_trainer *t, const struct tutti_train_cut *cut, uint32_t *ret,
                      struct tutti_err *err)
{
    const uint32_t stage_count = tutti_parallel_stage_count(&cut->parallel);
    const struct tutti_workload *model = t->params.model;
    uint32_t *repeats = tutti_arena_take(t->arena, model->layer_count + 1u, sizeof(*repeats));
    uint32_t layers = 0;
    int status = tutti_net_parts_layers(t->params.learner, &layers, err);
    uint64_t sum = 0;
    uint64_t given = 0;

    if (status == 0 && repeats == NULL)
        status = tutti_nomem(err);
    for (uint32_t s = 0; s < stage_count && status == 0; s++) {
        tutti_parallel_stage_repeats(&cut->parallel, model, s, repeats);
        for (uint32_t i = 0; i < model->layer_count; i++)
            ret[s] += repeats[i];
        sum += ret[s];
        if (ret[s] == 0)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "'%u' stages of '%s', one of no layer (%u: at most as many stages)",
                                stage_count, model->name, layers);
    }
    for (uint32_t s = 0; s < stage_count && cut->parallel.stage_layers != NULL; s++)
        given += cut->parallel.stage_layers[s];
    if (status == 0 && (sum != layers || (given > 0 && given != tutti_parallel_layers(model))))
        status = tutti_fail(err, TUTTI_EINVAL,
                            "stages of '%" PRIu64 "' layers in all, and '%s' has %u (as many)",
                            given > 0 ? given : sum, model->name, layers);
    return status;
}

static int make_parts(struct tutti_trainer *t, struct tutti_train_cut *cut, struct tutti_err *err)
{
    const uint32_t stage_count = tutti_parallel_stage_count(&cut->parallel);
    uint32_t *layers = tutti_arena_take(t->arena, stage_count, sizeof(*layers));
    const struct tutti_net_parts_params params = {.tensor = cut->parallel.tensor,
                                                  .data = cut->parallel.data,
                                                  .stage_count = stage_count,
                                                  .stage_layers = layers};
    int status = layers == NULL ? tutti_nomem(err) : cut_layers(t, cut, layers, err);

    return status < 0 ? status : tutti_net_parts_new(t->params.learner, &params, &cut->parts, err);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Gradients of replicas are reduced as is asked for, all else by the ring. */
static int make_collective(void *context, const struct tutti_coll_params *params, uint32_t axis,
                           uint32_t size, struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_trainer_params *p = context;
    const struct tutti_shape shape = tutti_shape_flat(size);

    if (axis == TUTTI_TRAIN_CUT_DATA + 1 && p->collective != NULL)
        return p->collective(p->context, params, TUTTI_AXIS_ALL, size, ret, err);
    return tutti_coll_generate("ring", params, &shape, ret, err);
}

static uint64_t elements_of(const struct tutti_network *part)
{
    uint32_t count;
    const struct tutti_network_run *runs = tutti_network_runs(part, &count);

    return count > 0 ? runs[count - 1].at + runs[count - 1].count : 0;
}

/* Pieces of a pass, and what is added up between them. */
static bool list_pass(struct tutti_trainer *t, const struct tutti_network *part, uint64_t batch,
                      bool backward, struct tutti_parallel_pass *ret)
{
    const uint32_t count = tutti_network_part_pieces(part, backward);
    struct tutti_parallel_piece *pieces = tutti_arena_take(t->arena, count, sizeof(*pieces));

    for (uint32_t i = 0; i + 1 < count && pieces != NULL; i++)
        pieces[i] = (struct tutti_parallel_piece){
            .axis = TUTTI_TRAIN_CUT_TENSOR + 1,
            .collective = TUTTI_ALLREDUCE,
            .dtype = TUTTI_FLOAT32,
            .count = batch * tutti_network_part_added(part, backward, i)};
    *ret = (struct tutti_parallel_pass){pieces, count};
    return pieces != NULL;
}

static int list_stages(struct tutti_trainer *t, struct tutti_train_cut *cut, struct tutti_err *err)
{
    const uint32_t count = tutti_pipeline_stage_count(&cut->pipeline);
    const uint64_t batch = tutti_net_parts_batch(cut->parts);

    cut->stages = tutti_arena_take(t->arena, count, sizeof(cut->stages[0]));
    for (uint32_t s = 0; s < count && cut->stages != NULL; s++) {
        const struct tutti_network *part = tutti_net_part_of(cut->parts, s, 0);
        struct tutti_parallel_stage *stage = &cut->stages[s];
        struct tutti_parallel_reduction *sum = tutti_arena_take(t->arena, 1, sizeof(*sum));
        struct tutti_parallel_piece *whole = tutti_arena_take(t->arena, 1, sizeof(*whole));

        if (sum == NULL || whole == NULL ||
            !list_pass(t, part, batch, false, &stage->passes[TUTTI_PASS_FORWARD]) ||
            !list_pass(t, part, batch, true, &stage->passes[TUTTI_PASS_BACKWARD]))
            return tutti_nomem(err);
        stage->passes[TUTTI_PASS_WEIGHTS] = (struct tutti_parallel_pass){whole, 1};
        *sum = (struct tutti_parallel_reduction){.axis = TUTTI_TRAIN_CUT_DATA + 1,
                                                 .elements = elements_of(part)};
        stage->reductions = sum;
        stage->reduction_count = 1;
        if (s + 1 < count)
            stage->boundary_bytes = batch * tutti_network_part_out(part) * sizeof(float);
    }
    return cut->stages == NULL ? tutti_nomem(err) : 0;
}

static int write_step(struct tutti_trainer *t, struct tutti_train_cut *cut, struct tutti_err *err)
{
    static const enum tutti_parallel_group groups[3] = {TUTTI_GROUP_TENSOR, TUTTI_GROUP_DATA,
                                                        TUTTI_GROUP_PIPELINE};
    int status;

    for (int i = 0; i < 3; i++)
        cut->axes[i] = tutti_parallel_axis(&cut->parallel, groups[i]);
    cut->params = (struct tutti_parallel_schedule_params){
        .size = sizeof(cut->params),
        .rank_count = t->params.rank_count,
        .axes = cut->axes,
        .axis_count = 3,
        .pipeline_axis = TUTTI_TRAIN_CUT_PIPELINE + 1,
        .pipeline = &cut->pipeline,
        .stages = cut->stages,
        .overlap = t->strategy.overlap,
        .collective = make_collective,
        .context = &t->params,
        .run = tutti_train_cut_run,
        .run_context = t->replicas,
        .report_elements = tutti_report_elements(&t->params)};
    status = tutti_parallel_plan_make(&cut->params, t->arena, &cut->plan, err);
    return status < 0 ? status : tutti_parallel_schedule(&cut->params, &t->schedule, err);
}

/* ---- where weights are ----------------------------------------------------------------------- */

/* That of all weights, as whoever evaluates sees them: gathered from all ranks. */
static int make_whole_layout(struct tutti_trainer *t, const struct tutti_train_cut *cut,
                             struct tutti_err *err)
{
    const struct tutti_trainer_params *p = &t->params;
    struct tutti_layer_times *none =
        tutti_arena_take(t->arena, p->model->layer_count + 1u, sizeof(*none));
    const struct tutti_strategy_params step = {.size = sizeof(step),
                                               .strategy = &t->strategy,
                                               .model = p->model,
                                               .rank_count = cut->parallel.data,
                                               .micro_batches = p->micro_batches,
                                               .gradient_bytes = sizeof(float),
                                               .weight_bytes = sizeof(float),
                                               .times = none,
                                               .report_elements = tutti_report_elements(p)};
    int status =
        none == NULL ? tutti_nomem(err) : tutti_layout_make(p, &step, t->arena, &t->layout, err);

    t->layout.weights_gathered = true;
    return status;
}

/* Runs of all chunks of a device. */
static int make_layout(const struct tutti_trainer *t, const struct tutti_train_cut *cut,
                       uint32_t device, uint32_t member, struct tutti_layout *ret,
                       struct tutti_err *err)
{
    const uint32_t chunks = tutti_pipeline_chunks(&cut->pipeline);
    uint32_t run_count = 0;
    uint32_t count;

    *ret = t->layout;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint32_t stage = tutti_pipeline_stage(&cut->pipeline, device, c);

        (void)tutti_network_runs(tutti_net_part_of(cut->parts, stage, member), &count);
        run_count += count;
    }
    ret->runs = tutti_arena_take(t->arena, run_count + 1u, sizeof(ret->runs[0]));
    if (ret->runs == NULL)
        return tutti_nomem(err);
    ret->run_count = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint32_t stage = tutti_pipeline_stage(&cut->pipeline, device, c);
        const struct tutti_network_run *runs =
            tutti_network_runs(tutti_net_part_of(cut->parts, stage, member), &count);
        const uint64_t before = cut->plan.places[stage].weights / sizeof(float);

        for (uint32_t i = 0; i < count; i++)
            ret->runs[ret->run_count++] = (struct tutti_flat_run){runs[i].flat, before + runs[i].at,
                                                                  runs[i].count, runs[i].is_alike};
    }
    return 0;
}

static int make_layouts(struct tutti_trainer *t, struct tutti_train_cut *cut, struct tutti_err *err)
{
    const uint32_t members = cut->parallel.tensor;
    int status = 0;

    t->layout.plan.state_bytes = cut->plan.weight_bytes;
    cut->layouts = tutti_arena_take(t->arena, (size_t)cut->pipeline.device_count * members,
                                    sizeof(cut->layouts[0]));
    if (cut->layouts == NULL)
        return tutti_nomem(err);
    for (uint32_t d = 0; d < cut->pipeline.device_count; d++)
        for (uint32_t k = 0; k < members && status == 0; k++)
            status = make_layout(t, cut, d, k, &cut->layouts[d * members + k], err);
    return status;
}

int tutti_train_cut_open(struct tutti_trainer *t, struct tutti_err *err)
{
    struct tutti_train_cut *cut = tutti_arena_take(t->arena, 1, sizeof(*cut));
    int status = cut == NULL ? tutti_nomem(err) : check_training(t, err);

    if (status < 0)
        return status;
    t->cut = cut;
    t->strategy.densify = true;
    status = complete(t, cut, err);
    if (status < 0)
        return status;
    cut->pipeline = tutti_parallel_pipeline(&cut->parallel);
    status = make_parts(t, cut, err);
    if (status == 0)
        status = list_stages(t, cut, err);
    if (status == 0)
        status = write_step(t, cut, err);
    if (status == 0)
        status = make_whole_layout(t, cut, err);
    return status < 0 ? status : make_layouts(t, cut, err);
}

void tutti_train_cut_close(struct tutti_trainer *t)
{
    if (t->cut != NULL)
        tutti_net_parts_free(t->cut->parts);
    t->cut = NULL;
}

/* ---- who has what ---------------------------------------------------------------------------- */

static uint32_t member_of(const struct tutti_train_cut *cut, enum tutti_train_cut_axis axis,
                          uint32_t rank)
{
    uint32_t group;
    uint32_t member = 0;
    const bool found = tutti_axis_find(&cut->axes[axis], rank, &group, &member);

    assert(found);
    return member;
}

const struct tutti_layout *tutti_trainer_layout(const struct tutti_trainer *t, uint32_t rank)
{
    const struct tutti_train_cut *cut = t->cut;

    if (cut == NULL)
        return &t->layout;
    return &cut->layouts[member_of(cut, TUTTI_TRAIN_CUT_PIPELINE, rank) * cut->parallel.tensor +
                         member_of(cut, TUTTI_TRAIN_CUT_TENSOR, rank)];
}

uint32_t tutti_train_cut_first_alike(const struct tutti_trainer *t, uint32_t rank)
{
    uint32_t group = 0;
    uint32_t member;

    (void)tutti_axis_find(&t->cut->axes[TUTTI_TRAIN_CUT_DATA], rank, &group, &member);
    return tutti_axis_rank(&t->cut->axes[TUTTI_TRAIN_CUT_DATA], group, 0);
}

bool tutti_train_cut_owns(const struct tutti_train_cut_rank *rank, const struct tutti_flat_run *run)
{
    return rank->member == 0 || !run->is_alike;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* Micro-batches that a device holds at once of one of its chunks. */
static uint32_t held_of(const struct tutti_train_cut *cut, const struct tutti_pipeline_task *tasks,
                        uint32_t chunk)
{
    const enum tutti_pass last =
        tutti_pipeline_splits(&cut->pipeline) ? TUTTI_PASS_WEIGHTS : TUTTI_PASS_BACKWARD;
    uint32_t held = 0;
    uint32_t most = 1;

    for (uint32_t i = 0; i < tutti_pipeline_task_count(&cut->pipeline); i++) {
        if (tasks[i].chunk != chunk)
            continue;
        held += tasks[i].pass == TUTTI_PASS_FORWARD;
        most = held > most ? held : most;
        held -= tasks[i].pass == last;
    }
    return most;
}

static int open_worker(struct tutti_train_cut_rank *r, struct tutti_err *err)
{
    const struct tutti_train_cut *cut = r->cut;
    const uint32_t chunks = tutti_pipeline_chunks(&cut->pipeline);
    uint32_t *stages = calloc(chunks, sizeof(*stages));
    uint32_t *held = calloc(chunks, sizeof(*held));
    struct tutti_pipeline_task *tasks =
        calloc(tutti_pipeline_task_count(&cut->pipeline), sizeof(*tasks));
    int status = stages == NULL || held == NULL || tasks == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        const struct tutti_net_worker_params params = {.data_rank = r->data_rank,
                                                       .member = r->member,
                                                       .chunk_count = chunks,
                                                       .stages = stages,
                                                       .held = held,
                                                       .splits =
                                                           tutti_pipeline_splits(&cut->pipeline)};

        tutti_pipeline_tasks(&cut->pipeline, r->device, tasks);
        for (uint32_t c = 0; c < chunks; c++) {
            stages[c] = tutti_pipeline_stage(&cut->pipeline, r->device, c);
            held[c] = held_of(cut, tasks, c);
        }
        status = tutti_net_worker_new(cut->parts, &params, &r->worker, err);
    }
    free(stages);
    free(held);
    free(tasks);
    return status;
}

static float *take(uint64_t bytes, bool *done)
{
    enum { LINE = 64 };
    float *memory = *done ? aligned_alloc(LINE, (size_t)(bytes + LINE) / LINE * LINE) : NULL;

    *done = memory != NULL;
    if (*done)
        memset(memory, 0, (size_t)bytes);
    return memory;
}

/* First values of all variables, of which the rank takes its part. */
static int begin_weights(const struct tutti_trainer *t, struct tutti_replica *r,
                         struct tutti_err *err)
{
    const struct tutti_layout *l = &t->layout;
    float *all = calloc((size_t)l->plan.weights + 1, sizeof(*all));
    float **variables = calloc((size_t)l->layer_most + 1, sizeof(*variables));
    int status = all == NULL || variables == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < l->plan.layer_count && status >= 0; i++) {
        for (uint32_t v = l->first_place[i]; v < l->first_place[i + 1]; v++)
            variables[v - l->first_place[i]] = all + l->places[v].flat;
        status = l->learner->init(l->learner->context, l->params.seed, i, variables, err);
    }
    for (uint32_t i = 0; i < r->layout->run_count && status >= 0; i++)
        memcpy(r->state + r->layout->runs[i].state, all + r->layout->runs[i].flat,
               (size_t)r->layout->runs[i].count * sizeof(*all));
    free(all);
    free(variables);
    return status < 0 ? status : 0;
}

static int open_parts(struct tutti_trainer *t, struct tutti_replica *r, struct tutti_err *err)
{
    const struct tutti_learner *learner = t->params.learner;
    const struct tutti_parallel_plan *plan = &t->cut->plan;
    struct tutti_train_cut_rank *own = r->cut;
    bool done = true;
    int status;

    r->state = take(plan->state_bytes, &done); /* weights, and behind them gradients */
    for (uint32_t k = 0; k < tutti_update_moments(&t->params.optimizer); k++)
        r->moments[k] = take(plan->weight_bytes, &done);
    r->said = calloc(tutti_report_elements(&t->params), sizeof(r->said[0]));
    if (!done || r->said == NULL)
        return tutti_nomem(err);
    status = open_worker(own, err);
    /* Who evaluates, with all weights: one rank of each replica. */
    if (status == 0 && own->device == 0 && own->member == 0)
        status = learner->open(learner->context, own->data_rank, &r->learning, err);
    return status < 0 ? status : begin_weights(t, r, err);
}

int tutti_train_cut_open_rank(struct tutti_trainer *t, uint32_t rank, struct tutti_replica *ret,
                              struct tutti_err *err)
{
    struct tutti_train_cut_rank *own = calloc(1, sizeof(*own));
    int status;

    if (own == NULL)
        return tutti_nomem(err);
    *own =
        (struct tutti_train_cut_rank){.cut = t->cut,
                                      .device = member_of(t->cut, TUTTI_TRAIN_CUT_PIPELINE, rank),
                                      .member = member_of(t->cut, TUTTI_TRAIN_CUT_TENSOR, rank),
                                      .data_rank = member_of(t->cut, TUTTI_TRAIN_CUT_DATA, rank)};
    *ret = (struct tutti_replica){.layout = tutti_trainer_layout(t, rank),
                                  .rank = rank,
                                  .state_elements = t->cut->plan.weight_bytes / sizeof(float),
                                  .scale = t->params.loss_scale,
                                  .cut = own};
    status = open_parts(t, ret, err);
    if (status < 0) {
        tutti_train_cut_close_rank(ret);
        tutti_replica_close(ret);
    }
    return status;
}

void tutti_train_cut_close_rank(struct tutti_replica *r)
{
    if (r->cut == NULL)
        return;
    tutti_net_worker_free(r->cut->worker);
    free(r->cut);
    r->cut = NULL;
}
