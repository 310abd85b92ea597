/* Robust damped Gauss-Newton; see sim/fit.h.
 *
 * Minimises sum_i w_i rho(r_i) + sum_p ((x_p - prior_p) / sigma_p)^2 / 2, or what that is of
 * Student's distribution; r_i is the logarithm of predicted over observed and rho Huber's function.
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

static const double difference_step = 0.02;
static const double enough = 5e-4;    /* of the objective: what gains no more has converged */
static const double stride_max = 0.5; /* of a parameter in one iteration: a factor of 1.65 */
enum {
    ATTEMPTS_MAX = 6,
    CHORDS_MAX = 2, /* steps on the same derivatives, and without some of the points: */
    LINEAR_TURNS = 5,
    APPROXIMATE_TURNS = 16,
    SHORTER_MAX = 3,
    AGAIN_ATTEMPTS_MAX = 1,
    AGAIN_STEPS_MAX = 2,
};

/* What a search holds beside its result. */
struct search {
    const struct tutti_fit_problem *problem;
    const struct tutti_fit *about; /* whose derivatives, data and priors are used */
    struct tutti_fit *fit;         /* the same while it is being made; else NULL */
    const bool *omitted;           /* [point]; NULL: none */
    double *slopes;                /* [point][parameter]: the derivatives in use ... */
    double *own;                   /* ... or room for such; NULL: problem->approximate() is none */
    double *at;                    /* [parameter]: the best so far */
    double *now;                   /* [point]: its times */
    double objective;              /* and its objective */
    double *matrix;                /* [parameter][parameter] */
    double *vector;                /* [parameter] */
    double *trial;                 /* [parameter] */
    double *times;                 /* [point] */
};

/* Huber's loss, in units where it is r^2 / (2 scale^2) near 0. */
static double loss(double residual, double scale)
{
    double size = fabs(residual) / scale;

    return size <= 1 ? size * size / 2 : size - 0.5;
}

static double reweight(double residual, double scale)
{
    double size = fabs(residual);

    return 1 / (scale * (size > scale ? size : scale));
}

/* Of one parameter, in the same units, where it is `x` off its prior: normal, or Student's. */
static double prior_loss(const struct tutti_fit *fit, uint32_t p, double x)
{
    double square = fit->precision[p] * x * x;
    double freedom = fit->prior_freedom;

    return freedom > 0 ? (freedom + 1) / 2 * log1p(square / freedom) : square / 2;
}

/* The precision of the normal prior that pulls as hard there. */
static double prior_pull(const struct tutti_fit *fit, uint32_t p, double x)
{
    double freedom = fit->prior_freedom;

    if (!(freedom > 0))
        return fit->precision[p];
    return fit->precision[p] * (freedom + 1) / (freedom + fit->precision[p] * x * x);
}

static bool counts(const struct search *search, uint32_t point)
{
    return search->about->weight[point] > 0 && (search->omitted == NULL || !search->omitted[point]);
}

static double objective(const struct search *search, const double *values, const double *times)
{
    const struct tutti_fit *fit = search->about;
    double sum = 0;

    for (uint32_t i = 0; i < fit->point_count; i++) {
        if (counts(search, i)) /* the others may be no numbers */
            sum += fit->weight[i] * loss(times[i] - fit->observed[i], fit->scale);
    }
    for (uint32_t p = 0; p < fit->parameter_count; p++)
        sum += prior_loss(fit, p, values[p] - fit->prior[p]);
    return sum;
}

