/* tutti-fit training: constants of a framework fitted to measured training steps, and judged by
 * rows that the fit has not seen. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/device.h"
#include "sim/train.h"
#include "tools/cli/shared_options.h"
#include "tools/fit/commands.h"
#include "tools/options.h"
#include "tools/sink.h"
#include "tools/validate/percentiles.h"
#include "tools/validate/training_plan.h"
#include "tools/validate/training_run.h"

enum { ROUNDS = 40, FREE_MAX = 32, GROUP_BYTES = 128 };

/* A row whose device alone depends on the constants: what is left is simulated once. */
struct fit_row {
    struct tutti_training_plan plan;
    double measured_s;
    double other_s; /* collectives, agreement and input */
    char group[GROUP_BYTES];
};

struct fit {
    struct tutti_training_tables tables;
    struct fit_row *rows;
    size_t row_count;
    const struct tutti_framework *given;
    size_t free_offset[FREE_MAX];
    const char *free_name[FREE_MAX];
    size_t free_count;
    double weight; /* of a constant that is e times what was given, beside a row that is */
};

static double *constant(struct tutti_framework *f, size_t offset)
{
    return (double *)(void *)((char *)f + offset);
}

/* ---- what is fitted -------------------------------------------------------------------------- */

static int add_free(struct fit *fit, const char *name, struct tutti_err *err)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);
    char names[512] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                                 all[i].name);
        if (strcmp(all[i].name, name) != 0)
            continue;
        if (fit->free_count == FREE_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "more than %d constants", FREE_MAX);
        fit->free_name[fit->free_count] = all[i].name;
        fit->free_offset[fit->free_count++] = all[i].offset;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "option '--free': unknown constant '%s' (%s%s)", name,
                      tutti_nearest_hint(name, names, hint), names);
}

/* ---- a row ----------------------------------------------------------------------------------- */

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

static void name_group(const struct tutti_training_row *row, const char *columns,
                       char ret[GROUP_BYTES])
{
    size_t used = 0;

    ret[0] = '\0';
    for (const char *at = columns; *at != '\0' && used < GROUP_BYTES;) {
        size_t bytes = strcspn(at, ",");
        const struct tutti_training_field *field;
        char name[64];
        char value[TUTTI_TRAINING_VALUE_BYTES];

        (void)snprintf(name, sizeof(name), "%.*s", (int)bytes, at);
        if (tutti_training_field_find(name, &field, NULL) == 0)
            used +=
                (size_t)snprintf(ret + used, GROUP_BYTES - used, "%s%s=%.40s", used > 0 ? " " : "",
                                 name, tutti_training_value(row, field, value));
        at += bytes + (at[bytes] == ',');
    }
}

/* Rows that cannot be predicted, and those of other frameworks, are passed over. */
static int take_row(struct fit *fit, const struct tutti_training_row *row, const char *columns,
                    struct tutti_err *err)
{
    struct fit_row *one = &fit->rows[fit->row_count];
    struct tutti_train_answer answer;
    int status;

    if (!(row->measured_step_s > 0) || strcmp(row->quality, "degraded") == 0 ||
        row->problem[0] != '\0' || tutti_training_plan_open(&row->settings, &one->plan, err) < 0)
        return 0;
    if (one->plan.ask.use.framework != fit->given || one->plan.server_count > 0) {
        tutti_training_plan_done(&one->plan);
        return 0;
    }
    status = tutti_train_predict(&one->plan.ask, &answer, err);
    if (status < 0) {
        tutti_training_plan_done(&one->plan);
        return status == -TUTTI_EINVAL || status == -TUTTI_ELACK ? 0 : status;
    }
    one->measured_s = row->measured_step_s;
    if (row->by_throughput)
        one->measured_s *= one->plan.ask.micro_batches;
    one->other_s = seconds(answer.step_ps) - tutti_training_plan_device_s(&one->plan, fit->given);
    name_group(row, columns, one->group);
    fit->row_count++;
    return 0;
}

