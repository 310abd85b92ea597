/* A log-log chart as text; see chart.h. */
#include "tools/cli/chart.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

enum {
    MARGIN = 8, /* columns for the labels of the times, and the axis */
    COLUMNS = TUTTI_CHART_COLUMNS - MARGIN - 1,
    ROWS = TUTTI_CHART_ROWS,
    BOUND = 1, /* in a cell: the bound; else a letter, or 0 */
};

bool tutti_chart_point(const struct tutti_chart *chart, const double *times_us, size_t index,
                       double *ret_x, double *ret_y)
{
    double y = times_us[index];

    if (!isfinite(y) || y <= 0 || chart->bytes[index] <= 0)
        return false;
    *ret_x = log10(chart->bytes[index]);
    *ret_y = log10(y);
    return true;
}

static void widen(struct tutti_chart_window *window, const struct tutti_chart *chart,
                  const double *times_us)
{
    double x = 0;
    double y = 0;

    for (size_t i = 0; i < chart->x_count; i++) {
        if (!tutti_chart_point(chart, times_us, i, &x, &y))
            continue;
        window->x_min = fmin(window->x_min, x);
        window->x_max = fmax(window->x_max, x);
        window->y_min = fmin(window->y_min, y);
        window->y_max = fmax(window->y_max, y);
    }
}

/* A window of no width is widened to a decade, so that a single point lies in its middle. */
static void open_axis(double *min, double *max)
{
    if (*min > *max) {
        *min = 0;
        *max = 1;
    }
    if (*max - *min < 0.01) {
        *min -= 0.5;
        *max += 0.5;
    }
}

struct tutti_chart_window tutti_chart_window(const struct tutti_chart *chart)
{
    struct tutti_chart_window window = {
        .x_min = INFINITY, .x_max = -INFINITY, .y_min = INFINITY, .y_max = -INFINITY};

    for (size_t i = 0; i < chart->series_count; i++)
        widen(&window, chart, chart->series[i].times_us);
    if (chart->bound_us != NULL)
        widen(&window, chart, chart->bound_us);
    open_axis(&window.x_min, &window.x_max);
    open_axis(&window.y_min, &window.y_max);
    return window;
}

const char *tutti_chart_time_label(int exponent, char *buf, size_t buf_bytes)
{
    static const char *const units[] = {"ps", "ns", "us", "ms", "s"};
    int unit = exponent + 6 < 0 ? 0 : (exponent + 6) / 3;

    unit = unit > 4 ? 4 : unit;
    (void)snprintf(buf, buf_bytes, "%.0f%s", pow(10, exponent + 6 - 3 * unit), units[unit]);
    return buf;
}

