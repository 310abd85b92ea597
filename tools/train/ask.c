/* Reads what `tutti train` was asked. */
#include "tools/train/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/files.h"
#include "tools/cli/machine.h"
#include "tools/cli/model.h"
#include "tools/train/all_reduce.h"
#include "tools/train/curve.h"
#include "tools/train/parallel.h"
#include "tools/train/step.h"
#include "tools/train/strategy.h"
#include "topo/topo.h"

/* Images a second by one thread: the median of TensorFlow's decode operation on three x86
 * processors (imread-benchmark: 596, 689 and 836). */
static const double DECODE_RATE = 689;

/* Smaller images than this, decoded, come from arrays and not from JPEG files. */
enum { JPEG_BYTES = 64 * 1024 };

/* ---- devices --------------------------------------------------------------------------------- */

static int add_count(struct tutti_train_question *q, uint64_t count, struct tutti_err *err)
{
    if (q->device_count == TUTTI_TRAIN_MACHINES_MAX || count == 0 || count > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--devices': '%" PRIu64 "' (1 or more, at most %d of them)",
                          count, TUTTI_TRAIN_MACHINES_MAX);
    q->device_counts[q->device_count++] = (uint32_t)count;
    return 0;
}

/* "8", "1,2,8" or "1..1024": doubling. */
static int read_counts(const char *text, struct tutti_train_question *q, struct tutti_err *err)
{
    const char *at = text;
    int status = 0;

    while (status == 0) {
        char *end;
        unsigned long long from = strtoull(at, &end, 10);
        unsigned long long to = from;

        if (end != at && strncmp(end, "..", 2) == 0)
            to = strtoull(end + 2, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || from == 0 || to < from)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--devices': '%.40s' is no list of numbers (8, 1,2,8 or "
                              "1..1024)",
                              text);
        q->ranged |= to > from;
        for (unsigned long long n = from; n <= to && status == 0; n *= 2)
            status = add_count(q, n, err);
        if (*end == '\0')
            break;
        at = end + 1;
    }
    return status;
}

/* ---- options --------------------------------------------------------------------------------- */

/* By what the machine is. */
static const char *standard_strategy(const struct tutti_topo *topo)
{
    if (topo->shape.dim_count > 1 && strncmp(topo->name, "tpu", 3) == 0)
        return "tpu";
    if (topo->rank_count == 1)
        return "onedevice";
    return topo->host_count > 1 ? "multiworkermirrored" : "mirrored";
}

static int read_strategy(const struct tutti_args *args, struct tutti_train_question *q,
                         struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "strategy");
    struct tutti_strategy *s = &q->strategy;
    int status;

    if (name == NULL)
        name = tutti_train_tasks_strategy(&q->servers);
    if (name == NULL && tutti_train_is_parallel(args))
        name = "ddp";
    status = tutti_strategy_named(name != NULL ? name : standard_strategy(q->topo), s, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--strategy'");
    status = tutti_train_servers_check(args, s->coordinated, err);
    if (status == 0)
        status = tutti_train_tasks_machine(&q->servers, s->name, &q->topo, err);
    if (status < 0)
        return status;
    status = tutti_train_strategy_read(args, s, err);
    return status < 0 ? status : tutti_train_all_reduce_read(args, q, err);
}

/* Models that are divided are trained in mixed precision, as far as the device has it. */
static enum tutti_precision parallel_precision(const struct tutti_accelerator *device)
{
    if (device->flops_per_s[TUTTI_PRECISION_BF16] > 0)
        return TUTTI_PRECISION_BF16;
    return device->flops_per_s[TUTTI_PRECISION_FP16] > 0 ? TUTTI_PRECISION_FP16
                                                         : TUTTI_PRECISION_FP32;
}

/* Unless it is said: 32 bits, and what a device without them is made for (a TPU's bf16). */
static int read_precision(const struct tutti_args *args, struct tutti_train_question *q,
                          struct tutti_err *err)
{
    struct tutti_device_use *use = &q->ask.use;
    const struct tutti_accelerator *device =
        use->accelerator != NULL ? use->accelerator : tutti_topo_accelerator(q->topo);
    const char *name = tutti_args_text(args, "precision");
    int status = name != NULL ? tutti_precision_find(name, &use->precision, err) : 0;

