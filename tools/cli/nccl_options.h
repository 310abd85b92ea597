/* The options --as-nccl and --env: which NCCL decides, and by which of its variables. */
#ifndef TUTTI_TOOLS_CLI_NCCL_OPTIONS_H
#define TUTTI_TOOLS_CLI_NCCL_OPTIONS_H

#include "sim/nccl.h"
#include "tools/options.h"

#define TUTTI_OPTION_AS_NCCL                                                                  \
    {                                                                                         \
        .name = "as-nccl", .type = TUTTI_OPTION_TEXT, .value = "VERSION",                     \
        .help = "decide as that version of NCCL does: 2.28, 2.28.9, 22809 or latest ('tutti " \
                "doctor' lists them; if not given: 2.28.9)"                                   \
    }

#define TUTTI_OPTION_NCCL_ENV                                                                  \
    {                                                                                          \
        .name = "env", .type = TUTTI_OPTION_LIST, .value = "NAME=VALUE...",                    \
        .help = "variables of NCCL that decide, in its own grammar: NCCL_ALGO=Ring,Tree "      \
                "NCCL_PROTO=^LL; a comma before NCCL_ divides, too. 'inherit' takes those of " \
                "this process, which are else not read"                                        \
    }

struct tutti_nccl_options {
    const struct tutti_nccl_version *version;
    const char *asked;          /* as typed; NULL: nothing was */
    struct tutti_nccl_env *env; /* NULL: nothing is set */
    char *text;                 /* what is set, "NCCL_ALGO=Ring,NCCL_PROTO=LL"; NULL: nothing */
};

/* "nccl", or of what NCCL would run one algorithm: "nccl:ring", "rccl:ring". */
bool tutti_algorithm_is_nccl(const char *name);

/* Which RCCL is modelled, whatever version of NCCL was asked for. */
#define TUTTI_RCCL_WORDS "RCCL of autumn 2025"

/* Reads both; -TUTTI_EINVAL names the option. Of 'inherit', variables that are not modelled are
 * passed over; of those typed, what NCCL documents and what decides nothing here is too, which a
 * line in the notes says. `used`: NCCL decides something here; else to give one is an error, and
 * the version is NULL. */
int tutti_nccl_options_read(const struct tutti_args *args, bool used,
                            struct tutti_nccl_options *ret, struct tutti_sink *sink,
                            struct tutti_err *err);
/* What that error is: -TUTTI_EINVAL if either is given, though NCCL decides nothing. */
int tutti_nccl_options_refuse(const struct tutti_args *args, struct tutti_err *err);
void tutti_nccl_options_done(struct tutti_nccl_options *options);

#endif
