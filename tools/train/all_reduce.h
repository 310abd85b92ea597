/* How `tutti train` reduces gradients: the option --all-reduce, by names of algorithms and of
 * TensorFlow's classes. */
#ifndef TUTTI_TOOLS_TRAIN_ALL_REDUCE_H
#define TUTTI_TOOLS_TRAIN_ALL_REDUCE_H

#include "tools/train/ask.h"

#define TUTTI_TRAIN_OPTION_ALL_REDUCE                                                              \
    {                                                                                              \
        .name = "all-reduce", .type = TUTTI_OPTION_TEXT, .value = "NAME",                          \
        .help = "an algorithm of all-reduces, as -a of predict; of TensorFlow: nccl, "             \
                "hierarchical-copy, reduction-to-one-device or ring (tf-ring), also by the names " \
                "of its classes (if not given: what the machine's library would run)"              \
    }

/* After the strategy and its packs are known. */
int tutti_train_all_reduce_read(const struct tutti_args *args, struct tutti_train_question *q,
                                struct tutti_err *err);

/* Whether it does for the machine that is asked. */
int tutti_train_all_reduce_check(const struct tutti_train_ask *ask, struct tutti_err *err);

/* The strategy `name`, with what was asked of another one that does not fit the machine. */
void tutti_train_strategy_of_hosts(const struct tutti_strategy *asked, const char *name,
                                   struct tutti_strategy *ret);

#endif