const char *tutti_chart_size_label(int power_of_two, char *buf, size_t buf_bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
    int unit = power_of_two / 10;

    assert(power_of_two >= 0 && unit < 7);
    (void)snprintf(buf, buf_bytes, "%d%s", 1 << power_of_two % 10, units[unit]);
    return buf;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct canvas {
    struct tutti_chart_window window;
    char cells[ROWS][COLUMNS];
};

static int column_of(const struct canvas *canvas, double x)
{
    double width = canvas->window.x_max - canvas->window.x_min;

    return (int)lround((x - canvas->window.x_min) / width * (COLUMNS - 1));
}

static int row_of(const struct canvas *canvas, double y)
{
    double height = canvas->window.y_max - canvas->window.y_min;

    return (int)lround((canvas->window.y_max - y) / height * (ROWS - 1));
}

static void put(struct canvas *canvas, int column, int row, char mark)
{
    assert(column >= 0 && column < COLUMNS && row >= 0 && row < ROWS);
    canvas->cells[row][column] = mark;
}

/* A line: every column from one point to the next gets a mark. */
static void draw_line(struct canvas *canvas, const struct tutti_chart *chart,
                      const double *times_us, char mark)
{
    double from_x = 0;
    double from_y = 0;
    bool pen = false;

    for (size_t i = 0; i < chart->x_count; i++) {
        double x = 0;
        double y = 0;
        bool there = tutti_chart_point(chart, times_us, i, &x, &y);
        int begin = pen ? column_of(canvas, from_x) : 0;
        int end = there ? column_of(canvas, x) : 0;

        for (int c = begin + 1; pen && c < end; c++) {
            double part = (double)(c - begin) / (double)(end - begin);

            put(canvas, c, row_of(canvas, from_y + part * (y - from_y)), mark);
        }
        if (there)
            put(canvas, end, row_of(canvas, y), mark);
        pen = there;
        from_x = x;
        from_y = y;
    }
}

/* The letters, the fastest of each size last: it is never hidden. */
static void draw_letters(struct canvas *canvas, const struct tutti_chart *chart)
{
    for (size_t p = 0; p < chart->x_count; p++) {
        size_t fastest = SIZE_MAX;
        double least = INFINITY;
        double x = 0;
        double y = 0;

        for (size_t i = chart->series_count; i-- > 0;) {
            if (!tutti_chart_point(chart, chart->series[i].times_us, p, &x, &y))
                continue;
            put(canvas, column_of(canvas, x), row_of(canvas, y), chart->series[i].letter);
            if (y <= least) {
                least = y;
                fastest = i;
            }
        }
        if (fastest != SIZE_MAX)
            put(canvas, column_of(canvas, log10(chart->bytes[p])), row_of(canvas, least),
                chart->series[fastest].letter);
    }
}

/* The label of the row, if a decade lies in it. */
static const char *row_label(const struct canvas *canvas, int row, char *buf, size_t buf_bytes)
{
    int first = (int)floor(canvas->window.y_min);
    int last = (int)ceil(canvas->window.y_max);

    for (int exponent = first; exponent <= last; exponent++) {
        if (exponent >= canvas->window.y_min && exponent <= canvas->window.y_max &&
            row_of(canvas, exponent) == row)
            return tutti_chart_time_label(exponent, buf, buf_bytes);
    }
    return "";
}

static void print_row(const struct canvas *canvas, int row, bool utf8, FILE *out)
{
    char buf[32];
    const char *label = row_label(canvas, row, buf, sizeof(buf));
    int end = COLUMNS;

    while (end > 0 && canvas->cells[row][end - 1] == 0)
        end--;
    fprintf(out, "%*s %s", MARGIN - 1, label,
            *label == '\0' ? (utf8 ? "\u2502" : "|") : (utf8 ? "\u2524" : "+"));
    for (int c = 0; c < end; c++) {
        char mark = canvas->cells[row][c];

        if (mark == BOUND)
            fputs(utf8 ? "\u00b7" : ".", out);
        else
            fputc(mark == 0 ? ' ' : mark, out);
    }
    fputc('\n', out);
}

/* Ticks at powers of two so far apart that their labels do not touch. */
static void print_x_axis(const struct canvas *canvas, bool utf8, FILE *out)
{
    char labels[COLUMNS + 16];
    char ticks[COLUMNS];
    const double two = log10(2);
    int first = (int)ceil(canvas->window.x_min / two - 1e-9);
    int last = (int)floor(canvas->window.x_max / two + 1e-9);
    int step = 1;

    first = first < 0 ? 0 : first;
    while (step < 64 && (last - first) / step * 7 > COLUMNS)
        step++;
    memset(labels, ' ', sizeof(labels));
    memset(ticks, 0, sizeof(ticks));
    for (int power = first; power <= last && power < 64; power += step) {
        char text[16];
        int column = column_of(canvas, power * two);
        int bytes = (int)strlen(tutti_chart_size_label(power, text, sizeof(text)));
        int begin = column - bytes / 2;

        ticks[column] = 1;
        begin = begin < 0 ? 0 : begin + bytes > COLUMNS ? COLUMNS - bytes : begin;
        memcpy(labels + begin, text, (size_t)bytes);
    }
    fprintf(out, "%*s %s", MARGIN - 1, "", utf8 ? "\u2514" : "+");
    for (int c = 0; c < COLUMNS; c++)
        fputs(ticks[c] != 0 ? (utf8 ? "\u252c" : "+") : (utf8 ? "\u2500" : "-"), out);
    labels[COLUMNS] = '\0';
    for (int c = COLUMNS - 1; c >= 0 && labels[c] == ' '; c--)
        labels[c] = '\0';
    fprintf(out, "\n%*s%s\n", MARGIN + 1, "", labels);
}

static void print_legend(const struct tutti_chart *chart, bool utf8, FILE *out)
{
    int column = 0;

    for (size_t i = 0; i <= chart->series_count; i++) {
        bool bound = i == chart->series_count;
        const char *name = bound ? chart->bound_name : chart->series[i].name;
        int width = (int)strlen(name) + 5;

        if (bound && chart->bound_us == NULL)
            break;
        if (column > 0 && MARGIN + column + width > TUTTI_CHART_COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        fprintf(out, "%*s", column == 0 ? MARGIN + 1 : 3, "");
        if (bound)
            fputs(utf8 ? "\u00b7" : ".", out);
        else
            fputc(chart->series[i].letter, out);
        fprintf(out, " %s", name);
        column += width;
    }
    if (column > 0)
        fputc('\n', out);
}

int tutti_chart_text(const struct tutti_chart *chart, bool utf8, char **ret, struct tutti_err *err)
{
    struct canvas canvas = {.window = tutti_chart_window(chart)};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return tutti_nomem(err);
    if (chart->bound_us != NULL)
        draw_line(&canvas, chart, chart->bound_us, BOUND);
    draw_letters(&canvas, chart);
    for (int row = 0; row < ROWS; row++)
        print_row(&canvas, row, utf8, out);
    print_x_axis(&canvas, utf8, out);
    print_legend(chart, utf8, out);
    if (fclose(out) != 0) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}
