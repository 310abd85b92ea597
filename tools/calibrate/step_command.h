/* `calibrate --training`: constants of frameworks fitted to one's own measured steps. */
#ifndef TUTTI_TOOLS_CALIBRATE_STEP_COMMAND_H
#define TUTTI_TOOLS_CALIBRATE_STEP_COMMAND_H

#include "tools/calibrate/step_fit.h"

struct tutti_args;
struct tutti_calib;
struct tutti_err;
struct tutti_sink;

enum { TUTTI_STEP_FITS_MAX = 16, TUTTI_STEP_FILES_MAX = 64 };

/* All fits of one call: one a framework that has rows. */
struct tutti_step_report {
    const struct tutti_step_rows *rows;
    struct tutti_step_fit fits[TUTTI_STEP_FITS_MAX];
    size_t fit_count;
    const char *output; /* the file that was written; NULL: none */
};

int tutti_calibrate_training(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err);

/* As option --format asks: errors by family and the constants; both as JSON; or each row as CSV. */
int tutti_step_print(const struct tutti_args *args, const struct tutti_step_report *report,
                     struct tutti_sink *sink, struct tutti_err *err);

#endif
