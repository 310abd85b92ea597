/* tutti train: a training step of a model by a strategy on a machine, simulated. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "sim/train.h"
#include "tools/cli/calib.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/train/all_reduce.h"
#include "tools/train/ask.h"
#include "tools/train/cluster.h"
#include "tools/train/curve.h"
#include "tools/train/elastic.h"
#include "tools/train/found.h"
#include "tools/train/going_on.h"
#include "tools/train/ps.h"
#include "tools/train/real.h"
#include "tools/train/step.h"
#include "tools/train/strategy.h"
#include "topo/topo.h"

static const struct tutti_column columns[] = {
    {"devices", "devices", "", TUTTI_CELL_COUNT},
    {"strategy", NULL, "", TUTTI_CELL_TEXT},
    {"step_time_s", "step", "s", TUTTI_CELL_NUMBER},
    {"p10_s", NULL, "", TUTTI_CELL_NUMBER},
    {"p90_s", NULL, "", TUTTI_CELL_NUMBER},
    {"samples_per_s", "samples", "1/s", TUTTI_CELL_NUMBER},
    {"tokens_per_s", NULL, "", TUTTI_CELL_NUMBER},
    {"scaling_percent", "scaling", "%", TUTTI_CELL_NUMBER},
    {"mfu_percent", "MFU", "%", TUTTI_CELL_NUMBER},
    {"compute_s", "compute", "s", TUTTI_CELL_NUMBER},
    {"host_s", "host", "s", TUTTI_CELL_NUMBER},
    {"slowed_s", NULL, "", TUTTI_CELL_NUMBER},
    {"exposed_reduce_s", "reduce", "s", TUTTI_CELL_NUMBER},
    {"exposed_gather_s", "gather", "s", TUTTI_CELL_NUMBER},
    {"exposed_across_s", "across", "s", TUTTI_CELL_NUMBER},
    {"input_s", "input", "s", TUTTI_CELL_NUMBER},
    {"late_s", NULL, "", TUTTI_CELL_NUMBER},
    {"communication_s", NULL, "", TUTTI_CELL_NUMBER},
    {"batch_per_device", NULL, "", TUTTI_CELL_COUNT},
    {"global_batch", NULL, "", TUTTI_CELL_COUNT},
    {"steps", NULL, "", TUTTI_CELL_COUNT},
    {"hours", "total", "h", TUTTI_CELL_NUMBER},
    {"memory_GB", "memory", "GB", TUTTI_CELL_NUMBER},
    {"cost", "cost", "", TUTTI_CELL_NUMBER},
    {"energy_kWh", NULL, "", TUTTI_CELL_NUMBER},
    {"limited_by", NULL, "", TUTTI_CELL_TEXT},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

static uint64_t steps_of(const struct tutti_train_question *q, const struct tutti_train_found *f)
{
    uint64_t a_step = f->answer.samples;

    if (q->steps > 0)
        return q->steps;
    if (q->tokens > 0 && a_step > 0) {
        uint64_t tokens = a_step * q->model->sequence;

        return q->tokens / tokens + (q->tokens % tokens != 0);
    }
    if (q->epochs <= 0 || a_step == 0)
        return 0;
    return (uint64_t)ceil(q->epochs * (double)((q->examples + a_step - 1) / a_step));
}

/* Of the whole training; of no steps nothing. */
static struct tutti_cost cost_of(const struct tutti_train_question *q,
                                 const struct tutti_train_found *f, uint64_t steps)
{
    const struct tutti_accelerator *device = NULL;
    double us = (double)f->answer.step_ps / (double)TUTTI_PS_PER_US * (double)steps;

    if (tutti_accelerator_find(f->answer.accelerator, &device, NULL) < 0)
        return (struct tutti_cost){.has_money = false};
    return tutti_cost_of(q->prices, device, f->device_count,
                         us < (double)INT64_MAX ? (uint64_t)us : INT64_MAX);
}

