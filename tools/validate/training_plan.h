/* What the settings of a row of training steps come down to: machine, model, strategy, device. */
#ifndef TUTTI_TOOLS_VALIDATE_TRAINING_PLAN_H
#define TUTTI_TOOLS_VALIDATE_TRAINING_PLAN_H

#include "runtime/model.h"
#include "runtime/strategy.h"
#include "sim/footprint.h"
#include "sim/train.h"
#include "topo/topo.h"
#include "traces/training.h"

struct tutti_training_plan {
    struct tutti_train_ask ask; /* of what follows; of parameter servers one host's devices */
    struct tutti_strategy strategy;
    struct tutti_workload *model;
    struct tutti_topo *topo;
    struct tutti_footprint_params memory;
    uint32_t rank_count; /* of all hosts */
    uint32_t host_count;
    uint32_t server_count;   /* parameter servers, on as many hosts; 0: none */
    double host_bytes_per_s; /* of a host's network, one way; 0: one host, or not stated */
    bool gibi;               /* the framework prints GiB and calls them GB */
};

/* -TUTTI_EINVAL for what is not stated or not known, -TUTTI_ELACK for what is not modelled. */
int tutti_training_plan_open(const struct tutti_training_row_settings *settings,
                             struct tutti_training_plan *ret, struct tutti_err *err);
void tutti_training_plan_done(struct tutti_training_plan *plan);

/* The parts of it, each in a file of its own. */
int tutti_training_plan_machine(const struct tutti_training_row_settings *settings,
                                struct tutti_training_plan *plan, struct tutti_err *err);
int tutti_training_plan_model(const struct tutti_training_row_settings *settings,
                              struct tutti_training_plan *plan, struct tutti_err *err);
int tutti_training_plan_strategy(const struct tutti_training_row_settings *settings,
                                 struct tutti_training_plan *plan, struct tutti_err *err);

/* Whether a text has a word in it, in any case. */
bool tutti_training_says(const char *text, const char *word);

#endif
