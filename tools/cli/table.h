/* What is in a table of results, for what prints it (output.c, table_print.c). */
#ifndef TUTTI_TOOLS_CLI_TABLE_H
#define TUTTI_TOOLS_CLI_TABLE_H

#include "tools/cli/output.h"

union tutti_cell {
    char *text;
    uint64_t count;
    double number;
    bool truth;
};

enum { TUTTI_TABLE_GROUPS_MAX = 2 };

/* Columns that have a word above their titles. */
struct tutti_table_group {
    size_t first;
    size_t last;
    const char *word;
};

struct tutti_table {
    const struct tutti_column *columns;
    size_t column_count;
    union tutti_cell *cells; /* [row_count * column_count] */
    bool *marked;            /* [row_count] */
    bool keeps_units;
    const char *const *less; /* keys that matter less than others, NULL behind the last; or NULL */
    struct tutti_table_group groups[TUTTI_TABLE_GROUPS_MAX];
    size_t group_count;
    size_t row_count;
    size_t row_capacity;
};

enum { TUTTI_CELL_BYTES = 128 };

/* The text of a cell; `buf` has TUTTI_CELL_BYTES, to which numbers are cut. */
const char *tutti_table_cell(const struct tutti_table *table, size_t row, size_t column, char *buf);

#endif
