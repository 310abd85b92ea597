/* tutti-fit memory: what a framework keeps, fitted to measured peaks of memory and judged by rows
 * that the fit has not seen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fit.h"
#include "sim/footprint.h"
#include "tools/fit/commands.h"
#include "tools/fit/rows.h"
#include "tools/options.h"
#include "tools/sink.h"
#include "tools/validate/training_plan.h"
#include "tools/validate/training_run.h"

/* ---- what is fitted -------------------------------------------------------------------------- */

enum { CONSTANT_COUNT = 5 };

/* Constants of struct tutti_framework_memory that formulas do not give. */
static const char *const names[CONSTANT_COUNT] = {"saved_percent", "logit_millibytes",
                                                  "logit_whole_millibytes", "workspace_MiB",
                                                  "reduced_millibytes"};
/* How far another framework's are from these, in logarithms: what is saved differs by a half, what
 * lies there from the start by a factor of two. */
static const double sigmas[CONSTANT_COUNT] = {0.3, 0.3, 1, 0.5, 1};

enum { UNKNOWN_MILLIBYTES = 1000 }; /* a byte, where the framework has none */

static void read_constants(const struct tutti_framework_memory *f, double ret[CONSTANT_COUNT])
{
    ret[0] = f->saved_percent;
    ret[1] = f->logit_millibytes;
    ret[2] = f->logit_whole_millibytes;
    ret[3] = (double)f->workspace_bytes / 0x1p20;
    ret[4] = f->reduced_millibytes;
}

static double bounded(double value, double most)
{
    return fmin(fmax(value, 1), most);
}

