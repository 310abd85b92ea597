/* Rows of training steps predicted; see training_predict.h. */
#include "tools/validate/training_predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/servers.h"
#include "tools/cli/calib.h"
#include "tools/validate/training_plan.h"

struct paced {
    const struct tutti_training_row_settings *anchor;
    double step_s;
    double pace;
};

struct tutti_training_simulator {
    const struct tutti_calib_option *calib;
    struct tutti_train_memory *memory; /* of collectives on the rows' machines */
    struct paced *paced;
    size_t paced_count;
};

int tutti_training_simulator_new(const struct tutti_calib_option *calib,
                                 struct tutti_training_simulator **ret, struct tutti_err *err)
{
    struct tutti_training_simulator *simulator = calloc(1, sizeof(*simulator));
    int status = simulator == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_train_memory_new(&simulator->memory, err);
    if (status < 0) {
        free(simulator);
        return status;
    }
    simulator->calib = calib;
    *ret = simulator;
    return 0;
}

void tutti_training_simulator_free(struct tutti_training_simulator *simulator)
{
    if (simulator == NULL)
        return;
    tutti_train_memory_free(simulator->memory);
    free(simulator->paced);
    free(simulator);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Beyond so many micro-batches each takes what the last one before took. */
enum { PASSES_MAX = 4 };

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

struct step {
    double step_s;
    double device_s; /* of it what devices compute */
    double flops;
    double reduced_bytes; /* of gradients, a device and step */
};

static int simulate(const struct tutti_train_ask *ask, struct step *ret, struct tutti_err *err)
{
    struct tutti_train_answer answer;
    int status = tutti_train_predict(ask, &answer, err);

    if (status < 0)
        return status;
    *ret = (struct step){seconds(answer.step_ps), seconds(answer.split.compute_ps), answer.flops,
                         (double)answer.reduced_bytes};
    return 0;
}

static double slowest(const struct tutti_train_ask *ask, uint32_t micro_batches)
{
    return tutti_device_slowest(ask->use.framework, ask->topo->rank_count, micro_batches,
                                ask->synthetic);
}

static int simulate_passes(const struct tutti_train_ask *given, struct step *ret,
                           struct tutti_err *err)
{
    struct tutti_train_ask ask = *given;
    struct step before;
    double more = (double)given->micro_batches - PASSES_MAX;
    int status;

    if (given->micro_batches <= PASSES_MAX)
        return simulate(given, ret, err);
    ask.micro_batches = PASSES_MAX;
    ask.pace = (ask.pace > 0 ? ask.pace : 1) * slowest(given, given->micro_batches) /
               slowest(given, PASSES_MAX);
    status = simulate(&ask, ret, err);
    ask.micro_batches = PASSES_MAX - 1;
    ask.pace *= slowest(given, PASSES_MAX) / slowest(given, PASSES_MAX - 1);
    if (status == 0)
        status = simulate(&ask, &before, err);
    if (status < 0)
        return status;
    ret->step_s += more * (ret->step_s - before.step_s);
    ret->device_s += more * (ret->device_s - before.device_s);
    ret->flops *= given->micro_batches / (double)PASSES_MAX;
    return 0;
}

/* ---- parameter servers ----------------------------------------------------------------------- */

/* Of what hosts exchange with parameter servers, variable by variable in both directions: what the
 * backward pass does not hide. Chosen in view of Inception v3's four steps on 32 and 64 K80
 * (TensorFlow's benchmarks of May 2017), from .3 to .8; ResNets are judged by it. */
static const double EXCHANGE_SHOWN = 0.55;

static int add_exchange(const struct tutti_training_plan *plan, struct step *step,
                        struct tutti_err *err)
{
    const struct tutti_model_sums sums = tutti_model_sum(plan->model);
    uint64_t bytes[TUTTI_SERVERS_HOSTS_MAX];
    uint32_t hosts[TUTTI_SERVERS_HOSTS_MAX];
    struct tutti_servers_opts opts = {
        .size = sizeof(opts),
        .params = {.size = sizeof(opts.params), .member_count = plan->host_count, .last_step = 1},
        .host_count = plan->host_count,
        .server_count = plan->server_count,
        .server_host = hosts,
        .server_bytes = bytes,
        .host_bytes_per_s = (uint64_t)plan->host_bytes_per_s,
        .compute_ps = 1,
    };
    tutti_ps exchange_ps;
    int status = tutti_coordinator_find("sync", &opts.ops, err);

    if (status < 0)
        return status;
    if (plan->server_count > TUTTI_SERVERS_HOSTS_MAX || plan->server_count > plan->host_count)
        return tutti_fail(err, TUTTI_EINVAL, "%u parameter servers on %u hosts (one a host)",
                          plan->server_count, plan->host_count);
    if (plan->host_bytes_per_s <= 0)
        return tutti_fail(err, TUTTI_EINVAL, "the network's rate is not stated (network)");
    for (uint32_t i = 0; i < plan->server_count; i++) {
        bytes[i] = sums.parameters * 4 / plan->server_count;
        hosts[i] = i;
    }
    status = tutti_servers_exchange(&opts, &exchange_ps, err);
    if (status < 0)
        return status;
    step->step_s += EXCHANGE_SHOWN * seconds(exchange_ps);
    step->flops *= plan->host_count;
    return 0;
}

static int step_of(const struct tutti_training_plan *plan, double pace, struct step *ret,
                   struct tutti_err *err)
{
    struct tutti_train_ask ask = plan->ask;
    int status;

    if (plan->is_divided) {
        struct tutti_training_divided divided;

        status = tutti_training_plan_divided(plan, ask.use.framework, pace, &divided, err);
        if (status == 0)
            *ret = (struct step){divided.step_s, divided.device_s, divided.flops, 0};
        return status;
    }
    ask.pace = pace;
    status = simulate_passes(&ask, ret, err);
    return status == 0 && plan->server_count > 0 ? add_exchange(plan, ret, err) : status;
}

int tutti_training_plan_step(const struct tutti_training_plan *plan, double *ret_step_s,
                             struct tutti_err *err)
{
    struct step step;
    int status = step_of(plan, 1, &step, err);

    if (status == 0)
        *ret_step_s = step.step_s;
    return status;
}

double tutti_training_plan_device_s(const struct tutti_training_plan *plan,
                                    const struct tutti_framework *framework)
{
    const struct tutti_train_ask *ask = &plan->ask;
    const struct tutti_model_sums sums = tutti_model_sum(plan->model);
    struct tutti_device_use use = ask->use;
    double sum_s = 0;

    use.framework = framework;
    for (uint32_t i = 0; i < plan->model->layer_count; i++) {
        const struct tutti_layer *layer = &plan->model->layers[i];
        struct tutti_layer_times times;

        if (tutti_device_layer(&use, layer, &times, NULL) < 0)
            return NAN;
        sum_s += seconds(times.forward_ps + times.backward_ps) * layer->repeat;
    }
    sum_s = sum_s * ask->micro_batches + seconds(tutti_device_optimizer(&use, sums.parameters));
    return sum_s * tutti_device_slowest(framework, ask->topo->rank_count, ask->micro_batches,
                                        ask->synthetic);
}

/* ---- memory ---------------------------------------------------------------------------------- */

int tutti_training_plan_memory(const struct tutti_training_plan *plan, uint64_t *ret_bytes,
                               int *ret_fits, struct tutti_err *err)
{
    struct tutti_footprint_params params = plan->memory;
    struct tutti_footprint fullest;
    struct tutti_footprint reported;
    int status;

    if (plan->is_divided)
        params.parallel = &plan->parallel;
    status = tutti_footprint_of(&params, &fullest, err);
    reported = fullest;
    if (status == 0 && plan->reports_first && plan->is_divided && plan->parallel.pipeline > 1) {
        params.one_stage = true;
        params.stage = 0;
        status = tutti_footprint_of(&params, &reported, err);
    }
    if (status < 0)
        return status;
    *ret_bytes = reported.allocated_bytes;
    *ret_fits = fullest.capacity_bytes > 0 ? fullest.fits : -1;
    return 0;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int open_plan(const struct tutti_training_simulator *simulator,
                     const struct tutti_training_row_settings *settings,
                     struct tutti_training_plan *plan, struct tutti_err *err)
{
    const struct tutti_calib_option *calib = simulator->calib;
    int status = tutti_training_plan_open(settings, plan, err);

    if (status < 0)
        return status;
    plan->ask.memory = simulator->memory;
    if (calib != NULL)
        tutti_training_plan_calibrate(plan, (const struct tutti_calib *const *)calib->layers,
                                      calib->layer_count);
    status = tutti_training_plan_choose(plan, err);
    if (status < 0)
        tutti_training_plan_done(plan);
    return status;
}

/* What a table states of a plan's step. */
static double stated(const struct tutti_training_plan *plan, bool of_a_pass, double step_s)
{
    return of_a_pass ? step_s / plan->ask.micro_batches : step_s;
}

/* ---- anchors --------------------------------------------------------------------------------- */

static const struct paced *known(const struct tutti_training_simulator *simulator,
                                 const struct tutti_training_question *q)
{
    for (size_t i = simulator->paced_count; i-- > 0;) {
        const struct paced *p = &simulator->paced[i];

        if (p->anchor == q->anchor && fabs(p->step_s - q->anchor_step_s) <= 0)
            return p;
    }
    return NULL;
}

/* Such a pace that the anchor is predicted as measured: what is exposed changes little with it. */
static int find_pace(const struct tutti_training_simulator *simulator,
                     const struct tutti_training_question *q, double *ret, struct tutti_err *err)
{
    enum { ROUNDS = 4 };
    struct tutti_training_plan plan;
    struct step step;
    double measured_s;
    int status = open_plan(simulator, q->anchor, &plan, err);

    if (status < 0)
        return tutti_wrap(err, status, "the anchor");
    measured_s = q->anchor_step_s * (q->of_a_pass ? plan.ask.micro_batches : 1);
    *ret = 1;
    for (int i = 0; i < ROUNDS && status == 0; i++) {
        status = step_of(&plan, *ret, &step, err);
        if (status == 0)
            *ret *= fmax((measured_s - (step.step_s - step.device_s)) / step.device_s, 0.1);
    }
    tutti_training_plan_done(&plan);
    return status < 0 ? tutti_wrap(err, status, "the anchor") : 0;
}

/* How fast a device is at another model, precision or framework says nothing of this one. */
static bool is_alike(const struct tutti_training_row_settings *a,
                     const struct tutti_training_row_settings *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
           strcmp(a->precision, b->precision) == 0 && strcmp(a->framework, b->framework) == 0;
}

static int pace_of(struct tutti_training_simulator *simulator,
                   const struct tutti_training_question *q, double *ret, struct tutti_err *err)
{
    const struct paced *found =
        q->anchor == NULL || !is_alike(q->anchor, q->settings) ? NULL : known(simulator, q);
    struct paced *more;
    int status;

    *ret = found != NULL ? found->pace : 1;
    if (q->anchor == NULL || found != NULL || !is_alike(q->anchor, q->settings))
        return 0;
    more = realloc(simulator->paced, (simulator->paced_count + 1) * sizeof(*more));
    if (more == NULL)
        return tutti_nomem(err);
    simulator->paced = more;
    status = find_pace(simulator, q, ret, err);
    if (status == -TUTTI_EINVAL || status == -TUTTI_ELACK) { /* it says nothing, then */
        *ret = 1;
        status = 0;
    }
    if (status == 0)
        more[simulator->paced_count++] = (struct paced){q->anchor, q->anchor_step_s, *ret};
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int say_divided(const struct tutti_training_plan *plan, char *ret)
{
    const struct tutti_parallel *p = &plan->parallel;
    static const char *const shardings[] = {"", " zero1", " zero2", " zero3"};

    return snprintf(ret, TUTTI_TRAINING_PLAN_BYTES,
                    "tp=%u pp=%u vp=%u cp=%u ep=%u dp=%u%s batch %u x %u, %s %s of %s, %s",
                    p->tensor, p->pipeline, p->virtual_stages, p->context, p->expert, p->data,
                    shardings[p->sharding], p->micro_batch, p->micro_batches, plan->model->name,
                    tutti_precision_name(plan->ask.use.precision), plan->ask.use.framework->name,
                    plan->topo->name);
}

static void say_plan(const struct tutti_training_plan *plan, double pace,
                     char ret[TUTTI_TRAINING_PLAN_BYTES])
{
    const struct tutti_train_ask *ask = &plan->ask;
    int used =
        plan->is_divided
            ? say_divided(plan, ret)
            : snprintf(ret, TUTTI_TRAINING_PLAN_BYTES, "%s dp=%u batch %u x %u, %s %s of %s, %s",
                       plan->strategy.name, plan->rank_count, ask->use.batch, ask->micro_batches,
                       plan->model->name, tutti_precision_name(ask->use.precision),
                       ask->use.framework->name, plan->topo->name);

    if (plan->server_count > 0 && used < TUTTI_TRAINING_PLAN_BYTES)
        used += snprintf(ret + used, (size_t)(TUTTI_TRAINING_PLAN_BYTES - used),
                         ", %u hosts with %u servers", plan->host_count, plan->server_count);
    if (pace != 1 && used < TUTTI_TRAINING_PLAN_BYTES)
        (void)snprintf(ret + used, (size_t)(TUTTI_TRAINING_PLAN_BYTES - used), ", device x %.3g",
                       pace);
}

/* Rows that constants were fitted to, by what their settings say. */
static const struct {
    const char *framework;
    const char *model;
    const char *network;
    const char *zero;
    int64_t gpus_min;
    int64_t gpus_max; /* 0: any */
} fitted_to[] = {
    {"Megatron-DeepSpeed", "GPT", "one node", "", 0, 0},            /* "deepspeed" */
    {"nanotron", "Llama", "EFA", "", 0, 0},                         /* "nanotron" */
    {"FSDP + compile", "Llama", "RoCE", "", 0, 0},                  /* RoCE's share of its rate */
    {"InternEvo", "InternLM-7B", "RoCE", "1 over all", 1024, 1024}, /* broadcasts by owners */
    {"tf_cnn_benchmarks", "Inception", "distributed_replicated", "", 32, 64}, /* what is shown */
    {"MultiWorkerMirrored", "BERT", "EDR", "", 16, 16}, /* its share of the network */
    {"Horovod", "", "", "", 8, 8}, /* agreement, and how far apart devices are */
};

static bool was_fitted_to(const struct tutti_training_row_settings *s)
{
    for (size_t i = 0; i < sizeof(fitted_to) / sizeof(fitted_to[0]); i++)
        if (tutti_training_says(s->framework, fitted_to[i].framework) &&
            tutti_training_says(s->model, fitted_to[i].model) &&
            tutti_training_says(s->network, fitted_to[i].network) &&
            tutti_training_says(s->zero, fitted_to[i].zero) && s->gpus >= fitted_to[i].gpus_min &&
            (fitted_to[i].gpus_max == 0 || s->gpus <= fitted_to[i].gpus_max))
            return true;
    return false;
}

/* Of some rows it cannot be said. */
static int add_memory(const struct tutti_training_plan *plan, struct tutti_training_prediction *ret,
                      struct tutti_err *err)
{
    uint64_t bytes;
    int fits;
    int status = tutti_training_plan_memory(plan, &bytes, &fits, NULL);

    if (status < 0)
        return status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
    ret->memory_GB = (double)bytes / (plan->gibi ? 0x1p30 : 1e9);
    ret->fits = fits;
    return 0;
}

/* A flat ring over all devices passes each host's network once. */
static double ring_s(const struct tutti_training_plan *plan, const struct step *step)
{
    double n = plan->rank_count;

    if (plan->host_count < 2 || plan->server_count > 0 || !(plan->host_bytes_per_s > 0))
        return 0;
    return 2 * (n - 1) / n * step->reduced_bytes / plan->host_bytes_per_s;
}

static int predict(void *context, const struct tutti_training_question *q,
                   struct tutti_training_prediction *ret, struct tutti_err *err)
{
    struct tutti_training_plan plan;
    struct step step;
    double pace;
    int status = open_plan(context, q->settings, &plan, err);

    if (status < 0)
        return status;
    status = pace_of(context, q, &pace, err);
    if (status == 0)
        status = step_of(&plan, pace, &step, err);
    if (status == 0) {
        ret->step_s = stated(&plan, q->of_a_pass, step.step_s);
        ret->flops = stated(&plan, q->of_a_pass, step.flops);
        ret->ring_s = stated(&plan, q->of_a_pass, ring_s(&plan, &step));
        ret->fitted = was_fitted_to(q->settings);
        ret->framework = plan.ask.use.framework->name;
        ret->half = plan.ask.use.precision != TUTTI_PRECISION_FP32 &&
                    plan.ask.use.precision != TUTTI_PRECISION_TF32;
        ret->several_hosts = plan.host_count > 1;
        status = add_memory(&plan, ret, err);
        say_plan(&plan, pace, ret->plan);
    }
    tutti_training_plan_done(&plan);
    return status;
}

struct tutti_training_predictor tutti_training_simulate(struct tutti_training_simulator *simulator)
{
    return (struct tutti_training_predictor){predict, simulator};
}
