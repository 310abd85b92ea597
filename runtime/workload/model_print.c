/* The text form of a model: writing it. The grammar stands in model_text.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/workload/build.h"

struct text {
    char *bytes;
    size_t used;
    size_t capacity;
    bool no_memory;
};

/* Room for so many bytes more, and a zero behind them. */
static bool grow(struct text *text, size_t bytes)
{
    size_t capacity = text->capacity == 0 ? 1024 : text->capacity;
    char *grown;

    while (capacity - text->used <= bytes && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    if (capacity == text->capacity)
        return true;
    grown = realloc(text->bytes, capacity);
    if (grown == NULL)
        return false;
    text->bytes = grown;
    text->capacity = capacity;
    return true;
}

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
    va_list args;
    int bytes;

    va_start(args, format);
    bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (text->no_memory || bytes < 0 || !grow(text, (size_t)bytes)) {
        text->no_memory = true;
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text->bytes + text->used, text->capacity - text->used, format, args);
    va_end(args);
    text->used += (size_t)bytes;
}

/* " key N", unless it is what holds without it. */
static void put_key(struct text *text, const char *key, uint64_t value, uint64_t without)
{
    if (value != without)
        put(text, " %s %" PRIu64, key, value);
}

static void put_split(struct text *text, enum tutti_split split)
{
    if (split != TUTTI_SPLIT_NONE)
        put(text, " split %s", tutti_split_name(split));
}

static void put_transformer(struct text *text, const struct tutti_transformer *t)
{
    if (t->layers == 0 && t->hidden == 0 && t->heads == 0 && t->kv_heads == 0 &&
        t->feed_forward == 0 && t->vocabulary == 0 && t->experts == 0 && !t->gated && !t->tied)
        return;
    put(text, "transformer");
    put_key(text, "layers", t->layers, 0);
    put_key(text, "hidden", t->hidden, 0);
    put_key(text, "heads", t->heads, 0);
    put_key(text, "kv_heads", t->kv_heads, 0);
    put_key(text, "feed_forward", t->feed_forward, 0);
    put_key(text, "vocabulary", t->vocabulary, 0);
    put_key(text, "experts", t->experts, 0);
    put_key(text, "active", t->active_experts, 0);
    put(text, "%s%s\n", t->gated ? " gated" : "", t->tied ? " tied" : "");
}

static void put_head(struct text *text, const struct tutti_workload *model)
{
    put(text, "model %s\n", model->name);
    if (model->summary[0] != '\0')
        put(text, "summary %s\n", model->summary);
    if (model->source[0] != '\0')
        put(text, "source %s\n", model->source);
    put(text, "sample %s", tutti_sample_name(model->sample));
    put_key(text, "bytes", model->sample_bytes, 0);
    put(text, "\n");
    if (model->sequence != 1)
        put(text, "sequence %" PRIu32 "\n", model->sequence);
    if (model->logits != 0)
        put(text, "logits %" PRIu64 "\n", model->logits);
    if (model->examples != 0)
        put(text, "examples %" PRIu64 "\n", model->examples);
    put_transformer(text, &model->transformer);
}

static void put_operation(struct text *text, const struct tutti_operation *op)
{
    put(text, "  operation %s %s", op->name, tutti_work_kind_name(op->kind));
    if (op->kind == TUTTI_WORK_MATMUL || op->kind == TUTTI_WORK_CONVOLUTION ||
        op->kind == TUTTI_WORK_ATTENTION)
        put(text, " %" PRIu64 " x %" PRIu64 " x %" PRIu64, op->rows, op->depth, op->columns);
    put_key(text, "count", op->count, 1);
    put_split(text, op->split);
    put_key(text, "in", op->in_elements, tutti_operation_in(op));
    put_key(text, "out", op->out_elements, tutti_operation_out(op));
    put_key(text, "flops", op->flops, tutti_operation_flops(op));
    put_key(text, "kv", op->kv_elements, 0);
    put(text, "%s\n", op->no_input_gradient ? " first" : "");
}

static void put_variable(struct text *text, const struct tutti_variable *v)
{
    put(text, "  variable %s elements %" PRIu64, v->name, v->elements);
    put_key(text, "rows", v->rows, 1);
    put_split(text, v->split);
    put_key(text, "touched", v->touched_rows, 0);
    put_key(text, "kv", v->kv_elements, 0);
    put(text, "%s\n", v->unreduced ? " unreduced" : "");
}

static void put_saved(struct text *text, const struct tutti_saved *s)
{
    const struct tutti_saved none = {0};

    if (memcmp(s, &none, sizeof(none)) == 0)
        return;
    put(text, "  saved");
    put_key(text, "whole", s->whole_elements, 0);
    put_key(text, "whole_bytes", s->whole_bytes, 0);
    put_key(text, "split", s->split_elements, 0);
    put_key(text, "split_bytes", s->split_bytes, 0);
    put_key(text, "attention", s->attention_elements, 0);
    put_key(text, "attention_bytes", s->attention_bytes, 0);
    put_key(text, "input", s->input_elements, 0);
    put_key(text, "kv", s->kv_elements, 0);
    put(text, "\n");
}

int tutti_model_print(const struct tutti_workload *model, char **ret, struct tutti_err *err)
{
    struct text text = {.bytes = NULL};

    put_head(&text, model);
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];

        put(&text, "layer %s", layer->name);
        put_key(&text, "repeat", layer->repeat, 1);
        put(&text, "%s%s\n", layer->is_transformer ? " transformer" : "",
            layer->is_frozen ? " frozen" : "");
        for (uint32_t o = 0; o < layer->operation_count; o++)
            put_operation(&text, &layer->operations[o]);
        for (uint32_t v = 0; v < layer->variable_count; v++)
            put_variable(&text, &layer->variables[v]);
        put_saved(&text, &layer->saved);
    }
    if (text.no_memory) {
        free(text.bytes);
        return tutti_nomem(err);
    }
    *ret = text.bytes;
    return 0;
}
