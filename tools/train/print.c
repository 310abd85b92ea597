/* What a simulated step prints; see print.h. */
#include "tools/train/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "sim/train.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/train/curve.h"
#include "tools/train/elastic.h"
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

uint64_t tutti_train_steps(const struct tutti_train_question *q, uint64_t a_step)
{
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

struct tutti_cost tutti_train_cost(const struct tutti_train_question *q, const char *accelerator,
                                   uint32_t device_count, tutti_ps step_ps, uint64_t steps)
{
    const struct tutti_accelerator *device = NULL;
    double us = (double)step_ps / (double)TUTTI_PS_PER_US * (double)steps;

    if (tutti_accelerator_find(accelerator, &device, NULL) < 0)
        return (struct tutti_cost){.has_money = false};
    return tutti_cost_of(q->prices, device, device_count,
                         us < (double)INT64_MAX ? (uint64_t)us : INT64_MAX);
}

static int add_row(struct tutti_table *table, const struct tutti_train_question *q,
                   const struct tutti_train_found *first, const struct tutti_train_found *f,
                   struct tutti_err *err)
{
    const struct tutti_train_answer *a = &f->answer;
    double before = first->answer.samples_per_s / first->device_count;
    uint64_t steps = tutti_train_steps(q, a->samples);
    struct tutti_cost cost =
        tutti_train_cost(q, a->accelerator, f->device_count, a->step_ps, steps);
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

void tutti_train_footprint_json(const struct tutti_footprint *f, struct tutti_json *json)
{
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
    tutti_json_number(&json, "exposed_tp", 0); /* of model parallelism (parallel.h) */
    tutti_json_number(&json, "exposed_pp", 0);
    tutti_json_number(&json, "exposed_cp", 0);
    tutti_json_number(&json, "exposed_ep", 0);
    tutti_json_number(&json, "bubble", 0);
    tutti_json_number(&json, "input", seconds(a->split.input_ps));
    tutti_json_number(&json, "late", seconds(a->split.late_ps));
    tutti_json_close(&json);
    tutti_json_number(&json, "samples_per_s", a->samples_per_s);
    tutti_json_number(&json, "tokens_per_s", a->tokens_per_s > 0 ? a->tokens_per_s : NAN);
    tutti_json_number(&json, "mfu_percent", a->mfu_percent);
    tutti_json_open(&json, "memory", '[');
    tutti_json_open(&json, NULL, '{');
    tutti_train_footprint_json(&a->footprint, &json);
    tutti_json_close(&json);
    tutti_json_close(&json);
    tutti_json_text(&json, "limited_by", a->limited_by);
    if (q->strategy.coordinated)
        tutti_train_servers_json(&q->servers, &found[0].servers, &json);
    tutti_train_elastic_json(q->elastic, &json);
    tutti_goodput_json(&q->goodput.question, &q->goodput.answer, &json);
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

void tutti_train_print_prices(const struct tutti_train_question *q, FILE *out)
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

int tutti_train_print(const struct tutti_args *args, const struct tutti_train_question *q,
                      const struct tutti_train_found_all *all, struct tutti_sink *sink,
                      struct tutti_err *err)
{
    const struct tutti_train_found *found = all->machine;
    uint32_t count = all->count;
    struct tutti_column shown[COLUMNS];
    struct tutti_table *table;
    struct tutti_page page;
    int status;

    choose_columns(q, found, count, shown);
    table = tutti_table_new(shown, COLUMNS);
    status = table == NULL ? tutti_nomem(err) : 0;
    for (uint32_t i = 0; i < count && status == 0; i++)
        status = add_row(table, q, &found[0], &found[i], err);
    if (status == 0 && tutti_args_is(args, "format", "json")) {
        status = print_json(q, found, table, sink, err);
    } else if (status == 0 && tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else if (status == 0 && (status = tutti_page_open(&page, sink, err)) == 0) {
        print_title(q, found, count, page.out);
        print_head(q, &found[0], page.out);
        tutti_train_print_prices(q, page.out);
        tutti_train_slow_print(&q->slow, page.out);
        for (uint32_t i = 0; i < count && q->strategy.coordinated; i++)
            tutti_train_servers_print(&q->servers, &found[i].servers, page.out);
        tutti_train_elastic_print(q->elastic, page.out);
        tutti_table_print(table, &page);
        tutti_train_found_print_intervals(found, count, page.out);
        print_rates(found, count, page.out);
        print_limits(q, found, count, page.out);
        tutti_goodput_print(&q->goodput.question, &q->goodput.answer, page.out);
        print_too_large(&all->too_large, page.out);
        if (q->explains)
            status = tutti_train_explain(q->timeline, &page, err);
        status = tutti_page_close(&page, status, err);
    }
    tutti_table_free(table);
    return status;
}

/* What a step divides into, as bars show it. */
static struct tutti_train_curve_point curve_point(const struct tutti_train_found *f)
{
    const struct tutti_train_split *s = &f->answer.split;

    return (struct tutti_train_curve_point){.device_count = f->device_count,
                                            .step_ps = f->answer.step_ps,
                                            .samples_per_s = f->answer.samples_per_s,
                                            .part = {s->compute_ps, s->slowed_ps, s->reduce_ps,
                                                     s->gather_ps, s->across_ps, s->input_ps,
                                                     s->late_ps}};
}

int tutti_train_print_curve(const struct tutti_args *args, const struct tutti_train_question *q,
                            const struct tutti_train_found_all *all, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    static const struct tutti_train_curve_part parts[TUTTI_TRAIN_CURVE_PARTS] = {
        {"compute", 'c'},   {"slowed by collectives", 's'}, {"reduce", 'R'},
        {"gather", 'G'},    {"across groups", 'A'},         {"input", 'I'},
        {"late ranks", 'L'}};
    struct tutti_train_curve_point points[TUTTI_TRAIN_MACHINES_MAX];
    char title[256];

    (void)snprintf(title, sizeof(title), "%s by %s on %s", q->model->name,
                   all->machine[0].strategy.name, q->topo->name);
    for (uint32_t i = 0; i < all->count; i++)
        points[i] = curve_point(&all->machine[i]);
    return tutti_train_curve(args, title, parts, points, all->count, sink, err);
}
