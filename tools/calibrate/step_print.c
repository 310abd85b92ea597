/* What is printed of constants fitted to measured steps; see step_command.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/calibrate/step_command.h"
#include "tools/cli/json.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/options.h"
#include "tools/sink.h"
#include "tools/validate/percentiles.h"

/* ---- errors ---------------------------------------------------------------------------------- */

enum by { GIVEN, FITTED, UNSEEN, BY_COUNT };

static double time_of(const struct tutti_step_row *row, enum by by)
{
    return by == GIVEN ? row->given_s : by == FITTED ? row->fitted_s : row->unseen_s;
}

struct spread {
    size_t count;
    double median, p90, worst;
};

/* Of a family; NULL: of all rows. */
static struct spread spread_of(const struct tutti_step_rows *rows, const char *family, enum by by,
                               double *room)
{
    struct spread spread = {0, NAN, NAN, NAN};

    for (size_t i = 0; i < rows->row_count; i++) {
        const struct tutti_step_row *row = &rows->rows[i];
        double seconds = time_of(row, by);

        if ((family == NULL || strcmp(family, row->row->family) == 0) && !isnan(seconds))
            room[spread.count++] = 100 * fabs(seconds / row->measured_s - 1);
    }
    if (spread.count == 0)
        return spread;
    tutti_percentiles_sort(room, spread.count);
    spread.median = tutti_percentiles_median(room, spread.count);
    spread.p90 = tutti_percentiles_p90(room, spread.count);
    spread.worst = room[spread.count - 1];
    return spread;
}

/* The name of the family that begins with this row, NULL: it is met before. */
static const char *family_at(const struct tutti_step_rows *rows, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(rows->rows[i].row->family, rows->rows[index].row->family) == 0)
            return NULL;
    return rows->rows[index].row->family;
}

static const struct tutti_column error_columns[] = {
    {"family", "family", "", TUTTI_CELL_TEXT},
    {"rows", "rows", "", TUTTI_CELL_COUNT},
    {"median_abs_percent", "before", "median", TUTTI_CELL_NUMBER},
    {"p90_abs_percent", "", "p90", TUTTI_CELL_NUMBER},
    {"worst_abs_percent", "", "worst", TUTTI_CELL_NUMBER},
    {"fitted_median_abs_percent", "fitted", "median", TUTTI_CELL_NUMBER},
    {"fitted_p90_abs_percent", "", "p90", TUTTI_CELL_NUMBER},
    {"fitted_worst_abs_percent", "", "worst", TUTTI_CELL_NUMBER},
    {"unseen_median_abs_percent", "unseen", "median", TUTTI_CELL_NUMBER},
    {"unseen_p90_abs_percent", "", "p90", TUTTI_CELL_NUMBER},
};

static int add_errors(struct tutti_table *table, const struct tutti_step_rows *rows,
                      const char *family, double *room)
{
    struct spread s[BY_COUNT];

    for (int by = 0; by < BY_COUNT; by++)
        s[by] = spread_of(rows, family, (enum by)by, room);
    return tutti_table_add(table, family == NULL ? "all" : family, (uint64_t)s[GIVEN].count,
                           s[GIVEN].median, s[GIVEN].p90, s[GIVEN].worst, s[FITTED].median,
                           s[FITTED].p90, s[FITTED].worst, s[UNSEEN].median, s[UNSEEN].p90);
}

static int fill_errors(const struct tutti_step_rows *rows, struct tutti_table *table,
                       struct tutti_err *err)
{
    double *room = calloc(rows->row_count + 1, sizeof(*room));
    size_t family_count = 0;
    int status = room == NULL ? -TUTTI_ENOMEM : 0;

    for (size_t i = 0; i < rows->row_count && status == 0; i++) {
        const char *family = family_at(rows, i);

        family_count += family != NULL;
        if (family != NULL)
            status = add_errors(table, rows, family, room);
    }
    if (status == 0 && family_count > 1)
        status = add_errors(table, rows, NULL, room);
    free(room);
    return status < 0 ? tutti_nomem(err) : 0;
}

/* ---- constants ------------------------------------------------------------------------------- */

static const struct tutti_column constant_columns[] = {
    {"name", "constant", "", TUTTI_CELL_TEXT},  {"given", "before", "", TUTTI_CELL_NUMBER},
    {"value", "fitted", "", TUTTI_CELL_NUMBER}, {"low", "from", "95 %", TUTTI_CELL_NUMBER},
    {"high", "to", "95 %", TUTTI_CELL_NUMBER},  {"told", "told by the rows", "", TUTTI_CELL_BOOL},
};

static void name_of(const struct tutti_step_fit *fit, size_t index, char name[64])
{
    (void)snprintf(name, 64, "framework.%s.%s", fit->given->name, fit->constants[index].what->name);
}

