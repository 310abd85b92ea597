/* One step of `tutti train` asked for: by collectives or by servers, watched or not. */
#ifndef TUTTI_TOOLS_TRAIN_STEP_H
#define TUTTI_TOOLS_TRAIN_STEP_H

#include "tools/cli/trace_file.h"
#include "tools/train/ask.h"

#define TUTTI_TRAIN_OPTIONS_STEP                                                               \
    {.name = "explain",                                                                        \
     .type = TUTTI_OPTION_FLAG,                                                                \
     .help = "show the step of the last row as bars, with its largest pieces, what waits for " \
             "what, and its collectives"},                                                     \
        TUTTI_OPTION_TRACE, TUTTI_TRAIN_OPTION_SLOW

/* What --explain, --trace and --slow say, and whether they go with the rest. */
int tutti_train_step_read(const struct tutti_args *args, struct tutti_train_question *q,
                          struct tutti_err *err);

/* `ask` is complete but for stragglers and who watches. `servers` is filled where the strategy has
 * some. */
int tutti_train_step_ask(const struct tutti_train_question *question, struct tutti_train_ask *ask,
                         struct tutti_train_answer *ret, struct tutti_train_servers_answer *servers,
                         struct tutti_err *err);

#endif
