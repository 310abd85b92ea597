/* The pace of devices by a measured step with model parallelism; see parallel.h. */
#include "runtime/status.h"
#include "tools/train/parallel.h"
#include "topo/topo.h"

int tutti_train_parallel_anchor(struct tutti_train_parallel_question *q, struct tutti_err *err)
{
    struct tutti_train_anchor *anchor = &q->of_train.anchor;
    struct tutti_train_parallel_question of_anchor = *q;
    struct tutti_train_parallel_found found;
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
    of_anchor.of_train.ask.anchor_ps = anchor->step_ps;
    status = tutti_train_machine(q->of_train.topo, anchor->device_count, &topo, err);
    if (status == 0)
        status = tutti_train_parallel_ask(&of_anchor, topo, &found, err);
    tutti_topo_free(topo);
    if (status < 0)
        return tutti_wrap(err, status, "option '--anchor'");
    anchor->batch = found.cut.micro_batch;
    anchor->micro_batches = found.cut.micro_batches;
    anchor->pace = found.answer.pace;
    q->of_train.ask.pace = anchor->pace;
    tutti_parallel_answer_free(&found.answer);
    return 0;
}
