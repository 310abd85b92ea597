/* Real training that goes on where processes are lost, leave or come: what it is asked for. */
#ifndef TUTTI_TOOLS_TRAIN_GOING_ON_H
#define TUTTI_TOOLS_TRAIN_GOING_ON_H

#include "tools/options.h"

struct tutti_err;
struct tutti_run_command;

/* Rows of an option table. */
#define TUTTI_TRAIN_OPTIONS_GOING_ON                                                               \
    {.name = "restarts",                                                                           \
     .type = TUTTI_OPTION_COUNT,                                                                   \
     .value = "N",                                                                                 \
     .standard = "0",                                                                              \
     .min = 0,                                                                                     \
     .max = 1 << 20,                                                                               \
     .help = "-B tcp: a process that is lost comes again, at most N times in all: --launch "       \
             "starts it, or who has started it before; the others stay, and with it all go "       \
             "back to the newest checkpoint"},                                                     \
    {                                                                                              \
        .name = "elastic", .type = TUTTI_OPTION_TEXT, .value = "MIN:MAX",                          \
        .help = "simulated: go on with the workers that are left, MIN or more, and take in those " \
                "that come, up to MAX; the global batch stays"                                     \
    }

/* How many may take part. */
struct tutti_train_elastic_range {
    uint32_t least;
    uint32_t most;
};
int tutti_train_elastic_read(const struct tutti_args *args, struct tutti_train_elastic_range *ret,
                             struct tutti_err *err);

/* -TUTTI_EINVAL where nothing can go on so, which is said. `run` NULL: training is simulated. */
int tutti_train_going_on_check(const struct tutti_args *args, const struct tutti_run_command *run,
                               struct tutti_err *err);

#endif
