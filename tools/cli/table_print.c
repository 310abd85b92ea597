/* Tables for people: as wide as a page at most, rates in a unit that shows them; see output.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/table.h"

/* Columns that go, the first first, where a table is too wide: JSON and CSV have them. */
static const char *const less[] = {
    "events",     "keys",
    "root",       "redop",
    "type",       "count",
    "best_us",    "example",
    "slices",     "threads",
    "latency_us", "bound_kind",
    "algbw_GBps", "in_place_algbw_GBps",
    "null_us",    "channels_allowed",
    "channels",   "runner_up_us",
};

/* And where texts in further lines do not help: those that say the same in every row, then others.
 */
static const char *const alike[] = {"collective", "library", "quality"};
static const char *const least[] = {
    "worst_bytes", "site",        "bound_us", "quality", "library", "median_abs_percent_from_16MiB",
    "bins",        "worst_table", "tables",   "machine",
};

enum { TEXT_COLUMNS_MIN = 12 };

struct layout {
    const struct tutti_table *table;
    const struct tutti_page *page;
    bool shown[TUTTI_COLUMNS_MAX];
    int width[TUTTI_COLUMNS_MAX];
    size_t last; /* of the columns shown */
    double scale;
    const char *rate_unit; /* of columns of GB/s, which are printed times `scale` */
};

static bool is_rate(const struct tutti_column *column)
{
    return column->type == TUTTI_CELL_NUMBER && strcmp(column->unit, "GB/s") == 0;
}

/* All rates of a table in one unit, in which the largest is not below 1. */
static void choose_unit(struct layout *layout)
{
    const struct tutti_table *table = layout->table;
    double most = 0;

    for (size_t i = 0; i < table->row_count * table->column_count; i++) {
        if (is_rate(&table->columns[i % table->column_count]) && isfinite(table->cells[i].number))
            most = fmax(most, fabs(table->cells[i].number));
    }
    layout->scale = table->keeps_units || most >= 1 || most < 1e-9 ? 1 : most >= 1e-3 ? 1e3 : 1e6;
    layout->rate_unit = layout->scale < 10 ? "GB/s" : layout->scale < 1e4 ? "MB/s" : "kB/s";
}

static const char *unit_of(const struct layout *layout, size_t column)
{
    const struct tutti_column *at = &layout->table->columns[column];

    return is_rate(at) ? layout->rate_unit : at->unit;
}

static const char *cell_of(const struct layout *layout, size_t row, size_t column, char *buf)
{
    const struct tutti_table *table = layout->table;

    if (is_rate(&table->columns[column]))
        return tutti_number_text(
            table->cells[row * table->column_count + column].number * layout->scale, buf);
    return tutti_table_cell(table, row, column, buf);
}

static int longest(int a, size_t b)
{
    return b > (size_t)a ? (int)b : a;
}

static int column_width(const struct layout *layout, size_t column)
{
    char buf[TUTTI_CELL_BYTES];
    const char *unit = unit_of(layout, column);
    int width = longest((int)strlen(layout->table->columns[column].title),
                        strlen(unit) + (*unit != '\0' ? 2u : 0u));

    for (size_t row = 0; row < layout->table->row_count; row++)
        width = longest(width, strlen(cell_of(layout, row, column, buf)));
    return width;
}

static int total(struct layout *layout)
{
    int columns = 1;

    for (size_t i = 0; i < layout->table->column_count; i++) {
        if (layout->shown[i]) {
            columns += 2 + layout->width[i];
            layout->last = i;
        }
    }
    return columns;
}

static bool is_text(const struct layout *layout, size_t column)
{
    return layout->table->columns[column].type == TUTTI_CELL_TEXT;
}

/* The widest column of text, or -1 where none is wider than it has to be. */
static int widest_text(const struct layout *layout)
{
    int widest = -1;

    for (size_t i = 0; i < layout->table->column_count; i++) {
        if (layout->shown[i] && is_text(layout, i) && layout->width[i] > TEXT_COLUMNS_MIN &&
            (widest < 0 || layout->width[i] >= layout->width[widest]))
            widest = (int)i;
    }
    return widest;
}

static void narrow(struct layout *layout, int columns)
{
    int widest = 0;

    while (total(layout) > columns && (widest = widest_text(layout)) >= 0)
        layout->width[widest]--;
}

