/* Sets of ranks as runs, interned in a hash table: a comparison is one of pointers. */
#include "runtime/schedule/sets.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"

enum { BUCKETS_MIN = 256 };

struct tutti_rank_sets {
    struct tutti_arena *arena;
    const struct tutti_rank_set **buckets;
    size_t bucket_max; /* a power of two minus one */
    size_t set_count;
    struct tutti_rank_run *work; /* where a union is put together */
    size_t work_capacity;
};

struct tutti_rank_sets *tutti_rank_sets_new(void)
{
    struct tutti_rank_sets *sets = calloc(1, sizeof(*sets));

    if (sets == NULL)
        return NULL;
    sets->arena = tutti_arena_new();
    sets->bucket_max = BUCKETS_MIN - 1;
    sets->buckets = calloc(BUCKETS_MIN, sizeof(*sets->buckets));
    if (sets->arena == NULL || sets->buckets == NULL) {
        tutti_rank_sets_free(sets);
        return NULL;
    }
    return sets;
}

void tutti_rank_sets_free(struct tutti_rank_sets *sets)
{
    if (sets == NULL)
        return;
    tutti_arena_free(sets->arena);
    free(sets->buckets);
    free(sets->work);
    free(sets);
}

/* Twice the buckets. Without memory for them the table only gets slower. */
static void grow(struct tutti_rank_sets *sets)
{
    size_t bucket_max = sets->bucket_max * 2 + 1;
    const struct tutti_rank_set **buckets = calloc(bucket_max + 1, sizeof(*buckets));

    if (buckets == NULL)
        return;
    for (size_t i = 0; i <= sets->bucket_max; i++) {
        struct tutti_rank_set *set = (struct tutti_rank_set *)sets->buckets[i];

        while (set != NULL) {
            struct tutti_rank_set *next = (struct tutti_rank_set *)set->next;

            set->next = buckets[set->hash & bucket_max];
            buckets[set->hash & bucket_max] = set;
            set = next;
        }
    }
    free(sets->buckets);
    sets->buckets = buckets;
    sets->bucket_max = bucket_max;
}

static uint64_t hash_runs(const struct tutti_rank_run *runs, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ runs[i].first) * UINT64_C(0x9e3779b97f4a7c15);
        hash = (hash ^ hash >> 29 ^ runs[i].end) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    return hash ^ hash >> 32;
}

static const struct tutti_rank_set *intern(struct tutti_rank_sets *sets,
                                           const struct tutti_rank_run *runs, size_t count)
{
    uint64_t hash = hash_runs(runs, count);
    const struct tutti_rank_set *found = sets->buckets[hash & sets->bucket_max];
    struct tutti_rank_set *set;

    while (found != NULL && (found->hash != hash || found->run_count != count ||
                             memcmp(found->runs, runs, count * sizeof(*runs)) != 0))
        found = found->next;
    if (found != NULL)
        return found;
    set = tutti_arena_take(sets->arena, 1, sizeof(*set) + count * sizeof(*runs));
    if (set == NULL)
        return NULL;
    if (++sets->set_count > sets->bucket_max)
        grow(sets);
    set->hash = hash;
    set->run_count = (uint32_t)count;
    memcpy(set->runs, runs, count * sizeof(*runs));
    set->next = sets->buckets[hash & sets->bucket_max];
    sets->buckets[hash & sets->bucket_max] = set;
    return set;
}

const struct tutti_rank_set *tutti_rank_sets_range(struct tutti_rank_sets *sets, uint32_t first,
                                                   uint32_t end)
{
    const struct tutti_rank_run run = {first, end};

    assert(first < end);
    return intern(sets, &run, 1);
}

const struct tutti_rank_set *tutti_rank_sets_join(struct tutti_rank_sets *sets,
                                                  const struct tutti_rank_set *a,
                                                  const struct tutti_rank_set *b)
{
    size_t most = (size_t)a->run_count + b->run_count;
    size_t i = 0;
    size_t j = 0;
    size_t count = 0;

    if (most > sets->work_capacity) {
        struct tutti_rank_run *work = realloc(sets->work, most * 2 * sizeof(*work));

        if (work == NULL)
            return NULL;
        sets->work = work;
        sets->work_capacity = most * 2;
    }
    while (i < a->run_count || j < b->run_count) {
        bool from_a =
            j == b->run_count || (i < a->run_count && a->runs[i].first <= b->runs[j].first);
        struct tutti_rank_run run = from_a ? a->runs[i++] : b->runs[j++];
        struct tutti_rank_run *last = &sets->work[count == 0 ? 0 : count - 1];

        if (count == 0 || run.first > last->end)
            sets->work[count++] = run;
        else if (run.end > last->end)
            last->end = run.end;
    }
    return intern(sets, sets->work, count);
}

bool tutti_rank_set_meet(const struct tutti_rank_set *a, const struct tutti_rank_set *b,
                         uint32_t *ret_rank)
{
    size_t i = 0;
    size_t j = 0;

    while (i < a->run_count && j < b->run_count) {
        if (a->runs[i].end <= b->runs[j].first) {
            i++;
        } else if (b->runs[j].end <= a->runs[i].first) {
            j++;
        } else {
            *ret_rank = a->runs[i].first > b->runs[j].first ? a->runs[i].first : b->runs[j].first;
            return true;
        }
    }
    return false;
}

bool tutti_rank_set_beyond(const struct tutti_rank_set *a, const struct tutti_rank_set *b,
                           uint32_t *ret_rank)
{
    size_t j = 0;

    for (size_t i = 0; i < a->run_count; i++) {
        uint32_t first = a->runs[i].first;

        while (j < b->run_count && b->runs[j].end <= first)
            j++;
        if (j < b->run_count && b->runs[j].first <= first)
            first = b->runs[j].end; /* runs are separate: what follows a run is missing */
        if (first < a->runs[i].end) {
            *ret_rank = first;
            return true;
        }
    }
    return false;
}