static int differentiate(struct search *search, struct tutti_err *err)
{
    struct tutti_fit *fit = search->fit;

    for (uint32_t p = 0; p < fit->parameter_count; p++) {
        int status;

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

/* The normal equations about where the search is. */
static void assemble(struct search *search)
{
    const struct tutti_fit *fit = search->about;
    uint32_t size = fit->parameter_count;

    memset(search->matrix, 0, (size_t)size * size * sizeof(double));
    memset(search->vector, 0, size * sizeof(double));
    for (uint32_t i = 0; i < fit->point_count; i++) {
        double residual = search->now[i] - fit->observed[i];

        if (counts(search, i))
            tutti_normal_add(search->matrix, search->vector, size,
                             search->slopes + (size_t)i * size,
                             fit->weight[i] * reweight(residual, fit->scale), residual);
    }
    for (uint32_t p = 0; p < size; p++) {
        double away = search->at[p] - fit->prior[p];
        double pull = prior_pull(fit, p, away);

        search->matrix[(size_t)p * size + p] += pull;
        search->vector[p] += pull * away;
    }
}

/* Adds the damping: to each its share, and a little to what nothing holds. */
static void damp(double *matrix, uint32_t size, double damping)
{
    for (uint32_t p = 0; p < size; p++)
        matrix[(size_t)p * size + p] += damping * matrix[(size_t)p * size + p] + 1e-6;
}

/* Times for `values` into search->times. */
static int predict(struct search *search, const double *values, struct tutti_err *err)
{
    const struct tutti_fit_problem *problem = search->problem;

    if (search->fit != NULL || problem->predict_near == NULL)
        return problem->predict(problem->context, values, TUTTI_FIT_NONE, search->times, err);
    memcpy(search->times, search->about->predicted, search->about->point_count * sizeof(double));
    return problem->predict_near(problem->context, values, search->omitted, search->times, err);
}

/* One step downhill; *ret_better: by how much of the objective, 0 where no damping helps. */
static int descend(struct search *search, double *damping, double *ret_better,
                   struct tutti_err *err)
{
    uint32_t size = search->about->parameter_count;

    *ret_better = 0;
    for (int attempt = 0; attempt < (search->fit != NULL ? ATTEMPTS_MAX : AGAIN_ATTEMPTS_MAX);
         attempt++, *damping *= 8) {
        double now;
        int status;

        assemble(search);
        damp(search->matrix, size, *damping);
        if (!tutti_normal_factor(search->matrix, size))
            continue;
        tutti_normal_solve(search->matrix, size, search->vector);
        for (uint32_t p = 0; p < size; p++)
            search->trial[p] =
                search->at[p] - fmin(stride_max, fmax(-stride_max, search->vector[p]));
        status = predict(search, search->trial, err);
        if (status < 0)
            return status;
        now = objective(search, search->trial, search->times);
        if (now < search->objective) {
            *ret_better = (search->objective - now) / search->objective;
            search->objective = now;
            memcpy(search->at, search->trial, size * sizeof(double));
            memcpy(search->now, search->times, search->about->point_count * sizeof(double));
            *damping = fmax(*damping / 8, 1e-6);
            return 0;
        }
    }
    return 0;
}

/* The variance of a residual as far as the estimate is concerned: Huber's asymptotic formula
 * (Huber 1981, 7.6), E psi^2 / (E psi')^2, psi the residual cut at the scale. */
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
static int judge(struct search *search, struct tutti_err *err)
{
    struct tutti_fit *fit = search->fit;
    uint32_t size = fit->parameter_count;
    double spread = variance(fit);

    memset(search->matrix, 0, (size_t)size * size * sizeof(double));
    for (uint32_t i = 0; i < fit->point_count; i++) {
        double residual = fit->predicted[i] - fit->observed[i];

        if (!(fit->weight[i] > 0))
            continue;
        fit->robust[i] = fit->weight[i] * reweight(residual, fit->scale);
        tutti_normal_add(search->matrix, search->vector, size, fit->jacobian + (size_t)i * size,
                         fit->weight[i] / spread, 0);
    }
    for (uint32_t p = 0; p < size; p++)
        search->matrix[(size_t)p * size + p] +=
            prior_pull(fit, p, fit->value[p] - fit->prior[p]) + 1e-9;
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
static int descend_often(struct search *search, double *damping, double *ret_better,
                         struct tutti_err *err)
{
    double better = 1;
    int status = 0;

    for (int chord = 0; chord < CHORDS_MAX && better > 1e-3 && status == 0; chord++) {
        status = descend(search, damping, &better, err);
        if (chord == 0)
            *ret_better = better;
    }
    /* The last call of predict() may not have been for the values kept. */
    if (status == 0)
        status = search->problem->predict(search->problem->context, search->at, TUTTI_FIT_NONE,
                                          search->now, err);
    return status;
}

/* Where a model linear about the solution has the least, in leaps: at most a stride beyond the
 * solution and beyond the prior, to which all may go back. Weights are those of where the turn
 * before came to. Into search->at, with times as the model has them in search->now. */
static bool leap_linear(struct search *search)
{
    const struct tutti_fit *fit = search->about;
    uint32_t size = fit->parameter_count;

    for (int turn = 0; turn < LINEAR_TURNS; turn++) {
        assemble(search);
        damp(search->matrix, size, 0);
        if (!tutti_normal_factor(search->matrix, size))
            return false;
        tutti_normal_solve(search->matrix, size, search->vector);
        for (uint32_t p = 0; p < size; p++) {
            double least = fmin(fit->value[p], search->problem->prior[p]) - stride_max;
            double most = fmax(fit->value[p], search->problem->prior[p]) + stride_max;

            search->at[p] = fmin(most, fmax(least, search->at[p] - search->vector[p]));
        }
        for (uint32_t i = 0; i < fit->point_count; i++) {
            const double *row = fit->jacobian + (size_t)i * size;

            search->now[i] = fit->predicted[i];
            for (uint32_t p = 0; p < size && counts(search, i); p++)
                search->now[i] += row[p] * (search->at[p] - fit->value[p]);
        }
    }
    return true;
}

/* Sends what no point tells back to its prior at once, however little the objective gains by it. */
static void forget(struct search *search)
{
    const struct tutti_fit *fit = search->about;
    uint32_t size = fit->parameter_count;

    memset(search->trial, 0, size * sizeof(double));
    for (uint32_t i = 0; i < fit->point_count; i++) {
        for (uint32_t p = 0; p < size && counts(search, i); p++)
            search->trial[p] += fabs(search->slopes[(size_t)i * size + p]);
    }
    for (uint32_t p = 0; p < size; p++)
        search->at[p] = search->trial[p] > 0 ? search->at[p] : fit->prior[p];
    search->problem->approximate(search->problem->context, fit, search->at, search->now,
                                 search->slopes);
}

/* The same of the caller's model, which is not linear: damped strides, each of which is better. */
static bool leap_approximate(struct search *search)
{
    const struct tutti_fit *fit = search->about;
    const struct tutti_fit_problem *problem = search->problem;
    uint32_t size = fit->parameter_count;
    double damping = 0.03, better = 1, least;

    forget(search);
    least = objective(search, search->at, search->now);
    for (int turn = 0; turn < APPROXIMATE_TURNS && better > 1e-4 && least > 0; turn++) {
        double now;

        assemble(search);
        damp(search->matrix, size, damping);
        if (!tutti_normal_factor(search->matrix, size))
            return false;
        tutti_normal_solve(search->matrix, size, search->vector);
        for (uint32_t p = 0; p < size; p++)
            search->trial[p] =
                search->at[p] - fmin(stride_max, fmax(-stride_max, search->vector[p]));
        problem->approximate(problem->context, fit, search->trial, search->times, NULL);
        now = objective(search, search->trial, search->times);
        if (!(now < least)) {
            damping *= 6;
            continue;
        }
        better = (least - now) / least;
        least = now;
        damping = fmax(damping / 4, 1e-4);
        memcpy(search->at, search->trial, size * sizeof(double));
        problem->approximate(problem->context, fit, search->at, search->now, search->slopes);
    }
    return true;
}

static bool leap(struct search *search)
{
    return search->problem->approximate == NULL ? leap_linear(search) : leap_approximate(search);
}

/* A step to where the model has the least, or where that is not better part of the way there. */
static int try_shorter(struct search *search, struct search *model, double *ret_better,
                       struct tutti_err *err)
{
    const struct tutti_fit *fit = search->about;
    size_t size = fit->parameter_count;

    for (int shorter = 0; shorter < SHORTER_MAX; shorter++) {
        double now;
        int status = predict(search, model->at, err);

        if (status < 0)
            return status;
        now = objective(search, model->at, search->times);
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
static int try_leap(struct search *search, double *ret_better, struct tutti_err *err)
{
    const struct tutti_fit *fit = search->about;
    size_t size = fit->parameter_count, points = fit->point_count;
    struct search model = *search;
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
    if (leap(&model))
        status = try_shorter(search, &model, ret_better, err);
out:
    free(model.at);
    free(model.now);
    return status;
}

static int search_on(struct search *search, struct tutti_err *err)
{
    const struct tutti_fit_problem *problem = search->problem;
    struct tutti_fit *fit = search->fit;
    uint32_t most = problem->iteration_max == 0 ? 20 : problem->iteration_max;
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
    search->objective = fit->objective_first = objective(search, fit->value, fit->predicted);
    while (better > enough && fit->iteration_count < most && search->objective > 0) {
        double leapt = 0;

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
    struct search search = {.problem = problem};
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

/* Begins where the model says, or else at the priors: where the solution with all is, what
 * is omitted has been seen, and a search that finds nothing better would end there. */
static int begin_without(struct search *search, struct tutti_err *err)
{
    const struct tutti_fit *fit = search->about;
    size_t size = fit->parameter_count;
    int status;

    memcpy(search->at, fit->value, size * sizeof(double));
    memcpy(search->now, fit->predicted, fit->point_count * sizeof(double));
    if (!leap(search))
        memcpy(search->at, search->problem->prior, size * sizeof(double));
    status = predict(search, search->at, err);
    if (status < 0)
        return status;
    memcpy(search->now, search->times, fit->point_count * sizeof(double));
    search->objective = objective(search, search->at, search->now);
    return 0;
}

int tutti_fit_without(const struct tutti_fit_problem *problem, const struct tutti_fit *fit,
                      const bool *omitted, double *values, struct tutti_err *err)
{
    size_t size = fit->parameter_count;
    struct search search = {.problem = problem,
                            .about = fit,
                            .omitted = omitted,
                            .slopes = fit->jacobian,
                            .at = tutti_fit_zeros(size),
                            .now = tutti_fit_zeros(fit->point_count),
                            .matrix = tutti_fit_zeros(size * size),
                            .vector = tutti_fit_zeros(size),
                            .trial = tutti_fit_zeros(size),
                            .times = tutti_fit_zeros(fit->point_count)};
    double damping = 1e-3, better = 1;
    int status = 0;

    if (search.at == NULL || search.now == NULL || search.matrix == NULL || search.vector == NULL ||
        search.trial == NULL || search.times == NULL) {
        status = tutti_nomem(err);
        goto out;
    }
    if (problem->approximate != NULL) {
        search.slopes = search.own = tutti_fit_zeros(fit->point_count * size);
        if (search.own == NULL) {
            status = tutti_nomem(err);
            goto out;
        }
        memcpy(search.own, fit->jacobian, fit->point_count * size * sizeof(double));
    }
    status = begin_without(&search, err);
    for (int i = 0; i < AGAIN_STEPS_MAX && better > 3e-3 && search.objective > 0 && status == 0;
         i++)
        status = descend(&search, &damping, &better, err);
    if (status == 0)
        memcpy(values, search.at, size * sizeof(double));
out:
    free(search.own);
    free(search.at);
    free(search.now);
    free(search.matrix);
    free(search.vector);
    free(search.trial);
    free(search.times);
    return status;
}