    if (name == NULL && device != NULL &&
        tutti_accelerator_flops(device, TUTTI_PRECISION_FP32) == 0 &&
        tutti_accelerator_flops(device, TUTTI_PRECISION_BF16) > 0)
        use->precision = TUTTI_PRECISION_BF16;
    else if (name == NULL && device != NULL && tutti_train_is_parallel(args))
        use->precision = parallel_precision(device);
    return status < 0 ? tutti_wrap(err, status, "option '--precision'") : 0;
}

static int read_device(const struct tutti_args *args, struct tutti_train_question *q,
                       struct tutti_err *err)
{
    struct tutti_device_use *use = &q->ask.use;
    const char *device = tutti_args_text(args, "device");
    const char *framework = tutti_args_text(args, "framework");
    const char *recompute = tutti_args_text(args, "recompute");
    int status = 0;

    if (device != NULL)
        status = tutti_accelerator_find(device, &use->accelerator, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--device'");
    status = read_precision(args, q, err);
    if (status < 0)
        return status;
    if (framework != NULL)
        status = tutti_framework_find(framework, &use->framework, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--framework'");
    status = tutti_recompute_find(recompute, &use->recompute, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--recompute'");
    use->fused_attention = tutti_args_is(args, "attention", "fused");
    return 0;
}

/* Of --micro-batch: what a device has of a step is accumulated piece by piece. */
static int cut_batch(const struct tutti_args *args, struct tutti_train_question *q,
                     struct tutti_err *err)
{
    struct tutti_train_ask *ask = &q->ask;
    uint32_t piece = (uint32_t)tutti_args_number(args, "micro-batch");

    if (tutti_args_given(args, "accumulate")) {
        if (tutti_args_given(args, "batch") || q->global_batch > 0)
            return tutti_fail(
                err, TUTTI_EINVAL,
                "option '--accumulate' beside '--micro-batch' and a batch (two of the "
                "three)");
    } else if (tutti_args_given(args, "batch")) {
        if (ask->use.batch % piece != 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--micro-batch': '%u' does not divide a device's batch of %u",
                              piece, ask->use.batch);
        ask->micro_batches = ask->use.batch / piece;
    } else if (q->global_batch > 0) {
        q->micro_batch = piece;
    }
    ask->use.batch = piece;
    return 0;
}

static int read_batch(const struct tutti_args *args, struct tutti_train_question *q,
                      struct tutti_err *err)
{
    struct tutti_train_ask *ask = &q->ask;
    bool sequences = q->model->sample == TUTTI_SAMPLE_SEQUENCE;

    ask->micro_batches = (uint32_t)tutti_args_number(args, "accumulate");
    ask->use.batch = tutti_args_given(args, "batch") ? (uint32_t)tutti_args_number(args, "batch")
                     : sequences                     ? 1
                                                     : 64;
    q->global_batch =
        tutti_args_given(args, "global-batch") ? tutti_args_number(args, "global-batch") : 0;
    if (q->global_batch > 0 && tutti_args_given(args, "batch"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--batch' and '--global-batch' both say how much a device has "
                          "(one of them)");
    return tutti_args_given(args, "micro-batch") ? cut_batch(args, q, err) : 0;
}

static void read_input(const struct tutti_args *args, struct tutti_train_question *q)
{
    struct tutti_train_ask *ask = &q->ask;

    ask->input_workers = (uint32_t)tutti_args_number(args, "input-workers");
    ask->prefetch = (uint32_t)tutti_args_number(args, "prefetch");
    if (tutti_args_given(args, "input-rate"))
        ask->input_rate = tutti_args_real(args, "input-rate");
    else if (q->model->sample == TUTTI_SAMPLE_IMAGE && q->model->sample_bytes >= JPEG_BYTES &&
             !tutti_args_flag(args, "synthetic")) {
        ask->input_rate = DECODE_RATE;
        q->has_default_input = true;
    }
}

/* What images are trained with, and what sequences are, unless it is said. */
static int read_optimizer(const struct tutti_args *args, struct tutti_train_question *q,
                          struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "optimizer");
    int status;

    q->ask.any_memory = tutti_args_flag(args, "any-memory");
    q->ask.optimizer =
        q->model->sample == TUTTI_SAMPLE_SEQUENCE ? TUTTI_OPTIMIZER_ADAM : TUTTI_OPTIMIZER_MOMENTUM;
    if (name == NULL)
        return 0;
    status = tutti_optimizer_find(name, &q->ask.optimizer, err);
    return status < 0 ? tutti_wrap(err, status, "option '--optimizer'") : 0;
}

static int read_prices(const struct tutti_args *args, struct tutti_train_question *q,
                       struct tutti_err *err)
{
    const char *path = tutti_args_text(args, "prices");
    char *text = NULL;
    size_t bytes = 0;
    int status;

    if (path == NULL)
        return tutti_prices_builtin(&q->prices, err);
    status = tutti_file_read(path, &text, &bytes, err);
    if (status == 0)
        status = tutti_prices_parse(path, text, bytes, &q->prices, err);
    free(text);
    return status;
}

static int read_length(const struct tutti_args *args, struct tutti_train_question *q,
                       struct tutti_err *err)
{
    q->steps = tutti_args_given(args, "steps") ? tutti_args_number(args, "steps") : 0;
    q->tokens = tutti_args_given(args, "tokens") ? tutti_args_number(args, "tokens") : 0;
    if ((q->steps > 0) + (q->tokens > 0) + tutti_args_given(args, "epochs") > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--steps', '--tokens' and '--epochs' each say how much is "
                          "trained (one of them)");
    if (q->tokens > 0 && q->model->sample != TUTTI_SAMPLE_SEQUENCE)
        return tutti_fail(err, TUTTI_EINVAL, "option '--tokens': '%s' is trained on %ss (--epochs)",
                          q->model->name, tutti_sample_name(q->model->sample));
    q->epochs = tutti_args_given(args, "epochs") ? tutti_args_real(args, "epochs") : 0;
    q->examples = tutti_args_given(args, "examples") ? tutti_args_number(args, "examples")
                                                     : q->model->examples;
    if (q->epochs > 0 && q->examples == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--epochs': how many examples '%s' is trained on is not known "
                          "(--examples N)",
                          q->model->name);
    return 0;
}

int tutti_train_question_read(const struct tutti_args *args, struct tutti_train_question *q,
                              struct tutti_err *err)
{
    int status;

    *q = (struct tutti_train_question){.ask = {.size = sizeof(struct tutti_train_ask)}};
    status = tutti_machine_load(tutti_args_operand(args, 0),
                                (uint32_t)tutti_args_number(args, "nodes"), &q->topo, err);
    if (status == 0 && tutti_args_given(args, "devices"))
        status = read_counts(tutti_args_text(args, "devices"), q, err);
    if (status == 0)
        status = tutti_train_curve_check(args, err);
    if (status == 0 && tutti_args_text(args, "model") == NULL)
        status = tutti_fail(err, TUTTI_EINVAL, "no model ('--model NAME': 'tutti model list')");
    if (status == 0)
        status = tutti_model_load(args, tutti_args_text(args, "model"), &q->model, err);
    if (status == 0)
        status = tutti_train_servers_read(args, &q->servers, err);
    if (status == 0)
        status = read_strategy(args, q, err);
    if (status == 0)
        status = tutti_train_step_read(args, q, err);
    if (status == 0)
        status = read_device(args, q, err);
    if (status == 0)
        status = read_batch(args, q, err);
    if (status == 0)
        status = read_length(args, q, err);
    if (status == 0)
        status = tutti_train_goodput_read(args, q, err);
    if (status == 0)
        status = read_optimizer(args, q, err);
    if (status == 0)
        status = read_prices(args, q, err);
    if (status == 0)
        status = tutti_calib_option_read(args, &q->calib, err);
    if (status == 0)
        status = tutti_train_anchor_read(args, q, err);
    if (status < 0)
        return status;
    read_input(args, q);
    q->ask.topo = q->topo;
    q->ask.model = q->model;
    q->ask.strategy = &q->strategy;
    q->ask.shard_ranks = (uint32_t)tutti_args_number(args, "shard");
    q->ask.gradient_bytes = (uint32_t)tutti_args_number(args, "gradient-bytes");
    q->ask.anchor_ps =
        tutti_args_given(args, "step-time") ? (tutti_ps)tutti_args_number(args, "step-time") : 0;
    q->ask.exact = tutti_args_flag(args, "exact");
    q->ask.synthetic = tutti_args_flag(args, "synthetic");
    return 0;
}

void tutti_train_question_done(struct tutti_train_question *q)
{
    tutti_calib_option_done(&q->calib);
    tutti_prices_free(q->prices);
    tutti_train_servers_done(&q->servers);
    tutti_algorithm_set_free(q->added);
    tutti_model_free(q->model);
    tutti_topo_free(q->topo);
}
