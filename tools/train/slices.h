/* What sparse gradients send, and from where on dense ones would be fewer bytes. */
#ifndef TUTTI_TOOLS_TRAIN_SLICES_H
#define TUTTI_TOOLS_TRAIN_SLICES_H

#include <stdio.h>

#include "runtime/model.h"
#include "runtime/strategy.h"

struct tutti_train_slices_ask {
    const struct tutti_workload *model;
    const struct tutti_strategy *strategy;
    uint32_t rank_count;
    uint64_t samples;       /* of a rank in a step */
    uint32_t element_bytes; /* of gradients; 0: 4 */
};

/* Nothing where no gradient is sparse, or states are divided or weights averaged. */
void tutti_train_slices_print(const struct tutti_train_slices_ask *ask, FILE *out);

#endif
