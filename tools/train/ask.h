/* What `tutti train` was asked: machines, model, strategy and everything that has an option. */
#ifndef TUTTI_TOOLS_TRAIN_ASK_H
#define TUTTI_TOOLS_TRAIN_ASK_H

#include "sim/prices.h"
#include "sim/train.h"
#include "tools/cli/calib.h"
#include "tools/options.h"
#include "tools/train/anchor.h"
#include "tools/train/goodput.h"
#include "tools/train/servers.h"
#include "tools/train/slow.h"
#include "tools/train/timeline.h"

enum { TUTTI_TRAIN_MACHINES_MAX = 64 };

struct tutti_train_question {
    struct tutti_topo *topo; /* as named */
    struct tutti_workload *model;
    struct tutti_strategy strategy;
    struct tutti_train_ask ask; /* of the machine as named */
    struct tutti_calib_option calib;
    uint32_t device_counts[TUTTI_TRAIN_MACHINES_MAX]; /* of --devices; else that of the machine */
    uint32_t device_count;
    bool ranged;           /* of a range, numbers of which there is no machine are passed over */
    uint64_t global_batch; /* 0: the batch is a device's */
    uint32_t micro_batch;  /* of --global-batch, as many of them as need be; 0: not said */
    uint64_t steps;        /* to train; 0: not asked */
    uint64_t tokens;       /* likewise */
    double epochs;
    uint64_t examples; /* of an epoch */
    bool has_default_input;
    struct tutti_prices *prices;
    struct tutti_train_servers_question servers;
    struct tutti_algorithm_set *added; /* TensorFlow's own */
    struct tutti_train_slow slow;
    struct tutti_train_anchor anchor;
    struct tutti_train_goodput goodput;
    bool explains;
    bool is_watched;                       /* to explain it, or for a trace */
    struct tutti_train_timeline *timeline; /* the caller's, of the step asked last */
    struct tutti_train_elastic *elastic;   /* likewise */
};

int tutti_train_question_read(const struct tutti_args *args, struct tutti_train_question *ret,
                              struct tutti_err *err);
void tutti_train_question_done(struct tutti_train_question *question);

#endif
