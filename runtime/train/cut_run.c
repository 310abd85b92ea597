/* What a rank that has a part of the model does at each COMPUTE of the step. */
#include <string.h>
#include <time.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/train/convert.h"
#include "runtime/train/cut.h"
#include "runtime/train/hash.h"

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *at(void *base, uint64_t offset)
{
    return (float *)(void *)((char *)base + offset);
}

static int input(struct tutti_replica *r, struct tutti_err *err)
{
    if (r->begins && r->layout->params.check_sync)
        r->hash = tutti_weights_hash_exact(r->state, r->state_elements);
    r->begins = false;
    r->step++;
    return tutti_net_worker_input(r->cut->worker, r->step - 1, tutti_loss_scale_of(&r->scale), err);
}

/* A piece of a pass finds everything where the plan has it. */
static void compute(struct tutti_replica *r, const struct tutti_parallel_entry *task,
                    const struct tutti_work_call *call)
{
    const struct tutti_parallel_plan *plan = &r->cut->cut->plan;
    const struct tutti_parallel_place *place = &plan->places[task->stage];
    const struct tutti_parallel_exchange *x = place->exchanges[task->pass];
    const bool is_last = task->stage + 1 == plan->stage_count;
    const uint64_t shift = call->step->src_offset;
    const bool backward = task->pass == TUTTI_PASS_BACKWARD;
    const struct tutti_net_task work = {
        .pass = task->pass,
        .chunk = place->ends.chunk,
        .micro_batch = task->micro_batch,
        .inputs = task->stage > 0 ? at(call->scratch, place->ends.input + shift) : NULL,
        .slopes = is_last ? NULL : at(call->scratch, place->ends.output_gradient + shift),
        .piece = {.piece = task->piece,
                  .added =
                      task->piece > 0 ? at(call->scratch, x[task->piece - 1].out + shift) : NULL,
                  .adds = at(call->scratch, x[task->piece].in + shift),
                  .end = at(call->scratch,
                            (backward ? place->ends.input_gradient : place->ends.output) + shift)},
        .weights = at(call->state, place->weights),
        .gradients = at(call->state, place->gradients)};

    tutti_net_worker_run(r->cut->worker, &work);
    if (is_last && task->pass == TUTTI_PASS_FORWARD && r->cut->member == 0 &&
        task->piece + 1 == tutti_parallel_pieces(plan, task->stage, task->pass)) {
        const struct tutti_sums sums = tutti_net_worker_sums(r->cut->worker);

        r->sums.loss += sums.loss;
        r->sums.correct += sums.correct;
        r->sums.examples += sums.examples;
    }
}

/* Squares of the summed gradient: each element is counted by one rank. */
static double squares(const struct tutti_replica *r, const struct tutti_work_call *call)
{
    const struct tutti_layout *l = r->layout;
    const float *gradients = at(call->state, r->cut->cut->plan.weight_bytes);
    const uint64_t replicas = r->cut->cut->parallel.data;
    double sum = 0;

    for (uint32_t i = 0; i < l->run_count; i++) {
        const struct tutti_flat_run *run = &l->runs[i];
        const uint64_t first = run->count * r->cut->data_rank / replicas;
        const uint64_t end = run->count * (r->cut->data_rank + UINT64_C(1)) / replicas;

        if (tutti_train_cut_owns(r->cut, run))
            sum += tutti_train_square_sum(gradients + run->state + first, (size_t)(end - first));
    }
    return sum;
}

/* Weights and gradients of all chunks lie alike. */
static void optimize(struct tutti_replica *r, const struct tutti_work_call *call)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_parallel_plan *plan = &r->cut->cut->plan;

    memcpy(r->said, (const char *)call->scratch + plan->report_sum,
           plan->params.report_elements * sizeof(r->said[0]));
    tutti_replica_hear(r);
    if (!r->skipped) {
        const double scale = tutti_replica_next_update(r, r->norm);

        tutti_update_weights(&l->params.optimizer, r->rate, r->update_count, scale, r->state,
                             at(call->state, plan->weight_bytes), r->moments,
                             (size_t)r->state_elements);
    }
    (void)tutti_loss_scale_update(&r->scale, !r->skipped);
}

int tutti_train_cut_run(const struct tutti_work_call *call, struct tutti_err *err)
{
    struct tutti_replica *r = ((struct tutti_replica **)call->work->context)[call->rank];
    const struct tutti_parallel_plan *plan = &r->cut->cut->plan;
    const struct tutti_parallel_entry task = tutti_parallel_entry_of(plan, call->step);
    const double from_s = now_s();
    double *sums = (double *)(void *)((char *)call->scratch + plan->sums);
    double took_s;
    int status = 0;

    switch (task.kind) {
    case TUTTI_PARALLEL_IS_INPUT:
        status = input(r, err);
        break;
    case TUTTI_PARALLEL_IS_PIECE:
        compute(r, &task, call);
        break;
    case TUTTI_PARALLEL_IS_SUMS:
        *sums = squares(r, call);
        break;
    case TUTTI_PARALLEL_IS_REPORT:
        tutti_replica_report(r, *sums, (double *)(void *)((char *)call->scratch + plan->report));
        break;
    case TUTTI_PARALLEL_IS_OPTIMIZER:
        optimize(r, call);
        break;
    }
    took_s = now_s() - from_s;
    r->compute_s += took_s;
    if (task.kind == TUTTI_PARALLEL_IS_INPUT)
        r->input_s += took_s;
    else if (task.kind != TUTTI_PARALLEL_IS_PIECE)
        r->update_s += took_s;
    return status;
}
