/* Reads the options of real training; see real.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/tensorflow.h"
#include "tools/cli/model.h"
#include "tools/cli/trace_file.h"
#include "tools/train/all_reduce.h"
#include "tools/train/real.h"
#include "tools/train/strategy.h"

int tutti_train_real_refuse(const struct tutti_args *args, struct tutti_err *err)
{
    static const struct tutti_option of_real[] = {
        TUTTI_TRAIN_OPTIONS_REAL, TUTTI_TRAIN_OPTIONS_GOING_ON, TUTTI_TRAIN_OPTIONS_EMULATE};
    static const char *const of_both[] = {"save-secs", "elastic", "perturb"};

    for (size_t i = 0; i < sizeof(of_real) / sizeof(of_real[0]); i++) {
        const char *name = of_real[i].name;
        bool both = false;

        for (size_t k = 0; k < sizeof(of_both) / sizeof(of_both[0]); k++)
            both |= strcmp(name, of_both[k]) == 0;
        if (!both && tutti_args_given(args, name))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of real training, not of a simulated step (-B "
                              "threads, tcp, mpi, cuda or nccl trains)",
                              name);
    }
    return 0;
}

/* Options that say something to the simulator alone. */
static int check(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const simulated[] = {
        "recompute", "attention", "input-rate", "input-workers",  "prefetch", "synthetic",
        "step-time", "anchor",    "devices",    "tokens",         "examples", "prices",
        "exact",     "svg",       "any-memory", "gradient-bytes", "explain"};
    static const char *const emulated[] = {"framework", "device",  "nodes",
                                           "slow",      "perturb", "scale"};

    for (size_t i = 0; i < sizeof(simulated) / sizeof(simulated[0]); i++)
        if (tutti_args_given(args, simulated[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of a simulated step, not of -B (leave it out)",
                              simulated[i]);
    for (size_t i = 0; i < sizeof(emulated) / sizeof(emulated[0]); i++)
        if (tutti_args_given(args, emulated[i]) && !tutti_args_given(args, "emulate"))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' with -B says nothing without '--emulate SPEC'",
                              emulated[i]);
    if (tutti_trace_check(tutti_args_text(args, "trace"), tutti_run_writes_here(args), err) < 0)
        return -TUTTI_EINVAL;
    if (tutti_args_operand(args, 0) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' beside '-B': a machine is simulated, or training is real (one of "
                          "them)",
                          tutti_args_operand(args, 0));
    if (tutti_args_text(args, "model") == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no model ('--model NAME': linear-regression, mlp, cifar10-cnn, "
                          "bag-of-words or a file)");
    return 0;
}

/* "auto", and what TensorFlow has on processors alone for what it has on GPUs. */
static void choose_algorithm(const struct tutti_args *args, struct tutti_train_real *real)
{
    const char *name = tutti_args_text(args, "all-reduce");

    if (name == NULL)
        return;
    if (strcmp(name, "auto") == 0)
        real->algorithm =
            real->group_ranks > 1 && !real->run.backend->on_gpu ? "hierarchical" : NULL;
    if ((strcmp(name, "NcclAllReduce") == 0 || strcmp(name, "NCCL") == 0) &&
        !real->run.backend->on_gpu) {
        real->algorithm = NULL;
        real->remark = "no NCCL on processors: gradients go round a ring, as in TensorFlow";
    }
}

static bool is_by_nccl(const struct tutti_train_real *real)
{
    return real->run.backend->on_gpu && real->run.backend->grouped;
}

/* NCCL has algorithms of its own, and chooses among them. */
static int check_algorithm(const struct tutti_args *args, struct tutti_train_real *real,
                           struct tutti_err *err)
{
    const bool is_library = real->algorithm != NULL && strncmp(real->algorithm, "nccl", 4) == 0;

    if (is_library && !is_by_nccl(real))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--all-reduce': '%s' is a library's; -B %s plays schedules "
                          "(ring, tf-ring, hierarchical, two-shot, ...)",
                          real->algorithm, real->run.backend->name);
    if (real->algorithm != NULL && is_by_nccl(real) && strcmp(real->algorithm, "nccl") != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--all-reduce': '%.40s' is a schedule, and with -B nccl NCCL "
                          "chooses by itself (nccl or auto; -B cuda plays schedules on GPUs)",
                          tutti_args_text(args, "all-reduce"));
    if (is_library)
        real->algorithm = NULL;
    return 0;
}

static int read_strategy(const struct tutti_args *args, struct tutti_train_real *real,
                         struct tutti_err *err)
{
    struct tutti_train_question q = {.added = NULL};
    const char *name = tutti_args_text(args, "strategy");
    int status;

    if (real->by_servers) /* without its options */
        name = "parameter-server";
    if (name == NULL)
        name = real->elastic.least > 0     ? "multiworkermirrored"
               : real->run.rank_count == 1 ? "onedevice"
               : real->run.grouped         ? "multiworkermirrored"
                                           : "mirrored";
    status = tutti_strategy_named(name, &q.strategy, err);
    if (status == 0)
        status = tutti_train_strategy_read(args, &q.strategy, err);
    if (status == 0)
        status = tutti_train_all_reduce_read(args, &q, err);
    real->added = q.added;
    real->algorithm = q.ask.algorithm;
    real->channels = q.ask.channels;
    real->strategy = q.strategy;
    if (status < 0)
        return status;
    choose_algorithm(args, real);
    if (real->by_servers)
        return 0;
    if (strcmp(name, "onedevice") == 0 && real->run.rank_count > 1)
        return tutti_fail(err, TUTTI_EINVAL, "strategy 'onedevice' on '%u' ranks (1, or mirrored)",
                          real->run.rank_count);
    return check_algorithm(args, real, err);
}

static int read_precision(const struct tutti_args *args, struct tutti_train_real *real,
                          struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "precision");

    if (name == NULL || strcmp(name, "fp32") == 0)
        return 0;
    if (strcmp(name, "fp16") == 0) {
        real->data.precision = real->params.gradients = TUTTI_FLOAT16;
        real->params.loss_scale = tutti_loss_scale_dynamic();
        return 0;
    }
    if (strcmp(name, "bf16") == 0) {
        real->data.precision = real->params.gradients = TUTTI_BFLOAT16;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "option '--precision': '%s' with -B (fp32, fp16 or bf16)",
                      name);
}

