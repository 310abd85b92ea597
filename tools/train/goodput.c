/* What failures leave of a training of steps that were simulated; see goodput.h. */
#include "tools/train/goodput.h"

#include "runtime/status.h"
#include "tools/train/ask.h"
#include "tools/train/print.h"
#include "topo/accelerator.h"
#include "topo/topo.h"

int tutti_train_goodput_read(const struct tutti_args *args, struct tutti_train_question *q,
                             struct tutti_err *err)
{
    int status = tutti_goodput_read(args, q->steps > 0 || q->tokens > 0 || q->epochs > 0,
                                    &q->goodput.question, err);

    if (status < 0 || !q->goodput.question.asked)
        return status;
    if (q->strategy.coordinated)
        return tutti_goodput_refuse(
            args,
            "is of synchronous steps by collectives ('--perturb mtbf=' loses servers and workers)",
            err);
    if (tutti_args_given(args, "elastic"))
        return tutti_goodput_refuse(
            args,
            "and '--elastic' are two models of losses (one of them; '--failures least=N' goes on "
            "with fewer devices)",
            err);
    if (tutti_args_given(args, "devices"))
        return tutti_goodput_refuse(args, "is of one machine, and '--devices' names several", err);
    if (tutti_args_is(args, "format", "csv"))
        return tutti_goodput_refuse(args, "and '--format csv' (table or json)", err);
    return 0;
}

int tutti_train_goodput_ask(struct tutti_train_question *q,
                            const struct tutti_train_goodput_step *step, struct tutti_err *err)
{
    const struct tutti_topo *topo = q->topo;
    struct tutti_goodput_job job = {
        .step_ps = step->step_ps,
        .steps = tutti_train_steps(q, step->samples),
        .tokens =
            q->model->sample == TUTTI_SAMPLE_SEQUENCE ? step->samples * q->model->sequence : 0,
        .state_bytes = tutti_goodput_state_bytes(step->parameters, q->ask.optimizer),
        .device_count = topo->rank_count,
        .host_devices =
            topo->host_count > 0 ? topo->rank_count / topo->host_count : topo->rank_count,
        .replica_devices = step->replica_devices,
        .prices = q->prices};

    if (!q->goodput.question.asked)
        return 0;
    (void)tutti_accelerator_find(step->accelerator, &job.device, NULL);
    return tutti_goodput_ask(&q->goodput.question, &job, &q->goodput.answer, err);
}
