/* The table of models: found by name, built in the sizes asked for, summed, freed. */
#include "runtime/model.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "runtime/workload/build.h"

/* In the order of `tutti model list`. */
static const struct tutti_model_family *const families[] = {
    &tutti_family_mlp,          &tutti_family_alexnet,
    &tutti_family_vgg,          &tutti_family_inception,
    &tutti_family_resnet,       &tutti_family_unet,
    &tutti_family_segment,      &tutti_family_mobilenet,
    &tutti_family_efficientnet, &tutti_family_ssd,
    &tutti_family_detection,    &tutti_family_bert,
    &tutti_family_gpt,          &tutti_family_llama,
    &tutti_family_deepseek,     &tutti_family_transformer_xl,
    &tutti_family_gnmt,         &tutti_family_dlrm,
    &tutti_family_recommend,
};

enum { FAMILY_COUNT = sizeof(families) / sizeof(families[0]), NAMES_BYTES = 2048 };

const char *tutti_split_name(enum tutti_split split)
{
    static const char *const names[] = {"none", "columns", "rows", "heads", "vocab", "experts"};

    _Static_assert(sizeof(names) / sizeof(names[0]) == TUTTI_SPLIT_COUNT, "a name each");
    assert(split < TUTTI_SPLIT_COUNT);
    return names[split];
}

const char *tutti_sample_name(enum tutti_sample_kind sample)
{
    static const char *const names[] = {"image", "sequence", "row"};

    _Static_assert(sizeof(names) / sizeof(names[0]) == TUTTI_SAMPLE_COUNT, "a name each");
    assert(sample < TUTTI_SAMPLE_COUNT);
    return names[sample];
}

static const struct tutti_model_kind *kind_at(size_t index)
{
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        if (index < families[i]->kind_count)
            return &families[i]->kinds[index];
        index -= families[i]->kind_count;
    }
    return NULL;
}

bool tutti_model_at(size_t index, struct tutti_model_entry *ret)
{
    const struct tutti_model_kind *kind = kind_at(index);

    if (kind == NULL)
        return false;
    *ret = (struct tutti_model_entry){kind->name, kind->summary, kind->source};
    return true;
}

static int find(const char *name, const struct tutti_model_kind **ret, struct tutti_err *err)
{
    const struct tutti_model_kind *kind;
    char names[NAMES_BYTES] = "";
    char near[64];
    size_t used = 0;

    for (size_t i = 0; (kind = kind_at(i)) != NULL; i++) {
        if (strcmp(kind->name, name) == 0) {
            *ret = kind;
            return 0;
        }
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s ", kind->name);
    }
    if (tutti_nearest(name, names, near, sizeof(near)) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "unknown model '%s' (did you mean '%s'?)", name, near);
    return tutti_fail(err, TUTTI_EINVAL, "unknown model '%s' (%.*s)", name,
                      (int)(strlen(names) - 1), names);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* So that no product of two or three of them is beyond 64 bits. */
enum {
    SEQUENCE_MAX = 1 << 20,
    VOCABULARY_MAX = 1 << 24,
    CLASSES_MAX = 1 << 24,
    IMAGE_MAX = 1 << 14,
    LAYERS_MAX = 1 << 16,
    HIDDEN_MAX = 1 << 18,
    FEED_FORWARD_MAX = 1 << 20,
    EXPERTS_MAX = 1 << 16,
};

/* One size: as the model is known, or as asked for. */
static int take_size(const struct tutti_model_kind *kind, const char *what, uint32_t known,
                     uint32_t asked, uint32_t min, uint32_t max, uint64_t *ret,
                     struct tutti_err *err)
{
    if (asked != 0 && known == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has no %s, and so not '%" PRIu32 "' of them",
                          kind->name, what, asked);
    if (asked != 0 && (asked < min || asked > max))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%" PRIu32 "' %s of '%s' (%" PRIu32 " to %" PRIu32 ")", asked, what,
                          kind->name, min, max);
    *ret = asked != 0 ? asked : known;
    return 0;
}

static int take_sizes(struct tutti_build *b, const struct tutti_model_kind *kind,
                      const struct tutti_model_params *asked, struct tutti_err *err)
{
    uint32_t predictions;
    int status = take_size(kind, "tokens of a sequence", kind->sequence, asked->sequence, 1,
                           SEQUENCE_MAX, &b->sequence, err);

    if (status == 0)
        status = take_size(kind, "words of a vocabulary", kind->vocabulary, asked->vocabulary,
                           kind->vocabulary_min > 0 ? kind->vocabulary_min : 1, VOCABULARY_MAX,
                           &b->vocabulary, err);
    if (status == 0)
        status = take_size(kind, "classes", kind->classes, asked->classes, 1, CLASSES_MAX,
                           &b->classes, err);
    if (status == 0)
        status = take_size(kind, "pixels a side", kind->image, asked->image, kind->image_min,
                           IMAGE_MAX, &b->image, err);
    predictions = (uint32_t)((b->sequence * kind->predictions_per_1000 + 999) / 1000);
    if (status == 0)
        status = take_size(kind, "hidden tokens to predict", predictions, asked->predictions, 1,
                           (uint32_t)b->sequence, &b->predictions, err);
    return status;
}

