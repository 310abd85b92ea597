/* Prints the errors by family, and the rows; see training.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/sink.h"
#include "tools/validate/training.h"

static bool is_family(const struct tutti_training_cases *cases, size_t i)
{
    return cases->cases[i].family == i;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct tutti_column step_columns[] = {
    {"family", "family", "", TUTTI_CELL_TEXT},
    {"measured", "rows", "good", TUTTI_CELL_COUNT},
    {"predicted", "pred.", "", TUTTI_CELL_COUNT},
    {"median_abs_percent", "median", "%", TUTTI_CELL_NUMBER},
    {"mean_abs_percent", "mean", "%", TUTTI_CELL_NUMBER},
    {"p90_abs_percent", "p90", "%", TUTTI_CELL_NUMBER},
    {"worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"null_median_abs_percent", "null", "%", TUTTI_CELL_NUMBER},
    {"null_p90_abs_percent", "its p90", "%", TUTTI_CELL_NUMBER},
    {"null_worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
};

static const struct tutti_column memory_columns[] = {
    {"family", "family", "", TUTTI_CELL_TEXT},
    {"memory", "memory", "rows", TUTTI_CELL_COUNT},
    {"memory_median_abs_percent", "median", "%", TUTTI_CELL_NUMBER},
    {"memory_p90_abs_percent", "p90", "%", TUTTI_CELL_NUMBER},
    {"memory_worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"ran", "ran", "rows", TUTTI_CELL_COUNT},
    {"ran_fits", "of these", "fit", TUTTI_CELL_COUNT},
    {"out_of_memory", "OOM", "rows", TUTTI_CELL_COUNT},
    {"out_of_memory_refused", "of these", "do not fit", TUTTI_CELL_COUNT},
};

static const struct tutti_column beyond_columns[] = {
    {"family", "family", "", TUTTI_CELL_TEXT},
    {"rows", "rows", "", TUTTI_CELL_COUNT},
    {"median_abs_percent", "median", "%", TUTTI_CELL_NUMBER},
    {"worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"null_median_abs_percent", "no change", "%", TUTTI_CELL_NUMBER},
    {"null_worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"ring_median_abs_percent", "flat ring", "%", TUTTI_CELL_NUMBER},
    {"ring_worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"increment_median_abs_percent", "increment", "%", TUTTI_CELL_NUMBER},
    {"ring_increment_median_abs_percent", "of the ring", "%", TUTTI_CELL_NUMBER},
};

static int add_beyond(struct tutti_table *table, const char *name,
                      const struct tutti_training_beyond *b)
{
    if (b->ring.count == 0)
        return 0;
    return tutti_table_add(table, name, (uint64_t)b->ring.count, b->step.median_abs_percent,
                           b->step.worst_abs_percent, b->null.median_abs_percent,
                           b->null.worst_abs_percent, b->ring.median_abs_percent,
                           b->ring.worst_abs_percent, b->increment.median_abs_percent,
                           b->ring_increment.median_abs_percent);
}

static int add_steps(struct tutti_table *table, const char *name,
                     const struct tutti_training_errors *errors)
{
    if (errors->measured_count == 0)
        return 0;
    return tutti_table_add(table, name, (uint64_t)errors->measured_count,
                           (uint64_t)errors->predicted_count, errors->step.median_abs_percent,
                           errors->step.mean_abs_percent, errors->step.p90_abs_percent,
                           errors->step.worst_abs_percent, errors->null.median_abs_percent,
                           errors->null.p90_abs_percent, errors->null.worst_abs_percent);
}

static int add_memory(struct tutti_table *table, const char *name,
                      const struct tutti_training_errors *errors)
{
    if (errors->memory.count + errors->out_count == 0 &&
        errors->ran_fits_count == errors->ran_count)
        return 0;
    return tutti_table_add(table, name, (uint64_t)errors->memory.count,
                           errors->memory.median_abs_percent, errors->memory.p90_abs_percent,
                           errors->memory.worst_abs_percent, (uint64_t)errors->ran_count,
                           (uint64_t)errors->ran_fits_count, (uint64_t)errors->out_count,
                           (uint64_t)errors->out_refused_count);
}

/* Which rows are known beforehand. */
static int print_known(const struct tutti_training_cases *cases, const struct tutti_page *page,
                       struct tutti_err *err)
{
    struct tutti_training_errors errors;
    int status = tutti_training_errors(cases, SIZE_MAX, &errors, err);

