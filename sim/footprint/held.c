/* How much a device of a pipeline holds at once, by the order of its tasks. */
#include <stdlib.h>

#include "runtime/pipeline.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/footprint/params.h"

/* Orders begin with less than two rounds of p micro-batches and then repeat themselves every round,
 * so that more than three of them hold no more. */
enum { ROUNDS = 3 };

/* From a chunk's forward pass until the last of its backward passes. */
static uint64_t most_of(const struct tutti_pipeline_params *params,
                        const struct tutti_pipeline_task *tasks, const uint64_t *chunk_bytes)
{
    const enum tutti_pass last =
        tutti_pipeline_splits(params) ? TUTTI_PASS_WEIGHTS : TUTTI_PASS_BACKWARD;
    uint64_t held = 0;
    uint64_t most = 0;

    for (uint32_t i = 0; i < tutti_pipeline_task_count(params); i++) {
        const uint64_t bytes = chunk_bytes[tasks[i].chunk];

        if (tasks[i].pass == TUTTI_PASS_FORWARD)
            held = plus(held, bytes);
        else if (tasks[i].pass == last)
            held = held == UINT64_MAX ? held : held - bytes; /* once too much, always */
        most = larger(most, held);
    }
    return most;
}

static bool are_equal(const uint64_t *chunk_bytes, uint32_t chunks)
{
    for (uint32_t i = 1; i < chunks; i++)
        if (chunk_bytes[i] != chunk_bytes[0])
            return false;
    return true;
}

/* Interleaved, of chunks alike: runtime/pipeline.h. */
static uint64_t interleaved(const struct tutti_pipeline_params *params, uint32_t device,
                            uint64_t chunk_bytes)
{
    const uint64_t p = params->device_count;
    const uint64_t ahead = 2 * (p - 1 - device) + (params->chunks - 1) * p + 1;
    const uint64_t all = (uint64_t)params->micro_batches * params->chunks;

    return times(chunk_bytes, ahead < all ? ahead : all);
}

int tutti_footprint_held(const struct tutti_parallel *parallel, uint32_t device,
                         const uint64_t *chunk_bytes, uint64_t *ret, struct tutti_err *err)
{
    struct tutti_pipeline_params params = tutti_parallel_pipeline(parallel);
    const uint32_t p = params.device_count;
    const uint32_t m = params.micro_batches;
    struct tutti_pipeline_task *tasks;

    if (params.pipeline == TUTTI_PIPELINE_1F1B || params.pipeline == TUTTI_PIPELINE_GPIPE) {
        const bool all = params.pipeline == TUTTI_PIPELINE_GPIPE || m < p - device;

        *ret = times(chunk_bytes[0], all ? m : p - device);
        return 0;
    }
    if (params.pipeline == TUTTI_PIPELINE_INTERLEAVED && are_equal(chunk_bytes, params.chunks)) {
        *ret = interleaved(&params, device, chunk_bytes[0]);
        return 0;
    }
    if (m / ROUNDS >= p)
        params.micro_batches = ROUNDS * p;
    tasks = calloc(tutti_pipeline_task_count(&params), sizeof(*tasks));
    if (tasks == NULL)
        return tutti_nomem(err);
    tutti_pipeline_tasks(&params, device, tasks);
    *ret = most_of(&params, tasks, chunk_bytes);
    free(tasks);
    return 0;
}
