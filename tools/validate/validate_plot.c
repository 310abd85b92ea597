/* Pictures of a validation; see validate_plot.h. */
#include "tools/validate/validate_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/status.h"
#include "tools/cli/chart.h"
#include "tools/cli/error_plot.h"
#include "tools/cli/files.h"
#include "tools/cli/shared_options.h"

/* ---- on the terminal ------------------------------------------------------------------------- */

int tutti_validate_plot_cases(const struct tutti_args *args, const struct tutti_cases *cases,
                              bool terminal, FILE *out, struct tutti_err *err)
{
    struct tutti_error_point *points;

    if (!tutti_shared_wants_plot(args, terminal))
        return 0;
    points = calloc(cases->case_count + 1, sizeof(*points));
    if (points == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < cases->case_count; i++)
        points[i] = (struct tutti_error_point){
            cases->cases[i].bytes, cases->cases[i].predicted_us / cases->cases[i].measured_us};
    tutti_error_plot(points, cases->case_count, tutti_shared_plot_utf8(args), out);
    free(points);
    return 0;
}

/* ---- as SVG ---------------------------------------------------------------------------------- */

enum { GROUPS_MAX = 24, NAME_BYTES = 96 };

/* Cases of one line: `first` is one of them. */
struct groups {
    const struct tutti_case *first[GROUPS_MAX];
    uint32_t count;
};

static bool same_group(const struct tutti_case *a, const struct tutti_case *b)
{
    if (a->log != b->log || a->params.collective != b->params.collective)
        return false;
    return a->log != NULL || strcmp(a->algorithm, b->algorithm) == 0;
}

static uint32_t group_of(const struct groups *groups, const struct tutti_case *one)
{
    uint32_t at = 0;

    while (at < groups->count && !same_group(groups->first[at], one))
        at++;
    return at;
}

static int find_groups(const struct tutti_cases *cases, struct groups *ret, struct tutti_err *err)
{
    *ret = (struct groups){.count = 0};
    for (size_t i = 0; i < cases->case_count; i++) {
        if (group_of(ret, &cases->cases[i]) < ret->count)
            continue;
        if (ret->count == GROUPS_MAX)
            return tutti_fail(err, TUTTI_EINVAL,
                              "more than %d logs, collectives or algorithms to draw (fewer)",
                              GROUPS_MAX);
        ret->first[ret->count++] = &cases->cases[i];
    }
    return 0;
}

static int by_bytes(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The sizes of all cases, rising, each once. */
static size_t find_sizes(const struct tutti_cases *cases, double *ret)
{
    size_t count = 0;

    for (size_t i = 0; i < cases->case_count; i++)
        ret[i] = (double)cases->cases[i].bytes;
    qsort(ret, cases->case_count, sizeof(*ret), by_bytes);
    for (size_t i = 0; i < cases->case_count; i++) {
        if (count == 0 || ret[i] > ret[count - 1])
            ret[count++] = ret[i];
    }
    return count;
}

static void print_name(const struct groups *groups, uint32_t group, const char *what,
                       char ret[NAME_BYTES])
{
    const struct tutti_case *first = groups->first[group];
    const char *slash = first->log != NULL ? strrchr(first->log, '/') : NULL;
    const char *of = first->log == NULL ? first->algorithm : slash != NULL ? slash + 1 : first->log;

    if (groups->count == 1)
        (void)snprintf(ret, NAME_BYTES, "%s", what);
    else
        (void)snprintf(ret, NAME_BYTES, "%s %.40s %s", what, of,
                       tutti_collective_name(first->params.collective));
}

/* `count`: of values, this one among them. */
static void add_to_mean(double *mean, double value, double count)
{
    *mean = count > 1 ? *mean + (value - *mean) / count : value;
}

/* `values` has room for the sizes, the null model and two lines a group, `counts`, all 0, for one.
 */
static void fill_values(const struct tutti_cases *cases, const struct groups *groups,
                        const double *sizes, size_t size_count, double *values, double *counts)
{
    for (size_t i = 0; i < (1 + 2 * (size_t)groups->count) * size_count; i++)
        values[i] = NAN;
    for (size_t i = 0; i < cases->case_count; i++) {
        const struct tutti_case *one = &cases->cases[i];
        double bytes = (double)one->bytes;
        const double *found = bsearch(&bytes, sizes, size_count, sizeof(*sizes), by_bytes);
        size_t at = (size_t)(found - sizes);
        size_t group = group_of(groups, one);
        double count = ++counts[group * size_count + at];

        add_to_mean(&values[(1 + 2 * group) * size_count + at], one->measured_us, count);
        add_to_mean(&values[(2 + 2 * group) * size_count + at], one->predicted_us, count);
        if (group == 0)
            add_to_mean(&values[at], one->null_us, count);
    }
}

static int draw(const struct tutti_cases *cases, const struct groups *groups, double *room,
                char **ret, struct tutti_err *err)
{
    char names[2 * GROUPS_MAX][NAME_BYTES];
    char title[NAME_BYTES];
    struct tutti_chart_series series[2 * GROUPS_MAX];
    size_t size_count = find_sizes(cases, room);
    double *counts = room + cases->case_count;
    double *values = counts + size_count * groups->count;
    struct tutti_chart chart = {
        .title = title,
        .subtitle = "tutti validate",
        .bytes = room,
        .x_count = size_count,
        .series = series,
        .series_count = 2 * (size_t)groups->count,
        .bound_us = values,
        .bound_name = "null model",
    };

    (void)snprintf(title, sizeof(title), "%s%smeasured and predicted",
                   groups->count == 1 ? tutti_collective_name(groups->first[0]->params.collective)
                                      : "",
                   groups->count == 1 ? ": " : "");
    fill_values(cases, groups, room, size_count, values, counts);
    for (uint32_t i = 0; i < chart.series_count; i++) {
        print_name(groups, i / 2, i % 2 == 0 ? "measured" : "predicted", names[i]);
        series[i] = (struct tutti_chart_series){.name = names[i],
                                                .letter = (char)('A' + i),
                                                .times_us = values + (1 + (size_t)i) * size_count};
    }
    return tutti_chart_svg(&chart, ret, err);
}

int tutti_validate_svg_cases(const struct tutti_args *args, const struct tutti_cases *cases,
                             struct tutti_sink *sink, struct tutti_err *err)
{
    struct groups groups;
    double *room = NULL;
    char *svg = NULL;
    int status;

    if (!tutti_args_given(args, "svg") || cases->case_count == 0)
        return 0;
    status = find_groups(cases, &groups, err);
    if (status == 0) {
        room = calloc(cases->case_count * (2 + 3 * (size_t)GROUPS_MAX), sizeof(*room));
        status = room == NULL ? tutti_nomem(err) : draw(cases, &groups, room, &svg, err);
    }
    if (status == 0)
        status = tutti_file_write(tutti_args_text(args, "svg"), svg, strlen(svg), sink, err);
    free(svg);
    free(room);
    return status < 0 ? tutti_wrap(err, status, "option '--svg'") : 0;
}
