/* Robust damped Gauss-Newton; see sim/fit.h.
 *
 * Minimises sum_i w_i rho(r_i) + sum_p ((x_p - prior_p) / sigma_p)^2 / 2, or what that is of
 * Student's distribution; r_i is the logarithm of predicted over observed and rho Huber's function,
 * or one that far off grows with the logarithm alone. Of that there are several least ones: which
 * is found would hang on where the search begins, so that it begins with Huber's, and lets go of
 * what is lost by and by (graduated non-convexity: Blake & Zisserman 1987, "Visual
 * Reconstruction").
 *
 * By iteratively reweighted least squares with Levenberg's and Marquardt's damping. Derivatives are
 * forward differences of 2 %: a simulated time is whole picoseconds and has kinks where another
 * path becomes the longest, so smaller steps see the rounding. They cost far more than times, so
 * that after a step they serve for a few more. */
#include "sim/fit.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fit/normal.h"
#include "sim/fit/result.h"
#include "sim/fit/search.h"

static const double difference_step = 0.02;
static const double enough = 5e-4; /* of the objective: what gains no more has converged */
enum {
    CHORDS_MAX = 2, /* steps on the same derivatives */
    SHORTER_MAX = 3,
    HELD_TURNS = 2,    /* of the search, in which nothing is lost ... */
    LETTING_TURNS = 3, /* ... and in which only what is 8, 4, 2 times as far off as in the end is */
};

static int differentiate(struct tutti_fit_search *search, struct tutti_err *err)
{
    struct tutti_fit *fit = search->fit;

    for (uint32_t p = 0; p < fit->parameter_count; p++) {
        int status;

        if (search->problem->watch != NULL)
            search->problem->watch(search->problem->context, fit->iteration_count, p);
        memcpy(search->trial, fit->value, fit->parameter_count * sizeof(double));
        memcpy(search->times, fit->predicted, fit->point_count * sizeof(double));
        search->trial[p] += difference_step;
        status = search->problem->predict(search->problem->context, search->trial, p, search->times,
                                          err);
        if (status < 0)
            return status;
        for (uint32_t i = 0; i < fit->point_count; i++)
            fit->jacobian[(size_t)i * fit->parameter_count + p] =
                (search->times[i] - fit->predicted[i]) / difference_step;
    }
    return 0;
}

/* The variance of a residual as far as the estimate is concerned: Huber's asymptotic formula
 * (Huber 1981, 7.6), E psi^2 / (E psi')^2, psi the residual cut at the scale: of what
 * is lost psi is less, and the errors rather too large. */
static double variance(const struct tutti_fit *fit)
{
    double weights = 0, squares = 0, inside = 0;

    for (uint32_t i = 0; i < fit->point_count; i++) {
        double size = fabs(fit->predicted[i] - fit->observed[i]);
        double cut = fmin(size, fit->scale);

        if (!(fit->weight[i] > 0))
            continue;
        weights += fit->weight[i];
        squares += fit->weight[i] * cut * cut;
        inside += size <= fit->scale ? fit->weight[i] : 0;
    }
    inside = fmax(0.05, inside / weights);
    return fmax(1e-8, squares / fmax(1, weights - fit->parameter_count) / (inside * inside));
}

/* Standard errors: of the data, and of the priors, which are no data. -TUTTI_EINVAL where there are
 * none, which must not look like certainty. */
static int judge(struct tutti_fit_search *search, struct tutti_err *err)
{
    struct tutti_fit *fit = search->fit;
    uint32_t size = fit->parameter_count;
    double spread = variance(fit);

    memset(search->matrix, 0, (size_t)size * size * sizeof(double));
    for (uint32_t i = 0; i < fit->point_count; i++) {
        double residual = fit->predicted[i] - fit->observed[i];

        if (!(fit->weight[i] > 0))
            continue;
        fit->robust[i] = fit->weight[i] * tutti_fit_search_reweight(fit, residual);
        tutti_normal_add(search->matrix, search->vector, size, fit->jacobian + (size_t)i * size,
                         fit->weight[i] / spread, 0);
    }
    for (uint32_t p = 0; p < size; p++)
        search->matrix[(size_t)p * size + p] +=
            tutti_fit_search_prior_pull(fit, p, fit->value[p] - fit->prior[p]) + 1e-9;
    if (!tutti_normal_factor(search->matrix, size))
        return tutti_fail(err, TUTTI_EINVAL,
                          "no standard errors of '%u' parameters: some are told only together, or "
                          "a time is no number",
                          size);
    for (uint32_t p = 0; p < size; p++) {
        memset(search->vector, 0, size * sizeof(double));
        search->vector[p] = 1;
        tutti_normal_solve(search->matrix, size, search->vector);
        memcpy(fit->covariance + (size_t)p * size, search->vector, size * sizeof(double));
        fit->sigma[p] = sqrt(fmax(0, search->vector[p]));
        fit->identified[p] = fit->precision[p] > 0 ? fit->sigma[p] < 0.7 / sqrt(fit->precision[p])
                                                   : fit->sigma[p] < 0.5;
    }
    return 0;
}