static int add_row(struct tutti_table *table, const struct tutti_train_question *q,
                   const struct tutti_train_found *first, const struct tutti_train_found *f,
                   struct tutti_err *err)
{
    const struct tutti_train_answer *a = &f->answer;
    double before = first->answer.samples_per_s / first->device_count;
    uint64_t steps = steps_of(q, f);
    struct tutti_cost cost = cost_of(q, f, steps);
    int status = tutti_table_add(
        table, (uint64_t)f->device_count, f->strategy.name, seconds(a->step_ps),
        tutti_train_interval_s(f, f->interval.low), tutti_train_interval_s(f, f->interval.high),
        a->samples_per_s, a->tokens_per_s > 0 ? a->tokens_per_s : NAN,
        before > 0 ? 100 * a->samples_per_s / f->device_count / before : NAN, a->mfu_percent,
        seconds(a->split.compute_ps - f->host_ps), seconds(f->host_ps), seconds(a->split.slowed_ps),
        seconds(a->split.reduce_ps), seconds(a->split.gather_ps), seconds(a->split.across_ps),
        seconds(a->split.input_ps), seconds(a->split.late_ps), seconds(a->communication_ps),
        (uint64_t)f->batch, a->samples, steps,
        steps > 0 ? seconds(a->step_ps) * (double)steps / 3600 : NAN,
        (double)a->footprint.total_bytes / 1e9,
        steps > 0 && cost.has_money ? (double)cost.money / 1e6 : NAN,
        steps > 0 && cost.has_power ? (double)cost.energy_mwh / 1e6 : NAN, a->limited_by);

