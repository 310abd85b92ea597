/* Degrees of parallelism, filled in; names; and which layers a stage has. */
#include "runtime/parallel.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "runtime/model.h"
#include "runtime/parallel/parts.h"
#include "runtime/status.h"
#include "runtime/wide.h"

static const char *const dimension_names[TUTTI_DIM_COUNT] = {"tp", "cp", "ep", "dp", "pp"};
static const char *const context_names[TUTTI_CONTEXT_COUNT] = {"ring", "ulysses"};

const char *tutti_dimension_name(enum tutti_dimension dimension)
{
    return dimension_names[dimension];
}

const char *tutti_context_name(enum tutti_context_kind kind)
{
    return context_names[kind];
}

int tutti_context_find(const char *name, enum tutti_context_kind *ret, struct tutti_err *err)
{
    static const char all[] = "ring|ulysses";
    char hint[TUTTI_HINT_BYTES];

    for (int i = 0; i < TUTTI_CONTEXT_COUNT; i++) {
        if (strcasecmp(name, context_names[i]) == 0) {
            *ret = (enum tutti_context_kind)i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown context parallelism '%.40s' (%s%s)", name,
                      tutti_nearest_hint(name, all, hint), all);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int find_dimension(const char *name, size_t bytes)
{
    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        if (bytes == strlen(dimension_names[i]) &&
            strncasecmp(name, dimension_names[i], bytes) == 0)
            return i;
    return -1;
}

int tutti_parallel_order_parse(const char *text, uint8_t ret[TUTTI_DIM_COUNT],
                               struct tutti_err *err)
{
    bool named[TUTTI_DIM_COUNT] = {false};
    uint8_t order[TUTTI_DIM_COUNT];
    int count = 0;

    for (const char *at = text;; at++) {
        const size_t bytes = strcspn(at, ",-");
        const int dim = find_dimension(at, bytes);

        if (dim < 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "unknown dimension '%.*s' in order '%.40s' (innermost first: "
                              "tp,cp,ep,dp,pp)",
                              (int)(bytes < 40 ? bytes : 40), at, text);
        if (named[dim])
            return tutti_fail(err, TUTTI_EINVAL, "'%s' twice in order '%.40s' (each once)",
                              dimension_names[dim], text);
        named[dim] = true;
        order[count++] = (uint8_t)dim;
        at += bytes;
        if (*at == '\0')
            break;
    }
    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        if (!named[i])
            order[count++] = (uint8_t)i;
    memcpy(ret, order, sizeof(order));
    return 0;
}

static int check_order(const uint8_t *order, struct tutti_err *err)
{
    unsigned seen = 0;

    for (int i = 0; i < TUTTI_DIM_COUNT; i++) {
        if (order[i] >= TUTTI_DIM_COUNT || (seen & 1U << order[i]) != 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "an order of dimensions with '%u' twice, or unknown (each of 0 to "
                              "%d once)",
                              order[i], TUTTI_DIM_COUNT - 1);
        seen |= 1U << order[i];
    }
    return 0;
}

/* ---- degrees --------------------------------------------------------------------------------- */

static uint32_t at_least_one(uint32_t degree)
{
    return degree > 0 ? degree : 1;
}

static void fill(struct tutti_parallel *p)
{
    static const uint8_t none[TUTTI_DIM_COUNT];

    p->size = sizeof(*p);
    p->tensor = at_least_one(p->tensor);
    p->context = at_least_one(p->context);
    p->expert = at_least_one(p->expert);
    p->data = at_least_one(p->data);
    p->pipeline = at_least_one(p->pipeline);
    p->virtual_stages = at_least_one(p->virtual_stages);
    if (p->schedule == TUTTI_PIPELINE_ZBV && p->pipeline > 1 && p->virtual_stages == 1)
        p->virtual_stages = 2;
    p->micro_batches = at_least_one(p->micro_batches);
    p->micro_batch = at_least_one(p->micro_batch);
    if (!(p->imbalance < 0) && !(p->imbalance > 0)) /* 0, and what is no number: refused later */
        p->imbalance = p->imbalance == p->imbalance ? 1 : p->imbalance;
    if (memcmp(p->order, none, sizeof(none)) == 0)
        for (int i = 0; i < TUTTI_DIM_COUNT; i++)
            p->order[i] = (uint8_t)i;
}

int tutti_parallel_complete(const struct tutti_parallel *parallel, struct tutti_parallel *ret,
                            struct tutti_err *err)
{
    struct tutti_parallel p;
    uint64_t ranks;
    int status = tutti_take("tutti_parallel", &p, sizeof(p), parallel,
                            TUTTI_BYTES_TO(struct tutti_parallel, imbalance), err);

    if (status < 0)
        return status;
    fill(&p);
    status = check_order(p.order, err);
    if (status < 0)
        return status;
    ranks = tutti_times(tutti_times(p.tensor, p.context), tutti_times(p.data, p.pipeline));
    if (ranks > UINT32_MAX || (uint64_t)p.pipeline * p.virtual_stages > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "tensor %u x context %u x data %u x pipeline %u of %u stages (fewer "
                          "than 2^32 in all)",
                          p.tensor, p.context, p.data, p.pipeline, p.virtual_stages);
    if (p.shard_ranks == 0)
        p.shard_ranks = p.context * p.data;
    *ret = p;
    return 0;
}

struct tutti_parallel tutti_parallel_filled(const struct tutti_parallel *parallel)
{
    struct tutti_parallel p = {.size = 0};
    const int status = tutti_parallel_complete(parallel, &p, NULL);

    assert(status == 0);
    (void)status;
    return p;
}

uint32_t tutti_parallel_size_of(const struct tutti_parallel *filled, enum tutti_dimension dim)
{
    const uint32_t sizes[TUTTI_DIM_COUNT] = {filled->tensor, filled->context, 1, filled->data,
                                             filled->pipeline};

    return sizes[dim];
}

uint32_t tutti_parallel_ranks(const struct tutti_parallel *parallel)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);

    return p.tensor * p.context * p.data * p.pipeline;
}

