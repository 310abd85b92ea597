/* What a step with model parallelism prints; see parallel.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/train/curve.h"
#include "tools/train/found.h"
#include "tools/train/parallel.h"
#include "tools/train/print.h"
#include "topo/topo.h"

static const struct tutti_column columns[] = {
    {"devices", "devices", "", TUTTI_CELL_COUNT},
    {"dp", "dp", "", TUTTI_CELL_COUNT},
    {"micro_batches", NULL, "", TUTTI_CELL_COUNT},
    {"strategy", NULL, "", TUTTI_CELL_TEXT},
    {"step_time_s", "step", "s", TUTTI_CELL_NUMBER},
    {"p10_s", NULL, "", TUTTI_CELL_NUMBER},
    {"p90_s", NULL, "", TUTTI_CELL_NUMBER},
    {"samples_per_s", "samples", "1/s", TUTTI_CELL_NUMBER},
    {"tokens_per_s", "tokens", "1/s", TUTTI_CELL_WHOLE},
    {"scaling_percent", "scaling", "%", TUTTI_CELL_NUMBER},
    {"mfu_percent", "MFU", "%", TUTTI_CELL_NUMBER},
    {"compute_s", "compute", "s", TUTTI_CELL_NUMBER},
    {"host_s", "host", "s", TUTTI_CELL_NUMBER},
    {"exposed_tp_s", "tp", "s", TUTTI_CELL_NUMBER},
    {"exposed_cp_s", "cp", "s", TUTTI_CELL_NUMBER},
    {"exposed_ep_s", "ep", "s", TUTTI_CELL_NUMBER},
    {"exposed_pp_s", "pp", "s", TUTTI_CELL_NUMBER},
    {"bubble_s", "bubble", "s", TUTTI_CELL_NUMBER},
    {"exposed_dp_s", "dp", "s", TUTTI_CELL_NUMBER},
    {"input_s", "input", "s", TUTTI_CELL_NUMBER},
    {"memory_GB", "memory", "GB", TUTTI_CELL_NUMBER},
    {"global_batch", NULL, "", TUTTI_CELL_COUNT},
    {"steps", NULL, "", TUTTI_CELL_COUNT},
    {"hours", "total", "h", TUTTI_CELL_NUMBER},
    {"cost", "cost", "", TUTTI_CELL_WHOLE},
    {"energy_kWh", NULL, "", TUTTI_CELL_NUMBER},
    {"limited_by", NULL, "", TUTTI_CELL_TEXT},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* Where all is divided in every way, a page is too narrow. */
static const char *const less[] = {"scaling_percent", "memory_GB", "dp",      "exposed_pp_s",
                                   "host_s",          "hours",     "input_s", NULL};

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

/* Where a step goes, as columns and JSON have it; they add up to the step. */
struct parts {
    double compute; /* the optimizer's as well */
    double host;
    double tp;
    double cp;
    double ep;
    double pp;
    double bubble;
    double dp; /* gradients and, of divided states, weights */
    double input;
};

static struct parts parts_of(const struct tutti_parallel_answer *a)
{
    const struct tutti_parallel_split *s = &a->split;

    return (struct parts){
        .compute = seconds(s->compute_ps + s->optimizer_ps),
        .host = seconds(s->host_ps),
        .tp = seconds(s->tensor_ps),
        .cp = seconds(s->context_ps),
        .ep = seconds(s->expert_ps),
        .pp = seconds(s->pipeline_ps),
        .bubble = seconds(s->bubble_ps),
        .dp = seconds(s->data_ps + s->gather_ps),
        .input = seconds(s->input_ps),
    };
}

/* For people: what is less than a ten-thousandth of the step is nothing. */
static void round_parts(struct parts *p, double step_s)
{
    double *const values[] = {&p->compute, &p->host,   &p->tp, &p->cp,   &p->ep,
                              &p->pp,      &p->bubble, &p->dp, &p->input};

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (*values[i] < step_s / 10000)
            *values[i] = 0;
}

/* NAN where none is known. */
static double interval_s(const struct tutti_train_parallel_found *f, double share)
{
    return f->interval.row_count == 0 ? NAN : share * seconds(f->answer.step_ps);
}