static int read_optimizer(const struct tutti_args *args, struct tutti_train_real *real,
                          struct tutti_err *err)
{
    int status;

    real->optimizer =
        tutti_args_given(args, "optimizer") ? tutti_args_text(args, "optimizer") : "sgd";
    status = tutti_update_named(real->optimizer, &real->params.optimizer, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--optimizer'");
    if (tutti_args_given(args, "learning-rate"))
        real->params.optimizer.rate = tutti_args_real(args, "learning-rate");
    if (tutti_args_given(args, "clip-norm"))
        real->params.clip_norm = tutti_args_real(args, "clip-norm");
    if (tutti_args_given(args, "warmup-steps"))
        real->params.rate.warmup_steps = tutti_args_number(args, "warmup-steps");
    if (strcmp(real->strategy.name, "diloco") == 0) {
        real->params.outer_rate =
            tutti_args_given(args, "outer-rate") ? tutti_args_real(args, "outer-rate") : 0.7;
        real->params.outer_momentum = 0.9;
    } else if (tutti_args_given(args, "outer-rate"))
        return tutti_fail(err, TUTTI_EINVAL, "option '--outer-rate' is of diloco, not of '%s'",
                          real->strategy.name);
    return 0;
}

static int read_batch(const struct tutti_args *args, struct tutti_train_real *real,
                      struct tutti_err *err)
{
    enum { BATCH = 64 };
    struct tutti_net_learner_params *d = &real->data;
    const bool global = tutti_args_given(args, "global-batch");
    const uint64_t ranks = real->replicas;
    uint64_t batch = tutti_args_given(args, "batch") ? tutti_args_number(args, "batch") : BATCH;

