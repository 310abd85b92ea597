/* Measurements from CSV, records to CSV. */
#include "traces/csv.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "traces/text/cells.h"
#include "traces/text/text.h"

/* The columns that are read, in the order of `column_names`; NUMBER_COUNT are numbers. */
enum {
    SIZE,
    TIME,
    ALGBW,
    BUSBW,
    IN_TIME,
    IN_ALGBW,
    IN_BUSBW,
    NUMBER_COUNT,
    COLLECTIVE = NUMBER_COUNT,
    COLUMN_COUNT
};

static const char *const column_names[COLUMN_COUNT] = {
    "size_bytes",          "time_us",          "algbw_GBps",
    "busbw_GBps",          "in_place_time_us", "in_place_algbw_GBps",
    "in_place_busbw_GBps", "collective",
};

struct reader {
    struct tutti_trace_cells cells;
    size_t column[COLUMN_COUNT]; /* index of the cell, TUTTI_TRACE_CELLS_MAX: absent */
    bool has_collective;
    enum tutti_collective collective; /* of all rows */
    struct tutti_nccl_row *rows;
    size_t row_count;
    size_t row_capacity;
};

/* The next record that says something; 1: there is one, 0: none. Spreadsheets quote remarks. */
static int next_cells(struct reader *reader, struct tutti_err *err)
{
    const struct tutti_trace_cells *cells = &reader->cells;
    int status;

    while ((status = tutti_trace_cells_next(&reader->cells, err)) == 1) {
        const char *first = cells->cell[0];

        if (!cells->is_remark && first[0] != '#' && (cells->cell_count > 1 || first[0] != '\0'))
            return 1;
    }
    return status;
}

enum { NAME_BYTES_MAX = 32, NEAR = 2 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Whether at most NEAR letters were added, left out or mistaken (Levenshtein, with one row). */
static bool is_near(const char *typed, const char *name)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t typed_bytes = strlen(typed);
    size_t bytes = strlen(name);

    assert(bytes <= NAME_BYTES_MAX);
    if (typed_bytes > bytes + NEAR)
        return false;
    for (size_t j = 0; j <= bytes; j++)
        row[j] = j;
    for (size_t i = 1; i <= typed_bytes; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= bytes; j++) {
            size_t above = row[j];

            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (typed[i - 1] != name[j - 1]));
            diagonal = above;
        }
    }
    return row[bytes] <= NEAR;
}

/* A column that is all but one of ours, which is not there, is that one misspelt: passed over, its
 * figures would be missed by nobody. */
static int refuse_misspelt(const struct reader *reader, struct tutti_err *err)
{
    for (size_t j = 0; j < reader->cells.cell_count; j++) {
        for (size_t i = 0; i < COLUMN_COUNT; i++) {
            if (reader->column[i] == TUTTI_TRACE_CELLS_MAX &&
                is_near(reader->cells.cell[j], column_names[i]))
                return tutti_fail(
                    err, TUTTI_EINVAL, "%s: line %u: unknown column '%s' (did you mean '%s'?)",
                    reader->cells.name, reader->cells.line, reader->cells.cell[j], column_names[i]);
        }
    }
    return 0;
}

/* Reads lines up to the header and finds the columns in it. */
static int read_header(struct reader *reader, struct tutti_err *err)
{
    int status = next_cells(reader, err);

    if (status < 0)
        return status;
    if (status == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: no header line (one with size_bytes and time_us is needed)",
                          reader->cells.name);
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        reader->column[i] = TUTTI_TRACE_CELLS_MAX;
        for (size_t j = reader->cells.cell_count; j > 0; j--) {
            if (strcmp(reader->cells.cell[j - 1], column_names[i]) == 0)
                reader->column[i] = j - 1;
        }
    }
    status = refuse_misspelt(reader, err);
    if (status < 0 || (reader->column[SIZE] < TUTTI_TRACE_CELLS_MAX &&
                       reader->column[TIME] < TUTTI_TRACE_CELLS_MAX))
        return status;
    return tutti_fail(err, TUTTI_EINVAL,
                      "%s: line %u: no column '%s' in the header (the first is '%.40s')",
                      reader->cells.name, reader->cells.line,
                      column_names[reader->column[SIZE] == TUTTI_TRACE_CELLS_MAX ? SIZE : TIME],
                      reader->cells.cell[0]);
}

/* One number of the current line; NAN where the column or the value is missing. */
static int read_cell(const struct reader *reader, size_t which, double *ret, struct tutti_err *err)
{
    size_t index = reader->column[which];
    const char *cell = index < reader->cells.cell_count ? reader->cells.cell[index] : "";
    char *end = NULL;

    *ret = NAN;
    if (cell[0] == '\0' || strcmp(cell, "nan") == 0 || strcmp(cell, "N/A") == 0)
        return 0;
    if (strspn(cell, "0123456789+-.eE") == strlen(cell))
        *ret = strtod(cell, &end);
    if (end == NULL || end == cell || *end != '\0' || !isfinite(*ret) || *ret < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: line %u: '%.40s' in column %s is no number from 0",
                          reader->cells.name, reader->cells.line, cell, column_names[which]);
    return 0;
}