static double most_memory(const struct tutti_train_parallel_found *f)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < f->cut.pipeline; i++)
        if (f->answer.footprints[i].total_bytes > most)
            most = f->answer.footprints[i].total_bytes;
    return (double)most / 1e9;
}

static int add_row(struct tutti_table *table, const struct tutti_train_parallel_question *q,
                   const struct tutti_train_parallel_found *first,
                   const struct tutti_train_parallel_found *f, bool people, struct tutti_err *err)
{
    const struct tutti_train_question *of = &q->of_train;
    const struct tutti_parallel_answer *a = &f->answer;
    struct parts p = parts_of(a);
    const double before = first->answer.samples_per_s / first->device_count;
    const uint64_t steps = tutti_train_steps(of, a->samples);
    const struct tutti_cost cost =
        tutti_train_cost(of, a->accelerator, f->device_count, a->step_ps, steps);
    int status;

    if (people)
        round_parts(&p, seconds(a->step_ps));
    status = tutti_table_add(
        table, (uint64_t)f->device_count, (uint64_t)f->cut.data, (uint64_t)f->cut.micro_batches,
        of->strategy.name, seconds(a->step_ps), interval_s(f, f->interval.low),
        interval_s(f, f->interval.high), a->samples_per_s,
        a->tokens_per_s > 0 ? a->tokens_per_s : NAN,
        before > 0 ? 100 * a->samples_per_s / f->device_count / before : NAN, a->mfu_percent,
        p.compute, p.host, p.tp, p.cp, p.ep, p.pp, p.bubble, p.dp, p.input, most_memory(f),
        a->samples, steps, steps > 0 ? seconds(a->step_ps) * (double)steps / 3600 : NAN,
        steps > 0 && cost.has_money ? (double)cost.money / 1e6 : NAN,
        steps > 0 && cost.has_power ? (double)cost.energy_mwh / 1e6 : NAN, a->limited_by);

    return status < 0 ? tutti_nomem(err) : 0;
}

/* What is not divided in some way, and what was not asked, needs no column of a page. */
static void choose_columns(const struct tutti_train_parallel_question *q,
                           const struct tutti_train_parallel_found_all *all,
                           struct tutti_column ret[COLUMNS])
{
    const struct tutti_train_question *of = &q->of_train;
    const struct tutti_parallel *cut = &all->machine[0].cut;
    const bool several = all->count > 1;
    const bool ends = of->steps > 0 || of->tokens > 0 || of->epochs > 0;
    const bool sequences = of->model->sample == TUTTI_SAMPLE_SEQUENCE;
    bool waits = false;
    bool launches = false;

    for (uint32_t i = 0; i < all->count; i++) {
        waits |= all->machine[i].answer.split.input_ps > 0;
        launches |= all->machine[i].answer.split.host_ps > 0;
    }
    const struct {
        const char *key;
        bool shown;
    } wanted[] = {{"dp", several},
                  {"samples_per_s", !sequences},
                  {"tokens_per_s", sequences},
                  {"scaling_percent", several},
                  {"host_s", launches},
                  {"exposed_tp_s", cut->tensor > 1},
                  {"exposed_cp_s", cut->context > 1},
                  {"exposed_ep_s", cut->expert > 1},
                  {"exposed_pp_s", cut->pipeline > 1},
                  {"bubble_s", cut->pipeline > 1},
                  {"input_s", waits},
                  {"memory_GB", several},
                  {"hours", ends},
                  {"cost", ends}};

    memcpy(ret, columns, sizeof(columns));
    for (size_t c = 0; c < COLUMNS; c++)
        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
            if (strcmp(ret[c].key, wanted[i].key) == 0 && !wanted[i].shown)
                ret[c].title = NULL;
}

/* ---- lines above and below ------------------------------------------------------------------- */

static void print_title(const struct tutti_train_parallel_question *q,
                        const struct tutti_train_parallel_found *f, FILE *out)
{
    const struct tutti_train_question *of = &q->of_train;
    char number[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "# tutti %s train: %s by %s, %s of %s, %s\n", TUTTI_BUILD_VERSION, of->model->name,
            of->strategy.name, tutti_precision_name(of->ask.use.precision), f->answer.framework,
            of->topo->name);
    fprintf(out, "# model:    %s billion parameters, ",
            tutti_number_text((double)f->answer.parameters / 1e9, number));
    fprintf(out, "%s TFLOP a sample and step; device %s\n",
            tutti_number_text(f->answer.flops / 1e12 / (double)f->answer.samples, number),
            f->answer.accelerator);
}

