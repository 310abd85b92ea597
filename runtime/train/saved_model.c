/* The variables of a workload for a checkpoint's manifest; see saved_model.h. */
#include "runtime/train/saved_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/status.h"

static void describe(const struct tutti_layer *layer, uint32_t repeat_index, uint32_t v, char *name,
                     struct tutti_checkpoint_variable *ret)
{
    const struct tutti_variable *variable = &layer->variables[v];
    uint64_t rows =
        variable->rows > 0 && variable->elements % variable->rows == 0 ? variable->rows : 1;

    if (layer->repeat > 1)
        (void)snprintf(name, TUTTI_CHECKPOINT_NAME_BYTES_MAX + 1, "%.64s.%u/%.64s", layer->name,
                       repeat_index, variable->name);
    else
        (void)snprintf(name, TUTTI_CHECKPOINT_NAME_BYTES_MAX + 1, "%.64s/%.64s", layer->name,
                       variable->name);
    for (char *c = name; *c != '\0'; c++)
        if (*c <= ' ' || *c == '#' || *c > '~')
            *c = '_';
    *ret = (struct tutti_checkpoint_variable){
        .name = name, .dim_count = 2, .dims = {rows, variable->elements / rows}};
}

static uint32_t count_of(const struct tutti_workload *model)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        count += model->layers[i].repeat * model->layers[i].variable_count;
    return count;
}

int tutti_saved_model_make(const struct tutti_workload *model, struct tutti_saved_model *ret,
                           struct tutti_err *err)
{
    const uint32_t count = count_of(model);
    uint64_t hash = 1;
    uint32_t at = 0;

    ret->variables = calloc((size_t)count + 1, sizeof(ret->variables[0]));
    ret->names = calloc((size_t)count + 1, sizeof(ret->names[0]));
    if (ret->variables == NULL || ret->names == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t k = 0; k < model->layers[i].repeat; k++)
            for (uint32_t v = 0; v < model->layers[i].variable_count; v++, at++) {
                describe(&model->layers[i], k, v, ret->names[at], &ret->variables[at]);
                for (const char *c = ret->names[at]; *c != '\0'; c++)
                    hash = tutti_random_hash(hash, (unsigned char)*c, at, 0);
                hash = tutti_random_hash(hash, model->layers[i].variables[v].elements, at, 1);
            }
    ret->model = (struct tutti_checkpoint_model){
        .name = model->name, .hash = hash, .variables = ret->variables, .variable_count = count};
    return 0;
}

void tutti_saved_model_done(struct tutti_saved_model *saved)
{
    free(saved->variables);
    free(saved->names);
    *saved = (struct tutti_saved_model){.variables = NULL};
}
