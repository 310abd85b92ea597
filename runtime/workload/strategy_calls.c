/* The collectives of a step: what is reduced and gathered, on which axis, by which schedule. */
#include "runtime/coll.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/workload/strategy_write.h"

static enum tutti_dtype dtype_of(uint32_t bytes)
{
    return bytes == 4 ? TUTTI_FLOAT32 : bytes == 2 ? TUTTI_BFLOAT16 : TUTTI_UINT8;
}

static enum tutti_dtype gradients_of(const struct tutti_strategy_params *params)
{
    bool is_half = params->gradient_bytes == 2 && params->ieee_half;

    return is_half ? TUTTI_FLOAT16 : dtype_of(params->gradient_bytes);
}

struct tutti_contract tutti_writer_reduction(const struct tutti_step_writer *w,
                                             const struct tutti_plan_pack *p, uint32_t part)
{
    struct tutti_contract c = {.collective = TUTTI_ALLREDUCE,
                               .dtype = gradients_of(&w->plan.params),
                               .op = tutti_writer_averages_weights(w) ? TUTTI_AVG : TUTTI_SUM,
                               .count = p->sent[part]};

    if (tutti_writer_averages_weights(w))
        c.dtype = dtype_of(w->plan.params.weight_bytes);
    if (p->gathered)
        c.collective = TUTTI_ALLGATHER;
    else if (tutti_writer_shares(w) && !w->plan.strategy->full_reduce)
        c.collective = TUTTI_REDUCESCATTER;
    return c;
}

struct tutti_contract tutti_writer_report(const struct tutti_step_writer *w)
{
    return (struct tutti_contract){.collective = TUTTI_ALLREDUCE,
                                   .dtype = TUTTI_FLOAT64,
                                   .count = w->plan.params.report_elements};
}

struct tutti_contract tutti_writer_across(const struct tutti_step_writer *w,
                                          const struct tutti_plan_pack *p)
{
    return (struct tutti_contract){.collective = TUTTI_ALLREDUCE,
                                   .dtype = gradients_of(&w->plan.params),
                                   .count = p->padded / w->plan.shard_ranks};
}

struct tutti_contract tutti_writer_gather(const struct tutti_step_writer *w,
                                          const struct tutti_plan_pack *p)
{
    return (struct tutti_contract){.collective = TUTTI_ALLGATHER,
                                   .dtype = dtype_of(w->plan.params.weight_bytes),
                                   .count = p->padded / w->plan.shard_ranks};
}

uint32_t tutti_writer_shard_axis(const struct tutti_step_writer *w)
{
    return tutti_writer_goes_across(w) ? TUTTI_AXIS_SHARD : TUTTI_AXIS_ALL;
}

static uint32_t axis_size(const struct tutti_step_writer *w, uint32_t axis)
{
    return axis == TUTTI_AXIS_ALL     ? w->plan.params.rank_count
           : axis == TUTTI_AXIS_SHARD ? w->plan.shard_ranks
                                      : w->plan.params.rank_count / w->plan.shard_ranks;
}

struct tutti_step_callee *tutti_writer_callee(const struct tutti_step_writer *w,
                                              const struct tutti_contract *c, uint32_t axis)
{
    for (uint32_t i = 0; i < w->callee_count; i++) {
        struct tutti_step_callee *known = &w->callees[i];

        if (known->axis == axis && known->contract.collective == c->collective &&
            known->contract.dtype == c->dtype && known->contract.count == c->count)
            return known;
    }
    return NULL;
}

static int make_callee(struct tutti_step_writer *w, const struct tutti_contract *c, uint32_t axis,
                       struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_strategy_params *params = &w->plan.params;
    const struct tutti_coll_params coll = {
        .collective = c->collective, .dtype = c->dtype, .op = c->op, .count = c->count};
    const struct tutti_shape shape = tutti_shape_flat(axis_size(w, axis));

    if (c->collective == TUTTI_ALLGATHER && w->plan.strategy->gathers_at_one)
        return tutti_writer_gather_at_one(&coll, shape.rank_count, ret, err);
    if (params->collective != NULL)
        return params->collective(params->context, &coll, axis, shape.rank_count, ret, err);
    return tutti_coll_generate(c->collective == TUTTI_ALLREDUCE && w->plan.strategy->to_one_device
                                   ? "reduce-broadcast"
                                   : "ring",
                               &coll, &shape, ret, err);
}

static int need(struct tutti_step_writer *w, const struct tutti_contract *c, uint32_t axis,
                uint32_t lane, struct tutti_err *err)
{
    struct tutti_step_callee *known = tutti_writer_callee(w, c, axis);
    int status = 0;

    if (known == NULL) {
        known = &w->callees[w->callee_count];
        if (w->callee_count == TUTTI_WRITER_CALLEES_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "more than %d different collectives",
                              TUTTI_WRITER_CALLEES_MAX);
        *known = (struct tutti_step_callee){.contract = *c, .axis = axis};
        status = make_callee(w, c, axis, &known->schedule, err);
        w->callee_count += status == 0;
    }
    if (status == 0 && known->schedule->scratch_bytes > w->staging_bytes[lane])
        w->staging_bytes[lane] = known->schedule->scratch_bytes;
    return status;
}

int tutti_writer_need_all(struct tutti_step_writer *w, struct tutti_err *err)
{
    const struct tutti_contract report = tutti_writer_report(w);
    int status = report.count > 0 ? need(w, &report, TUTTI_AXIS_ALL, TUTTI_LANE_REDUCE, err) : 0;

    for (uint32_t i = 0; i < w->plan.pack_count && status == 0; i++) {
        const struct tutti_plan_pack *p = &w->plan.packs[i];
        struct tutti_contract c;

        for (uint32_t part = 0; part < 2 && status == 0; part++) {
            c = tutti_writer_reduction(w, p, part);
            if (c.count > 0)
                status = need(w, &c, p->sparse ? TUTTI_AXIS_ALL : tutti_writer_shard_axis(w),
                              TUTTI_LANE_REDUCE, err);
        }
        if (status < 0 || p->sparse || !tutti_writer_shares(w))
            continue;
        c = tutti_writer_across(w, p);
        if (tutti_writer_goes_across(w))
            status = need(w, &c, TUTTI_AXIS_ACROSS, TUTTI_LANE_ACROSS, err);
        c = tutti_writer_gather(w, p);
        if (status == 0)
            status = need(w, &c, tutti_writer_shard_axis(w), TUTTI_LANE_GATHER, err);
    }
    return status;
}
