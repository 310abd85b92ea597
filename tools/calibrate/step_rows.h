/* Rows of measured training steps as points of a fit of what devices take. */
#ifndef TUTTI_TOOLS_CALIBRATE_STEP_ROWS_H
#define TUTTI_TOOLS_CALIBRATE_STEP_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/validate/training.h"
#include "tools/validate/training_plan.h"
#include "tools/validate/training_run.h"

struct tutti_err;

struct tutti_step_row {
    const struct tutti_training_row *row;
    struct tutti_training_plan plan;
    const struct tutti_framework *framework; /* as this build has it */
    size_t series;                           /* rows alike but for the number of devices */
    double measured_s;                       /* of a whole step */
    double simulated_s;                      /* by the constants tried last */
    double other_s;                          /* of this what does not hang on constants */
    double given_s;                          /* by those of this build */
    double fitted_s;
    double unseen_s; /* by a fit without rows of its fold; NAN: there is none */
};

struct tutti_step_rows {
    struct tutti_training_tables tables;
    struct tutti_step_row *rows; /* good, measured, and possible to predict */
    size_t row_count;
    size_t all_count; /* rows of the tables */
    size_t degraded_count;
    size_t unmeasured_count;
    char (*whys)[TUTTI_TRAINING_WHY_BYTES]; /* of those that cannot be predicted */
    size_t why_count;
};

/* Reads the tables and simulates all rows once, by what this build has (given_s). -TUTTI_EINVAL
 * where no row is left. On failure there is nothing to close. */
int tutti_step_rows_open(const char *const *paths, size_t path_count, struct tutti_step_rows *ret,
                         struct tutti_err *err);
void tutti_step_rows_close(struct tutti_step_rows *rows);

/* Simulates the rows of a framework by these constants: simulated_s, and what is left of it without
 * the devices. */
int tutti_step_rows_simulate(struct tutti_step_rows *rows, const struct tutti_framework *framework,
                             struct tutti_err *err);

/* What a row takes by these constants, where all that is not of devices stays as it is. */
double tutti_step_row_predict(const struct tutti_step_row *row,
                              const struct tutti_framework *framework);

#endif
