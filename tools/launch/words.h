/* The arguments of `tutti train` behind `--`: read by its own table before they are passed on, and
 * completed with what the one who starts the processes knows better. */
#ifndef TUTTI_TOOLS_LAUNCH_WORDS_H
#define TUTTI_TOOLS_LAUNCH_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/launch/tasks.h"
#include "tools/options.h"

enum { TUTTI_TRAIN_WORDS_MAX = 256, TUTTI_TRAIN_WORDS_ADDED_MAX = 16 };

/* What is added where the words do not say it. */
struct tutti_train_words_ask {
    const struct tutti_tasks_started *tasks;
    const char *launcher;  /* of --launcher; NULL: none */
    const char *stop_code; /* of --stop-code, where there are checkpoints; NULL: train's own */
    const char *deadline;  /* of --deadline: tasks may be started long after each other */
    const char *restarts;  /* of --restarts: who starts the tasks starts a lost one again; NULL: not
                              so, and the option is refused */
};

struct tutti_train_words {
    const char *words[TUTTI_TRAIN_WORDS_MAX]; /* of the command line, or constants */
    uint32_t count;
    bool saves;         /* --checkpoint: there is something to go on from */
    bool open;          /* --open: no secret is needed */
    uint32_t stop_code; /* that training ends with when it was told to stop */
};

/* -TUTTI_EINVAL: what `tutti train` would refuse of them, or what does not fit the tasks. */
int tutti_train_words_read(const struct tutti_args *args, const struct tutti_train_words_ask *ask,
                           struct tutti_train_words *ret, struct tutti_err *err);

#endif
