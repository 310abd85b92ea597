/* The pace of devices by a measured step with model parallelism; see parallel.h. */
#include <math.h>

#include "runtime/status.h"
#include "tools/train/parallel.h"
#include "topo/topo.h"

enum { ROUNDS_MAX = 20 };

/* What is exposed of collectives changes with the pace: near enough. */
static const double NEAR = 1e-4;

/* What becomes longer with what devices take: their work, and waiting for that of others. */
static double paced_ps(const struct tutti_parallel_split *s)
{
    return (double)(s->compute_ps + s->optimizer_ps + s->bubble_ps);
}

/* As often as it takes until the step is predicted as measured. */
static int solve(const struct tutti_train_parallel_question *q, const struct tutti_topo *topo,
                 double measured_ps, double *ret, struct tutti_err *err)
{
    struct tutti_train_parallel_question of_anchor = *q;
    struct tutti_train_parallel_found found;
    double other_ps = 0;

    *ret = 1;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        double step_ps, scaled_ps;
        int status;

        of_anchor.of_train.ask.pace = *ret;
        status = tutti_train_parallel_ask(&of_anchor, topo, &found, err);
        if (status < 0)
            return tutti_wrap(err, status, "option '--anchor'");
        step_ps = (double)found.answer.step_ps;
        scaled_ps = paced_ps(&found.answer.split);
        other_ps = step_ps - scaled_ps;
        tutti_parallel_answer_free(&found.answer);
        if (fabs(step_ps / measured_ps - 1) < NEAR)
            return 0;
        *ret *= fmax((measured_ps - other_ps) / scaled_ps, 0.1);
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--anchor': a step of %.4g s on %u devices, which wait %.4g s of it "
                      "for what is no work of theirs, whatever their pace",
                      measured_ps / (double)TUTTI_PS_PER_S, topo->rank_count,
                      other_ps / (double)TUTTI_PS_PER_S);
}

int tutti_train_parallel_anchor(struct tutti_train_parallel_question *q, struct tutti_err *err)
{
    struct tutti_train_anchor *anchor = &q->of_train.anchor;
    struct tutti_train_parallel_question of_anchor = *q;
    struct tutti_parallel cut;
    struct tutti_topo *topo = NULL;
    int status;

    if (anchor->step_ps == 0)
        return 0;
    if (anchor->batch > 0)
        of_anchor.micro_batch = anchor->batch;
    if (anchor->micro_batches > 0) {
        of_anchor.accumulate = anchor->micro_batches;
        of_anchor.global_batch = 0;
        of_anchor.replica_batch = 0;
    }
    of_anchor.watch = NULL;
    of_anchor.of_train.ask.any_memory = true; /* it ran */
    status = tutti_train_machine(q->of_train.topo, anchor->device_count, &topo, err);
    if (status == 0)
        status = tutti_train_parallel_derive(&of_anchor, topo, &cut, err);
    if (status < 0) {
        tutti_topo_free(topo);
        return tutti_wrap(err, status, "option '--anchor'");
    }
    anchor->batch = cut.micro_batch;
    anchor->micro_batches = cut.micro_batches;
    status = solve(&of_anchor, topo, (double)anchor->step_ps, &anchor->pace, err);
    if (status == 0)
        q->of_train.ask.pace = anchor->pace;
    tutti_topo_free(topo);
    return status;
}
