/* Training by parameter servers, as a command; see ps.h. */
#include "tools/train/ps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/launch.h"
#include "runtime/meet.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/sink.h"
#include "tools/train/servers.h"

/* ---- whether, and what of the options -------------------------------------------------------- */

static bool is_by_tasks(const char *launch)
{
    return launch != NULL && (strncmp(launch, "ps=", 3) == 0 || strstr(launch, ",ps=") != NULL);
}

bool tutti_train_is_ps(const struct tutti_args *args)
{
    const char *strategy = tutti_args_text(args, "strategy");
    struct tutti_servers_cluster *cluster = NULL;
    bool has_servers;

    if (strategy != NULL || is_by_tasks(tutti_args_text(args, "launch")))
        return strategy == NULL || tutti_servers_strategy(strategy);
    if (!tutti_args_is(args, "backend", "tcp") || tutti_args_given(args, "launch"))
        return false;
    (void)tutti_servers_cluster_read(&tutti_env_process, &cluster, NULL);
    has_servers = cluster != NULL;
    tutti_servers_cluster_free(cluster);
    return has_servers;
}

static int check(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const simulated[] = {"consistency", "tf-config",  "server-hosts",
                                            "card-rate",   "apply-rate", "spread"};
    enum { EMULATED = 4 }; /* the last of them: of --emulate as well */
    static const char *const of_others[] = {
        "all-reduce", "num-packs", "bytes-per-pack", "bucket",    "local-steps", "compress",
        "sparse",     "shard",     "check-sync",     "perturb",   "calibrate",   "calib",
        "trace",      "ranks",     "hosts",          "dry-run",   "rendezvous",  "precision",
        "interface",  "open",      "outer-rate",     "auto-shard"};

    if (!tutti_args_is(args, "backend", "tcp"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-B': '%.40s' and strategy 'parameter-server', whose servers and "
                          "workers are processes (tcp)",
                          tutti_args_text(args, "backend"));
    const size_t simulated_count = sizeof(simulated) / sizeof(simulated[0]) -
                                   (tutti_args_given(args, "emulate") ? EMULATED : 0);
    for (size_t i = 0; i < simulated_count; i++)
        if (tutti_args_given(args, simulated[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of a simulated step, not of -B (leave it out)",
                              simulated[i]);
    for (size_t i = 0; i < sizeof(of_others) / sizeof(of_others[0]); i++)
        if (tutti_args_given(args, of_others[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' says nothing to strategy 'parameter-server' by -B tcp "
                              "(leave it out)",
                              of_others[i]);
    if (tutti_servers_strategy(tutti_args_text(args, "strategy")) &&
        tutti_servers_options_read(tutti_args_text(args, "strategy"),
                                   &(struct tutti_servers_params){.steps = 0}, err) < 0)
        return -TUTTI_EINVAL; /* here, before it is each process that says so */
    if (tutti_args_given(args, "evaluate") && !tutti_args_is(args, "evaluate", "end"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--evaluate': '%.40s' with strategy 'parameter-server' (end; an "
                          "evaluator looks at each checkpoint: '--launch ...,evaluator=1')",
                          tutti_args_text(args, "evaluate"));
    if (tutti_args_given(args, "late") && !tutti_args_given(args, "sync"))
        return tutti_fail(err, TUTTI_EINVAL, "option '--late' says nothing without '--sync R'");
    if (tutti_args_given(args, "evaluate-only"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--evaluate-only' is of one process ('-B threads -g 1')");
    return 0;
}

/* ---- one process ----------------------------------------------------------------------------- */

struct job {
    struct tutti_train_real real;
    struct tutti_servers_cluster *cluster;
    struct tutti_servers_params params;
    struct tutti_train_ps_page page;
    struct tutti_train_ps_emulation emulation;
    struct tutti_sink *sink;
    char secret[TUTTI_MEET_SECRET_BYTES];
    char same[256];
    float *weights; /* the chief's: [elements], of the last snapshot */
    uint64_t elements;
    bool is_chief;
    sigset_t before;
};

/* TERM: all save, and end; USR1: the chief saves now. */
static int watch(void *context)
{
    const struct job *j = context;
    struct signalfd_siginfo info;
    int wanted = 0;

    while (j->real.term_file >= 0 && read(j->real.term_file, &info, sizeof(info)) == sizeof(info))
        wanted |= info.ssi_signo == SIGTERM ? TUTTI_SERVERS_STOP : TUTTI_SERVERS_SAVE_NOW;
    return wanted;
}

/* Before threads are started, which inherit the mask. */
static void watch_signals(struct job *j)
{
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGUSR1);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &signals, &j->before) == 0)
        j->real.term_file = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int told(void *context, const struct tutti_servers_told *step, struct tutti_err *err)
{
    struct job *j = context;
    struct tutti_servers_told seen = *step;

    tutti_train_ps_emulation_step(&j->emulation, j->params.steps, &seen);
    return tutti_train_ps_print_step(&j->page, &seen, err);
}

static int take_weights(void *context, uint64_t step, const float *weights, struct tutti_err *err)
{
    struct job *j = context;

    (void)step;
    (void)err;
    memcpy(j->weights, weights, j->elements * sizeof(float));
    return 0;
}

static void note(void *context, const char *line)
{
    const struct job *j = context;

    fprintf(j->sink->notes, "tutti train: %s\n", line);
}

int tutti_train_ps_rules(const struct tutti_args *args, struct tutti_servers_params *p,
                         struct tutti_err *err)
{
    const char *strategy = tutti_args_text(args, "strategy");
    int status = tutti_train_partition_read(args, &p->partition, err);

    p->placement =
        tutti_args_is(args, "placement", "greedy") ? TUTTI_PLACE_GREEDY : TUTTI_PLACE_ROUND_ROBIN;
    p->synchronous = tutti_args_given(args, "sync");
    p->aggregate = p->synchronous ? (uint32_t)tutti_args_number(args, "sync") : 0;
    p->late = tutti_args_is(args, "late", "aborted") ? TUTTI_LATE_ABORTED
              : tutti_args_is(args, "late", "fresh") ? TUTTI_LATE_FRESH
                                                     : TUTTI_LATE_QUEUED;
    if (status == 0 && strategy != NULL)
        status = tutti_servers_options_read(strategy, p, err);
    return status;
}

/* --global-batch: each worker has its share. */
static int share_batch(const struct tutti_args *args, struct job *j, struct tutti_err *err)
{
    struct tutti_train_real *real = &j->real;
    struct tutti_net_learner_params *d = &real->data;
    const uint64_t workers = j->cluster->worker_count;

    if (!tutti_args_given(args, "global-batch"))
        return 0;
    tutti_net_learner_free(&real->learner);
    d->global_batch = (d->global_batch + workers - 1) / workers;
    return tutti_net_learner_new(d, &real->learner, &real->facts, err);
}

/* Until all of a worker's examples have gone into steps of as many gradients, so many times. */
static void count_steps(const struct tutti_args *args, struct job *j)
{
    const uint64_t gradients = j->params.aggregate > 0 ? j->params.aggregate : 1;
    const double batches = tutti_args_given(args, "epochs")
                               ? tutti_args_real(args, "epochs") * (double)j->real.facts.epoch_steps
                               : 0;

    if (tutti_args_given(args, "epochs"))
        j->real.steps = (uint64_t)(batches / (double)gradients + 0.999);
}

/* As the evaluator does, of one replica and a worker's batch. */
static int read_options(const struct tutti_args *args, struct job *j, struct tutti_err *err)
{
    struct tutti_train_real *real = &j->real;
    int status = tutti_train_real_read(args, real, err);
    const uint32_t parts = real->data.micro_batches;

    if (status == 0)
        status = share_batch(args, j, err);
    if (status == 0)
        status = tutti_train_ps_rules(args, &j->params, err);
    if (status == 0)
        status = tutti_meet_secret(&tutti_env_process, j->secret, err);
    if (status < 0)
        return status;
    count_steps(args, j);
    (void)snprintf(j->same, sizeof(j->same),
                   "data %.80s of hash %016" PRIx64 ", batch %" PRIu64 " in %u, dropout %.9g",
                   real->data.data != NULL ? real->data.data : "synthetic", real->facts.data_hash,
                   real->data.global_batch, parts, (double)real->data.dropout);
    return 0;
}

static void fill(struct job *j, int listen_fd)
{
    const struct tutti_train_real *real = &j->real;
    const struct tutti_servers_cluster *c = j->cluster;
    struct tutti_servers_params *p = &j->params;

    p->size = sizeof(*p);
    p->role = c->role;
    p->index = c->index;
    p->server_count = c->server_count;
    p->worker_count = c->worker_count;
    p->has_chief = c->has_chief;
    p->servers = c->servers;
    p->has_listen_fd = listen_fd >= 0;
    p->listen_fd = listen_fd;
    p->secret = j->secret;
    p->model = real->model;
    p->learner = &real->learner;
    p->epoch_steps = real->facts.epoch_steps;
    p->micro_batches = real->data.micro_batches;
    p->optimizer = real->params.optimizer;
    p->rate = real->params.rate;
    p->clip_norm = real->params.clip_norm;
    p->seed = real->data.seed;
    p->steps = real->steps;
    p->same = j->same;
    p->deadline_ps = real->run.perform.deadline_ps;
    p->checkpoint = real->params.checkpoint;
    p->save_steps = real->params.checkpoint != NULL ? real->params.save_steps : 0;
    p->save_ps = real->params.save_ps;
    p->keep = real->params.keep;
    p->told = told;
    p->weights = take_weights;
    p->watch = watch;
    p->note = note;
    p->context = j;
    j->is_chief = c->role == TUTTI_SERVERS_CHIEF ||
                  (c->role == TUTTI_SERVERS_WORKER && c->index == 0 && !c->has_chief);
    j->elements = tutti_model_sum(real->model).parameters;
}

static size_t variable_count(const struct tutti_workload *model)
{
    size_t count = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        count += (size_t)model->layers[i].repeat * model->layers[i].variable_count;
    return count;
}

/* The chief's, once all is over, by the weights that it has saved last. */
static int evaluate(struct job *j, struct tutti_sums *ret, struct tutti_err *err)
{
    const struct tutti_workload *model = j->real.model;
    const struct tutti_learner *learner = &j->real.learner;
    const float **variables = calloc(variable_count(model) + 1, sizeof(*variables));
    const float *at = j->weights;
    size_t count = 0;
    void *replica = NULL;
    int status = variables == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < model->layer_count && status == 0; i++)
        for (uint32_t k = 0; k < model->layers[i].repeat; k++)
            for (uint32_t v = 0; v < model->layers[i].variable_count; v++) {
                variables[count++] = at;
                at += model->layers[i].variables[v].elements;
            }
    if (status == 0)
        status = learner->open(learner->context, 0, &replica, err);
    if (status == 0)
        status = learner->evaluate(replica, variables, ret, err);
    if (replica != NULL)
        learner->close(replica);
    free(variables);
    return status;
}

static int end(struct job *j, const struct tutti_servers_result *result, struct tutti_err *err)
{
    const bool evaluates = j->real.evaluate_end && !result->stopped;
    struct tutti_sums held_out = {0, 0, 0};
    int status = evaluates ? evaluate(j, &held_out, err) : 0;

    if (status < 0)
        return status;
    return tutti_train_ps_print_final(&j->page, result, evaluates ? &held_out : NULL,
                                      tutti_weights_hash(j->weights, j->elements), err);
}

static int take_part(const struct tutti_args *args, struct job *j, int listen_fd,
                     struct tutti_err *err)
{
    struct tutti_servers_result result = {.steps = 0};
    struct tutti_err closing;
    int status = read_options(args, j, err);
    int closed;

    if (status < 0)
        return status;
    fill(j, listen_fd);
    status = tutti_train_ps_emulation_begin(args, &j->emulation, &j->real, &j->params, err);
    if (status < 0)
        return status;
    j->page.emulation = &j->emulation;
    j->weights = calloc(j->elements + 1, sizeof(float));
    result.by_worker = calloc(j->params.worker_count, sizeof(uint64_t));
    if (j->weights == NULL || result.by_worker == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = tutti_train_ps_page_open(args, &j->real, &j->params, j->is_chief ? j->sink : NULL,
                                          &j->page, err);
    if (status == 0)
        status = tutti_servers_train(&j->params, &result, err);
    if (status == 0 && j->is_chief)
        status = end(j, &result, err);
    if (status == 0 && result.stopped)
        j->sink->exit_code = (int)tutti_args_number(args, "stop-code");
    closed = tutti_train_ps_page_done(&j->page, &closing);
    if (status == 0 && closed < 0)
        *err = closing;
    free(result.by_worker);
    free(j->weights);
    return status < 0 ? status : closed;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int find_cluster(const struct tutti_args *args, struct job *j, struct tutti_err *err)
{
    int status = tutti_servers_cluster_read(&tutti_env_process, &j->cluster, err);

    if (status == 0 && j->cluster == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no parameter servers ('--launch ps=N,worker=M', or TF_CONFIG with a "
                          "cluster of 'ps' and 'worker')");
    if (status == 0 && j->cluster->role == 0 && !tutti_args_given(args, "checkpoint"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "an evaluator without checkpoints to look at ('--checkpoint FOLDER')");
    return status;
}

static int run_process(const struct tutti_args *args, struct job *j, int listen_fd,
                       struct tutti_err *err)
{
    int status = find_cluster(args, j, err);

    if (status < 0)
        return status;
    if (j->cluster->role == 0)
        return tutti_train_evaluator(args, &j->real, j->sink, err);
    if (tutti_args_given(args, "checkpoint"))
        watch_signals(j);
    return take_part(args, j, listen_fd, err);
}

int tutti_train_ps(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct job j = {.sink = sink, .real = {.term_file = -1, .by_servers = true}};
    struct tutti_train_real *real = &j.real;
    struct tutti_train_tasks tasks;
    int listen_fd = -1;
    bool started = false;
    int status = check(args, err);

    if (status == 0)
        status = tutti_train_ps_emulation_open(args, &j.emulation, err);
    if (status == 0 && tutti_args_given(args, "launch")) {
        status = tutti_train_tasks_read(tutti_args_text(args, "launch"), &tasks, err);
        if (status == 0 && tasks.evaluators > 0 && !tutti_args_given(args, "checkpoint"))
            status = tutti_fail(err, TUTTI_EINVAL,
                                "option '--launch': an evaluator without checkpoints to look at "
                                "('--checkpoint FOLDER')");
        if (status == 0)
            status = tutti_train_tasks_start(args, &tasks, &started, &listen_fd, sink, err);
    }
    if (status < 0 || started) {
        tutti_train_ps_emulation_close(&j.emulation);
        return status;
    }
    real->run.backend = tutti_backend_kind_find("tcp");
    real->run.grouped = true;
    real->run.rank_count = 1;
    real->run.perform.deadline_ps = (tutti_ps)tutti_args_number(args, "deadline");
    status = run_process(args, &j, listen_fd, err);
    tutti_trainer_close(real->trainer); /* the evaluator's */
    tutti_backend_close(real->backend);
    tutti_net_learner_free(&real->learner);
    tutti_algorithm_set_free(real->added);
    tutti_model_free(real->model);
    tutti_servers_cluster_free(j.cluster);
    tutti_train_ps_emulation_close(&j.emulation);
    if (real->term_file >= 0) {
        (void)close(real->term_file);
        if (sink->exit_code == 0)
            (void)pthread_sigmask(SIG_SETMASK, &j.before, NULL);
    }
    return status;
}
