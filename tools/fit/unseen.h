/* Times of what a fit has not seen: each table by a fit without its site, and without its
 * platform. */
#ifndef TUTTI_TOOLS_FIT_UNSEEN_H
#define TUTTI_TOOLS_FIT_UNSEEN_H

#include <stdbool.h>

#include "tools/calibrate/fit_job.h"

struct tutti_sink;

/* How a search begins without something: as many fits are made from the priors, each without
 * 1/TUTTI_FIT_FOLDS of all sites; where one of these is to be left out alone, its fit is moved on
 * to what it has not seen of the others. So no search sees, at any time, what it is judged by: one
 * that begins at the fit of all stays near it, for it is in a corner from which little leads. */
enum { TUTTI_FIT_FOLDS = 5 };

/* The times, as logarithms, of each point by a fit that has not seen its site, or platform. */
struct tutti_fit_unseen {
    bool folds_alone; /* without a fifth of all sites or platforms, not without each */
    double *by_site;
    double *by_platform;
};

/* Finds both, by a solved fit; with ret->folds_alone by the fits without a fifth, which have seen
 * less. tutti_fit_unseen_done() frees them, on failure as well. Price: fits from the priors of all,
 * twice TUTTI_FIT_FOLDS, and but for ret->folds_alone some six predictions for each site and
 * platform. */
int tutti_fit_judge(struct tutti_fit_job *job, struct tutti_fit_unseen *ret,
                    struct tutti_sink *sink, struct tutti_err *err);
void tutti_fit_unseen_done(struct tutti_fit_unseen *unseen);

#endif
