/* What passes leave on a device: activations saved for the backward pass, logits, and what comes
 * and goes while a layer is in work. */
#include <stdlib.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/footprint/params.h"

enum {
    BATCHES_IN_FLIGHT = 2, /* the one in work and the next, being copied */
    ALL_CHUNKS = -1,
    PPM = 1000000
};

/* ---- stages ---------------------------------------------------------------------------------- */

uint32_t tutti_footprint_equal_layers(const struct tutti_workload *model)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].is_transformer)
            count += model->layers[i].repeat;
    return count;
}

uint32_t tutti_footprint_repeats(const struct tutti_footprint_params *p, uint32_t stage,
                                 const struct tutti_layer *layer, uint32_t first, uint32_t equal)
{
    const struct tutti_parallel alone = {
        .size = sizeof(alone), .pipeline = p->pipeline, .virtual_stages = p->virtual_stages};
    const uint64_t stages = (uint64_t)p->pipeline * p->virtual_stages;
    uint32_t width = (uint32_t)part(equal, stages);
    uint32_t count = 0;

    if (!layer->is_transformer)
        return stage == (first == 0 ? 0 : p->pipeline - 1) ? layer->repeat : 0;
    for (uint32_t chunk = 0; chunk < p->virtual_stages; chunk++) {
        uint64_t low = ((uint64_t)chunk * p->pipeline + stage) * width;
        uint64_t high = low + width;

        if (p->stage_layers == NULL && stages > equal) { /* ends without any */
            count += tutti_parallel_layer_repeats(&alone, p->model, chunk * p->pipeline + stage,
                                                  (uint32_t)(layer - p->model->layers));
            continue;
        }
        if (p->stage_layers != NULL) {
            low = 0;
            for (uint32_t before = 0; before < stage; before++)
                low += p->stage_layers[before];
            high = low + p->stage_layers[stage];
        }
        low = larger(low, first);
        high = high < (uint64_t)first + layer->repeat ? high : (uint64_t)first + layer->repeat;
        count += high > low ? (uint32_t)(high - low) : 0;
    }
    return count;
}

/* The same of one chunk of a device, or of all where degrees are those of params alone. */
static uint32_t repeats_of(const struct tutti_footprint_params *p, uint32_t stage, int chunk,
                           uint32_t layer, uint32_t first, uint32_t equal)
{
    struct tutti_pipeline_params pipeline;

    if (chunk == ALL_CHUNKS)
        return tutti_footprint_repeats(p, stage, &p->model->layers[layer], first, equal);
    pipeline = tutti_parallel_pipeline(p->parallel);
    return tutti_parallel_layer_repeats(
        p->parallel, p->model, tutti_pipeline_stage(&pipeline, stage, (uint32_t)chunk), layer);
}

/* Whether a stage of this number is on a device, which where there are no chunks is the stage. */
static bool has_stage(const struct tutti_footprint_params *p, uint32_t device, bool last)
{
    struct tutti_pipeline_params pipeline;
    uint32_t at = last ? p->pipeline - 1 : 0;
    uint32_t chunk;

    if (p->parallel != NULL) {
        pipeline = tutti_parallel_pipeline(p->parallel);
        tutti_pipeline_place(&pipeline, last ? tutti_pipeline_stage_count(&pipeline) - 1 : 0, &at,
                             &chunk);
    }
    return device == at;
}