/* Steps on the same derivatives; *ret_better: what the first gained. */
static int descend_often(struct tutti_fit_search *search, double *damping, double *ret_better,
                         struct tutti_err *err)
{
    double better = 1;
    int status = 0;

    for (int chord = 0; chord < CHORDS_MAX && better > 1e-3 && status == 0; chord++) {
        status = tutti_fit_search_descend(search, damping, &better, err);
        if (chord == 0)
            *ret_better = better;
    }
    /* The last call of predict() may not have been for the values kept. */
    if (status == 0)
        status = search->problem->predict(search->problem->context, search->at, TUTTI_FIT_NONE,
                                          search->now, err);
    return status;
}

/* A step to where the model has the least, or where that is not better part of the way there. */
static int try_shorter(struct tutti_fit_search *search, struct tutti_fit_search *model,
                       double *ret_better, struct tutti_err *err)
{
    const struct tutti_fit *fit = search->about;
    size_t size = fit->parameter_count;

    for (int shorter = 0; shorter < SHORTER_MAX; shorter++) {
        double now;
        int status = tutti_fit_search_predict(search, model->at, err);

        if (status < 0)
            return status;
        now = tutti_fit_search_objective(search, model->at, search->times);
        if (now < search->objective) {
            *ret_better = (search->objective - now) / search->objective;
            search->problem->approximate(search->problem->context, fit, model->at, model->now,
                                         search->own);
            search->objective = now;
            search->slopes = search->own;
            memcpy(search->at, model->at, size * sizeof(double));
            memcpy(search->now, search->times, fit->point_count * sizeof(double));
            return 0;
        }
        for (size_t p = 0; p < size; p++)
            model->at[p] = (model->at[p] + 2 * search->at[p]) / 3;
    }
    return 0;
}

/* Where the model has the least, if it is better there with times predicted; *ret_better: by how
 * much of the objective. The steps that follow take the model's derivatives there. */
static int try_leap(struct tutti_fit_search *search, double *ret_better, struct tutti_err *err)
{
    const struct tutti_fit *fit = search->about;
    size_t size = fit->parameter_count, points = fit->point_count;
    struct tutti_fit_search model = *search;
    int status = 0;

    *ret_better = 0;
    model.at = tutti_fit_zeros(size);
    model.now = tutti_fit_zeros(points);
    model.slopes = search->own;
    if (model.at == NULL || model.now == NULL) {
        status = tutti_nomem(err);
        goto out;
    }
    memcpy(model.at, search->at, size * sizeof(double));
    memcpy(model.now, search->now, points * sizeof(double));
    memcpy(model.slopes, fit->jacobian, points * size * sizeof(double));
    if (tutti_fit_search_leap(&model))
        status = try_shorter(search, &model, ret_better, err);
out:
    free(model.at);
    free(model.now);
    return status;
}

/* Turns of the search before what is lost is what the problem says. */
static uint32_t count_early_turns(const struct tutti_fit_problem *problem, uint32_t most)
{
    uint32_t count = HELD_TURNS + LETTING_TURNS;

    return problem->lost > 0 && most > count ? count : 0;
}

/* Sets what is lost in a turn that is `left` before that. */
static void let_go(struct tutti_fit_search *search, uint32_t left)
{
    struct tutti_fit *fit = search->fit;

    fit->lost = 0;
    if (search->problem->lost > 0 && left <= LETTING_TURNS)
        fit->lost = fmax(fit->scale, search->problem->lost) * exp2(left);
    search->objective = tutti_fit_search_objective(search, fit->value, fit->predicted);
}

