/* What follows the passes of each device: gradients reduced, the optimizer, weights gathered. */
#include <math.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/parallel/run.h"
#include "sim/step.h"

enum { MILLION = 1000000 };

/* ---- in buckets ------------------------------------------------------------------------------ */

/* Collectives one after another of equal buckets. */
struct series {
    tutti_ps ps;      /* all of them */
    tutti_ps last_ps; /* the last one, which nothing can hide */
    uint32_t share;   /* of a device, meanwhile */
};

static int price(struct tutti_cut_run *run, enum tutti_parallel_group group,
                 enum tutti_collective collective, uint64_t elements, uint32_t element_bytes,
                 struct series *sum, struct tutti_err *err)
{
    const uint32_t ranks = run->groups.shapes[group].axis.size;
    const double bucket = run->ask.use.framework->bucket_MB * MILLION / element_bytes;
    const bool whole = collective == TUTTI_ALLREDUCE;
    uint64_t buckets;
    uint64_t count;
    tutti_ps ps = 0;
    uint32_t share = 0;
    int status;

    if (ranks <= 1 || elements == 0)
        return 0;
    buckets =
        bucket > 0 && (double)elements > bucket ? (uint64_t)ceil((double)elements / bucket) : 1;
    count = (elements + buckets - 1) / buckets;
    status = tutti_groups_price(&run->groups, group, collective,
                                whole ? count : (count + ranks - 1) / ranks, element_bytes, &ps,
                                &share, err);
    sum->ps += (tutti_ps)tutti_times((uint64_t)ps, buckets);
    sum->last_ps = ps > sum->last_ps ? ps : sum->last_ps;
    sum->share = share > sum->share ? share : sum->share;
    return status;
}

/* Of experts the ranks that have the same ones; states that fewer share than reduce are reduced
 * across as well. */
static int reduce(struct tutti_cut_run *run, uint64_t elements, bool experts, struct series *sum,
                  struct tutti_err *err)
{
    const bool divided = experts && run->p.expert > 1;
    const bool scatters = run->p.sharding != TUTTI_SHARD_NONE && !run->ask.full_reduce;
    const enum tutti_parallel_group all = divided ? TUTTI_GROUP_EXPERT_DATA : TUTTI_GROUP_DATA;
    const enum tutti_parallel_group shard = divided ? TUTTI_GROUP_EXPERT_DATA : TUTTI_GROUP_SHARD;
    const uint32_t bytes = run->ask.gradient_bytes;
    int status;

    if (!scatters)
        return price(run, all, TUTTI_ALLREDUCE, elements, bytes, sum, err);
    status = price(run, shard, TUTTI_REDUCESCATTER, elements, bytes, sum, err);
    if (status == 0 && !divided)
        status = price(run, TUTTI_GROUP_ACROSS, TUTTI_ALLREDUCE, elements / run->p.shard_ranks + 1,
                       bytes, sum, err);
    return status;
}

static int gather(struct tutti_cut_run *run, uint64_t elements, bool experts, struct series *sum,
                  struct tutti_err *err)
{
    const bool divided = experts && run->p.expert > 1;

    return price(run, divided ? TUTTI_GROUP_EXPERT_DATA : TUTTI_GROUP_SHARD, TUTTI_ALLGATHER,
                 elements, run->ask.weight_bytes, sum, err);
}

/* What is left of a series of collectives that run beside so much work, of which a part hides them;
 * those that hold a part of the device slow the work down instead. */