uint64_t tutti_parallel_samples(const struct tutti_parallel *parallel)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);

    return tutti_times(tutti_times(p.data, p.micro_batches), p.micro_batch);
}

/* ---- stages ---------------------------------------------------------------------------------- */

struct tutti_pipeline_params tutti_parallel_pipeline(const struct tutti_parallel *parallel)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);

    return (struct tutti_pipeline_params){
        .size = sizeof(struct tutti_pipeline_params),
        .pipeline = p.pipeline > 1 ? p.schedule : TUTTI_PIPELINE_1F1B,
        .device_count = p.pipeline,
        .micro_batches = p.micro_batches,
        .chunks = p.virtual_stages,
    };
}

uint32_t tutti_parallel_stage_count(const struct tutti_parallel *parallel)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);

    return p.pipeline * p.virtual_stages;
}

bool tutti_parallel_has_equal_layers(const struct tutti_workload *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].is_transformer)
            return true;
    return false;
}

uint32_t tutti_parallel_layers(const struct tutti_workload *model)
{
    const bool equal = tutti_parallel_has_equal_layers(model);
    uint64_t count = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].is_transformer || !equal)
            count += model->layers[i].repeat;
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static bool has_head(const struct tutti_workload *model)
{
    return !model->layers[model->layer_count - 1].is_transformer;
}

bool tutti_parallel_may_be_bare(const struct tutti_workload *model, bool last)
{
    return tutti_parallel_has_equal_layers(model) &&
           (last ? has_head(model) : !model->layers[0].is_transformer);
}

uint32_t tutti_parallel_stages_most(const struct tutti_workload *model)
{
    const uint64_t most = (uint64_t)tutti_parallel_layers(model) +
                          tutti_parallel_may_be_bare(model, false) +
                          tutti_parallel_may_be_bare(model, true);

    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* The first of the layers of a stage. */
static uint32_t first_of(const struct tutti_parallel *p, const struct tutti_workload *model,
                         uint32_t stage)
{
    const uint32_t stages = p->pipeline * p->virtual_stages;
    const uint32_t layers = tutti_parallel_layers(model);
    const uint32_t more = layers % stages; /* stages that have one more than others */
    uint32_t first = 0;

    if (p->stage_layers == NULL && stages > layers) { /* the last has none: has it the head? */
        first = stages - layers > 1 || !has_head(model);
        first = stage > first ? stage - first : 0;
        return first < layers ? first : layers;
    }
    if (p->stage_layers == NULL)
        return stage * (layers / stages) + (stage < more ? stage : more);
    for (uint32_t i = 0; i < stage; i++)
        first += p->stage_layers[i];
    return first;
}

uint32_t tutti_parallel_stage_layers(const struct tutti_parallel *parallel,
                                     const struct tutti_workload *model, uint32_t stage)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);

    assert(stage < p.pipeline * p.virtual_stages);
    return first_of(&p, model, stage + 1) - first_of(&p, model, stage);
}

static uint32_t shared(uint64_t low, uint64_t high, uint64_t first, uint64_t end)
{
    low = low > first ? low : first;
    high = high < end ? high : end;
    return high > low ? (uint32_t)(high - low) : 0;
}

struct tutti_stage_cut tutti_parallel_cut(const struct tutti_parallel *p,
                                          const struct tutti_workload *model, uint32_t stage)
{
    assert(stage < p->pipeline * p->virtual_stages);
    return (struct tutti_stage_cut){.model = model,
                                    .low = first_of(p, model, stage),
                                    .high = first_of(p, model, stage + 1),
                                    .equal = tutti_parallel_has_equal_layers(model),
                                    .is_first = stage == 0,
                                    .is_last = stage == p->pipeline * p->virtual_stages - 1};
}

uint32_t tutti_parallel_next_repeats(struct tutti_stage_cut *cut)
{
    const struct tutti_layer *layer = &cut->model->layers[cut->next++];
    const uint64_t first = cut->before;

    if (cut->equal && !layer->is_transformer)
        return (first == 0 ? cut->is_first : cut->is_last) ? layer->repeat : 0;
    cut->before += layer->repeat;
    return shared(cut->low, cut->high, first, cut->before);
}

void tutti_parallel_stage_repeats(const struct tutti_parallel *parallel,
                                  const struct tutti_workload *model, uint32_t stage, uint32_t *ret)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);
    struct tutti_stage_cut cut = tutti_parallel_cut(&p, model, stage);

    for (uint32_t i = 0; i < model->layer_count; i++)
        ret[i] = tutti_parallel_next_repeats(&cut);
}

uint32_t tutti_parallel_layer_repeats(const struct tutti_parallel *parallel,
                                      const struct tutti_workload *model, uint32_t stage,
                                      uint32_t layer)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);
    struct tutti_stage_cut cut = tutti_parallel_cut(&p, model, stage);

    assert(layer < model->layer_count);
    for (uint32_t i = 0; i < layer; i++)
        (void)tutti_parallel_next_repeats(&cut);
    return tutti_parallel_next_repeats(&cut);
}
