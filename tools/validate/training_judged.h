/* Which rows errors are of. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_JUDGED_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_JUDGED_H

#include "tools/validate/training.h"

/* A measured step that nobody distrusts. */
bool tutti_training_is_judged(const struct tutti_training_case *one);

#endif
