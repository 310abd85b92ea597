/* Drawing some of many things at random: those whose hashes are least. */
#ifndef TUTTI_TOPO_PERTURB_DRAW_H
#define TUTTI_TOPO_PERTURB_DRAW_H

#include <stdint.h>

#include "topo/perturb.h"

/* The seed of an item's own draws: nothing else draws under it. */
uint64_t tutti_perturb_key(const struct tutti_perturb_item *item, uint64_t seed);

/* Things [0, count); those of one hash are one (the two directions of a cable). */
struct tutti_crowd {
    uint64_t (*hash)(const void *context, uint32_t index);
    const void *context;
    uint32_t count;
    const char *name; /* for messages: "cables" */
};

/* The numbers of those that `item` wants, COUNT or PERCENT, the least hash first; from malloc, the
 * caller's. -TUTTI_EINVAL where it wants more than there are. */
int tutti_perturb_draw(const struct tutti_crowd *crowd, const struct tutti_perturb_item *item,
                       uint32_t **ret, uint64_t *ret_count, struct tutti_err *err);

/* A number drawn uniformly from [0, below], by a hash. */
uint64_t tutti_perturb_scale(uint64_t hash, uint64_t most);

#endif
