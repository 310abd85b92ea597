/* Reads tables of training steps: a header, remarks that speak of columns, rows; see training.h. */
#include "traces/training.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "traces/text/cells.h"
#include "traces/training/reading.h"

enum { REMARKS_MAX = 64, PASSED_OVER_BYTES = 512 };

/* "# COLUMN: VALUE": what the column holds where a row does not say. */
struct remark {
    const struct tutti_training_column *column;
    const char *value;
};

struct reader {
    struct tutti_trace_cells cells;
    const struct tutti_training_column *column[TUTTI_TRACE_CELLS_MAX]; /* NULL: passed over */
    size_t column_count;                                               /* 0: no header yet */
    bool by_throughput;
    struct remark remarks[REMARKS_MAX];
    size_t remark_count;
    const char *family; /* of a table without such a column */
    char passed_over[PASSED_OVER_BYTES];
};

/* The file's name without its folders and ".csv", in the arena. */
static const char *family_of(struct tutti_arena *arena, const char *name)
{
    const char *slash = strrchr(name, '/');
    char *family = tutti_arena_copy_text(arena, slash != NULL ? slash + 1 : name);
    size_t bytes = family == NULL ? 0 : strlen(family);

    if (bytes > 4 && strcmp(family + bytes - 4, ".csv") == 0)
        family[bytes - 4] = '\0';
    return family;
}

/* ---- remarks and the header ------------------------------------------------------------------ */

static int read_remark(struct reader *reader, struct tutti_err *err)
{
    char *name = reader->cells.cell[0];
    char *colon = strstr(name, ": ");
    const struct tutti_training_column *column;
    size_t i = 0;

    if (colon == NULL && name[0] != '\0' && name[strlen(name) - 1] == ':')
        colon = name + strlen(name) - 1;
    if (colon == NULL)
        return 0;
    *colon = '\0';
    column = tutti_training_column_find(name);
    if (column == NULL)
        return 0;
    while (i < reader->remark_count && reader->remarks[i].column != column)
        i++;
    if (i == REMARKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: more than %d columns in remarks",
                          reader->cells.name, reader->cells.line, REMARKS_MAX);
    reader->remark_count += i == reader->remark_count;
    colon++;
    reader->remarks[i] = (struct remark){column, colon + strspn(colon, " ")};
    return 0;
}

static bool is_result(const struct tutti_training_column *column)
{
    return column->kind == TUTTI_COLUMN_RESULT || column->kind == TUTTI_COLUMN_THROUGHPUT ||
           column->kind == TUTTI_COLUMN_MEMORY;
}

static void pass_over(struct reader *reader, const char *name)
{
    size_t used = strlen(reader->passed_over);

    snprintf(reader->passed_over + used, sizeof(reader->passed_over) - used, "%s%.60s",
             used > 0 ? ", " : "", name);
}

