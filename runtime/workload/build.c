/* Layers, operations and variables of a model, appended one by one. */
#include "runtime/workload/build.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum { NAME_BYTES = 96, CAPACITY_MIN = 16 };

const char *tutti_build_name(struct tutti_build *build, const char *format, ...)
{
    char name[NAME_BYTES];
    const char *copy;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    copy = tutti_arena_copy_text(build->arena, name);
    build->no_memory = build->no_memory || copy == NULL;
    return copy == NULL ? "" : copy;
}

/* Room for one more of `bytes` at the end; NULL when memory ran out. */
static void *add(struct tutti_build *build, struct tutti_build_list *list, size_t bytes)
{
    if (build->no_memory)
        return NULL;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? CAPACITY_MIN : 2 * list->capacity;
        void *items = list->capacity > UINT32_MAX / 2
                          ? NULL
                          : tutti_arena_take(build->arena, capacity, bytes);

        build->no_memory = items == NULL;
        if (items == NULL)
            return NULL;
        if (list->count > 0)
            memcpy(items, list->items, list->count * bytes);
        list->items = items;
        list->capacity = capacity;
    }
    return (char *)list->items + bytes * list->count++;
}

void tutti_build_layer(struct tutti_build *build, const char *name, uint32_t repeat,
                       uint64_t input_elements)
{
    struct tutti_layer *layer = add(build, &build->layers, sizeof(*layer));

    assert(repeat > 0);
    if (layer != NULL)
        *layer = (struct tutti_layer){
            .name = name, .repeat = repeat, .saved.input_elements = input_elements};
}

struct tutti_layer *tutti_build_last(struct tutti_build *build)
{
    return (struct tutti_layer *)build->layers.items + build->layers.count - 1;
}

uint64_t tutti_operation_flops(const struct tutti_operation *op)
{
    uint64_t products = tutti_times(tutti_times(op->rows, op->columns), op->depth);

    if (op->kind == TUTTI_WORK_MATMUL || op->kind == TUTTI_WORK_CONVOLUTION)
        return tutti_times(2 * (uint64_t)op->count, products);
    return op->kind == TUTTI_WORK_ATTENTION ? tutti_times(4 * (uint64_t)op->count, products) : 0;
}

uint64_t tutti_operation_in(const struct tutti_operation *op)
{
    return op->kind == TUTTI_WORK_MATMUL ? tutti_times(op->count, tutti_times(op->rows, op->depth))
                                         : 0;
}

uint64_t tutti_operation_out(const struct tutti_operation *op)
{
    return op->kind == TUTTI_WORK_MATMUL
               ? tutti_times(op->count, tutti_times(op->rows, op->columns))
               : 0;
}

void tutti_build_operation(struct tutti_build *build, struct tutti_operation operation)
{
    struct tutti_operation *op = add(build, &build->operations, sizeof(*op));

    if (op == NULL)
        return;
    assert(build->layers.count > 0);
    *op = operation;
    op->count = op->count == 0 ? 1 : op->count;
    op->flops = tutti_operation_flops(op);
    tutti_build_last(build)->operation_count++;
}

void tutti_build_variable(struct tutti_build *build, struct tutti_variable variable)
{
    struct tutti_variable *v = add(build, &build->variables, sizeof(*v));

    if (v == NULL)
        return;
    assert(build->layers.count > 0);
    *v = variable;
    v->rows = v->rows == 0 ? 1 : v->rows;
    tutti_build_last(build)->variable_count++;
}

void tutti_build_dense(struct tutti_build *build, struct tutti_dense d)
{
    tutti_build_operation(build, (struct tutti_operation){.name = d.name,
                                                          .kind = TUTTI_WORK_MATMUL,
                                                          .split = d.split,
                                                          .rows = d.rows,
                                                          .depth = d.depth,
                                                          .columns = d.columns,
                                                          .in_elements = d.rows * d.depth,
                                                          .out_elements = d.rows * d.columns,
                                                          .no_input_gradient = d.first});
    tutti_build_variable(build, (struct tutti_variable){.name = d.name,
                                                        .split = d.split,
                                                        .rows = d.depth,
                                                        .elements = d.depth * d.columns});
    if (d.bias) /* of partial sums, the bias is added once: each device has all of it */
        tutti_build_variable(build,
                             (struct tutti_variable){
                                 .name = tutti_build_name(build, "%s.bias", d.name),
                                 .split = d.split == TUTTI_SPLIT_ROWS ? TUTTI_SPLIT_NONE : d.split,
                                 .rows = d.columns,
                                 .elements = d.columns});
}

void tutti_build_step(struct tutti_build *build, const char *name, enum tutti_work_kind kind,
                      enum tutti_split split, uint64_t in_elements, uint64_t out_elements)
{
    tutti_build_operation(build, (struct tutti_operation){.name = name,
                                                          .kind = kind,
                                                          .split = split,
                                                          .in_elements = in_elements,
                                                          .out_elements = out_elements});
}

void tutti_build_kv(struct tutti_build *build, uint64_t elements, uint64_t trained)
{
    struct tutti_operation *operations = build->operations.items;
    struct tutti_variable *variables = build->variables.items;

    if (build->no_memory)
        return;
    operations[build->operations.count - 1].kv_elements = elements;
    if (trained > 0)
        variables[build->variables.count - 1].kv_elements = trained;
}

void tutti_build_save(struct tutti_build *build, struct tutti_saved saved)
{
    struct tutti_saved *sum;

    if (build->no_memory)
        return;
    sum = &tutti_build_last(build)->saved;
    sum->whole_elements += saved.whole_elements;
    sum->whole_bytes += saved.whole_bytes;
    sum->split_elements += saved.split_elements;
    sum->split_bytes += saved.split_bytes;
    sum->attention_elements += saved.attention_elements;
    sum->attention_bytes += saved.attention_bytes;
    sum->input_elements += saved.input_elements;
    sum->kv_elements += saved.kv_elements;
}

/* Sums saturate: one that is UINT64_MAX is no sum. */
static bool is_too_large(const struct tutti_workload *model)
{
    struct tutti_model_sums sums = tutti_model_sum(model);
    const uint64_t all[] = {
        sums.parameters,
        sums.unreduced,
        sums.variable_count,
        sums.flops,
        sums.saved.whole_elements,
        sums.saved.whole_bytes,
        sums.saved.split_elements,
        sums.saved.split_bytes,
        sums.saved.attention_elements,
        sums.saved.attention_bytes,
        sums.saved.input_elements,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i] == UINT64_MAX)
            return true;
    }
    return false;
}

int tutti_build_finish(struct tutti_build *build, struct tutti_workload *model,
                       struct tutti_err *err)
{
    struct tutti_layer *layers = build->layers.items;
    uint32_t operations = 0;
    uint32_t variables = 0;

    if (build->no_memory)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < build->layers.count; i++) {
        if (layers[i].operation_count > 0) /* else there may be no array at all */
            layers[i].operations = (struct tutti_operation *)build->operations.items + operations;
        if (layers[i].variable_count > 0)
            layers[i].variables = (struct tutti_variable *)build->variables.items + variables;
        operations += layers[i].operation_count;
        variables += layers[i].variable_count;
    }
    model->layers = layers;
    model->layer_count = build->layers.count;
    if (is_too_large(model))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' is too large (sums of less than 2^64 elements and operations)",
                          model->name);
    return 0;
}