    return status < 0 ? tutti_nomem(err) : 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_memory(const struct tutti_train_answer *a, struct tutti_json *json)
{
    const struct tutti_footprint *f = &a->footprint;

    tutti_json_open(json, "memory", '[');
    tutti_json_open(json, NULL, '{');
    tutti_json_count(json, "stage", f->stage);
    tutti_json_number(json, "GB", (double)f->total_bytes / 1e9);
    tutti_json_number(json, "capacity_GB",
                      f->capacity_bytes > 0 ? (double)f->capacity_bytes / 1e9 : NAN);
    tutti_json_open(json, "terms", '{');
    for (uint32_t i = 0; i < TUTTI_MEMORY_TERM_COUNT; i++)
        if (f->bytes[i] > 0)
            tutti_json_number(json, tutti_memory_term_name((enum tutti_memory_term)i),
                              (double)f->bytes[i] / 1e9);
    tutti_json_close(json);
    tutti_json_close(json);
    tutti_json_close(json);
}

static int print_json(const struct tutti_train_question *q, const struct tutti_train_found *found,
                      const struct tutti_table *table, struct tutti_sink *sink,
                      struct tutti_err *err)
{
    int status = 0;
    const struct tutti_train_answer *a = &found[0].answer;
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_text(&json, "topology", q->topo->name);
    tutti_json_text(&json, "model", q->model->name);
    tutti_json_text(&json, "strategy", found[0].strategy.name);
    tutti_json_text(&json, "device", a->accelerator);
    tutti_json_text(&json, "framework", a->framework);
    tutti_json_text(&json, "precision", tutti_precision_name(q->ask.use.precision));
    tutti_json_count(&json, "parameters", a->parameters);
    tutti_json_number(&json, "step_time_s", seconds(a->step_ps));
    tutti_json_number(&json, "p10_s", tutti_train_interval_s(found, found->interval.low));
    tutti_json_number(&json, "p90_s", tutti_train_interval_s(found, found->interval.high));
    tutti_train_anchor_json(&q->anchor, &json);
    tutti_json_open(&json, "breakdown_s", '{');
    tutti_json_number(&json, "compute", seconds(a->split.compute_ps - found[0].host_ps));
    tutti_json_number(&json, "host", seconds(found[0].host_ps));
    tutti_json_number(&json, "slowed", seconds(a->split.slowed_ps));
    tutti_json_number(&json, "exposed_dp",
                      seconds(a->split.reduce_ps + a->split.gather_ps + a->split.across_ps));
    tutti_json_number(&json, "exposed_tp", 0); /* no strategy has any of these yet */
    tutti_json_number(&json, "exposed_pp", 0);
    tutti_json_number(&json, "bubble", 0);
    tutti_json_number(&json, "input", seconds(a->split.input_ps));
    tutti_json_number(&json, "late", seconds(a->split.late_ps));
    tutti_json_close(&json);
    tutti_json_number(&json, "samples_per_s", a->samples_per_s);
    tutti_json_number(&json, "tokens_per_s", a->tokens_per_s > 0 ? a->tokens_per_s : NAN);
    tutti_json_number(&json, "mfu_percent", a->mfu_percent);
    print_memory(a, &json);
    tutti_json_text(&json, "limited_by", a->limited_by);
    if (q->strategy.coordinated)
        tutti_train_servers_json(&q->servers, &found[0].servers, &json);
    tutti_train_elastic_json(q->elastic, &json);
    tutti_table_json(table, "results", &json);
    if (q->explains)
        status = tutti_train_explain_json(q->timeline, &json, err);
    tutti_json_close(&json);
    return status;
}

/* "mirrored, of 16 devices on multiworkermirrored" */
static void print_title(const struct tutti_train_question *q, const struct tutti_train_found *found,
                        uint32_t count, FILE *out)
{
    fprintf(out, "# tutti %s train: %s by %s", TUTTI_BUILD_VERSION, q->model->name,
            found[0].strategy.name);
    for (uint32_t i = 1; i < count; i++)
        if (strcmp(found[i].strategy.name, found[i - 1].strategy.name) != 0)
            fprintf(out, ", from %u devices on %s", found[i].device_count, found[i].strategy.name);
    fprintf(out, ", %s of %s, %s\n", tutti_precision_name(q->ask.use.precision),
            found[0].answer.framework, q->topo->name);
}

static void print_head(const struct tutti_train_question *q, const struct tutti_train_found *f,
                       FILE *out)
{
    const struct tutti_train_answer *a = &f->answer;
    char number[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "# model:    %s million parameters, ",
            tutti_number_text((double)a->parameters / 1e6, number));
    fprintf(out, "%s GFLOP a sample and step; ",
            tutti_number_text(a->flops / 1e9 / (double)a->samples, number));
    if (q->global_batch > 0)
        fprintf(out, "global batch %" PRIu64 "\n", q->global_batch);
    else
        fprintf(out, "batch %u a device%s\n", f->batch,
                q->ask.micro_batches > 1 ? " and micro-batch" : "");
    fprintf(out, "# device:   %s", a->accelerator);
    if (a->algorithm != NULL)
        fprintf(out, "; largest collective: %s, %s", a->algorithm,
                a->protocol == NULL ? "none" : a->protocol);
    if (q->ask.anchor_ps > 0)
        fprintf(out, "; scaled to a measured step of %s ms",
                tutti_number_text((double)q->ask.anchor_ps / 1e9, number));
    fputc('\n', out);
    tutti_train_anchor_print(&q->anchor, out);
    tutti_train_found_print_costs(q, f, out);
    if (q->ask.input_rate > 0)
        fprintf(out, "# input:    %.0f samples/s a host (%u worker%s, prefetch %u)%s\n",
                q->ask.input_rate * (q->ask.input_workers > 0 ? q->ask.input_workers : 1),
                q->ask.input_workers, q->ask.input_workers == 1 ? "" : "s", q->ask.prefetch,
                q->has_default_input ? ": TensorFlow's decode, --input-rate says yours" : "");
}

/* Memory that machines of --devices lack; they are not in the table. */
static void print_too_large(const struct tutti_train_found *f, FILE *out)
{
    if (f->device_count > 0)
        fprintf(out,
                "# left out: %u devices and fewer, which do not hold it (%.4g GB of %.4g GB a "
                "device)\n",
                f->device_count, (double)f->answer.footprint.total_bytes / 1e9,
                (double)f->answer.footprint.capacity_bytes / 1e9);
}

static void print_prices(const struct tutti_train_question *q, FILE *out)
{
    if (q->steps > 0 || q->tokens > 0 || q->epochs > 0)
        fprintf(out, "# cost:     %s, prices of %s (--prices)\n", tutti_prices_currency(q->prices),
                tutti_prices_date(q->prices));
}

/* And what doubling the host's rate would give, where the host is what a step waits for. */
static void print_limits(const struct tutti_train_question *q,
                         const struct tutti_train_found *found, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct tutti_train_answer *a = &found[i].answer;

        if (i > 0 && strcmp(a->limited_by, found[i - 1].answer.limited_by) == 0)
            continue;
        fprintf(out, "# limited by, %u device%s: %s", found[i].device_count,
                found[i].device_count == 1 ? "" : "s", a->limited_by);
        if (a->split.input_ps > 0 && q->ask.prefetch > 0) {
            tutti_ps device = a->step_ps - a->split.input_ps;
            tutti_ps half = a->step_ps / 2;

            fprintf(out, "; twice the workers: a step of %.3g s",
                    seconds(half > device ? half : device));
        }
        if (20 * found[i].host_ps > a->step_ps)
            fprintf(out, "; %.0f %% by the host, which launches more slowly than the device runs",
                    100 * (double)found[i].host_ps / (double)a->step_ps);
        fputc('\n', out);
    }
}

