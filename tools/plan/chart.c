/* The front drawn: what a step takes by the number of devices, a line for each machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/cli/chart.h"
#include "tools/cli/files.h"
#include "tools/cli/shared_options.h"
#include "tools/plan/plan.h"
#include "tools/sink.h"
#include "topo/topo.h"

enum { POINTS_MAX = TUTTI_PLAN_MACHINES_MAX };

struct drawing {
    struct tutti_chart chart;
    struct tutti_chart_series series[TUTTI_PLAN_SPECS_MAX];
    char title[160];
    double devices[POINTS_MAX];
    double without_loss[POINTS_MAX];
    double times[TUTTI_PLAN_SPECS_MAX][POINTS_MAX];
};

/* The number of the point of so many devices; they come rising. */
static size_t point_of(struct drawing *d, uint32_t device_count)
{
    size_t count = d->chart.x_count;

    if (count == 0 || d->devices[count - 1] < device_count)
        d->devices[d->chart.x_count++] = device_count;
    return d->chart.x_count - 1;
}

/* A machine of which no plan is in front has none. */
static bool has_points(const struct drawing *d, uint32_t spec)
{
    for (size_t x = 0; x < d->chart.x_count; x++)
        if (d->times[spec][x] > 0)
            return true;
    return false;
}

static void fill(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                 struct drawing *d)
{
    for (uint32_t i = 0; i < answer->front_count && i < POINTS_MAX; i++) {
        const struct tutti_plan_found *f = &answer->front[i];
        size_t x = point_of(d, f->device_count);

        d->times[q->machine_spec[f->plan.machine]][x] = (double)f->step_ps / 1e6;
        if (x == 0 && d->without_loss[0] <= 0)
            d->without_loss[0] = (double)f->step_ps / 1e6;
    }
    for (size_t x = 1; x < d->chart.x_count; x++)
        d->without_loss[x] = d->without_loss[0] * d->devices[0] / d->devices[x];
    (void)snprintf(d->title, sizeof(d->title), "a step of %s by devices", q->model->name);
    d->chart.title = d->title;
    d->chart.subtitle = "the best plan of each size; nothing else is better in time, cost and "
                        "devices together";
    d->chart.x_label = "devices";
    d->chart.bytes = d->devices;
    d->chart.series = d->series;
    d->chart.bound_us = d->without_loss;
    d->chart.bound_name = "without loss";
    for (uint32_t s = 0; s < q->spec_count; s++)
        if (has_points(d, s))
            d->series[d->chart.series_count++] = (struct tutti_chart_series){
                .name = q->specs[s]->name, .letter = (char)('A' + s), .times_us = d->times[s]};
}

int tutti_plan_chart_check(const struct tutti_args *args, const struct tutti_plan_question *q,
                           struct tutti_err *err)
{
    const char *svg = tutti_args_text(args, "svg");
    int status = tutti_shared_check_plot(args, err);

    if (status == 0 && svg != NULL && q->machine_count < 2)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "option '--svg' draws machines of several sizes (of --devices)");
    if (status == 0 && svg != NULL && (status = tutti_file_check_target(svg, err)) < 0)
        return tutti_wrap(err, status, "option '--svg'");
    return status;
}

static int draw(const struct tutti_args *args, const struct drawing *d, struct tutti_sink *sink,
                struct tutti_err *err)
{
    const char *svg = tutti_args_text(args, "svg");
    bool wants =
        tutti_args_is(args, "format", "table") && tutti_shared_wants_plot(args, sink->out_terminal);
    char *text = NULL;
    int status = wants ? tutti_chart_text(&d->chart, tutti_shared_plot_utf8(args), &text, err) : 0;

    if (status == 0 && text != NULL)
        fprintf(sink->out, "\n%s", text);
    free(text);
    text = NULL;
    if (status == 0 && svg != NULL) {
        status = tutti_chart_svg(&d->chart, &text, err);
        if (status == 0)
            status = tutti_file_write(svg, text, strlen(text), sink, err);
        free(text);
    }
    return status;
}

int tutti_plan_chart(const struct tutti_args *args, const struct tutti_plan_question *q,
                     const struct tutti_plan_answer *answer, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct drawing *d;
    int status;

    if (q->machine_count < 2)
        return 0;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return tutti_nomem(err);
    fill(q, answer, d);
    status = draw(args, d, sink, err);
    free(d);
    return status;
}