    if (status < 0)
        return status;
    if (errors.degraded_count > 0)
        fprintf(page->out,
                "# left out, as their source distrusts them or contradicts itself: %zu\n",
                errors.degraded_count);
    if (errors.anchor_count > 0)
        fprintf(page->out, "# taken as measured, and in no error: %zu (anchor)\n",
                errors.anchor_count);
    if (errors.fitted_count > 0)
        fprintf(page->out, "# the constants in use were fitted to %zu of these (fitted)\n",
                errors.fitted_count);
    return 0;
}

/* Fills the tables: a row a family, then all together where there are several. */
static int fill(const struct tutti_training_cases *cases, struct tutti_table *steps,
                struct tutti_table *memory, struct tutti_table *beyond, struct tutti_err *err)
{
    size_t family_count = 0;
    int status = 0;

    for (size_t i = 0; i <= cases->case_count && status == 0; i++) {
        bool all = i == cases->case_count;
        const char *name = all ? "all" : cases->cases[i].row->family;
        struct tutti_training_errors errors;
        struct tutti_training_beyond rows;

        if (all ? family_count < 2 : !is_family(cases, i))
            continue;
        family_count++;
        status = tutti_training_errors(cases, all ? SIZE_MAX : i, &errors, err);
        if (status == 0)
            status = tutti_training_beyond(cases, all ? SIZE_MAX : i, &rows, err);
        if (status == 0 &&
            (add_steps(steps, name, &errors) < 0 || add_memory(memory, name, &errors) < 0 ||
             add_beyond(beyond, name, &rows) < 0))
            status = tutti_nomem(err);
    }
    return status;
}

/* ---- reasons --------------------------------------------------------------------------------- */

struct reason {
    const char *why;
    size_t count;
};

static int by_why(const void *left, const void *right)
{
    return strcmp(((const struct reason *)left)->why, ((const struct reason *)right)->why);
}

static int by_count(const void *left, const void *right)
{
    const struct reason *a = left;
    const struct reason *b = right;
    int order = (a->count < b->count) - (a->count > b->count);

    return order != 0 ? order : strcmp(a->why, b->why);
}

int tutti_training_print_reasons(const char *const *whys, size_t why_count,
                                 const struct tutti_page *page, struct tutti_err *err)
{
    struct reason *reasons = calloc(why_count + 1, sizeof(*reasons));
    size_t shown_max = page->verbose ? SIZE_MAX : 6;
    size_t count = 0;
    size_t last = 0;

    if (reasons == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < why_count; i++)
        reasons[i] = (struct reason){whys[i], 1};
    qsort(reasons, why_count, sizeof(*reasons), by_why);
    for (size_t i = 0; i < why_count; i++) {
        if (i > 0 && strcmp(reasons[last].why, reasons[i].why) == 0) {
            reasons[last].count++;
        } else {
            last = count++;
            reasons[last] = reasons[i];
        }
    }
    qsort(reasons, count, sizeof(*reasons), by_count);
    for (size_t i = 0; i < count && i < shown_max; i++)
        fprintf(page->out, "# not predicted: %zu: %s\n", reasons[i].count, reasons[i].why);
    if (count > shown_max)
        fprintf(page->out, "# and for %zu more reasons (-v)\n", count - shown_max);
    free(reasons);
    return 0;
}

static int print_reasons(const struct tutti_training_cases *cases, const struct tutti_page *page,
                         struct tutti_err *err)
{
    const char **whys = calloc(cases->case_count + 1, sizeof(*whys));
    size_t count = 0;
    int status;

    if (whys == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < cases->case_count; i++)
        if (cases->cases[i].why[0] != '\0')
            whys[count++] = cases->cases[i].why;
    status = tutti_training_print_reasons(whys, count, page, err);
    free(whys);
    return status;
}

