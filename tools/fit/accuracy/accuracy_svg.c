/* Measured against predicted, every size a dot; see accuracy.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/fit/accuracy/accuracy.h"

enum { WIDTH = 860, HEIGHT = 720, LEFT = 76, TOP = 64, PLOT = 590, LEGEND_X = LEFT + PLOT + 22 };

/* Okabe and Ito's palette, one a collective. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7a5195", "#8c564b"};

enum { COLOUR_COUNT = sizeof(colours) / sizeof(colours[0]), DECADE_MIN = 0, DECADE_MAX = 7 };

/* A time in microseconds on either axis; outside it sticks to the edge. */
static double place(double us)
{
    double decade = log10(us);

    decade = decade < DECADE_MIN ? DECADE_MIN : decade > DECADE_MAX ? DECADE_MAX : decade;
    return (decade - DECADE_MIN) / (DECADE_MAX - DECADE_MIN) * PLOT;
}

static void print_axes(FILE *out)
{
    static const char *const labels[] = {"1us",  "10us",  "100us", "1ms",
                                         "10ms", "100ms", "1s",    "10s"};

    fprintf(out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
            "stroke=\"#888\"/>\n",
            LEFT, TOP, PLOT, PLOT);
    for (int d = DECADE_MIN; d <= DECADE_MAX; d++) {
        double at = (double)(d - DECADE_MIN) / (DECADE_MAX - DECADE_MIN) * PLOT;

        fprintf(out, "<path d=\"M%.1f %dv%dM%d %.1fh%d\" stroke=\"#ddd\" fill=\"none\"/>\n",
                LEFT + at, TOP, PLOT, LEFT, TOP + PLOT - at, PLOT);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", LEFT + at,
                TOP + PLOT + 18, labels[d]);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                TOP + PLOT - at + 4, labels[d]);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">measured</text>\n",
            LEFT + PLOT / 2, TOP + PLOT + 40);
    fprintf(out,
            "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">predicted"
            "</text>\n",
            TOP + PLOT / 2);
}

/* Where predicted is `ratio` times measured. */
static void print_line(FILE *out, double ratio, const char *style)
{
    double shift = log10(ratio) / (DECADE_MAX - DECADE_MIN) * PLOT;
    double x0 = shift < 0 ? -shift : 0;
    double x1 = shift > 0 ? PLOT - shift : PLOT;

    fprintf(out, "<path d=\"M%.1f %.1fL%.1f %.1f\" fill=\"none\" %s/>\n", LEFT + x0,
            TOP + PLOT - x0 - shift, LEFT + x1, TOP + PLOT - x1 - shift, style);
}

static void print_dots(const struct tutti_accuracy *accuracy, FILE *out)
{
    for (size_t i = 0; i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[i];

        if (!table->chosen || !tutti_accuracy_counts(table))
            continue;
        fprintf(out, "<g fill=\"%s\"><title>",
                colours[(size_t)table->measured->collective % COLOUR_COUNT]);
        fprintf(out, "%s</title>\n", table->measured->id);
        for (size_t r = 0; r < table->row_count; r++) {
            const struct tutti_accuracy_row *row = &table->rows[r];

            if (row->us[TUTTI_FORECAST_OURS] > 0)
                fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.6\"/>\n",
                        LEFT + place(row->measured_us),
                        TOP + PLOT - place(row->us[TUTTI_FORECAST_OURS]));
        }
        fprintf(out, "</g>\n");
    }
}

static void print_legend(const struct tutti_accuracy *accuracy, FILE *out)
{
    int y = TOP + 10;

    for (int c = 0; c < TUTTI_CUSTOM; c++) {
        bool there = false;

        for (size_t i = 0; i < accuracy->table_count && !there; i++)
            there = accuracy->tables[i].chosen && tutti_accuracy_counts(&accuracy->tables[i]) &&
                    (int)accuracy->tables[i].measured->collective == c;
        if (!there)
            continue;
        fprintf(out,
                "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s"
                "</text>\n",
                LEGEND_X, y - 4, colours[c % COLOUR_COUNT], LEGEND_X + 10, y,
                tutti_collective_name((enum tutti_collective)c));
        y += 22;
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%d\">lines: equal,</text><text x=\"%d\" y=\"%d\">10 %% and "
            "twice off</text>\n",
            LEGEND_X - 6, y + 10, LEGEND_X - 6, y + 28);
}

int tutti_accuracy_svg(const struct tutti_accuracy *accuracy, char **ret, struct tutti_err *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool failed;

    if (out == NULL)
        return tutti_nomem(err);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"34\" font-size=\"17\">Measured and predicted times</text>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    print_axes(out);
    print_line(out, 1, "stroke=\"#333\"");
    print_line(out, 1.1, "stroke=\"#999\" stroke-dasharray=\"4 3\"");
    print_line(out, 1 / 1.1, "stroke=\"#999\" stroke-dasharray=\"4 3\"");
    print_line(out, 2, "stroke=\"#bbb\" stroke-dasharray=\"1 3\"");
    print_line(out, 0.5, "stroke=\"#bbb\" stroke-dasharray=\"1 3\"");
    print_dots(accuracy, out);
    print_legend(accuracy, out);
    fprintf(out, "</svg>\n");
    failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    if (failed || text == NULL) {
        free(text);
        return tutti_nomem(err);
    }
    *ret = text;
    return 0;
}
