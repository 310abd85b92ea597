/* Times that no step is below: its layers on its devices, in the order of its pipeline, without any
 * message. What layers take is asked once for each way in which one device runs them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/parallel/run.h"
#include "sim/plan/search.h"
#include "sim/step/tuples.h"

/* Of one micro-batch: in seconds of the device, without what slower ones add, and of the host. */
struct layer_sums {
    bool is_known;
    tutti_ps all_ps;           /* of all layers, forward and backward */
    tutti_ps equal_ps;         /* of one of those that pipelines are cut between, */
    tutti_ps equal_forward_ps; /* of which forward */
    tutti_ps behind_ps;        /* of those behind them, on the last stage */
};

struct plan_layers {
    struct tutti_tuples ways;
    struct layer_sums *sums; /* [number of the way] */
    uint32_t capacity;
};

void plan_layers_free(struct plan_layers *layers)
{
    if (layers == NULL)
        return;
    tutti_tuples_done(&layers->ways);
    free(layers->sums);
    free(layers);
}

static tutti_ps larger(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

/* Each way the device and the host are busy at the same time. */
static int sum_layers(const struct plan_field *field, const struct tutti_plan_setting *plan,
                      struct layer_sums *ret, struct tutti_err *err)
{
    const struct tutti_workload *model = field->ask->model;
    struct layer_sums sums = {.is_known = true};

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];
        struct tutti_layer_parts parts;
        int status = plan_layer_parts(field, plan, layer, &parts, err);
        tutti_ps forward_ps;
        tutti_ps both_ps;

        if (status < 0)
            return status;
        forward_ps = larger(parts.forward_ps, parts.host_forward_ps);
        both_ps = forward_ps;
        if (!layer->is_frozen)
            both_ps += larger(parts.backward_ps + parts.weights_ps, parts.host_backward_ps);
        sums.all_ps += both_ps * layer->repeat;
        if (layer->is_transformer) {
            bool least = sums.equal_ps == 0 || both_ps < sums.equal_ps;

            sums.equal_ps = least ? both_ps : sums.equal_ps;
            sums.equal_forward_ps = least ? forward_ps : sums.equal_forward_ps;
            sums.behind_ps = 0;
        } else {
            sums.behind_ps += both_ps * layer->repeat;
        }
    }
    *ret = sums;
    return 0;
}

static int sums_of(struct plan_field *field, const struct tutti_plan_setting *plan,
                   struct layer_sums *ret, struct tutti_err *err)
{
    const struct tutti_parallel *p = &plan->parallel;
    const uint64_t words[] = {p->tensor,      p->context,
                              p->expert,      p->sequence_parallel,
                              p->micro_batch, (uint64_t)plan->recompute};
    struct plan_layers *layers = field->layers;
    uint32_t before;
    uint32_t number;
    int status;

    if (layers == NULL)
        layers = field->layers = calloc(1, sizeof(*layers));
    if (layers == NULL)
        return tutti_nomem(err);
    number = tutti_tuples_number(&layers->ways, words, sizeof(words) / sizeof(words[0]));
    before = layers->capacity;
    if (number == UINT32_MAX || tutti_grow(&layers->sums, &layers->capacity, (uint64_t)number + 1,
                                           sizeof(*layers->sums)) < 0)
        return tutti_nomem(err);
    if (layers->capacity > before)
        memset(layers->sums + before, 0, (layers->capacity - before) * sizeof(*layers->sums));
    if (!layers->sums[number].is_known) {
        status = sum_layers(field, plan, &layers->sums[number], err);
        if (status < 0)
            return status;
    }
    *ret = layers->sums[number];
    return 0;
}

/* The busiest device does no less than the mean of all. Where transformer layers are divided evenly
 * (each stage has as many as divide, and some one more), the last device begins when a micro-batch
 * has passed the stages before it, and the first ends when its gradients have come back. */
int plan_bound(struct plan_field *field, const struct tutti_plan_setting *plan, tutti_ps *ret,
               struct tutti_err *err)
{
    struct tutti_parallel p;
    struct tutti_pipeline_params params;
    struct layer_sums sums = {.is_known = false};
    tutti_ps each;
    tutti_ps fill;
    int status = tutti_parallel_complete(&plan->parallel, &p, err);

    if (status == 0)
        status = sums_of(field, plan, &sums, err);
    if (status < 0)
        return status;
    params = tutti_parallel_pipeline(&p);
    *ret = sums.all_ps / p.pipeline * p.micro_batches;
    if (p.pipeline == 1 || p.stage_layers != NULL || p.schedule == TUTTI_PIPELINE_ZBV ||
        sums.equal_ps == 0)
        return 0;
    each = tutti_parallel_layers(field->ask->model) / (p.pipeline * p.virtual_stages);
    fill = tutti_pipeline_splits(&params) ? sums.equal_forward_ps : sums.equal_ps;
    fill *= each * (tutti_ps)(p.pipeline - 1);
    each *= p.virtual_stages;
    *ret = larger(*ret, fill + (sums.equal_ps * each + sums.behind_ps) * p.micro_batches);
    return 0;
}

/* ---- close ----------------------------------------------------------------------------------- */

/* A device is busy for all its micro-batches; before, the first of them passes the stages before
 * its first one. Where backward is one pass, gradients of the last pass those stages behind. */
static tutti_ps device_ps(const struct tutti_cut_run *run, uint32_t device, tutti_ps before_ps)
{
    tutti_ps sum = 0;

    for (uint32_t chunk = 0; chunk < run->p.virtual_stages; chunk++) {
        const struct tutti_stage_times *t =
            &run->stages[tutti_pipeline_stage(&run->pipeline, device, chunk)];

        sum += t->forward_ps + t->backward_ps + t->weights_ps;
    }
    return sum * run->p.micro_batches + before_ps;
}

static tutti_ps longest(const struct tutti_cut_run *run)
{
    bool splits = tutti_pipeline_splits(&run->pipeline);
    tutti_ps before_ps = 0;
    tutti_ps most = 0;

    for (uint32_t d = 0; d < run->p.pipeline; d++) { /* whose first stage is number d */
        const struct tutti_stage_times *t = &run->stages[d];

        most = larger(most, device_ps(run, d, before_ps));
        before_ps += t->forward_ps + (splits ? 0 : t->backward_ps + t->weights_ps);
    }
    return most;
}

int plan_close_bound(const struct plan_field *field, const struct tutti_plan_setting *plan,
                     tutti_ps *ret, struct tutti_err *err)
{
    struct tutti_parallel parallel;
    const struct tutti_parallel_ask ask = plan_parallel_ask(field, plan, &parallel);
    struct tutti_cut_run run = {.stage_count = 0};
    int status = tutti_cut_open(&ask, &run, err);

    if (status == 0)
        status = tutti_cut_time_stages(&run, err);
    if (status == 0)
        *ret = longest(&run);
    tutti_cut_close(&run);
    return status;
}