int tutti_training_print(const struct tutti_training_cases *cases, const struct tutti_page *page,
                         struct tutti_err *err)
{
    struct tutti_table *steps =
        tutti_table_new(step_columns, sizeof(step_columns) / sizeof(step_columns[0]));
    struct tutti_table *memory =
        tutti_table_new(memory_columns, sizeof(memory_columns) / sizeof(memory_columns[0]));
    struct tutti_table *beyond =
        tutti_table_new(beyond_columns, sizeof(beyond_columns) / sizeof(beyond_columns[0]));
    int status = steps == NULL || memory == NULL || beyond == NULL
                     ? tutti_nomem(err)
                     : fill(cases, steps, memory, beyond, err);

    if (status == 0) {
        if (tutti_table_rows(steps) > 0)
            tutti_table_print(steps, page);
        if (tutti_table_rows(memory) > 0)
            tutti_table_print(memory, page);
        if (tutti_table_rows(beyond) > 0)
            fprintf(page->out, "# on several hosts, by an anchor of the series: predicted; as the "
                               "anchor (no change); with a flat ring\n"
                               "# increment: of what a row takes more than the anchor\n");
        if (tutti_table_rows(beyond) > 0)
            tutti_table_print(beyond, page);
        status = print_known(cases, page, err);
    }
    if (status == 0)
        status = print_reasons(cases, page, err);
    tutti_table_free(steps);
    tutti_table_free(memory);
    tutti_table_free(beyond);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Why a row says less than others: it is not predicted, or there is nothing to hold it against. */
static const char *why_of(const struct tutti_training_case *one)
{
    return one->why[0] != '\0' ? one->why : one->row->why;
}

static double predicted_step_s(const struct tutti_training_case *one)
{
    return one->predicted ? one->prediction.step_s : NAN;
}

static double predicted_memory_GB(const struct tutti_training_case *one)
{
    return one->predicted ? one->prediction.memory_GB : NAN;
}

static void row_json(const struct tutti_training_case *one, struct tutti_json *json)
{
    const struct tutti_training_row *row = one->row;
    const char *why = why_of(one);

    tutti_json_open(json, NULL, '{');
    tutti_json_text(json, "file", row->file);
    tutti_json_count(json, "line", row->line);
    tutti_json_text(json, "family", row->family);
    tutti_json_number(json, "measured_step_s", row->measured_step_s);
    tutti_json_number(json, "predicted_step_s", predicted_step_s(one));
    tutti_json_number(json, "null_step_s", one->null_step_s);
    tutti_json_number(json, "predicted_memory_GB", predicted_memory_GB(one));
    if (one->predicted && one->prediction.fits >= 0)
        tutti_json_bool(json, "fits", one->prediction.fits == 1);
    else
        tutti_json_text(json, "fits", NULL);
    tutti_json_bool(json, "anchor", one->anchor);
    tutti_json_text(json, "why", why[0] == '\0' ? NULL : why);
    tutti_json_number(json, "measured_memory_GB", row->results.memory_GB);
    tutti_json_bool(json, "fitted", one->predicted && one->prediction.fitted);
    tutti_json_text(json, "quality", row->quality[0] == '\0' ? NULL : row->quality);
    tutti_json_text(json, "plan", one->predicted ? one->prediction.plan : NULL);
    if (!isnan(one->ring_step_s))
        tutti_json_number(json, "ring_step_s", one->ring_step_s);
    tutti_json_close(json);
}

static void spread_json(const char *prefix, const struct tutti_training_spread *spread,
                        struct tutti_json *json)
{
    const struct {
        const char *name;
        double value;
    } members[] = {{"median", spread->median_abs_percent},
                   {"mean", spread->mean_abs_percent},
                   {"p90", spread->p90_abs_percent},
                   {"worst", spread->worst_abs_percent}};

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        char key[64];

        snprintf(key, sizeof(key), "%s%s_abs_percent", prefix, members[i].name);
        tutti_json_number(json, key, members[i].value);
    }
}

static void errors_json(const struct tutti_training_errors *errors, struct tutti_json *json)
{
    tutti_json_count(json, "row_count", errors->row_count);
    tutti_json_count(json, "degraded_count", errors->degraded_count);
    tutti_json_count(json, "measured_count", errors->measured_count);
    tutti_json_count(json, "predicted_count", errors->predicted_count);
    tutti_json_count(json, "anchor_count", errors->anchor_count);
    tutti_json_count(json, "fitted_count", errors->fitted_count);
    spread_json("", &errors->step, json);
    spread_json("null_", &errors->null, json);
    spread_json("memory_", &errors->memory, json);
    tutti_json_count(json, "ran_count", errors->ran_count);
    tutti_json_count(json, "ran_fits_count", errors->ran_fits_count);
    tutti_json_count(json, "out_of_memory_count", errors->out_count);
    tutti_json_count(json, "out_of_memory_refused_count", errors->out_refused_count);
}

