/* Constants of a framework fitted to measured training steps; see step_fit.h. */
#include "tools/calibrate/step_fit.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "sim/fit.h"
#include "tools/validate/percentiles.h"

enum { ROUNDS_MAX = 3, FOLDS = 5, FOLD_ROWS_MIN = 4, ITERATIONS_MAX = 20, USUAL_ROWS = 4 };

/* Residuals as they are taken to be at first, and the least and most that they then are. */
static const double SPREAD_FIRST = 0.05;
static const double SPREAD_MIN = 0.02;
static const double SPREAD_MAX = 0.3;

/* What fits to one framework's rows have in common. */
struct job {
    struct tutti_step_row **rows;
    size_t row_count;
    size_t *fold; /* [row]: of which it is; rows of a series go together, they tell of each other */
    double *observed; /* [row] logarithms */
    double *weight;
    double prior[TUTTI_STEP_CONSTANTS_MAX];
    double sigma[TUTTI_STEP_CONSTANTS_MAX];
    double spread;
    struct tutti_step_fit *fit;
};

/* ---- what is free ---------------------------------------------------------------------------- */

/* Whether any row would be another hundredth off if the constant were a tenth more. */
static bool matters(const struct job *job, const struct tutti_framework_constant *what)
{
    struct tutti_framework more = *job->fit->given;

    tutti_framework_set(&more, what, 1.1 * tutti_framework_get(&more, what));
    for (size_t i = 0; i < job->row_count; i++) {
        double before = tutti_step_row_predict(job->rows[i], job->fit->given);

        if (fabs(tutti_step_row_predict(job->rows[i], &more) / before - 1) > 0.01)
            return true;
    }
    return false;
}

static bool is_named(const struct tutti_framework_constant *what,
                     const struct tutti_framework_constant *const *named, size_t named_count)
{
    for (size_t i = 0; i < named_count; i++)
        if (named[i] == what)
            return true;
    return false;
}

static void choose_free(struct job *job, const struct tutti_framework_constant *const *named,
                        size_t named_count)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);
    struct tutti_step_fit *fit = job->fit;

    assert(count <= TUTTI_STEP_CONSTANTS_MAX);
    for (size_t i = 0; i < count; i++) {
        double given = tutti_framework_get(fit->given, &all[i]);

        if (named_count > 0 ? !is_named(&all[i], named, named_count) : !matters(job, &all[i]))
            continue;
        job->prior[fit->constant_count] = log(given);
        job->sigma[fit->constant_count] = all[i].sigma;
        fit->constants[fit->constant_count++] =
            (struct tutti_step_constant){&all[i], given, given, given, given, false};
    }
}

/* ---- a fit ----------------------------------------------------------------------------------- */

static struct tutti_framework framework_of(const struct tutti_step_fit *fit, const double *values)
{
    struct tutti_framework f = *fit->given;

    for (size_t i = 0; i < fit->constant_count; i++) {
        const struct tutti_framework_constant *what = fit->constants[i].what;

        tutti_framework_set(&f, what, fmin(exp(values[i]), what->most));
    }
    return f;
}

static int predict(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    const struct job *job = context;
    const struct tutti_framework f = framework_of(job->fit, parameters);

    (void)changed;
    (void)err;
    for (size_t i = 0; i < job->row_count; i++)
        times[i] = log(tutti_step_row_predict(job->rows[i], &f));
    return 0;
}

static int solve(struct job *job, struct tutti_fit **ret, struct tutti_err *err)
{
    const struct tutti_fit_problem problem = {
        .parameter_count = (uint32_t)job->fit->constant_count,
        .point_count = (uint32_t)job->row_count,
        .prior = job->prior,
        .prior_sigma = job->sigma,
        .observed = job->observed,
        .weight = job->weight,
        .scale = job->spread,
        .lost = 10 * job->spread,
        .iteration_max = ITERATIONS_MAX,
        .predict = predict,
        .context = job,
    };

    return tutti_fit_solve(&problem, ret, err);
}

/* The median of what rows are off, as the standard deviation of a normal distribution; of few rows,
 * which a fit can meet whatever they are, as if there were more of the usual. */
static double spread_of(const struct job *job, const struct tutti_fit *fit, double *off)
{
    double count = (double)job->row_count;
    double seen;

    for (size_t i = 0; i < job->row_count; i++)
        off[i] = fabs(fit->predicted[i] - job->observed[i]);
    tutti_percentiles_sort(off, job->row_count);
    seen = tutti_percentiles_median(off, job->row_count) / 0.6745;
    seen = sqrt((seen * seen * count + SPREAD_FIRST * SPREAD_FIRST * USUAL_ROWS) /
                (count + USUAL_ROWS));
    return fmin(fmax(seen, SPREAD_MIN), SPREAD_MAX);
}

static void take(const struct tutti_fit *solved, struct tutti_step_fit *fit)
{
    fit->fitted = framework_of(fit, solved->value);
    for (size_t i = 0; i < fit->constant_count; i++) {
        struct tutti_step_constant *c = &fit->constants[i];
        double width = 1.96 * solved->sigma[i];

        c->fitted = tutti_framework_get(&fit->fitted, c->what);
        c->low = c->fitted * exp(-width);
        c->high = fmax(fmin(c->fitted * exp(width), c->what->most), c->fitted);
        c->told = solved->identified[i];
    }
}

