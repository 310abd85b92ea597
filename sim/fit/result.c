/* Room for a fit; see result.h. */
#include "sim/fit/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fit.h"

void tutti_fit_free(struct tutti_fit *fit)
{
    if (fit == NULL)
        return;
    free(fit->value);
    free(fit->sigma);
    free(fit->identified);
    free(fit->predicted);
    free(fit->covariance);
    free(fit->jacobian);
    free(fit->robust);
    free(fit->prior);
    free(fit->precision);
    free(fit->observed);
    free(fit->weight);
    free(fit);
}

double *tutti_fit_zeros(size_t count)
{
    return calloc(count == 0 ? 1 : count, sizeof(double));
}

struct tutti_fit *tutti_fit_new(const struct tutti_fit_problem *problem)
{
    size_t parameters = problem->parameter_count, points = problem->point_count;
    struct tutti_fit *fit = calloc(1, sizeof(*fit));

    if (fit == NULL)
        return NULL;
    fit->parameter_count = problem->parameter_count;
    fit->point_count = problem->point_count;
    fit->scale = problem->scale > 0 ? problem->scale : 0.02;
    fit->lost = problem->lost > 0 ? fmax(problem->lost, fit->scale) : 0;
    fit->prior_freedom = problem->prior_freedom;
    fit->value = tutti_fit_zeros(parameters);
    fit->sigma = tutti_fit_zeros(parameters);
    fit->identified = calloc(parameters, sizeof(bool));
    fit->predicted = tutti_fit_zeros(points);
    fit->covariance = tutti_fit_zeros(parameters * parameters);
    fit->jacobian = tutti_fit_zeros(points * parameters);
    fit->robust = tutti_fit_zeros(points);
    fit->prior = tutti_fit_zeros(parameters);
    fit->precision = tutti_fit_zeros(parameters);
    fit->observed = tutti_fit_zeros(points);
    fit->weight = tutti_fit_zeros(points);
    if (fit->value == NULL || fit->sigma == NULL || fit->identified == NULL ||
        fit->predicted == NULL || fit->covariance == NULL || fit->jacobian == NULL ||
        fit->robust == NULL || fit->prior == NULL || fit->precision == NULL ||
        fit->observed == NULL || fit->weight == NULL) {
        tutti_fit_free(fit);
        return NULL;
    }
    for (size_t i = 0; i < parameters; i++) {
        double sigma = problem->prior_sigma[i];

        fit->value[i] = fit->prior[i] = problem->prior[i];
        fit->precision[i] = sigma > 0 ? 1 / (sigma * sigma) : 0;
    }
    memcpy(fit->observed, problem->observed, points * sizeof(double));
    memcpy(fit->weight, problem->weight, points * sizeof(double));
    return fit;
}
