/* What predictions on one machine tell each other; see memory.h. */
#include "sim/shape/memory.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/memory.h"
#include "sim/nccl.h"
#include "sim/predict.h"
#include "sim/shape/host_rings.h"

int tutti_predict_memory_new(struct tutti_predict_memory **ret, struct tutti_err *err)
{
    struct tutti_predict_memory *memory = calloc(1, sizeof(*memory));
    int status;

    if (memory == NULL)
        return tutti_nomem(err);
    status = tutti_fold_memory_new(&memory->fold, err);
    if (status < 0) {
        free(memory);
        return status;
    }
    *ret = memory;
    return 0;
}

void tutti_predict_memory_free(struct tutti_predict_memory *memory)
{
    if (memory == NULL)
        return;
    for (uint32_t i = 0; i < TUTTI_COMMS_MAX; i++)
        tutti_nccl_comm_free(memory->comms[i]);
    tutti_fold_memory_free(memory->fold);
    free(memory->ring_orders);
    free(memory);
}

int tutti_memory_rings(struct tutti_predict_memory *memory, const struct tutti_topo *topo,
                       struct tutti_shape *ret, struct tutti_err *err)
{
    if (!memory->has_rings) {
        int status = tutti_host_rings(topo, &memory->rings, &memory->ring_orders, err);

        if (status < 0)
            return status;
        memory->has_rings = true;
    }
    *ret = memory->rings;
    return 0;
}

/* Variables are compared byte by byte: where padding differs one is made once more. */
int tutti_memory_comm(struct tutti_predict_memory *memory,
                      const struct tutti_nccl_comm_params *params, struct tutti_nccl_comm **ret,
                      struct tutti_err *err)
{
    const struct tutti_nccl_version *version =
        params->version != NULL ? params->version : tutti_nccl_version_default();
    uint32_t place = memory->comm_count % TUTTI_COMMS_MAX;
    struct tutti_nccl_comm *comm = NULL;
    int status;

    for (uint32_t i = 0; i < TUTTI_COMMS_MAX; i++) {
        if (memory->comms[i] != NULL && memory->comms[i]->version == version &&
            memcmp(&memory->envs[i], params->env, sizeof(*params->env)) == 0) {
            *ret = memory->comms[i];
            return 0;
        }
    }
    status = tutti_nccl_comm_new(params, &comm, err);
    if (status < 0)
        return status;
    tutti_nccl_comm_free(memory->comms[place]);
    memory->comms[place] = comm;
    memcpy(&memory->envs[place], params->env, sizeof(*params->env));
    memory->comm_count++;
    *ret = comm;
    return 0;
}
