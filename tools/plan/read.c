/* Reads what `tutti plan` was asked. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/train.h"
#include "tools/cli/files.h"
#include "tools/cli/machine.h"
#include "tools/cli/model.h"
#include "tools/plan/amounts.h"
#include "tools/plan/plan.h"
#include "topo/accelerator.h"
#include "topo/topo.h"

enum { PPM_A_PERCENT = 10000 };

/* ---- machines -------------------------------------------------------------------------------- */

static int add_machine(struct tutti_plan_question *q, uint32_t spec, struct tutti_topo *sized,
                       struct tutti_err *err)
{
    uint32_t at = q->machine_count;

    if (at == TUTTI_PLAN_MACHINES_MAX) {
        tutti_topo_free(sized);
        return tutti_fail(err, TUTTI_EINVAL, "more than %d machines of all sizes",
                          TUTTI_PLAN_MACHINES_MAX);
    }
    q->sized[at] = sized;
    q->machine_spec[at] = spec;
    q->machines[at] = (struct tutti_plan_machine){.topo = sized != NULL ? sized : q->specs[spec],
                                                  .protocols = q->costs[spec].made.protocols};
    q->machine_count++;
    return 0;
}

/* The machine of a size; of a range those that there are. */
static int add_size(struct tutti_plan_question *q, uint32_t spec, uint32_t size, bool ranged,
                    struct tutti_err *err)
{
    struct tutti_topo *sized = NULL;
    int status;

    if (q->specs[spec]->rank_count == size)
        return add_machine(q, spec, NULL, err);
    status = tutti_train_machine(q->specs[spec], size, &sized, err);
    if (status == -TUTTI_EINVAL && ranged)
        return 0;
    return status < 0 ? tutti_wrap(err, status, "option '--devices'")
                      : add_machine(q, spec, sized, err);
}

static int read_sizes(const struct tutti_args *args, struct tutti_plan_question *q,
                      struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "devices");
    uint32_t sizes[TUTTI_PLAN_SIZES_MAX];
    uint32_t count = 0;
    int status =
        text != NULL ? tutti_values_read(text, sizes, TUTTI_PLAN_SIZES_MAX, &count, err) : 0;

    if (status < 0)
        return tutti_wrap(err, status, "option '--devices'");
    for (uint32_t s = 0; s < q->spec_count && status == 0; s++) {
        uint32_t before = q->machine_count;

        if (text == NULL)
            status = add_machine(q, s, NULL, err);
        for (uint32_t i = 0; i < count && status == 0; i++)
            status = add_size(q, s, sizes[i], strstr(text, "..") != NULL, err);
        if (status == 0 && q->machine_count == before)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "option '--devices': there is no '%s' of any of '%s' devices",
                                q->specs[s]->name, text);
    }
    return status;
}

static int read_machines(const struct tutti_args *args, struct tutti_plan_question *q,
                         struct tutti_err *err)
{
    const char *word;
    int status = 0;

    for (uint32_t i = 0; (word = tutti_args_operand(args, i)) != NULL && status == 0; i++) {
        status =
            tutti_machine_load(word, (uint32_t)tutti_args_number(args, "nodes"), &q->specs[i], err);
        if (status < 0)
            break;
        q->spec_count++;
        for (uint32_t k = 0; k < i && status == 0; k++)
            if (strcmp(q->specs[k]->name, q->specs[i]->name) == 0)
                status = tutti_fail(err, TUTTI_EINVAL, "machine '%s' is given twice (once)", word);
        if (status == 0)
            q->costs[i] = tutti_calib_option_for(&q->calib, q->specs[i]);
    }
    return status < 0 ? status : read_sizes(args, q, err);
}

/* ---- what may be chosen ---------------------------------------------------------------------- */

static int find_sharding(const char *name, uint32_t *ret, struct tutti_err *err)
{
    if (name[0] < '0' || name[0] > '3' || name[1] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "unknown ZeRO stage '%s' (0, 1, 2 or 3)", name);
    *ret = TUTTI_SHARD_NONE + (uint32_t)(name[0] - '0');
    return 0;
}

static int find_recompute(const char *name, uint32_t *ret, struct tutti_err *err)
{
    enum tutti_recompute mode = TUTTI_RECOMPUTE_NONE;
    int status = tutti_recompute_find(name, &mode, err);

    *ret = mode;
    return status;
}

static int find_pipeline(const char *name, uint32_t *ret, struct tutti_err *err)
{
    enum tutti_pipeline pipeline = TUTTI_PIPELINE_1F1B;
    int status = tutti_pipeline_find(name, &pipeline, err);

    *ret = pipeline;
    return status;
}

static int find_context(const char *name, uint32_t *ret, struct tutti_err *err)
{
    enum tutti_context_kind kind = TUTTI_CONTEXT_RING;
    int status = tutti_context_find(name, &kind, err);

    *ret = kind;
    return status;
}

static int find_switch(const char *name, uint32_t *ret, struct tutti_err *err)
{
    *ret = strcmp(name, "on") == 0;
    if (*ret == 0 && strcmp(name, "off") != 0)
        return tutti_fail(err, TUTTI_EINVAL, "unknown value '%s' (on, off)", name);
    return 0;
}