static bool is_alike(const struct tutti_table *table, size_t column)
{
    for (size_t row = 1; row < table->row_count; row++) {
        if (strcmp(table->cells[row * table->column_count + column].text,
                   table->cells[column].text) != 0)
            return false;
    }
    return table->row_count > 1;
}

/* The column of that name goes where the table is too wide; `only_alike`: and says nothing. */
static void leave_out(struct layout *layout, const char *key, int columns, bool only_alike)
{
    const struct tutti_table *table = layout->table;

    for (size_t i = 0; i < table->column_count && total(layout) > columns; i++) {
        if (strcmp(table->columns[i].key, key) == 0 &&
            (!only_alike || (is_text(layout, i) && is_alike(table, i))))
            layout->shown[i] = false;
    }
}

/* Of both places, or of neither. */
static void pair(struct layout *layout)
{
    const struct tutti_column *columns = layout->table->columns;
    bool first = true;

    for (size_t i = 0; i < layout->table->column_count; i++) {
        if (strcmp(columns[i].key, "algbw_GBps") == 0)
            first = layout->shown[i];
        else if (strcmp(columns[i].key, "in_place_algbw_GBps") == 0)
            layout->shown[i] = layout->shown[i] && first;
    }
}

/* Makes room on a page of `columns`: those that matter less go, then the widest texts go on in
 * further lines. Numbers stay as they are. */
static void fit(struct layout *layout, int columns)
{
    int whole[TUTTI_COLUMNS_MAX];

    for (size_t k = 0; k < sizeof(less) / sizeof(less[0]); k++)
        leave_out(layout, less[k], columns, false);
    for (size_t k = 0; layout->table->less != NULL && layout->table->less[k] != NULL; k++)
        leave_out(layout, layout->table->less[k], columns, false);
    pair(layout);
    memcpy(whole, layout->width, sizeof(whole));
    narrow(layout, columns);
    for (size_t k = 0; k < sizeof(alike) / sizeof(alike[0]); k++)
        leave_out(layout, alike[k], columns, true);
    for (size_t k = 0; k < sizeof(least) / sizeof(least[0]); k++)
        leave_out(layout, least[k], columns, false);
    memcpy(layout->width, whole, sizeof(whole)); /* in the room that those have left */
    narrow(layout, columns);
}

/* The titles that the page is too narrow for, though one as wide as they come has them. */
static void print_left_out(const struct layout *layout, const struct layout *wide)
{
    const struct tutti_table *table = layout->table;
    FILE *out = layout->page->out;
    size_t count = 0;
    size_t told = 0;

    for (size_t i = 0; i < table->column_count; i++)
        count += wide->shown[i] && !layout->shown[i];
    if (count == 0)
        return;
    fprintf(out, "# %d columns, too few for ", layout->page->columns);
    for (size_t i = 0; i < table->column_count; i++) {
        if (!wide->shown[i] || layout->shown[i])
            continue;
        fprintf(out, "%s%s",
                told == 0           ? ""
                : told + 1 == count ? " and "
                                    : ", ",
                table->columns[i].title);
        told++;
    }
    fprintf(out, " (%d show %s)\n", TUTTI_PAGE_COLUMNS, count == 1 ? "it" : "them");
}

/* Text leans to the left, numbers to the right; no blanks at the end of a line. */
static void print_cell(FILE *out, const char *text, int bytes, int width, bool left, bool last)
{
    if (!left)
        fprintf(out, "  %*s%.*s", width - bytes, "", bytes, text);
    else
        fprintf(out, "  %.*s%*s", bytes, text, last ? 0 : width - bytes, "");
}

/* How much of a text goes into this line of its cell: up to a blank. A word that is too long is
 * cut, and ends in two dots. */
static int part(const char *text, int width, bool *ret_cut)
{
    int bytes = (int)strlen(text);
    int blank = width;

    *ret_cut = false;
    if (bytes <= width)
        return bytes;
    while (blank > 0 && text[blank] != ' ')
        blank--;
    *ret_cut = blank == 0;
    return blank > 0 ? blank : width - 2;
}