/* "tp 8 (sp) x pp 16 (1f1b) x dp 128, ep 8 in it": degrees of 1 are left out, but for dp. */
static void print_degrees(const struct tutti_parallel *cut, bool several, FILE *out)
{
    if (cut->tensor > 1)
        fprintf(out, "tp %u%s x ", cut->tensor,
                cut->sequence_parallel && cut->async_tensor ? " (sp, async)"
                : cut->sequence_parallel                    ? " (sp)"
                : cut->async_tensor                         ? " (async)"
                                                            : "");
    if (cut->context > 1)
        fprintf(out, "cp %u (%s) x ", cut->context, tutti_context_name(cut->context_kind));
    if (cut->schedule == TUTTI_PIPELINE_INTERLEAVED && cut->pipeline > 1)
        fprintf(out, "pp %u (interleaved, vp %u) x ", cut->pipeline, cut->virtual_stages);
    else if (cut->pipeline > 1)
        fprintf(out, "pp %u (%s) x ", cut->pipeline, tutti_pipeline_name(cut->schedule));
    fputs("dp", out);
    if (!several)
        fprintf(out, " %u", cut->data);
    if (cut->expert > 1)
        fprintf(out, ", ep %u in it", cut->expert);
}

static void print_cut(const struct tutti_train_parallel_question *q,
                      const struct tutti_train_parallel_found_all *all, FILE *out)
{
    const struct tutti_parallel *cut = &all->machine[0].cut;
    const bool several = all->count > 1;
    char order[TUTTI_TRAIN_ORDER_BYTES];

    fprintf(out, "# cut:      ");
    print_degrees(cut, several, out);
    if (strcmp(tutti_train_order_text(cut, order), "tp-cp-ep-dp-pp") != 0)
        fprintf(out, ", order %s", order);
    if (several && q->global_batch > 0)
        fprintf(out, "; micro-batches of ");
    else
        fprintf(out, "; %u micro-batch%s of ", cut->micro_batches,
                cut->micro_batches == 1 ? "" : "es");
    fprintf(out, "%u %s%s", cut->micro_batch, tutti_sample_name(q->of_train.model->sample),
            cut->micro_batch == 1 ? "" : "s");
    if (!several || q->global_batch > 0)
        fprintf(out, ", global batch %" PRIu64, all->machine[0].answer.samples);
    fputc('\n', out);
}

static void print_costs(const struct tutti_train_parallel_question *q,
                        const struct tutti_train_parallel_found *f, FILE *out)
{
    const struct tutti_calib_option *calib = &q->of_train.calib;

    if (calib->given)
        fprintf(out, "# costs:    %s; %zu constant%s of %s\n", tutti_calib_option_title(calib),
                f->calibrated_count, f->calibrated_count == 1 ? "" : "s", f->framework.name);
}

/* Said once for machines alike. */
static void print_intervals(const struct tutti_train_parallel_found_all *all, FILE *out)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct tutti_train_parallel_found *f = &all->machine[i];

        if (i > 0 && f->interval.row_count == f[-1].interval.row_count)
            continue;
        if (f->interval.row_count > 0)
            tutti_train_interval_print(&f->interval, f->device_count, seconds(f->answer.step_ps),
                                       out);
        else
            fprintf(out, "# interval: not known: no measured steps of this kind stand behind it\n");
    }
}

/* Whether two say the same, but for their figures. */
static bool is_same_limit(const char *a, const char *b)
{
    static const char figures[] = "0123456789.";

    for (;;) {
        a += strspn(a, figures);
        b += strspn(b, figures);
        if (*a != *b || *a == '\0')
            return *a == *b;
        a++;
        b++;
    }
}

