/* Prints the batch script of a training; see batch.h.
 *
 * Of Slurm's manual pages: sbatch signals the steps, not the batch shell, at the time that --signal
 * says; srun ends with the highest code of its tasks, 128 and more where a signal ended one; with
 * --distribution=cyclic task i is on node i modulo the number of nodes, in the order in which
 * `scontrol show hostnames` has them. */
#include "tools/launch/batch.h"

#include <inttypes.h>
#include <string.h>

#include "build.h"
#include "tools/run/hosts.h"

enum { LINE_BYTES = 32768 };

bool tutti_slurm_has_types(const struct tutti_tasks_started *tasks)
{
    return tutti_tasks_started_of(tasks, "worker")->count < tasks->count;
}

static void print_directives(const struct tutti_slurm *b, FILE *out)
{
    const uint32_t each = (b->tasks->count + b->nodes - 1) / b->nodes;

    fprintf(out,
            "#!/bin/bash\n"
            "#SBATCH --job-name=%s\n"
            "#SBATCH --nodes=%" PRIu32 "\n"
            "#SBATCH --ntasks=%" PRIu32 "\n"
            "#SBATCH --ntasks-per-node=%" PRIu32 "\n",
            b->name, b->nodes, b->tasks->count, each);
    if (b->partition != NULL)
        fprintf(out, "#SBATCH --partition=%s\n", b->partition);
    if (b->time != NULL)
        fprintf(out, "#SBATCH --time=%s\n", b->time);
    if (b->gpus > 0)
        fprintf(out, "#SBATCH --gpus-per-node=%" PRIu32 "\n", b->gpus);
    if (b->train->saves)
        fprintf(out,
                "#SBATCH --requeue\n"
                "#SBATCH --open-mode=append\n"
                "#SBATCH --signal=TERM@%d\n",
                TUTTI_BATCH_SIGNAL_S);
    fprintf(out, "# tutti %s launch slurm: ", TUTTI_BUILD_VERSION);
    tutti_tasks_started_print(b->tasks, out);
    fputs("\n# To start them: sbatch FILE\n", out);
    if (!b->train->saves)
        fputs("# Without train's --checkpoint, in a folder that all nodes share, nothing is saved "
              "when time is up,\n# and so nothing is queued again.\n",
              out);
}

/* The addresses of all tasks, by type, as TF_CONFIG's cluster. */
static void print_cluster(const struct tutti_slurm *b, FILE *out)
{
    const char *before = "{";

    fputs("# Task i is on node i modulo the number of nodes, and listens at a port of its own.\n"
          "mapfile -t nodes < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n"
          "port=$((20000 + SLURM_JOB_ID % 10000))\n"
          "addresses() { # FIRST COUNT\n"
          "    local i text=\n"
          "    for ((i = $1; i < $1 + $2; i++)); do\n"
          "        text+=\"${text:+,}\\\"${nodes[i % ${#nodes[@]}]}:$((port + i))\\\"\"\n"
          "    done\n"
          "    printf '[%s]' \"$text\"\n"
          "}\n"
          "TUTTI_CLUSTER=\"",
          out);
    for (size_t i = 0; i < TUTTI_TASK_TYPES; i++) {
        const struct tutti_task_type *t = &b->tasks->types[i];

        if (t->count == 0)
            continue;
        fprintf(out, "%s\\\"%s\\\":$(addresses %" PRIu32 " %" PRIu32 ")", before, t->name, t->first,
                t->count);
        before = ",";
    }
    fputs("}\"\nexport TUTTI_CLUSTER\n\n", out);
}

static int print_step(const struct tutti_slurm *b, FILE *out, struct tutti_err *err)
{
    char line[LINE_BYTES] = "";
    bool complete = true;

    for (uint32_t i = 0; i < b->train->count && complete; i++)
        complete = tutti_shell_add(line, sizeof(line), b->train->words[i]);
    if (!complete)
        return tutti_fail(err, TUTTI_EINVAL, "train: its words have more than '%d' characters",
                          LINE_BYTES - 1);
    fputs("# All tasks say for themselves why they end, and none is ended for another's sake.\n"
          "srun --kill-on-bad-exit=0 --wait=0",
          out);
    if (tutti_slurm_has_types(b->tasks)) {
        fputs(" --distribution=cyclic bash -c '\n"
              "# Which task this is, by its number.\n",
              out);
        tutti_tasks_started_print_shell(b->tasks, "SLURM_PROCID", "", out);
        fputs("' tutti", out);
    } else {
        fputs(" tutti train", out);
    }
    fprintf(out, " \\\n    %s\ncode=$?\n", line);
    return 0;
}

/* What has been saved is gone on from: by who was told to stop, or after a process was lost. */
static void print_requeue(const struct tutti_slurm *b, FILE *out)
{
    fprintf(out,
            "\n# %" PRIu32 ": told to stop, and saved; from 128 on: a task was ended by a signal.\n"
            "if [ \"$code\" -eq %" PRIu32 " ] || [ \"$code\" -ge 128 ]; then\n"
            "    if [ \"${SLURM_RESTART_COUNT:-0}\" -lt %" PRIu32 " ]; then\n"
            "        echo \"ended with $code: queued again\" >&2\n"
            "        scontrol requeue \"$SLURM_JOB_ID\"\n"
            "    else\n"
            "        echo \"ended with $code, and was queued again %" PRIu32 " times\" >&2\n"
            "    fi\n"
            "fi\n",
            b->train->stop_code, b->train->stop_code, b->restarts, b->restarts);
}

int tutti_slurm_print(const struct tutti_slurm *b, FILE *out, struct tutti_err *err)
{
    int status;

    print_directives(b, out);
    fputs("\nset -u\n", out);
    if (!b->train->open && b->tasks->count > 1)
        fputs("# By this the processes know each other; srun's environment is the user's alone.\n"
              "TUTTI_SECRET=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \\n')\n"
              "export TUTTI_SECRET\n",
              out);
    fputc('\n', out);
    if (tutti_slurm_has_types(b->tasks))
        print_cluster(b, out);
    status = print_step(b, out, err);
    if (status == 0 && b->train->saves)
        print_requeue(b, out);
    if (status == 0)
        fputs("exit \"$code\"\n", out);
    return status;
}
