/* How the devices of a pipeline go through their tasks, with messages that take their time and
 * without; and what is told of it. */
#include <stdlib.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/parallel/run.h"

/* ---- messages -------------------------------------------------------------------------------- */

/* Elements of a sample that go into the first stage behind the first device. */
static uint64_t boundary_elements(const struct tutti_cut_run *run)
{
    const struct tutti_workload *model = run->ask.model;
    uint64_t most = 0;

    for (uint32_t i = 1; i < model->layer_count; i++)
        if (model->layers[i].saved.input_elements > most &&
            (model->layers[i].is_transformer || tutti_parallel_layers(model) == model->layer_count))
            most = model->layers[i].saved.input_elements;
    return most;
}

static int time_hop(struct tutti_cut_run *run, struct tutti_err *err)
{
    const uint64_t elements =
        tutti_muldiv_up(boundary_elements(run), run->p.micro_batch, run->p.context);
    const bool divided = run->p.sequence_parallel || run->p.scatter_gather;
    const uint32_t by = divided ? run->p.tensor : 1;
    const uint32_t bytes = run->ask.use.precision <= TUTTI_PRECISION_TF32 ? 4 : 2;
    const uint64_t part = elements / by + (elements % by != 0);
    struct tutti_group_price gather = {.ps = 0};
    int status;

    if (run->p.pipeline == 1)
        return 0;
    status = tutti_groups_hop(&run->groups, TUTTI_GROUP_PIPELINE, tutti_times(part, bytes),
                              &run->hop_ps, err);
    if (status == 0 && run->p.scatter_gather)
        status = tutti_groups_price(
            &run->groups,
            (struct tutti_group_call){TUTTI_GROUP_TENSOR, TUTTI_ALLGATHER, part, bytes}, &gather,
            err);
    run->hop_ps +=
        gather.ps + (tutti_ps)(run->ask.use.framework->message_us * (double)TUTTI_PS_PER_US);
    return status;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static tutti_ps takes(const struct tutti_cut_run *run, uint32_t stage, enum tutti_pass pass)
{
    const struct tutti_stage_times *t = &run->stages[stage];

    if (pass == TUTTI_PASS_FORWARD)
        return t->forward_ps;
    if (pass == TUTTI_PASS_WEIGHTS)
        return t->weights_ps;
    return t->backward_ps + (tutti_pipeline_splits(&run->pipeline) ? 0 : t->weights_ps);
}

/* The last task of each device, and the first. */
static int find_ends(struct tutti_cut_run *run, tutti_ps hop_ps, tutti_ps *starts, bool with_hops,
                     struct tutti_err *err)
{
    const uint32_t count = tutti_pipeline_task_count(&run->pipeline);
    struct tutti_pipeline_task *tasks = calloc(count, sizeof(*tasks));
    struct tutti_pipeline_times times;
    int status = tasks == NULL ? tutti_nomem(err)
                               : tutti_pipeline_play(&run->pipeline, run->stages, hop_ps, starts,
                                                     &times, err);

    for (uint32_t d = 0; d < run->p.pipeline && status == 0; d++) {
        const tutti_ps *own = starts + (size_t)d * count;
        struct tutti_cut_device *device = &run->devices[d];
        uint32_t stage;

        tutti_pipeline_tasks(&run->pipeline, d, tasks);
        stage = tutti_pipeline_stage(&run->pipeline, d, tasks[count - 1].chunk);
        if (with_hops) {
            device->begin_ps = own[0];
            device->end_ps = own[count - 1] + takes(run, stage, tasks[count - 1].pass);
        } else {
            device->hopless_ps = own[count - 1] + takes(run, stage, tasks[count - 1].pass);
        }
    }
    free(tasks);
    return status;
}

int tutti_cut_play(struct tutti_cut_run *run, struct tutti_err *err)
{
    const size_t count = tutti_pipeline_task_count(&run->pipeline);
    tutti_ps *starts = calloc(count * run->p.pipeline, sizeof(*starts));
    int status = starts == NULL ? tutti_nomem(err) : time_hop(run, err);

    if (status == 0)
        status = find_ends(run, run->hop_ps, starts, true, err);
    if (status == 0 && run->hop_ps > 0)
        status = find_ends(run, 0, starts, false, err);
    for (uint32_t d = 0; d < run->p.pipeline && run->hop_ps == 0; d++)
        run->devices[d].hopless_ps = run->devices[d].end_ps;
    free(starts);
    return status;
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void tell(const struct tutti_cut_run *run, enum tutti_parallel_task task, uint32_t device,
                 tutti_ps begin_ps, tutti_ps ps)
{
    const struct tutti_parallel_note note = {
        .task = task, .device = device, .begin_ps = begin_ps, .end_ps = begin_ps + ps};

    if (ps > 0)
        run->ask.note(run->ask.note_context, &note);
}

static void tell_tasks(const struct tutti_cut_run *run, uint32_t d, const tutti_ps *starts,
                       const struct tutti_pipeline_task *tasks, tutti_ps from_ps)
{
    static const enum tutti_parallel_task task_of[] = {TUTTI_TASK_FORWARD, TUTTI_TASK_BACKWARD,
                                                       TUTTI_TASK_WEIGHTS};
    const uint32_t count = tutti_pipeline_task_count(&run->pipeline);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t stage = tutti_pipeline_stage(&run->pipeline, d, tasks[i].chunk);
        const struct tutti_parallel_note note = {.task = task_of[tasks[i].pass],
                                                 .device = d,
                                                 .chunk = tasks[i].chunk,
                                                 .micro_batch = tasks[i].micro_batch,
                                                 .begin_ps = from_ps + starts[i],
                                                 .end_ps = from_ps + starts[i] +
                                                           takes(run, stage, tasks[i].pass)};

        run->ask.note(run->ask.note_context, &note);
    }
}

int tutti_cut_note(struct tutti_cut_run *run, const struct tutti_cut_end *end,
                   struct tutti_err *err)
{
    const uint32_t count = tutti_pipeline_task_count(&run->pipeline);
    struct tutti_pipeline_task *tasks = calloc(count, sizeof(*tasks));
    tutti_ps *starts = calloc((size_t)count * run->p.pipeline, sizeof(*starts));
    struct tutti_pipeline_times times;
    int status =
        tasks == NULL || starts == NULL
            ? tutti_nomem(err)
            : tutti_pipeline_play(&run->pipeline, run->stages, run->hop_ps, starts, &times, err);

    for (uint32_t d = 0; d < run->p.pipeline && status == 0; d++) {
        const struct tutti_cut_device *device = &run->devices[d];

        tell(run, TUTTI_TASK_INPUT, d, 0, end->first_ps);
        tutti_pipeline_tasks(&run->pipeline, d, tasks);
        tell_tasks(run, d, starts + (size_t)d * count, tasks, end->first_ps);
        tell(run, TUTTI_TASK_GRADIENTS, d, end->first_ps + device->end_ps + device->passes_ps,
             device->data_ps);
        tell(run, TUTTI_TASK_OPTIMIZER, d, end->reduced_ps, device->optimizer_ps);
        tell(run, TUTTI_TASK_GATHER, d, end->reduced_ps + device->optimizer_ps, device->gather_ps);
    }
    free(tasks);
    free(starts);
    return status;
}
