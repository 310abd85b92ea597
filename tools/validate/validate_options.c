/* What an option of `validate` is of; see validate_options.h. */
#include "tools/validate/validate_options.h"

#include <stddef.h>

#include "runtime/status.h"

enum { LOGS = 1, HERE = 2 }; /* SPEC --log, -B */

/* Others are of both, or are looked at where they are read. */
static const struct {
    const char *name;
    int of;
} options[] = {
    {"side", LOGS},         {"nodes", LOGS},      {"model", LOGS},       {"protocol", LOGS},
    {"reduce-rate", LOGS},  {"jobs", LOGS},       {"stepfactor", HERE},  {"stepbytes", HERE},
    {"warmup-iters", HERE}, {"iters", HERE},      {"schedule", HERE},    {"datatype", HERE},
    {"op", HERE},           {"root", HERE},       {"pin", HERE},         {"no-pin", HERE},
    {"deadline", HERE},     {"seed", HERE},       {"launch", HERE},      {"hosts", HERE},
    {"dry-run", HERE},      {"rendezvous", HERE}, {"interface", HERE},   {"open", HERE},
    {"launcher", HERE},     {"engine", HERE},     {"connections", HERE}, {"congestion", HERE},
    {"library", HERE},
};

int tutti_validate_options_check(const struct tutti_args *args, struct tutti_err *err)
{
    int mode = tutti_args_given(args, "backend") ? HERE : LOGS;

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].of != mode && tutti_args_given(args, options[i].name))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing here (with %s)",
                              options[i].name, options[i].of == HERE ? "'-B'" : "SPEC and '--log'");
    }
    return 0;
}
