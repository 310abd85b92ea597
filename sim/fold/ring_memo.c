/* Rings that were gone through, by a hash of what they are; see ring_memo.h. */
#include "sim/fold/ring_memo.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/net.h"

enum { TIMES_MAX = 1 << 23, ENTRIES_MAX = 1 << 16 }; /* 64 MiB of times */

struct tutti_ring_memo_entry {
    uint64_t hash;
    uint64_t transfer_count;
    uint64_t reduce_count;
    uint64_t bytes;
    uint32_t size;
    uint32_t time_first;
    uint32_t kind_first;
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct tutti_ring_key *key)
{
    const struct tutti_ring_phase *phase = key->phase;
    uint64_t hash = mix(mix(phase->size, phase->transfer_count), phase->bytes);

    for (uint32_t i = 0; i < phase->size; i++)
        hash = mix(hash, (uint64_t)key->ready_ps[i] ^ (uint64_t)key->kinds[i] << 48);
    return mix(hash, phase->reduce_count);
}

static bool is_it(const struct tutti_ring_memo *memo, const struct tutti_ring_memo_entry *entry,
                  const struct tutti_ring_key *key, uint64_t hash)
{
    const struct tutti_ring_phase *phase = key->phase;

    return entry->hash == hash && entry->size == phase->size &&
           entry->transfer_count == phase->transfer_count && entry->bytes == phase->bytes &&
           entry->reduce_count == phase->reduce_count &&
           memcmp(memo->times + entry->time_first, key->ready_ps, phase->size * sizeof(tutti_ps)) ==
               0 &&
           memcmp(memo->kinds + entry->kind_first, key->kinds, phase->size * sizeof(uint32_t)) == 0;
}

/* Where a ring is in the table, or would be. */
static uint32_t *place_of(const struct tutti_ring_memo *memo, const struct tutti_ring_key *key,
                          uint64_t hash)
{
    for (uint64_t place = hash;; place++) {
        uint32_t *entry = &memo->table[place & (memo->table_size - 1)];

        if (*entry == 0 || is_it(memo, &memo->entries[*entry - 1], key, hash))
            return entry;
    }
}

const tutti_ps *tutti_ring_memo_find(const struct tutti_ring_memo *memo,
                                     const struct tutti_ring_key *key)
{
    uint32_t found = memo->entry_count == 0 ? 0 : *place_of(memo, key, hash_of(key));

    return found == 0 ? NULL : memo->times + memo->entries[found - 1].time_first + key->phase->size;
}

/* Makes room for one more entry, of `size` ranks. */
static int grow(struct tutti_ring_memo *memo, uint32_t size)
{
    if (memo->table == NULL) {
        memo->table = calloc((size_t)2 * ENTRIES_MAX, sizeof(*memo->table));
        if (memo->table == NULL)
            return -TUTTI_ENOMEM;
        memo->table_size = 2 * ENTRIES_MAX;
    }
    if (tutti_grow(&memo->entries, &memo->entry_capacity, (uint64_t)memo->entry_count + 1,
                   sizeof(*memo->entries)) < 0 ||
        tutti_grow(&memo->times, &memo->time_capacity, memo->time_count + 2 * (uint64_t)size,
                   sizeof(*memo->times)) < 0 ||
        tutti_grow(&memo->kinds, &memo->kind_capacity, memo->kind_count + (uint64_t)size,
                   sizeof(*memo->kinds)) < 0)
        return -TUTTI_ENOMEM;
    return 0;
}

int tutti_ring_memo_keep(struct tutti_ring_memo *memo, const struct tutti_ring_key *key,
                         const tutti_ps *finish_ps)
{
    const struct tutti_ring_phase *phase = key->phase;
    uint32_t size = phase->size;
    uint64_t hash;
    uint32_t *place;

    if (memo->entry_count == ENTRIES_MAX || memo->time_count + 2 * (uint64_t)size > TIMES_MAX)
        return 0;
    if (grow(memo, size) < 0)
        return -TUTTI_ENOMEM;
    hash = hash_of(key);
    place = place_of(memo, key, hash);
    if (*place > 0)
        return 0;
    memo->entries[memo->entry_count] = (struct tutti_ring_memo_entry){
        .hash = hash,
        .transfer_count = phase->transfer_count,
        .reduce_count = phase->reduce_count,
        .bytes = phase->bytes,
        .size = size,
        .time_first = memo->time_count,
        .kind_first = memo->kind_count,
    };
    memcpy(memo->times + memo->time_count, key->ready_ps, size * sizeof(tutti_ps));
    memcpy(memo->times + memo->time_count + size, finish_ps, size * sizeof(tutti_ps));
    memcpy(memo->kinds + memo->kind_count, key->kinds, size * sizeof(uint32_t));
    memo->time_count += 2 * size;
    memo->kind_count += size;
    *place = ++memo->entry_count;
    return 0;
}

void tutti_ring_memo_done(struct tutti_ring_memo *memo)
{
    free(memo->entries);
    free(memo->table);
    free(memo->times);
    free(memo->kinds);
    *memo = (struct tutti_ring_memo){.entries = NULL};
}
