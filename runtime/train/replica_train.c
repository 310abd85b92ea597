/* Training a model of the user's own, step by step, on the replicas there are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/train/replicas.h"

struct training {
    struct tutti_replicas *replicas;
    struct tutti_replica_model model;
    struct tutti_replica_training ask;
    struct tutti_replica_workload workload;
    struct tutti_replica_learner *data;
    struct tutti_learner learner;
    struct tutti_trainer *trainer;
    float *weights; /* of all elements; memory of the training's, or the caller's */
    float *own_weights;
    struct tutti_replica_result result;
};

/* ---- what is trained ------------------------------------------------------------------------- */

/* Gradients by what the strategy asks for, all else round a ring. */
static int make_collective(void *context, const struct tutti_coll_params *params, uint32_t axis,
                           uint32_t size, struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_strategy *strategy = &((const struct tutti_replicas *)context)->strategy;
    struct tutti_shape shape = tutti_shape_flat(size);
    const bool gradients = axis == TUTTI_AXIS_ALL && params->collective == TUTTI_ALLREDUCE &&
                           params->dtype != TUTTI_FLOAT64;

    if (gradients && strategy->to_one_device)
        return tutti_coll_generate("reduce-broadcast", params, &shape, ret, err);
    if (gradients && strcmp(strategy->name, "tpu") == 0 && size % 2 == 0 && size > 2) {
        shape.dim_count = 2;
        shape.dim[0] = 2;
        shape.dim[1] = size / 2;
        shape.wrap[0] = shape.wrap[1] = true;
        if (tutti_coll_generate("torus", params, &shape, ret, NULL) == 0)
            return 0;
    }
    return tutti_coll_generate("ring", params, &shape, ret, err);
}

int tutti_replica_workload_make(const struct tutti_replica_model *m,
                                struct tutti_replica_workload *ret, struct tutti_err *err)
{
    ret->variables = calloc(m->variable_count, sizeof(ret->variables[0]));
    if (ret->variables == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < m->variable_count; v++) {
        ret->variables[v] =
            (struct tutti_variable){.name = m->variables[v].name,
                                    .rows = m->variables[v].rows,
                                    .elements = tutti_replica_elements(&m->variables[v])};
        ret->elements += ret->variables[v].elements;
    }
    ret->layer = (struct tutti_layer){.name = "all",
                                      .repeat = 1,
                                      .variables = ret->variables,
                                      .variable_count = m->variable_count};
    ret->model = (struct tutti_workload){
        .name = m->name, .layers = &ret->layer, .layer_count = 1, .sequence = 1};
    return 0;
}

void tutti_replica_workload_done(struct tutti_replica_workload *workload)
{
    free(workload->variables);
    *workload = (struct tutti_replica_workload){.elements = 0};
}

/* What all processes must have alike. */
static int compare(const struct training *t, struct tutti_err *err)
{
    const struct tutti_replicas *r = t->replicas;
    const struct tutti_replica_training *a = &t->ask;
    const tutti_ps deadline_ps = r->params.deadline_ps;
    char text[256];
    uint64_t hash = 0;
    int status;

    if (r->group == NULL)
        return 0;
    for (uint32_t v = 0; v < t->model.variable_count; v++)
        hash =
            tutti_random_hash(hash, t->model.variables[v].rows, t->model.variables[v].columns, v);
    (void)snprintf(text, sizeof(text),
                   "%.64s, %u variables of hash %016" PRIx64 ", data %.64s, %" PRIu64
                   " and %" PRIu64 " examples",
                   t->model.name, t->model.variable_count, hash,
                   t->model.data != NULL ? t->model.data : "of its own", t->model.example_count,
                   t->model.held_out_count);
    status = tutti_group_same(r->group, "the model", text, deadline_ps, err);
    (void)snprintf(text, sizeof(text),
                   "%" PRIu64 " steps by %.16s %.9g, %sbatch %" PRIu64 " in %u, seed %" PRIu64
                   ", gradients %s%s%s, evaluation %" PRIu64 ", clip %.9g, warm-up %" PRIu64
                   ", saves %d %" PRIu64,
                   a->steps, a->optimizer, a->learning_rate, a->global_batch > 0 ? "global " : "",
                   a->global_batch > 0 ? a->global_batch : a->batch,
                   a->micro_batches > 0 ? a->micro_batches : 1, a->seed,
                   tutti_dtype_name(a->gradients), a->in_order ? ", in order" : "",
                   a->drop_remainder ? ", whole batches" : "", a->evaluate_steps, a->clip_norm,
                   a->rate.warmup_steps, a->checkpoint != NULL, a->save_steps);
    if (status == 0)
        status = tutti_group_same(r->group, "the training", text, deadline_ps, err);
    return status;
}

