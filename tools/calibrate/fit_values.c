/* Values, their levels, and what they come to; see fit_values.h. */
#include "tools/calibrate/fit_values.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "tools/calibrate/fit_priors.h"

/* ---- building -------------------------------------------------------------------------------- */

static int find_parameter(struct tutti_fit_values *values, const char *name, double sigma,
                          uint32_t *ret, struct tutti_err *err)
{
    for (size_t i = 0; i < values->parameter_count; i++) {
        if (strcmp(values->parameters[i].name, name) == 0) {
            *ret = (uint32_t)i;
            return 0;
        }
    }
    if (values->parameter_count == values->parameter_capacity) {
        size_t capacity = 2 * values->parameter_capacity + 64;
        struct tutti_fit_parameter *grown = realloc(values->parameters, capacity * sizeof(*grown));

        if (grown == NULL)
            return tutti_nomem(err);
        values->parameters = grown;
        values->parameter_capacity = capacity;
    }
    *ret = (uint32_t)values->parameter_count;
    values->parameters[values->parameter_count] = (struct tutti_fit_parameter){.sigma = sigma};
    (void)snprintf(values->parameters[values->parameter_count++].name, TUTTI_CALIB_NAME_BYTES,
                   "%.63s", name);
    return 0;
}

static int add_levels(struct tutti_fit_values *values, struct tutti_fit_value *value,
                      const struct tutti_fit_parts *parts, const char *group, struct tutti_err *err)
{
    char names[TUTTI_FIT_LEVELS][TUTTI_CALIB_NAME_BYTES];
    int status = 0;

    (void)snprintf(names[0], sizeof(names[0]), "%s.%s.%s", group, parts->protocol, parts->quantity);
    (void)snprintf(names[1], sizeof(names[1]), "any.%s.%s.%s", parts->link, parts->protocol,
                   parts->quantity);
    (void)snprintf(names[2], sizeof(names[2]), "%.13s.%s.%s.%s", tutti_calib_gpu_family(parts->gpu),
                   parts->link, parts->protocol, parts->quantity);
    memcpy(names[3], value->name, sizeof(names[3]));
    for (int level = 0; level < TUTTI_FIT_LEVELS && status == 0; level++) {
        value->levels[level] = TUTTI_FIT_NONE;
        if (level < 2 || strcmp(names[level], names[level - 1]) != 0)
            status =
                find_parameter(values, names[level],
                               tutti_fit_freedom(parts->quantity, group, parts->protocol, level),
                               &value->levels[level], err);
    }
    return status;
}

static int add_value(struct tutti_fit_values *values, const struct tutti_calib_use *use,
                     struct tutti_err *err)
{
    struct tutti_fit_parts parts = tutti_fit_split(use->name);
    const char *group = tutti_fit_group(parts.link);
    double start =
        use->value != NULL ? 0 : tutti_fit_start(&parts, group); /* what is given stays */
    struct tutti_fit_value value = {.protocol = tutti_fit_protocol(parts.protocol),
                                    .late = strcmp(parts.quantity, "channel_us") == 0,
                                    .early = strcmp(parts.quantity, "early_channel_us") == 0,
                                    .switches = strcmp(group, "nvls") == 0,
                                    .ways = strcmp(group, "net") == 0 ||
                                            strcmp(parts.quantity, "link_percent") == 0,
                                    .messages = strncmp(parts.quantity, "p2p_", 4) == 0,
                                    .least = tutti_fit_least(&parts),
                                    .most = tutti_fit_most(&parts, group)};

