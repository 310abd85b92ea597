/* A fit to tables, and what is printed of it: see fit.c, fit_print.c. */
#ifndef TUTTI_TOOLS_CALIBRATE_FIT_JOB_H
#define TUTTI_TOOLS_CALIBRATE_FIT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/fit.h"
#include "tools/calibrate/fit_cases.h"
#include "tools/calibrate/fit_values.h"

struct tutti_page;
struct tutti_sink;

/* A fit, and the times by it: of all points with what they tell, and of each without its site and
 * without its platform. */
struct tutti_fit_job {
    struct tutti_fit_cases cases;
    struct tutti_fit_values values;
    struct tutti_fit *fit;
    double *observed; /* [point] logarithms */
    double *weight;
    double *prior; /* [parameter] */
    double *sigma;
    struct tutti_fit_problem problem;
    bool folds_alone; /* without a fifth of all sites or platforms, not without each */
    double *seen;
    double *by_site;
    double *by_platform;
};

/* Room for so many, all 0; NULL: no memory. */
double *tutti_fit_numbers(size_t count);

/* The errors by collective and band of sizes, on a page. */
int tutti_fit_print_errors(const struct tutti_fit_job *job, const struct tutti_page *page,
                           struct tutti_err *err);

/* A row a size, with what was measured and the three predictions. */
int tutti_fit_print_csv(const struct tutti_fit_job *job, struct tutti_sink *sink);

/* All of it: errors, and the values of `calib`, of which the data leave `open` open. */
int tutti_fit_print_json(const struct tutti_fit_job *job, const struct tutti_calib *calib,
                         size_t open, struct tutti_sink *sink, struct tutti_err *err);

/* The values of `calib` that this fit has found, with their intervals, and which of them the data
 * leave open; of so many that nobody would read them only how many. */
int tutti_fit_print_values(const struct tutti_fit_job *job, const struct tutti_calib *calib,
                           size_t open, const struct tutti_page *page, struct tutti_err *err);

#endif