/* Rates are of what models are counted by: two FLOPs for each multiplication and addition. */
static void print_rates(const struct tutti_train_found *found, uint32_t count, FILE *out)
{
    bool more = false;

    for (uint32_t i = 0; i < count; i++)
        more |= found[i].answer.mfu_percent > 100;
    if (more)
        fprintf(out,
                "# MFU above 100 %%: convolutions of 3 x 3 are counted in full, and Winograd's "
                "algorithm does with fewer multiplications\n");
}

/* What was not asked, and what no strategy has here, needs no column of a page. */
static void choose_columns(const struct tutti_train_question *q,
                           const struct tutti_train_found *found, uint32_t count,
                           struct tutti_column ret[COLUMNS])
{
    bool gathers = false;
    bool goes_across = false;
    bool ends = q->steps > 0 || q->tokens > 0 || q->epochs > 0;

    memcpy(ret, columns, sizeof(columns));
    for (uint32_t i = 0; i < count; i++) {
        gathers |= found[i].answer.split.gather_ps > 0;
        goes_across |= found[i].answer.split.across_ps > 0;
    }
    for (size_t i = 0; i < COLUMNS; i++)
        if ((!ends && strcmp(ret[i].key, "hours") == 0) ||
            (!ends && strcmp(ret[i].key, "cost") == 0) ||
            (!goes_across && strcmp(ret[i].key, "exposed_across_s") == 0) ||
            (!gathers && strcmp(ret[i].key, "exposed_gather_s") == 0))
            ret[i].title = NULL;
}

static int print(const struct tutti_args *args, const struct tutti_train_question *q,
                 const struct tutti_train_found_all *all, struct tutti_sink *sink,
                 struct tutti_err *err)
{
    const struct tutti_train_found *found = all->machine;
    uint32_t count = all->count;
    struct tutti_column shown[COLUMNS];
    struct tutti_table *table = tutti_table_new(shown, COLUMNS);
    struct tutti_page page;
    int status = table == NULL ? tutti_nomem(err) : 0;

    choose_columns(q, found, count, shown);
    for (uint32_t i = 0; i < count && status == 0; i++)
        status = add_row(table, q, &found[0], &found[i], err);
    if (status == 0 && tutti_args_is(args, "format", "json")) {
        status = print_json(q, found, table, sink, err);
    } else if (status == 0 && tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else if (status == 0 && (status = tutti_page_open(&page, sink, err)) == 0) {
        print_title(q, found, count, page.out);
        print_head(q, &found[0], page.out);
        print_prices(q, page.out);
        tutti_train_slow_print(&q->slow, page.out);
        for (uint32_t i = 0; i < count && q->strategy.coordinated; i++)
            tutti_train_servers_print(&q->servers, &found[i].servers, page.out);
        tutti_train_elastic_print(q->elastic, page.out);
        tutti_table_print(table, &page);
        tutti_train_found_print_intervals(found, count, page.out);
        print_rates(found, count, page.out);
        print_limits(q, found, count, page.out);
        print_too_large(&all->too_large, page.out);
        if (q->explains)
            status = tutti_train_explain(q->timeline, &page, err);
        status = tutti_page_close(&page, status, err);
    }
    tutti_table_free(table);
    return status;
}

static int print_curve(const struct tutti_args *args, const struct tutti_train_question *q,
                       const struct tutti_train_found_all *all, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    struct tutti_train_curve_point points[TUTTI_TRAIN_MACHINES_MAX];
    char title[256];

    (void)snprintf(title, sizeof(title), "%s by %s on %s", q->model->name,
                   all->machine[0].strategy.name, q->topo->name);
    for (uint32_t i = 0; i < all->count; i++)
        points[i] =
            (struct tutti_train_curve_point){all->machine[i].device_count, &all->machine[i].answer};
    return tutti_train_curve(args, title, points, all->count, sink, err);
}

int tutti_command_train(const struct tutti_args *args, struct tutti_sink *sink,
                        struct tutti_err *err)
{
    struct tutti_train_found_all found = {.count = 0};
    struct tutti_train_timeline timeline = {.schedule = NULL};
    struct tutti_train_elastic elastic;
    struct tutti_train_question question;
    int status;