static int open_trainer(struct training *t, struct tutti_err *err)
{
    enum { SAVE_SECONDS = 600, KEEP = 5 };
    const struct tutti_replica_training *a = &t->ask;
    struct tutti_trainer_params params = {
        .size = sizeof(params),
        .strategy = &t->replicas->strategy,
        .model = &t->workload.model,
        .learner = &t->learner,
        .backend = t->replicas->backend,
        .rank_count = t->replicas->count,
        .micro_batches = a->micro_batches,
        .rate = a->rate,
        .clip_norm = a->clip_norm,
        .seed = a->seed,
        .gradients = a->gradients,
        .check_sync = a->check_sync,
        .collective = make_collective,
        .context = t->replicas,
        .deadline_ps = t->replicas->params.deadline_ps,
        .checkpoint = a->checkpoint,
        .save_steps = a->save_steps,
        .save_ps = a->save_steps > 0 ? 0 : SAVE_SECONDS * TUTTI_PS_PER_S,
        .keep = a->keep > 0 ? a->keep : KEEP,
        .note = a->note,
        .note_context = a->note_context,
    };
    int status = tutti_update_named(a->optimizer, &params.optimizer, err);

    if (status < 0)
        return status;
    if (a->learning_rate > 0)
        params.optimizer.rate = a->learning_rate;
    if (a->gradients == TUTTI_FLOAT16)
        params.loss_scale = tutti_loss_scale_dynamic();
    if (strcmp(t->replicas->strategy.name, "diloco") == 0) {
        params.outer_rate = 0.7; /* Douillard et al. 2023 */
        params.outer_momentum = 0.9;
    }
    return tutti_trainer_open(&params, &t->trainer, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int tell(struct training *t, struct tutti_replica_seen *what, struct tutti_err *err)
{
    if (t->ask.seen == NULL || !tutti_replicas_is_chief(t->replicas))
        return 0;
    what->step = tutti_trainer_steps(t->trainer);
    what->step_limit = t->ask.steps;
    what->has_classes = tutti_replica_learner_has_classes(t->data);
    what->variables = t->model.variables;
    what->variable_count = t->model.variable_count;
    return t->ask.seen(t->ask.seen_context, what, err);
}

static int evaluate(struct training *t, struct tutti_err *err)
{
    struct tutti_replica_seen what = {.weights = t->weights, .held_out = &t->result.held_out};
    int status = tutti_trainer_evaluate(t->trainer, &t->result.held_out, err);

    if (status == 0)
        status = tutti_trainer_weights(t->trainer, t->weights, err);
    return status < 0 ? status : tell(t, &what, err);
}

static int step(struct training *t, struct tutti_err *err)
{
    struct tutti_trained made;
    struct tutti_replica_seen what = {.made = &made};
    int status;

    if (atomic_load(&t->replicas->stop))
        tutti_trainer_stop(t->trainer);
    status = tutti_trainer_step(t->trainer, &made, err);
    if (status < 0)
        return status;
    t->result.last = made.sums;
    t->result.stopped = made.stop;
    if (t->ask.check_sync && !made.in_sync)
        return tutti_fail(err, TUTTI_ECHECK,
                          "step %" PRIu64 ": replicas began it with weights that differ",
                          made.step);
    status = tell(t, &what, err);
    if (status == 0 && t->ask.evaluate_steps > 0 && !made.stop &&
        (made.step + 1) % t->ask.evaluate_steps == 0 && made.step + 1 < t->ask.steps)
        status = evaluate(t, err);
    return status;
}

static int train(struct training *t, struct tutti_err *err)
{
    struct tutti_replica_seen what = {.final = true};
    int status = 0;

    while (status == 0 && tutti_trainer_steps(t->trainer) < t->ask.steps && !t->result.stopped)
        status = step(t, err);
    if (status == 0)
        status = tutti_trainer_save(t->trainer, err);
    if (status == 0 && tutti_replica_learner_held_out(t->data) > 0 && !t->result.stopped)
        status = evaluate(t, err);
    if (status == 0)
        status = tutti_trainer_weights(t->trainer, t->weights, err);
    if (status < 0)
        return status;
    t->result.steps = tutti_trainer_steps(t->trainer);
    t->result.weights_hash = tutti_weights_hash(t->weights, tutti_trainer_elements(t->trainer));
    what.weights = t->weights;
    what.weights_hash = t->result.weights_hash;
    what.stopped = t->result.stopped;
    return tell(t, &what, err);
}

static int open_all(struct training *t, float *weights, struct tutti_err *err)
{
    int status =
        tutti_replica_learner_new(t->replicas, &t->model, &t->ask, &t->data, &t->learner, err);

    if (status == 0)
        status = tutti_replica_workload_make(&t->model, &t->workload, err);
    if (t->replicas->group != NULL) /* what one alone has found wrong all learn */
        status =
            tutti_group_agree(t->replicas->group, status, t->replicas->params.deadline_ps, err);
    if (status == 0)
        status = compare(t, err);
    if (status == 0)
        status = open_trainer(t, err);
    if (status == 0 && weights == NULL)
        t->own_weights = calloc(tutti_trainer_elements(t->trainer), sizeof(float));
    t->weights = weights != NULL ? weights : t->own_weights;
    if (status == 0 && t->weights == NULL)
        status = tutti_nomem(err);
    return status;
}

int tutti_replicas_train(struct tutti_replicas *replicas, const struct tutti_replica_model *model,
                         const struct tutti_replica_training *training, float *weights,
                         struct tutti_replica_result *ret, struct tutti_err *err)
{
    struct training t = {.replicas = replicas};
    struct tutti_err said = {.text = ""};
    int status = tutti_take("tutti_replica_model", &t.model, sizeof(t.model), model,
                            TUTTI_BYTES_TO(struct tutti_replica_model, read), &said);

    if (status == 0)
        status = tutti_take("tutti_replica_training", &t.ask, sizeof(t.ask), training,
                            TUTTI_BYTES_TO(struct tutti_replica_training, note_context), &said);
    if (status == 0) {
        if (t.ask.optimizer == NULL)
            t.ask.optimizer = "sgd";
        if (replicas->cluster != NULL)
            return tutti_replicas_train_by_servers(replicas, &t.model, &t.ask, weights, ret, err);
        status = open_all(&t, weights, &said);
    }
    if (status == 0)
        status = train(&t, &said);
    if (status == 0)
        *ret = t.result;
    tutti_trainer_close(t.trainer);
    tutti_replica_learner_free(t.data);
    tutti_replica_workload_done(&t.workload);
    free(t.own_weights);
    if (status < 0 && replicas->group != NULL)
        tutti_group_stop(replicas->group, status, &said);
    if (status < 0 && err != NULL)
        *err = said;
    return status;
}
