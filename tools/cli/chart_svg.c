/* A log-log chart as SVG; see chart.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/chart.h"

enum {
    WIDTH = 1000,
    LEFT = 76,
    TOP = 72,
    PLOT_WIDTH = 690,
    PLOT_HEIGHT = 460,
    LEGEND_X = LEFT + PLOT_WIDTH + 22,
    LEGEND_STEP = 24,
    HEIGHT = TOP + PLOT_HEIGHT + 64,
};

/* Told apart by those who see colours differently too: Okabe and Ito's palette first, then darker
 * ones; and each line has its marker. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7a5195", "#8c564b",
                                      "#5f6b2f", "#b5179e", "#3d405b", "#2a9d8f"};
enum { COLOUR_COUNT = sizeof(colours) / sizeof(colours[0]), MARKER_COUNT = 4 };

static double x_of(const struct tutti_chart_window *window, double x)
{
    return LEFT + (x - window->x_min) / (window->x_max - window->x_min) * PLOT_WIDTH;
}

static double y_of(const struct tutti_chart_window *window, double y)
{
    return TOP + (window->y_max - y) / (window->y_max - window->y_min) * PLOT_HEIGHT;
}

static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
        }
    }
}

static void print_text(FILE *out, double x, double y, const char *style, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

static void print_line(FILE *out, double x1, double y1, double x2, double y2, const char *colour)
{
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1,
            x2, y2, colour);
}

static void print_times(FILE *out, const struct tutti_chart_window *window)
{
    char label[32];

    for (int e = (int)floor(window->y_min); e <= (int)ceil(window->y_max); e++) {
        for (int digit = 1; digit <= 9; digit++) {
            double decades = e + log10(digit);

            if (decades < window->y_min || decades > window->y_max)
                continue;
            print_line(out, LEFT, y_of(window, decades), LEFT + PLOT_WIDTH, y_of(window, decades),
                       digit == 1 ? "#c8c8c8" : "#eeeeee");
            if (digit == 1)
                print_text(out, LEFT - 8, y_of(window, decades) + 4, "class=\"end\"",
                           tutti_chart_time_label(e, label, sizeof(label)));
        }
    }
}

static void print_sizes(FILE *out, const struct tutti_chart_window *window)
{
    const double two = log10(2);
    int first = (int)ceil(window->x_min / two - 1e-9);
    int last = (int)floor(window->x_max / two + 1e-9);
    int step = 1;

    first = first < 0 ? 0 : first;
    while ((last - first) / step > 16)
        step++;
    for (int power = first; power <= last && power < 64; power += step) {
        double x = x_of(window, power * two);
        char label[32];

        print_line(out, x, TOP, x, TOP + PLOT_HEIGHT, "#e2e2e2");
        print_text(out, x, TOP + PLOT_HEIGHT + 20, "class=\"middle\"",
                   tutti_chart_size_label(power, label, sizeof(label)));
    }
}

static void print_marker(FILE *out, int shape, double x, double y, const char *colour)
{
    switch (shape) {
    case 0:
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\" fill=\"%s\"/>\n", x, y, colour);
        break;
    case 1:
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\" fill=\"%s\"/>\n", x - 3,
                y - 3, colour);
        break;
    case 2:
        fprintf(out, "<path d=\"M%.1f %.1fl4 7h-8z\" fill=\"%s\"/>\n", x, y - 4, colour);
        break;
    default:
        fprintf(out, "<path d=\"M%.1f %.1fl4.4 4.4l-4.4 4.4l-4.4 -4.4z\" fill=\"%s\"/>\n", x,
                y - 4.4, colour);
    }
}

/* A line through the points there are; where one is missing, it is broken. A point without
 * neighbours gets a short line of its own, to be seen. */
