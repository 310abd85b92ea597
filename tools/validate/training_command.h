/* `tutti validate --training`: the options of it, and its limit. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_COMMAND_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_COMMAND_H

#include "tools/options.h"

int tutti_validate_training(const struct tutti_args *args, struct tutti_sink *sink,
                            struct tutti_err *err);

#endif
