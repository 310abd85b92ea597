/* What a plan holds and takes, and what that costs. */
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/plan/search.h"
#include "topo/topo.h"

int plan_layer_parts(const struct plan_field *field, const struct tutti_plan_setting *plan,
                     const struct tutti_layer *layer, struct tutti_layer_parts *ret,
                     struct tutti_err *err)
{
    const struct tutti_parallel *p = &plan->parallel;
    struct tutti_device_use use = field->ask->use;

    use.accelerator = field->accelerator;
    use.recompute = plan->recompute;
    use.batch = p->micro_batch;
    use.tensor = p->tensor;
    use.context = p->context;
    use.kv_heads = field->ask->model->transformer.kv_heads;
    use.expert = p->expert;
    use.sequence_parallel = p->sequence_parallel;
    return tutti_device_layer_parts(&use, layer, ret, err);
}

int plan_footprint(const struct plan_field *field, const struct tutti_plan_setting *plan,
                   struct tutti_footprint *ret, struct tutti_err *err)
{
    const struct tutti_plan_ask *ask = field->ask;
    struct tutti_footprint_params params = {
        .size = sizeof(params),
        .model = ask->model,
        .accelerator = field->accelerator,
        .precision = ask->use.precision,
        .optimizer = ask->optimizer,
        .gradient_bytes = ask->gradient_bytes,
        .fused_attention = ask->use.fused_attention,
        .recompute = plan->recompute,
        .parallel = &plan->parallel,
    };
    int status;

    if (tutti_memory_framework_find(ask->use.framework->name, &params.framework, NULL) < 0)
        params.framework = NULL;
    status = tutti_footprint_of(&params, ret, err);
    if (status == 0 && field->capacity_bytes > 0)
        ret->fits = ret->total_bytes <= field->capacity_bytes;
    return status;
}

struct tutti_parallel_ask plan_parallel_ask(const struct plan_field *field,
                                            const struct tutti_plan_setting *plan,
                                            struct tutti_parallel *parallel)
{
    const struct tutti_plan_ask *ask = field->ask;
    struct tutti_parallel_ask one = {
        .size = sizeof(one),
        .topo = field->topo,
        .model = ask->model,
        .use = ask->use,
        .gradient_bytes = ask->gradient_bytes,
        .weight_bytes = ask->weight_bytes,
        .optimizer = ask->optimizer,
        .any_memory = true, /* it was looked at before, with the part of it that may be used */
        .protocols = ask->machines[field->machine].protocols,
        .prefetch = 1,
        .synthetic = ask->synthetic,
        .memory = ask->memory,
        .coarse = !ask->exact,
    };

    one.use.accelerator = field->accelerator;
    one.use.recompute = plan->recompute;
    *parallel = plan->parallel;
    tutti_parallel_follow(parallel, &one);
    return one;
}

int plan_price(const struct plan_field *field, const struct tutti_plan_setting *plan,
               struct tutti_plan_found *ret, struct tutti_err *err)
{
    struct tutti_parallel parallel;
    const struct tutti_parallel_ask one = plan_parallel_ask(field, plan, &parallel);
    struct tutti_parallel_answer answer;
    int status;

    status = tutti_parallel_predict(&one, &answer, err);
    if (status < 0)
        return status;
    *ret = (struct tutti_plan_found){.plan = *plan,
                                     .step_ps = answer.step_ps,
                                     .split = answer.split,
                                     .tokens_per_s = answer.tokens_per_s,
                                     .mfu_percent = answer.mfu_percent,
                                     .exact = field->ask->exact,
                                     .footprint = answer.footprints[0]};
    for (uint32_t i = 1; i < answer.device_count; i++)
        if (answer.footprints[i].total_bytes > ret->footprint.total_bytes)
            ret->footprint = answer.footprints[i];
    tutti_parallel_answer_free(&answer);
    return 0;
}

/* ---- what follows ---------------------------------------------------------------------------- */

const char *tutti_plan_caution_text(enum tutti_plan_caution caution)
{
    static const char *const texts[TUTTI_PLAN_CAUTION_COUNT] = {
        ("tensor parallelism beyond a host: few such steps were measured, and they lie 30 % around "
         "what is predicted"),
        "more than 256 hosts: but for a few rows of papers no larger step was measured",
        "context parallelism of more than 2: but for a few rows of papers none was measured",
        "a schedule of the zero-bubble kind: no such step was measured",
        "divided models were measured on NVIDIA's A100 and H100 alone",
    };

    return texts[caution];
}

static uint32_t cautions_of(const struct plan_field *field, const struct tutti_parallel *p)
{
    enum { HOSTS_MEASURED = 256, CONTEXT_MEASURED = 2 }; /* dgxc.csv */
    const struct tutti_topo *topo = field->topo;
    uint32_t per_host = topo->host_count > 0 ? topo->rank_count / topo->host_count : UINT32_MAX;
    const char *device = field->accelerator != NULL ? field->accelerator->name : "";
    bool divided = p->tensor > 1 || p->pipeline > 1 || p->context > 1 || p->expert > 1;
    uint32_t bits = 0;

    bits |= p->tensor > per_host ? 1u << TUTTI_PLAN_TENSOR_BEYOND_HOST : 0;
    bits |= topo->host_count > HOSTS_MEASURED ? 1u << TUTTI_PLAN_MANY_HOSTS : 0;
    bits |= p->context > CONTEXT_MEASURED ? 1u << TUTTI_PLAN_WIDE_CONTEXT : 0;
    if (p->pipeline > 1 &&
        (p->schedule == TUTTI_PIPELINE_ZB_H1 || p->schedule == TUTTI_PIPELINE_ZB_H2 ||
         p->schedule == TUTTI_PIPELINE_ZBV))
        bits |= 1u << TUTTI_PLAN_ZERO_BUBBLE;
    if (divided && strncmp(device, "a100", 4) != 0 && strncmp(device, "h100", 4) != 0)
        bits |= 1u << TUTTI_PLAN_OTHER_DEVICE;
    return bits;
}

void plan_judge(const struct plan_field *field, struct tutti_plan_found *found)
{
    const struct tutti_plan_ask *ask = field->ask;

    found->device_count = field->topo->rank_count;
    found->time_us = tutti_muldiv((uint64_t)found->step_ps, ask->steps, (uint64_t)TUTTI_PS_PER_US);
    if (ask->prices != NULL && field->accelerator != NULL)
        found->cost =
            tutti_cost_of(ask->prices, field->accelerator, found->device_count, found->time_us);
    found->in_time = ask->deadline_us == 0 || found->time_us <= ask->deadline_us;
    found->in_budget =
        ask->budget == 0 || (found->cost.has_money && found->cost.money <= ask->budget);
    found->cautions = cautions_of(field, &found->plan.parallel);
}
