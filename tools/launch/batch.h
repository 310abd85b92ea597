/* The batch script of a training under Slurm. */
#ifndef TUTTI_TOOLS_LAUNCH_BATCH_H
#define TUTTI_TOOLS_LAUNCH_BATCH_H

#include <stdint.h>
#include <stdio.h>

#include "tools/launch/tasks.h"
#include "tools/launch/words.h"

enum {
    TUTTI_BATCH_SIGNAL_S = 60, /* before its time is up: to save */
    TUTTI_BATCH_RESTARTS_MAX = 10000,
};

struct tutti_slurm {
    const struct tutti_tasks_started *tasks;
    const struct tutti_train_words *train;
    const char *name;
    const char *partition; /* NULL: Slurm's own */
    const char *time;      /* NULL: the partition's */
    uint32_t nodes;
    uint32_t gpus; /* of a node */
    uint32_t restarts;
};

/* Whether TF_CONFIG has to say what a task is: where not all are workers. Else the variables of
 * Slurm's step say all. */
bool tutti_slurm_has_types(const struct tutti_tasks_started *tasks);

/* -TUTTI_EINVAL: the words are too many for a line of shell. */
int tutti_slurm_print(const struct tutti_slurm *batch, FILE *out, struct tutti_err *err);

#endif
