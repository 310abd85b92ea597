/* What an option of `validate` is of; see validate_options.h. */
#include "tools/validate/validate_options.h"

#include <stddef.h>

#include "runtime/status.h"

enum { LOGS = 1, TABLES = 2, HERE = 4 }; /* SPEC --log, --all, -B */

/* Others are of all three, or are looked at where they are read. */
static const struct {
    const char *name;
    int of;
} options[] = {
    {"filter", TABLES},
    {"side", LOGS | TABLES},
    {"nodes", LOGS},
    {"collective", LOGS | HERE},
    {"ranks", LOGS | HERE},
    {"model", LOGS | TABLES},
    {"protocol", LOGS | TABLES},
    {"reduce-rate", LOGS | TABLES},
    {"jobs", LOGS | TABLES},
    {"channels", LOGS | HERE},
    {"chunk", LOGS | HERE},
    {"slices", LOGS | HERE},
    {"slots", LOGS | HERE},
    {"stepfactor", HERE},
    {"stepbytes", HERE},
    {"warmup-iters", HERE},
    {"iters", HERE},
    {"schedule", HERE},
    {"datatype", HERE},
    {"op", HERE},
    {"root", HERE},
    {"pin", HERE},
    {"no-pin", HERE},
    {"deadline", HERE},
    {"seed", HERE},
    {"launch", HERE},
    {"hosts", HERE},
    {"dry-run", HERE},
    {"rendezvous", HERE},
    {"interface", HERE},
    {"open", HERE},
    {"launcher", HERE},
    {"engine", HERE},
    {"connections", HERE},
    {"congestion", HERE},
    {"library", HERE},
};

static const char *words_of(int what)
{
    switch (what) {
    case LOGS:
        return "SPEC and '--log'";
    case TABLES:
        return "'--all'";
    case HERE:
        return "'-B'";
    case LOGS | TABLES:
        return "'--log' or '--all'";
    default:
        return "'--log' or '-B'";
    }
}

int tutti_validate_options_check(const struct tutti_args *args, struct tutti_err *err)
{
    int mode = tutti_args_flag(args, "all") ? TABLES : 0;

    if (mode == 0)
        mode = tutti_args_given(args, "backend") ? HERE : LOGS;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if ((options[i].of & mode) == 0 && tutti_args_given(args, options[i].name))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing here (with %s)",
                              options[i].name, words_of(options[i].of));
    }
    return 0;
}
