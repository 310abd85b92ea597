/* `tutti train SPEC --days N --mtbf TIME`: what failures leave of a training of such steps. */
#ifndef TUTTI_TOOLS_TRAIN_GOODPUT_H
#define TUTTI_TOOLS_TRAIN_GOODPUT_H

#include "tools/goodput/goodput.h"
#include "tools/options.h"

struct tutti_train_question;

/* Nothing in it may be moved once it has been asked. */
struct tutti_train_goodput {
    struct tutti_goodput_question question;
    struct tutti_goodput_answer answer;
};

/* What a step on the machine as named has come to. */
struct tutti_train_goodput_step {
    tutti_ps step_ps;
    uint64_t samples;
    uint64_t parameters;
    const char *accelerator;
    uint32_t replica_devices;
};

/* With the options: reads them, of strategies of collectives on one machine. */
int tutti_train_goodput_read(const struct tutti_args *args, struct tutti_train_question *question,
                             struct tutti_err *err);
/* Does nothing where it was not asked for. */
int tutti_train_goodput_ask(struct tutti_train_question *question,
                            const struct tutti_train_goodput_step *step, struct tutti_err *err);

#endif
