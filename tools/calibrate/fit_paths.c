/* Times near a fit without playing anything: as if the same messages made up each time.
 *
 * A time is the longest of many paths, and a path a sum: of launches and steps, in proportion to
 * their values, and of bytes, in proportion to the inverse of rates. The derivatives say which
 * share of a time hangs on which value. Along the path that is the longest now the time for other
 * values is therefore known, and never below 0 however far they go, where a model linear in
 * logarithms knows no bounds; paths that only become the longest then are not seen. */
#include <math.h>
#include <string.h>

#include "tools/calibrate/fit_values.h"

static const double least_total =
    0.02;                            /* of the time at the solution: beyond it nothing is known */
static const double ratio_most = 50; /* nor where a value is this far from there */

static struct tutti_fit_change change_of(const struct tutti_fit_value *value, const double *then,
                                         const double *now)
{
    struct tutti_fit_change change = {.sign = strstr(value->name, "_us") != NULL ? 1 : -1};
    double at = tutti_fit_value_at(value, now);
    double before = tutti_fit_value_at(value, then);
    double ratio = pow(at / before, change.sign);

    change.then = (before - value->least) / before;
    change.now = (at - value->least) / at;
    change.ratio = fmin(ratio_most, fmax(1 / ratio_most, ratio));
    change.holds = at < value->most;
    for (int level = 0; level < TUTTI_FIT_LEVELS; level++) {
        if (value->levels[level] != TUTTI_FIT_NONE)
            change.parameter = value->levels[level]; /* the last is of no other value of a case */
    }
    return change;
}

/* The part of a point's time that hangs on a value. */
static double share_of(const struct tutti_fit *fit, size_t point,
                       const struct tutti_fit_change *change)
{
    double slope = fit->jacobian[point * fit->parameter_count + change->parameter];

    return fmax(0, change->sign * slope / change->then);
}

static bool counts(const struct tutti_fit_values *values, size_t c, size_t v)
{
    return values->uses[c * values->value_count + v];
}

/* Adds up times[]: what they are of the solution's. */
static void add_up(const struct tutti_fit_values *values, const struct tutti_fit *fit, size_t c,
                   double *totals)
{
    const struct tutti_fit_case *one = &values->cases->cases[c];

    for (size_t i = 0; i < one->point_count; i++)
        totals[i] = 1;
    for (size_t v = 0; v < values->value_count; v++) {
        const struct tutti_fit_change *change = &values->changes[v];

        for (size_t i = 0; i < one->point_count && counts(values, c, v); i++)
            totals[i] += share_of(fit, one->first_point + i, change) * (change->ratio - 1);
    }
    for (size_t i = 0; i < one->point_count; i++)
        totals[i] = fmax(least_total, totals[i]);
}

static void differentiate(const struct tutti_fit_values *values, const struct tutti_fit *fit,
                          size_t c, const double *totals, double *jacobian)
{
    const struct tutti_fit_case *one = &values->cases->cases[c];
    size_t size = fit->parameter_count;

    memset(jacobian + one->first_point * size, 0, one->point_count * size * sizeof(*jacobian));
    for (size_t v = 0; v < values->value_count; v++) {
        const struct tutti_fit_value *value = &values->values[v];
        const struct tutti_fit_change *change = &values->changes[v];

        if (!counts(values, c, v))
            continue;
        for (size_t i = 0; i < one->point_count && change->holds; i++) {
            size_t point = one->first_point + i;
            double part = change->ratio * share_of(fit, point, change) / totals[i];
            double slope = change->sign * part * change->now;

            for (int level = 0; level < TUTTI_FIT_LEVELS; level++) {
                if (value->levels[level] != TUTTI_FIT_NONE)
                    jacobian[point * size + value->levels[level]] += slope;
            }
        }
    }
}

void tutti_fit_values_approximate(void *context, const struct tutti_fit *fit,
                                  const double *parameters, double *times, double *jacobian)
{
    const struct tutti_fit_values *values = context;

    for (size_t v = 0; v < values->value_count; v++)
        values->changes[v] = change_of(&values->values[v], fit->value, parameters);
    for (size_t c = 0; c < values->cases->case_count; c++) {
        const struct tutti_fit_case *one = &values->cases->cases[c];
        double *totals = times + one->first_point;

        if (one->judged)
            continue;
        add_up(values, fit, c, totals);
        if (jacobian != NULL)
            differentiate(values, fit, c, totals, jacobian);
        for (size_t i = 0; i < one->point_count; i++)
            totals[i] = fit->predicted[one->first_point + i] + log(totals[i]);
    }
}
