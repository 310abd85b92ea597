/* Values, their levels, and what they come to; see fit_values.h. */
#include "tools/fit_values.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

/* Whether a word of a table is that, or is for any. */
static bool fits(const char *word, const char *of)
{
    return word[0] == '\0' || strcmp(word, of) == 0;
}

/* How far the parameters of a level may stray: latencies and rates of hardware differ by factors,
 * what is lost on links by some percent, and most of both between GPUs on one kind of network, not
 * between networks. The figures are those that predict sites and platforms left out best, by a
 * search on the linear model of 2026-11-22; none of them matters much. */
static double freedom(const char *quantity, const char *group, const char *protocol, int level)
{
    static const struct {
        const char *quantity, *group, *protocol; /* "": any */
        double sigmas[TUTTI_FIT_LEVELS];
    } freedoms[] = {{"launch_us", "", "", {0.4, 0.15, 0.25, 0.1}},
                    {"step_us", "", "", {1, 0.6, 0.7, 0.4}},
                    {"slice_us", "", "", {1, 0.6, 0.3, 0.25}},
                    {"link_percent", "net", "simple", {0.01, 0.01, 0.02, 0.01}},
                    {"link_percent", "root", "simple", {0.3, 0.1, 0.1, 0.1}},
                    {"link_percent", "", "", {0.06, 0.03, 0.15, 0.05}},
                    {"p2p_percent", "", "", {0.1, 0.4, 0.15, 0.05}},
                    {"", "", "", {0.8, 0.5, 0.3, 0.25}}};

    for (size_t i = 0;; i++) {
        if (fits(freedoms[i].quantity, quantity) && fits(freedoms[i].group, group) &&
            fits(freedoms[i].protocol, protocol))
            return freedoms[i].sigmas[level];
    }
}

static const char *const protocol_names[TUTTI_PROTOCOLS] = {"ll", "ll128", "simple"};

/* Where a quantity begins, by group of links and protocol; launch_us and step_us as in NCCL 2.28
 * tuning.cc (ring). 0: it is not fitted. Of all that may bind the rate of a way only one is, or
 * each would hide what the others lose: in LL what a lane moves, else the share of links, behind
 * PCIe (whose share is given, see tutti_fit_base()) again the lane, through a CPU the share of its
 * root complex, between hosts the share of the network; but a lane over TCP is one stream, which
 * one thread of a CPU copies: some 15 Gb/s, and messages pass two kernels (both assumed). What is of
 * sends and receives alone begins where a block of threads copies some 20 GB/s (perChMaxRingLL128 of
 * tuning.cc up to A100), and little is lost. */
struct start {
    const char *quantity;
    const char *group;
    double values[TUTTI_PROTOCOLS];
};
static const struct start starts[] = {
    {"launch_us", "nvls", {0, 0, 12}},   {"step_us", "nvls", {0, 0, 3}},
    {"slice_us", "nvls", {0, 0, 4}},     {"link_percent", "nvls", {0, 0, 75}},
    {"step_us", "tcp", {30, 40, 100}},   {"lane_GBps", "tcp", {0, 1.9, 1.9}},
    {"launch_us", "", {6.6, 14, 8.4}},   {"step_us", "net", {2.7, 4, 14}},
    {"step_us", "pcie", {1, 2.5, 5.7}},  {"step_us", "", {0.6, 1.9, 3.4}},
    {"slice_us", "", {0, 0, 3}},         {"lane_GBps", "net", {0, 0, 0}},
    {"lane_GBps", "host", {2, 6, 0}},    {"lane_GBps", "pcie", {2, 6, 10}},
    {"lane_GBps", "", {6, 0, 0}},        {"link_percent", "root", {0, 0, 60}},
    {"link_percent", "pcie", {0, 0, 0}}, {"link_percent", "net", {92, 92, 97}},
    {"link_percent", "", {0, 82, 82}},   {"p2p_GBps", "nvls", {0, 0, 0}},
    {"p2p_GBps", "tcp", {0, 0, 1.9}},    {"p2p_GBps", "pcie", {0, 0, 10}},
    {"p2p_GBps", "", {0, 0, 20}},        {"p2p_percent", "nvls", {0, 0, 0}},
    {"p2p_percent", "pcie", {0, 0, 0}},  {"p2p_percent", "", {0, 0, 95}},
};

