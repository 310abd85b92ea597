/* Prices of collectives that steps tell each other; see struct tutti_train_memory. */
#ifndef TUTTI_SIM_TRAIN_MEMORY_H
#define TUTTI_SIM_TRAIN_MEMORY_H

#include "sim/train.h"

/* What a collective takes, whatever the device beside it. */
struct tutti_train_price {
    const char *algorithm; /* names that last */
    const char *protocol;
    uint64_t bytes;
    uint32_t channel_count; /* that hold a multiprocessor each */
    struct tutti_call_price call;
};

/* The number of what is asked about a machine or a part of it: one and the same for equal
 * questions. *ret_price: what was kept for it, the memory's until something else is kept, or NULL.
 * -TUTTI_ENOMEM. */
int tutti_train_memory_find(struct tutti_train_memory *memory, const struct tutti_ask *ask,
                            const struct tutti_topo *whole, uint32_t *ret_number,
                            const struct tutti_train_price **ret_price);
/* Keeps a price under such a number. -TUTTI_ENOMEM. */
int tutti_train_memory_keep(struct tutti_train_memory *memory, uint32_t number,
                            const struct tutti_train_price *price);

/* Where that of sim/parallel/ is; NULL there: none yet. Freed with the memory. */
struct tutti_price_store;
struct tutti_price_store **tutti_train_memory_store(struct tutti_train_memory *memory);

#endif