static void print_limits(const struct tutti_train_parallel_found_all *all, FILE *out)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct tutti_train_parallel_found *f = &all->machine[i];

        if (i > 0 && is_same_limit(f->answer.limited_by, f[-1].answer.limited_by))
            continue;
        fprintf(out, "# limited by, %u device%s: %s\n", f->device_count,
                f->device_count == 1 ? "" : "s", f->answer.limited_by);
    }
    if (all->left_out > 0)
        fprintf(out, "# left out: %u devices: %s\n", all->left_out, all->why.text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_parts(const struct parts *p, struct tutti_json *json)
{
    tutti_json_open(json, "breakdown_s", '{');
    tutti_json_number(json, "compute", p->compute);
    tutti_json_number(json, "host", p->host);
    tutti_json_number(json, "exposed_dp", p->dp);
    tutti_json_number(json, "exposed_tp", p->tp);
    tutti_json_number(json, "exposed_pp", p->pp);
    tutti_json_number(json, "exposed_cp", p->cp);
    tutti_json_number(json, "exposed_ep", p->ep);
    tutti_json_number(json, "bubble", p->bubble);
    tutti_json_number(json, "input", p->input);
    tutti_json_close(json);
}

static void print_parallel(const struct tutti_parallel *cut, struct tutti_json *json)
{
    char order[TUTTI_TRAIN_ORDER_BYTES];

    tutti_json_open(json, "parallel", '{');
    tutti_json_count(json, "tp", cut->tensor);
    tutti_json_bool(json, "sp", cut->sequence_parallel);
    tutti_json_bool(json, "async_tp", cut->async_tensor);
    tutti_json_count(json, "cp", cut->context);
    tutti_json_text(json, "context",
                    cut->context > 1 ? tutti_context_name(cut->context_kind) : NULL);
    tutti_json_count(json, "ep", cut->expert);
    tutti_json_count(json, "pp", cut->pipeline);
    tutti_json_count(json, "vp", cut->virtual_stages);
    tutti_json_text(json, "pipeline",
                    cut->pipeline > 1 ? tutti_pipeline_name(cut->schedule) : NULL);
    tutti_json_count(json, "dp", cut->data);
    tutti_json_text(json, "order", tutti_train_order_text(cut, order));
    tutti_json_count(json, "micro_batch", cut->micro_batch);
    tutti_json_count(json, "micro_batches", cut->micro_batches);
    tutti_json_close(json);
}

static int print_json(const struct tutti_train_parallel_question *q,
                      const struct tutti_train_parallel_found *f, const struct tutti_table *table,
                      struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_table *stages = NULL;
    int status = 0;
    const struct tutti_train_question *of = &q->of_train;
    const struct tutti_parallel_answer *a = &f->answer;
    const struct parts parts = parts_of(a);
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_text(&json, "topology", of->topo->name);
    tutti_json_text(&json, "model", of->model->name);
    tutti_json_text(&json, "strategy", of->strategy.name);
    tutti_json_text(&json, "device", a->accelerator);
    tutti_json_text(&json, "framework", a->framework);
    tutti_json_text(&json, "precision", tutti_precision_name(of->ask.use.precision));
    tutti_json_count(&json, "parameters", a->parameters);
    print_parallel(&f->cut, &json);
    tutti_json_number(&json, "step_time_s", seconds(a->step_ps));
    tutti_json_number(&json, "p10_s", interval_s(f, f->interval.low));
    tutti_json_number(&json, "p90_s", interval_s(f, f->interval.high));
    tutti_train_anchor_json(&of->anchor, &json);
    print_parts(&parts, &json);
    tutti_json_number(&json, "samples_per_s", a->samples_per_s);
    tutti_json_number(&json, "tokens_per_s", a->tokens_per_s > 0 ? a->tokens_per_s : NAN);
    tutti_json_number(&json, "mfu_percent", a->mfu_percent);
    tutti_goodput_json(&of->goodput.question, &of->goodput.answer, &json);
    tutti_train_parallel_groups_json(&f->groups, &json);
    tutti_train_parallel_memory_json(f, &json);
    tutti_json_text(&json, "limited_by", a->limited_by);
    tutti_table_json(table, "results", &json);
    if (q->of_train.explains)
        status = tutti_train_parallel_stages(q->watch, true, &stages, err);
    if (stages != NULL)
        tutti_table_json(stages, "stages", &json);
    tutti_table_free(stages);
    tutti_json_close(&json);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int print_page(const struct tutti_train_parallel_question *q,
                      const struct tutti_train_parallel_found_all *all,
                      const struct tutti_table *table, struct tutti_page *page,
                      struct tutti_err *err)
{
    const struct tutti_train_parallel_found *first = &all->machine[0];
    const struct tutti_train_parallel_found *last = &all->machine[all->count - 1];
    int status;

    print_title(q, first, page->out);
    print_cut(q, all, page->out);
    tutti_train_parallel_groups_print(&last->groups, page->out);
    tutti_train_anchor_print(&q->of_train.anchor, page->out);
    print_costs(q, first, page->out);
    tutti_train_print_prices(&q->of_train, page->out);
    tutti_table_print(table, page);
    print_intervals(all, page->out);
    print_limits(all, page->out);
    status = tutti_train_parallel_memory(q, last, page, err);
    if (status == 0 && q->of_train.explains)
        status = tutti_train_parallel_explain(q->watch, page, err);
    if (status == 0)
        tutti_goodput_print(&q->of_train.goodput.question, &q->of_train.goodput.answer, page->out);
    return status;
}

int tutti_train_parallel_print(const struct tutti_args *args,
                               const struct tutti_train_parallel_question *q,
                               const struct tutti_train_parallel_found_all *all,
                               struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_column shown[COLUMNS];
    struct tutti_table *table;
    struct tutti_page page;
    int status;

    choose_columns(q, all, shown);
    table = tutti_table_new(shown, COLUMNS);
    status = table == NULL ? tutti_nomem(err) : 0;
    for (uint32_t i = 0; i < all->count && status == 0; i++)
        status = add_row(table, q, &all->machine[0], &all->machine[i],
                         tutti_args_is(args, "format", "table"), err);
    if (status == 0 && tutti_args_is(args, "format", "json")) {
        status = print_json(q, &all->machine[0], table, sink, err);
    } else if (status == 0 && tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else if (status == 0 && (status = tutti_page_open(&page, sink, err)) == 0) {
        tutti_table_group(table, "compute_s", "input_s", "where a step goes");
        tutti_table_less(table, less);
        status = print_page(q, all, table, &page, err);
        status = tutti_page_close(&page, status, err);
    }
    tutti_table_free(table);
    return status;
}

/* ---- bars over devices ----------------------------------------------------------------------- */

static struct tutti_train_curve_point curve_point(const struct tutti_train_parallel_found *f)
{
    const struct tutti_parallel_split *s = &f->answer.split;

    return (struct tutti_train_curve_point){.device_count = f->device_count,
                                            .step_ps = f->answer.step_ps,
                                            .samples_per_s = f->answer.samples_per_s,
                                            .part = {s->compute_ps + s->optimizer_ps, s->host_ps,
                                                     s->tensor_ps, s->context_ps, s->expert_ps,
                                                     s->pipeline_ps, s->bubble_ps,
                                                     s->data_ps + s->gather_ps, s->input_ps}};
}

int tutti_train_parallel_print_curve(const struct tutti_args *args,
                                     const struct tutti_train_parallel_question *q,
                                     const struct tutti_train_parallel_found_all *all,
                                     struct tutti_sink *sink, struct tutti_err *err)
{
    static const struct tutti_train_curve_part parts[TUTTI_TRAIN_CURVE_PARTS] = {
        {"compute", 'c'}, {"host", 'h'},   {"tp", 'T'}, {"cp", 'C'},   {"ep", 'E'},
        {"pp", 'P'},      {"bubble", '.'}, {"dp", 'D'}, {"input", 'I'}};
    struct tutti_train_curve_point points[TUTTI_TRAIN_MACHINES_MAX];
    char title[256];

    (void)snprintf(title, sizeof(title), "%s by %s on %s", q->of_train.model->name,
                   q->of_train.strategy.name, q->of_train.topo->name);
    for (uint32_t i = 0; i < all->count; i++)
        points[i] = curve_point(&all->machine[i]);
    return tutti_train_curve(args, title, parts, points, all->count, sink, err);
}
