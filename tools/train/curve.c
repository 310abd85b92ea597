/* Curves over the number of devices; see curve.h. */
#include "tools/train/curve.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/chart.h"
#include "tools/cli/files.h"
#include "tools/sink.h"

enum { BAR = 60 };

/* Ends of parts are rounded, not their lengths, so that a bar is as long as its step. */
static void print_bar(const struct tutti_train_curve_part *parts,
                      const struct tutti_train_curve_point *point, tutti_ps longest, FILE *out)
{
    tutti_ps begun = 0;
    int column = 0;

    for (int p = 0; p < TUTTI_TRAIN_CURVE_PARTS; p++) {
        begun += point->part[p];
        for (; column < (int)((double)begun / (double)longest * BAR + 0.5) && column < BAR;
             column++)
            fputc(parts[p].letter, out);
    }
    fprintf(out, "%*s", BAR - column, "");
}

static void print_bars(const struct tutti_train_curve_part *parts,
                       const struct tutti_train_curve_point *points, size_t count, FILE *out)
{
    tutti_ps longest = 1;
    bool seen[TUTTI_TRAIN_CURVE_PARTS] = {false};
    const char *between = "";

    for (size_t i = 0; i < count; i++) {
        for (int p = 0; p < TUTTI_TRAIN_CURVE_PARTS; p++)
            seen[p] |= points[i].part[p] > 0;
        longest = points[i].step_ps > longest ? points[i].step_ps : longest;
    }
    fputs("\n# a step by devices: ", out);
    for (int p = 0; p < TUTTI_TRAIN_CURVE_PARTS; p++)
        if (seen[p]) {
            fprintf(out, "%s%c %s", between, parts[p].letter, parts[p].name);
            between = ", ";
        }
    fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "  %8u |", points[i].device_count);
        print_bar(parts, &points[i], longest, out);
        fprintf(out, "| %.4g s\n", (double)points[i].step_ps / (double)TUTTI_PS_PER_S);
    }
}

static int draw(const char *title, const struct tutti_train_curve_point *points, size_t count,
                double *values, char **ret, struct tutti_err *err)
{
    double *devices = values;
    double *ideal = values + count;
    double *times = values + 2 * count;
    const struct tutti_chart_series series = {"simulated", 'S', times};
    struct tutti_chart chart = {
        .title = title,
        .subtitle = "time of a sample: that of a step, shared out among its samples",
        .x_label = "devices",
        .bytes = devices,
        .x_count = count,
        .series = &series,
        .series_count = 1,
        .bound_us = ideal,
        .bound_name = "without loss",
    };

    for (size_t i = 0; i < count; i++) {
        devices[i] = points[i].device_count;
        times[i] = 1e6 / points[i].samples_per_s;
        ideal[i] = times[0] * devices[0] / devices[i];
    }
    return tutti_chart_svg(&chart, ret, err);
}

static int write_svg(const char *title, const struct tutti_train_curve_point *points, size_t count,
                     const char *path, struct tutti_sink *sink, struct tutti_err *err)
{
    double *values = calloc(3 * count, sizeof(*values));
    char *text = NULL;
    int status = values == NULL ? tutti_nomem(err) : draw(title, points, count, values, &text, err);

    if (status == 0)
        status = tutti_file_write(path, text, strlen(text), sink, err);
    free(text);
    free(values);
    return status < 0 ? tutti_wrap(err, status, "option '--svg'") : 0;
}

bool tutti_train_curve_only(const struct tutti_args *args)
{
    const char *svg = tutti_args_text(args, "svg");

    return svg != NULL && strcmp(svg, "-") == 0;
}

int tutti_train_curve_check(const struct tutti_args *args, struct tutti_err *err)
{
    const char *svg = tutti_args_text(args, "svg");
    int status = svg != NULL ? tutti_file_check_target(svg, err) : 0;

    if (svg != NULL && !tutti_args_given(args, "devices"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--svg' draws machines of several sizes (of "
                          "--devices)");
    return status < 0 ? tutti_wrap(err, status, "option '--svg'") : 0;
}

int tutti_train_curve(const struct tutti_args *args, const char *title,
                      const struct tutti_train_curve_part parts[TUTTI_TRAIN_CURVE_PARTS],
                      const struct tutti_train_curve_point *points, size_t count,
                      struct tutti_sink *sink, struct tutti_err *err)
{
    const char *svg = tutti_args_text(args, "svg");

    if (count > 1 && !sink->quiet && tutti_args_is(args, "format", "table") &&
        !tutti_train_curve_only(args))
        print_bars(parts, points, count, sink->out);
    return svg != NULL ? write_svg(title, points, count, svg, sink, err) : 0;
}
