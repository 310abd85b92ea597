/* The tasks of a training that Kubernetes or Slurm starts: how many of which type, and the lines of
 * shell by which one of them finds out which it is. */
#ifndef TUTTI_TOOLS_LAUNCH_TASKS_H
#define TUTTI_TOOLS_LAUNCH_TASKS_H

#include <stdint.h>
#include <stdio.h>

#include "tools/options.h"

enum {
    TUTTI_TASK_TYPES = 4,
    TUTTI_TASKS_STARTED_MAX = 1024, /* TF_CONFIG names all of them in one variable: 128 KiB */
};

/* Those of one type have numbers that follow each other, from `first` on. */
struct tutti_task_type {
    const char *name;    /* as TF_CONFIG has it: "worker" */
    const char *replica; /* as TFJob has it: "Worker" */
    uint32_t first;
    uint32_t count;
};

/* Numbered by type, in this order: chief, worker, ps, evaluator. */
struct tutti_tasks_started {
    struct tutti_task_type types[TUTTI_TASK_TYPES];
    uint32_t count; /* of all */
};

#define TUTTI_OPTIONS_TASKS(workers)                                                            \
    {.name = "worker",                                                                          \
     .type = TUTTI_OPTION_COUNT,                                                                \
     .value = "N",                                                                              \
     .min = 0,                                                                                  \
     .max = TUTTI_TASKS_STARTED_MAX,                                                            \
     .help = workers},                                                                          \
        {.name = "ps",                                                                          \
         .type = TUTTI_OPTION_COUNT,                                                            \
         .value = "N",                                                                          \
         .standard = "0",                                                                       \
         .min = 0,                                                                              \
         .max = TUTTI_TASKS_STARTED_MAX,                                                        \
         .help = "parameter servers, of strategy parameter-server"},                            \
        {.name = "chief",                                                                       \
         .type = TUTTI_OPTION_FLAG,                                                             \
         .help = "a task of type chief: beside servers it leads and computes nothing, else it " \
                 "is one worker more, the first"},                                              \
    {                                                                                           \
        .name = "evaluator", .type = TUTTI_OPTION_FLAG,                                         \
        .help = "a task that looks at each new checkpoint (train's --checkpoint)"               \
    }

/* `workers` is their number where --worker does not say; 0: then it has to, or there is a chief. */
int tutti_tasks_started_read(const struct tutti_args *args, uint32_t workers,
                             struct tutti_tasks_started *ret, struct tutti_err *err);

/* The type with this name, which is there; its count may be 0. */
const struct tutti_task_type *tutti_tasks_started_of(const struct tutti_tasks_started *tasks,
                                                     const char *name);

/* "1 chief, 2 workers, 1 ps" */
void tutti_tasks_started_print(const struct tutti_tasks_started *tasks, FILE *out);

/* Lines of sh, each behind `indent`: from the number of a task in variable `number` and the cluster
 * of TF_CONFIG in TUTTI_CLUSTER they make TF_CONFIG, and become `tutti train` with the shell's own
 * arguments. No quote ' is in them. */
void tutti_tasks_started_print_shell(const struct tutti_tasks_started *tasks, const char *number,
                                     const char *indent, FILE *out);

#endif
