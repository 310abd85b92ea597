/* Fitting parameters of a cost model to measured times: robust, damped Gauss-Newton in logarithms,
 * with priors. It knows neither machines nor collectives: whoever calls predicts. */
#ifndef TUTTI_SIM_FIT_H
#define TUTTI_SIM_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_fit;

#define TUTTI_FIT_NONE UINT32_MAX

/* All numbers are natural logarithms, of parameters and of times, so that a residual of 0.05 is an
 * error of 5 % and no parameter turns negative. */
struct tutti_fit_problem {
    uint32_t parameter_count;
    uint32_t point_count;
    const double *prior;       /* [parameter]: where the search begins, and what pulls it back */
    const double *prior_sigma; /* [parameter]: how far it may stray; 0: as far as data say */
    double
        prior_freedom; /* degrees, of Student's distribution about the priors: the fewer, the less
                             pulls what has strayed far at what is a sum with it; 0: normal */
    const double *observed; /* [point] */
    const double *weight;   /* [point]: 1 counts as one independent measurement; 0: not at all */
    double scale; /* residuals beyond this count by their size, not their square (Huber 1964), so
                     that half-wrong logs do not drag the rest; 0: 0.02 */
    double lost;  /* residuals beyond this count by the logarithm of their size, as Cauchy's do:
                     what is bound by something that the model does not have says little of what it
                     has. In the first two turns none are, in the next three those that are 8, 4
                     and 2 times as far off, so that the end hangs little on the beginning, if
                     iteration_max is 6 or more; 0: none are */
    uint32_t iteration_max; /* times that derivatives are taken; 0: 20 */
    /* Writes the logarithms of all times for `parameters`. Where `changed` is not TUTTI_FIT_NONE
     * only that parameter differs from those of the last call with TUTTI_FIT_NONE, and `times`
     * holds that call's: points that it does not touch need not be written. 0 or a status. */
    int (*predict)(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err);
    /* For tutti_fit_without(), where `skipped` (NULL: none) are points that need not be written:
     * `times` holds what a model about `near` says, and points that hardly take another time than
     * there need not be written, either. NULL: predict() serves. */
    int (*predict_near)(void *context, const double *near, const double *parameters,
                        const bool *skipped, double *times, struct tutti_err *err);
    /* And the derivatives of points that are not `skipped`, whose times are `times`, into whole
     * rows of jacobian[point][parameter]. NULL: all derivatives stay what the model says. */
    int (*differentiate_near)(void *context, const double *parameters, const bool *skipped,
                              const double *times, double *jacobian, struct tutti_err *err);
    /* Times, and unless it is NULL derivatives [point][parameter], as those of `fit` tell them,
     * with nothing predicted: for who knows how times hang on parameters. What has the least by it
     * is tried before smaller steps, and tutti_fit_without() begins there. Points without a weight
     * need not be written. NULL: none but a model linear in logarithms, in tutti_fit_without(). */
    void (*approximate)(void *context, const struct tutti_fit *fit, const double *parameters,
                        double *times, double *jacobian);
    /* Told before each derivative of tutti_fit_solve(), for who waits: which turn of the search,
     * from 0, and by which parameter. NULL: nobody waits. */
    void (*watch)(void *context, uint32_t iteration, uint32_t parameter);
    void *context;
};

/* What came out. Owned by the caller: tutti_fit_free(). */
struct tutti_fit {
    uint32_t parameter_count;
    uint32_t point_count;
    uint32_t iteration_count;
    bool converged;   /* false: stopped at iteration_max */
    double objective; /* at the end; with `objective_first`, of the priors */
    double objective_first;
    double *value;      /* [parameter] */
    double *sigma;      /* [parameter]: standard error, priors included */
    bool *identified;   /* [parameter]: the data say more than the prior did: its sigma shrank below
                           70 %; without a prior, below 0.5 */
    double *predicted;  /* [point], with `value` */
    double *covariance; /* [parameter][parameter], priors included */
    double *jacobian;   /* [point][parameter], there */
    double *robust;     /* [point]: weight after the robust loss */
    double *prior;      /* copies of the problem's */
    double *precision;  /* 1 / prior_sigma^2, or 0 */
    double prior_freedom;
    double *observed;
    double *weight;
    double scale;
    double lost;
};

/* Price: (parameter_count + 1) predictions an iteration and O(points * parameters^2). -TUTTI_EINVAL
 * for no parameter, no point with a weight, what is not a number, or parameters that are told only
 * together and have no prior; what predict() returns. */
int tutti_fit_solve(const struct tutti_fit_problem *problem, struct tutti_fit **ret,
                    struct tutti_err *err);
void tutti_fit_free(struct tutti_fit *fit);

/* Where the search for a fit without the points that are `omitted` comes to: from `fit`, in a few
 * leaps to where approximate(), or a model linear in logarithms, has the least, each time about
 * where the last one came to, with times predicted anew (by predict_near() if there is one), and
 * derivatives of those times that were not what the model said. The first leap is made whatever it
 * gains: in the corner where `fit` ended its search did not see the same points. Values that the
 * points left do not tell go back to their priors. Weights are those of `problem`, whatever `fit`
 * was made to: whoever judges by what is omitted begins at a fit that gave it no weight, for one
 * that did leaves its mark (the nearest corner is where the search stops). values:
 * [parameter_count]. Price: at most six predictions, and derivatives of a few points after each. */
int tutti_fit_without(const struct tutti_fit_problem *problem, const struct tutti_fit *fit,
                      const bool *omitted, double *values, struct tutti_err *err);

TUTTI_API_END

#endif
