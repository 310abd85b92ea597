/* The null model: one rate of a family, one time a sample of a series; see training.h. */
#include <math.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/validate/percentiles.h"
#include "tools/validate/training_judged.h"

double tutti_training_model_flops(const struct tutti_training_row_settings *settings)
{
    double tokens = (double)settings->global_batch * (double)settings->seq_len;
    double attention = 12 * (double)settings->layers * (double)settings->hidden;

    if (settings->global_batch == TUTTI_UNSTATED || settings->seq_len == TUTTI_UNSTATED)
        return NAN;
    if (settings->layers == TUTTI_UNSTATED || settings->hidden == TUTTI_UNSTATED)
        attention = 0;
    return tokens * (6e9 * settings->params_B + attention * (double)settings->seq_len);
}

/* What a step is proportional to, as long as nothing but the rate a device matters. */
static double work_of(const struct tutti_training_case *one)
{
    const struct tutti_training_row_settings *settings = &one->row->settings;
    double flops = tutti_training_model_flops(settings);

    if (one->row->by_throughput)
        return isnan(settings->batch_per_gpu) ? 1 : settings->batch_per_gpu;
    if (one->predicted && one->prediction.flops > 0) /* it knows experts and fewer layers */
        flops = one->prediction.flops;
    return settings->gpus == TUTTI_UNSTATED ? NAN : flops / (double)settings->gpus;
}

static size_t group_of(const struct tutti_training_case *one)
{
    return one->row->by_throughput ? one->series : one->family;
}

static bool is_fitted(const struct tutti_training_case *one)
{
    return one->predicted && one->prediction.fitted && tutti_training_is_judged(one);
}

/* Seconds a unit of work where no anchor says: the median of the rows fitted to or of all; NAN: of
 * too few. `values` has room for all cases. */
static double pace_of(const struct tutti_training_cases *cases, size_t group, double *values)
{
    size_t fitted_count = 0;
    size_t count = 0;

    for (size_t i = 0; i < cases->case_count; i++)
        fitted_count += group_of(&cases->cases[i]) == group && is_fitted(&cases->cases[i]);
    for (size_t i = 0; i < cases->case_count; i++) {
        const struct tutti_training_case *one = &cases->cases[i];
        double pace = one->row->measured_step_s / work_of(one);

        if (group_of(one) == group && tutti_training_is_judged(one) && !isnan(pace) &&
            (fitted_count == 0 || is_fitted(one)))
            values[count++] = pace;
    }
    if (count == 0 || (count < 2 && fitted_count == 0))
        return NAN; /* the row itself would explain itself */
    tutti_percentiles_sort(values, count);
    return tutti_percentiles_median(values, count);
}

/* Of throughput another series' anchor says nothing. */
static const struct tutti_training_case *anchor_of(const struct tutti_training_case *one)
{
    const struct tutti_training_case *anchor = one->anchored_by;

    return anchor != NULL && group_of(anchor) == group_of(one) ? anchor : NULL;
}

/* A series' rows differ in the number of devices alone. */
static double ring_of(const struct tutti_training_case *one)
{
    const struct tutti_training_case *anchor = anchor_of(one);

    if (anchor == NULL || one->anchor || one->series != anchor->series || !one->predicted ||
        !anchor->predicted || !one->row->by_throughput || !(one->prediction.ring_s > 0))
        return NAN;
    return anchor->row->measured_step_s + one->prediction.ring_s - anchor->prediction.ring_s;
}

/* Each group is gone through once, at its first case, so that the price is groups x cases. */
int tutti_training_null(struct tutti_training_cases *cases, struct tutti_err *err)
{
    double *values = calloc(cases->case_count + 1, sizeof(*values));

    if (values == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < cases->case_count; i++)
        cases->cases[i].ring_step_s = ring_of(&cases->cases[i]);
    for (size_t i = 0; i < cases->case_count; i++) {
        double pace;

        if (group_of(&cases->cases[i]) != i)
            continue;
        pace = pace_of(cases, i, values);
        for (size_t j = i; j < cases->case_count; j++) {
            struct tutti_training_case *one = &cases->cases[j];
            const struct tutti_training_case *anchor = anchor_of(one);

            if (group_of(one) == i && anchor != NULL)
                one->null_step_s = anchor->row->measured_step_s / work_of(anchor) * work_of(one);
            else if (group_of(one) == i)
                one->null_step_s = pace * work_of(one);
        }
    }
    free(values);
    return 0;
}
