/* A row of a divided model predicted; see training_plan.h. */
#include <math.h>

#include "runtime/status.h"
#include "sim/parallel.h"
#include "tools/validate/training_plan.h"

int tutti_training_plan_divided(const struct tutti_training_plan *plan,
                                const struct tutti_framework *framework, double pace,
                                struct tutti_training_divided *ret, struct tutti_err *err)
{
    struct tutti_parallel_ask ask = {
        .size = sizeof(ask),
        .topo = plan->topo,
        .model = plan->model,
        .parallel = &plan->parallel,
        .use = plan->ask.use,
        .gradient_bytes = plan->ask.gradient_bytes,
        .optimizer = TUTTI_OPTIMIZER_ADAM,
        .any_memory = true,
        .pace = pace,
        .protocols = plan->ask.protocols,
        .memory = plan->ask.memory,
        .synthetic = plan->ask.synthetic,
        .full_reduce = plan->full_reduce && plan->parallel.sharding == TUTTI_SHARD_ZERO1,
        .coarse = true,
    };
    struct tutti_parallel_answer answer;
    int status;

    ask.use.framework = framework;
    status = tutti_parallel_predict(&ask, &answer, err);
    if (status < 0)
        return status;
    *ret = (struct tutti_training_divided){
        .step_s = (double)answer.step_ps / (double)TUTTI_PS_PER_S,
        .device_s =
            (double)(answer.split.compute_ps + answer.split.host_ps) / (double)TUTTI_PS_PER_S,
        .flops = answer.flops,
    };
    tutti_parallel_answer_free(&answer);
    return 0;
}

/* ---- what is not stated ---------------------------------------------------------------------- */

enum { LEAST_CHUNKS = 2 }; /* of a device whose pipeline is interleaved */

/* Tables do not state what their authors found to be the best: it is what is predicted to be, of
 * what fits. */
struct choice {
    uint32_t micro_batch;
    uint32_t chunks;
    double step_s;
};

static void set_chunks(struct tutti_training_plan *plan, uint32_t chunks)
{
    plan->parallel.virtual_stages = chunks;
    plan->parallel.schedule = chunks > 1 ? TUTTI_PIPELINE_INTERLEAVED : TUTTI_PIPELINE_1F1B;
}

/* Passes over what does not divide or fit. */
static int try_choice(struct tutti_training_plan *plan, uint32_t micro_batch, uint32_t chunks,
                      struct choice *best, struct tutti_err *err)
{
    struct tutti_training_divided divided;
    uint64_t bytes;
    int fits = 0;
    int status = tutti_training_plan_micro_batch(plan, plan->global_batch, micro_batch, err);

    set_chunks(plan, chunks);
    if (status == 0)
        status = tutti_training_plan_memory(plan, &bytes, &fits, err);
    if (status == 0)
        status = tutti_training_plan_divided(plan, plan->ask.use.framework, 1, &divided, err);
    if (status == 0 && fits != 0 && divided.step_s < best->step_s)
        *best = (struct choice){micro_batch, chunks, divided.step_s};
    return status == -TUTTI_EINVAL || status == -TUTTI_ELACK ? 0 : status;
}

int tutti_training_plan_choose(struct tutti_training_plan *plan, struct tutti_err *err)
{
    const struct tutti_parallel *p = &plan->parallel;
    struct choice best = {p->micro_batch, p->virtual_stages, INFINITY};
    uint64_t most_samples;
    uint32_t most_chunks;
    int status = 0;

    if (!plan->is_divided || !(plan->open_micro_batch || plan->open_chunks))
        return 0;
    most_samples = plan->open_micro_batch ? plan->global_batch / p->data : p->micro_batch;
    most_chunks = plan->open_chunks ? LEAST_CHUNKS : p->virtual_stages;
    for (uint32_t b = p->micro_batch; b <= most_samples && status == 0; b *= 2) {
        if (plan->open_chunks)
            status = try_choice(plan, b, 1, &best, err);
        if (status == 0)
            status = try_choice(plan, b, most_chunks, &best, err);
    }
    set_chunks(plan, best.chunks);
    return status < 0
               ? status
               : tutti_training_plan_micro_batch(plan, plan->global_batch, best.micro_batch, err);
}
