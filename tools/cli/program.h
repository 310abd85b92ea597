/* A program of commands, of which `tutti` is one: its name, its commands, and what its help says
 * around them. */
#ifndef TUTTI_TOOLS_CLI_PROGRAM_H
#define TUTTI_TOOLS_CLI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/options.h"

struct tutti_cli_program {
    const char *name;    /* as typed: "tutti"; what tutti_command_program() says of each command */
    const char *form;    /* "COMMAND [SPEC] [options]" */
    const char *summary; /* one sentence */
    const char *text;    /* below the commands, as it stands: what operands are, examples */
    const char *hint;    /* to one who types a command that is not there */
    bool has_man_pages;  /* of each command, and of itself (tutti_man_print_all) */
    const struct tutti_command *const *commands; /* in the order in which the help lists them */
    size_t command_count;
};

/* What `PROGRAM WORD...` does with these words; see tutti_cli_call() in tools/cli.h. */
int tutti_cli_program_call(const struct tutti_cli_program *program, int argc, char **argv,
                           struct tutti_sink *sink, struct tutti_err *err);

/* What `PROGRAM help` prints. */
void tutti_cli_program_usage(const struct tutti_cli_program *program, FILE *out);

#endif
