/* A step on each machine; see found.h. */
#include "tools/train/found.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/train/all_reduce.h"
#include "tools/train/slices.h"
#include "tools/train/step.h"
#include "topo/accelerator.h"
#include "topo/topo.h"

/* Sets samples and number of micro-batches of a device. */
static int share_batch(const struct tutti_train_question *q, uint32_t device_count,
                       struct tutti_train_ask *ask, struct tutti_err *err)
{
    uint64_t each = q->micro_batch > 0 ? q->micro_batch : ask->micro_batches;
    uint64_t parts = device_count * each;
    uint64_t share = q->global_batch / parts;

    if (q->global_batch == 0)
        return 0;
    if (q->global_batch % parts != 0 || share > (q->micro_batch > 0 ? 65536 : UINT32_MAX))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--global-batch': '%" PRIu64 "' does not divide among %u devices "
                          "and %s%" PRIu64 "%s (a multiple of %" PRIu64 ")",
                          q->global_batch, device_count,
                          q->micro_batch > 0 ? "micro-batches of " : "", each,
                          q->micro_batch > 0 ? "" : " micro-batches", parts);
    if (q->micro_batch > 0)
        ask->micro_batches = (uint32_t)share;
    else
        ask->use.batch = (uint32_t)share;
    return 0;
}

/* A strategy of one device, where there is one only; and of several hosts, where it may be. */
static void fit_strategy(const struct tutti_train_question *q, const struct tutti_topo *topo,
                         bool named, struct tutti_strategy *ret)
{
    *ret = q->strategy;
    if (named)
        return;
    if (ret->whole_hosts && topo->host_count > 1)
        tutti_train_strategy_of_hosts(&q->strategy, "multiworkermirrored", ret);
    if (strcmp(ret->name, "onedevice") == 0 && topo->rank_count > 1)
        tutti_train_strategy_of_hosts(
            &q->strategy, topo->host_count > 1 ? "multiworkermirrored" : "mirrored", ret);
}

/* The framework asked for, or the strategy's, by the constants that --calib gives. */
static int calibrate(const struct tutti_train_question *q, struct tutti_train_ask *ask,
                     struct tutti_train_found *ret, struct tutti_err *err)
{
    int status = 0;

    if (ask->use.framework == NULL)
        status = tutti_framework_find(ask->strategy->framework, &ask->use.framework, err);
    if (status < 0)
        return status;
    ret->calibrated_count =
        tutti_calib_framework((const struct tutti_calib *const *)q->calib.layers,
                              q->calib.layer_count, ask->use.framework, &ret->framework);
    ask->use.framework = &ret->framework;
    return 0;
}

/* What devices take for a step by the constants of `framework`, of states that some share. */
static double device_ps(const struct tutti_train_ask *ask, const struct tutti_framework *framework)
{
    const struct tutti_model_sums sums = tutti_model_sum(ask->model);
    struct tutti_device_use use = ask->use;
    uint64_t owners = ask->strategy->sharding == TUTTI_SHARD_NONE ? 1
                      : ask->shard_ranks > 0                      ? ask->shard_ranks
                                                                  : ask->topo->rank_count;
    double sum_ps = 0;

    use.framework = framework;
    for (uint32_t i = 0; i < ask->model->layer_count; i++) {
        struct tutti_layer_times times;

        if (tutti_device_layer(&use, &ask->model->layers[i], &times, NULL) == 0)
            sum_ps += (double)(times.forward_ps + times.backward_ps) * ask->model->layers[i].repeat;
    }
    return sum_ps * (ask->micro_batches > 0 ? ask->micro_batches : 1) +
           (double)tutti_device_optimizer(&use, sums.parameters / owners);
}

/* Of what is computed, the part by which the host is slower than the device: none if it took no
 * time to launch anything. */
static tutti_ps host_of(const struct tutti_train_ask *ask, const struct tutti_train_answer *answer)
{
    struct tutti_framework quick = *ask->use.framework;
    double all_ps = device_ps(ask, ask->use.framework);

    quick.forward_us = quick.backward_us = quick.step_us = 0;
    if (all_ps <= 0)
        return 0;
    return (tutti_ps)((double)answer->split.compute_ps * (1 - device_ps(ask, &quick) / all_ps));
}

double tutti_train_interval_s(const struct tutti_train_found *found, double share)
{
    return found->interval.row_count == 0
               ? NAN
               : share * (double)found->answer.step_ps / (double)TUTTI_PS_PER_S;
}

int tutti_train_interval_of(const struct tutti_interval *wanted, enum tutti_precision precision,
                            struct tutti_interval *ret, struct tutti_err *err)
{
    struct tutti_interval all[TUTTI_INTERVALS_MAX];
    struct tutti_interval of = *wanted;
    size_t count;
    const bool full = precision == TUTTI_PRECISION_FP32 || precision == TUTTI_PRECISION_TF32;
    int status = tutti_interval_parse("residuals", tutti_interval_text.text,
                                      tutti_interval_text.bytes, all, &count, err);

    (void)snprintf(of.precision, sizeof(of.precision), "%s", full ? "full" : "half");
    ret->row_count = 0;
    if (status == 0)
        (void)tutti_interval_find(all, count, &of, ret);
    return status;
}

/* What was measured of such steps. Constants of one's own, servers, what the host's input limits,
 * ranks that are slow on purpose, and TPUs, are of none of the classes. */
static int find_interval(const struct tutti_train_question *q, const struct tutti_train_ask *ask,
                         struct tutti_train_found *ret, struct tutti_err *err)
{
    struct tutti_interval wanted = {
        .several_hosts = ask->topo->host_count > 1,
        .anchored = q->anchor.step_ps > 0 || ask->anchor_ps > 0,
    };

