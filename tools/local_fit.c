/* Fits the parameters of a machine to what small schedules took; see local.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/local.h"

/* The logarithm of a parameter may stray from its guess by a factor of 7 or so, and rates that few
 * times tell stay where they are. */
static const double prior_sigma = 2.0;
static const double huber_scale = 0.05;

struct job {
    struct tutti_local_points *points;
    struct tutti_local_play **plays;
    struct tutti_local local;
};

static int predict(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    struct job *job = context;
    int status = 0;

    (void)changed;
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++)
        job->local.values[p].value = exp(parameters[p]);
    for (uint32_t i = 0; status == 0 && i < job->points->count; i++) {
        tutti_ps ps = 0;

        status = tutti_local_time(job->plays[i], &job->local, &ps, err);
        times[i] = log((double)(ps > 0 ? ps : 1) / (double)TUTTI_PS_PER_US);
    }
    return status;
}

static int open_plays(struct job *job, struct tutti_err *err)
{
    int status = 0;

    job->plays = calloc(job->points->count + 1, sizeof(struct tutti_local_play *));
    if (job->plays == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; status == 0 && i < job->points->count; i++)
        status = tutti_local_play_open(job->points->points[i].schedule, job->local.processor_count,
                                       &job->plays[i], err);
    return status;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* What came out, in units for people. */
static int take(const struct tutti_fit *fit, struct job *job, struct tutti_local_fitted *ret,
                struct tutti_err *err)
{
    uint32_t count = job->points->count;
    double *errors = calloc(count + 1, sizeof(*errors));

    if (errors == NULL)
        return tutti_nomem(err);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        struct tutti_local_value *value = &job->local.values[p];

        value->value = exp(fit->value[p]);
        value->low = exp(fit->value[p] - 1.96 * fit->sigma[p]);
        value->high = exp(fit->value[p] + 1.96 * fit->sigma[p]);
        value->open = !fit->identified[p];
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_local_point *point = &job->points->points[i];

        point->fitted_us = exp(fit->predicted[i]);
        errors[i] = 100 * fabs(point->fitted_us / point->measured_us - 1);
    }
    qsort(errors, count, sizeof(*errors), compare);
    *ret = (struct tutti_local_fitted){.iteration_count = fit->iteration_count,
                                       .converged = fit->converged,
                                       .median_abs_percent = errors[count / 2],
                                       .p90_abs_percent = errors[(count - 1) * 9 / 10],
                                       .worst_abs_percent = errors[count - 1]};
    free(errors);
    return 0;
}

static int solve(struct job *job, const double *observed, const double *weight,
                 struct tutti_local_fitted *ret, struct tutti_err *err)
{
    double prior[TUTTI_LOCAL_COUNT];
    double sigma[TUTTI_LOCAL_COUNT];
    struct tutti_fit_problem problem = {
        .parameter_count = TUTTI_LOCAL_COUNT,
        .point_count = job->points->count,
        .prior = prior,
        .prior_sigma = sigma,
        .observed = observed,
        .weight = weight,
        .scale = huber_scale,
        .iteration_max = 40,
        .predict = predict,
        .context = job,
    };
    struct tutti_fit *fit = NULL;
    int status;

    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        prior[p] = log(job->local.values[p].value);
        sigma[p] = prior_sigma;
    }
    status = tutti_fit_solve(&problem, &fit, err);
    if (status == 0)
        status = take(fit, job, ret, err);
    tutti_fit_free(fit);
    return status;
}

int tutti_local_fit(struct tutti_local_points *points, struct tutti_local *local,
                    struct tutti_local_fitted *ret, struct tutti_err *err)
{
    struct job job = {.points = points, .local = *local};
    double *observed = calloc(points->count + 1, sizeof(*observed));
    double *weight = calloc(points->count + 1, sizeof(*weight));
    int status = observed == NULL || weight == NULL ? tutti_nomem(err) : open_plays(&job, err);

    for (uint32_t i = 0; status == 0 && i < points->count; i++) {
        observed[i] = log(points->points[i].measured_us);
        weight[i] = points->points[i].measured_us > 0 ? 1 : 0;
        if (weight[i] == 0)
            observed[i] = 0;
    }
    if (status == 0)
        status = solve(&job, observed, weight, ret, err);
    if (status == 0)
        *local = job.local;
    for (uint32_t i = 0; job.plays != NULL && i < points->count; i++)
        tutti_local_play_close(job.plays[i]);
    free(job.plays);
    free(observed);
    free(weight);
    return status;
}