static int take_rows(struct fit *fit, const char *columns, struct tutti_err *err)
{
    size_t count = 0;
    int status = 0;

    for (size_t i = 0; i < fit->tables.table_count; i++)
        count += fit->tables.tables[i].row_count;
    fit->rows = calloc(count + 1, sizeof(*fit->rows));
    if (fit->rows == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < fit->tables.table_count; i++)
        for (size_t j = 0; j < fit->tables.tables[i].row_count && status == 0; j++)
            status = take_row(fit, &fit->tables.tables[i].rows[j], columns, err);
    if (status == 0 && fit->row_count == 0)
        status =
            tutti_fail(err, TUTTI_EINVAL, "no row of '%s' that can be predicted", fit->given->name);
    return status;
}

/* ---- the fit --------------------------------------------------------------------------------- */

static double predicted_s(const struct fit_row *row, const struct tutti_framework *f)
{
    return tutti_training_plan_device_s(&row->plan, f) + row->other_s;
}

/* Robust: beyond a tenth the absolute error. Rows of `left_out` are not looked at. */
static double cost_of(const struct fit *fit, struct tutti_framework *f, const char *left_out)
{
    static const double soft = 0.1;
    double cost = 0;

    for (size_t i = 0; i < fit->row_count; i++) {
        const struct fit_row *row = &fit->rows[i];
        double off = log(predicted_s(row, f) / row->measured_s) / soft;

        if (left_out == NULL || strcmp(left_out, row->group) != 0)
            cost += sqrt(1 + off * off) - 1;
    }
    cost /= (double)fit->row_count;
    for (size_t i = 0; i < fit->free_count; i++) {
        struct tutti_framework given = *fit->given;
        double off =
            log(*constant(f, fit->free_offset[i]) / *constant(&given, fit->free_offset[i]));

        cost += fit->weight * off * off;
    }
    return cost;
}

/* One constant after the other, in steps that grow while they help. */
static struct tutti_framework search(const struct fit *fit, const char *left_out)
{
    struct tutti_framework best = *fit->given;
    double step[FREE_MAX];
    double least = cost_of(fit, &best, left_out);

    for (size_t i = 0; i < fit->free_count; i++)
        step[i] = 0.2;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < fit->free_count; i++) {
            double *at = constant(&best, fit->free_offset[i]);
            double before = *at;
            double cost;

            *at = before * exp(step[i]);
            cost = cost_of(fit, &best, left_out);
            if (cost < least) {
                least = cost;
                step[i] *= 1.3;
            } else {
                *at = before;
                step[i] *= -0.6;
            }
        }
    }
    return best;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_errors(const struct fit *fit, const struct tutti_framework *f, const char *group,
                         const char *name, double *errors, FILE *out)
{
    size_t count = 0;

    for (size_t i = 0; i < fit->row_count; i++)
        if (group == NULL || strcmp(group, fit->rows[i].group) == 0)
            errors[count++] =
                100 * fabs(predicted_s(&fit->rows[i], f) / fit->rows[i].measured_s - 1);
    tutti_percentiles_sort(errors, count);
    fprintf(out, "%s: %zu rows, median %.2f %%, p90 %.2f %%, worst %.2f %%\n", name, count,
            tutti_percentiles_median(errors, count), errors[(count * 9 + 9) / 10 - 1],
            errors[count - 1]);
}

static bool is_first_of_group(const struct fit *fit, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(fit->rows[i].group, fit->rows[index].group) == 0)
            return false;
    return true;
}