    if (!(start > 0))
        return 0;
    for (size_t i = 0; i < values->value_count; i++) {
        if (strcmp(values->values[i].name, use->name) == 0)
            return 0;
    }
    if (values->value_count == values->value_capacity) {
        size_t capacity = 2 * values->value_capacity + 64;
        struct tutti_fit_value *grown = realloc(values->values, capacity * sizeof(*grown));

        if (grown == NULL)
            return tutti_nomem(err);
        values->values = grown;
        values->value_capacity = capacity;
    }
    assert(value.least < start);
    value.base = log(start - value.least);
    (void)snprintf(value.name, sizeof(value.name), "%s", use->name);
    values->values[values->value_count] = value;
    if (add_levels(values, &values->values[values->value_count], &parts, tutti_fit_sharers(&parts),
                   err) < 0)
        return -TUTTI_ENOMEM;
    values->value_count++;
    return 0;
}

/* Whether the times of a case may hang on a value: of messages, and of its version of NCCL. */
static bool may_tell(const struct tutti_fit_case *one, const char *name)
{
    const char *quantity = strrchr(name, '.') + 1;

    if (strcmp(quantity, "channel_us") == 0)
        return !tutti_nccl_version_is_early(one->version);
    if (strcmp(quantity, "early_channel_us") == 0)
        return tutti_nccl_version_is_early(one->version);
    return one->messages || strncmp(quantity, "p2p_", 4) != 0;
}

static void mark_uses(struct tutti_fit_values *values)
{
    for (size_t c = 0; c < values->cases->case_count; c++) {
        bool *uses = values->uses + c * values->value_count;
        struct tutti_calib_use use;

        for (size_t u = 0; tutti_calib_use(values->base, &values->cases->cases[c].machine, u, &use);
             u++) {
            for (size_t v = 0; v < values->value_count; v++)
                uses[v] |= strcmp(values->values[v].name, use.name) == 0;
        }
        for (uint32_t v = 0; v < values->value_count; v++) {
            if (uses[v])
                values->used[c * values->value_count + values->used_count[c]++] = v;
        }
    }
}

int tutti_fit_values_open(struct tutti_fit_cases *cases, const struct tutti_calib *base,
                          struct tutti_fit_values *ret, struct tutti_err *err)
{
    struct tutti_fit_values values = {.cases = cases, .base = base};
    int status = tutti_calib_new(&values.calib, err);

    for (size_t c = 0; c < cases->case_count && status == 0; c++) {
        struct tutti_calib_use use;

        for (size_t u = 0; status == 0 && tutti_calib_use(base, &cases->cases[c].machine, u, &use);
             u++) {
            if (may_tell(&cases->cases[c], use.name))
                status = add_value(&values, &use, err);
        }
    }
    if (status == 0) {
        values.uses = calloc(cases->case_count * values.value_count + 1, sizeof(*values.uses));
        values.used = calloc(cases->case_count * values.value_count + 1, sizeof(*values.used));
        values.used_count = calloc(cases->case_count + 1, sizeof(*values.used_count));
        values.last = calloc(values.parameter_count + 1, sizeof(*values.last));
        values.shifted = calloc(cases->point_count * values.value_count + 1, sizeof(double));
        values.is_shifted = calloc(cases->case_count * values.value_count + 1, sizeof(bool));
        values.changes = calloc(values.value_count + 1, sizeof(*values.changes));
        if (values.uses == NULL || values.used == NULL || values.used_count == NULL ||
            values.last == NULL || values.shifted == NULL || values.is_shifted == NULL ||
            values.changes == NULL)
            status = tutti_nomem(err);
    }
    if (status < 0) {
        tutti_fit_values_close(&values);
        return status;
    }
    mark_uses(&values);
    *ret = values;
    return 0;
}

void tutti_fit_values_close(struct tutti_fit_values *values)
{
    tutti_calib_free(values->calib);
    free(values->values);
    free(values->parameters);
    free(values->uses);
    free(values->used);
    free(values->used_count);
    free(values->last);
    free(values->shifted);
    free(values->is_shifted);
    free(values->changes);
    *values = (struct tutti_fit_values){.calib = NULL};
}

/* ---- predicting ------------------------------------------------------------------------------ */

