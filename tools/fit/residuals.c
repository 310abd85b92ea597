/* tutti-fit residuals: how far measured training steps are from predicted ones, class by class, for
 * the intervals of `tutti train`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/device.h"
#include "tools/cli/shared_options.h"
#include "tools/fit/commands.h"
#include "tools/options.h"
#include "tools/sink.h"
#include "tools/train/interval.h"
#include "tools/validate/percentiles.h"
#include "tools/validate/training_plan.h"
#include "tools/validate/training_predict.h"
#include "tools/validate/training_run.h"

enum { ROWS_MIN = 10, FILES_MAX = 64 };

/* A row that was predicted. */
struct residual {
    struct tutti_interval of; /* framework, precision, hosts, anchor, fitted */
    const char *family;
    double ratio;   /* measured / predicted */
    bool data_only; /* data parallelism alone, which may be priced as divided models are */
};

struct residuals {
    struct residual *rows;
    size_t count;
    double *room;
};

static const char any[] = "any";

/* Whether a row is of a class, which may be of any framework or precision. Rows of data parallelism
 * alone are of undivided models, as such questions are, whatever prices them. */
static bool is_of(const struct residual *r, const struct tutti_interval *class)
{
    return (strcmp(class->framework, any) == 0 || strcmp(class->framework, r->of.framework) == 0) &&
           (strcmp(class->precision, any) == 0 || strcmp(class->precision, r->of.precision) == 0) &&
           class->several_hosts == r->of.several_hosts && class->anchored == r->of.anchored &&
           (class->divided == r->of.divided || (!class->divided && r->data_only));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool divides(const struct tutti_training_row_settings *s)
{
    return s->tp > 1 || s->pp > 1 || s->cp > 1 || s->ep > 1;
}

static void take(const struct tutti_training_case *one, bool anchored, struct residuals *all)
{
    const struct tutti_training_prediction *p = &one->prediction;
    struct residual *r = &all->rows[all->count];
    bool own = one->anchored_by != NULL && one->anchored_by->series == one->series;

    if (!one->predicted || one->anchor || !(one->row->measured_step_s > 0) ||
        strcmp(one->row->quality, "degraded") == 0 || own != anchored)
        return;
    *r = (struct residual){.family = one->row->family,
                           .ratio = one->row->measured_step_s / p->step_s};
    (void)snprintf(r->of.framework, sizeof(r->of.framework), "%s", p->framework);
    (void)snprintf(r->of.precision, sizeof(r->of.precision), "%s", p->half ? "half" : "full");
    r->of.several_hosts = p->several_hosts;
    r->of.anchored = anchored;
    r->of.fitted = p->fitted;
    r->of.divided = tutti_training_is_divided(&one->row->settings);
    r->data_only = !divides(&one->row->settings);
    all->count++;
}

/* All rows twice: as they are, then each series by its first row. */
static int predict_all(struct tutti_training_cases *cases, struct residuals *all,
                       struct tutti_err *err)
{
    int status = 0;

    for (int anchored = 0; anchored < 2 && status == 0; anchored++) {
        struct tutti_training_simulator *simulator = NULL;
        struct tutti_training_predictor predictor;
        struct tutti_training_anchor anchor;

        if (anchored)
            status = tutti_training_anchor_parse("each:first", &anchor, err);
        if (status == 0 && anchored)
            status = tutti_training_anchor_choose(cases, &anchor, err);
        if (status == 0)
            status = tutti_training_simulator_new(NULL, &simulator, err);
        if (status < 0)
            return status;
        predictor = tutti_training_simulate(simulator);
        status = tutti_training_predict(cases, &predictor, err);
        for (size_t i = 0; i < cases->case_count && status == 0; i++)
            take(&cases->cases[i], anchored == 1, all);
        tutti_training_simulator_free(simulator);
    }
    return status;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* The quantiles of the rows of a class, but for those of a family (NULL: none is left out). Rows
 * that constants were fitted to count where there are no others. Less than ROWS_MIN rows: none. */
static bool sum_up(struct residuals *all, struct tutti_interval *class, const char *without)
{
    class->row_count = 0;
    for (int fitted = 0; fitted < 2 && class->row_count < ROWS_MIN; fitted++) {
        class->row_count = class->family_count = 0;
        class->fitted = fitted == 1;
        for (size_t i = 0; i < all->count; i++) {
            const struct residual *r = &all->rows[i];
            bool first = without == NULL; /* families are counted of whole classes alone */

            if (!is_of(r, class) || r->of.fitted != class->fitted ||
                (without != NULL && strcmp(without, r->family) == 0))
                continue;
            for (size_t j = 0; j < i && first; j++)
                first = !is_of(&all->rows[j], class) || all->rows[j].of.fitted != class->fitted ||
                        strcmp(all->rows[j].family, r->family) != 0;
            class->family_count += first;
            all->room[class->row_count++] = r->ratio;
        }
    }
    if (class->row_count < ROWS_MIN)
        return false;
    tutti_percentiles_sort(all->room, class->row_count);
    class->low = all->room[(class->row_count - 1) / 10];
    class->high = tutti_percentiles_p90(all->room, class->row_count);
    return true;
}

static void print_class(const struct tutti_interval *c, FILE *out)
{
    fprintf(out, "%s %s %s %s %u %u %.3f %.3f%s%s\n", c->framework, c->precision,
            c->several_hosts ? "several" : "one", c->anchored ? "anchored" : "none", c->row_count,
            c->family_count, c->low, c->high, c->fitted ? " fitted" : "",
            c->divided ? " divided" : "");
}

/* Each class of frameworks and precisions that has rows, then both precisions, then all. */
static void print_classes(struct residuals *all, FILE *out)
{
    static const char *const precisions[] = {"full", "half", any};
    size_t count;
    const struct tutti_framework *known = tutti_frameworks(&count);

    for (size_t f = 0; f <= count; f++)
        for (size_t p = f == count ? 2 : 0; p < 3; p++)
            for (int k = 0; k < 8; k++) {
                struct tutti_interval class = {
                    .divided = k / 4 == 1, .several_hosts = k / 2 % 2 == 1, .anchored = k % 2 == 1};

                (void)snprintf(class.framework, sizeof(class.framework), "%s",
                               f == count ? any : known[f].name);
                (void)snprintf(class.precision, sizeof(class.precision), "%s", precisions[p]);
                if (sum_up(all, &class, NULL))
                    print_class(&class, out);
            }
}

/* How many rows lie within the interval of the other families of their class, where there are
 * enough of those. */
static void print_coverage(struct residuals *all, FILE *out)
{
    size_t judged = 0;
    size_t within = 0;

    for (size_t i = 0; i < all->count; i++) {
        const struct residual *r = &all->rows[i];
        struct tutti_interval class = r->of;

        if (r->of.fitted || !sum_up(all, &class, r->family))
            continue;
        judged++;
        within += r->ratio >= class.low && r->ratio <= class.high;
    }
    if (judged > 0)
        fprintf(out,
                "# Of %zu rows that have rows of other families in their class %.0f %% lie between "
                "the\n# quantiles of those.\n",
                judged, 100 * (double)within / (double)judged);
}

/* ---- the command ----------------------------------------------------------------------------- */

int tutti_command_fit_residuals(const struct tutti_args *args, struct tutti_sink *sink,
                                struct tutti_err *err)
{
    const char *paths[FILES_MAX];
    size_t path_count = 0;
    struct tutti_training_tables tables = {.table_count = 0};
    struct tutti_training_cases cases = {.case_count = 0};
    struct residuals all = {.count = 0};
    int status;

    while (path_count < FILES_MAX &&
           (paths[path_count] = tutti_args_operand(args, (uint32_t)path_count)) != NULL)
        path_count++;
    status = tutti_training_load(paths, path_count, &tables, err);
    if (status == 0)
        status = tutti_training_cases_new(tables.tables, tables.table_count, &cases, err);
    if (status == 0) {
        all.rows = calloc(2 * cases.case_count + 1, sizeof(*all.rows));
        all.room = calloc(2 * cases.case_count + 1, sizeof(*all.room));
        status = all.rows == NULL || all.room == NULL ? tutti_nomem(err) : 0;
    }
    if (status == 0)
        status = predict_all(&cases, &all, err);
    if (status == 0) {
        fprintf(sink->out, "# Measured training steps over predicted ones: a tenth of the rows is "
                           "below P10, a tenth above P90.\n"
                           "# FRAMEWORK PRECISION HOSTS ANCHOR ROWS FAMILIES P10 P90 [fitted: "
                           "constants were fitted to them] [divided: models, among devices]\n"
                           "# Written by 'tutti-fit residuals traces/measured/training'.\n");
        print_coverage(&all, sink->out);
        print_classes(&all, sink->out);
    }
    free(all.rows);
    free(all.room);
    tutti_training_cases_done(&cases);
    tutti_training_unload(&tables);
    return status;
}

const struct tutti_command tutti_fit_residuals = {
    .program = TUTTI_FIT_PROGRAM,
    .name = "residuals",
    .summary = "how far measured training steps are from predicted ones, for intervals",
    .operands = "[FILE.csv|FOLDER...]",
    .operand_max = FILES_MAX,
    .text =
        "Predicts all rows of the tables twice, from their settings alone and by the first row "
        "of each series, and prints what is measured over what is predicted in a tenth and in "
        "nine tenths of the rows of a class: by framework, precision, whether on several hosts, "
        "and whether the model is divided; data parallelism alone counts as undivided too. 'tutti "
        "train' makes its p10 and p90 of that file (traces/measured/training/residuals.txt).",
    .examples = "tutti-fit residuals traces/measured/training",
    .run = tutti_command_fit_residuals,
};
