/* Errors by size as text; see error_plot.h. */
#include "tools/cli/error_plot.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/units.h"

enum {
    COLUMNS = 61, /* from half to double; the middle one is no error */
    MIDDLE = COLUMNS / 2,
    LINES_MAX = 24,
};

struct glyphs {
    const char *range, *middle, *exact, *low, *high;
};

static const struct glyphs ascii = {"-", "o", "|", "<", ">"};
static const struct glyphs utf8_ = {"─", "●", "│", "◂", "▸"};

static int power_of(uint64_t bytes)
{
    int power = -1;

    for (; bytes > 0; bytes /= 2)
        power++;
    return power;
}

static bool is_point(const struct tutti_error_point *point)
{
    return point->bytes > 0 && isfinite(point->ratio) && point->ratio > 0;
}

static int by_ratio(const void *left, const void *right)
{
    const struct tutti_error_point *a = left;
    const struct tutti_error_point *b = right;

    return (a->ratio > b->ratio) - (a->ratio < b->ratio);
}

/* By power of two; what is no point comes last. */
static int by_power(const void *left, const void *right)
{
    const struct tutti_error_point *a = left;
    const struct tutti_error_point *b = right;

    if (is_point(a) != is_point(b))
        return is_point(a) ? -1 : 1;
    return is_point(a) ? power_of(a->bytes) - power_of(b->bytes) : 0;
}

/* -1 and COLUMNS: beyond half and double. */
static int column_of(double ratio)
{
    double at = MIDDLE + round(log2(ratio) * MIDDLE);

    return at < 0 ? -1 : at > COLUMNS - 1 ? COLUMNS : (int)at;
}

/* `points` are those of one line, in order of their ratios. */
static void print_line(FILE *out, const struct tutti_error_point *points, size_t count,
                       const struct glyphs *glyphs, const char *label)
{
    int low = column_of(points[count / 20].ratio);
    int high = column_of(points[count - 1 - count / 20].ratio);
    int middle = column_of(points[(count - 1) / 2].ratio);

    fprintf(out, "%7s ", label);
    for (int at = -1; at <= COLUMNS; at++) {
        bool inside = at >= 0 && at < COLUMNS;
        const char *beyond = at < 0 ? glyphs->low : glyphs->high;

        if (at == middle)
            fputs(inside ? glyphs->middle : beyond, out);
        else if (at >= low && at <= high)
            fputs(inside ? glyphs->range : beyond, out);
        else
            fputs(at == MIDDLE ? glyphs->exact : " ", out);
    }
    fprintf(out, "%5zu\n", count);
}

static void print_scale(FILE *out, const struct glyphs *glyphs)
{
    static const struct {
        double ratio;
        const char *label;
    } marks[] = {{0.5, "-50%"},  {0.7, "-30%"}, {0.85, "-15%"}, {1, "0"},
                 {1.15, "+15%"}, {1.4, "+40%"}, {2, "+100%"}};
    char line[COLUMNS + 16];

    memset(line, ' ', sizeof(line));
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        size_t bytes = strlen(marks[i].label);
        int at = column_of(marks[i].ratio) + 1 - (int)bytes / 2;

        memcpy(line + (at < 0 ? 0 : at), marks[i].label, bytes);
    }
    fprintf(out, "%7s %.*s sizes\n", "", COLUMNS + 3, line);
    fprintf(out, "%8s%s the middle one, %s nine of ten, %s no error; less is predicted too fast\n",
            "", glyphs->middle, glyphs->range, glyphs->exact);
}

void tutti_error_plot(struct tutti_error_point *points, size_t count, bool utf8, FILE *out)
{
    const struct glyphs *glyphs = utf8 ? &utf8_ : &ascii;
    int step;

    if (count > 0)
        qsort(points, count, sizeof(*points), by_power);
    while (count > 0 && !is_point(&points[count - 1]))
        count--;
    step = count == 0
               ? 1
               : (power_of(points[count - 1].bytes) - power_of(points[0].bytes)) / LINES_MAX + 1;
    for (size_t i = 0; i < count;) {
        int power = power_of(points[i].bytes) / step * step;
        char label[TUTTI_UNIT_TEXT_BYTES];
        size_t end = i + 1;

        while (end < count && power_of(points[end].bytes) / step * step == power)
            end++;
        qsort(points + i, end - i, sizeof(*points), by_ratio);
        print_line(out, points + i, end - i, glyphs, tutti_print_size(UINT64_C(1) << power, label));
        i = end;
    }
    print_scale(out, glyphs);
}