double tutti_fit_value_at(const struct tutti_fit_value *value, const double *parameters)
{
    double sum = value->base;

    for (int level = 0; level < TUTTI_FIT_LEVELS; level++) {
        if (value->levels[level] != TUTTI_FIT_NONE)
            sum += parameters[value->levels[level]];
    }
    return fmin(value->most, value->least + exp(sum));
}

static bool has_level(const struct tutti_fit_value *value, uint32_t parameter)
{
    for (int level = 0; level < TUTTI_FIT_LEVELS; level++) {
        if (value->levels[level] == parameter)
            return true;
    }
    return false;
}

static int set_some(struct tutti_fit_values *values, const double *parameters, uint32_t changed,
                    struct tutti_err *err)
{
    int status = 0;

    for (size_t v = 0; v < values->value_count && status == 0; v++) {
        const struct tutti_fit_value *value = &values->values[v];
        struct tutti_calib_value to = {
            .value = tutti_fit_value_at(value, parameters), .low = NAN, .high = NAN};

        if (changed == TUTTI_FIT_NONE || has_level(value, changed))
            status = tutti_calib_set(values->calib, value->name, &to, err);
    }
    return status;
}

int tutti_fit_values_set(struct tutti_fit_values *values, const double *parameters,
                         struct tutti_err *err)
{
    return set_some(values, parameters, TUTTI_FIT_NONE, err);
}

/* The one value of those that a machine has by which a parameter moves its times: the levels of a
 * value all move them alike, so that one prediction serves for all. value_count: none, or
 * several. */
static size_t only_value(const struct tutti_fit_values *values, size_t c, uint32_t parameter)
{
    size_t only = values->value_count;
    const uint32_t *used = values->used + c * values->value_count;

    for (uint32_t u = 0; u < values->used_count[c]; u++) {
        uint32_t v = used[u];

        if (!has_level(&values->values[v], parameter))
            continue;
        if (only < values->value_count)
            return values->value_count;
        only = v;
    }
    return only;
}

struct touched {
    const struct tutti_fit_values *values;
    uint32_t parameter;
    const bool *known; /* [case]: by a level of the same value */
};

/* Whether the time of a size may hang on a value: where switches add up, threads copy as they do
 * for messages. */
static bool bears_on(const struct tutti_fit_value *value, const struct tutti_fit_case *one,
                     const struct tutti_fit_point *point)
{
    if (value->protocol != point->protocol)
        return false;
    if ((value->late || value->early) && value->early != tutti_nccl_version_is_early(one->version))
        return false;
    if (point->switches)
        return value->switches || value->ways || value->messages;
    return !value->switches && (one->messages || !value->messages);
}

/* Whether a size may take another time by a parameter. */
static bool is_touched(const void *context, const struct tutti_fit_case *one,
                       const struct tutti_fit_point *point)
{
    const struct touched *touched = context;
    const struct tutti_fit_values *values = touched->values;
    size_t c = (size_t)(one - values->cases->cases);
    const uint32_t *used = values->used + c * values->value_count;

    for (uint32_t u = 0; u < values->used_count[c] && !touched->known[c] && !one->judged; u++) {
        const struct tutti_fit_value *value = &values->values[used[u]];

        if (has_level(value, touched->parameter) && bears_on(value, one, point))
            return true;
    }
    return false;
}

/* Takes the times of cases that a level of the same value was moved for, or keeps those that were
 * predicted now. */
static void share(struct tutti_fit_values *values, uint32_t parameter, bool take, bool *known,
                  double *times)
{
    for (size_t c = 0; c < values->cases->case_count; c++) {
        const struct tutti_fit_case *one = &values->cases->cases[c];
        size_t v = only_value(values, c, parameter);
        double *shifted;

        if (v == values->value_count)
            continue;
        shifted = values->shifted + v * values->cases->point_count + one->first_point;
        if (take)
            known[c] = values->is_shifted[c * values->value_count + v];
        if (take && known[c])
            memcpy(times + one->first_point, shifted, one->point_count * sizeof(*times));
        if (!take && !known[c])
            memcpy(shifted, times + one->first_point, one->point_count * sizeof(*times));
        values->is_shifted[c * values->value_count + v] |= !take;
    }
}

