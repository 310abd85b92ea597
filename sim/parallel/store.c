/* Prices by what decides them: keys are numbered, what is kept stands under its number. */
#include "sim/parallel/store.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/net/net.h"
#include "sim/predict.h"
#include "sim/step/tuples.h"
#include "topo/topo.h"

struct kind {
    struct tutti_tuples keys;
    void *kept; /* [number of the key] */
    uint32_t capacity;
};

struct tutti_price_store {
    struct tutti_tuples names;
    struct kind prices;
    struct kind hops;
    struct kind parts;
};

struct tutti_price_store *tutti_price_store_new(void)
{
    return calloc(1, sizeof(struct tutti_price_store));
}

static void done(struct kind *kind)
{
    tutti_tuples_done(&kind->keys);
    free(kind->kept);
}

void tutti_price_store_free(struct tutti_price_store *store)
{
    struct tutti_kept_part *parts;

    if (store == NULL)
        return;
    parts = store->parts.kept;
    for (uint32_t i = 0; i < store->parts.capacity; i++) {
        tutti_predict_memory_free(parts[i].memory);
        tutti_nccl_comm_free(parts[i].comm);
        tutti_topo_free(parts[i].topo);
    }
    tutti_tuples_done(&store->names);
    done(&store->prices);
    done(&store->hops);
    done(&store->parts);
    free(store);
}

uint32_t tutti_price_store_name(struct tutti_price_store *store, const char *name)
{
    return tutti_tuples_text(&store->names, name);
}

static void *find(struct kind *kind, const uint64_t *key, size_t words, size_t bytes)
{
    const uint32_t number = tutti_tuples_number(&kind->keys, key, words);
    const uint32_t before = kind->capacity;

    if (number == UINT32_MAX)
        return NULL;
    if (tutti_grow(&kind->kept, &kind->capacity, (uint64_t)number + 1, bytes) < 0)
        return NULL;
    if (kind->capacity > before)
        memset((char *)kind->kept + before * bytes, 0, (kind->capacity - before) * bytes);
    return (char *)kind->kept + number * bytes;
}

struct tutti_kept_price *tutti_price_store_price(struct tutti_price_store *store,
                                                 const uint64_t *key, size_t words)
{
    return find(&store->prices, key, words, sizeof(struct tutti_kept_price));
}

struct tutti_kept_hop *tutti_price_store_hop(struct tutti_price_store *store, const uint64_t *key,
                                             size_t words)
{
    return find(&store->hops, key, words, sizeof(struct tutti_kept_hop));
}

struct tutti_kept_part *tutti_price_store_part(struct tutti_price_store *store, const uint64_t *key,
                                               size_t words)
{
    return find(&store->parts, key, words, sizeof(struct tutti_kept_part));
}