    (void)snprintf(wanted.framework, sizeof(wanted.framework), "%s", ret->framework.name);
    ret->interval.row_count = 0;
    if (ret->calibrated_count > 0 || ask->strategy->coordinated || ret->answer.split.input_ps > 0 ||
        ret->answer.split.late_ps > 0 || ask->exact ||
        strncmp(ret->answer.accelerator, "tpu", 3) == 0)
        return 0;
    return tutti_train_interval_of(&wanted, ask->use.precision, &ret->interval, err);
}

int tutti_train_ask_one(const struct tutti_args *args, const struct tutti_train_question *q,
                        const struct tutti_topo *topo, struct tutti_train_found *ret,
                        struct tutti_err *err)
{
    const struct tutti_calib_choice costs = tutti_calib_option_for(&q->calib, topo);
    struct tutti_train_ask ask = q->ask;
    int status = share_batch(q, topo->rank_count, &ask, err);

    fit_strategy(q, topo, tutti_args_given(args, "strategy"), &ret->strategy);
    ask.topo = topo;
    ask.strategy = &ret->strategy;
    ask.protocols = costs.made.protocols;
    if (ask.use.accelerator == NULL) /* of the machine as named: its parts are of the same */
        ask.use.accelerator = tutti_topo_accelerator(q->topo);
    if (status == 0)
        status = calibrate(q, &ask, ret, err);
    ret->device_count = topo->rank_count;
    ret->batch = ask.use.batch;
    if (status == 0)
        status = tutti_train_step_ask(q, &ask, &ret->answer, &ret->servers, err);
    if (status == 0)
        ret->host_ps = host_of(&ask, &ret->answer);
    return status < 0 ? status : find_interval(q, &ask, ret, err);
}

/* Whether it is memory alone that a machine lacks. */
static bool is_too_large(const struct tutti_args *args, const struct tutti_train_question *q,
                         const struct tutti_topo *topo, struct tutti_train_found *ret)
{
    struct tutti_train_question any = *q;

    any.ask.any_memory = true;
    return !q->ask.any_memory && tutti_train_ask_one(args, &any, topo, ret, NULL) == 0;
}

int tutti_train_ask_all(const struct tutti_args *args, const struct tutti_train_question *q,
                        struct tutti_train_found_all *ret, struct tutti_err *err)
{
    int status = 0;

    ret->count = q->device_count == 0;
    ret->too_large.device_count = 0;
    if (q->device_count == 0)
        return tutti_train_ask_one(args, q, q->topo, &ret->machine[0], err);
    for (uint32_t i = 0; i < q->device_count && status == 0; i++) {
        bool others = ret->count > 0 || i + 1 < q->device_count;
        bool as_named = q->device_counts[i] == q->topo->rank_count;
        struct tutti_topo *topo = as_named ? q->topo : NULL;

        if (!as_named)
            status = tutti_train_machine(q->topo, q->device_counts[i], &topo, err);
        if (status == -TUTTI_EINVAL && q->ranged && others) {
            status = 0;
            continue;
        }
        if (status == 0) {
            status = tutti_train_ask_one(args, q, topo, &ret->machine[ret->count], err);
            if (status == 0)
                ret->count++;
            else if (status == -TUTTI_EINVAL && others &&
                     is_too_large(args, q, topo, &ret->too_large))
                status = 0;
        }
        if (!as_named)
            tutti_topo_free(topo);
    }
    return status;
}

void tutti_train_found_print_costs(const struct tutti_train_question *q,
                                   const struct tutti_train_found *f, FILE *out)
{
    const struct tutti_train_slices_ask ask = {.model = q->model,
                                               .strategy = &f->strategy,
                                               .rank_count = f->device_count,
                                               .samples = (uint64_t)f->batch * q->ask.micro_batches,
                                               .element_bytes = q->ask.gradient_bytes};

    if (q->calib.given)
        fprintf(out, "# costs:    %s; %zu constant%s of %s\n", tutti_calib_option_title(&q->calib),
                f->calibrated_count, f->calibrated_count == 1 ? "" : "s", f->framework.name);
    tutti_train_slices_print(&ask, out);
}

void tutti_train_interval_print(const struct tutti_interval *n, uint32_t device_count,
                                double step_s, FILE *out)
{
    char low[TUTTI_NUMBER_TEXT_BYTES], high[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "# interval, %u device%s: %s to %s s in 8 of 10 (p10, p90), as %u steps ",
            device_count, device_count == 1 ? "" : "s", tutti_number_text(n->low * step_s, low),
            tutti_number_text(n->high * step_s, high), n->row_count);
    fprintf(out, "of %s on %s%s%s were measured%s\n",
            strcmp(n->framework, "any") == 0 ? "all frameworks" : n->framework,
            n->several_hosts ? "several hosts" : "one host", n->divided ? ", models divided," : "",
            n->anchored ? ", by one of their series," : "",
            n->fitted     ? " (constants were fitted to them)"
            : n->anchored ? ""
                          : "; one of your own narrows it (--anchor)");
}

void tutti_train_found_print_intervals(const struct tutti_train_found *found, uint32_t count,
                                       FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct tutti_interval *n = &found[i].interval;

        if (n->row_count == 0 || (i > 0 && n->row_count == found[i - 1].interval.row_count))
            continue;
        tutti_train_interval_print(n, found[i].device_count,
                                   (double)found[i].answer.step_ps / (double)TUTTI_PS_PER_S, out);
    }
}