static int predict_changed(struct tutti_fit_values *values, const double *parameters,
                           uint32_t changed, double *times, struct tutti_err *err)
{
    bool *known = calloc(values->cases->case_count + 1, sizeof(*known));
    struct touched touched = {.values = values, .parameter = changed, .known = known};
    struct tutti_fit_some some = {.takes = is_touched, .context = &touched};
    double shift = parameters[changed] - values->last[changed];
    int status = known == NULL ? tutti_nomem(err) : 0;

    if (fabs(shift - values->shift) > 1e-9 * fabs(shift)) /* but for rounding, always the same */
        memset(values->is_shifted, 0, values->cases->case_count * values->value_count);
    values->shift = shift;
    if (status == 0) {
        share(values, changed, true, known, times);
        status = set_some(values, parameters, changed, err);
    }
    if (status == 0)
        status =
            tutti_fit_cases_predict(values->cases, values->calib, values->base, &some, times, err);
    if (status == 0) {
        share(values, changed, false, known, times);
        status = set_some(values, values->last, changed, err);
    }
    free(known);
    return status;
}

int tutti_fit_values_predict(void *context, const double *parameters, uint32_t changed,
                             double *times, struct tutti_err *err)
{
    struct tutti_fit_values *values = context;
    int status;

    if (changed != TUTTI_FIT_NONE)
        return predict_changed(values, parameters, changed, times, err);
    memcpy(values->last, parameters, values->parameter_count * sizeof(*values->last));
    memset(values->is_shifted, 0, values->cases->case_count * values->value_count);
    status = set_some(values, parameters, changed, err);
    if (status == 0)
        status =
            tutti_fit_cases_predict(values->cases, values->calib, values->base, NULL, times, err);
    return status;
}

/* By how much the logarithm of a value must change for its tables to be predicted again. */
static const double hardly = 0.02;

struct near {
    const struct tutti_fit_values *values;
    const bool *skipped; /* [point]; NULL: none */
    const bool *changed; /* [value] */
};

static bool is_changed(const void *context, const struct tutti_fit_case *one,
                       const struct tutti_fit_point *point)
{
    const struct near *near = context;
    const struct tutti_fit_values *values = near->values;
    size_t c = (size_t)(one - values->cases->cases);
    const uint32_t *used = values->used + c * values->value_count;

    if (one->judged || (near->skipped != NULL && near->skipped[point - values->cases->points]))
        return false;
    for (uint32_t u = 0; u < values->used_count[c]; u++) {
        if (near->changed[used[u]] && bears_on(&values->values[used[u]], one, point))
            return true;
    }
    return false;
}

int tutti_fit_values_predict_near(void *context, const double *from, const double *parameters,
                                  const bool *skipped, double *times, struct tutti_err *err)
{
    struct tutti_fit_values *values = context;
    bool *changed = calloc(values->value_count + 1, sizeof(*changed));
    struct near near = {.values = values, .skipped = skipped, .changed = changed};
    struct tutti_fit_some some = {.takes = is_changed, .context = &near};
    int status = changed == NULL ? tutti_nomem(err) : 0;

    for (size_t v = 0; v < values->value_count && status == 0; v++)
        changed[v] = fabs(log(tutti_fit_value_at(&values->values[v], parameters) /
                              tutti_fit_value_at(&values->values[v], from))) > hardly;
    if (status == 0)
        status = tutti_fit_values_set(values, parameters, err);
    if (status == 0)
        status =
            tutti_fit_cases_predict(values->cases, values->calib, values->base, &some, times, err);
    free(changed);
    return status;
}