    if (global && tutti_args_given(args, "batch"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--batch' and '--global-batch' say the same (one of them)");
    d->micro_batches = (uint32_t)tutti_args_number(args, "accumulate");
    d->global_batch = real->global_batch > 0 ? real->global_batch
                      : global               ? tutti_args_number(args, "global-batch")
                                             : batch * ranks * d->micro_batches;
    if (tutti_args_given(args, "micro-batch")) {
        uint64_t micro = tutti_args_number(args, "micro-batch");
        uint64_t share = (d->global_batch + ranks - 1) / ranks;

        d->micro_batches = (uint32_t)((share + micro - 1) / micro);
    }
    if (d->global_batch > UINT32_MAX || d->micro_batches > d->global_batch)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a global batch of '%" PRIu64 "' in %u micro-batches (at most 2^32 - 1, "
                          "and one micro-batch an example)",
                          d->global_batch, d->micro_batches);
    return 0;
}

static int read_data(const struct tutti_args *args, struct tutti_train_real *real,
                     struct tutti_err *err)
{
    static const struct {
        const char *name;
        enum tutti_tf_shard shard;
    } shards[] = {{"auto", TUTTI_TF_SHARD_AUTO},
                  {"file", TUTTI_TF_SHARD_FILE},
                  {"data", TUTTI_TF_SHARD_DATA},
                  {"off", TUTTI_TF_SHARD_OFF}};
    struct tutti_net_learner_params *d = &real->data;
    int status = read_batch(args, real, err);

    d->size = sizeof(*d);
    d->model = real->model;
    d->data = tutti_args_text(args, "data");
    d->rank_count = real->replicas;
    d->seed = tutti_args_number(args, "seed");
    d->in_order = tutti_args_is(args, "shuffle", "off");
    if (tutti_args_given(args, "dropout"))
        d->dropout = (float)tutti_args_real(args, "dropout");
    for (size_t i = 0; i < sizeof(shards) / sizeof(shards[0]); i++)
        if (tutti_args_is(args, "auto-shard", shards[i].name))
            d->shard = shards[i].shard;
    if (status == 0)
        status = tutti_net_learner_new(d, &real->learner, &real->facts, err);
    return status;
}

/* Steps of this training: a whole number of epochs, or as many as are asked for. */
static int read_length(const struct tutti_args *args, struct tutti_train_real *real,
                       struct tutti_err *err)
{
    enum { STEPS = 100 };
    const char *when = tutti_args_text(args, "evaluate");
    char *end = NULL;

    if (tutti_args_given(args, "steps") && tutti_args_given(args, "epochs"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--steps' and '--epochs' each say how much is trained (one of "
                          "them)");
    real->steps = tutti_args_given(args, "steps") ? tutti_args_number(args, "steps") : STEPS;
    if (tutti_args_given(args, "epochs"))
        real->steps =
            (uint64_t)(tutti_args_real(args, "epochs") * (double)real->facts.epoch_steps + 0.999);
    if (tutti_args_flag(args, "cosine")) {
        real->params.rate.kind = TUTTI_RATE_COSINE;
        real->params.rate.decay_steps = real->steps > real->params.rate.warmup_steps
                                            ? real->steps - real->params.rate.warmup_steps
                                            : 1;
    }
    if (when == NULL)
        return 0;
    real->evaluate_end = true;
    if (strncmp(when, "every=", 6) == 0)
        real->evaluate_every = strtoull(when + 6, &end, 10);
    if (strcmp(when, "end") == 0 || (end != NULL && *end == '\0' && real->evaluate_every > 0))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "option '--evaluate': '%.40s' (every=N or end)", when);
}

/* Of checkpoints, to those who have none. */
static int check_saving(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const saving[] = {"save-every", "save-secs", "keep", "stop-code",
                                         "evaluator-wait"};

    if (tutti_args_given(args, "evaluate-only") && tutti_args_given(args, "checkpoint"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--evaluate-only' and '--checkpoint': nothing is trained that "
                          "could be saved (one of them)");
    for (size_t i = 0; i < sizeof(saving) / sizeof(saving[0]); i++)
        if (tutti_args_given(args, saving[i]) && !tutti_args_given(args, "checkpoint") &&
            !(strcmp(saving[i], "stop-code") == 0 && tutti_args_given(args, "elastic")))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' without '--checkpoint FOLDER'",
                              saving[i]);
    return 0;
}

int tutti_train_real_read(const struct tutti_args *args, struct tutti_train_real *real,
                          struct tutti_err *err)
{
    enum { SAVE_SECONDS = 600 }; /* tf.train.Supervisor's save_model_secs */
    int status = check(args, err);

    if (status == 0)
        status = check_saving(args, err);
    real->params.size = sizeof(real->params);
    if (status == 0)
        status = tutti_train_real_cut_complete(real, err);
    if (status == 0)
        status = tutti_model_load(args, tutti_args_text(args, "model"), &real->model, err);
    if (status == 0)
        status = read_strategy(args, real, err);
    if (status == 0)
        status = read_precision(args, real, err);
    if (status == 0)
        status = read_optimizer(args, real, err);
    if (status == 0)
        status = read_data(args, real, err);
    if (status == 0)
        status = read_length(args, real, err);
    if (status < 0)
        return status;
    real->params.strategy = &real->strategy;
    real->params.model = real->model;
    real->params.learner = &real->learner;
    real->params.rank_count = real->run.rank_count;
    real->params.shard_ranks = (uint32_t)tutti_args_number(args, "shard");
    real->params.micro_batches = real->data.micro_batches;
    real->params.samples =
        (uint32_t)((real->data.global_batch + real->replicas - 1) / real->replicas);
    real->params.seed = real->data.seed;
    real->events = tutti_args_text(args, "tensorboard");
    real->params.checkpoint = tutti_args_text(args, "checkpoint");
    real->params.keep = (uint32_t)tutti_args_number(args, "keep");
    if (tutti_args_given(args, "save-every"))
        real->params.save_steps = tutti_args_number(args, "save-every");
    if (tutti_args_given(args, "save-secs") || real->params.save_steps == 0)
        real->params.save_ps =
            (tutti_ps)((tutti_args_given(args, "save-secs") ? tutti_args_real(args, "save-secs")
                                                            : SAVE_SECONDS) *
                       (double)TUTTI_PS_PER_S);
    if (tutti_args_given(args, "evaluate-only")) {
        real->params.checkpoint = tutti_args_text(args, "evaluate-only");
        real->params.restore_only = real->evaluate_end = true;
        real->steps = 0;
    }
    real->params.check_sync = tutti_args_flag(args, "check-sync");
    real->params.deadline_ps = real->run.perform.deadline_ps;
    return 0;
}
