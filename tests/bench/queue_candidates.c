/* The table of event queues, with d-ary heaps that know where every id is, and the radix heap that
 * the simulator has. */
#include "tests/bench/queue_candidates.h"

#include <stdbool.h>
#include <stdlib.h>

#include "sim/queue/queue.h"

#define NONE UINT32_MAX

struct entry {
    tutti_ps at_ps;
    uint64_t seq;
    uint32_t id;
};

struct heap {
    struct entry *entries;
    uint32_t *place; /* [id] in entries, or NONE */
    uint32_t count;
    uint64_t seq;
};

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

static void *heap_open(uint32_t id_count)
{
    struct heap *heap = take(1, sizeof(*heap));

    heap->entries = take((size_t)id_count + 1, sizeof(*heap->entries));
    heap->place = take((size_t)id_count + 1, sizeof(*heap->place));
    for (uint32_t i = 0; i < id_count; i++)
        heap->place[i] = NONE;
    return heap;
}

static void heap_close(void *queue)
{
    struct heap *heap = queue;

    free(heap->entries);
    free(heap->place);
    free(heap);
}

static bool before(const struct entry *a, const struct entry *b)
{
    return a->at_ps < b->at_ps || (a->at_ps == b->at_ps && a->seq < b->seq);
}

static void set(struct heap *heap, uint32_t place, struct entry entry)
{
    heap->entries[place] = entry;
    heap->place[entry.id] = place;
}

static inline __attribute__((always_inline)) void rise(struct heap *heap, uint32_t place,
                                                       struct entry entry, uint32_t d)
{
    while (place > 0 && before(&entry, &heap->entries[(place - 1) / d])) {
        set(heap, place, heap->entries[(place - 1) / d]);
        place = (place - 1) / d;
    }
    set(heap, place, entry);
}

static inline __attribute__((always_inline)) void sink(struct heap *heap, uint32_t place,
                                                       struct entry entry, uint32_t d)
{
    for (;;) {
        uint64_t child = (uint64_t)place * d + 1;
        uint64_t last = child + d < heap->count ? child + d : heap->count;
        uint64_t best = child;

        if (child >= heap->count)
            break;
        for (uint64_t i = child + 1; i < last; i++)
            best = before(&heap->entries[i], &heap->entries[best]) ? i : best;
        if (!before(&heap->entries[best], &entry))
            break;
        set(heap, place, heap->entries[best]);
        place = (uint32_t)best;
    }
    set(heap, place, entry);
}

static inline __attribute__((always_inline)) void heap_drop(struct heap *heap, uint32_t id,
                                                            uint32_t d)
{
    uint32_t place = heap->place[id];
    struct entry last;

    if (place == NONE)
        return;
    heap->place[id] = NONE;
    last = heap->entries[--heap->count];
    if (place == heap->count)
        return;
    if (place > 0 && before(&last, &heap->entries[(place - 1) / d]))
        rise(heap, place, last, d);
    else
        sink(heap, place, last, d);
}

static inline __attribute__((always_inline)) void heap_put(struct heap *heap, uint32_t id,
                                                           tutti_ps at_ps, uint32_t d)
{
    heap_drop(heap, id, d);
    rise(heap, heap->count++, (struct entry){at_ps, heap->seq++, id}, d);
}

static inline __attribute__((always_inline)) uint32_t heap_pop(struct heap *heap, uint32_t d)
{
    uint32_t id = heap->entries[0].id;

    heap_drop(heap, id, d);
    return id;
}

static void put_2(void *queue, uint32_t id, tutti_ps at_ps)
{
    heap_put(queue, id, at_ps, 2);
}

static void drop_2(void *queue, uint32_t id)
{
    heap_drop(queue, id, 2);
}

static uint32_t pop_2(void *queue)
{
    return heap_pop(queue, 2);
}

static void put_4(void *queue, uint32_t id, tutti_ps at_ps)
{
    heap_put(queue, id, at_ps, 4);
}

static void drop_4(void *queue, uint32_t id)
{
    heap_drop(queue, id, 4);
}

static uint32_t pop_4(void *queue)
{
    return heap_pop(queue, 4);
}

static void put_8(void *queue, uint32_t id, tutti_ps at_ps)
{
    heap_put(queue, id, at_ps, 8);
}

static void drop_8(void *queue, uint32_t id)
{
    heap_drop(queue, id, 8);
}

static uint32_t pop_8(void *queue)
{
    return heap_pop(queue, 8);
}

/* The simulator asks for the next time before it takes anything out: so does this. */
static void *radix_open(uint32_t id_count)
{
    struct tutti_queue *queue = take(1, sizeof(*queue));

    if (tutti_queue_reserve(queue, id_count) < 0)
        abort();
    return queue;
}

static void radix_put(void *queue, uint32_t id, tutti_ps at_ps)
{
    tutti_queue_put(queue, id, at_ps);
}

static void radix_drop(void *queue, uint32_t id)
{
    tutti_queue_drop(queue, id);
}

static uint32_t radix_pop(void *queue)
{
    tutti_ps at_ps;

    (void)tutti_queue_next(queue, &at_ps);
    return tutti_queue_pop(queue);
}

static void radix_close(void *queue)
{
    tutti_queue_done(queue);
    free(queue);
}

const struct candidate queue_candidates[] = {
    {"binary", heap_open, put_2, drop_2, pop_2, heap_close},
    {"4-ary", heap_open, put_4, drop_4, pop_4, heap_close},
    {"8-ary", heap_open, put_8, drop_8, pop_8, heap_close},
    {"radix", radix_open, radix_put, radix_drop, radix_pop, radix_close},
    {"calendar", calendar_open, calendar_put, calendar_drop, calendar_pop, calendar_close},
    {"ladder", ladder_open, ladder_put, ladder_drop, ladder_pop, ladder_close},
    {.name = NULL},
};
