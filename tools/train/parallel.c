/* Asks for a step with model parallelism on each machine; see parallel.h. */
#include "tools/train/parallel.h"

#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/calib.h"
#include "tools/sink.h"
#include "tools/train/curve.h"
#include "tools/train/found.h"
#include "topo/topo.h"

/* ---- one machine ----------------------------------------------------------------------------- */

/* Megatron, of replicas alone PyTorch, of TPUs XLA, unless it is said; by the constants that
 * --calib gives. */
static int calibrate(const struct tutti_train_question *q, struct tutti_device_use *use,
                     struct tutti_train_parallel_found *ret, struct tutti_err *err)
{
    const struct tutti_parallel *cut = &ret->cut;
    const bool divided = (uint64_t)cut->tensor * cut->pipeline * cut->context * cut->expert > 1;
    const bool is_tpu = use->accelerator != NULL && strncmp(use->accelerator->name, "tpu", 3) == 0;
    int status = 0;

    if (use->framework == NULL)
        status = tutti_framework_find(is_tpu    ? "xla"
                                      : divided ? "megatron"
                                                : "pytorch",
                                      &use->framework, err);
    if (status < 0)
        return status;
    ret->calibrated_count =
        tutti_calib_framework((const struct tutti_calib *const *)q->calib.layers,
                              q->calib.layer_count, use->framework, &ret->framework);
    use->framework = &ret->framework;
    return 0;
}

static struct tutti_parallel_ask make_ask(const struct tutti_train_parallel_question *q,
                                          const struct tutti_topo *topo,
                                          const struct tutti_calib_choice *costs,
                                          const struct tutti_parallel *cut)
{
    const struct tutti_train_ask *of = &q->of_train.ask;
    struct tutti_parallel_ask ask = {
        .size = sizeof(ask),
        .topo = topo,
        .model = q->of_train.model,
        .parallel = cut,
        .use = of->use,
        .gradient_bytes = of->gradient_bytes,
        .optimizer = of->optimizer,
        .no_overlap = !q->of_train.strategy.overlap,
        .any_memory = of->any_memory,
        .pace = of->pace,
        .anchor_ps = of->anchor_ps,
        .algorithm = of->algorithm,
        .protocols = costs->made.protocols,
        .input_rate = of->input_rate,
        .input_workers = of->input_workers,
        .prefetch = of->prefetch,
        .synthetic = of->synthetic,
    };

    if (ask.use.accelerator == NULL) /* of the machine as named: its parts are of the same */
        ask.use.accelerator = tutti_topo_accelerator(q->of_train.topo);
    return ask;
}

/* What was measured of such steps. Constants of one's own, what the host's input limits, and TPUs,
 * are of none of the classes. */
static int find_interval(const struct tutti_train_question *q, const struct tutti_topo *topo,
                         struct tutti_train_parallel_found *ret, struct tutti_err *err)
{
    struct tutti_interval wanted = {
        .several_hosts = topo->host_count > 1, .anchored = q->anchor.step_ps > 0, .divided = true};

    (void)snprintf(wanted.framework, sizeof(wanted.framework), "%s", ret->framework.name);
    ret->interval.row_count = 0;
    if (ret->calibrated_count > 0 || ret->answer.split.input_ps > 0 ||
        strncmp(ret->answer.accelerator, "tpu", 3) == 0)
        return 0;
    return tutti_train_interval_of(&wanted, q->ask.use.precision, &ret->interval, err);
}

int tutti_train_parallel_ask(const struct tutti_train_parallel_question *q,
                             const struct tutti_topo *topo, struct tutti_train_parallel_found *ret,
                             struct tutti_err *err)
{
    const struct tutti_calib_choice costs = tutti_calib_option_for(&q->of_train.calib, topo);
    struct tutti_train_parallel_watch watch = {.count = 0};
    struct tutti_parallel_ask ask;
    int status = tutti_train_parallel_derive(q, topo, &ret->cut, err);

    if (status < 0)
        return status;
    ask = make_ask(q, topo, &costs, &ret->cut);
    if (q->watch != NULL)
        ask.note = tutti_train_parallel_note;
    ask.note_context = &watch;
    status = calibrate(&q->of_train, &ask.use, ret, err);
    if (status == 0)
        tutti_parallel_follow(&ret->cut, &ask);
    watch.cut = ret->cut;
    if (status == 0)
        status = tutti_parallel_predict(&ask, &ret->answer, err);
    if (status == 0) {
        status = watch.lost ? tutti_nomem(err) : find_interval(&q->of_train, topo, ret, err);
        if (status < 0)
            tutti_parallel_answer_free(&ret->answer);
    }
    if (status < 0) {
        tutti_train_parallel_watch_done(&watch);
        return status;
    }
    if (q->watch != NULL) {
        tutti_train_parallel_watch_done(q->watch);
        *q->watch = watch;
    }
    ret->device_count = topo->rank_count;
    tutti_train_parallel_groups(&ret->cut, topo, &ret->groups);
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Whether it is memory alone that a machine lacks; *ret_stage is the one with the most. */
static bool is_too_small(const struct tutti_train_parallel_question *q,
                         const struct tutti_topo *topo, uint32_t *ret_stage)
{
    struct tutti_train_parallel_question any = *q;
    struct tutti_train_parallel_found found;
    uint32_t most = 0;

    any.of_train.ask.any_memory = true;
    any.watch = NULL;
    if (q->of_train.ask.any_memory || tutti_train_parallel_ask(&any, topo, &found, NULL) < 0)
        return false;
    for (uint32_t i = 0; i < found.cut.pipeline; i++)
        if (found.answer.footprints[i].total_bytes > found.answer.footprints[most].total_bytes)
            most = i;
    *ret_stage = most;
    tutti_parallel_answer_free(&found.answer);
    return true;
}

/* Of a pipeline that does not fit the message says which stage it is. */
static int ask_named(const struct tutti_train_parallel_question *q, const struct tutti_topo *topo,
                     struct tutti_train_parallel_found *ret, bool *ret_too_small,
                     struct tutti_err *err)
{
    uint32_t stage = 0;
    int status = tutti_train_parallel_ask(q, topo, ret, err);

