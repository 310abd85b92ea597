/* Predicts rows of training steps by simulating them (sim/train.h), for `validate --training`. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_PREDICT_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_PREDICT_H

#include "tools/validate/training.h"

struct tutti_calib_option;
struct tutti_training_simulator; /* what predictions of one report tell each other */

/* `calib`: by what is given there, borrowed; NULL: by what this build has. */
int tutti_training_simulator_new(const struct tutti_calib_option *calib,
                                 struct tutti_training_simulator **ret, struct tutti_err *err);
void tutti_training_simulator_free(struct tutti_training_simulator *simulator); /* NULL: a no-op */

/* Looks at settings alone. With an anchor of the same model, device, precision and framework the
 * device takes so many times as long as modelled that the anchor's own prediction is what was
 * measured of it; any other, and one that cannot be predicted, changes nothing. */
struct tutti_training_predictor tutti_training_simulate(struct tutti_training_simulator *simulator);

#endif
