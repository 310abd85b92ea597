/* tutti schedule prove: that every byte of the result is what the collective promises. */
#include <stdio.h>

#include "tools/commands.h"
#include "tools/schedule/schedule_verdict.h"

static const struct tutti_option options[] = {TUTTI_OPTIONS_SCHEDULE_SOURCE, TUTTI_OPTIONS_OUTPUT};

/* A proof says little of a schedule that could race: the check comes first. */
static int check_and_prove(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    int status =
        schedule->contract.collective == TUTTI_CUSTOM ? 0 : tutti_schedule_check(schedule, err);

    return status < 0 ? status : tutti_schedule_prove(schedule, err);
}

int tutti_command_schedule_prove(const struct tutti_args *args, struct tutti_sink *sink,
                                 struct tutti_err *err)
{
    return tutti_schedule_verdict(args, check_and_prove, NULL, sink, err);
}

const struct tutti_command tutti_cli_schedule_prove = {
    .name = "schedule prove",
    .summary = "prove that a schedule computes what its collective promises",
    .operands = "[FILE]",
    .operand_max = 1,
    .text = TUTTI_SCHEDULE_SOURCE_TEXT
    "Checks the schedule, then runs it on sets of contributions instead of bytes: at the end every "
    "byte of every rank's output must hold exactly the contributions that the collective promises, "
    "each once and from the right place, and nothing may have been sent or written in vain. Prints "
    "what was proved in one line, or names the rank and the step that are wrong and exits with 1. "
    "A schedule of the contract 'custom' promises nothing and cannot be proved.",
    .examples = "tutti schedule prove my.schedule\n"
                "tutti schedule prove -c allreduce -a halving-doubling -g 12 -b 1000",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_schedule_prove,
};
