/* Results as a table of typed columns; see output.h. */
#include "tools/cli/output.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/table.h"

struct tutti_table *tutti_table_new(const struct tutti_column *columns, size_t column_count)
{
    struct tutti_table *table = calloc(1, sizeof(*table));

    assert(column_count > 0 && column_count <= TUTTI_COLUMNS_MAX);
    if (table != NULL) {
        table->columns = columns;
        table->column_count = column_count;
    }
    return table;
}

void tutti_table_free(struct tutti_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->row_count * table->column_count; i++) {
        if (table->columns[i % table->column_count].type == TUTTI_CELL_TEXT)
            free(table->cells[i].text);
    }
    free(table->cells);
    free(table->marked);
    free(table);
}

static bool grow(struct tutti_table *table)
{
    size_t capacity = table->row_capacity == 0 ? 16 : 2 * table->row_capacity;
    union tutti_cell *cells;
    bool *marked;

    if (table->row_count < table->row_capacity)
        return true;
    cells = realloc(table->cells, capacity * table->column_count * sizeof(*cells));
    if (cells == NULL)
        return false;
    table->cells = cells;
    marked = realloc(table->marked, capacity * sizeof(*marked));
    if (marked == NULL)
        return false;
    table->marked = marked;
    table->row_capacity = capacity;
    return true;
}

int tutti_table_add(struct tutti_table *table, ...)
{
    union tutti_cell *row;
    bool complete = true;
    va_list args;

    if (!grow(table))
        return -TUTTI_ENOMEM;
    row = &table->cells[table->row_count * table->column_count];
    va_start(args, table);
    for (size_t i = 0; i < table->column_count; i++) {
        switch (table->columns[i].type) {
        case TUTTI_CELL_TEXT:
            row[i].text = strdup(va_arg(args, const char *));
            complete = complete && row[i].text != NULL;
            break;
        case TUTTI_CELL_COUNT:
            row[i].count = va_arg(args, uint64_t);
            break;
        case TUTTI_CELL_NUMBER:
        case TUTTI_CELL_WHOLE:
            row[i].number = va_arg(args, double);
            break;
        case TUTTI_CELL_BOOL:
            row[i].truth = va_arg(args, int) != 0;
            break;
        }
    }
    va_end(args);
    table->marked[table->row_count] = false;
    table->row_count++;
    if (complete)
        return 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].type == TUTTI_CELL_TEXT)
            free(row[i].text);
    }
    table->row_count--;
    return -TUTTI_ENOMEM;
}

void tutti_table_keep_units(struct tutti_table *table)
{
    table->keeps_units = true;
}

static size_t column_of(const struct tutti_table *table, const char *key)
{
    size_t i = 0;

    while (i < table->column_count && strcmp(table->columns[i].key, key) != 0)
        i++;
    assert(i < table->column_count);
    return i;
}

void tutti_table_group(struct tutti_table *table, const char *first, const char *last,
                       const char *word)
{
    assert(table->group_count < TUTTI_TABLE_GROUPS_MAX);
    table->groups[table->group_count++] = (struct tutti_table_group){
        .first = column_of(table, first), .last = column_of(table, last), .word = word};
}

void tutti_table_less(struct tutti_table *table, const char *const *keys)
{
    table->less = keys;
}

void tutti_table_mark(struct tutti_table *table)
{
    assert(table->row_count > 0);
    table->marked[table->row_count - 1] = true;
}

size_t tutti_table_rows(const struct tutti_table *table)
{
    return table->row_count;
}

const char *tutti_number_text(double value, char *buf)
{
    enum { DIGITS_MAX = 9 };
    double size = fabs(value);
    int digits = size >= 1000 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;

    for (double shown = size * 1e4; shown < 100 && digits < DIGITS_MAX; shown *= 10)
        digits++;
    if (!isfinite(value))
        (void)snprintf(buf, TUTTI_NUMBER_TEXT_BYTES, "N/A");
    else if (size < 1e-9)
        (void)snprintf(buf, TUTTI_NUMBER_TEXT_BYTES, "0");
    else if (size >= 1e12)
        (void)snprintf(buf, TUTTI_NUMBER_TEXT_BYTES, "%.4g", value);
    else
        (void)snprintf(buf, TUTTI_NUMBER_TEXT_BYTES, "%.*f", digits, value);
    return buf;
}

const char *tutti_table_cell(const struct tutti_table *table, size_t row, size_t column, char *buf)
{
    const union tutti_cell *cell = &table->cells[row * table->column_count + column];

    switch (table->columns[column].type) {
    case TUTTI_CELL_TEXT:
        return cell->text;
    case TUTTI_CELL_COUNT:
        (void)snprintf(buf, TUTTI_CELL_BYTES, "%" PRIu64, cell->count);
        return buf;
    case TUTTI_CELL_NUMBER:
        return tutti_number_text(cell->number, buf);
    case TUTTI_CELL_WHOLE:
        (void)snprintf(buf, TUTTI_CELL_BYTES, isfinite(cell->number) ? "%.0f" : "N/A",
                       cell->number);
        return buf;
    case TUTTI_CELL_BOOL:
        return cell->truth ? "yes" : "no";
    }
    return "";
}

/* RFC 4180: a field with a comma, a quote or a line end is quoted, quotes are doubled. */
static void print_field(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void tutti_table_csv(const struct tutti_table *table, FILE *out)
{
    char buf[TUTTI_CELL_BYTES];

    for (size_t i = 0; i < table->column_count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", table->columns[i].key);
    fputc('\n', out);
    for (size_t row = 0; row < table->row_count; row++) {
        for (size_t i = 0; i < table->column_count; i++) {
            const union tutti_cell *cell = &table->cells[row * table->column_count + i];

            if (i > 0)
                fputc(',', out);
            if (table->columns[i].type == TUTTI_CELL_BOOL)
                fputs(cell->truth ? "true" : "false", out);
            else if (table->columns[i].type != TUTTI_CELL_NUMBER &&
                     table->columns[i].type != TUTTI_CELL_WHOLE)
                print_field(out, tutti_table_cell(table, row, i, buf));
            else if (isfinite(cell->number))
                fprintf(out, "%.12g", cell->number);
        }
        fputc('\n', out);
    }
}

void tutti_table_json(const struct tutti_table *table, const char *key, struct tutti_json *json)
{
    tutti_json_open(json, key, '[');
    for (size_t row = 0; row < table->row_count; row++) {
        tutti_json_open(json, NULL, '{');
        for (size_t i = 0; i < table->column_count; i++) {
            const union tutti_cell *cell = &table->cells[row * table->column_count + i];
            const char *name = table->columns[i].key;

            switch (table->columns[i].type) {
            case TUTTI_CELL_TEXT:
                tutti_json_text(json, name, cell->text);
                break;
            case TUTTI_CELL_COUNT:
                tutti_json_count(json, name, cell->count);
                break;
            case TUTTI_CELL_NUMBER:
            case TUTTI_CELL_WHOLE:
                tutti_json_number(json, name, cell->number);
                break;
            case TUTTI_CELL_BOOL:
                tutti_json_bool(json, name, cell->truth);
                break;
            }
        }
        tutti_json_close(json);
    }
    tutti_json_close(json);
}