/* Nothing where no row is beyond an anchor. */
static void beyond_json(const struct tutti_training_beyond *b, struct tutti_json *json)
{
    if (b->ring.count == 0)
        return;
    tutti_json_open(json, "several_hosts", '{');
    tutti_json_count(json, "row_count", b->ring.count);
    spread_json("", &b->step, json);
    spread_json("null_", &b->null, json);
    spread_json("ring_", &b->ring, json);
    spread_json("increment_", &b->increment, json);
    spread_json("ring_increment_", &b->ring_increment, json);
    tutti_json_close(json);
}

int tutti_training_json(const struct tutti_training_cases *cases, struct tutti_json *json,
                        struct tutti_err *err)
{
    struct tutti_training_errors errors;
    struct tutti_training_beyond beyond;
    int status = 0;

    tutti_json_open(json, "rows", '[');
    for (size_t i = 0; i < cases->case_count; i++)
        row_json(&cases->cases[i], json);
    tutti_json_close(json);
    tutti_json_open(json, "families", '[');
    for (size_t i = 0; i < cases->case_count && status == 0; i++) {
        if (!is_family(cases, i))
            continue;
        status = tutti_training_errors(cases, i, &errors, err);
        if (status == 0)
            status = tutti_training_beyond(cases, i, &beyond, err);
        if (status < 0)
            continue;
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "family", cases->cases[i].row->family);
        errors_json(&errors, json);
        beyond_json(&beyond, json);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    if (status == 0)
        status = tutti_training_errors(cases, SIZE_MAX, &errors, err);
    if (status == 0)
        errors_json(&errors, json);
    return status;
}

static const struct tutti_column row_columns[] = {
    {"file", "file", "", TUTTI_CELL_TEXT},
    {"line", "line", "", TUTTI_CELL_COUNT},
    {"family", "family", "", TUTTI_CELL_TEXT},
    {"measured_step_s", "measured", "s", TUTTI_CELL_NUMBER},
    {"predicted_step_s", "predicted", "s", TUTTI_CELL_NUMBER},
    {"null_step_s", "null", "s", TUTTI_CELL_NUMBER},
    {"measured_memory_GB", "memory", "GB", TUTTI_CELL_NUMBER},
    {"predicted_memory_GB", "predicted", "GB", TUTTI_CELL_NUMBER},
    {"fits", "fits", "", TUTTI_CELL_TEXT},
    {"anchor", "anchor", "", TUTTI_CELL_BOOL},
    {"fitted", "fitted", "", TUTTI_CELL_BOOL},
    {"quality", "quality", "", TUTTI_CELL_TEXT},
    {"plan", "plan", "", TUTTI_CELL_TEXT},
    {"why", "why", "", TUTTI_CELL_TEXT},
};

static int add_row(struct tutti_table *table, const struct tutti_training_case *one)
{
    const struct tutti_training_row *row = one->row;
    const char *fits = !one->predicted || one->prediction.fits < 0 ? ""
                       : one->prediction.fits == 1                 ? "true"
                                                                   : "false";

    return tutti_table_add(table, row->file, (uint64_t)row->line, row->family, row->measured_step_s,
                           predicted_step_s(one), one->null_step_s, row->results.memory_GB,
                           predicted_memory_GB(one), fits, (int)one->anchor,
                           (int)(one->predicted && one->prediction.fitted), row->quality,
                           one->predicted ? one->prediction.plan : "", why_of(one));
}

int tutti_training_csv(const struct tutti_training_cases *cases, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    struct tutti_table *table =
        tutti_table_new(row_columns, sizeof(row_columns) / sizeof(row_columns[0]));
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (size_t i = 0; i < cases->case_count && status == 0; i++) {
        if (add_row(table, &cases->cases[i]) < 0)
            status = tutti_nomem(err);
    }
    if (status == 0)
        tutti_table_csv(table, sink->out);
    tutti_table_free(table);
    return status;
}
