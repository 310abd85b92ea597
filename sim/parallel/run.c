/* A question about a model that is cut, made whole. */
#include "sim/parallel/run.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "topo/topo.h"

enum { PACE_MAX = 1000000 };

bool tutti_cut_is_half(const struct tutti_cut_run *run)
{
    return run->ask.use.precision > TUTTI_PRECISION_TF32;
}

/* Times are whole picoseconds, which go to 106 days, and several are added up. */
int tutti_cut_check_length(double ps, struct tutti_err *err)
{
    const double longest_ps = (double)(INT64_MAX / 16);
    const double day_ps = 86400.0 * (double)TUTTI_PS_PER_S;

    if (ps <= longest_ps)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "a step of '%.3g' days (at most %.0f)", ps / day_ps,
                      longest_ps / day_ps);
}

static bool divides_data_alone(const struct tutti_parallel *p)
{
    return p->tensor * p->context * p->expert * p->pipeline == 1;
}

static int choose_device(struct tutti_cut_run *run, struct tutti_err *err)
{
    struct tutti_device_use *use = &run->ask.use;

    if (use->accelerator == NULL)
        use->accelerator = tutti_topo_accelerator(run->ask.topo);
    if (use->accelerator == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "what devices '%s' has is not known (a preset, or --device NAME)",
                          run->ask.topo->name);
    if (use->framework != NULL)
        return 0;
    return tutti_framework_find(divides_data_alone(&run->p) ? "pytorch" : "megatron",
                                &use->framework, err);
}

/* Of a model with transformer layers those are recomputed, of others all, as memory has it. */
static bool recomputes_all(const struct tutti_workload *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].is_transformer)
            return false;
    return true;
}

static void choose_rest(struct tutti_cut_run *run)
{
    struct tutti_parallel_ask *ask = &run->ask;
    const bool half = tutti_cut_is_half(run);
    const bool narrow =
        run->p.sharding == TUTTI_SHARD_ZERO3 || strcmp(ask->use.framework->name, "deepspeed") == 0;

    ask->use.recompute_all = recomputes_all(ask->model);
    ask->use.batch = run->p.micro_batch;
    ask->use.tensor = run->p.tensor;
    ask->use.context = run->p.context;
    ask->use.kv_heads = ask->model->transformer.kv_heads;
    ask->use.expert = run->p.expert;
    ask->use.imbalance = tutti_parallel_imbalance_ppm(&run->p, ask->model) * 1e-6;
    ask->use.sequence_parallel = run->p.sequence_parallel;
    if (ask->gradient_bytes == 0)
        ask->gradient_bytes = half && narrow ? 2 : 4;
    if (ask->weight_bytes == 0)
        ask->weight_bytes = half ? 2 : 4;
}

void tutti_parallel_follow(struct tutti_parallel *parallel, struct tutti_parallel_ask *ask)
{
    const char *name = ask->use.framework->name;

    parallel->scatter_gather = strncmp(name, "megatron", 8) == 0 && parallel->tensor > 1 &&
                               parallel->pipeline > 1 && !parallel->sequence_parallel;
    ask->full_reduce = strcmp(name, "nanotron") == 0 && parallel->sharding == TUTTI_SHARD_ZERO1;
    ask->parallel = parallel;
}

static int check_bytes(uint32_t bytes, const char *what, struct tutti_err *err)
{
    if (bytes == 1 || bytes == 2 || bytes == 4)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "%s of '%u' bytes (1, 2 or 4)", what, bytes);
}

static int check(const struct tutti_cut_run *run, struct tutti_err *err)
{
    const struct tutti_parallel_ask *ask = &run->ask;
    const struct tutti_parallel *p = &run->p;
    const uint32_t ranks = tutti_parallel_ranks(p);
    int status = check_bytes(ask->gradient_bytes, "gradients", err);

    if (status == 0)
        status = check_bytes(ask->weight_bytes, "weights", err);
    if (status < 0)
        return status;
    if (ranks != ask->topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "tensor %u x context %u x data %u x pipeline %u are %u ranks, '%s' has "
                          "%u (as many)",
                          p->tensor, p->context, p->data, p->pipeline, ranks, ask->topo->name,
                          ask->topo->rank_count);
    if (!(ask->pace >= 0) || ask->pace > PACE_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a pace of devices of '%g' (0 to %d)", ask->pace,
                          PACE_MAX);
    if (ask->full_reduce && p->sharding != TUTTI_SHARD_ZERO1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "an all-reduce in the place of a reduce-scatter without ZeRO-1 (zero1)");
    if (ask->post_validation && !tutti_pipeline_splits(&run->pipeline))
        return tutti_fail(err, TUTTI_EINVAL,
                          "post-validation with pipeline '%s' (zb-h1, zb-h2, zbv)",
                          tutti_pipeline_name(run->pipeline.pipeline));
    return 0;
}

static int make_room(struct tutti_cut_run *run, struct tutti_err *err)
{
    const uint32_t layers = run->ask.model->layer_count;

    run->repeats = calloc((size_t)run->stage_count * layers + 1, sizeof(*run->repeats));
    run->layers = calloc((size_t)layers + 1, sizeof(*run->layers));
    run->passes = calloc(run->stage_count, sizeof(*run->passes));
    run->stages = calloc(run->stage_count, sizeof(*run->stages));
    run->devices = calloc(run->p.pipeline, sizeof(*run->devices));
    if (run->repeats == NULL || run->layers == NULL || run->passes == NULL || run->stages == NULL ||
        run->devices == NULL)
        return tutti_nomem(err);
    for (uint32_t s = 0; s < run->stage_count; s++)
        tutti_parallel_stage_repeats(&run->p, run->ask.model, s, run->repeats + (size_t)s * layers);
    return 0;
}

static int take(const struct tutti_parallel_ask *given, struct tutti_cut_run *run,
                struct tutti_err *err)
{
    struct tutti_parallel_ask *ask = &run->ask;
    int status = tutti_take("tutti_parallel_ask", ask, sizeof(*ask), given,
                            TUTTI_BYTES_TO(struct tutti_parallel_ask, coarse), err);

    if (status < 0)
        return status;
    if (ask->topo == NULL || ask->model == NULL || ask->parallel == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a training step without machine, model or degrees (all of them)");
    status = tutti_parallel_check(ask->parallel, ask->model, err);
    if (status == 0)
        status = tutti_parallel_complete(ask->parallel, &run->p, err);
    if (status < 0)
        return status;
    ask->parallel = &run->p;
    run->pipeline = tutti_parallel_pipeline(&run->p);
    run->stage_count = tutti_parallel_stage_count(&run->p);
    return 0;
}

int tutti_cut_open(const struct tutti_parallel_ask *given, struct tutti_cut_run *run,
                   struct tutti_err *err)
{
    int status = take(given, run, err);

    if (status == 0)
        status = choose_device(run, err);
    if (status < 0)
        return status;
    choose_rest(run);
    status = check(run, err);
    if (status == 0)
        status = make_room(run, err);
    if (status == 0 && run->ask.memory == NULL) {
        status = tutti_train_memory_new(&run->own_memory, err);
        run->ask.memory = run->own_memory;
    }
    return status < 0 ? status : tutti_groups_open(&run->ask, &run->p, &run->groups, err);
}

void tutti_cut_close(struct tutti_cut_run *run)
{
    free(run->repeats);
    free(run->layers);
    free(run->passes);
    free(run->stages);
    free(run->devices);
    tutti_train_memory_free(run->own_memory);
}
