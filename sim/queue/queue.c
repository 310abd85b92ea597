/* The event queue: a radix heap (Ahuja, Mehlhorn, Orlin & Tarjan 1990); see queue.h.
 *
 * Time never runs back, so an id can be filed by the highest digit in which its time differs from
 * the base, the time of the last pop: level l, bucket d holds times whose digit l is d, not that of
 * the base, and whose higher digits are the base's; times equal to the base are filed at level 0,
 * too. When the base's bucket is empty, the base moves to the earliest time of the lowest bucket of
 * the lowest level, whose ids then all fall into lower levels: an id moves at most 10 times, and
 * mostly a few.
 *
 * Equal times always share a bucket, and buckets keep the order of putting: ties need no number. */
#include "sim/queue/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/memory/memory.h"

#define NONE UINT32_MAX

static uint32_t bucket_of(const struct tutti_queue *queue, tutti_ps at_ps)
{
    uint64_t differing = (uint64_t)at_ps ^ (uint64_t)queue->base_ps;
    uint32_t level = (63 - (uint32_t)__builtin_clzll(differing | 1)) / TUTTI_QUEUE_DIGIT_BITS;
    uint32_t digit =
        (uint32_t)((uint64_t)at_ps >> level * TUTTI_QUEUE_DIGIT_BITS) % TUTTI_QUEUE_DIGITS;

    return level * TUTTI_QUEUE_DIGITS + digit;
}

/* The bucket with the earliest times; the queue must not be empty. */
static uint32_t lowest_bucket(const struct tutti_queue *queue)
{
    uint32_t level = (uint32_t)__builtin_ctz(queue->filled_levels);

    return level * TUTTI_QUEUE_DIGITS + (uint32_t)__builtin_ctzll(queue->filled[level]);
}

static bool is_filled(const struct tutti_queue *queue, uint32_t bucket)
{
    return (queue->filled[bucket / TUTTI_QUEUE_DIGITS] >> bucket % TUTTI_QUEUE_DIGITS & 1) != 0;
}

static void set_filled(struct tutti_queue *queue, uint32_t bucket)
{
    queue->filled[bucket / TUTTI_QUEUE_DIGITS] |= UINT64_C(1) << bucket % TUTTI_QUEUE_DIGITS;
    queue->filled_levels |= UINT32_C(1) << bucket / TUTTI_QUEUE_DIGITS;
}

static void set_empty(struct tutti_queue *queue, uint32_t bucket)
{
    uint32_t level = bucket / TUTTI_QUEUE_DIGITS;

    queue->filled[level] &= ~(UINT64_C(1) << bucket % TUTTI_QUEUE_DIGITS);
    if (queue->filled[level] == 0)
        queue->filled_levels &= ~(UINT32_C(1) << level);
}

static void append(struct tutti_queue *queue, uint32_t id, uint32_t bucket)
{
    struct tutti_queue_node *node = &queue->nodes[id];

    node->bucket = bucket;
    node->next = NONE;
    if (!is_filled(queue, bucket)) {
        set_filled(queue, bucket);
        queue->first[bucket] = id;
        node->prev = NONE;
    } else {
        node->prev = queue->last[bucket];
        queue->nodes[node->prev].next = id;
    }
    queue->last[bucket] = id;
}

static void take_out(struct tutti_queue *queue, uint32_t id)
{
    struct tutti_queue_node *node = &queue->nodes[id];
    uint32_t bucket = node->bucket;

    if (node->prev != NONE)
        queue->nodes[node->prev].next = node->next;
    else
        queue->first[bucket] = node->next;
    if (node->next != NONE)
        queue->nodes[node->next].prev = node->prev;
    else
        queue->last[bucket] = node->prev;
    if (queue->first[bucket] == NONE)
        set_empty(queue, bucket);
    node->bucket = NONE;
    if (node->at_ps == queue->next_ps)
        queue->next_known = false;
}

/* Moves the base to the earliest time, and returns the bucket of that, which is then at level 0 and
 * holds no other times. */
static uint32_t advance(struct tutti_queue *queue)
{
    uint32_t bucket = lowest_bucket(queue);
    uint32_t id = queue->first[bucket];
    tutti_ps at_ps;
    bool known = tutti_queue_next(queue, &at_ps);

    assert(known);
    queue->base_ps = at_ps;
    if (bucket < TUTTI_QUEUE_DIGITS)
        return bucket;
    set_empty(queue, bucket);
    while (id != NONE) {
        uint32_t next = queue->nodes[id].next;

        append(queue, id, bucket_of(queue, queue->nodes[id].at_ps));
        id = next;
    }
    return lowest_bucket(queue);
}

