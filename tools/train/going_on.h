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
     .help = "-B tcp: a process that is lost comes again, N times in all: --launch starts it, or " \
             "who has started it before; the others stay, and with it all go back to the newest "  \
             "checkpoint"},                                                                        \
        {.name = "elastic",                                                                        \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "MIN:MAX",                                                                       \
         .help = "-B tcp, or simulated: go on with the processes that are left, MIN or more, and " \
                 "take in those that come, up to MAX; the global batch and the rate stay"},        \
        {.name = "join",                                                                           \
         .type = TUTTI_OPTION_TEXT,                                                                \
         .value = "HOST:PORT",                                                                     \
         .help = "--elastic: come to a training that has begun, at the address of its process 0, " \
                 "with the same options otherwise"},                                               \
    {                                                                                              \
        .name = "preempt-file", .type = TUTTI_OPTION_TEXT, .value = "FILE",                        \
        .help = "--checkpoint, --elastic: as SIGTERM, once this file is there and does not say "   \
                "FALSE; looked for once a second"                                                  \
    }

/* How many may take part; least 0: as many as at the start. */
struct tutti_train_elastic_range {
    uint32_t least;
    uint32_t most;
};

/* -TUTTI_EINVAL where nothing can go on so, which is said. */
int tutti_train_going_on_check(const struct tutti_args *args, const struct tutti_run_command *run,
                               struct tutti_err *err);
int tutti_train_elastic_read(const struct tutti_args *args, struct tutti_train_elastic_range *ret,
                             struct tutti_err *err);
/* What cannot be where it is really done. */
int tutti_train_elastic_check(const struct tutti_args *args,
                              const struct tutti_train_elastic_range *range, struct tutti_err *err);

#endif
