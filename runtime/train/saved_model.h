/* A workload as checkpoints have it: its variables by name and shape, in their flat order, whoever
 * saves them. Private to this room. */
#ifndef TUTTI_RUNTIME_TRAIN_SAVED_MODEL_H
#define TUTTI_RUNTIME_TRAIN_SAVED_MODEL_H

#include "runtime/model.h"
#include "runtime/train/checkpoint.h"

struct tutti_saved_model {
    struct tutti_checkpoint_model model; /* of what follows */
    struct tutti_checkpoint_variable *variables;
    char (*names)[TUTTI_CHECKPOINT_NAME_BYTES_MAX + 1];
};

/* *ret is given back with done, whatever this returns. `model` is borrowed. */
int tutti_saved_model_make(const struct tutti_workload *model, struct tutti_saved_model *ret,
                           struct tutti_err *err);
void tutti_saved_model_done(struct tutti_saved_model *saved);

#endif
