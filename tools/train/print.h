/* What `tutti train` prints of simulated steps: a page, JSON or CSV, and curves over devices. */
#ifndef TUTTI_TOOLS_TRAIN_PRINT_H
#define TUTTI_TOOLS_TRAIN_PRINT_H

#include "tools/options.h"
#include "tools/train/ask.h"
#include "tools/train/found.h"

int tutti_train_print(const struct tutti_args *args, const struct tutti_train_question *q,
                      const struct tutti_train_found_all *all, struct tutti_sink *sink,
                      struct tutti_err *err);

/* Where --curve asks for it. */
int tutti_train_print_curve(const struct tutti_args *args, const struct tutti_train_question *q,
                            const struct tutti_train_found_all *all, struct tutti_sink *sink,
                            struct tutti_err *err);

#endif
