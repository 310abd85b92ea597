/* tutti validate --all: every prediction against everything that was measured. */
#ifndef TUTTI_TOOLS_FIT_ACCURACY_ALL_H
#define TUTTI_TOOLS_FIT_ACCURACY_ALL_H

#include "tools/options.h"

/* The whole of it, with the options of validate. */
int tutti_validate_all(const struct tutti_args *args, struct tutti_sink *sink,
                       struct tutti_err *err);

#endif