/* ---- shapes of one's own ------------------------------------------------------------------- */

static int check_range(const char *what, uint32_t value, uint32_t min, uint32_t max,
                       struct tutti_err *err)
{
    if (value >= min && value <= max)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "'%" PRIu32 "' %s of a transformer (%" PRIu32 " to %" PRIu32 ")", value, what,
                      min, max);
}

static int check_shape(const struct tutti_transformer *t, struct tutti_err *err)
{
    int status = check_range("layers", t->layers, 1, LAYERS_MAX, err);

    if (status == 0)
        status = check_range("hidden columns", t->hidden, 1, HIDDEN_MAX, err);
    if (status == 0)
        status = check_range("feed-forward columns", t->feed_forward, 1, FEED_FORWARD_MAX, err);
    if (status == 0)
        status = check_range("heads", t->heads, 1, t->hidden, err);
    if (status == 0 && t->hidden % t->heads != 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "'%" PRIu32 "' heads do not divide %" PRIu32 " hidden columns",
                            t->heads, t->hidden);
    if (status == 0)
        status = check_range("heads of keys and values", t->kv_heads, 1, t->heads, err);
    if (status == 0 && t->heads % t->kv_heads != 0)
        status =
            tutti_fail(err, TUTTI_EINVAL,
                       "'%" PRIu32 "' heads of keys and values do not divide %" PRIu32 " heads",
                       t->kv_heads, t->heads);
    if (status == 0)
        status = check_range("experts", t->experts, 0, EXPERTS_MAX, err);
    if (status == 0)
        status = check_range("active experts", t->active_experts, t->experts > 0 ? 1 : 0,
                             t->experts, err);
    return status;
}

static bool has_shape(const struct tutti_transformer *t)
{
    return t->layers != 0 || t->hidden != 0 || t->heads != 0 || t->kv_heads != 0 ||
           t->feed_forward != 0 || t->experts != 0 || t->active_experts != 0 || t->gated || t->tied;
}

/* The shape of a transformer: the model's, or the caller's with what follows from it. */
static int take_shape(struct tutti_build *b, const struct tutti_model_kind *kind,
                      const struct tutti_model_params *asked, struct tutti_err *err)
{
    struct tutti_transformer *t = &b->transformer;
    bool gated = kind->transformer.gated;
    uint64_t wide;

    *t = kind->transformer;
    t->vocabulary = (uint32_t)b->vocabulary;
    if (!kind->asks_shape) {
        if (has_shape(&asked->transformer))
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%s' has a shape of its own ('gpt' and 'llama' take another)",
                              kind->name);
        return 0;
    }
    if (asked->transformer.layers == 0 || asked->transformer.hidden == 0 ||
        asked->transformer.heads == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' has no shape of its own (such as '%s:layers=24,hidden=2048,"
                          "heads=16')",
                          kind->name, kind->name);
    if (!gated && (asked->transformer.experts != 0 || asked->transformer.gated ||
                   (asked->transformer.kv_heads != 0 &&
                    asked->transformer.kv_heads != asked->transformer.heads)))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' has no experts, no grouped queries and no gate ('llama' has)",
                          kind->name);
    *t = asked->transformer;
    t->vocabulary = (uint32_t)b->vocabulary;
    t->gated = gated;
    t->tied = kind->transformer.tied || t->tied;
    t->kv_heads = t->kv_heads == 0 ? t->heads : t->kv_heads;
    wide = gated ? ((uint64_t)t->hidden * 8 / 3 + 255) / 256 * 256 : 4 * (uint64_t)t->hidden;
    if (t->feed_forward == 0)
        t->feed_forward = wide > UINT32_MAX ? UINT32_MAX : (uint32_t)wide;
    return check_shape(t, err);
}

/* The vocabulary may stand in the shape as well. */
static int take_vocabulary(struct tutti_model_params *asked, struct tutti_err *err)
{
    uint32_t vocabulary = asked->transformer.vocabulary;

    if (vocabulary != 0 && asked->vocabulary != 0 && vocabulary != asked->vocabulary)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a vocabulary of '%" PRIu32 "' words, and of '%" PRIu32 "' (one of them)",
                          asked->vocabulary, vocabulary);
    if (asked->vocabulary == 0)
        asked->vocabulary = vocabulary;
    return 0;
}

/* ---- a model --------------------------------------------------------------------------------- */

static int build(const struct tutti_model_kind *kind, struct tutti_build *b,
                 struct tutti_workload *model, struct tutti_err *err)
{
    model->name = kind->name;
    model->summary = kind->summary;
    model->source = kind->source;
    kind->build(b, kind);
    model->sample = kind->sample;
    model->sequence = b->sequence > 0 ? (uint32_t)b->sequence : 1;
    model->sample_bytes = b->sample_bytes;
    model->logits = b->logits;
    model->examples = kind->examples;
    model->transformer = b->transformer;
    return tutti_build_finish(b, model, err);
}

