/* A row in the making: its cells are put into it one by one, then what follows from them. */
#ifndef TUTTI_TRACES_TRAINING_READING_H
#define TUTTI_TRACES_TRAINING_READING_H

#include <stdbool.h>

#include "traces/training.h"
#include "traces/training/columns.h"

struct tutti_training_reading {
    struct tutti_arena *arena;
    struct tutti_training_row *row;
    const char *batch; /* these two as stated: read last, for they depend on the precision */
    const char *accum;
    bool failed; /* no memory */
};

/* A row of which nothing is stated yet. */
void tutti_training_reading_open(struct tutti_training_reading *reading, struct tutti_arena *arena,
                                 struct tutti_training_row *row, const char *file, uint32_t line);

/* Puts a cell into the row. Of two columns for one number the first that is stated counts. */
void tutti_training_put(struct tutti_training_reading *reading,
                        const struct tutti_training_column *column, const char *text);

/* Reads the batch and what was accumulated, and finds the measured step. */
void tutti_training_reading_close(struct tutti_training_reading *reading);

/* Sets measured_step_s or `why` from the settings and the results. */
void tutti_training_find_step(struct tutti_training_row *row);

/* Says what is wrong with a setting, unless something was before. */
__attribute__((format(printf, 3, 4))) void
tutti_training_problem(struct tutti_training_reading *reading, const char *column,
                       const char *format, ...);

/* A number from 0 without anything behind it; false: it is none. */
bool tutti_training_number(const char *text, double *ret);

/* A whole one from `least`, at most 1e15. */
bool tutti_training_count(const char *text, int64_t least, int64_t *ret);

/* Reads the two cells that may each hold two numbers; see batch.c. */
void tutti_training_read_batch(struct tutti_training_reading *reading);

#endif