    *ret_too_small = status == -TUTTI_EINVAL && is_too_small(q, topo, &stage);
    if (*ret_too_small && ret->cut.pipeline > 1)
        return tutti_wrap(err, status, "stage %u of %u", stage, ret->cut.pipeline);
    return status;
}

/* One of several machines: those that are too small, and of a range those that there are not or
 * that do not divide, are passed over. *why says of the last of these what it lacks. */
static int ask_one_of(const struct tutti_train_parallel_question *q, uint32_t device_count,
                      struct tutti_train_parallel_found_all *all, struct tutti_err *err)
{
    const struct tutti_train_question *of = &q->of_train;
    const bool as_named = device_count == of->topo->rank_count;
    struct tutti_topo *topo = as_named ? of->topo : NULL;
    struct tutti_parallel cut;
    bool passes = of->ranged;
    int status = 0;

    if (!as_named)
        status = tutti_train_machine(of->topo, device_count, &topo, err);
    if (status == 0)
        status = tutti_train_parallel_derive(q, topo, &cut, err);
    if (status == 0) {
        status = ask_named(q, topo, &all->machine[all->count], &passes, err);
    }
    if (!as_named)
        tutti_topo_free(topo);
    if (status == 0) {
        all->count++;
        return 0;
    }
    all->left_out = device_count;
    return status == -TUTTI_EINVAL && passes ? 0 : status;
}

static int ask_all(const struct tutti_train_parallel_question *q,
                   struct tutti_train_parallel_found_all *all, struct tutti_err *err)
{
    const struct tutti_train_question *of = &q->of_train;
    struct tutti_err why = {.text = ""};
    bool passes = false;
    int status = 0;

    all->count = 0;
    all->left_out = 0;
    if (of->device_count == 0) {
        status = ask_named(q, of->topo, &all->machine[0], &passes, err);
        all->count = status == 0;
        return status;
    }
    for (uint32_t i = 0; i < of->device_count && status == 0; i++)
        status = ask_one_of(q, of->device_counts[i], all, &why);
    if (status == 0 && all->count == 0)
        status = -TUTTI_EINVAL; /* each was passed over; the last one says why */
    all->why = why;
    if (status < 0 && err != NULL)
        *err = why;
    return status;
}

static void free_all(struct tutti_train_parallel_found_all *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        tutti_parallel_answer_free(&all->machine[i].answer);
}

static int ask_goodput(struct tutti_train_parallel_question *q,
                       const struct tutti_train_parallel_found *found, struct tutti_err *err)
{
    const struct tutti_parallel_answer *a = &found->answer;
    const struct tutti_train_goodput_step step = {
        .step_ps = a->step_ps,
        .samples = a->samples,
        .parameters = a->parameters,
        .accelerator = a->accelerator,
        .replica_devices = found->cut.tensor * found->cut.context * found->cut.pipeline};

    return tutti_train_goodput_ask(&q->of_train, &step, err);
}

int tutti_train_parallel(const struct tutti_args *args, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_train_parallel_found_all all = {.count = 0};
    struct tutti_train_parallel_watch watch = {.count = 0};
    struct tutti_train_parallel_question q;
    int status = tutti_train_parallel_read(args, &q, err);

    q.watch = q.of_train.is_watched ? &watch : NULL;
    if (status == 0)
        status = tutti_train_parallel_anchor(&q, err);
    if (status == 0)
        status = ask_all(&q, &all, err);
    if (status == 0)
        status = ask_goodput(&q, &all.machine[0], err);
    if (status == 0 && !tutti_train_curve_only(args))
        status = tutti_train_parallel_print(args, &q, &all, sink, err);
    if (status == 0)
        status = tutti_train_parallel_print_curve(args, &q, &all, sink, err);
    if (status == 0 && tutti_args_given(args, "trace"))
        status = tutti_train_parallel_trace(&watch, tutti_args_text(args, "trace"),
                                            q.of_train.model->name, sink, err);
    tutti_train_parallel_watch_done(&watch);
    free_all(&all);
    tutti_train_parallel_question_done(&q);
    return status;
}