static int search_on(struct tutti_fit_search *search, struct tutti_err *err)
{
    const struct tutti_fit_problem *problem = search->problem;
    struct tutti_fit *fit = search->fit;
    uint32_t most = problem->iteration_max == 0 ? 20 : problem->iteration_max;
    uint32_t early = count_early_turns(problem, most);
    double damping = 1e-3, better = 1;
    int status =
        problem->predict(problem->context, fit->value, TUTTI_FIT_NONE, fit->predicted, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < fit->point_count; i++) {
        if (!isfinite(fit->predicted[i]) && fit->weight[i] > 0)
            return tutti_fail(err, TUTTI_EINVAL, "the time predicted for point '%u' is no number",
                              i);
    }
    let_go(search, 0);
    fit->objective_first = search->objective;
    while ((better > enough || fit->iteration_count <= early) && fit->iteration_count < most &&
           search->objective > 0) {
        double leapt = 0;

        let_go(search, early > fit->iteration_count ? early - fit->iteration_count : 0);
        status = differentiate(search, err);
        search->slopes = fit->jacobian;
        if (status == 0 && problem->approximate != NULL)
            status = try_leap(search, &leapt, err);
        if (status == 0)
            status = descend_often(search, &damping, &better, err);
        if (status < 0)
            return status;
        better = fmax(better, leapt);
        fit->iteration_count++;
    }
    let_go(search, 0);
    fit->objective = search->objective;
    fit->converged = better <= enough || !(fit->objective > 0);
    status = differentiate(search, err);
    return status < 0 ? status : judge(search, err);
}

static int check(const struct tutti_fit_problem *problem, struct tutti_err *err)
{
    double weights = 0;

    if (problem->parameter_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no parameter to fit");
    if (problem->parameter_count > TUTTI_NORMAL_ROW_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' parameters are too many to fit (%d)",
                          problem->parameter_count, TUTTI_NORMAL_ROW_MAX);
    if (problem->point_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no measurement to fit to");
    for (uint32_t p = 0; p < problem->parameter_count; p++) {
        if (!isfinite(problem->prior[p]) || !(problem->prior_sigma[p] >= 0))
            return tutti_fail(err, TUTTI_EINVAL, "parameter '%u' begins at no number", p);
    }
    for (uint32_t i = 0; i < problem->point_count; i++) {
        if (!isfinite(problem->observed[i]) || !(problem->weight[i] >= 0))
            return tutti_fail(err, TUTTI_EINVAL, "measurement '%u' is no number", i);
        weights += problem->weight[i];
    }
    if (!(weights > 0))
        return tutti_fail(err, TUTTI_EINVAL, "none of '%u' measurements has a weight",
                          problem->point_count);
    return 0;
}

int tutti_fit_solve(const struct tutti_fit_problem *problem, struct tutti_fit **ret,
                    struct tutti_err *err)
{
    size_t parameters = problem->parameter_count;
    struct tutti_fit_search search = {.problem = problem};
    int status = check(problem, err);

    if (status < 0)
        return status;
    search.about = search.fit = tutti_fit_new(problem);
    search.matrix = tutti_fit_zeros(parameters * parameters);
    search.vector = tutti_fit_zeros(parameters);
    search.trial = tutti_fit_zeros(parameters);
    search.times = tutti_fit_zeros(problem->point_count);
    if (problem->approximate != NULL)
        search.own = tutti_fit_zeros(parameters * problem->point_count);
    if ((problem->approximate != NULL && search.own == NULL) || search.fit == NULL ||
        search.matrix == NULL || search.vector == NULL || search.trial == NULL ||
        search.times == NULL)
        status = tutti_nomem(err);
    if (status == 0) {
        search.slopes = search.fit->jacobian;
        search.at = search.fit->value;
        search.now = search.fit->predicted;
        status = search_on(&search, err);
    }
    if (status == 0)
        *ret = search.fit;
    else
        tutti_fit_free(search.fit);
    free(search.own);
    free(search.matrix);
    free(search.vector);
    free(search.trial);
    free(search.times);
    return status;
}
