/* What passes leave on a device: activations saved for the backward pass, logits, and what comes
 * and goes while a layer is in work. */
#include "runtime/model.h"
#include "sim/footprint/params.h"

enum { BATCHES_IN_FLIGHT = 2 /* the one in work and the next, being copied */ };

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
    uint32_t width = (uint32_t)part(equal, (uint64_t)p->pipeline * p->virtual_stages);
    uint32_t count = 0;

    if (!layer->is_transformer)
        return stage == (first == 0 ? 0 : p->pipeline - 1) ? layer->repeat : 0;
    for (uint32_t chunk = 0; chunk < p->virtual_stages; chunk++) {
        uint64_t low = ((uint64_t)chunk * p->pipeline + stage) * width;
        uint64_t high = low + width;

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

/* Of one sample, with nothing recomputed but the matrices of attention. */
static uint64_t saved_bytes(const struct tutti_footprint_params *p, const struct tutti_layer *layer)
{
    const struct tutti_saved *saved = &layer->saved;
    uint64_t percent = layer->is_transformer ? p->framework->saved_percent : 100;
    uint64_t by = p->sequence_parallel ? p->tensor : 1;
    uint64_t whole = plus(times(saved->whole_elements, element_bytes(p)), saved->whole_bytes);
    uint64_t split = plus(times(saved->split_elements, element_bytes(p)), saved->split_bytes);

    return part(times(plus(part(whole, by), part(split, p->tensor)), percent), 100);
}

/* What one sample takes in a layer, saved and, while the layer is recomputed, again. */
struct taken {
    uint64_t saved;
    uint64_t recomputed;
};

static struct taken taken_by(const struct tutti_footprint_params *p,
                             const struct tutti_layer *layer, bool has_equal)
{
    uint64_t matrices = p->fused_attention ? 0 : attention_bytes(p, &layer->saved);
    uint64_t rest = saved_bytes(p, layer);
    uint64_t input = times(layer->saved.input_elements, element_bytes(p));

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
        uint64_t by = operation->split == TUTTI_SPLIT_NONE ? 1 : p->tensor;

        if (operation->kind != TUTTI_WORK_LOSS && operation->split != TUTTI_SPLIT_VOCAB)
            elements = larger(elements, part(elements_of(operation), by));
    }
    return times(elements, element_bytes(p));
}

static void add_logits(const struct tutti_footprint_params *p, uint32_t stage,
                       struct tutti_footprint *f)
{
    uint64_t count = times(p->model->logits, p->micro_batch);
    uint64_t milli = is_mixed(p) ? p->framework->logit_millibytes : 12000; /* three of 4 bytes */
    uint64_t whole = p->framework->logit_whole_millibytes;

    if (stage != p->pipeline - 1)
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

void tutti_footprint_activations(const struct tutti_footprint_params *p, uint32_t stage,
                                 struct tutti_footprint *f)
{
    uint32_t equal = tutti_footprint_equal_layers(p->model);
    uint64_t held = times(held_of(p, stage), p->micro_batch);
    struct peak highest = {0};
    struct peak peak = {0};
    uint32_t first = equal;

    for (uint32_t i = p->model->layer_count; i-- > 0;) { /* as backward goes */
        const struct tutti_layer *layer = &p->model->layers[i];
        struct taken taken = taken_by(p, layer, equal > 0);
        uint64_t repeats;

        first -= layer->is_transformer ? layer->repeat : 0;
        repeats = tutti_footprint_repeats(p, stage, layer, first, equal);
        if (repeats == 0)
            continue;
        peak.recomputed = times(taken.recomputed, p->micro_batch);
        peak.temporary = times(largest_operation(p, layer), p->micro_batch);
        if (height(&peak) > height(&highest))
            highest = peak;
        peak.freed = plus(peak.freed, times(times(taken.saved, repeats), p->micro_batch));
        f->bytes[TUTTI_MEMORY_ACTIVATIONS] =
            plus(f->bytes[TUTTI_MEMORY_ACTIVATIONS],
                 part(times(times(taken.saved, repeats), held), p->virtual_stages));
    }
    add_logits(p, stage, f);
    add_peak(&highest, f);
    if (stage == 0)
        f->bytes[TUTTI_MEMORY_INPUT] =
            times(times(p->model->sample_bytes, p->micro_batch), BATCHES_IN_FLIGHT);
}
