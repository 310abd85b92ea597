/* What failures leave of a training by the first plan; see plan.h. */
#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/plan/plan.h"
#include "topo/accelerator.h"
#include "topo/topo.h"

int tutti_plan_goodput_read(const struct tutti_args *args, struct tutti_plan_question *q,
                            struct tutti_err *err)
{
    int status = tutti_goodput_read(args, q->ends, &q->goodput, err);

    if (status == 0 && q->goodput.asked && tutti_args_is(args, "format", "csv"))
        return tutti_goodput_refuse(args, "and '--format csv' (table or json)", err);
    return status;
}

int tutti_plan_goodput_ask(const struct tutti_plan_question *q, struct tutti_plan_result *result,
                           struct tutti_err *err)
{
    const struct tutti_plan_found *best = &result->answer.best[0];
    const struct tutti_parallel *cut = &best->plan.parallel;
    const struct tutti_topo *topo = q->machines[best->plan.machine].topo;
    const uint64_t samples = q->ask.global_batch;
    struct tutti_goodput_job job = {
        .step_ps = best->step_ps,
        .steps = q->ends ? q->ask.steps : 0,
        .tokens = q->model->sample == TUTTI_SAMPLE_SEQUENCE ? samples * q->model->sequence : 0,
        .state_bytes =
            tutti_goodput_state_bytes(tutti_model_sum(q->model).parameters, q->ask.optimizer),
        .device_count = best->device_count,
        .host_devices =
            topo->host_count > 0 ? topo->rank_count / topo->host_count : topo->rank_count,
        .replica_devices = cut->tensor * cut->context * cut->pipeline,
        .device =
            q->ask.use.accelerator != NULL ? q->ask.use.accelerator : tutti_topo_accelerator(topo),
        .prices = q->prices};

    return q->goodput.asked ? tutti_goodput_ask(&q->goodput, &job, &result->goodput, err) : 0;
}