static tutti_ps exposed_ps(const struct series *s, tutti_ps window_ps, double overlap)
{
    const tutti_ps can_ps = s->ps - s->last_ps < window_ps ? s->ps - s->last_ps : window_ps;
    const tutti_ps hidden_ps = (tutti_ps)llround(overlap * (double)can_ps);
    const uint32_t rest = TUTTI_SHARE_ONE - s->share;

    return s->ps - hidden_ps +
           (rest > 0 ? (tutti_ps)tutti_muldiv((uint64_t)hidden_ps, s->share, rest) : 0);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* One micro-batch on all stages of a device. */
static tutti_ps pass_ps(const struct tutti_cut_run *run, uint32_t d, bool backward)
{
    tutti_ps sum = 0;

    for (uint32_t chunk = 0; chunk < run->p.virtual_stages; chunk++) {
        const uint32_t stage = tutti_pipeline_stage(&run->pipeline, d, chunk);
        const struct tutti_stage_times *t = &run->stages[stage];

        sum += backward ? t->backward_ps + t->weights_ps : t->forward_ps;
    }
    return sum;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Gradients that are whole on each rank of tensor parallelism, tied weights, and the norm. */
static int add_small(struct tutti_cut_run *run, const struct tutti_parallel_share *share,
                     uint32_t d, tutti_ps *sum, struct tutti_err *err)
{
    const uint32_t bytes = run->ask.gradient_bytes;
    const bool ends = d == 0 || d + 1 == run->p.pipeline;
    struct tutti_parallel_share last;
    tutti_ps ps[3] = {0};
    int status = 0;

    tutti_parallel_share_of(&run->p, run->ask.model, run->p.pipeline - 1, &last);
    if (run->p.sequence_parallel)
        status = tutti_groups_price(&run->groups, TUTTI_GROUP_TENSOR, TUTTI_ALLREDUCE, share->whole,
                                    bytes, &ps[0], NULL, err);
    if (status == 0 && ends)
        status = tutti_groups_price(&run->groups, TUTTI_GROUP_TIED, TUTTI_ALLREDUCE, last.tied,
                                    bytes, &ps[1], NULL, err);
    if (status == 0 && run->p.tensor * run->p.pipeline * run->p.expert > 1)
        status = tutti_groups_price(&run->groups, TUTTI_GROUP_ALL, TUTTI_ALLREDUCE, 1, 4, &ps[2],
                                    NULL, err);
    *sum += ps[0] + ps[1] + ps[2];
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

static void time_optimizer(struct tutti_cut_run *run, const struct tutti_parallel_share *share,
                           uint32_t d)
{
    const bool divided = run->p.sharding != TUTTI_SHARD_NONE;
    const uint64_t ranks = divided ? run->p.shard_ranks : 1;
    const uint64_t copies = run->p.context * run->p.data / run->p.expert;
    const uint64_t expert_ranks = !divided ? 1 : run->p.expert > 1 ? copies : ranks;
    const uint64_t owned =
        (share->dense + ranks - 1) / ranks + (share->experts + expert_ranks - 1) / expert_ranks;
    const double pace = run->ask.pace > 0 ? run->ask.pace : 1;
    const double layers_us = run->ask.use.framework->layer_step_us * equal_layers(run, d);

    run->devices[d].optimizer_ps =
        (tutti_ps)llround(pace * ((double)tutti_device_optimizer(&run->ask.use, owned) +
                                  layers_us * (double)TUTTI_PS_PER_US));
}

static int time_device(struct tutti_cut_run *run, uint32_t d, struct tutti_err *err)
{
    const struct tutti_framework *f = run->ask.use.framework;
    const bool gathers =
        run->p.sharding == TUTTI_SHARD_ZERO1 || run->p.sharding == TUTTI_SHARD_ZERO2;
    struct tutti_cut_device *device = &run->devices[d];
    struct tutti_parallel_share share;
    struct series gradients = {0};
    struct series weights = {0};
    int status;

    tutti_parallel_share_of(&run->p, run->ask.model, d, &share);
    status = reduce(run, share.dense, false, &gradients, err);
    if (status == 0)
        status = reduce(run, share.experts, true, &gradients, err);
    if (status == 0 && gathers)
        status = gather(run, share.dense, false, &weights, err);
    if (status == 0 && gathers)
        status = gather(run, share.experts, true, &weights, err);
    device->data_ps =
        exposed_ps(&gradients, pass_ps(run, d, true), run->ask.no_overlap ? 0 : f->overlap);
    device->gather_ps =
        exposed_ps(&weights, pass_ps(run, d, false), run->ask.no_overlap ? 0 : f->overlap_next);
    time_optimizer(run, &share, d);
    return status < 0 ? status : add_small(run, &share, d, &device->data_ps, err);
}

int tutti_cut_time_data(struct tutti_cut_run *run, struct tutti_err *err)
{
    int status = 0;

    if (run->p.sharding == TUTTI_SHARD_ZERO3 && run->p.shard_ranks > 1)
        return tutti_fail(err, TUTTI_ELACK, "ZeRO-3 of models that are cut is not modelled");
    for (uint32_t d = 0; d < run->p.pipeline && status == 0; d++)
        status = time_device(run, d, err);
    return status;
}
