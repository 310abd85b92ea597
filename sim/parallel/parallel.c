/* A training step of a model that is cut, predicted: passes, the pipeline, what follows, and how
 * its time divides. */
#include "sim/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/parallel/run.h"
#include "sim/train/train.h"
#include "topo/topo.h"

const char *tutti_parallel_task_name(enum tutti_parallel_task task)
{
    static const char *const names[TUTTI_TASK_COUNT] = {
        "input", "forward", "backward", "weights", "gradients", "optimizer", "gather"};

    return names[task];
}

/* ---- the end of a step ----------------------------------------------------------------------- */

/* The device that is done with its gradients last, and when; where no device waits for others
 * before the optimizer, what it is busy for counts. */
static void find_end(const struct tutti_cut_run *run, struct tutti_cut_end *ret)
{
    struct tutti_cut_end end = {.last = 0};
    tutti_ps latest_ps = -1;

    for (uint32_t d = 0; d < run->p.pipeline; d++) {
        const struct tutti_cut_device *device = &run->devices[d];
        tutti_ps at_ps = device->end_ps + device->passes_ps + device->data_ps;

        if (run->ask.post_validation)
            at_ps -= device->begin_ps;
        if (at_ps > latest_ps) {
            latest_ps = at_ps;
            end.last = d;
        }
        if (device->optimizer_ps + device->gather_ps > end.behind_ps) {
            end.behind_ps = device->optimizer_ps + device->gather_ps;
            end.gather_ps = device->gather_ps;
        }
    }
    end.first_ps = run->ask.prefetch == 0 ? run->input_ps : 0;
    end.reduced_ps = end.first_ps + latest_ps;
    end.step_ps = end.reduced_ps + end.behind_ps;
    if (run->input_ps > end.step_ps) /* batches are made ahead: the host works while devices do */
        end.step_ps = run->input_ps;
    *ret = end;
}

static void add_passes(const struct tutti_cut_run *run, uint32_t d,
                       tutti_ps parts[TUTTI_PART_COUNT])
{
    for (uint32_t chunk = 0; chunk < run->p.virtual_stages; chunk++) {
        const struct tutti_passes *passes =
            &run->passes[tutti_pipeline_stage(&run->pipeline, d, chunk)];

        for (int pass = 0; pass < TUTTI_PASSES; pass++)
            for (int part = 0; part < TUTTI_PART_COUNT; part++)
                parts[part] += passes->pass[pass].ps[part] * run->p.micro_batches;
    }
}

static void divide(const struct tutti_cut_run *run, const struct tutti_cut_end *end,
                   struct tutti_parallel_split *ret)
{
    const struct tutti_cut_device *device = &run->devices[end->last];
    tutti_ps parts[TUTTI_PART_COUNT] = {0};
    tutti_ps busy_ps = 0;
    tutti_ps begin_ps = run->ask.post_validation ? device->begin_ps : 0;

    add_passes(run, end->last, parts);
    for (int i = 0; i < TUTTI_PART_COUNT; i++)
        busy_ps += parts[i];
    *ret = (struct tutti_parallel_split){
        .compute_ps = parts[TUTTI_PART_COMPUTE],
        .host_ps = parts[TUTTI_PART_HOST],
        .tensor_ps = parts[TUTTI_PART_TENSOR],
        .context_ps = parts[TUTTI_PART_CONTEXT],
        .expert_ps = parts[TUTTI_PART_EXPERT],
        .gather_ps = device->passes_ps + end->gather_ps,
        .data_ps = device->data_ps,
        .optimizer_ps = end->behind_ps - end->gather_ps,
        .pipeline_ps = device->end_ps - device->hopless_ps,
        .input_ps = end->step_ps - end->reduced_ps - end->behind_ps + end->first_ps,
    };
    if (ret->pipeline_ps > device->end_ps - begin_ps - busy_ps)
        ret->pipeline_ps = device->end_ps - begin_ps - busy_ps;
    ret->bubble_ps = device->end_ps - begin_ps - busy_ps - ret->pipeline_ps;
}

/* ---- the host -------------------------------------------------------------------------------- */

