/* `tutti train --cluster FILE`: the driver of a training on standing workers (`tutti worker`). */
#ifndef TUTTI_TOOLS_TRAIN_CLUSTER_H
#define TUTTI_TOOLS_TRAIN_CLUSTER_H

#include "tools/options.h"

struct tutti_sink;

#define TUTTI_TRAIN_OPTION_CLUSTER                                                                \
    {                                                                                             \
        .name = "cluster", .type = TUTTI_OPTION_TEXT, .value = "FILE",                            \
        .help = "really train on standing workers ('tutti worker'): TF_CONFIG's cluster object, " \
                "{\"worker\": [\"HOST:PORT\", ...]}, also chief, ps, evaluator"                   \
    }

#define TUTTI_TRAIN_CLUSTER_TEXT                                                                  \
    "With --cluster each task of FILE is a standing worker, which this command drives: it sends " \
    "the options and the model as text, shows what processes print behind their tasks (results "  \
    "of the first task as they are), and ends when training ends. With --checkpoint SIGTERM is "  \
    "passed on: all save where they stop. However this command ends, "                            \
    "the workers end what they run for it within a second, and wait for the next. Files are "     \
    "those of the workers, below their --dir. TUTTI_SECRET is the secret of workers beyond this " \
    "host."

int tutti_train_cluster(const struct tutti_args *args, struct tutti_sink *sink,
                        struct tutti_err *err);

#endif