struct parts {
    char gpu[14], link[14], protocol[14], quantity[14];
};

static struct parts split(const char *name)
{
    struct parts parts = {{0}, {0}, {0}, {0}};
    int count = sscanf(name, "%13[^.].%13[^.].%13[^.].%13s", parts.gpu, parts.link, parts.protocol,
                       parts.quantity);

    assert(count == 4);
    return parts;
}

static const char *group_of(const char *link)
{
    static const char *const within[] = {"nvlink", "nvswitch", "xgmi", "c2c", "ici", "generic"};

    if (strcmp(link, "nvls") == 0 || strcmp(link, "root") == 0)
        return link;
    if (strcmp(link, "pcie") == 0 || strcmp(link, "host") == 0)
        return "pcie";
    for (size_t i = 0; i < sizeof(within) / sizeof(within[0]); i++) {
        if (strcmp(link, within[i]) == 0)
            return "nvlink";
    }
    return "net";
}

/* What a value shares its first level with, and general values are for: its group, but the class of
 * link alone where that begins elsewhere, as a lane of TCP tells nothing of other networks'. */
static const char *sharers_of(const struct parts *parts)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strcmp(starts[i].quantity, parts->quantity) == 0 &&
            strcmp(starts[i].group, parts->link) == 0)
            return parts->link;
    }
    return group_of(parts->link);
}

static uint8_t protocol_of(const char *name)
{
    for (uint8_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        if (strcmp(name, protocol_names[i]) == 0)
            return i;
    }
    assert(false);
    return 0;
}

static double start_of(const struct parts *parts, const char *group)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strcmp(starts[i].quantity, parts->quantity) == 0 &&
            (starts[i].group[0] == '\0' || strcmp(starts[i].group, group) == 0 ||
             strcmp(starts[i].group, parts->link) == 0))
            return starts[i].values[protocol_of(parts->protocol)];
    }
    return 0;
}

static int give(struct tutti_calib *calib, const char *link, uint8_t protocol, double percent,
                const char *source, struct tutti_err *err)
{
    struct tutti_calib_value value = {.value = percent, .low = NAN, .high = NAN};
    char name[TUTTI_CALIB_NAME_BYTES];

    (void)snprintf(value.source, sizeof(value.source), "%s", source);
    (void)snprintf(name, sizeof(name), "any.%s.%s.link_percent", link, protocol_names[protocol]);
    return tutti_calib_set(calib, name, &value, err);
}

/* PCIe into a CPU is fitted in Simple alone, where lanes do not bind before it. */
int tutti_fit_base(struct tutti_calib **ret, struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    int status = tutti_calib_new(&calib, err);

    if (status == 0)
        status = tutti_calib_set_source(calib, "pcie",
                                        "packets of 256 B lose some 15 % of the line rate to "
                                        "headers and credits; assumed",
                                        err);
    if (status == 0)
        status = tutti_calib_set_source(calib, "cpus",
                                        "rates between CPUs are no line rates but NCCL's, of what "
                                        "GPUs get there",
                                        err);
    for (uint8_t i = 0; i < TUTTI_PROTOCOLS && status == 0; i++) {
        status = give(calib, "pcie", i, 85, "pcie", err);
        if (status == 0)
            status = give(calib, "host", i, 100, "cpus", err);
        if (status == 0 && i + 1 < TUTTI_PROTOCOLS)
            status = give(calib, "root", i, 85, "pcie", err);
    }
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    *ret = calib;
    return 0;
}

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
                      const struct parts *parts, const char *group, struct tutti_err *err)
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
            status = find_parameter(values, names[level],
                                    freedom(parts->quantity, group, parts->protocol, level),
                                    &value->levels[level], err);
    }
    return status;
}