int tutti_queue_reserve(struct tutti_queue *queue, uint32_t id_count)
{
    struct tutti_queue_node *nodes;

    if (id_count <= queue->capacity)
        return 0;
    nodes = tutti_memory_resize(queue->memory, queue->nodes, queue->capacity * sizeof(*nodes),
                                (size_t)id_count * sizeof(*nodes));
    if (nodes == NULL)
        return -TUTTI_ENOMEM;
    queue->nodes = nodes;
    for (uint32_t id = queue->capacity; id < id_count; id++)
        nodes[id].bucket = NONE;
    queue->capacity = id_count;
    return 0;
}

void tutti_queue_done(struct tutti_queue *queue)
{
    tutti_memory_give(queue->memory, queue->nodes);
    *queue = (struct tutti_queue){.capacity = 0};
}

void tutti_queue_clear(struct tutti_queue *queue)
{
    for (uint32_t id = 0; id < queue->capacity; id++)
        queue->nodes[id].bucket = NONE;
    memset(queue->filled, 0, sizeof(queue->filled));
    queue->filled_levels = 0;
    queue->base_ps = 0;
    queue->next_known = false;
    queue->count = 0;
}

void tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps)
{
    assert(id < queue->capacity);
    assert(at_ps >= queue->base_ps); /* time never runs back */
    if (queue->nodes[id].bucket != NONE)
        take_out(queue, id);
    else
        queue->count++;
    queue->nodes[id].at_ps = at_ps;
    append(queue, id, bucket_of(queue, at_ps));
    if (queue->next_known && at_ps < queue->next_ps)
        queue->next_ps = at_ps;
}

void tutti_queue_drop(struct tutti_queue *queue, uint32_t id)
{
    assert(id < queue->capacity);
    if (queue->nodes[id].bucket == NONE)
        return;
    take_out(queue, id);
    queue->count--;
}

bool tutti_queue_next(struct tutti_queue *queue, tutti_ps *ret_at_ps)
{
    uint32_t bucket;

    if (queue->count == 0)
        return false;
    bucket = lowest_bucket(queue);
    if (bucket < TUTTI_QUEUE_DIGITS) { /* all of one time */
        *ret_at_ps = queue->nodes[queue->first[bucket]].at_ps;
        return true;
    }
    if (!queue->next_known) {
        queue->next_ps = INT64_MAX;
        for (uint32_t id = queue->first[bucket]; id != NONE; id = queue->nodes[id].next) {
            if (queue->nodes[id].at_ps < queue->next_ps)
                queue->next_ps = queue->nodes[id].at_ps;
        }
        queue->next_known = true;
    }
    *ret_at_ps = queue->next_ps;
    return true;
}

uint32_t tutti_queue_pop(struct tutti_queue *queue)
{
    uint32_t id;

    assert(queue->count > 0);
    id = queue->first[advance(queue)];
    take_out(queue, id);
    queue->count--;
    return id;
}

static int compare_items(const void *a, const void *b)
{
    const struct tutti_queue_item *x = a;
    const struct tutti_queue_item *y = b;

    if (x->at_ps != y->at_ps)
        return x->at_ps < y->at_ps ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number ? 1 : 0;
}

uint32_t tutti_queue_list(const struct tutti_queue *queue, struct tutti_queue_item *items)
{
    uint32_t count = 0;

    for (uint32_t bucket = 0; bucket < TUTTI_QUEUE_BUCKETS; bucket++) {
        if (!is_filled(queue, bucket))
            continue;
        for (uint32_t id = queue->first[bucket]; id != NONE; id = queue->nodes[id].next) {
            items[count] = (struct tutti_queue_item){queue->nodes[id].at_ps, count, id};
            count++;
        }
    }
    assert(count == queue->count);
    qsort(items, count, sizeof(*items), compare_items);
    return count;
}

void tutti_queue_shift(struct tutti_queue *queue, tutti_ps later_ps, struct tutti_queue_item *items)
{
    uint32_t count = tutti_queue_list(queue, items);

    tutti_queue_clear(queue); /* its time may run back */
    for (uint32_t i = 0; i < count; i++)
        tutti_queue_put(queue, items[i].id,
                        items[i].at_ps > INT64_MAX - later_ps ? INT64_MAX
                                                              : items[i].at_ps + later_ps);
}