static void write_constants(struct tutti_framework_memory *f, const double values[CONSTANT_COUNT])
{
    f->saved_percent = (uint16_t)lround(bounded(values[0], 10000));
    f->logit_millibytes = (uint32_t)lround(bounded(values[1], 1e6));
    f->logit_whole_millibytes = (uint32_t)lround(bounded(values[2], 1e6));
    f->reduced_millibytes = (uint16_t)lround(bounded(values[4], 10000));
    f->workspace_bytes = (uint64_t)llround(bounded(values[3], 1e6) * 0x1p20);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct row {
    struct tutti_training_plan plan;
    double measured_bytes; /* NAN: no result */
    size_t group;
    bool fitted;
    bool near; /* its step is within --within of the best */
};

struct job {
    struct tutti_fit_rows rows;
    struct row *at; /* [row] */
    size_t count;
    const struct tutti_framework_memory *given;
    const struct tutti_framework_memory *from; /* where the fit begins, and what holds it */
    double *room;                              /* [3][row] */
    double scale;
};

static int open_row(struct job *job, const struct tutti_fit_row *one, struct tutti_err *err)
{
    struct row *row = &job->at[job->count];
    const struct tutti_training_row_results *results = &one->row->results;
    int status;

    if (results->memory == TUTTI_TRAINING_MEMORY_UNSTATED)
        return 0;
    status = tutti_training_plan_open(&one->row->settings, &row->plan, NULL);
    if (status == 0 && row->plan.memory.framework != job->given) {
        tutti_training_plan_done(&row->plan);
        return 0;
    }
    if (status < 0) /* cannot be understood; no memory ends all */
        return status == -TUTTI_ENOMEM ? tutti_nomem(err) : 0;
    row->measured_bytes = results->memory == TUTTI_TRAINING_MEMORY_STATED
                              ? results->memory_GB * (row->plan.gibi ? 0x1p30 : 1e9)
                              : NAN;
    row->group = one->group;
    row->near = one->near;
    row->fitted = one->fitted;
    job->count++;
    return 0;
}

static int open_rows(struct job *job, struct tutti_err *err)
{
    int status = 0;

    job->at = calloc(job->rows.row_count + 1, sizeof(*job->at));
    job->room = calloc(3 * job->rows.row_count + 1, sizeof(*job->room));
    if (job->at == NULL || job->room == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < job->rows.row_count && status == 0; i++)
        status = open_row(job, &job->rows.rows[i], err);
    if (status == 0 && job->count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "no row of '%s' that states memory (memory_GB)",
                            job->given->name);
    return status;
}

/* ---- the fit --------------------------------------------------------------------------------- */

struct said {
    double bytes;
    int fits;
};

static struct said predict_row(const struct row *row, const struct tutti_framework_memory *f)
{
    struct tutti_training_plan plan = row->plan;
    struct said said = {NAN, -1};
    uint64_t bytes;

    plan.memory.framework = f;
    if (tutti_training_plan_memory(&plan, &bytes, &said.fits, NULL) == 0)
        said.bytes = (double)bytes;
    return said;
}

static struct tutti_framework_memory framework_of(const struct job *job, const double *logs)
{
    struct tutti_framework_memory f = *job->given;
    double values[CONSTANT_COUNT];

    for (int i = 0; i < CONSTANT_COUNT; i++)
        values[i] = exp(logs[i]);
    write_constants(&f, values);
    return f;
}

static int predict(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    const struct job *job = context;
    const struct tutti_framework_memory f = framework_of(job, parameters);

    (void)changed;
    (void)err;
    for (size_t i = 0; i < job->count; i++) {
        double bytes = isnan(job->at[i].measured_bytes) ? NAN : predict_row(&job->at[i], &f).bytes;

        times[i] = isnan(bytes) ? 0 : log(bytes);
    }
    return 0;
}

/* Of the rows that ran, but those of `left_out` (SIZE_MAX: none). */
static int solve(struct job *job, size_t left_out, struct tutti_framework_memory *ret,
                 struct tutti_err *err)
{
    double *observed = job->room;
    double *weight = job->room + job->rows.row_count;
    double prior[CONSTANT_COUNT];
    struct tutti_fit *fit = NULL;
    struct tutti_fit_problem problem = {.parameter_count = CONSTANT_COUNT,
                                        .point_count = (uint32_t)job->count,
                                        .prior = prior,
                                        .prior_sigma = sigmas,
                                        .observed = observed,
                                        .weight = weight,
                                        .scale = job->scale,
                                        .predict = predict,
                                        .context = job};
    int status;

    read_constants(job->from, prior);
    for (int i = 0; i < CONSTANT_COUNT; i++)
        prior[i] = log(prior[i] > 0 ? prior[i] : UNKNOWN_MILLIBYTES);
    for (size_t i = 0; i < job->count; i++) {
        const struct row *row = &job->at[i];

        weight[i] = row->fitted && !isnan(row->measured_bytes) && row->near &&
                            row->group != left_out && !isnan(predict_row(row, job->given).bytes)
                        ? 1
                        : 0;
        observed[i] = weight[i] > 0 ? log(row->measured_bytes) : 0;
    }
    status = tutti_fit_solve(&problem, &fit, err);
    if (status < 0)
        return status;
    *ret = framework_of(job, fit->value);
    tutti_fit_free(fit);
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_constants(const struct job *job, const struct tutti_framework_memory *f,
                            FILE *out)
{
    double values[CONSTANT_COUNT];

    read_constants(f, values);
    fprintf(out, "%s:", job->given->name);
    for (int i = 0; i < CONSTANT_COUNT; i++)
        fprintf(out, " %s %.0f", names[i], values[i]);
    fprintf(out, "\n");
}

struct filter {
    size_t group; /* SIZE_MAX: all */
    bool near;    /* the best alone */
    bool unseen;  /* none that --every takes to fit to */
};

static bool is_asked(const struct row *row, const struct filter *filter)
{
    bool ran = !isnan(row->measured_bytes);

    return (filter->group == SIZE_MAX || row->group == filter->group) &&
           (!ran || !filter->near || row->near) && (!ran || !filter->unseen || !row->fitted);
}

static void print_errors(const struct job *job, const struct tutti_framework_memory *f,
                         const struct filter *filter, const char *name, FILE *out)
{
    double *errors = job->room + 2 * job->rows.row_count;
    size_t count = 0;
    size_t ran[2] = {0, 0}; /* [fits] */
    size_t not [2] = {0, 0};

    for (size_t i = 0; i < job->count; i++) {
        const struct row *row = &job->at[i];
        struct said said;

        if (!is_asked(row, filter))
            continue;
        said = predict_row(row, f);
        if (isnan(said.bytes))
            continue;
        if (isnan(row->measured_bytes)) {
            not [said.fits == 1]++;
            continue;
        }
        ran[said.fits == 1]++;
        errors[count++] = 100 * fabs(said.bytes / row->measured_bytes - 1);
    }
    fprintf(out, "%s: ", name);
    tutti_fit_print_spread(errors, count, out);
    fprintf(out, "; of %zu that ran %.1f %% fit, of %zu without a result %.1f %% are too large\n",
            ran[0] + ran[1], 100 * (double)ran[1] / fmax((double)(ran[0] + ran[1]), 1),
            not [0] + not [1], 100 * (double)not [0] / fmax((double)(not [0] + not [1]), 1));
}

static int print_left_out(struct job *job, FILE *out, struct tutti_err *err)
{
    char name[TUTTI_FIT_GROUP_BYTES + 32];

    for (size_t g = 0; g < job->rows.group_count; g++) {
        struct tutti_framework_memory f;
        int status = solve(job, g, &f, err);

        if (status < 0)
            return status;
        print_constants(job, &f, out);
        (void)snprintf(name, sizeof(name), "left out %s", job->rows.groups[g]);
        print_errors(job, &f, &(struct filter){g, true, false}, name, out);
        (void)snprintf(name, sizeof(name), "left out %s, all rows", job->rows.groups[g]);
        print_errors(job, &f, &(struct filter){g, false, false}, name, out);
    }
    return 0;
}

static int print_fit(struct job *job, bool every, bool leave, FILE *out, struct tutti_err *err)
{
    const struct filter near = {SIZE_MAX, true, false};
    const struct filter all = {SIZE_MAX, false, false};
    const struct filter unseen = {SIZE_MAX, false, true};
    struct tutti_framework_memory f;
    int status = solve(job, SIZE_MAX, &f, err);

    if (status < 0)
        return status;
    print_errors(job, job->given, &near, "as given", out);
    print_errors(job, job->given, &all, "as given, all rows", out);
    print_constants(job, &f, out);
    print_errors(job, &f, &near, "fitted", out);
    print_errors(job, &f, &all, "fitted, all rows", out);
    if (every)
        print_errors(job, &f, &unseen, "those not fitted", out);
    return leave ? print_left_out(job, out, err) : 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

int tutti_command_fit_memory(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    struct job job = {.scale = 0.1};
    const char *leave = tutti_args_text(args, "leave-out");
    const char *from = tutti_args_text(args, "from");
    int status = tutti_memory_framework_find(tutti_args_text(args, "framework"), &job.given, err);

    job.from = job.given;
    if (status == 0 && from != NULL)
        status = tutti_memory_framework_find(from, &job.from, err);
    if (status == 0)
        status = tutti_fit_rows_open(args, &job.rows, err);
    if (status == 0)
        status = open_rows(&job, err);
    if (status == 0)
        status = print_fit(&job, tutti_args_given(args, "every"), leave != NULL, sink->out, err);
    for (size_t i = 0; i < job.count; i++)
        tutti_training_plan_done(&job.at[i].plan);
    free(job.at);
    free(job.room);
    tutti_fit_rows_close(&job.rows);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "framework",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "nanotron",
     .help = "whose constants are fitted, to the rows that are of it"},
    {.name = "from",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help =
         "the framework whose constants the fit begins with and is held by; else its own, which "
         "may know these rows"},
    TUTTI_FIT_ROW_OPTIONS,
};

const struct tutti_command tutti_fit_memory = {
    .program = TUTTI_FIT_PROGRAM,
    .name = "memory",
    .summary = "fit what a framework keeps to measured peaks of memory, and judge the fit",
    .operands = "FILE.csv|FOLDER...",
    .operand_min = 1,
    .operand_max = TUTTI_FIT_FILES_MAX,
    .text = "Takes the rows of one framework that state their memory, and moves five constants "
            "(what layers save, logits, gradients that replicas reduce, what is there from the "
            "start) until they fit best: robust, "
            "in logarithms, beside what was given. Rows without a result are held against what is "
            "predicted not to fit. Nothing is written: what is worth keeping goes to "
            "sim/footprint/frameworks.c by hand.",
    .examples = "tutti-fit memory traces/measured/training/ultrascale.csv --from megatron "
                "--within 2 --leave-out hidden",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_fit_memory,
};
