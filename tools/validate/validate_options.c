/* What an option of `validate` is of; see validate_options.h. */
#include "tools/validate/validate_options.h"

#include <stddef.h>
#include <string.h>

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

/* Of tables of training steps nothing else is asked. */
static int check_training(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const used[] = {"training", "anchor", "limit", "calib", "format", "output"};
    const struct tutti_command *command = args->command;

    for (size_t i = 0; i < command->option_count; i++) {
        bool known = strcmp(command->options[i].name, "verbose") == 0;

        for (size_t j = 0; j < sizeof(used) / sizeof(used[0]); j++)
            known |= strcmp(command->options[i].name, used[j]) == 0;
        if (!known && args->values[i].given)
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing here (with %s)",
                              command->options[i].name, "SPEC and '--log', or '-B'");
    }
    return 0;
}

int tutti_validate_options_check(const struct tutti_args *args, struct tutti_err *err)
{
    int mode = tutti_args_given(args, "backend") ? HERE : LOGS;

    if (tutti_args_flag(args, "training"))
        return check_training(args, err);
    if (tutti_args_given(args, "anchor"))
        return tutti_fail(err, TUTTI_EINVAL, "option '--anchor' says nothing here (with %s)",
                          "'--training'");
    if (tutti_args_operand(args, 1) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "unexpected word '%s' (one SPEC; several files: %s)",
                          tutti_args_operand(args, 1), "'--training' or '--log'");

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].of != mode && tutti_args_given(args, options[i].name))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing here (with %s)",
                              options[i].name, options[i].of == HERE ? "'-B'" : "SPEC and '--log'");
    }
    return 0;
}