/* ---- derivatives ----------------------------------------------------------------------------- */

static const double difference_step = 0.02;

static int set_value(struct tutti_fit_values *values, size_t v, const double *parameters,
                     double step, struct tutti_err *err)
{
    const struct tutti_fit_value *value = &values->values[v];
    double at = tutti_fit_value_at(value, parameters);
    struct tutti_calib_value to = {.value = at, .low = NAN, .high = NAN};

    if (step != 0) /* or exactly what it was */
        to.value = fmin(value->most, value->least + (at - value->least) * exp(step));
    return tutti_calib_set(values->calib, value->name, &to, err);
}

/* Adds the derivatives by one value to those by its levels. */
static void add_slopes(const struct tutti_fit_values *values, size_t v, const struct near *near,
                       const double *times, const double *shifted, double *jacobian)
{
    for (size_t c = 0; c < values->cases->case_count; c++) {
        const struct tutti_fit_case *one = &values->cases->cases[c];

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++) {
            double *row = jacobian + i * values->parameter_count;

            if (!is_changed(near, one, &values->cases->points[i]))
                continue;
            for (int level = 0; level < TUTTI_FIT_LEVELS; level++) {
                if (values->values[v].levels[level] != TUTTI_FIT_NONE)
                    row[values->values[v].levels[level]] +=
                        (shifted[i] - times[i]) / difference_step;
            }
        }
    }
}

int tutti_fit_values_differentiate_near(void *context, const double *parameters,
                                        const bool *skipped, const double *times, double *jacobian,
                                        struct tutti_err *err)
{
    struct tutti_fit_values *values = context;
    size_t points = values->cases->point_count;
    bool *changed = calloc(values->value_count + 1, sizeof(*changed));
    double *shifted = calloc(points + 1, sizeof(*shifted));
    struct near near = {.values = values, .skipped = skipped, .changed = changed};
    struct tutti_fit_some some = {.takes = is_changed, .context = &near};
    int status = changed == NULL || shifted == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_fit_values_set(values, parameters, err);
    for (size_t i = 0; i < points; i++) {
        if (skipped == NULL || !skipped[i])
            memset(jacobian + i * values->parameter_count, 0,
                   values->parameter_count * sizeof(*jacobian));
    }
    for (size_t v = 0; v < values->value_count && status == 0; v++) {
        changed[v] = true;
        status = set_value(values, v, parameters, difference_step, err);
        if (status == 0)
            status = tutti_fit_cases_predict(values->cases, values->calib, values->base, &some,
                                             shifted, err);
        if (status == 0)
            status = set_value(values, v, parameters, 0, err);
        if (status == 0)
            add_slopes(values, v, &near, times, shifted, jacobian);
        changed[v] = false;
    }
    free(changed);
    free(shifted);
    return status;
}

/* ---- what came out --------------------------------------------------------------------------- */

/* The variance of the sum of some levels of a value. */
static double variance(const struct tutti_fit *fit, const struct tutti_fit_value *value, int last)
{
    double sum = 0;

    for (int i = 0; i <= last; i++) {
        for (int j = 0; j <= last; j++) {
            if (value->levels[i] != TUTTI_FIT_NONE && value->levels[j] != TUTTI_FIT_NONE)
                sum += fit->covariance[(size_t)value->levels[i] * fit->parameter_count +
                                       value->levels[j]];
        }
    }
    return fmax(0, sum);
}

/* To five digits: more says nothing, where the best known value is uncertain by percents, and
 * people read the file. What is ordered stays so. */
static double rounded(double value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.5g", value);
    return strtod(text, NULL);
}

/* The value of the first levels up to `last`, under `name`, and from where that begins: of any GPU
 * that may be elsewhere than of one. */
