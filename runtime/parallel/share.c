/* What a rank has of a model: parameters by who reduces their gradients, and tokens of experts. */
#include <assert.h>

#include "runtime/model.h"
#include "runtime/parallel/parts.h"
#include "runtime/wide.h"

enum { PPM = 1000000 };

static void add_variable(const struct tutti_parallel *p, const struct tutti_workload *model,
                         const struct tutti_variable *variable, uint64_t repeats,
                         struct tutti_parallel_share *share)
{
    const bool is_expert = variable->split == TUTTI_SPLIT_EXPERTS;
    const uint32_t kv_heads = model->transformer.kv_heads;
    const bool is_whole = variable->split == TUTTI_SPLIT_NONE;
    const uint64_t elements =
        tutti_times(tutti_variable_part(variable, model, p->tensor, p->expert), repeats);

    if (variable->unreduced) {
        share->unreduced = tutti_plus(share->unreduced, elements);
        return;
    }
    if (is_expert && p->expert > 1) { /* else they are reduced with the rest */
        share->experts = tutti_plus(share->experts, elements);
        return;
    }
    share->dense = tutti_plus(share->dense, elements);
    if (variable->kv_elements > 0 && kv_heads > 0 && p->tensor > kv_heads)
        share->repeated =
            tutti_plus(share->repeated,
                       tutti_times(tutti_muldiv_up(variable->kv_elements, 1, kv_heads), repeats));
    if (is_whole)
        share->whole = tutti_plus(share->whole, elements);
}

static void add_tied(const struct tutti_parallel *p, const struct tutti_workload *model,
                     struct tutti_parallel_share *share)
{
    const struct tutti_layer *layer = &model->layers[0];
    struct tutti_parallel_share tied = {0};

    for (uint32_t v = 0; v < layer->variable_count; v++)
        if (layer->variables[v].split == TUTTI_SPLIT_VOCAB)
            add_variable(p, model, &layer->variables[v], 1, &tied);
    share->tied = tied.dense;
    share->dense = tutti_plus(share->dense, tied.dense);
}

bool tutti_parallel_ties(const struct tutti_parallel *filled, const struct tutti_workload *model)
{
    return model->transformer.tied && filled->pipeline > 1 &&
           filled->schedule != TUTTI_PIPELINE_ZBV;
}

void tutti_parallel_share_of(const struct tutti_parallel *parallel,
                             const struct tutti_workload *model, uint32_t device,
                             struct tutti_parallel_share *ret)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);
    const struct tutti_pipeline_params pipeline = tutti_parallel_pipeline(&p);
    struct tutti_parallel_share share = {0};

    assert(device < p.pipeline);
    for (uint32_t chunk = 0; chunk < p.virtual_stages; chunk++) {
        const uint32_t stage = tutti_pipeline_stage(&pipeline, device, chunk);
        struct tutti_stage_cut cut = tutti_parallel_cut(&p, model, stage);

        for (uint32_t i = 0; i < model->layer_count; i++) {
            const uint32_t repeats = tutti_parallel_next_repeats(&cut);

            for (uint32_t v = 0; v < model->layers[i].variable_count && repeats > 0; v++)
                add_variable(&p, model, &model->layers[i].variables[v], repeats, &share);
        }
    }
    if (device == p.pipeline - 1 && tutti_parallel_ties(&p, model))
        add_tied(&p, model, &share);
    *ret = share;
}

uint32_t tutti_parallel_imbalance_ppm(const struct tutti_parallel *parallel,
                                      const struct tutti_workload *model)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);
    const double all = model->transformer.experts;
    const double here = all / p.expert;

    if (p.expert == 1 || all < 1)
        return PPM;
    return (uint32_t)(PPM * (p.imbalance + (here - 1) * (all - p.imbalance) / (all - 1)) / here +
                      0.5);
}
