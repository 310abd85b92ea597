/* The memory of training steps: prices by what decides them, names as numbers. */
#include "sim/train/memory.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/parallel/store.h"
#include "sim/step/tuples.h"
#include "topo/topo.h"

struct kept {
    bool is_known;
    struct tutti_train_price price;
};

struct tutti_train_memory {
    struct tutti_tuples names; /* of machines and algorithms */
    struct tutti_tuples questions;
    struct kept *kept; /* [number of the question] */
    uint32_t capacity;
    struct tutti_price_store *store; /* of groups of models that are cut */
};

int tutti_train_memory_new(struct tutti_train_memory **ret, struct tutti_err *err)
{
    struct tutti_train_memory *memory = calloc(1, sizeof(*memory));

    if (memory == NULL)
        return tutti_nomem(err);
    *ret = memory;
    return 0;
}

void tutti_train_memory_free(struct tutti_train_memory *memory)
{
    if (memory == NULL)
        return;
    tutti_tuples_done(&memory->names);
    tutti_tuples_done(&memory->questions);
    free(memory->kept);
    tutti_price_store_free(memory->store);
    free(memory);
}

struct tutti_price_store **tutti_train_memory_store(struct tutti_train_memory *memory)
{
    return &memory->store;
}

int tutti_train_memory_find(struct tutti_train_memory *memory, const struct tutti_ask *ask,
                            const struct tutti_topo *whole, uint32_t *ret_number,
                            const struct tutti_train_price **ret_price)
{
    const struct tutti_coll_params *params = &ask->params;
    const uint64_t words[] = {tutti_tuples_text(&memory->names, ask->topo->name),
                              tutti_tuples_text(&memory->names, ask->algorithm),
                              tutti_tuples_text(&memory->names, whole->name),
                              ask->topo == whole,
                              (uint64_t)params->collective,
                              (uint64_t)params->dtype,
                              (uint64_t)params->op,
                              params->count,
                              params->channel_count};
    uint32_t number;

    for (int i = 0; i < 3; i++)
        if (words[i] == UINT32_MAX)
            return -TUTTI_ENOMEM;
    number = tutti_tuples_number(&memory->questions, words, sizeof(words) / sizeof(words[0]));
    if (number == UINT32_MAX)
        return -TUTTI_ENOMEM;
    *ret_number = number;
    *ret_price = number < memory->capacity && memory->kept[number].is_known
                     ? &memory->kept[number].price
                     : NULL;
    return 0;
}

int tutti_train_memory_keep(struct tutti_train_memory *memory, uint32_t number,
                            const struct tutti_train_price *price)
{
    uint32_t before = memory->capacity;

    if (tutti_grow(&memory->kept, &memory->capacity, (uint64_t)number + 1, sizeof(*memory->kept)) <
        0)
        return -TUTTI_ENOMEM;
    if (memory->capacity > before)
        memset(memory->kept + before, 0, (memory->capacity - before) * sizeof(*memory->kept));
    memory->kept[number] = (struct kept){.is_known = true, .price = *price};
    return 0;
}