/* Each group predicted by a fit that has not seen it. */
static void print_left_out(const struct fit *fit, double *errors, double *all, FILE *out)
{
    size_t count = 0;
    char name[GROUP_BYTES + 16];

    for (size_t i = 0; i < fit->row_count; i++) {
        const char *group = fit->rows[i].group;
        struct tutti_framework f;

        if (!is_first_of_group(fit, i))
            continue;
        f = search(fit, group);
        (void)snprintf(name, sizeof(name), "without %s", group);
        print_errors(fit, &f, group, name, errors, out);
        for (size_t j = i; j < fit->row_count; j++)
            if (strcmp(group, fit->rows[j].group) == 0)
                all[count++] =
                    100 * fabs(predicted_s(&fit->rows[j], &f) / fit->rows[j].measured_s - 1);
    }
    tutti_percentiles_sort(all, count);
    fprintf(out, "all left out: median %.2f %%, p90 %.2f %%, worst %.2f %%\n",
            tutti_percentiles_median(all, count), all[(count * 9 + 9) / 10 - 1], all[count - 1]);
}

static int print_fit(const struct fit *fit, bool leave, FILE *out, struct tutti_err *err)
{
    double *errors = calloc(2 * fit->row_count + 1, sizeof(*errors));
    struct tutti_framework best = search(fit, NULL);

    if (errors == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < fit->free_count; i++) {
        struct tutti_framework given = *fit->given;

        fprintf(out, "%s.%s: %.3g, given %.3g\n", fit->given->name, fit->free_name[i],
                *constant(&best, fit->free_offset[i]), *constant(&given, fit->free_offset[i]));
    }
    print_errors(fit, fit->given, NULL, "as given", errors, out);
    print_errors(fit, &best, NULL, "fitted", errors, out);
    if (leave)
        print_left_out(fit, errors, errors + fit->row_count, out);
    free(errors);
    return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int read_options(const struct tutti_args *args, struct fit *fit, struct tutti_err *err)
{
    const char *path;
    const char *name;
    const char *paths[1];
    int status = tutti_framework_find(tutti_args_text(args, "framework"), &fit->given, err);

    for (uint32_t i = 0; status == 0 && (name = tutti_args_word(args, "free", i)) != NULL; i++)
        status = add_free(fit, name, err);
    if (status < 0)
        return status;
    fit->weight = tutti_args_real(args, "prior");
    path = tutti_args_operand(args, 0);
    paths[0] = path;
    return tutti_training_load(paths, 1, &fit->tables, err);
}

int tutti_command_fit_training(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err)
{
    struct fit fit = {.row_count = 0};
    const char *leave = tutti_args_text(args, "leave-out");
    int status = read_options(args, &fit, err);

    if (status == 0)
        status = take_rows(&fit, leave == NULL ? "" : leave, err);
    if (status == 0)
        status = print_fit(&fit, leave != NULL, sink->out, err);
    for (size_t i = 0; i < fit.row_count; i++)
        tutti_training_plan_done(&fit.rows[i].plan);
    free(fit.rows);
    tutti_training_unload(&fit.tables);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "framework",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "deepspeed",
     .help = "whose constants are fitted, to the rows that are of it"},
    {.name = "free",
     .type = TUTTI_OPTION_LIST,
     .value = "NAME...",
     .help = "the constants that may change (sim/device.h); the others stay"},
    {.name = "prior",
     .type = TUTTI_OPTION_REAL,
     .value = "W",
     .standard = "0.05",
     .max = 1000,
     .help = "what it costs to move a constant away from what it is"},
    {.name = "leave-out",
     .type = TUTTI_OPTION_TEXT,
     .value = "COLUMN,...",
     .help = "judge by fits without the rows that have the same in these columns, in turn"},
};

const struct tutti_command tutti_fit_training = {
    .program = TUTTI_FIT_PROGRAM,
    .name = "training",
    .summary = "fit constants of a framework to measured training steps, and judge the fit",
    .operands = "FILE.csv|FOLDER",
    .operand_min = 1,
    .operand_max = 1,
    .text =
        "Takes the rows of one framework that 'tutti validate --training' can predict, and moves "
        "the constants named until the devices' part of the step fits best: robust, in "
        "logarithms, with a price for each constant that leaves what it was. Nothing is "
        "written: what is worth keeping goes to sim/train/frameworks.c by hand.",
    .examples = "tutti-fit training traces/measured/training/vtrain.csv --free passes forward_us "
                "backward_us --leave-out hidden,micro_batch",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_fit_training,
};