/* Solved once to see how far rows are off, then with that as what they are usually off by. */
static int solve_twice(struct job *job, struct tutti_err *err)
{
    double *off = calloc(job->row_count, sizeof(*off));
    struct tutti_fit *solved = NULL;
    int status = off == NULL ? tutti_nomem(err) : 0;

    job->spread = SPREAD_FIRST;
    for (int turn = 0; turn < 2 && status == 0; turn++) {
        status = solve(job, &solved, err);
        if (status < 0)
            break;
        job->fit->spread = spread_of(job, solved, off);
        if (turn == 0)
            job->spread = job->fit->spread;
        else
            take(solved, job->fit);
        tutti_fit_free(solved);
        solved = NULL;
    }
    free(off);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* What is exposed of collectives hangs on what devices take: it is simulated anew by what was
 * fitted, and that fitted again, until nothing moves. */
static int solve_all(struct job *job, struct tutti_step_rows *rows, struct tutti_err *err)
{
    int status = 0;

    for (int round = 0; round < ROUNDS_MAX && status == 0; round++) {
        double most = 0;

        status = solve_twice(job, err);
        for (size_t i = 0; i < job->row_count; i++)
            job->rows[i]->fitted_s = tutti_step_row_predict(job->rows[i], &job->fit->fitted);
        if (status == 0)
            status = tutti_step_rows_simulate(rows, &job->fit->fitted, err);
        for (size_t i = 0; i < job->row_count && status == 0; i++)
            most = fmax(most, fabs(job->rows[i]->simulated_s / job->rows[i]->fitted_s - 1));
        if (most < 0.002)
            break;
    }
    for (size_t i = 0; i < job->row_count; i++)
        job->rows[i]->fitted_s = job->rows[i]->simulated_s;
    return status;
}

/* Each fifth of the rows by a fit to the others. */
static int judge(struct job *job, struct tutti_err *err)
{
    int status = 0;

    if (job->row_count < FOLD_ROWS_MIN)
        return 0;
    for (size_t fold = 0; fold < FOLDS && status == 0; fold++) {
        struct tutti_fit *solved = NULL;
        struct tutti_framework f;
        size_t left = 0;

        for (size_t i = 0; i < job->row_count; i++) {
            job->weight[i] = job->fold[i] == fold ? 0 : 1;
            left += job->weight[i] > 0;
        }
        if (left == 0 || left == job->row_count)
            continue;
        status = solve(job, &solved, err);
        if (status < 0)
            break;
        f = framework_of(job->fit, solved->value);
        for (size_t i = 0; i < job->row_count; i++)
            if (!(job->weight[i] > 0))
                job->rows[i]->unseen_s = tutti_step_row_predict(job->rows[i], &f);
        tutti_fit_free(solved);
        job->fit->fold_count++;
    }
    return status;
}

/* Of a row's series if it was met before, else the next. */
static size_t fold_of(const struct job *job, const struct tutti_step_row *row, size_t *series_count)
{
    for (size_t i = 0; i < job->row_count; i++)
        if (job->rows[i]->series == row->series)
            return job->fold[i];
    return (*series_count)++ % FOLDS;
}

static void open_job(const struct tutti_step_rows *rows, struct job *job)
{
    size_t series_count = 0;

    for (size_t i = 0; i < rows->row_count; i++) {
        struct tutti_step_row *row = &rows->rows[i];

        if (row->framework != job->fit->given)
            continue;
        job->fold[job->row_count] = fold_of(job, row, &series_count);
        job->observed[job->row_count] = log(row->measured_s);
        job->weight[job->row_count] = 1;
        job->rows[job->row_count++] = row;
    }
    for (size_t i = 0; i < job->row_count && series_count < 2; i++)
        job->fold[i] = i % FOLDS;
    job->fit->row_count = job->row_count;
}

int tutti_step_fit_solve(struct tutti_step_rows *rows, const struct tutti_framework *given,
                         const struct tutti_framework_constant *const *named, size_t named_count,
                         struct tutti_step_fit *ret, struct tutti_err *err)
{
    struct job job = {
        .rows = calloc(rows->row_count + 1, sizeof(struct tutti_step_row *)),
        .fold = calloc(rows->row_count + 1, sizeof(size_t)),
        .observed = calloc(rows->row_count + 1, sizeof(double)),
        .weight = calloc(rows->row_count + 1, sizeof(double)),
        .fit = ret,
    };
    bool full = job.rows != NULL && job.fold != NULL && job.observed != NULL && job.weight != NULL;
    int status = full ? 0 : tutti_nomem(err);

    *ret = (struct tutti_step_fit){.given = given, .fitted = *given};
    if (status == 0) {
        open_job(rows, &job);
        choose_free(&job, named, named_count);
    }
    if (status == 0 && ret->constant_count > 0)
        status = solve_all(&job, rows, err);
    if (status == 0 && ret->constant_count > 0)
        status = judge(&job, err);
    free(job.rows);
    free(job.fold);
    free(job.observed);
    free(job.weight);
    return status;
}

int tutti_step_fit_keep(const struct tutti_step_fit *fit, const char *source,
                        struct tutti_calib *calib, struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; i < fit->constant_count && status == 0; i++) {
        const struct tutti_step_constant *c = &fit->constants[i];
        struct tutti_calib_value value = {.value = c->fitted, .low = c->low, .high = c->high};
        char name[TUTTI_CALIB_NAME_BYTES];

        (void)snprintf(name, sizeof(name), "framework.%s.%s", fit->given->name, c->what->name);
        (void)snprintf(value.source, sizeof(value.source), "%s", source);
        status = tutti_calib_set(calib, name, &value, err);
    }
    return status;
}
