/* Prices that steps tell each other, of groups by their shapes; part of struct tutti_train_memory.
 * What is asked for is there afterwards, empty (all 0) the first time, and stays where it is until
 * the next one of its kind is asked for. NULL: no memory. */
#ifndef TUTTI_SIM_PARALLEL_STORE_H
#define TUTTI_SIM_PARALLEL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_nccl_comm;
struct tutti_predict_memory;
struct tutti_price_store;
struct tutti_topo;

struct tutti_kept_price {
    bool is_known;
    uint32_t share; /* of a device, of TUTTI_SHARE_ONE */
    tutti_ps ps;
    tutti_ps wire_ps; /* of it, that the busiest link is needed */
};

/* From a rank to another. */
struct tutti_kept_hop {
    tutti_ps latency_ps;
    uint64_t bytes_per_s; /* 0: not known yet */
};

/* A part of a machine, as a machine. */
struct tutti_kept_part {
    bool is_known;
    struct tutti_topo *topo; /* NULL: none can be made */
    struct tutti_predict_memory *memory;
    struct tutti_nccl_comm *comm; /* NULL: not asked for yet, or none */
};

struct tutti_price_store *tutti_price_store_new(void);
void tutti_price_store_free(struct tutti_price_store *store); /* NULL is a no-op */

/* The number of a name, NULL being one as well; UINT32_MAX: no memory. */
uint32_t tutti_price_store_name(struct tutti_price_store *store, const char *name);

struct tutti_kept_price *tutti_price_store_price(struct tutti_price_store *store,
                                                 const uint64_t *key, size_t words);
struct tutti_kept_hop *tutti_price_store_hop(struct tutti_price_store *store, const uint64_t *key,
                                             size_t words);
struct tutti_kept_part *tutti_price_store_part(struct tutti_price_store *store, const uint64_t *key,
                                               size_t words);

#endif
