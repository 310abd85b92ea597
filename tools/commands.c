/* The commands of `tutti`, and what its help says around them. */
#include "tools/commands.h"

#include "tools/cli.h"
#include "tools/cli/program.h"

/* clang-format off */
static const struct tutti_command *const commands[] = {
    &tutti_cli_topo_list,
    &tutti_cli_topo_show,
    &tutti_cli_topo_bound,
    &tutti_cli_topo_convert,
    &tutti_cli_train,
    &tutti_cli_plan,
    &tutti_cli_launch_kubernetes,
    &tutti_cli_launch_slurm,
    &tutti_cli_worker,
    &tutti_cli_explain,
    &tutti_cli_predict,
    &tutti_cli_compare,
    &tutti_cli_run,
    &tutti_cli_validate,
    &tutti_cli_calibrate,
    &tutti_cli_model_list,
    &tutti_cli_model_show,
    &tutti_cli_schedule_show,
    &tutti_cli_schedule_check,
    &tutti_cli_schedule_prove,
    &tutti_cli_schedule_convert,
    &tutti_cli_doctor,
    &tutti_cli_completion,
};
/* clang-format on */

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static const struct tutti_cli_program program = {
    .name = "tutti",
    .form = "COMMAND [SPEC] [options]",
    .summary =
        "Predicts what collectives and training steps cost, and plays the same schedule here.",
    .text = "SPEC is a machine: a preset such as 'dgx-h100:nodes=2' ('tutti topo list' shows "
            "all),\nor a file: NCCL topology XML, or the text of 'tutti topo convert'.\n\n"
            "Not yet: tensor, pipeline and expert parallelism played for real on GPUs;\n"
            "links that break. Several GPUs in a process have been played on stand-ins only.\n\n"
            "examples:\n"
            "  tutti compare dgx-h100\n"
            "  tutti predict dgx-h100:nodes=16 -a ring,hierarchical -b 1M -e 1G -f 4\n"
            "  tutti train dgx-h100:nodes=4 --model llama3-8b --strategy fsdp --precision bf16\n"
            "  tutti run -B threads -g 4 -a ring -b 64K -e 16M -f 4\n"
            "  tutti train -B tcp --launch ps=1,worker=2 --model linear-regression\n",
    .hint = "'tutti help' lists them, and what is not there yet",
    .has_man_pages = true,
    .commands = commands,
    .command_count = COMMAND_COUNT,
};

const struct tutti_command *const *tutti_commands(size_t *ret_count)
{
    *ret_count = COMMAND_COUNT;
    return commands;
}

int tutti_cli_call(int argc, char **argv, struct tutti_sink *sink, struct tutti_err *err)
{
    return tutti_cli_program_call(&program, argc, argv, sink, err);
}
