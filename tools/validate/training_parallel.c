/* A row of training steps whose model is divided: degrees, order of work, stages and batch. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "tools/validate/training_plan.h"

/* ---- degrees --------------------------------------------------------------------------------- */

static int degree_of(const char *column, int64_t stated, uint32_t *ret, struct tutti_err *err)
{
    if (stated == 0 || stated > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a degree of '%" PRId64 "' (%s of 1 or more)", stated,
                          column);
    *ret = stated == TUTTI_UNSTATED ? 1 : (uint32_t)stated;
    return 0;
}

static int read_degrees(const struct tutti_training_row_settings *s, struct tutti_parallel *p,
                        struct tutti_err *err)
{
    int status = degree_of("tp", s->tp, &p->tensor, err);

    if (status == 0)
        status = degree_of("pp", s->pp, &p->pipeline, err);
    if (status == 0)
        status = degree_of("cp", s->cp, &p->context, err);
    if (status == 0)
        status = degree_of("ep", s->ep, &p->expert, err);
    if (status == 0)
        status = degree_of("vp", s->vp, &p->virtual_stages, err);
    return status < 0 ? status : degree_of("dp", s->dp, &p->data, err);
}

static int read_grid(const struct tutti_training_row_settings *s, struct tutti_training_plan *plan,
                     struct tutti_err *err)
{
    struct tutti_parallel *p = &plan->parallel;
    uint64_t others;
    int status = read_degrees(s, p, err);

    if (status < 0)
        return status;
    others = tutti_times(tutti_times(p->tensor, p->pipeline), p->context);
    if (s->dp == TUTTI_UNSTATED)
        p->data = others <= plan->rank_count ? (uint32_t)(plan->rank_count / others) : 1;
    if (tutti_times(others, p->data) != plan->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "tp %u, pp %u, cp %u and dp %u do not make '%u' devices (gpus)",
                          p->tensor, p->pipeline, p->context, p->data, plan->rank_count);
    return 0;
}

/* ---- how frameworks do it -------------------------------------------------------------------- */

/* What frameworks do where nothing else is stated; the first whose word is there. nanotron's tensor
 * parallelism reduce-scatters (tp_mode REDUCE_SCATTER in its examples), and its ZeRO is 0 or 1 as
 * stated. NVIDIA's recipes of Megatron-Core switch on sequence parallelism, collectives beside
 * products (tp_comm_overlap) and the distributed optimizer, which is ZeRO-1. Megatron-LM's
 * interleaved pipelines scatter what stages send to each other and gather it there (Narayanan et
 * al. 2021, section 4.1). */
static const struct habit {
    const char *word;
    bool sequence_parallel;
    bool async_tensor;
    bool zero1;
    bool nanotron_stages;
} habits[] = {
    {"nanotron", true, false, false, true},
    {"Megatron-Core", true, true, true, false},
    {"NeMo", true, true, true, false},
    {"", false, false, false, false},
};

static const struct habit *habit_of(const char *framework)
{
    const struct habit *h = habits;

    while (!tutti_training_says(framework, h->word))
        h++;
    return h;
}

static void choose_sharding(const struct tutti_training_row_settings *s, const struct habit *habit,
                            struct tutti_training_plan *plan)
{
    static const enum tutti_sharding stages[] = {TUTTI_SHARD_NONE, TUTTI_SHARD_ZERO1,
                                                 TUTTI_SHARD_ZERO2, TUTTI_SHARD_ZERO3};
    struct tutti_parallel *p = &plan->parallel;
    uint32_t replicas = p->data * p->context;

    if (s->zero_stage >= 0 && s->zero_stage <= 3)
        p->sharding = stages[s->zero_stage];
    else if (habit->zero1 && replicas > 1)
        p->sharding = TUTTI_SHARD_ZERO1;
    if (s->zero_group > 0 && s->zero_group < replicas)
        p->shard_ranks = (uint32_t)s->zero_group;
}

static void choose_habits(const struct tutti_training_row_settings *s, const struct habit *habit,
                          struct tutti_parallel *p)
{
    bool interleaved = p->pipeline > 1 && p->virtual_stages > 1;

    p->sequence_parallel = p->tensor > 1 && (habit->sequence_parallel || s->sequence_parallel == 1);
    p->async_tensor = p->tensor > 1 && habit->async_tensor;
    p->schedule = interleaved ? TUTTI_PIPELINE_INTERLEAVED : TUTTI_PIPELINE_1F1B;
    if (p->pipeline == 1)
        p->virtual_stages = 1;
    p->scatter_gather = p->pipeline > 1 && p->tensor > 1 && !p->sequence_parallel &&
                        tutti_training_says(s->framework, "interleaved");
}

/* InternEvo and Megatron-LM in fp16 reduce gradients as they are
 * (accumulate_allreduce_grads_in_fp32 is forced for bf16 alone), and so do NeMo's recipes
 * (grad_reduce_in_fp32=False); others as the framework has it. */
