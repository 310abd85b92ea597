/* A log-log chart of times by size, or by what is counted: as text for the terminal and as SVG. */
#ifndef TUTTI_TOOLS_CLI_CHART_H
#define TUTTI_TOOLS_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;

enum { TUTTI_CHART_COLUMNS = 80, TUTTI_CHART_ROWS = 20 };

struct tutti_chart_series {
    const char *name;
    char letter;            /* in the text */
    const double *times_us; /* [x_count], at the chart's sizes; NAN, or 0 and less: no point */
};

struct tutti_chart {
    const char *title;
    const char *subtitle;
    const char *x_label; /* NULL: sizes in bytes */
    const double *bytes; /* [x_count], rising and above 0 */
    size_t x_count;
    const struct tutti_chart_series
        *series; /* where two meet, the faster is shown, then the earlier */
    size_t series_count;
    const double *bound_us; /* [x_count], or NULL: a line of its own */
    const char *bound_name; /* "bound (valid)" */
};

/* At most TUTTI_CHART_COLUMNS wide; without `utf8` of ASCII alone. *ret is freed with free(). */
int tutti_chart_text(const struct tutti_chart *chart, bool utf8, char **ret, struct tutti_err *err);
int tutti_chart_svg(const struct tutti_chart *chart, char **ret, struct tutti_err *err);

/* ---- for the two of them --------------------------------------------------------------------- */

/* The window in decades: log10 of bytes and of microseconds; empty charts get one decade. */
struct tutti_chart_window {
    double x_min;
    double x_max;
    double y_min;
    double y_max;
};

struct tutti_chart_window tutti_chart_window(const struct tutti_chart *chart);
bool tutti_chart_point(const struct tutti_chart *chart, const double *times_us, size_t index,
                       double *ret_x, double *ret_y); /* in decades; false: no point */

/* Labels of the decade 10^exponent in microseconds ("10us", "1ms") and of a size ("64K"). */
const char *tutti_chart_time_label(int exponent, char *buf, size_t buf_bytes);
const char *tutti_chart_size_label(int power_of_two, char *buf, size_t buf_bytes);

#endif