static int read_degrees(const struct tutti_args *args, struct tutti_plan_space *space,
                        struct tutti_err *err)
{
    const struct {
        const char *option;
        struct tutti_plan_values *values;
    } degrees[] = {{"tp", &space->tensor},
                   {"cp", &space->context},
                   {"ep", &space->expert},
                   {"dp", &space->data},
                   {"pp", &space->pipeline},
                   {"vp", &space->virtual_stages},
                   {"micro-batch", &space->micro_batch}};

    for (size_t i = 0; i < sizeof(degrees) / sizeof(degrees[0]); i++) {
        const char *text = tutti_args_text(args, degrees[i].option);
        int status = text == NULL
                         ? 0
                         : tutti_values_read(text, degrees[i].values->values, TUTTI_PLAN_VALUES_MAX,
                                             &degrees[i].values->count, err);

        if (status < 0)
            return tutti_wrap(err, status, "option '--%s'", degrees[i].option);
    }
    return 0;
}

static int read_words(const struct tutti_args *args, struct tutti_plan_space *space,
                      struct tutti_err *err)
{
    const struct {
        const char *option;
        int (*find)(const char *name, uint32_t *ret, struct tutti_err *err);
        uint32_t *bits;
    } words[] = {{"zero", find_sharding, &space->shardings},
                 {"recompute", find_recompute, &space->recomputes},
                 {"pipeline", find_pipeline, &space->schedules},
                 {"context", find_context, &space->context_kinds},
                 {"sp", find_switch, &space->sequence_parallel}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *text = tutti_args_text(args, words[i].option);
        int status = text == NULL ? 0 : tutti_words_read(text, words[i].find, words[i].bits, err);

        if (status < 0)
            return tutti_wrap(err, status, "option '--%s'", words[i].option);
    }
    return 0;
}

/* ---- the training ---------------------------------------------------------------------------- */

/* Of TPUs XLA, else Megatron, of what is no sequence PyTorch; as tutti train has it. */
static const char *usual_framework(const struct tutti_plan_question *q)
{
    const struct tutti_accelerator *a = q->ask.use.accelerator != NULL
                                            ? q->ask.use.accelerator
                                            : tutti_topo_accelerator(q->machines[0].topo);

    if (a != NULL && strncmp(a->name, "tpu", 3) == 0)
        return "xla";
    return q->model->sample == TUTTI_SAMPLE_SEQUENCE ? "megatron" : "pytorch";
}

static int read_device(const struct tutti_args *args, struct tutti_plan_question *q,
                       struct tutti_err *err)
{
    struct tutti_device_use *use = &q->ask.use;
    const char *device = tutti_args_text(args, "device");
    const char *optimizer = tutti_args_text(args, "optimizer");
    const char *name = tutti_args_text(args, "framework");
    const struct tutti_framework *framework = NULL;
    int status = tutti_precision_find(tutti_args_text(args, "precision"), &use->precision, err);

    if (status < 0)
        return tutti_wrap(err, status, "option '--precision'");
    if (device != NULL)
        status = tutti_accelerator_find(device, &use->accelerator, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--device'");
    if (name == NULL)
        name = usual_framework(q);
    status = tutti_framework_find(name, &framework, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--framework'");
    q->calibrated_count = tutti_calib_framework((const struct tutti_calib *const *)q->calib.layers,
                                                q->calib.layer_count, framework, &q->framework);
    use->framework = &q->framework;
    use->fused_attention = tutti_args_is(args, "attention", "fused");
    q->ask.optimizer =
        q->model->sample == TUTTI_SAMPLE_SEQUENCE ? TUTTI_OPTIMIZER_ADAM : TUTTI_OPTIMIZER_MOMENTUM;
    if (optimizer != NULL)
        status = tutti_optimizer_find(optimizer, &q->ask.optimizer, err);
    return status < 0 ? tutti_wrap(err, status, "option '--optimizer'") : 0;
}

static int read_length(const struct tutti_args *args, struct tutti_plan_question *q,
                       struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "tokens");
    uint64_t step_tokens;
    uint64_t tokens = 0;
    int status = 0;

    q->ask.global_batch = tutti_args_number(args, "global-batch");
    q->ask.steps = tutti_args_given(args, "steps") ? tutti_args_number(args, "steps") : 0;
    if (text != NULL && q->ask.steps > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--tokens' and '--steps' both say how much is trained (one of "
                          "them)");
    if (text != NULL && q->model->sample != TUTTI_SAMPLE_SEQUENCE)
        return tutti_fail(err, TUTTI_EINVAL, "option '--tokens': '%s' is trained on %ss (--steps)",
                          q->model->name, tutti_sample_name(q->model->sample));
    if (text != NULL)
        status = tutti_amount_read(text, 1, &tokens, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--tokens'");
    step_tokens = q->ask.global_batch * q->model->sequence;
    if (text != NULL)
        q->ask.steps = tokens / step_tokens + (tokens % step_tokens != 0);
    q->ends = q->ask.steps > 0;
    return 0;
}

static int read_prices(const struct tutti_args *args, struct tutti_plan_question *q,
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

/* Both limits want to know how much is trained, and a budget what all devices cost. */
static int check_limits(const struct tutti_args *args, const struct tutti_plan_question *q,
                        struct tutti_err *err)
{
    static const char *const limits[] = {"deadline", "budget"};

    for (size_t i = 0; i < 2; i++)
        if (tutti_args_given(args, limits[i]) && !q->ends)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' without how much is trained (--tokens or --steps)",
                              limits[i]);
    for (uint32_t s = 0; s < q->spec_count && q->ask.budget > 0; s++) {
        const struct tutti_accelerator *device = q->ask.use.accelerator != NULL
                                                     ? q->ask.use.accelerator
                                                     : tutti_topo_accelerator(q->specs[s]);

        if (device != NULL && tutti_prices_device(q->prices, device) == NULL)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--budget': '%s' has no price (--prices FILE with a line of "
                              "it)",
                              device->name);
    }
    return 0;
}

static int read_limits(const struct tutti_args *args, struct tutti_plan_question *q,
                       struct tutti_err *err)
{
    const char *deadline = tutti_args_text(args, "deadline");
    const char *budget = tutti_args_text(args, "budget");
    const char *by = tutti_args_text(args, "by");
    int status = read_prices(args, q, err);

