/* What follows the passes of each device: gradients reduced, the optimizer, weights gathered. */
#include <math.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/parallel/run.h"

enum { FLOAT_BYTES = 4 };

/* Gradients that are whole on each rank of tensor parallelism, or held by several of them, tied
 * weights, and the norm. */
static int add_small(struct tutti_cut_run *run, const struct tutti_parallel_share *share,
                     uint32_t d, tutti_ps *sum, struct tutti_err *err)
{
    const uint32_t bytes = run->ask.gradient_bytes;
    const bool ends = d == 0 || d + 1 == run->p.pipeline;
    const bool cut = run->p.tensor * run->p.pipeline * run->p.expert > 1;
    struct tutti_parallel_share last;
    int status = 0;

    tutti_parallel_share_of(&run->p, run->ask.model, run->p.pipeline - 1, &last);
    const struct tutti_group_call calls[] = {
        {TUTTI_GROUP_TENSOR, TUTTI_ALLREDUCE, run->p.sequence_parallel ? share->whole : 0, bytes},
        {TUTTI_GROUP_KV, TUTTI_ALLREDUCE, share->repeated, bytes},
        {TUTTI_GROUP_TIED, TUTTI_ALLREDUCE, ends ? last.tied : 0, bytes},
        {TUTTI_GROUP_ALL, TUTTI_ALLREDUCE, cut ? 1 : 0, FLOAT_BYTES}};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]) && status == 0; i++) {
        struct tutti_group_price price = {.ps = 0};

        status = tutti_groups_price(&run->groups, calls[i], &price, err);
        *sum += price.ps;
    }
    return status;
}

static uint32_t equal_layers(const struct tutti_cut_run *run, uint32_t d)
{
    uint32_t sum = 0;

    for (uint32_t chunk = 0; chunk < run->p.virtual_stages; chunk++)
        sum += tutti_parallel_stage_layers(&run->p, run->ask.model,
                                           tutti_pipeline_stage(&run->pipeline, d, chunk));
    return sum;
}

static int time_optimizer(struct tutti_cut_run *run, const struct tutti_parallel_share *share,
                          uint32_t d, struct tutti_err *err)
{
    const bool divided = run->p.sharding != TUTTI_SHARD_NONE;
    const uint64_t ranks = divided ? run->p.shard_ranks : 1;
    const uint64_t copies = run->p.context * run->p.data / run->p.expert;
    const uint64_t expert_ranks = !divided ? 1 : run->p.expert > 1 ? copies : ranks;
    const uint64_t owned =
        (share->dense + ranks - 1) / ranks + (share->experts + expert_ranks - 1) / expert_ranks;
    const double pace = run->ask.pace > 0 ? run->ask.pace : 1;
    const bool alone = tutti_parallel_ranks(&run->p) == 1; /* nothing is cut: as one device is */
    const double layers_us =
        alone ? 0 : run->ask.use.framework->layer_step_us * equal_layers(run, d);
    const double ps = pace * ((double)tutti_device_optimizer(&run->ask.use, owned) +
                              layers_us * (double)TUTTI_PS_PER_US);
    const int status = tutti_cut_check_length(ps, err);

    if (status == 0)
        run->devices[d].optimizer_ps = (tutti_ps)llround(ps);
    return status;
}

static int time_device(struct tutti_cut_run *run, uint32_t d, struct tutti_err *err)
{
    struct tutti_cut_device *device = &run->devices[d];
    struct tutti_parallel_share share;
    struct tutti_cut_lanes lanes;
    int status = tutti_cut_time_lanes(run, d, &lanes, err);

    if (status < 0)
        return status;
    tutti_parallel_share_of(&run->p, run->ask.model, d, &share);
    device->passes_ps = lanes.passes_ps;
    device->data_ps = lanes.reduce_ps;
    device->gather_ps = lanes.gather_ps;
    status = time_optimizer(run, &share, d, err);
    return status < 0 ? status : add_small(run, &share, d, &device->data_ps, err);
}

int tutti_cut_time_data(struct tutti_cut_run *run, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t d = 0; d < run->p.pipeline && status == 0; d++)
        status = time_device(run, d, err);
    return status;
}
