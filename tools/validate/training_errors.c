/* How far predicted steps and memory are from measured ones; see training.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/validate/percentiles.h"
#include "tools/validate/training_judged.h"

static const struct tutti_training_spread nothing = {0, NAN, NAN, NAN, NAN};

static struct tutti_training_spread spread_of(double *errors, size_t count)
{
    struct tutti_training_spread spread = {.count = count, .mean_abs_percent = 0};

    if (count == 0)
        return nothing;
    tutti_percentiles_sort(errors, count);
    for (size_t i = 0; i < count; i++)
        spread.mean_abs_percent += errors[i] / (double)count;
    spread.median_abs_percent = tutti_percentiles_median(errors, count);
    spread.p90_abs_percent = tutti_percentiles_p90(errors, count);
    spread.worst_abs_percent = errors[count - 1];
    return spread;
}

static double abs_percent(double seen, double measured)
{
    return fabs(100 * (seen - measured) / measured);
}

/* What one error is of: NAN where the case has none. */
static double step_error(const struct tutti_training_case *one)
{
    return one->predicted && !one->anchor && tutti_training_is_judged(one)
               ? abs_percent(one->prediction.step_s, one->row->measured_step_s)
               : NAN;
}

static double null_error(const struct tutti_training_case *one)
{
    return isnan(step_error(one)) ? NAN : abs_percent(one->null_step_s, one->row->measured_step_s);
}

static bool is_good(const struct tutti_training_case *one)
{
    return strcmp(one->row->quality, "degraded") != 0;
}

static double memory_error(const struct tutti_training_case *one)
{
    return one->predicted && is_good(one) && one->row->results.memory_GB > 0
               ? abs_percent(one->prediction.memory_GB, one->row->results.memory_GB)
               : NAN;
}

static bool is_asked(const struct tutti_training_case *one, size_t family)
{
    return family == SIZE_MAX || one->family == family;
}

static struct tutti_training_spread spread(const struct tutti_training_cases *cases, size_t family,
                                           double (*error)(const struct tutti_training_case *one),
                                           double *errors)
{
    size_t count = 0;

    for (size_t i = 0; i < cases->case_count; i++) {
        double value = is_asked(&cases->cases[i], family) ? error(&cases->cases[i]) : NAN;

        if (!isnan(value))
            errors[count++] = value;
    }
    return spread_of(errors, count);
}

static void count_case(const struct tutti_training_case *one, struct tutti_training_errors *errors)
{
    enum tutti_training_memory memory = one->row->results.memory;
    bool judged = tutti_training_is_judged(one);
    bool told = one->predicted && one->prediction.fits >= 0;
    bool out = memory == TUTTI_TRAINING_MEMORY_OUT;
    bool ran = one->row->measured_step_s > 0 || memory == TUTTI_TRAINING_MEMORY_STATED;

    errors->row_count++;
    if (!is_good(one)) {
        errors->degraded_count++;
        return;
    }
    errors->measured_count += judged;
    errors->anchor_count += one->anchor;
    errors->predicted_count += judged && one->predicted;
    errors->fitted_count += judged && one->predicted && one->prediction.fitted;
    errors->ran_count += told && ran;
    errors->ran_fits_count += told && ran && one->prediction.fits == 1;
    errors->out_count += told && out;
    errors->out_refused_count += told && out && one->prediction.fits == 0;
}

int tutti_training_errors(const struct tutti_training_cases *cases, size_t family,
                          struct tutti_training_errors *ret, struct tutti_err *err)
{
    struct tutti_training_errors errors = {.row_count = 0};
    double *values = calloc(cases->case_count + 1, sizeof(*values));

    if (values == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < cases->case_count; i++) {
        if (is_asked(&cases->cases[i], family))
            count_case(&cases->cases[i], &errors);
    }
    errors.step = spread(cases, family, step_error, values);
    errors.null = spread(cases, family, null_error, values);
    errors.memory = spread(cases, family, memory_error, values);
    free(values);
    *ret = errors;
    return 0;
}

/* ---- beyond an anchor ------------------------------------------------------------------------ */

static double beyond_step(const struct tutti_training_case *one)
{
    return isnan(one->ring_step_s) ? NAN : step_error(one);
}

static double beyond_null(const struct tutti_training_case *one)
{
    return isnan(one->ring_step_s) ? NAN : null_error(one);
}

static double ring_error(const struct tutti_training_case *one)
{
    return isnan(beyond_step(one)) ? NAN : abs_percent(one->ring_step_s, one->row->measured_step_s);
}

/* Of what it is measured to take more than its anchor; NAN where that is little. */
static double increment_error(const struct tutti_training_case *one, double step_s)
{
    double anchor_s, more_s;

    if (isnan(beyond_step(one)))
        return NAN;
    anchor_s = one->anchored_by->row->measured_step_s;
    more_s = one->row->measured_step_s - anchor_s;
    return more_s < anchor_s / 20 ? NAN : abs_percent(step_s - anchor_s, more_s);
}

static double step_increment(const struct tutti_training_case *one)
{
    return increment_error(one, one->prediction.step_s);
}

static double ring_increment(const struct tutti_training_case *one)
{
    return increment_error(one, one->ring_step_s);
}

int tutti_training_beyond(const struct tutti_training_cases *cases, size_t family,
                          struct tutti_training_beyond *ret, struct tutti_err *err)
{
    double *values = calloc(cases->case_count + 1, sizeof(*values));

    if (values == NULL)
        return tutti_nomem(err);
    ret->step = spread(cases, family, beyond_step, values);
    ret->null = spread(cases, family, beyond_null, values);
    ret->ring = spread(cases, family, ring_error, values);
    ret->increment = spread(cases, family, step_increment, values);
    ret->ring_increment = spread(cases, family, ring_increment, values);
    free(values);
    return 0;
}
