/* The event queue: a 4-ary heap that knows where each id lies; see queue.h. */
#include "sim/queue/queue.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

enum { ARITY = 4 }; /* shallower than 2, and four children lie in two cache lines */

static bool before(const struct tutti_queue_entry *a, const struct tutti_queue_entry *b)
{
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->seq < b->seq;
}

static void set(struct tutti_queue *queue, uint32_t place, struct tutti_queue_entry entry)
{
    queue->entries[place] = entry;
    queue->where[entry.id] = place;
}

/* Moves `entry`, for which there is a hole at `place`, towards the root while it is earlier. */
static void sift_up(struct tutti_queue *queue, uint32_t place, struct tutti_queue_entry entry)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / ARITY;

        if (!before(&entry, &queue->entries[parent]))
            break;
        set(queue, place, queue->entries[parent]);
        place = parent;
    }
    set(queue, place, entry);
}

static void sift_down(struct tutti_queue *queue, uint32_t place, struct tutti_queue_entry entry)
{
    for (;;) {
        uint64_t first = (uint64_t)place * ARITY + 1;
        uint64_t end = first + ARITY < queue->count ? first + ARITY : queue->count;
        uint32_t best = place;

        if (first >= queue->count)
            break;
        best = (uint32_t)first;
        for (uint32_t child = best + 1; child < end; child++) {
            if (before(&queue->entries[child], &queue->entries[best]))
                best = child;
        }
        if (!before(&queue->entries[best], &entry))
            break;
        set(queue, place, queue->entries[best]);
        place = best;
    }
    set(queue, place, entry);
}

int tutti_queue_reserve(struct tutti_queue *queue, uint32_t id_count)
{
    struct tutti_queue_entry *entries;
    uint32_t *where;

    if (id_count <= queue->capacity)
        return 0;
    entries = realloc(queue->entries, (size_t)id_count * sizeof(*entries));
    if (entries == NULL)
        return -TUTTI_ENOMEM;
    queue->entries = entries;
    where = realloc(queue->where, (size_t)id_count * sizeof(*where));
    if (where == NULL)
        return -TUTTI_ENOMEM;
    queue->where = where;
    for (uint32_t id = queue->capacity; id < id_count; id++)
        where[id] = UINT32_MAX;
    queue->capacity = id_count;
    return 0;
}

void tutti_queue_done(struct tutti_queue *queue)
{
    free(queue->entries);
    free(queue->where);
    *queue = (struct tutti_queue){.capacity = 0};
}

void tutti_queue_clear(struct tutti_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++)
        queue->where[queue->entries[i].id] = UINT32_MAX;
    queue->count = 0;
    queue->seq_next = 0;
}

void tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps)
{
    struct tutti_queue_entry entry = {.at_ps = at_ps, .seq = queue->seq_next++, .id = id};
    uint32_t place;

    assert(id < queue->capacity);
    place = queue->where[id];
    if (place == UINT32_MAX)
        sift_up(queue, queue->count++, entry);
    else if (before(&entry, &queue->entries[place]))
        sift_up(queue, place, entry);
    else
        sift_down(queue, place, entry);
}

void tutti_queue_drop(struct tutti_queue *queue, uint32_t id)
{
    struct tutti_queue_entry last;
    uint32_t place;

    assert(id < queue->capacity);
    place = queue->where[id];
    if (place == UINT32_MAX)
        return;
    queue->where[id] = UINT32_MAX;
    last = queue->entries[--queue->count];
    if (last.id == id)
        return;
    if (place > 0 && before(&last, &queue->entries[(place - 1) / ARITY]))
        sift_up(queue, place, last);
    else
        sift_down(queue, place, last);
}

bool tutti_queue_next(const struct tutti_queue *queue, tutti_ps *ret_at_ps)
{
    if (queue->count == 0)
        return false;
    *ret_at_ps = queue->entries[0].at_ps;
    return true;
}

uint32_t tutti_queue_pop(struct tutti_queue *queue)
{
    uint32_t id;

    assert(queue->count > 0);
    id = queue->entries[0].id;
    tutti_queue_drop(queue, id);
    return id;
}
