/* Tuples of words, each kept once: an open hash table over one array of words. */
#include "sim/step/tuples.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 256 };

static uint64_t hash_of(const uint64_t *words, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool is_equal(const struct tutti_tuples *t, uint32_t number, const uint64_t *words,
                     size_t count)
{
    size_t first = t->first[number];

    return t->first[number + 1] - first == count &&
           (count == 0 || memcmp(t->words + first, words, count * sizeof(*words)) == 0);
}

/* The slot of a tuple, or the free one where it belongs. */
static size_t find(const struct tutti_tuples *t, const uint64_t *words, size_t count)
{
    size_t slot = (size_t)hash_of(words, count) & (t->slot_count - 1);

    while (t->slots[slot] != 0 && !is_equal(t, t->slots[slot] - 1, words, count))
        slot = (slot + 1) & (t->slot_count - 1);
    return slot;
}

static bool grow_slots(struct tutti_tuples *t)
{
    size_t slot_count = t->slot_count == 0 ? SLOTS_MIN : 2 * t->slot_count;
    uint32_t *slots = calloc(slot_count, sizeof(*slots));

    if (slots == NULL)
        return false;
    free(t->slots);
    t->slots = slots;
    t->slot_count = slot_count;
    for (uint32_t i = 0; i < t->count; i++)
        t->slots[find(t, t->words + t->first[i], t->first[i + 1] - t->first[i])] = i + 1;
    return true;
}

static bool make_room(struct tutti_tuples *t, size_t count)
{
    if (t->count == t->capacity) {
        uint32_t capacity = t->capacity == 0 ? 64 : 2 * t->capacity;
        size_t *first = realloc(t->first, ((size_t)capacity + 1) * sizeof(*first));

        if (first == NULL)
            return false;
        first[t->count] = t->word_count;
        t->first = first;
        t->capacity = capacity;
    }
    if (t->word_capacity - t->word_count < count) {
        size_t capacity = 2 * t->word_capacity + count + 64;
        uint64_t *words = realloc(t->words, capacity * sizeof(*words));

        if (words == NULL)
            return false;
        t->words = words;
        t->word_capacity = capacity;
    }
    return 2 * ((size_t)t->count + 1) <= t->slot_count || grow_slots(t);
}

uint32_t tutti_tuples_number(struct tutti_tuples *tuples, const uint64_t *words, size_t count)
{
    size_t slot;

    if (!make_room(tuples, count))
        return UINT32_MAX;
    slot = find(tuples, words, count);
    if (tuples->slots[slot] != 0)
        return tuples->slots[slot] - 1;
    if (count > 0)
        memcpy(tuples->words + tuples->word_count, words, count * sizeof(*words));
    tuples->word_count += count;
    tuples->slots[slot] = ++tuples->count;
    tuples->first[tuples->count] = tuples->word_count;
    return tuples->count - 1;
}

uint32_t tutti_tuples_text(struct tutti_tuples *tuples, const char *text)
{
    size_t bytes = text == NULL ? 0 : strlen(text) + 1;
    size_t count = (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    uint64_t *words = calloc(count + 1, sizeof(*words));
    uint32_t number = UINT32_MAX;

    if (words == NULL)
        return number;
    if (bytes > 0)
        memcpy(words, text, bytes);
    number = tutti_tuples_number(tuples, words, count);
    free(words);
    return number;
}

void tutti_tuples_clear(struct tutti_tuples *tuples)
{
    tuples->word_count = 0;
    tuples->count = 0;
    if (tuples->slot_count > 0)
        memset(tuples->slots, 0, tuples->slot_count * sizeof(*tuples->slots));
    if (tuples->first != NULL)
        tuples->first[0] = 0;
}

void tutti_tuples_done(struct tutti_tuples *tuples)
{
    free(tuples->words);
    free(tuples->first);
    free(tuples->slots);
    *tuples = (struct tutti_tuples){.words = NULL};
}
