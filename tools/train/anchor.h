/* The option --anchor: a step measured on some devices, which says how fast they are. */
#ifndef TUTTI_TOOLS_TRAIN_ANCHOR_H
#define TUTTI_TOOLS_TRAIN_ANCHOR_H

#include <stdio.h>

#include "tools/cli/json.h"
#include "tools/options.h"

struct tutti_train_question;

#define TUTTI_TRAIN_OPTION_ANCHOR                                                            \
    {                                                                                        \
        .name = "anchor", .type = TUTTI_OPTION_TEXT,                                         \
        .value = "TIME[,devices=N][,batch=N][,accumulate=N]",                                \
        .help = "a step measured on so many devices (if not given: all of SPEC) at this or " \
                "another batch and number of micro-batches: what devices take is scaled so " \
                "that it is predicted as measured"                                           \
    }

struct tutti_train_anchor {
    int64_t step_ps; /* 0: not given */
    uint32_t device_count;
    uint32_t batch;
    uint32_t micro_batches;
    double pace; /* devices take so many times what is modelled */
};

/* Reads the option; the rest of the question must have been read. */
int tutti_train_anchor_read(const struct tutti_args *args, struct tutti_train_question *q,
                            struct tutti_err *err);
/* Finds the pace, and sets it in the question. Without an anchor nothing happens. */
int tutti_train_anchor_solve(const struct tutti_args *args, struct tutti_train_question *q,
                             struct tutti_err *err);

/* A line, and a member of an open object; nothing without an anchor. */
void tutti_train_anchor_print(const struct tutti_train_anchor *anchor, FILE *out);
void tutti_train_anchor_json(const struct tutti_train_anchor *anchor, struct tutti_json *json);

#endif