    if (status == 0 && deadline != NULL &&
        (status = tutti_duration_read(deadline, &q->ask.deadline_us, err)) < 0)
        return tutti_wrap(err, status, "option '--deadline'");
    if (status == 0 && budget != NULL &&
        (status = tutti_amount_read(budget, 1000000, &q->ask.budget, err)) < 0)
        return tutti_wrap(err, status, "option '--budget'");
    if (status < 0)
        return status;
    q->ask.goal = deadline != NULL && budget == NULL ? TUTTI_PLAN_MONEY : TUTTI_PLAN_TIME;
    if (by != NULL)
        q->ask.goal = strcmp(by, "money") == 0     ? TUTTI_PLAN_MONEY
                      : strcmp(by, "devices") == 0 ? TUTTI_PLAN_DEVICES
                                                   : TUTTI_PLAN_TIME;
    return check_limits(args, q, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int check_given(const struct tutti_args *args, struct tutti_err *err)
{
    if (tutti_args_text(args, "model") == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no model ('--model NAME': 'tutti model list')");
    if (!tutti_args_given(args, "global-batch"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "no batch ('--global-batch N': samples of a step, of all devices)");
    return 0;
}

static void fill_ask(const struct tutti_args *args, struct tutti_plan_question *q)
{
    q->ask.machines = q->machines;
    q->ask.machine_count = q->machine_count;
    q->ask.model = q->model;
    q->ask.space = &q->space;
    q->ask.prices = q->prices;
    q->ask.best_count = (uint32_t)tutti_args_number(args, "top");
    q->ask.synthetic = q->model->sample == TUTTI_SAMPLE_IMAGE;
    q->ask.exact = tutti_args_flag(args, "exact");
    q->ask.unpruned = tutti_args_flag(args, "unpruned");
    q->ask.gradient_bytes = (uint32_t)tutti_args_number(args, "gradient-bytes");
    q->ask.memory_ppm = (uint64_t)(tutti_args_real(args, "memory") * PPM_A_PERCENT + 0.5);
    q->turns = tutti_args_is(args, "what-if", "on");
}

int tutti_plan_question_read(const struct tutti_args *args, struct tutti_plan_question *q,
                             struct tutti_err *err)
{
    int status;

    *q = (struct tutti_plan_question){.ask = {.size = sizeof(q->ask)},
                                      .space = {.size = sizeof(q->space)}};
    status = check_given(args, err);
    if (status == 0)
        status = tutti_calib_option_read(args, &q->calib, err);
    if (status == 0)
        status = tutti_model_load(args, tutti_args_text(args, "model"), &q->model, err);
    if (status == 0)
        status = read_machines(args, q, err);
    if (status == 0)
        status = read_degrees(args, &q->space, err);
    if (status == 0)
        status = read_words(args, &q->space, err);
    if (status == 0)
        status = read_device(args, q, err);
    if (status == 0)
        status = read_length(args, q, err);
    if (status == 0)
        status = read_limits(args, q, err);
    if (status == 0)
        status = tutti_plan_goodput_read(args, q, err);
    if (status < 0)
        return status;
    fill_ask(args, q);
    return tutti_plan_among_read(args, q, err);
}

void tutti_plan_question_done(struct tutti_plan_question *q)
{
    for (uint32_t i = 0; i < q->machine_count; i++)
        tutti_topo_free(q->sized[i]);
    for (uint32_t i = 0; i < q->spec_count; i++)
        tutti_topo_free(q->specs[i]);
    tutti_plan_among_free(q->among);
    tutti_calib_option_done(&q->calib);
    tutti_prices_free(q->prices);
    tutti_model_free(q->model);
}