/* What a host needs for the samples of its ranks; those that have the same share them. */
static int time_input(struct tutti_cut_run *run, struct tutti_err *err)
{
    const struct tutti_topo *topo = run->ask.topo;
    const double workers = run->ask.input_workers > 0 ? run->ask.input_workers : 1;
    const double hosts = topo->host_count > 0 ? topo->host_count : topo->rank_count;
    const double samples =
        (double)tutti_parallel_samples(&run->p) * run->p.pipeline * run->p.tensor * run->p.context;
    const double sharing = fmin((double)run->p.tensor * run->p.context * run->p.pipeline,
                                fmax(topo->rank_count / hosts, 1));
    double ps;
    int status;

    if (run->ask.input_rate <= 0)
        return 0;
    ps = samples / sharing / hosts / (run->ask.input_rate * workers) * (double)TUTTI_PS_PER_S;
    status = tutti_cut_check_length(ps, err);
    if (status == 0)
        run->input_ps = (tutti_ps)llround(ps);
    return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int fill_memory(const struct tutti_cut_run *run, struct tutti_parallel_answer *answer,
                       struct tutti_err *err)
{
    const struct tutti_parallel_ask *ask = &run->ask;
    struct tutti_footprint_params params = {
        .size = sizeof(params),
        .model = ask->model,
        .accelerator = ask->use.accelerator,
        .precision = ask->use.precision,
        .optimizer = ask->optimizer,
        .fused_attention = ask->use.fused_attention,
        .recompute = ask->use.recompute,
        .parallel = &run->p,
    };
    int status;

    if (tutti_memory_framework_find(ask->use.framework->name, &params.framework, NULL) < 0)
        params.framework = NULL;
    answer->footprints = calloc(run->p.pipeline, sizeof(*answer->footprints));
    if (answer->footprints == NULL)
        return tutti_nomem(err);
    status = tutti_footprint_stages(&params, answer->footprints, err);
    answer->fits = true;
    for (uint32_t d = 0; d < run->p.pipeline && status == 0; d++) {
        const struct tutti_footprint *f = &answer->footprints[d];

        if (f->fits || f->capacity_bytes == 0)
            continue;
        answer->fits = false;
        if (!ask->any_memory)
            status = tutti_footprint_check(&params, err);
    }
    return status;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void fill_rates(const struct tutti_cut_run *run, struct tutti_parallel_answer *a)
{
    const struct tutti_parallel_ask *ask = &run->ask;
    const struct tutti_model_sums sums = tutti_model_sum(ask->model);
    const double step_s = (double)a->step_ps / (double)TUTTI_PS_PER_S;
    const double peak = (double)tutti_accelerator_flops(ask->use.accelerator, ask->use.precision) *
                        ask->topo->rank_count;

    a->parameters = sums.parameters;
    a->samples = tutti_parallel_samples(&run->p);
    a->flops = tutti_train_flops(ask->model) * (double)a->samples;
    a->framework = ask->use.framework->name;
    a->accelerator = ask->use.accelerator->name;
    if (step_s <= 0)
        return;
    a->samples_per_s = (double)a->samples / step_s;
    if (ask->model->sample == TUTTI_SAMPLE_SEQUENCE)
        a->tokens_per_s = a->samples_per_s * ask->model->sequence;
    if (peak > 0)
        a->mfu_percent = 100 * a->flops / step_s / peak;
}

static int time_step(struct tutti_cut_run *run, struct tutti_cut_end *end, struct tutti_err *err)
{
    int status = tutti_cut_time_stages(run, err);

    if (status == 0)
        status = time_input(run, err);
    if (status == 0)
        status = tutti_cut_play(run, err);
    if (status == 0)
        status = tutti_cut_time_data(run, err);
    if (status == 0)
        find_end(run, end);
    return status;
}

/* A measured step says how fast devices really are: what they take alone is scaled until the step
 * is as long as that. What devices wait for each other scales with it, messages do not; what is
 * hidden of those changes, too, so it takes some rounds. */
static int time_to_anchor(struct tutti_cut_run *run, struct tutti_cut_end *end,
                          struct tutti_err *err)
{
    enum { ROUNDS = 20 };
    static const double NEAR = 1e-4;
    const double anchor_ps = (double)run->ask.anchor_ps;
    double other_ps = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct tutti_parallel_split s;
        double own_ps;
        int status;

        if (fabs((double)end->step_ps / anchor_ps - 1) < NEAR)
            return 0;
        divide(run, end, &s);
        own_ps = (double)(s.compute_ps + s.host_ps + s.bubble_ps + s.optimizer_ps);
        other_ps = (double)end->step_ps - own_ps;
        if (own_ps <= 0)
            break;
        run->ask.pace =
            (run->ask.pace > 0 ? run->ask.pace : 1) * fmax((anchor_ps - other_ps) / own_ps, 0.1);
        memset(run->passes, 0, run->stage_count * sizeof(*run->passes));
        status = time_step(run, end, err);
        if (status < 0)
            return status;
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "a step of %.4g s on %u devices, which wait %.4g s of it for what is no work "
                      "of theirs, whatever their pace",
                      anchor_ps / (double)TUTTI_PS_PER_S, run->ask.topo->rank_count,
                      other_ps / (double)TUTTI_PS_PER_S);
}

static int predict(struct tutti_cut_run *run, struct tutti_parallel_answer *answer,
                   struct tutti_err *err)
{
    struct tutti_cut_end end;
    int status = fill_memory(run, answer, err);

    if (status == 0)
        status = time_step(run, &end, err);
    if (status == 0 && run->ask.anchor_ps > 0)
        status = time_to_anchor(run, &end, err);
    if (status == 0 && run->ask.note != NULL)
        status = tutti_cut_note(run, &end, err);
    if (status < 0)
        return status;
    answer->step_ps = end.step_ps;
    answer->pace = run->ask.pace > 0 ? run->ask.pace : 1;
    answer->last_device = end.last;
    answer->device_count = run->p.pipeline;
    answer->stage_count = run->stage_count;
    answer->stages = run->stages;
    run->stages = NULL;
    divide(run, &end, &answer->split);
    fill_rates(run, answer);
    tutti_cut_say_limit(run, answer);
    return 0;
}

int tutti_parallel_predict(const struct tutti_parallel_ask *ask, struct tutti_parallel_answer *ret,
                           struct tutti_err *err)
{
    struct tutti_parallel_answer answer = {.step_ps = 0};
    struct tutti_cut_run run = {.stage_count = 0};
    int status = tutti_cut_open(ask, &run, err);

    if (status == 0)
        status = predict(&run, &answer, err);
    if (status == 0)
        *ret = answer;
    else
        tutti_parallel_answer_free(&answer);
    tutti_cut_close(&run);
    return status;
}

void tutti_parallel_answer_free(struct tutti_parallel_answer *answer)
{
    if (answer == NULL)
        return;
    free(answer->footprints);
    free(answer->stages);
    answer->footprints = NULL;
    answer->stages = NULL;
}
