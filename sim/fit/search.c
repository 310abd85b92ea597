/* Objective, strides and leaps of a search; see search.h. */
#include "sim/fit/search.h"

#include <math.h>
#include <string.h>

#include "sim/fit/normal.h"

static const double stride_max = 0.5; /* of a parameter in one iteration: a factor of 1.65 */
enum {
    ATTEMPTS_MAX = 6,
    AGAIN_ATTEMPTS_MAX = 1, /* of a refit */
    LINEAR_TURNS = 5,
    APPROXIMATE_TURNS = 16,
};

/* Huber's loss, in units where it is r^2 / (2 scale^2) near 0; of what is lost, its logarithm. */
static double loss(const struct tutti_fit *fit, double residual)
{
    double size = fabs(residual) / fit->scale, lost = fit->lost / fit->scale;

    if (lost > 0 && size > lost)
        return lost - 0.5 + lost * log(size / lost);
    return size <= 1 ? size * size / 2 : size - 0.5;
}

double tutti_fit_search_reweight(const struct tutti_fit *fit, double residual)
{
    double size = fabs(residual);

    if (fit->lost > 0 && size > fit->lost)
        return fit->lost / (fit->scale * size * size);
    return 1 / (fit->scale * (size > fit->scale ? size : fit->scale));
}

/* Of one parameter, in the same units, where it is `x` off its prior: normal, or Student's. */
static double prior_loss(const struct tutti_fit *fit, uint32_t p, double x)
{
    double square = fit->precision[p] * x * x;
    double freedom = fit->prior_freedom;

    return freedom > 0 ? (freedom + 1) / 2 * log1p(square / freedom) : square / 2;
}

double tutti_fit_search_prior_pull(const struct tutti_fit *fit, uint32_t p, double x)
{
    double freedom = fit->prior_freedom;

    if (!(freedom > 0))
        return fit->precision[p];
    return fit->precision[p] * (freedom + 1) / (freedom + fit->precision[p] * x * x);
}

bool tutti_fit_search_counts(const struct tutti_fit_search *search, uint32_t point)
{
    return search->about->weight[point] > 0 && (search->omitted == NULL || !search->omitted[point]);
}

double tutti_fit_search_objective(const struct tutti_fit_search *search, const double *values,
                                  const double *times)
{
    const struct tutti_fit *fit = search->about;
    double sum = 0;

    for (uint32_t i = 0; i < fit->point_count; i++) {
        if (tutti_fit_search_counts(search, i)) /* the others may be no numbers */
            sum += fit->weight[i] * loss(fit, times[i] - fit->observed[i]);
    }
    for (uint32_t p = 0; p < fit->parameter_count; p++)
        sum += prior_loss(fit, p, values[p] - fit->prior[p]);
    return sum;
}

/* The normal equations about where the search is. */
static void assemble(struct tutti_fit_search *search)
{
    const struct tutti_fit *fit = search->about;
    uint32_t size = fit->parameter_count;

    memset(search->matrix, 0, (size_t)size * size * sizeof(double));
    memset(search->vector, 0, size * sizeof(double));
    for (uint32_t i = 0; i < fit->point_count; i++) {
        double residual = search->now[i] - fit->observed[i];

        if (tutti_fit_search_counts(search, i))
            tutti_normal_add(search->matrix, search->vector, size,
                             search->slopes + (size_t)i * size,
                             fit->weight[i] * tutti_fit_search_reweight(fit, residual), residual);
    }
    for (uint32_t p = 0; p < size; p++) {
        double away = search->at[p] - fit->prior[p];
        double pull = tutti_fit_search_prior_pull(fit, p, away);

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

/* Times as the model about search->about has them, of points that count. */
static void guess(const struct tutti_fit_search *search, const double *values, double *times)
{
    const struct tutti_fit *fit = search->about;
    size_t size = fit->parameter_count;

    if (search->problem->approximate != NULL) {
        search->problem->approximate(search->problem->context, fit, values, times, NULL);
        return;
    }
    for (uint32_t i = 0; i < fit->point_count; i++) {
        times[i] = fit->predicted[i];
        for (size_t p = 0; p < size && tutti_fit_search_counts(search, i); p++)
            times[i] += fit->jacobian[i * size + p] * (values[p] - fit->value[p]);
    }
}

int tutti_fit_search_predict(struct tutti_fit_search *search, const double *values,
                             struct tutti_err *err)
{
    const struct tutti_fit_problem *problem = search->problem;

    if (search->guess != NULL)
        guess(search, values, search->guess);
    if (search->guess == NULL || problem->predict_near == NULL)
        return problem->predict(problem->context, values, TUTTI_FIT_NONE, search->times, err);
    memcpy(search->times, search->guess, search->about->point_count * sizeof(double));
    return problem->predict_near(problem->context, search->about->value, values, search->omitted,
                                 search->times, err);
}

int tutti_fit_search_descend(struct tutti_fit_search *search, double *damping, double *ret_better,
                             struct tutti_err *err)
{
    uint32_t size = search->about->parameter_count;

    *ret_better = 0;
    for (int attempt = 0; attempt < (search->guess == NULL ? ATTEMPTS_MAX : AGAIN_ATTEMPTS_MAX);
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
        status = tutti_fit_search_predict(search, search->trial, err);
        if (status < 0)
            return status;
        now = tutti_fit_search_objective(search, search->trial, search->times);
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

/* Where a model linear about the solution has the least, in leaps: at most a stride beyond the
 * solution and beyond the prior, to which all may go back. Weights are those of where the turn
 * before came to. Into search->at, with times as the model has them in search->now. */
static bool leap_linear(struct tutti_fit_search *search)
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
            for (uint32_t p = 0; p < size && tutti_fit_search_counts(search, i); p++)
                search->now[i] += row[p] * (search->at[p] - fit->value[p]);
        }
    }
    return true;
}

/* Sends what no point tells back to its prior at once, however little the objective gains by it. */
static void forget(struct tutti_fit_search *search)
{
    const struct tutti_fit *fit = search->about;
    uint32_t size = fit->parameter_count;

    memset(search->trial, 0, size * sizeof(double));
    for (uint32_t i = 0; i < fit->point_count; i++) {
        for (uint32_t p = 0; p < size && tutti_fit_search_counts(search, i); p++)
            search->trial[p] += fabs(search->slopes[(size_t)i * size + p]);
    }
    for (uint32_t p = 0; p < size; p++)
        search->at[p] = search->trial[p] > 0 ? search->at[p] : fit->prior[p];
    search->problem->approximate(search->problem->context, fit, search->at, search->now,
                                 search->slopes);
}

/* The same of the caller's model, which is not linear: damped strides, each of which is better. */
static bool leap_approximate(struct tutti_fit_search *search)
{
    const struct tutti_fit *fit = search->about;
    const struct tutti_fit_problem *problem = search->problem;
    uint32_t size = fit->parameter_count;
    double damping = 0.03, better = 1, least;

    forget(search);
    least = tutti_fit_search_objective(search, search->at, search->now);
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
        now = tutti_fit_search_objective(search, search->trial, search->times);
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

bool tutti_fit_search_leap(struct tutti_fit_search *search)
{
    return search->problem->approximate == NULL ? leap_linear(search) : leap_approximate(search);
}
