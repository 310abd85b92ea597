/* What a search for the best parameters holds, and its strides: damped ones, and leaps to where a
 * model that is told to it has the least. Private to sim/fit. */
#ifndef TUTTI_SIM_FIT_SEARCH_H
#define TUTTI_SIM_FIT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/fit.h"

/* What a search holds beside its result. */
struct tutti_fit_search {
    const struct tutti_fit_problem *problem;
    const struct tutti_fit *about; /* whose derivatives, data and priors are used */
    struct tutti_fit *fit;         /* the same while it is being made; else NULL */
    const bool *omitted;           /* [point]; NULL: none */
    double *slopes;                /* [point][parameter]: the derivatives in use ... */
    double *own;                   /* ... or room for such; NULL: problem->approximate() is none */
    double *at;                    /* [parameter]: the best so far */
    double *now;                   /* [point]: its times */
    double objective;              /* and its objective */
    double *matrix;                /* [parameter][parameter] */
    double *vector;                /* [parameter] */
    double *trial;                 /* [parameter] */
    double *times;                 /* [point] */
    double *guess; /* [point]: what the model about `about` says of them; NULL: nothing is left out
                      and all are predicted anew */
};

/* The weight of a residual by which its square counts as Huber's loss does. */
double tutti_fit_search_reweight(const struct tutti_fit *fit, double residual);

/* The precision of the normal prior that pulls as hard where parameter `p` is `x` off its prior. */
double tutti_fit_search_prior_pull(const struct tutti_fit *fit, uint32_t p, double x);

/* Whether a point is heeded. */
bool tutti_fit_search_counts(const struct tutti_fit_search *search, uint32_t point);

double tutti_fit_search_objective(const struct tutti_fit_search *search, const double *values,
                                  const double *times);

/* Times for `values` into search->times. */
int tutti_fit_search_predict(struct tutti_fit_search *search, const double *values,
                             struct tutti_err *err);

/* One step downhill; *ret_better: by how much of the objective, 0 where no damping helps. */
int tutti_fit_search_descend(struct tutti_fit_search *search, double *damping, double *ret_better,
                             struct tutti_err *err);

/* Moves search->at to where the model has the least, with its times in search->now and, if it is
 * approximate(), its derivatives in search->slopes. False where there is no such place. */
bool tutti_fit_search_leap(struct tutti_fit_search *search);

#endif