static int read_header(struct reader *reader, struct tutti_err *err)
{
    const struct tutti_trace_cells *cells = &reader->cells;
    bool has_result = false;

    for (size_t i = 0; i < cells->cell_count; i++) {
        const struct tutti_training_column *column = tutti_training_column_find(cells->cell[i]);

        for (size_t j = 0; j < i && column != NULL; j++) {
            if (reader->column[j] == column)
                return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: column '%s' twice", cells->name,
                                  cells->line, column->name);
        }
        reader->column[i] = column;
        if (column == NULL)
            pass_over(reader, cells->cell[i]);
        has_result = has_result || (column != NULL && is_result(column));
        reader->by_throughput =
            reader->by_throughput || (column != NULL && column->kind == TUTTI_COLUMN_THROUGHPUT);
    }
    reader->column_count = cells->cell_count;
    return has_result ? 0
                      : tutti_fail(err, TUTTI_EINVAL,
                                   "%s: line %u: no column of a result among '%.60s, ...' "
                                   "(step_time_s, tokens_per_s_per_gpu, throughput, memory_GB)",
                                   cells->name, cells->line, cells->cell[0]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The columns of the header, each by its cell or else by a remark, then what only remarks say. */
static int read_row(struct reader *reader, struct tutti_arena *arena,
                    struct tutti_training_row *row, struct tutti_err *err)
{
    const struct tutti_trace_cells *cells = &reader->cells;
    struct tutti_training_reading reading;

    if (cells->cell_count != reader->column_count)
        return tutti_fail(
            err, TUTTI_EINVAL, "%s: line %u: %zu cells from '%.40s' on (%zu, as many as columns)",
            cells->name, cells->line, cells->cell_count, cells->cell[0], reader->column_count);
    tutti_training_reading_open(&reading, arena, row, cells->name, cells->line);
    row->by_throughput = reader->by_throughput;
    row->family = reader->family;
    for (size_t i = 0; i < reader->remark_count; i++) {
        bool has_cell = false;

        for (size_t j = 0; j < cells->cell_count; j++)
            has_cell = has_cell || (reader->column[j] == reader->remarks[i].column &&
                                    cells->cell[j][0] != '\0');
        if (!has_cell)
            tutti_training_put(&reading, reader->remarks[i].column, reader->remarks[i].value);
    }
    for (size_t i = 0; i < cells->cell_count; i++) {
        if (reader->column[i] != NULL)
            tutti_training_put(&reading, reader->column[i], cells->cell[i]);
    }
    tutti_training_reading_close(&reading);
    return reading.failed ? tutti_nomem(err) : 0;
}

/* A row takes a line at least, and something stands in it. */
static size_t row_count_max(const char *text, size_t bytes)
{
    size_t count = 1;

    for (size_t i = 1; i < bytes; i++)
        count += text[i - 1] == '\n' && text[i] != '\n';
    return count;
}

static int read_rows(struct reader *reader, struct tutti_training_rows *rows, struct tutti_err *err)
{
    int status;

    while ((status = tutti_trace_cells_next(&reader->cells, err)) == 1) {
        if (reader->cells.is_remark) {
            status = read_remark(reader, err);
        } else if (reader->column_count == 0) {
            status = read_header(reader, err);
        } else {
            struct tutti_training_row *row = &rows->rows[rows->row_count++];

            status = read_row(reader, rows->arena, row, err);
            rows->problem_count += status == 0 && row->problem[0] != '\0';
        }
        if (status < 0)
            return status;
    }
    if (status == 0 && rows->row_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "%s: %s", reader->cells.name,
                          reader->column_count == 0
                              ? "no header line (one with step_time_s or throughput is needed)"
                              : "a header but no rows");
    return status;
}

int tutti_training_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_training_rows *ret, struct tutti_err *err)
{
    struct tutti_training_rows rows = {.arena = tutti_arena_new()};
    struct reader *reader = NULL;
    const char *file = NULL;
    char *copy = NULL;
    int status = 0;

    if (rows.arena != NULL) {
        reader = tutti_arena_take(rows.arena, 1, sizeof(*reader));
        file = tutti_arena_copy_text(rows.arena, name);
        copy = tutti_arena_take(rows.arena, bytes + 1, 1);
        rows.rows = tutti_arena_take(rows.arena, row_count_max(text, bytes), sizeof(*rows.rows));
    }
    if (reader == NULL || file == NULL || copy == NULL || rows.rows == NULL)
        status = tutti_nomem(err);
    if (status == 0) {
        memcpy(copy, text, bytes);
        status = tutti_trace_cells_open(&reader->cells, file, copy, bytes, err);
    }
    if (status == 0 && (reader->family = family_of(rows.arena, name)) == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = read_rows(reader, &rows, err);
    if (status < 0) {
        tutti_arena_free(rows.arena);
        return status;
    }
    rows.passed_over = reader->passed_over;
    *ret = rows;
    return 0;
}

void tutti_training_free(struct tutti_training_rows *rows)
{
    tutti_arena_free(rows->arena);
    *rows = (struct tutti_training_rows){.row_count = 0};
}

int tutti_training_check(const struct tutti_training_rows *rows, struct tutti_err *err)
{
    for (size_t i = 0; i < rows->row_count; i++) {
        if (rows->rows[i].problem[0] != '\0')
            return tutti_fail(err, TUTTI_EINVAL, "%s", rows->rows[i].problem);
    }
    return 0;
}
