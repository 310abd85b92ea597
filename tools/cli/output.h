/* Results as a table of typed columns, printed aligned for people, as JSON or as CSV. */
#ifndef TUTTI_TOOLS_CLI_OUTPUT_H
#define TUTTI_TOOLS_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/cli/json.h"

struct tutti_err;
struct tutti_page;

enum tutti_cell_type {
    TUTTI_CELL_TEXT,   /* const char *, copied */
    TUTTI_CELL_COUNT,  /* uint64_t */
    TUTTI_CELL_NUMBER, /* double; NAN: "N/A" in tables, null in JSON, empty in CSV */
    TUTTI_CELL_WHOLE,  /* double, a whole number printed as one; NAN likewise */
    TUTTI_CELL_BOOL,   /* int */
};

struct tutti_column {
    const char *key;   /* in JSON and CSV, with the unit: "time_us" */
    const char *title; /* in the table, "time"; NULL: not shown there */
    const char *unit;  /* in the table, below the title: "us" */
    enum tutti_cell_type type;
};

enum { TUTTI_COLUMNS_MAX = 32 };

struct tutti_table;

/* `columns` must outlive the table. NULL when memory ran out. */
struct tutti_table *tutti_table_new(const struct tutti_column *columns, size_t column_count);
void tutti_table_free(struct tutti_table *table);

/* One row: for each column a value of its type (TEXT const char *, COUNT uint64_t, NUMBER and
 * WHOLE double, BOOL int). 0 or -TUTTI_ENOMEM. */
int tutti_table_add(struct tutti_table *table, ...);
size_t tutti_table_rows(const struct tutti_table *table);

/* What is measured differs from run to run, and its unit must not: GB/s however slow. */
void tutti_table_keep_units(struct tutti_table *table);

/* A word above the titles of columns `first` to `last`; up to two such groups, in their order. */
void tutti_table_group(struct tutti_table *table, const char *first, const char *last,
                       const char *word);

/* Columns of this table, by their keys, that go where it is too wide for the page, the first first,
 * before the texts of others go on below; NULL behind the last. They must outlive the table. */
void tutti_table_less(struct tutti_table *table, const char *const *keys);

/* The row added last is the one to look at. */
void tutti_table_mark(struct tutti_table *table);

/* Aligned columns; the titles and units are lines that begin with '#'. Where they are wider than
 * the page, columns that matter less go first (table_print.c), then names are cut or go on below,
 * never numbers. GB/s are printed as MB/s or kB/s where all of the table are below 1. */
void tutti_table_print(const struct tutti_table *table, const struct tutti_page *page);

void tutti_table_csv(const struct tutti_table *table, FILE *out);
/* An array under `key`, one object a row. */
void tutti_table_json(const struct tutti_table *table, const char *key, struct tutti_json *json);

/* A number for people: about four significant digits, never an exponent below 1e12. */
enum { TUTTI_NUMBER_TEXT_BYTES = 40 };
const char *tutti_number_text(double value, char *buf);

#endif