static uint32_t reduced_bytes(const struct tutti_training_row_settings *s)
{
    bool fp16 = strcmp(s->precision, "fp16") == 0;

    return tutti_training_says(s->framework, "InternEvo") ||
                   tutti_training_says(s->framework, "NeMo") ||
                   (fp16 && tutti_training_says(s->framework, "Megatron-LM"))
               ? 2
               : 0;
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Where a layer at both ends less makes stages equal, the embedding and the head count as layers
 * (Megatron-Core's account_for_embedding_in_pipeline_split, and _loss_). */
static bool counts_ends(uint32_t layers, uint64_t stages)
{
    return stages > 1 && layers % stages != 0 && ((uint64_t)layers + 2) % stages == 0;
}

static int cut_stages(const struct habit *habit, struct tutti_training_plan *plan,
                      struct tutti_err *err)
{
    const struct tutti_transformer *t = &plan->model->transformer;
    struct tutti_parallel *p = &plan->parallel;
    uint64_t stages = (uint64_t)p->pipeline * p->virtual_stages;
    uint64_t layer = tutti_times(
        4 * (uint64_t)t->hidden + (t->gated ? 3 : 2) * (uint64_t)t->feed_forward, t->hidden);
    bool ends = counts_ends(t->layers, stages);

    if (stages == 1 || t->layers == 0 || stages > t->layers + (uint64_t)2 ||
        (!habit->nanotron_stages && !ends))
        return 0;
    plan->stage_layers = calloc((size_t)stages, sizeof(*plan->stage_layers));
    if (plan->stage_layers == NULL)
        return tutti_nomem(err);
    p->stage_layers = plan->stage_layers;
    if (habit->nanotron_stages)
        return tutti_pipeline_cut(t->layers, layer, tutti_times(t->vocabulary, t->hidden),
                                  (uint32_t)stages, plan->stage_layers, err);
    for (uint64_t i = 0; i < stages; i++)
        plan->stage_layers[i] = (uint32_t)((t->layers + 2) / stages) - (i == 0) - (i + 1 == stages);
    return 0;
}

/* ---- the batch ------------------------------------------------------------------------------- */

int tutti_training_plan_micro_batch(struct tutti_training_plan *plan, uint64_t global_batch,
                                    uint32_t micro_batch, struct tutti_err *err)
{
    struct tutti_parallel *p = &plan->parallel;
    uint64_t once = (uint64_t)micro_batch * p->data;

    if (micro_batch == 0 || global_batch % once != 0 || global_batch / once > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a global batch of '%" PRIu64 "' does not divide among %u replicas that "
                          "take %u at a time",
                          global_batch, p->data, micro_batch);
    p->micro_batch = plan->ask.use.batch = micro_batch;
    p->micro_batches = plan->ask.micro_batches = (uint32_t)(global_batch / once);
    return 0;
}

static int choose_batch(const struct tutti_training_row_settings *s,
                        struct tutti_training_plan *plan, struct tutti_err *err)
{
    uint64_t passes = s->grad_accum > 0 ? (uint64_t)s->grad_accum : 1;
    uint64_t batch = s->micro_batch > 0 ? (uint64_t)s->micro_batch : 0;

    if (s->global_batch <= 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "what a step has is not stated (global_batch, of a divided model)");
    plan->global_batch = (uint64_t)s->global_batch;
    if (batch == 0 && s->grad_accum > 0)
        batch = plan->global_batch / plan->parallel.data / passes;
    if (batch > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%" PRIu64 "' samples of a pass (4294967295 at most)",
                          batch);
    plan->open_micro_batch = batch == 0;
    return tutti_training_plan_micro_batch(plan, plan->global_batch,
                                           batch == 0 ? 1 : (uint32_t)batch, err);
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool tutti_training_is_divided(const struct tutti_training_row_settings *s)
{
    return s->tp > 1 || s->pp > 1 || s->cp > 1 || s->ep > 1 ||
           (s->pp == 1 && s->zero_stage <= 1 &&
            (tutti_training_says(s->framework, "nanotron") ||
             tutti_training_says(s->framework, "megatron")));
}

int tutti_training_plan_parallel(const struct tutti_training_row_settings *s,
                                 struct tutti_training_plan *plan, struct tutti_err *err)
{
    const struct habit *habit = habit_of(s->framework);
    int status;

    plan->parallel = (struct tutti_parallel){.size = sizeof(plan->parallel)};
    plan->is_divided = true;
    status = read_grid(s, plan, err);
    if (status < 0)
        return status;
    choose_sharding(s, habit, plan);
    plan->full_reduce = habit->nanotron_stages;
    plan->ask.gradient_bytes = reduced_bytes(s);
    choose_habits(s, habit, &plan->parallel);
    plan->open_chunks = plan->parallel.pipeline > 1 && s->vp == TUTTI_UNSTATED &&
                        tutti_training_says(s->framework, "interleaved");
    status = cut_stages(habit, plan, err);
    if (status == 0)
        status = choose_batch(s, plan, err);
    return status;
}
