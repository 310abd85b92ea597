/* Which options of `validate` say something of what: logs, or this machine. */
#ifndef TUTTI_TOOLS_VALIDATE_VALIDATE_OPTIONS_H
#define TUTTI_TOOLS_VALIDATE_VALIDATE_OPTIONS_H

#include "tools/options.h"

enum { TUTTI_VALIDATE_OPERANDS_MAX = 256 };

/* -TUTTI_EINVAL where an option is given that would say nothing; it is named, and what it is of. */
int tutti_validate_options_check(const struct tutti_args *args, struct tutti_err *err);

#endif