    if (tutti_args_given(args, "cluster"))
        return tutti_train_cluster(args, sink, err);
    if (tutti_args_given(args, "backend"))
        return tutti_train_is_ps(args) ? tutti_train_ps(args, sink, err)
                                       : tutti_train_real(args, sink, err);
    if (tutti_args_operand(args, 0) == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no machine to simulate it on (SPEC: 'tutti topo list'; or -B threads: "
                          "really trained here)");
    if (tutti_train_emulation_refuse(args, err) < 0)
        return -TUTTI_EINVAL;
    status = tutti_train_question_read(args, &question, err);
    question.timeline = &timeline;
    question.elastic = &elastic;
    if (status == 0)
        status = tutti_train_anchor_solve(args, &question, err);
    if (status == 0)
        status = tutti_train_ask_all(args, &question, &found, err);
    if (status == 0)
        status = tutti_train_elastic_ask(args, &question, &found.machine[0], &elastic, err);
    if (status == 0 && !tutti_train_curve_only(args))
        status = print(args, &question, &found, sink, err);
    if (status == 0)
        status = print_curve(args, &question, &found, sink, err);
    if (status == 0 && tutti_args_given(args, "trace"))
        status = tutti_train_trace(&timeline, tutti_args_text(args, "trace"), question.model->name,
                                   sink, err);
    tutti_train_timeline_done(&timeline);
    tutti_train_question_done(&question);
    return status;
}

static const struct tutti_option options[] = {
    {.letter = 'm',
     .name = "model",
     .type = TUTTI_OPTION_TEXT,
     .value = "MODEL|FILE",
     .help = "what is trained: 'tutti model list' shows all"},
    {.letter = 's',
     .name = "strategy",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "onedevice, mirrored, multiworkermirrored, parameter-server, central-storage, tpu, "
             "ddp, horovod, zero1, zero2, "
             "fsdp, hsdp, local-sgd or diloco (if not given: by what the machine is)"},
    {.name = "batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "samples of a device (if not given: 64 images, 1 sequence), or of each of the "
             "micro-batches that --accumulate says"},
    {.name = "micro-batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "pieces that --batch or --global-batch is cut into, to be accumulated"},
    {.name = "global-batch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "samples of a step, of all devices together"},
    {.name = "accumulate",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 1,
     .max = 65536,
     .help = "micro-batches whose gradients are added up before a step"},
    {.name = "precision",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "of products: fp32, tf32, fp16, bf16, fp8 or fp4 (if not given: fp32, of TPUs bf16)"},
    {.name = "framework",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "pytorch, compiled, megatron, nanotron, tensorflow or xla (if not given: the one that "
             "the strategy is of)"},
    {.name = "device",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "what the machine's devices are, where its SPEC does not say"},
    {.name = "recompute",
     .type = TUTTI_OPTION_CHOICE,
     .value = "none|selective|full",
     .standard = "none",
     .help = "activations that the backward pass computes again"},
    {.name = "attention",
     .type = TUTTI_OPTION_CHOICE,
     .value = "fused|plain",
     .standard = "fused",
     .help = "fused: FlashAttention, no matrix of scores in memory"},
    TUTTI_TRAIN_OPTION_ALL_REDUCE,
    TUTTI_TRAIN_OPTIONS_STRATEGY,
    {.name = "input-rate",
     .type = TUTTI_OPTION_REAL,
     .value = "N",
     .min = 0,
     .max = 1000000000,
     .help = "samples a second that one worker of the input pipeline makes (if not given: of "
             "images 689, TensorFlow's decode on x86); 0: as fast as need be"},
    {.name = "input-workers",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 1,
     .max = 65536,
     .help = "workers of it on each host"},
    {.name = "prefetch",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 0,
     .max = 65536,
     .help = "batches made ahead; 0: input and step follow each other"},
    {.name = "synthetic", .type = TUTTI_OPTION_FLAG, .help = "data that take no time to make"},
    {.name = "step-time",
     .type = TUTTI_OPTION_TIME,
     .value = "TIME",
     .help = "a step measured on one device at this batch: scales what devices take"},
    TUTTI_TRAIN_OPTION_ANCHOR,
    {.name = "devices",
     .type = TUTTI_OPTION_TEXT,
     .value = "LIST",
     .help = "machines like this one of so many devices: 8, 1,2,8 or 1..1024 (doubling)"},
    {.name = "steps",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "steps of the whole training: how long it takes"},
    {.name = "epochs",
     .type = TUTTI_OPTION_REAL,
     .value = "N",
     .min = 0,
     .max = 1000000,
     .help = "passes over all examples: how long they take"},
    {.name = "tokens",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 62,
     .help = "tokens of all sequences trained on: how long they take"},
    {.name = "examples",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = UINT64_C(1) << 50,
     .help = "of an epoch (if not given: of the model's data set)"},
    {.name = "optimizer",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "whose states are kept: sgd, momentum or adam (if not given: adam of sequences, "
             "momentum of others)"},
    {.name = "any-memory",
     .type = TUTTI_OPTION_FLAG,
     .help = "predict also what does not fit into a device"},
    {.name = "prices",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "what devices, electricity and buildings cost (if not given: a dated list)"},
    {.name = "exact",
     .type = TUTTI_OPTION_FLAG,
     .help = "simulate every message, of rings, without protocols"},
    TUTTI_TRAIN_OPTION_SVG,
    TUTTI_TRAIN_OPTIONS_STEP,
    TUTTI_TRAIN_OPTIONS_SERVERS,
    TUTTI_TRAIN_OPTIONS_REAL,
    TUTTI_TRAIN_OPTIONS_GOING_ON,
    TUTTI_TRAIN_OPTIONS_EMULATE,
    TUTTI_TRAIN_OPTION_CLUSTER,
    TUTTI_OPTIONS_MODEL,
    TUTTI_OPTION_NODES,
    TUTTI_OPTION_CALIB,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_train = {
    .name = "train",
    .summary = "a training step of a model by a strategy on a machine, and where its time goes",
    .operands = "[SPEC]",
    .operand_min = 0,
    .operand_max = 1,
    .text =
        "Writes the step of the strategy as a schedule (what each device computes, which "
        "collectives run when, what waits for what) and simulates it: layers by a roofline of "
        "the device and the launches of the host, collectives by what the machine's library "
        "would run, those under way at once sharing links. The columns say what a step takes "
        "and where it goes: compute, then what the device waits for: gradients being reduced, "
        "weights being gathered, the host's input pipeline. The interval (p10, p90) is of public "
        "measured steps of the framework, over what was predicted of "
        "them.\n\n" TUTTI_TRAIN_SERVERS_TEXT TUTTI_TRAIN_ELASTIC_TEXT "\n\n" TUTTI_TRAIN_REAL_TEXT
        "\n\n" TUTTI_TRAIN_CLUSTER_TEXT "\n\n" TUTTI_MODEL_TEXT,
    .examples = "tutti train dgx-1v --model resnet50 --batch 128 --synthetic\n"
                "tutti train dgx-1v --model resnet50 --devices 1..64 --epochs 90\n"
                "tutti train dgx-h100:nodes=4 --model llama3-8b --strategy fsdp --precision bf16\n"
                "tutti train dgx-1v:nodes=8 --model resnet50 --strategy parameter-server --sync 7 "
                "--late aborted --spread 0.1\n"
                "tutti train dgx-1v --model bert-base --strategy ddp --explain --trace step.json\n"
                "tutti train dgx-a100:nodes=8 --model gpt2 --strategy ddp --batch 8 --precision "
                "bf16 --anchor 62ms,devices=8,batch=4\n"
                "tutti train -B threads -g 2 --model mlp --strategy mirrored --steps 200 "
                "--evaluate end\n"
                "tutti train -B tcp --launch 2 --model cifar10-cnn --strategy multiworkermirrored\n"
                "tutti train tpu-v3:8x8 --model resnet50 --precision bf16 --batch 128",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_train,
};