static int add_value(struct tutti_fit_values *values, const struct tutti_calib_use *use,
                     struct tutti_err *err)
{
    struct parts parts = split(use->name);
    const char *group = group_of(parts.link);
    double start = use->value != NULL ? 0 : start_of(&parts, group); /* what is given stays */
    struct tutti_fit_value value = {.protocol = protocol_of(parts.protocol),
                                    .switches = strcmp(group, "nvls") == 0,
                                    .ways = strcmp(group, "net") == 0 ||
                                            strcmp(parts.quantity, "link_percent") == 0,
                                    .messages = strncmp(parts.quantity, "p2p_", 4) == 0,
                                    .most = strstr(parts.quantity, "_percent") != NULL ? 100
                                            : strstr(parts.quantity, "_GBps") != NULL  ? 1e4
                                                                                       : 1e5};

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
    value.base = log(start);
    (void)snprintf(value.name, sizeof(value.name), "%s", use->name);
    values->values[values->value_count] = value;
    if (add_levels(values, &values->values[values->value_count], &parts, sharers_of(&parts), err) <
        0)
        return -TUTTI_ENOMEM;
    values->value_count++;
    return 0;
}

static void mark_uses(struct tutti_fit_values *values)
{
    for (size_t c = 0; c < values->cases->case_count; c++) {
        struct tutti_calib_use use;

        for (size_t u = 0; tutti_calib_use(values->base, &values->cases->cases[c].machine, u, &use);
             u++) {
            for (size_t v = 0; v < values->value_count; v++) {
                if (strcmp(values->values[v].name, use.name) == 0)
                    values->uses[c * values->value_count + v] = true;
            }
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
            if (cases->cases[c].messages || strstr(use.name, ".p2p_") == NULL)
                status = add_value(&values, &use, err);
        }
    }
    if (status == 0) {
        values.uses = calloc(cases->case_count * values.value_count + 1, sizeof(*values.uses));
        values.last = calloc(values.parameter_count + 1, sizeof(*values.last));
        values.shifted = calloc(cases->point_count * values.value_count + 1, sizeof(double));
        values.is_shifted = calloc(cases->case_count * values.value_count + 1, sizeof(bool));
        if (values.uses == NULL || values.last == NULL || values.shifted == NULL ||
            values.is_shifted == NULL)
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
    free(values->last);
    free(values->shifted);
    free(values->is_shifted);
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
    return fmin(value->most, exp(sum));
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
 * value all move them alike, so that one prediction serves for all. value_count: none, or several. */
static size_t only_value(const struct tutti_fit_values *values, size_t c, uint32_t parameter)
{
    size_t only = values->value_count;

    for (size_t v = 0; v < values->value_count; v++) {
        if (!values->uses[c * values->value_count + v] || !has_level(&values->values[v], parameter))
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

/* Whether a size may take another time by a parameter. */
static bool is_touched(const void *context, const struct tutti_fit_case *one,
                       const struct tutti_fit_point *point)
{
    const struct touched *touched = context;
    const struct tutti_fit_values *values = touched->values;
    size_t c = (size_t)(one - values->cases->cases);
    const bool *uses = values->uses + c * values->value_count;

    for (size_t v = 0; v < values->value_count && !touched->known[c] && !one->judged; v++) {
        const struct tutti_fit_value *value = &values->values[v];

        if (uses[v] && has_level(value, touched->parameter) &&
            (one->messages || !value->messages) && value->protocol == point->protocol &&
            (value->switches == point->switches || (value->ways && point->switches)))
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
        double *shifted = values->shifted + v * values->cases->point_count + one->first_point;

        if (v == values->value_count)
            continue;
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
static const double hardly = 0.01;

struct near {
    const struct tutti_fit_values *values;
    const bool *omitted;
    const bool *changed; /* [value] */
};

static bool is_changed(const void *context, const struct tutti_fit_case *one,
                       const struct tutti_fit_point *point)
{
    const struct near *near = context;
    const struct tutti_fit_values *values = near->values;
    const bool *uses = values->uses + (size_t)(one - values->cases->cases) * values->value_count;

    if (near->omitted[point - values->cases->points])
        return false;
    for (size_t v = 0; v < values->value_count; v++) {
        const struct tutti_fit_value *value = &values->values[v];

        if (uses[v] && near->changed[v] && (one->messages || !value->messages) &&
            value->protocol == point->protocol &&
            (value->switches == point->switches || (value->ways && point->switches)))
            return true;
    }
    return false;
}

int tutti_fit_values_predict_near(void *context, const double *parameters, const bool *omitted,
                                  double *times, struct tutti_err *err)
{
    struct tutti_fit_values *values = context;
    bool *changed = calloc(values->value_count + 1, sizeof(*changed));
    struct near near = {.values = values, .omitted = omitted, .changed = changed};
    struct tutti_fit_some some = {.takes = is_changed, .context = &near};
    int status = changed == NULL ? tutti_nomem(err) : 0;

    for (size_t v = 0; v < values->value_count && status == 0; v++)
        changed[v] = fabs(log(tutti_fit_value_at(&values->values[v], parameters) /
                              tutti_fit_value_at(&values->values[v], values->last))) > hardly;
    if (status == 0)
        status = tutti_fit_values_set(values, parameters, err);
    if (status == 0)
        status =
            tutti_fit_cases_predict(values->cases, values->calib, values->base, &some, times, err);
    free(changed);
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

/* The value of the first levels up to `last`, under `name`. */
static int put(struct tutti_calib *calib, const char *name, const struct tutti_fit *fit,
               const struct tutti_fit_value *value, int last, const char *source,
               struct tutti_err *err)
{
    struct tutti_fit_value part = *value;
    double spread = 1.96 * sqrt(variance(fit, value, last));
    struct tutti_calib_value to;

    for (int level = last + 1; level < TUTTI_FIT_LEVELS; level++)
        part.levels[level] = TUTTI_FIT_NONE;
    to.value = tutti_fit_value_at(&part, fit->value);
    to.low = to.value * exp(-spread);
    to.high = fmin(value->most, to.value * exp(spread));
    (void)snprintf(to.source, sizeof(to.source), "%s", source);
    return tutti_calib_set(calib, name, &to, err);
}

static bool has_value(const struct tutti_calib *calib, const char *name)
{
    const struct tutti_calib_value *known = NULL;

    return tutti_calib_get(calib, name, &known, NULL) == 0 && known != NULL;
}

static int put_value(struct tutti_calib *calib, const struct tutti_fit *fit,
                     const struct tutti_fit_value *value, const char *source, size_t *open,
                     struct tutti_err *err)
{
    struct parts parts = split(value->name);
    const char *group = sharers_of(&parts);
    char name[TUTTI_CALIB_NAME_BYTES];
    double prior = 0;
    int status;

    for (int level = 0; level < TUTTI_FIT_LEVELS; level++)
        prior += value->levels[level] != TUTTI_FIT_NONE
                     ? pow(freedom(parts.quantity, group, parts.protocol, level), 2)
                     : 0;
    *open += variance(fit, value, TUTTI_FIT_LEVELS - 1) > 0.49 * prior;
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
    const char *word = tutti_calib_source(values->base, "fit") == NULL ? "fit" : "fit2";
    struct tutti_calib *calib = NULL;
    size_t open = 0;
    int status = tutti_calib_copy(values->base, &calib, err);

    if (status == 0)
        status = tutti_calib_set_source(calib, word, source, err);
    for (size_t v = 0; v < values->value_count && status == 0; v++)
        status = put_value(calib, fit, &values->values[v], word, &open, err);
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    *ret_open = open;
    *ret = calib;
    return 0;
}
