/* The inside of a network on a data set as a learner. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_NET_LEARNER_H
#define TUTTI_RUNTIME_TRAIN_NET_LEARNER_H

#include "runtime/train.h"
#include "runtime/train/dataset.h"
#include "runtime/train/net.h"

enum { TUTTI_NET_READ_AHEAD = 2 }; /* batches */

/* What replicas share. */
struct tutti_net_context {
    struct tutti_net_learner_params params;
    struct tutti_network *net;
    struct tutti_network_input shape;
    struct tutti_dataset *training;
    struct tutti_dataset *held_out;
    uint64_t input_elements;
    uint64_t layer_most; /* elements of the layer that has most */
};

/* NULL: the learner is another's. */
const struct tutti_net_context *tutti_net_learner_context(const struct tutti_learner *learner);

#endif