int tutti_model_new(const char *name, const struct tutti_model_params *params,
                    struct tutti_workload **ret, struct tutti_err *err)
{
    struct tutti_model_params asked = {.size = sizeof(asked)};
    const struct tutti_model_kind *kind = NULL;
    struct tutti_build b = {.arena = NULL};
    struct tutti_workload *model;
    int status = 0;

    if (params != NULL)
        status = tutti_take("tutti_model_params", &asked, sizeof(asked), params,
                            TUTTI_BYTES_TO(struct tutti_model_params, transformer), err);
    if (status == 0)
        status = find(name, &kind, err);
    if (status == 0)
        status = take_vocabulary(&asked, err);
    if (status == 0)
        status = take_sizes(&b, kind, &asked, err);
    if (status == 0)
        status = take_shape(&b, kind, &asked, err);
    if (status < 0)
        return status;
    b.arena = tutti_arena_new();
    model = b.arena == NULL ? NULL : tutti_arena_take(b.arena, 1, sizeof(*model));
    if (model == NULL) {
        tutti_arena_free(b.arena);
        return tutti_nomem(err);
    }
    model->arena = b.arena;
    status = build(kind, &b, model, err);
    if (status < 0) {
        tutti_model_free(model);
        return status;
    }
    *ret = model;
    return 0;
}

void tutti_model_free(struct tutti_workload *model)
{
    if (model != NULL)
        tutti_arena_free(model->arena); /* the model itself lies in it */
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* *sum += count * value, saturating. */
static void add(uint64_t *sum, uint64_t count, uint64_t value)
{
    *sum = tutti_plus(*sum, tutti_times(count, value));
}

static void add_saved(struct tutti_saved *sum, uint64_t count, const struct tutti_saved *saved)
{
    add(&sum->whole_elements, count, saved->whole_elements);
    add(&sum->whole_bytes, count, saved->whole_bytes);
    add(&sum->split_elements, count, saved->split_elements);
    add(&sum->split_bytes, count, saved->split_bytes);
    add(&sum->attention_elements, count, saved->attention_elements);
    add(&sum->attention_bytes, count, saved->attention_bytes);
    add(&sum->input_elements, count, saved->input_elements);
    add(&sum->kv_elements, count, saved->kv_elements);
}

/* Of the experts, those that a token goes to. */
static uint64_t active(const struct tutti_transformer *t, const struct tutti_variable *variable)
{
    if (variable->split != TUTTI_SPLIT_EXPERTS || t->experts == 0)
        return variable->elements;
    return tutti_times(variable->elements / t->experts, t->active_experts);
}

struct tutti_model_sums tutti_model_sum(const struct tutti_workload *model)
{
    struct tutti_model_sums sums = {0};

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];

        for (uint32_t v = 0; v < layer->variable_count; v++) {
            const struct tutti_variable *variable = &layer->variables[v];

            if (variable->unreduced) {
                add(&sums.unreduced, layer->repeat, variable->elements);
                continue;
            }
            add(&sums.parameters, layer->repeat, variable->elements);
            add(&sums.active_parameters, layer->repeat, active(&model->transformer, variable));
            add(&sums.variable_count, layer->repeat, 1);
        }
        for (uint32_t o = 0; o < layer->operation_count; o++) {
            const struct tutti_operation *op = &layer->operations[o];

            add(&sums.flops, layer->repeat, op->flops);
            if (op->kind == TUTTI_WORK_ATTENTION)
                add(&sums.attention_flops, layer->repeat, op->flops);
        }
        add_saved(&sums.saved, layer->repeat, &layer->saved);
    }
    return sums;
}

/* ---- parts ----------------------------------------------------------------------------------- */

uint64_t tutti_held_part(uint64_t elements, uint64_t kv_elements, uint32_t tensor,
                         uint32_t kv_heads)
{
    const uint64_t kv = kv_elements < elements ? kv_elements : elements;

    assert(tensor > 0);
    if (kv_heads == 0 || tensor <= kv_heads)
        return tutti_muldiv_up(elements, 1, tensor);
    return tutti_plus(tutti_muldiv_up(elements - kv, 1, tensor), tutti_muldiv_up(kv, 1, kv_heads));
}

uint64_t tutti_variable_part(const struct tutti_variable *variable,
                             const struct tutti_workload *model, uint32_t tensor, uint32_t expert)
{
    if (variable->split == TUTTI_SPLIT_NONE)
        return variable->elements;
    if (variable->split == TUTTI_SPLIT_EXPERTS)
        return tutti_muldiv_up(variable->elements, 1, (uint64_t)tensor * expert);
    return tutti_held_part(variable->elements, variable->kv_elements, tensor,
                           model->transformer.kv_heads);
}
