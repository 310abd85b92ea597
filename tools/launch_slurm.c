/* tutti launch slurm: the batch script of a training under Slurm. */
#include <inttypes.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/launch/batch.h"
#include "tools/launch/tasks.h"
#include "tools/launch/words.h"
#include "tools/options.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

enum { NAME_BYTES_MAX = 64 };

static int check_name(const struct tutti_args *args, const char *option, const char *marks,
                      struct tutti_err *err)
{
    const char *text = tutti_args_text(args, option);
    size_t bytes = 0;

    while (text != NULL && text[bytes] != '\0' &&
           (strchr(LETTERS DIGITS, text[bytes]) != NULL || strchr(marks, text[bytes]) != NULL))
        bytes++;
    if (text == NULL || (text[bytes] == '\0' && bytes <= NAME_BYTES_MAX && text[0] != '-'))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--%s': '%.80s' (up to %d letters, digits and '%s', first no '-')",
                      option, text, NAME_BYTES_MAX, marks);
}

/* Slurm's: MIN, MIN:SEC, HOURS:MIN:SEC, DAYS-HOURS, DAYS-HOURS:MIN, DAYS-HOURS:MIN:SEC. */
static int check_time(const char *text, struct tutti_err *err)
{
    const char *p = text;
    int parts = 1;
    bool days = false;
    bool sound = true;

    for (; text != NULL && sound; parts++) {
        size_t digits = strspn(p, DIGITS);

        sound = digits > 0 && digits <= 6;
        p += digits;
        if (*p == '\0')
            break;
        days = days || (*p == '-' && parts == 1);
        sound = sound && (*p == ':' || (*p == '-' && parts == 1));
        p++;
    }
    if (text == NULL || (sound && parts <= (days ? 4 : 3)))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--time': '%.40s' (as 30, 1:30:00 or 2-12:00:00: Slurm's minutes, "
                      "H:M:S or D-H:M:S)",
                      text);
}

static int check(const struct tutti_args *args, const struct tutti_tasks_started *tasks,
                 struct tutti_err *err)
{
    const uint32_t nodes = (uint32_t)tutti_args_number(args, "nodes");
    int status = check_name(args, "name", "._-", err);

    if (status == 0)
        status = check_name(args, "partition", "._-,", err);
    if (status == 0)
        status = check_time(tutti_args_text(args, "time"), err);
    if (status == 0 && nodes > tasks->count)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "option '--nodes': '%" PRIu32 "' nodes for %" PRIu32
                            " tasks (at most one a task)",
                            nodes, tasks->count);
    return status;
}

int tutti_command_launch_slurm(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err)
{
    struct tutti_tasks_started tasks;
    struct tutti_train_words train;
    struct tutti_train_words_ask ask = {.tasks = &tasks, .deadline = "300s"};
    struct tutti_slurm batch = {.tasks = &tasks, .train = &train};
    int status;

    batch.nodes = (uint32_t)tutti_args_number(args, "nodes");
    status = tutti_tasks_started_read(args, batch.nodes, &tasks, err);
    if (status == 0)
        status = check(args, &tasks, err);
    if (status < 0)
        return status;
    ask.launcher = tutti_slurm_has_types(&tasks) ? "tf_config" : "slurm";
    status = tutti_train_words_read(args, &ask, &train, err);
    if (status < 0)
        return status;
    batch.name = tutti_args_text(args, "name");
    batch.partition = tutti_args_text(args, "partition");
    batch.time = tutti_args_text(args, "time");
    batch.gpus = (uint32_t)tutti_args_number(args, "gpus-per-node");
    batch.restarts = (uint32_t)tutti_args_number(args, "restarts");
    return tutti_slurm_print(&batch, sink->out, err);
}

static const struct tutti_option options[] = {
    {.name = "nodes",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "1",
     .min = 1,
     .max = TUTTI_TASKS_STARTED_MAX,
     .help = "that the tasks are spread over"},
    TUTTI_OPTIONS_TASKS("tasks that train (if not given: one a node)"),
    {.name = "time",
     .type = TUTTI_OPTION_TEXT,
     .value = "TIME",
     .help = "after which Slurm ends it, as Slurm writes it: 30, 1:30:00, 2-12:00:00"},
    {.name = "partition",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "of nodes (if not given: Slurm's)"},
    {.name = "gpus-per-node",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "0",
     .min = 0,
     .max = 64,
     .help = "that a node must have"},
    {.name = "name",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "tutti",
     .help = "of the job"},
    {.name = "restarts",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "100",
     .min = 0,
     .max = TUTTI_BATCH_RESTARTS_MAX,
     .help = "times that the job queues itself again"},
};

const struct tutti_command tutti_cli_launch_slurm = {
    .name = "launch slurm",
    .summary = "a batch script that trains a model on nodes of Slurm",
    .operands = "[-- TRAIN-OPTION...]",
    .operand_max = UINT32_MAX,
    .text =
        "Prints a script for 'sbatch'; nothing is started here. What stands behind '--' is passed "
        "on to 'tutti train' in each task, and checked first as that does; -B is tcp if it does "
        "not say, the strategy of servers parameter-server, and --deadline 300s.\n\n"
        "Where all tasks are workers, Slurm's own variables say which of them a process is. With "
        "--ps, --chief or --evaluator the script makes a TF_CONFIG: task i is on node i modulo "
        "the number of nodes, and its type follows from SLURM_PROCID (chief, workers, servers, "
        "evaluator in this order). The processes know each other by a TUTTI_SECRET that the "
        "script draws.\n\n"
        "With train's --checkpoint, in a folder that all nodes share: 60 s before its time is up "
        "Slurm sends SIGTERM to the tasks, which save the same step and end with --stop-code (42); "
        "then, or where a signal has ended a task, the job queues itself again, up to --restarts "
        "times, and goes on from the newest checkpoint.",
    .examples =
        "tutti launch slurm --nodes 4 --time 2:00:00 -- --model mlp --checkpoint /scratch/run1\n"
        "tutti launch slurm --nodes 2 --worker 4 --ps 2 --chief -- --model mlp --steps 10000",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_launch_slurm,
};