/* Micro-batches that a stage holds: times `virtual_stages`, so that it counts chunks. */
static uint64_t held_of(const struct tutti_footprint_params *p, uint32_t stage)
{
    uint64_t after = p->pipeline - stage;
    uint64_t chunks;

    if (p->held > 0)
        return times(p->held, p->virtual_stages);
    if (p->virtual_stages == 1)
        return after < p->micro_batches ? after : p->micro_batches;
    chunks = 2 * (after - 1) + (uint64_t)(p->virtual_stages - 1) * p->pipeline + 1;
    return chunks < times(p->micro_batches, p->virtual_stages)
               ? chunks
               : times(p->micro_batches, p->virtual_stages);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Of the s x s matrices of one sample. */
static uint64_t attention_bytes(const struct tutti_footprint_params *p,
                                const struct tutti_saved *saved)
{
    return part(plus(times(saved->attention_elements, element_bytes(p)), saved->attention_bytes),
                p->tensor);
}

/* What a layer keeps for its experts, of a sample: tokens as they were dispatched, and what experts
 * make of them before their last product. */
struct expert_elements {
    uint64_t in;
    uint64_t inside;
};

static struct expert_elements expert_elements_of(const struct tutti_layer *layer)
{
    struct expert_elements found = {0};
    uint64_t last = 0;

    for (uint32_t i = 0; i < layer->operation_count; i++) {
        const struct tutti_operation *operation = &layer->operations[i];

        if (operation->split != TUTTI_SPLIT_EXPERTS)
            continue;
        if (found.in == 0)
            found.in = operation->in_elements;
        last = operation->out_elements;
        found.inside = plus(found.inside, last);
    }
    found.inside -= last;
    return found;
}

/* Of one sample: tokens that were dispatched are whole on each device of a tensor-parallel group,
 * and the device that has the busiest expert has more of them. */
static uint64_t more_by_experts(const struct tutti_footprint_params *p,
                                const struct tutti_layer *layer)
{
    const struct expert_elements e = expert_elements_of(layer);
    uint64_t ppm;
    uint64_t more;

    if (p->parallel == NULL || e.in == 0)
        return 0;
    ppm = tutti_parallel_imbalance_ppm(p->parallel, p->model);
    more = plus(e.in, part(e.inside, p->tensor));
    more = tutti_muldiv_up(more, ppm - PPM, PPM);
    if (p->sequence_parallel) /* of them 1/t is counted with what is whole */
        more = plus(more, e.in - e.in / p->tensor);
    return times(more, element_bytes(p));
}

/* Of one sample, with nothing recomputed but the matrices of attention. */
static uint64_t saved_bytes(const struct tutti_footprint_params *p, const struct tutti_layer *layer)
{
    const struct tutti_saved *saved = &layer->saved;
    uint64_t percent = layer->is_transformer ? p->framework->saved_percent : 100;
    uint64_t by = p->sequence_parallel ? p->tensor : 1;
    uint64_t whole = plus(times(saved->whole_elements, element_bytes(p)), saved->whole_bytes);
    uint64_t split = plus(times(saved->split_elements, element_bytes(p)), saved->split_bytes);
    uint64_t kv = times(saved->kv_elements, element_bytes(p));
    uint64_t sum = plus(part(whole, by),
                        tutti_held_part(split, kv, p->tensor, p->model->transformer.kv_heads));

    return part(times(plus(sum, more_by_experts(p, layer)), percent), 100);
}

/* What one sample takes in a layer, saved and, while the layer is recomputed, again. */
struct taken {
    uint64_t saved;
    uint64_t recomputed;
};

static struct taken taken_by(const struct tutti_footprint_params *p,
                             const struct tutti_layer *layer, bool has_equal)
{
    uint64_t c = context_of(p);
    uint64_t matrices = p->fused_attention ? 0 : part(attention_bytes(p, &layer->saved), c);
    uint64_t rest = part(saved_bytes(p, layer), c);
    uint64_t input = part(times(layer->saved.input_elements, element_bytes(p)), c);

    if (p->recompute == TUTTI_RECOMPUTE_FULL && (layer->is_transformer || !has_equal))
        return (struct taken){part(input, p->sequence_parallel ? p->tensor : 1),
                              plus(rest, matrices)};
    if (p->recompute == TUTTI_RECOMPUTE_NONE)
        return (struct taken){plus(rest, matrices), 0};
    return (struct taken){rest, matrices};
}

/* Elements that come and go with an operation, forward or backward: its output and its input, or
 * their gradients. What is read far more often than it is written is not of so many elements: each
 * of a region's is read of four positions, which regions share. */
static uint64_t elements_of(const struct tutti_operation *operation)
{
    bool gathers = operation->kind == TUTTI_WORK_ELEMENTWISE &&
                   operation->in_elements / 2 > operation->out_elements;

    return plus(operation->out_elements, gathers ? 0 : operation->in_elements);
}

/* Of one sample, of the largest operation beside the loss and what computes its logits. A frozen
 * layer's are gone before much is saved. */
static uint64_t largest_operation(const struct tutti_footprint_params *p,
                                  const struct tutti_layer *layer)
{
    uint64_t elements = 0;

    for (uint32_t i = 0; i < layer->operation_count && !layer->is_frozen; i++) {
        const struct tutti_operation *operation = &layer->operations[i];
        uint64_t here = elements_of(operation);

        if (operation->kind == TUTTI_WORK_LOSS || operation->split == TUTTI_SPLIT_VOCAB)
            continue;
        if (operation->split != TUTTI_SPLIT_NONE)
            here = tutti_held_part(here, operation->kv_elements, p->tensor,
                                   p->model->transformer.kv_heads);
        elements = larger(elements, part(here, context_of(p)));
    }
    return times(elements, element_bytes(p));
}

static void add_logits(const struct tutti_footprint_params *p, uint32_t stage,
                       struct tutti_footprint *f)
{
    uint64_t count = part(times(p->model->logits, p->micro_batch), context_of(p));
    uint64_t milli = is_mixed(p) ? p->framework->logit_millibytes : 12000; /* three of 4 bytes */
    uint64_t whole = p->framework->logit_whole_millibytes;

    if (!has_stage(p, stage, true))
        return;
    f->bytes[TUTTI_MEMORY_LOGITS] = plus(tutti_muldiv_up(part(count, p->tensor), milli, 1000),
                                         tutti_muldiv_up(count - count / p->tensor, whole, 1000));
}

/* ---- peaks ----------------------------------------------------------------------------------- */

/* The most that a layer in work adds to what is saved, the layers behind it being done and their
 * share freed. */
struct peak {
    uint64_t recomputed;
    uint64_t temporary;
    uint64_t freed;
};

static uint64_t height(const struct peak *peak)
{
    uint64_t sum = plus(peak->recomputed, peak->temporary);

    return sum > peak->freed ? sum - peak->freed : 0;
}

/* The logits are the peak at the end of the forward pass: only what is beyond them counts. */
static void add_peak(const struct peak *peak, struct tutti_footprint *f)
{
    uint64_t beyond = height(peak);

    beyond -= beyond < f->bytes[TUTTI_MEMORY_LOGITS] ? beyond : f->bytes[TUTTI_MEMORY_LOGITS];
    f->bytes[TUTTI_MEMORY_RECOMPUTED] = beyond < peak->recomputed ? beyond : peak->recomputed;
    f->bytes[TUTTI_MEMORY_TEMPORARIES] = beyond - f->bytes[TUTTI_MEMORY_RECOMPUTED];
}

/* Bytes saved by a chunk of `held` micro-batches' samples, by `by`; *highest is raised to what a
 * layer of it adds. */
static uint64_t walk(const struct tutti_footprint_params *p, uint32_t stage, int chunk,
                     uint64_t held, uint32_t by, struct peak *highest)
{
    uint32_t equal = tutti_footprint_equal_layers(p->model);
    struct peak peak = {0};
    uint32_t first = equal;
    uint64_t saved = 0;

    for (uint32_t i = p->model->layer_count; i-- > 0;) { /* as backward goes */
        const struct tutti_layer *layer = &p->model->layers[i];
        struct taken taken;
        uint64_t repeats;

        first -= layer->is_transformer ? layer->repeat : 0;
        repeats = repeats_of(p, stage, chunk, i, first, equal);
        if (repeats == 0)
            continue;
        taken = taken_by(p, layer, equal > 0);
        peak.recomputed = times(taken.recomputed, p->micro_batch);
        peak.temporary = times(largest_operation(p, layer), p->micro_batch);
        if (height(&peak) > height(highest))
            *highest = peak;
        peak.freed = plus(peak.freed, times(times(taken.saved, repeats), p->micro_batch));
        saved = plus(saved, part(times(times(taken.saved, repeats), held), by));
    }
    return saved;
}

/* Chunk by chunk, as the tasks of the device have them; or so many micro-batches of each. */
static int walk_chunks(const struct tutti_footprint_params *p, uint32_t device,
                       struct peak *highest, uint64_t *ret, struct tutti_err *err)
{
    uint64_t *bytes = calloc(p->virtual_stages, sizeof(*bytes));
    uint64_t sum = 0;
    int status = 0;

    if (bytes == NULL)
        return tutti_nomem(err);
    for (uint32_t chunk = 0; chunk < p->virtual_stages; chunk++) {
        bytes[chunk] = walk(p, device, (int)chunk, p->micro_batch, 1, highest);
        sum = plus(sum, bytes[chunk]);
    }
    if (p->held > 0)
        *ret = times(sum, p->held);
    else
        status = tutti_footprint_held(p->parallel, device, bytes, ret, err);
    free(bytes);
    return status;
}

int tutti_footprint_activations(const struct tutti_footprint_params *p, uint32_t stage,
                                struct tutti_footprint *f, struct tutti_err *err)
{
    struct peak highest = {0};
    int status = 0;

    if (p->parallel == NULL)
        f->bytes[TUTTI_MEMORY_ACTIVATIONS] =
            walk(p, stage, ALL_CHUNKS, times(held_of(p, stage), p->micro_batch), p->virtual_stages,
                 &highest);
    else
        status = walk_chunks(p, stage, &highest, &f->bytes[TUTTI_MEMORY_ACTIVATIONS], err);
    if (status < 0)
        return status;
    add_logits(p, stage, f);
    add_peak(&highest, f);
    if (has_stage(p, stage, false))
        f->bytes[TUTTI_MEMORY_INPUT] = times(
            part(times(p->model->sample_bytes, p->micro_batch), context_of(p)), BATCHES_IN_FLIGHT);
    return 0;
}
