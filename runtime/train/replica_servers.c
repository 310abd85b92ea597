/* A model of the user's own by parameter servers: the same program is a server, a worker or the
 * chief, as TF_CONFIG says. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/launch.h"
#include "runtime/meet.h"
#include "runtime/servers.h"
#include "runtime/status.h"
#include "runtime/train/replicas.h"

struct by_servers {
    struct tutti_replicas *replicas;
    const struct tutti_replica_model *model;
    struct tutti_replica_training ask;
    struct tutti_replica_workload workload;
    struct tutti_replica_learner *data;
    struct tutti_learner learner;
    struct tutti_servers_params params;
    char secret[TUTTI_MEET_SECRET_BYTES];
    char same[256];
    float *weights;
    double before_s;
    struct tutti_replica_result result;
};

/* ---- who takes part -------------------------------------------------------------------------- */

int tutti_replicas_find_servers(struct tutti_replicas *r, struct tutti_err *err)
{
    const struct tutti_servers_cluster *c;
    int status = tutti_servers_cluster_read(&tutti_env_process, &r->cluster, err);

    if (status < 0)
        return status;
    c = r->cluster;
    if (c == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy 'parameter-server' without servers (TF_CONFIG with a cluster "
                          "of 'ps' and 'worker')");
    if (c->role == 0)
        return tutti_fail(err, TUTTI_ELACK,
                          "TF_CONFIG says that this is an 'evaluator': it trains nothing");
    r->process_count = c->server_count + c->worker_count + (c->has_chief ? 1 : 0);
    r->count = r->own_count = 1;
    (void)snprintf(r->title, sizeof(r->title),
                   "parameter-server, %s %u of %u servers, %u workers%s",
                   c->role == TUTTI_SERVERS_SERVER  ? "server"
                   : c->role == TUTTI_SERVERS_CHIEF ? "chief"
                                                    : "worker",
                   c->index, c->server_count, c->worker_count, c->has_chief ? " and a chief" : "");
    return 0;
}

bool tutti_replicas_leads_servers(const struct tutti_replicas *r)
{
    const struct tutti_servers_cluster *c = r->cluster;

    return c->role == TUTTI_SERVERS_CHIEF ||
           (c->role == TUTTI_SERVERS_WORKER && c->index == 0 && !c->has_chief);
}

/* ---- what it is told ------------------------------------------------------------------------- */

static int tell(struct by_servers *t, struct tutti_replica_seen *what, uint64_t step,
                struct tutti_err *err)
{
    if (t->ask.seen == NULL)
        return 0;
    what->step = step;
    what->step_limit = t->ask.steps;
    what->has_classes = tutti_replica_learner_has_classes(t->data);
    what->variables = t->model->variables;
    what->variable_count = t->model->variable_count;
    return t->ask.seen(t->ask.seen_context, what, err);
}

static int told(void *context, const struct tutti_servers_told *step, struct tutti_err *err)
{
    struct by_servers *t = context;
    struct tutti_trained made = {.step = step->step - 1,
                                 .step_count = 1,
                                 .sums = step->sums,
                                 .gradient_norm = step->gradient_norm,
                                 .loss_scale = 1,
                                 .in_sync = true};
    struct tutti_replica_seen what = {.made = &made};

    made.learning_rate = t->params.optimizer.rate * tutti_rate_at(&t->params.rate, step->step - 1);
    made.step_ps = (tutti_ps)((step->at_s - t->before_s) * (double)TUTTI_PS_PER_S);
    made.compute_ps = (tutti_ps)(step->compute_s * (double)TUTTI_PS_PER_S);
    t->before_s = step->at_s;
    t->result.last = step->sums;
    return tell(t, &what, step->step, err);
}

static int take_weights(void *context, uint64_t step, const float *weights, struct tutti_err *err)
{
    struct by_servers *t = context;

    (void)step;
    (void)err;
    memcpy(t->weights, weights, t->workload.elements * sizeof(float));
    return 0;
}

static int watch(void *context)
{
    const struct by_servers *t = context;

    return atomic_load(&t->replicas->stop) ? TUTTI_SERVERS_STOP : 0;
}

static void note(void *context, const char *line)
{
    const struct by_servers *t = context;

    if (t->ask.note != NULL)
        t->ask.note(t->ask.note_context, line);
}

/* ---- training -------------------------------------------------------------------------------- */

static int check(const struct tutti_replica_training *a, struct tutti_err *err)
{
    if (a->gradients != TUTTI_FLOAT32)
        return tutti_fail(err, TUTTI_EINVAL, "gradients of '%s' with servers (float)",
                          tutti_dtype_name(a->gradients));
    if (a->check_sync || a->evaluate_steps > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "check_sync or evaluate_steps with servers, whose workers are not in "
                          "step (an evaluation comes at the end)");
    return 0;
}

/* A worker's own batch: of a global one its share. */
static void share_batch(struct by_servers *t)
{
    const uint64_t workers = t->replicas->cluster->worker_count;

    if (t->ask.global_batch > 0)
        t->ask.global_batch = (t->ask.global_batch + workers - 1) / workers;
}

static int fill(struct by_servers *t, struct tutti_err *err)
{
    enum { SAVE_SECONDS = 600, KEEP = 5 };
    const struct tutti_servers_cluster *c = t->replicas->cluster;
    const struct tutti_replica_training *a = &t->ask;
    struct tutti_servers_params *p = &t->params;
    int status = tutti_servers_options_read(t->replicas->params.strategy, p, err);

    if (status == 0)
        status = tutti_update_named(a->optimizer, &p->optimizer, err);
    if (status == 0)
        status = tutti_meet_secret(&tutti_env_process, t->secret, err);
    if (status < 0)
        return status;
    if (a->learning_rate > 0)
        p->optimizer.rate = a->learning_rate;
    (void)snprintf(t->same, sizeof(t->same),
                   "data %.64s, %" PRIu64 " and %" PRIu64 " examples, batch %" PRIu64 " in %u",
                   t->model->data != NULL ? t->model->data : "of its own", t->model->example_count,
                   t->model->held_out_count, a->global_batch > 0 ? a->global_batch : a->batch,
                   a->micro_batches);
    *p = (struct tutti_servers_params){
        .size = sizeof(*p),
        .role = c->role,
        .index = c->index,
        .server_count = c->server_count,
        .worker_count = c->worker_count,
        .has_chief = c->has_chief,
        .servers = c->servers,
        .secret = t->secret,
        .model = &t->workload.model,
        .learner = &t->learner,
        .epoch_steps = tutti_replica_learner_epoch(t->data, c->worker_count),
        .micro_batches = a->micro_batches,
        .optimizer = p->optimizer,
        .rate = a->rate,
        .clip_norm = a->clip_norm,
        .seed = a->seed,
        .steps = a->steps,
        .same = t->same,
        .placement = p->placement,
        .partition = p->partition,
        .synchronous = p->synchronous,
        .aggregate = p->aggregate,
        .late = p->late,
        .slack = p->slack,
        .staleness_max = p->staleness_max,
        .deadline_ps = t->replicas->params.deadline_ps,
        .checkpoint = a->checkpoint,
        .save_steps = a->checkpoint != NULL ? a->save_steps : 0,
        .save_ps = a->save_steps > 0 ? 0 : SAVE_SECONDS * TUTTI_PS_PER_S,
        .keep = a->keep > 0 ? a->keep : KEEP,
        .told = told,
        .weights = take_weights,
        .watch = watch,
        .note = note,
        .context = t};
    return 0;
}

/* The chief's, by the weights of the last snapshot. */
static int evaluate(struct by_servers *t, struct tutti_err *err)
{
    struct tutti_replica_seen what = {.weights = t->weights, .held_out = &t->result.held_out};
    const float **variables = calloc(t->model->variable_count, sizeof(*variables));
    const float *at = t->weights;
    void *replica = NULL;
    int status = variables == NULL ? tutti_nomem(err) : 0;

    for (uint32_t v = 0; status == 0 && v < t->model->variable_count; v++) {
        variables[v] = at;
        at += tutti_replica_elements(&t->model->variables[v]);
    }
    if (status == 0)
        status = t->learner.open(t->learner.context, 0, &replica, err);
    if (status == 0)
        status = t->learner.evaluate(replica, variables, &t->result.held_out, err);
    if (replica != NULL)
        t->learner.close(replica);
    free(variables);
    return status < 0 ? status : tell(t, &what, t->result.steps, err);
}

static int end(struct by_servers *t, struct tutti_err *err)
{
    struct tutti_replica_seen what = {
        .final = true, .weights = t->weights, .stopped = t->result.stopped};
    int status = 0;

    if (tutti_replica_learner_held_out(t->data) > 0 && !t->result.stopped)
        status = evaluate(t, err);
    t->result.weights_hash = tutti_weights_hash(t->weights, t->workload.elements);
    what.weights_hash = t->result.weights_hash;
    return status < 0 ? status : tell(t, &what, t->result.steps, err);
}

static int train(struct by_servers *t, float *weights, struct tutti_err *err)
{
    struct tutti_servers_result made = {.steps = 0};
    float *own = NULL;
    int status = fill(t, err);

    if (status == 0 && weights == NULL)
        own = calloc(t->workload.elements + 1, sizeof(float));
    t->weights = weights != NULL ? weights : own;
    if (status == 0 && t->weights == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = tutti_servers_train(&t->params, &made, err);
    t->result.steps = made.steps;
    t->result.stopped = made.stopped;
    if (status == 0 && tutti_replicas_leads_servers(t->replicas))
        status = end(t, err);
    free(own);
    return status;
}

int tutti_replicas_train_by_servers(struct tutti_replicas *replicas,
                                    const struct tutti_replica_model *model,
                                    const struct tutti_replica_training *training, float *weights,
                                    struct tutti_replica_result *ret, struct tutti_err *err)
{
    struct by_servers t = {.replicas = replicas, .model = model, .ask = *training};
    int status = check(training, err);

    share_batch(&t);
    if (status == 0)
        status = tutti_replica_learner_new(replicas, model, &t.ask, &t.data, &t.learner, err);
    if (status == 0)
        status = tutti_replica_workload_make(model, &t.workload, err);
    if (status == 0)
        status = train(&t, weights, err);
    if (status == 0)
        *ret = t.result;
    tutti_replica_learner_free(t.data);
    tutti_replica_workload_done(&t.workload);
    return status;
}
