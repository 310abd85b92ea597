/* A fit that is yet to be made: at its priors, with copies of what it is made to. */
#ifndef TUTTI_SIM_FIT_RESULT_H
#define TUTTI_SIM_FIT_RESULT_H

#include <stddef.h>

struct tutti_fit;
struct tutti_fit_problem;

/* NULL: no memory; tutti_fit_free() is in sim/fit.h. */
struct tutti_fit *tutti_fit_new(const struct tutti_fit_problem *problem);

/* Room for so many numbers, all 0; NULL: no memory. */
double *tutti_fit_zeros(size_t count);

#endif
