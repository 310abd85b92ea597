/* tutti schedule convert: a schedule as text. */
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/commands.h"
#include "tools/schedule/schedule_source.h"

int tutti_command_schedule_convert(const struct tutti_args *args, struct tutti_sink *sink,
                                   struct tutti_err *err)
{
    struct tutti_own own;
    struct tutti_schedule *schedule = NULL;
    char *text = NULL;
    int status = 0;

    if (!tutti_args_is(args, "to", "text"))
        return tutti_fail(err, TUTTI_ELACK, "writing '%s' is not built yet (text)",
                          tutti_args_text(args, "to"));
    status = tutti_schedule_load(args, &own, &schedule, err);
    if (status < 0)
        return status;
    status = tutti_schedule_walkable(schedule, err);
    if (status == 0)
        status = tutti_schedule_print(schedule, &text, err);
    status = tutti_schedule_wrap(args, schedule, status, err);
    if (status == 0)
        status = tutti_file_write(tutti_args_text(args, "output"), text, strlen(text), sink, err);
    free(text);
    tutti_schedule_free(schedule);
    tutti_own_done(&own);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTIONS_SCHEDULE_SOURCE,
    {.name = "to",
     .type = TUTTI_OPTION_CHOICE,
     .value = "text|msccl|goal",
     .standard = "text",
     .help = "format to write (only text so far)"},
    {.letter = 'O',
     .name = "output",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .standard = "-",
     .help = "where to write; - is standard output"},
};

const struct tutti_command tutti_cli_schedule_convert = {
    .name = "schedule convert",
    .summary = "write a schedule in another form",
    .operands = "[FILE]",
    .operand_max = 1,
    .text = TUTTI_SCHEDULE_SOURCE_TEXT
    "Writes it in our text form; reading that text gives the same schedule. MSCCL XML and GOAL are "
    "neither read nor written yet.\n\n"
    "The text form has one statement a line; # begins a comment. The head: 'schedule NAME' first, "
    "then 'contract COLLECTIVE DATATYPE OPERATOR count N [root R]', 'ranks N', 'lanes N' (1), "
    "'slots N' (8), 'scratch N B' (0), and for the contract 'custom' also 'in N B' and 'out N B', "
    "all per rank. Then lane by lane 'rank R lane L' and its steps: 'SEND PLACE N B to R', 'RECV "
    "PLACE N B from R [fuse]', 'REDUCE PLACE = PLACE op PLACE N B [last]', 'COPY PLACE = PLACE N B "
    "[last]', 'COMPUTE TIME' or 'COMPUTE N flops', 'CALL N PLACE PLACE PLACE' (where in, out and "
    "scratch of callee N begin). A PLACE is in+N, out+N, scratch+N or state+N, in bytes. Any step "
    "may end with 'after lane L step S' and then waits for it. 'callee NAME' begins the head of a "
    "schedule that CALL can name, counted from 0.\n\n"
    "Training steps have more in the head: 'state N B' (kept from play to play), 'atomic PLACE N "
    "B' "
    "(updated in any order), groups of ranks as 'axis NAME first N width N stride N size N period "
    "N "
    "repeat N' (axes count from 1; 'CALL N axis A ...' then calls a callee of the group's size), "
    "and what a COMPUTE does as 'work NAME KIND [TIME] [N flops] [N moved]' (counted from 0: "
    "'COMPUTE TIME work W [PLACE]'), followed by 'reads PLACE N B [whole A]' and 'writes PLACE N "
    "B'. A REDUCE, or a COPY with 'last', may name a type and operator of its own and what avg "
    "divides by: '128 B half avg over 4 last'. 'sizes R in N out N scratch N state N' behind the "
    "head are the buffers of a rank that has less.\n\n"
    "With 'chunks N' in the head the elements of 'count' are N equal chunks, and all offsets and "
    "lengths count chunks: 'SEND in+2 1 C to 3', 'scratch 3 C'. Such a schedule has no callees, "
    "and "
    "predict, compare and run --schedule take it at any size.",
    .examples = "tutti schedule convert -c allreduce -a ring -g 4 -b 1K -O ring4.schedule\n"
                "tutti schedule convert -a halving-doubling -g 8 | tutti schedule prove -",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_schedule_convert,
};
