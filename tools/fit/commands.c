/* The commands of `tutti-fit`, and what its help says around them. */
#include "tools/fit/commands.h"

#include "tools/cli/program.h"

static const struct tutti_command *const commands[] = {&tutti_fit_calibrate, &tutti_fit_training,
                                                       &tutti_fit_memory, &tutti_fit_residuals,
                                                       &tutti_fit_accuracy};

static const struct tutti_cli_program program = {
    .name = TUTTI_FIT_PROGRAM,
    .form = "COMMAND [FOLDER|FILE] [options]",
    .summary = "Fits what NCCL's protocols cost to public measurements, and judges predictions by "
               "them.",
    .text = "FOLDER or FILE has tables of measurements, as traces/measured. This program belongs "
            "to the source\ntree and is not installed; costs of one cluster are fitted by 'tutti "
            "calibrate', and held against\nits logs by 'tutti validate'.\n",
    .hint = "'tutti-fit help' lists them",
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
};

int tutti_fit_call(int argc, char **argv, struct tutti_sink *sink, struct tutti_err *err)
{
    return tutti_cli_program_call(&program, argc, argv, sink, err);
}