/* One table is of one collective. */
static int read_collective(struct reader *reader, struct tutti_err *err)
{
    size_t index = reader->column[COLLECTIVE];
    const char *cell = index < reader->cells.cell_count ? reader->cells.cell[index] : "";
    enum tutti_collective collective = TUTTI_CUSTOM;
    int status;

    if (index == TUTTI_TRACE_CELLS_MAX)
        return 0;
    status = tutti_collective_find(cell, &collective, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s: line %u", reader->cells.name, reader->cells.line);
    if (reader->has_collective && collective != reader->collective)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: line %u: '%s' in a table of '%s' (one collective a file)",
                          reader->cells.name, reader->cells.line, tutti_collective_name(collective),
                          tutti_collective_name(reader->collective));
    reader->has_collective = true;
    reader->collective = collective;
    return 0;
}

static int read_row(struct reader *reader, struct tutti_nccl_row *row, struct tutti_err *err)
{
    double value[NUMBER_COUNT];
    int status = read_collective(reader, err);

    for (size_t i = 0; i < NUMBER_COUNT && status == 0; i++)
        status = read_cell(reader, i, &value[i], err);
    if (status < 0)
        return status;
    if (isnan(value[SIZE]) || isnan(value[TIME]))
        return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: no %s", reader->cells.name,
                          reader->cells.line, column_names[isnan(value[SIZE]) ? SIZE : TIME]);
    /* 2^63 and more would not survive the way through a double. */
    if (value[SIZE] >= 9e18 || value[SIZE] != floor(value[SIZE]))
        return tutti_fail(
            err, TUTTI_EINVAL, "%s: line %u: size '%.40s' is no whole number of bytes",
            reader->cells.name, reader->cells.line, reader->cells.cell[reader->column[SIZE]]);
    *row = (struct tutti_nccl_row){
        .bytes = (uint64_t)value[SIZE],
        .root = -1,
        .out_of_place = {value[TIME], value[ALGBW], value[BUSBW], NAN},
        .in_place = {value[IN_TIME], value[IN_ALGBW], value[IN_BUSBW], NAN},
        .line = reader->cells.line,
    };
    return 0;
}

static int add_row(struct reader *reader, const struct tutti_nccl_row *row, struct tutti_err *err)
{
    size_t wanted = reader->row_capacity == 0 ? 64 : reader->row_capacity * 2;

    if (reader->row_count == reader->row_capacity) {
        struct tutti_nccl_row *larger = realloc(reader->rows, wanted * sizeof(*larger));
        if (larger == NULL)
            return tutti_nomem(err);
        reader->rows = larger;
        reader->row_capacity = wanted;
    }
    reader->rows[reader->row_count++] = *row;
    return 0;
}

static int read_rows(struct reader *reader, struct tutti_err *err)
{
    struct tutti_nccl_row row;
    int status;

    while ((status = next_cells(reader, err)) == 1) {
        status = read_row(reader, &row, err);
        if (status == 0)
            status = add_row(reader, &row, err);
        if (status < 0)
            return status;
    }
    if (status == 0 && reader->row_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "%s: a header but no rows", reader->cells.name);
    return status;
}

static int finish(const struct reader *reader, struct tutti_nccl_log *ret, struct tutti_err *err)
{
    struct tutti_nccl_log log = {.table_count = 1, .arena = tutti_arena_new()};
    struct tutti_nccl_row *rows = NULL;

    if (log.arena != NULL) {
        log.tables = tutti_arena_take(log.arena, 1, sizeof(*log.tables));
        rows = tutti_arena_take(log.arena, reader->row_count, sizeof(*rows));
    }
    if (log.tables == NULL || rows == NULL) {
        tutti_arena_free(log.arena);
        return tutti_nomem(err);
    }
    memcpy(rows, reader->rows, reader->row_count * sizeof(*rows));
    log.tables[0].rows = rows;
    log.tables[0].row_count = reader->row_count;
    log.tables[0].has_collective = reader->has_collective;
    log.tables[0].collective = reader->has_collective ? reader->collective : TUTTI_CUSTOM;
    log.tables[0].average_busbw_GBps = NAN;
    *ret = log;
    return 0;
}

int tutti_csv_measurements_parse(const char *name, const char *text, size_t bytes,
                                 struct tutti_nccl_log *ret, struct tutti_err *err)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    char *copy = malloc(bytes + 1); /* which is cut into cells */
    int status = reader == NULL || copy == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        status = tutti_trace_cells_open(&reader->cells, name, copy, bytes, err);
    }
    if (status == 0)
        status = read_header(reader, err);
    if (status == 0)
        status = read_rows(reader, err);
    if (status == 0)
        status = finish(reader, ret, err);
    free(copy);
    if (reader != NULL)
        free(reader->rows);
    free(reader);
    return status;
}

int tutti_csv_record_print(const struct tutti_record *record, char **ret, struct tutti_err *err)
{
    struct tutti_trace_text text = {0};

    tutti_trace_text_add(&text, "start_ps,end_ps,rank,lane,step,kind,peer,bytes\n");
    for (size_t i = 0; i < record->event_count; i++) {
        const struct tutti_event *event = &record->events[i];
        tutti_trace_text_add(
            &text,
            "%" PRId64 ",%" PRId64 ",%" PRIu32 ",%u,%" PRIu64 ",%s,%" PRIu32 ",%" PRIu64 "\n",
            event->start_ps, event->end_ps, event->rank, (unsigned)event->lane, event->step,
            tutti_trace_kind_name(event->kind), event->peer, event->bytes);
    }
    return tutti_trace_text_finish(&text, ret, err);
}
