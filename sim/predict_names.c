/* Words for what predictions answer. */
#include <string.h>

#include "sim/predict.h"
#include "sim/protocol.h"
#include "sim/shape/nccl_run.h"

const char *tutti_predict_name(const char *name)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    const struct tutti_protocol *protocols;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(algorithms[i].name, name) == 0)
            return algorithms[i].name;
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