/* Words above groups of columns, each in the middle of what its columns take. */
static void print_groups(const struct layout *layout)
{
    FILE *out = layout->page->out;
    int at = 1;
    int told = 1;

    if (layout->table->group_count == 0)
        return;
    fputs(TUTTI_PAGE_TITLE "#", out);
    for (size_t i = 0, g = 0; g < layout->table->group_count; g++) {
        const struct tutti_table_group *group = &layout->table->groups[g];
        int bytes = (int)strlen(group->word);
        int wide = 0;

        for (; i <= group->last; i++) {
            int columns = layout->shown[i] ? 2 + layout->width[i] : 0;

            at += i < group->first ? columns : 0;
            wide += i < group->first ? 0 : columns;
        }
        at += 2 + (wide - 2 - bytes) / 2;
        fprintf(out, "%*s%s", at - told, "", group->word);
        told = at + bytes;
        at += wide - 2 - (wide - 2 - bytes) / 2;
    }
    fputc('\n', out);
}

static void print_titles(const struct layout *layout, bool units)
{
    const struct tutti_column *columns = layout->table->columns;
    FILE *out = layout->page->out;
    size_t last = layout->last;

    while (units && last > 0 && (!layout->shown[last] || columns[last].unit[0] == '\0'))
        last--;
    if (units && columns[last].unit[0] == '\0')
        return;
    fputs(TUTTI_PAGE_TITLE "#", out);
    for (size_t i = 0; i <= last; i++) {
        char unit[TUTTI_CELL_BYTES];
        const char *name = unit_of(layout, i);
        const char *text;

        if (!layout->shown[i])
            continue;
        (void)snprintf(unit, sizeof(unit), *name != '\0' ? "(%s)" : "%s", name);
        text = units ? unit : columns[i].title;
        print_cell(out, text, (int)strlen(text), layout->width[i], is_text(layout, i), i == last);
    }
    fputc('\n', out);
}

/* One line of a row: of each text what is left of it; `rest` is moved behind what was printed.
 * Returns whether anything is left. */
static bool print_part(const struct layout *layout, size_t row, const char **rest)
{
    const struct tutti_table *table = layout->table;
    const struct tutti_page *page = layout->page;
    bool more = false;
    size_t end = layout->last;

    while (end > 0 && (!layout->shown[end] || rest[end][0] == '\0'))
        end--;
    fputc(' ', page->out);
    for (size_t i = 0; i <= end; i++) {
        bool wrong = (strcmp(table->columns[i].key, "wrong") == 0 ||
                      strcmp(table->columns[i].key, "in_place_wrong") == 0) &&
                     rest[i][0] != '\0' && table->cells[row * table->column_count + i].number > 0;
        int bytes;
        bool cut;

        if (!layout->shown[i])
            continue;
        bytes = part(rest[i], layout->width[i], &cut);
        fputs(wrong ? tutti_page_red(page) : "", page->out);
        print_cell(page->out, rest[i], bytes, layout->width[i] - 2 * cut, is_text(layout, i),
                   i == end);
        fputs(cut ? ".." : "", page->out);
        fputs(wrong ? tutti_page_plain(page) : "", page->out);
        rest[i] += cut ? strcspn(rest[i], " ") : (size_t)bytes;
        rest[i] += strspn(rest[i], " ");
        more = more || rest[i][0] != '\0';
    }
    return more;
}

static void print_row(const struct layout *layout, size_t row)
{
    const struct tutti_table *table = layout->table;
    const struct tutti_page *page = layout->page;
    char text[TUTTI_COLUMNS_MAX][TUTTI_CELL_BYTES];
    const char *rest[TUTTI_COLUMNS_MAX];
    bool more = true;

    for (size_t i = 0; i < table->column_count; i++)
        rest[i] = layout->shown[i] ? cell_of(layout, row, i, text[i]) : "";
    while (more) {
        fputs(table->marked[row] ? tutti_page_bold(page) : "", page->out);
        more = print_part(layout, row, rest);
        fputs(table->marked[row] ? tutti_page_plain(page) : "", page->out);
        fputc('\n', page->out);
    }
}

void tutti_table_print(const struct tutti_table *table, const struct tutti_page *page)
{
    struct layout layout = {.table = table, .page = page};
    struct layout wide;

    choose_unit(&layout);
    for (size_t i = 0; i < table->column_count; i++) {
        layout.shown[i] = table->columns[i].title != NULL;
        if (layout.shown[i])
            layout.width[i] = column_width(&layout, i);
    }
    wide = layout;
    fit(&layout, page->columns);
    fit(&wide, TUTTI_PAGE_COLUMNS);
    print_left_out(&layout, &wide);
    print_groups(&layout);
    print_titles(&layout, false);
    print_titles(&layout, true);
    for (size_t row = 0; row < table->row_count; row++)
        print_row(&layout, row);
}
