/* The times of all algorithms at all sizes; see compare_times.h. */
#include "tools/sweep/compare_times.h"

#include "runtime/units.h"
#include "tools/sweep/ranking.h"
#include "tools/sweep/sweep.h"

enum { SIZE_COLUMNS = 8, TIME_COLUMNS = 7, LETTERS_MAX = (100 - SIZE_COLUMNS) / TIME_COLUMNS };

/* Four digits in six columns: "0.417", "53.28", "2696", "148000", and "1.06s" from a second on. */
static const char *time_text(double us, char buf[16])
{
    int digits = us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0;

    if (us < 999999.5)
        (void)snprintf(buf, 16, "%.*f", digits, us);
    else
        (void)snprintf(buf, 16, us < 99.5e6 ? "%.2fs" : "%.0fs", us / 1e6);
    return buf;
}

static bool runs(const struct tutti_ranking *ranking, uint32_t algorithm)
{
    for (uint32_t row = 0; row < ranking->row_count; row++) {
        if (tutti_ranking_point(ranking, row, algorithm)->status == 0)
            return true;
    }
    return false;
}

/* A line of the algorithms listed; row UINT32_MAX: their letters. */
static void print_line(const struct tutti_ranking *ranking, uint32_t row, const uint32_t *listed,
                       uint32_t count, FILE *out)
{
    char text[TUTTI_UNIT_TEXT_BYTES];
    char time[16];

    if (row == UINT32_MAX)
        fprintf(out, "#%*s", SIZE_COLUMNS - 1, "us");
    else
        fprintf(out, "%*s", SIZE_COLUMNS,
                tutti_print_size(tutti_ranking_at(ranking, row, 0)->answer.bytes, text));
    for (uint32_t i = 0; i < count; i++) {
        const struct tutti_point *point =
            row == UINT32_MAX ? NULL : tutti_ranking_point(ranking, row, listed[i]);
        double us = point != NULL && point->status == 0
                        ? (double)point->answer.time_ps / (double)TUTTI_PS_PER_US
                        : 0;

        if (point == NULL)
            fprintf(out, "%*c", TIME_COLUMNS, ranking->letters[listed[i]]);
        else
            fprintf(out, "%*s", TIME_COLUMNS, point->status == 0 ? time_text(us, time) : "-");
    }
    fputc('\n', out);
}

void tutti_compare_times(const struct tutti_ranking *ranking, int columns, FILE *out)
{
    uint32_t listed[LETTERS_MAX];
    int room = (columns - SIZE_COLUMNS) / TIME_COLUMNS;
    uint32_t most = room < 1 ? 1 : room < LETTERS_MAX ? (uint32_t)room : LETTERS_MAX;
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranking->sweep->algorithm_count; i++) {
        if (runs(ranking, i))
            listed[count++] = i;
        if (count == 0 || (count < most && i + 1 < ranking->sweep->algorithm_count))
            continue;
        print_line(ranking, UINT32_MAX, listed, count, out);
        for (uint32_t row = 0; row < ranking->row_count; row++)
            print_line(ranking, row, listed, count, out);
        count = 0;
    }
}