static int put(struct tutti_calib *calib, const char *name, const struct tutti_fit *fit,
               const struct tutti_fit_value *value, int last, const char *source,
               struct tutti_err *err)
{
    struct tutti_fit_parts parts = tutti_fit_split(name);
    struct tutti_fit_value part = *value;
    double spread = 1.96 * sqrt(variance(fit, value, last));
    double start = tutti_fit_start(&parts, tutti_fit_sharers(&parts));
    struct tutti_calib_value to;

    assert(value->least < start);
    part.base = log(start - value->least);
    for (int level = last + 1; level < TUTTI_FIT_LEVELS; level++)
        part.levels[level] = TUTTI_FIT_NONE;
    to.value = rounded(tutti_fit_value_at(&part, fit->value));
    to.low = rounded(value->least + (to.value - value->least) * exp(-spread));
    to.high = rounded(fmin(value->most, value->least + (to.value - value->least) * exp(spread)));
    (void)snprintf(to.source, sizeof(to.source), "%s", source);
    return tutti_calib_set(calib, name, &to, err);
}

static bool has_value(const struct tutti_calib *calib, const char *name)
{
    const struct tutti_calib_value *known = NULL;

    return tutti_calib_get(calib, name, &known, NULL) == 0 && known != NULL;
}

static int put_value(struct tutti_calib *calib, const struct tutti_fit *fit,
                     struct tutti_fit_value *value, const char *source, struct tutti_err *err)
{
    struct tutti_fit_parts parts = tutti_fit_split(value->name);
    const char *group = tutti_fit_sharers(&parts);
    char name[TUTTI_CALIB_NAME_BYTES];
    double prior = 0;
    int status;

    for (int level = 0; level < TUTTI_FIT_LEVELS; level++)
        prior += value->levels[level] != TUTTI_FIT_NONE
                     ? pow(tutti_fit_freedom(parts.quantity, group, parts.protocol, level), 2)
                     : 0;
    value->open = variance(fit, value, TUTTI_FIT_LEVELS - 1) > 0.49 * prior;
    status = put(calib, value->name, fit, value, TUTTI_FIT_LEVELS - 1, source, err);
    (void)snprintf(name, sizeof(name), "%.13s.%s.%s.%s", tutti_calib_gpu_family(parts.gpu),
                   parts.link, parts.protocol, parts.quantity);
    if (status == 0 && strcmp(name, value->name) != 0)
        status = put(calib, name, fit, value, 2, source, err);
    (void)snprintf(name, sizeof(name), "any.%s.%s.%s", parts.link, parts.protocol, parts.quantity);
    if (status == 0)
        status = put(calib, name, fit, value, 1, source, err);
    (void)snprintf(name, sizeof(name), "any.%s.%s.%s", group, parts.protocol, parts.quantity);
    /* A class that is called as its group (links of just "nvlink") speaks for itself. */
    if (status == 0 && strcmp(group, parts.link) != 0 && !has_value(calib, name))
        status = put(calib, name, fit, value, 0, source, err);
    return status;
}

int tutti_fit_values_result(struct tutti_fit_values *values, const struct tutti_fit *fit,
                            const char *source, struct tutti_calib **ret, size_t *ret_open,
                            struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    char word[TUTTI_CALIB_SOURCE_BYTES] = "fit";
    size_t open = 0;
    int status = tutti_calib_copy(values->base, &calib, err);

    /* What is given may itself come from a fit with what was given: each keeps its source. */
    for (unsigned i = 2; tutti_calib_source(values->base, word) != NULL; i++)
        (void)snprintf(word, sizeof(word), "fit%u", i);
    if (status == 0)
        status = tutti_calib_set_source(calib, word, source, err);
    for (size_t v = 0; v < values->value_count && status == 0; v++)
        status = put_value(calib, fit, &values->values[v], word, err);
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    for (size_t v = 0; v < values->value_count; v++)
        open += values->values[v].open;
    *ret_open = open;
    *ret = calib;
    return 0;
}
