/* Rows of measured training steps for fits: which of them, in groups that are left out in turn. */
#ifndef TUTTI_TOOLS_FIT_ROWS_H
#define TUTTI_TOOLS_FIT_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/validate/training_run.h"
#include "traces/training.h"

struct tutti_args;
struct tutti_err;

enum { TUTTI_FIT_GROUP_BYTES = 128, TUTTI_FIT_FILES_MAX = 16 };

struct tutti_fit_row {
    const struct tutti_training_row *row;
    size_t group; /* rows alike in the columns of --leave-out */
    bool fitted;  /* one of every --every rows with a result */
    bool near;    /* its step takes at most --within times the best of its model and number of
                     devices; without that option, or a measured step of its own, true */
};

struct tutti_fit_rows {
    struct tutti_training_tables tables;
    struct tutti_fit_row *rows; /* good ones whose settings can be read */
    size_t row_count;
    char (*groups)[TUTTI_FIT_GROUP_BYTES]; /* "hidden=2048 tp=1" */
    size_t group_count;
};

/* The tables of a command's operands, by its options below. */
int tutti_fit_rows_open(const struct tutti_args *args, struct tutti_fit_rows *ret,
                        struct tutti_err *err);
void tutti_fit_rows_close(struct tutti_fit_rows *rows);

/* Whether the one row is another way to do what the other does: the same model, batch and number of
 * devices. */
bool tutti_fit_rows_alike(const struct tutti_training_row *a, const struct tutti_training_row *b);

/* "12 rows, median 3.10 %, mean 4.20 %, p90 9.00 %, worst 31.00 %" of errors in percent, which it
 * sorts. */
void tutti_fit_print_spread(double *errors, size_t count, FILE *out);

/* Of commands that open them. */
#define TUTTI_FIT_ROW_OPTIONS                                                                    \
    {.name = "within",                                                                           \
     .type = TUTTI_OPTION_REAL,                                                                  \
     .value = "X",                                                                               \
     .min = 1,                                                                                   \
     .max = 1000000,                                                                             \
     .help = "only rows whose step takes at most X times the best of their model and number of " \
             "devices"},                                                                         \
        {.name = "every",                                                                        \
         .type = TUTTI_OPTION_COUNT,                                                             \
         .value = "N",                                                                           \
         .standard = "1",                                                                        \
         .min = 1,                                                                               \
         .max = 1000000,                                                                         \
         .help = "fit to every Nth row alone"},                                                  \
    {                                                                                            \
        .name = "leave-out", .type = TUTTI_OPTION_TEXT, .value = "COLUMN,...",                   \
        .help = "judge by fits without the rows that have the same in these columns, in turn"    \
    }

#endif