static void print_series(FILE *out, const struct tutti_chart *chart,
                         const struct tutti_chart_window *window, const double *times_us,
                         const char *style)
{
    double x = 0;
    double y = 0;
    bool pen = false;

    fputs("<path d=\"", out);
    for (size_t i = 0; i < chart->x_count; i++) {
        bool there = tutti_chart_point(chart, times_us, i, &x, &y);
        double next_x = 0;
        double next_y = 0;
        bool alone = there && !pen &&
                     (i + 1 == chart->x_count ||
                      !tutti_chart_point(chart, times_us, i + 1, &next_x, &next_y));

        if (alone)
            fprintf(out, "M%.1f %.1fh28", x_of(window, x) - 14, y_of(window, y));
        else if (there)
            fprintf(out, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(window, x), y_of(window, y));
        pen = there;
    }
    fprintf(out, "\" fill=\"none\" %s/>\n", style);
}

static void print_legend(FILE *out, double y, const char *style, const char *name)
{
    fprintf(out, "<path d=\"M%d %.1fh30\" fill=\"none\" %s/>\n", LEGEND_X, y, style);
    print_text(out, LEGEND_X + 38, y + 4.5, "", name);
}

static void print_curves(FILE *out, const struct tutti_chart *chart,
                         const struct tutti_chart_window *window)
{
    static const char bound[] = "stroke=\"#111111\" stroke-width=\"2\" stroke-dasharray=\"7 5\"";
    double legend_y = TOP + 10;
    char style[96];

    for (size_t i = chart->series_count; i-- > 0;) { /* the earlier lie on top */
        const char *colour = colours[i % COLOUR_COUNT];
        int shape = (int)(i % MARKER_COUNT);
        double x = 0;
        double y = 0;

        (void)snprintf(style, sizeof(style), "stroke=\"%s\" stroke-width=\"1.8\"", colour);
        print_series(out, chart, window, chart->series[i].times_us, style);
        for (size_t p = 0; p < chart->x_count; p++) {
            if (tutti_chart_point(chart, chart->series[i].times_us, p, &x, &y))
                print_marker(out, shape, x_of(window, x), y_of(window, y), colour);
        }
        print_legend(out, legend_y + (double)i * LEGEND_STEP, style, chart->series[i].name);
        print_marker(out, shape, LEGEND_X + 15, legend_y + (double)i * LEGEND_STEP, colour);
    }
    if (chart->bound_us == NULL)
        return;
    print_series(out, chart, window, chart->bound_us, bound);
    print_legend(out, legend_y + (double)chart->series_count * LEGEND_STEP, bound,
                 chart->bound_name);
}

int tutti_chart_svg(const struct tutti_chart *chart, char **ret, struct tutti_err *err)
{
    struct tutti_chart_window window = tutti_chart_window(chart);
    double legend_end = TOP + 20 + (double)(chart->series_count + 1) * LEGEND_STEP;
    double height = legend_end > HEIGHT ? legend_end : HEIGHT;
    double pad = 0.03 * (window.y_max - window.y_min);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return tutti_nomem(err);
    window.y_min -= pad;
    window.y_max += pad;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
            "<style>.end{text-anchor:end}.middle{text-anchor:middle}.title{font-size:18px;"
            "font-weight:bold}.note{fill:#555}</style>\n"
            "<rect width=\"%d\" height=\"%.0f\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height, WIDTH, height);
    print_text(out, LEFT, 30, "class=\"title\"", chart->title);
    print_text(out, LEFT, 52, "class=\"note\"", chart->subtitle);
    print_times(out, &window);
    print_sizes(out, &window);
    fprintf(out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
            "stroke=\"#888888\"/>\n",
            LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT);
    print_curves(out, chart, &window);
    print_text(out, LEFT + PLOT_WIDTH / 2.0, TOP + PLOT_HEIGHT + 46, "class=\"middle\"",
               chart->x_label != NULL ? chart->x_label : "size in bytes (K, M, G: powers of 1024)");
    fprintf(out,
            "<text transform=\"translate(18 %.1f) rotate(-90)\" class=\"middle\">time</text>\n",
            TOP + PLOT_HEIGHT / 2.0);
    fputs("</svg>\n", out);
    if (fclose(out) != 0) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}
