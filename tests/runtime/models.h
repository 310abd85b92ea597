/* Models of the library for tests: made or the test ends, their sums, parts by name. */
#ifndef TUTTI_TESTS_RUNTIME_MODELS_H
#define TUTTI_TESTS_RUNTIME_MODELS_H

#include "runtime/model.h"
#include "runtime/status.h"
#include "tests/test.h"

#define SIZES(...) \
    (&(const struct tutti_model_params){.size = sizeof(struct tutti_model_params), __VA_ARGS__})

static inline struct tutti_workload *make(const char *name, const struct tutti_model_params *params)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new(name, params, &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

static inline struct tutti_model_sums sums_of(const char *name,
                                              const struct tutti_model_params *params)
{
    struct tutti_workload *model = make(name, params);
    struct tutti_model_sums sums = tutti_model_sum(model);

    tutti_model_free(model);
    return sums;
}

static inline const struct tutti_layer *layer_of(const struct tutti_workload *model,
                                                 const char *name)
{
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (strcmp(model->layers[i].name, name) == 0)
            return &model->layers[i];
    }
    abort();
}

/* Of one name in a layer. */
static inline const struct tutti_operation *operation_of(const struct tutti_layer *layer,
                                                         const char *name)
{
    for (uint32_t i = 0; i < layer->operation_count; i++) {
        if (strcmp(layer->operations[i].name, name) == 0)
            return &layer->operations[i];
    }
    abort();
}

static inline const struct tutti_variable *variable_of(const struct tutti_layer *layer,
                                                       const char *name)
{
    for (uint32_t i = 0; i < layer->variable_count; i++) {
        if (strcmp(layer->variables[i].name, name) == 0)
            return &layer->variables[i];
    }
    abort();
}

#endif
