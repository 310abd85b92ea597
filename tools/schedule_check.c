/* tutti schedule check: bounds, matching, cycles, races. */
#include "tools/commands.h"
#include "tools/schedule/schedule_verdict.h"

static const struct tutti_option options[] = {TUTTI_OPTIONS_SCHEDULE_SOURCE, TUTTI_OPTIONS_OUTPUT};

int tutti_command_schedule_check(const struct tutti_args *args, struct tutti_sink *sink,
                                 struct tutti_err *err)
{
    return tutti_schedule_verdict(
        args, tutti_schedule_check,
        "every step is within its buffers, every message is sent and received once, it can finish, "
        "and no two accesses to the same bytes race",
        sink, err);
}

const struct tutti_command tutti_cli_schedule_check = {
    .name = "schedule check",
    .summary = "check a schedule: bounds, matching, cycles, races",
    .operands = "[FILE]",
    .operand_max = 1,
    .text = TUTTI_SCHEDULE_SOURCE_TEXT
    "Checks what must hold of any schedule, whatever it is meant to compute: every step stays "
    "within its buffers; every SEND has its RECV, of the same length; the schedule can finish with "
    "the slots it has; and of two accesses to the same bytes, one a write, something orders one "
    "before the other. Prints one line, or names the rank and the step that are wrong and exits "
    "with 1.",
    .examples = "tutti schedule check my.schedule\n"
                "tutti schedule check -c allreduce -a double-binary-tree -g 16 -b 1M --chunk 64K",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_schedule_check,
};