static int fill_constants(const struct tutti_step_report *report, struct tutti_table *table,
                          struct tutti_err *err)
{
    for (size_t i = 0; i < report->fit_count; i++) {
        const struct tutti_step_fit *fit = &report->fits[i];

        for (size_t j = 0; j < fit->constant_count; j++) {
            const struct tutti_step_constant *c = &fit->constants[j];
            char name[64];

            name_of(fit, j, name);
            if (tutti_table_add(table, name, c->given, c->fitted, c->low, c->high, (int)c->told) <
                0)
                return tutti_nomem(err);
        }
    }
    return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* Constants are of a framework, whatever the device. */
static void print_devices(const struct tutti_step_rows *rows, FILE *out)
{
    const struct tutti_accelerator *first = rows->rows[0].plan.ask.use.accelerator;

    for (size_t i = 1; i < rows->row_count; i++) {
        const struct tutti_accelerator *other = rows->rows[i].plan.ask.use.accelerator;

        if (other == first)
            continue;
        fprintf(out, "# rows of several devices (%s, %s): a file a device fits each better\n",
                first->name, other->name);
        return;
    }
}

static int print_head(const struct tutti_step_report *report, const struct tutti_page *page,
                      struct tutti_err *err)
{
    const struct tutti_step_rows *rows = report->rows;
    const char **whys = calloc(rows->why_count + 1, sizeof(*whys));
    int status;

    if (whys == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < rows->why_count; i++)
        whys[i] = rows->whys[i];
    fprintf(page->out, "# tutti %s calibrate\n", TUTTI_BUILD_VERSION);
    fprintf(page->out, "# measured: %zu of %zu rows", rows->row_count, rows->all_count);
    if (rows->degraded_count > 0)
        fprintf(page->out, "; left out: %zu that their source distrusts", rows->degraded_count);
    if (rows->unmeasured_count > 0)
        fprintf(page->out, "; %zu without a step", rows->unmeasured_count);
    fputc('\n', page->out);
    for (size_t i = 0; i < report->fit_count; i++) {
        const struct tutti_step_fit *fit = &report->fits[i];

        fprintf(page->out, "# fit:      %s, %zu constants, %zu rows, usually %.1f %% off\n",
                fit->given->name, fit->constant_count, fit->row_count, 100 * fit->spread);
    }
    print_devices(rows, page->out);
    fprintf(page->out, "# errors in percent of what was measured; unseen: each fifth of the series "
                       "by a fit to the others\n");
    status = tutti_training_print_reasons(whys, rows->why_count, page, err);
    free(whys);
    return status;
}

static int print_page(const struct tutti_step_report *report, struct tutti_table *errors,
                      struct tutti_table *constants, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_page page;
    int status = tutti_page_open(&page, sink, err);

    if (status < 0)
        return status;
    status = print_head(report, &page, err);
    tutti_table_print(errors, &page);
    if (tutti_table_rows(constants) > 0)
        tutti_table_print(constants, &page);
    if (report->output != NULL)
        fprintf(page.out,
                "# written:  %s ('tutti train --calib', 'tutti validate --training "
                "--calib')\n",
                report->output);
    return tutti_page_close(&page, status, err);
}

static void print_json(const struct tutti_step_report *report, const struct tutti_table *errors,
                       const struct tutti_table *constants, FILE *out)
{
    struct tutti_json json = {.out = out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_count(&json, "rows", report->rows->all_count);
    tutti_json_count(&json, "fitted_to", report->rows->row_count);
    tutti_json_count(&json, "not_predicted", report->rows->why_count);
    tutti_table_json(errors, "errors", &json);
    tutti_table_json(constants, "values", &json);
    tutti_json_close(&json);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct tutti_column row_columns[] = {
    {"file", "file", "", TUTTI_CELL_TEXT},
    {"line", "line", "", TUTTI_CELL_COUNT},
    {"family", "family", "", TUTTI_CELL_TEXT},
    {"measured_step_s", "measured", "s", TUTTI_CELL_NUMBER},
    {"given_step_s", "before", "s", TUTTI_CELL_NUMBER},
    {"fitted_step_s", "fitted", "s", TUTTI_CELL_NUMBER},
    {"unseen_step_s", "unseen", "s", TUTTI_CELL_NUMBER},
};

static int print_csv(const struct tutti_step_rows *rows, FILE *out, struct tutti_err *err)
{
    struct tutti_table *table =
        tutti_table_new(row_columns, sizeof(row_columns) / sizeof(row_columns[0]));
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (size_t i = 0; i < rows->row_count && status == 0; i++) {
        const struct tutti_step_row *row = &rows->rows[i];

        if (tutti_table_add(table, row->row->file, (uint64_t)row->row->line, row->row->family,
                            row->measured_s, row->given_s, row->fitted_s, row->unseen_s) < 0)
            status = tutti_nomem(err);
    }
    if (status == 0)
        tutti_table_csv(table, out);
    tutti_table_free(table);
    return status;
}

int tutti_step_print(const struct tutti_args *args, const struct tutti_step_report *report,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_table *errors;
    struct tutti_table *constants;
    int status;

    if (tutti_args_is(args, "format", "csv"))
        return print_csv(report->rows, sink->out, err);
    errors = tutti_table_new(error_columns, sizeof(error_columns) / sizeof(error_columns[0]));
    constants =
        tutti_table_new(constant_columns, sizeof(constant_columns) / sizeof(constant_columns[0]));
    status = errors == NULL || constants == NULL ? tutti_nomem(err) : 0;
    if (status == 0)
        status = fill_errors(report->rows, errors, err);
    if (status == 0)
        status = fill_constants(report, constants, err);
    if (status == 0 && tutti_args_is(args, "format", "json"))
        print_json(report, errors, constants, sink->out);
    else if (status == 0)
        status = print_page(report, errors, constants, sink, err);
    tutti_table_free(errors);
    tutti_table_free(constants);
    return status;
}
