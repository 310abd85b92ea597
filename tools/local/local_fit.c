/* Fits the parameters of a machine to what small schedules took; see local.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/local/local.h"

/* The logarithm of a parameter may stray from its guess by a factor of 7 or so, and rates that few
 * times tell stay where they are. */
static const double prior_sigma = 2.0;
/* But two threads of one core are hardly slower together than one of them. */
static const double together_sigma = 0.4;
static const double huber_scale = 0.05;

struct job {
    struct tutti_local_points *points;
    struct tutti_local_play **plays;
    struct tutti_cuda_work **works; /* on a GPU: what the plays refer to */
    struct tutti_local local;
    enum tutti_local_parameter which[TUTTI_LOCAL_COUNT]; /* that are fitted */
    uint32_t which_count;
    double sigma; /* how far the logarithms may stray */
};

/* What hangs on where the processors lie: that something passes from one to another, and whether
 * they are one core. */
static const enum tutti_local_parameter between[] = {
    TUTTI_LOCAL_LAUNCH,    TUTTI_LOCAL_TOGETHER,  TUTTI_LOCAL_HOP,         TUTTI_LOCAL_READ_OTHER,
    TUTTI_LOCAL_READ_TWIN, TUTTI_LOCAL_READ_CAST, TUTTI_LOCAL_WRITE_OTHER, TUTTI_LOCAL_WRITE_CAST,
    TUTTI_LOCAL_SEND_NEAR, TUTTI_LOCAL_SEND_FAR,  TUTTI_LOCAL_TAKE_NEAR,   TUTTI_LOCAL_TAKE_FAR,
    TUTTI_LOCAL_CALL,      TUTTI_LOCAL_LEND,      TUTTI_LOCAL_TAKE_LENT,   TUTTI_LOCAL_TAKE_MEMORY,
};

static int predict(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    struct job *job = context;
    int status = 0;

    (void)changed;
    for (uint32_t i = 0; i < job->which_count; i++)
        job->local.values[job->which[i]].value = exp(parameters[i]);
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
    job->works = calloc(job->points->count + 1, sizeof(struct tutti_cuda_work *));
    if (job->works == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; status == 0 && i < job->points->count; i++)
        status = tutti_local_open_play(&job->local, job->points->points[i].schedule, &job->works[i],
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
    uint32_t used = 0;
    double *errors = calloc(count + 1, sizeof(*errors));

    if (errors == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < job->which_count; i++) {
        enum tutti_local_parameter which = job->which[i];
        struct tutti_local_value *value = &job->local.values[which];
        double spread = 1.96 * fit->sigma[i];

        /* Of what the times hardly tell the interval may be wider than a file can say. */
        value->value = tutti_local_within(which, exp(fit->value[i]));
        value->low = tutti_local_within(which, exp(fit->value[i] - spread));
        value->high = tutti_local_within(which, exp(fit->value[i] + spread));
        value->open = !fit->identified[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_local_point *point = &job->points->points[i];

        point->fitted_us = exp(fit->predicted[i]);
        if (!point->moved)
            errors[used++] = 100 * fabs(point->fitted_us / point->measured_us - 1);
    }
    qsort(errors, used, sizeof(*errors), compare);
    *ret = (struct tutti_local_fitted){.iteration_count = fit->iteration_count,
                                       .converged = fit->converged,
                                       .median_abs_percent = errors[used / 2],
                                       .p90_abs_percent = errors[(used - 1) * 9 / 10],
                                       .worst_abs_percent = errors[used - 1]};
    free(errors);
    return 0;
}

static int solve(struct job *job, const double *observed, const double *weight,
                 struct tutti_local_fitted *ret, struct tutti_err *err)
{
    double prior[TUTTI_LOCAL_COUNT];
    double sigma[TUTTI_LOCAL_COUNT];
    struct tutti_fit_problem problem = {
        .parameter_count = job->which_count,
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

    for (uint32_t i = 0; i < job->which_count; i++) {
        prior[i] = log(job->local.values[job->which[i]].value);
        sigma[i] = job->sigma;
        if (job->which[i] == TUTTI_LOCAL_TOGETHER && sigma[i] > together_sigma)
            sigma[i] = together_sigma;
    }
    status = tutti_fit_solve(&problem, &fit, err);
    if (status == 0)
        status = take(fit, job, ret, err);
    tutti_fit_free(fit);
    return status;
}

static int fit(struct job *job, struct tutti_local_fitted *ret, struct tutti_err *err)
{
    struct tutti_local_points *points = job->points;
    double *observed = calloc(points->count + 1, sizeof(*observed));
    double *weight = calloc(points->count + 1, sizeof(*weight));
    int status = observed == NULL || weight == NULL ? tutti_nomem(err) : open_plays(job, err);

    for (uint32_t i = 0; status == 0 && i < points->count; i++) {
        const struct tutti_local_point *point = &points->points[i];

        if (point->moved || !(point->measured_us > 0))
            continue;
        observed[i] = log(point->measured_us);
        weight[i] = 1;
    }
    if (status == 0)
        status = solve(job, observed, weight, ret, err);
    for (uint32_t i = 0; job->works != NULL && i < points->count; i++) {
        tutti_local_play_close(job->plays[i]);
        tutti_local_work_free(&job->local, job->works[i]);
    }
    free(job->plays);
    free(job->works);
    free(observed);
    free(weight);
    return status;
}

int tutti_local_fit(struct tutti_local_points *points, struct tutti_local *local,
                    struct tutti_local_fitted *ret, struct tutti_err *err)
{
    struct job job = {.points = points, .local = *local, .sigma = prior_sigma};
    int status;

    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++)
        if ((p >= TUTTI_LOCAL_BLOCK_LAUNCH) == tutti_local_has(local, TUTTI_LOCAL_BLOCK_LAUNCH))
            job.which[job.which_count++] = (enum tutti_local_parameter)p;
    status = fit(&job, ret, err);
    if (status == 0)
        *local = job.local;
    return status;
}

int tutti_local_fit_between(struct tutti_local_points *points, double sigma,
                            struct tutti_local *local, struct tutti_local_fitted *ret,
                            struct tutti_err *err)
{
    struct job job = {.points = points, .local = *local, .sigma = sigma};
    int status;

    for (size_t i = 0; i < sizeof(between) / sizeof(between[0]); i++) {
        if (tutti_local_has(local, between[i]))
            job.which[job.which_count++] = between[i];
    }
    status = fit(&job, ret, err);
    if (status == 0)
        *local = job.local;
    return status;
}
