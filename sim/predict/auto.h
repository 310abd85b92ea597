/* The fastest of all algorithms that serve a question. */
#ifndef TUTTI_SIM_PREDICT_AUTO_H
#define TUTTI_SIM_PREDICT_AUTO_H

#include "sim/predict/trial.h"

/* Whether an algorithm serves the collective that is asked for. */
bool tutti_algorithm_serves(const struct tutti_algorithm *algorithm, const struct tutti_ask *ask);

/* A failure of an algorithm that does not fit, is more than this machine can hold, or takes too
 * long: `auto` does without it. */
bool tutti_is_left_out(int status);

/* Writes a time that an algorithm does not go below, under any of the protocols: 0 where to find
 * one would take long. */
int tutti_trial_least(const struct tutti_trial *trial, const struct tutti_algorithm *algorithm,
                      tutti_ps *ret, struct tutti_err *err);

/* Writes the fastest outcome, of equals that of the first algorithm, and notes what was left out:
 * not those that cannot be as fast, by what their busiest link carries. */
int tutti_try_all(const struct tutti_trial *trial, struct tutti_outcome *best,
                  struct tutti_left_out *left_out, struct tutti_err *err);

#endif
