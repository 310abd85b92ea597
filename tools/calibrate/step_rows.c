/* Rows of measured training steps as points of a fit; see step_rows.h. */
#include "tools/calibrate/step_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/device.h"

/* No step takes less, whatever the constants. */
static const double LEAST_S = 1e-9;

double tutti_step_row_predict(const struct tutti_step_row *row, const struct tutti_framework *f)
{
    return fmax(tutti_training_plan_device_s(&row->plan, f) + row->other_s, LEAST_S);
}

static int simulate(struct tutti_step_row *row, const struct tutti_framework *f,
                    struct tutti_err *err)
{
    int status;

    row->plan.framework = *f;
    row->plan.ask.use.framework = &row->plan.framework;
    status = tutti_training_plan_step(&row->plan, &row->simulated_s, err);
    if (status == 0)
        row->other_s = row->simulated_s - tutti_training_plan_device_s(&row->plan, f);
    return status;
}

int tutti_step_rows_simulate(struct tutti_step_rows *rows, const struct tutti_framework *f,
                             struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; i < rows->row_count && status == 0; i++)
        if (strcmp(rows->rows[i].framework->name, f->name) == 0)
            status = simulate(&rows->rows[i], f, err);
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* -TUTTI_EINVAL, -TUTTI_ELACK: it cannot be predicted, and the message says why. */
static int open_row(const struct tutti_training_case *one, struct tutti_step_row *ret,
                    struct tutti_err *err)
{
    const struct tutti_training_row *row = one->row;
    int status;

    if (row->problem[0] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "%s", row->problem);
    status = tutti_training_plan_open(&row->settings, &ret->plan, err);
    if (status < 0)
        return status;
    ret->row = row;
    ret->framework = ret->plan.ask.use.framework;
    ret->series = one->series;
    ret->unseen_s = NAN;
    ret->measured_s = row->measured_step_s;
    if (row->by_throughput)
        ret->measured_s *= ret->plan.ask.micro_batches;
    status = simulate(ret, ret->framework, err);
    ret->given_s = ret->fitted_s = ret->simulated_s;
    if (status < 0)
        tutti_training_plan_done(&ret->plan);
    return status;
}

static int take_row(struct tutti_step_rows *rows, const struct tutti_training_case *one,
                    struct tutti_err *err)
{
    struct tutti_err why = {""};
    int status;

    if (strcmp(one->row->quality, "degraded") == 0) {
        rows->degraded_count++;
        return 0;
    }
    if (!(one->row->measured_step_s > 0)) {
        rows->unmeasured_count++;
        return 0;
    }
    status = open_row(one, &rows->rows[rows->row_count], &why);
    rows->row_count += status == 0;
    if (status == -TUTTI_EINVAL || status == -TUTTI_ELACK) {
        (void)snprintf(rows->whys[rows->why_count++], TUTTI_TRAINING_WHY_BYTES, "%.*s",
                       TUTTI_TRAINING_WHY_BYTES - 1, why.text);
        return 0;
    }
    return status < 0 ? tutti_fail(err, (enum tutti_status) - status, "%s: line %u: %s",
                                   one->row->file, one->row->line, why.text)
                      : 0;
}

/* No row is left, by what the first says. */
static int refuse(const struct tutti_step_rows *rows, struct tutti_err *err)
{
    const char *why = "";

    if (rows->why_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no row that is measured and can be predicted; of the first: %s",
                          rows->whys[0]);
    for (size_t i = 0; i < rows->tables.table_count && why[0] == '\0'; i++)
        if (rows->tables.tables[i].row_count > 0)
            why = rows->tables.tables[i].rows[0].why;
    return tutti_fail(err, TUTTI_EINVAL,
                      "no row with a measured step (step_time_s, or throughput and unit)%s%s",
                      why[0] == '\0' ? "" : "; of the first: ", why);
}

static int take_rows(struct tutti_step_rows *rows, struct tutti_err *err)
{
    struct tutti_training_cases cases = {.case_count = 0};
    int status =
        tutti_training_cases_new(rows->tables.tables, rows->tables.table_count, &cases, err);

    if (status < 0)
        return status;
    rows->all_count = cases.case_count;
    rows->rows = calloc(cases.case_count + 1, sizeof(*rows->rows));
    rows->whys = calloc(cases.case_count + 1, sizeof(*rows->whys));
    if (rows->rows == NULL || rows->whys == NULL)
        status = tutti_nomem(err);
    for (size_t i = 0; i < cases.case_count && status == 0; i++)
        status = take_row(rows, &cases.cases[i], err);
    tutti_training_cases_done(&cases);
    if (status < 0 || rows->row_count > 0)
        return status;
    return refuse(rows, err);
}

int tutti_step_rows_open(const char *const *paths, size_t path_count, struct tutti_step_rows *ret,
                         struct tutti_err *err)
{
    struct tutti_step_rows rows = {.row_count = 0};
    int status = tutti_training_load(paths, path_count, &rows.tables, err);

    if (status == 0)
        status = take_rows(&rows, err);
    if (status < 0) {
        tutti_step_rows_close(&rows);
        return status;
    }
    *ret = rows;
    return 0;
}

void tutti_step_rows_close(struct tutti_step_rows *rows)
{
    for (size_t i = 0; i < rows->row_count; i++)
        tutti_training_plan_done(&rows->rows[i].plan);
    free(rows->rows);
    free(rows->whys);
    tutti_training_unload(&rows->tables);
    *rows = (struct tutti_step_rows){.row_count = 0};
}
