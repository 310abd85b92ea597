/* The columns of tables of training steps: which field of a row each is, and how it is written. */
#ifndef TUTTI_TRACES_TRAINING_COLUMNS_H
#define TUTTI_TRACES_TRAINING_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

enum tutti_training_kind {
    TUTTI_COLUMN_TEXT,
    TUTTI_COLUMN_JOINED,      /* a text behind what is there: "llama3.1", then "8b" */
    TUTTI_COLUMN_NAMED,       /* "COLUMN=VALUE; " at the end of the variant */
    TUTTI_COLUMN_VARIANT,     /* a text that may end in results */
    TUTTI_COLUMN_COUNT,       /* from 1 */
    TUTTI_COLUMN_COUNT_FROM0, /* some write 0 for "none" */
    TUTTI_COLUMN_NUMBER,      /* of a setting, times the scale */
    TUTTI_COLUMN_PARAMS,      /* billions, or "760M", "1.7B" */
    TUTTI_COLUMN_ZERO,
    TUTTI_COLUMN_RECOMPUTE,
    TUTTI_COLUMN_PARALLELISM, /* "TP8 PP2 DP4 EP32, GBS256 seq4096" */
    TUTTI_COLUMN_BATCH,       /* may hold two, of mixed precision and of full */
    TUTTI_COLUMN_ACCUM,       /* likewise */
    TUTTI_COLUMN_RESULT,      /* a number, times the scale */
    TUTTI_COLUMN_THROUGHPUT,  /* a result, whose unit may be the column's */
    TUTTI_COLUMN_MEMORY,      /* a number, OOM or failed */
    TUTTI_COLUMN_UNIT,
};

struct tutti_training_column {
    const char *name; /* in the header */
    enum tutti_training_kind kind;
    size_t offset;    /* of the field in struct tutti_training_row; 0 where the kind knows it */
    double scale;     /* what a number of the column is in the field's unit; 0: 1 */
    const char *unit; /* of a throughput whose column says it */
};

/* NULL: no column is called so. */
const struct tutti_training_column *tutti_training_column_find(const char *name);

#endif
