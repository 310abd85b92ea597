/* Words for what predictions answer. */
#include <string.h>

#include "sim/predict.h"
#include "sim/protocol.h"
#include "sim/shape/nccl_run.h"

const char *tutti_predict_name(const struct tutti_ask *ask, const char *name)
{
    const struct tutti_algorithm *algorithm;
    const struct tutti_protocol *protocols;
    size_t count = 0;

    for (size_t i = 0; (algorithm = tutti_algorithm_at(ask->params.added, i)) != NULL; i++) {
        if (strcmp(algorithm->name, name) == 0)
            return algorithm->name;
    }
    protocols = tutti_protocols(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(protocols[i].name, name) == 0)
            return protocols[i].name;
    }
    return tutti_nccl_run_name(name);
}

const char *tutti_bound_kind(const struct tutti_bound *bound)
{
    if (bound->time_ps == 0)
        return "none";
    return bound->exact ? "exact" : "valid";
}
