/* The record of a run: events as they come, an order for them, and a hash of what was done. */
#include "runtime/record.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ps(tutti_ps a, tutti_ps b)
{
    return (a > b) - (a < b);
}

/* By place in the program: rank, lane, step. No two events of a run are equal. */
static int by_place(const void *left, const void *right)
{
    const struct tutti_event *a = left;
    const struct tutti_event *b = right;
    int order = compare_u64(a->rank, b->rank);

    if (order == 0)
        order = compare_u64(a->lane, b->lane);
    return order != 0 ? order : compare_u64(a->step, b->step);
}

static int by_time(const void *left, const void *right)
{
    const struct tutti_event *a = left;
    const struct tutti_event *b = right;
    int order = compare_ps(a->end_ps, b->end_ps);

    if (order == 0)
        order = compare_ps(a->start_ps, b->start_ps);
    return order != 0 ? order : by_place(left, right);
}

/* A loop over the bytes of the number, not of memory: the same on machines of either endianness. */
static uint64_t hash_number(uint64_t hash, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        hash ^= number >> (8 * i) & 0xff;
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t hash_event(uint64_t hash, const struct tutti_event *event, int with_times)
{
    if (with_times) {
        hash = hash_number(hash, (uint64_t)event->start_ps, 8);
        hash = hash_number(hash, (uint64_t)event->end_ps, 8);
    }
    hash = hash_number(hash, event->rank, 4);
    hash = hash_number(hash, event->lane, 2);
    hash = hash_number(hash, event->kind, 1);
    hash = hash_number(hash, event->peer, 4);
    hash = hash_number(hash, event->step, 8);
    return hash_number(hash, event->bytes, 8);
}

static void sort(struct tutti_record *record, int (*order)(const void *, const void *))
{
    if (record->event_count > 1)
        qsort(record->events, record->event_count, sizeof(record->events[0]), order);
}

void tutti_record_init(struct tutti_record *record)
{
    *record = (struct tutti_record){0};
}

void tutti_record_done(struct tutti_record *record)
{
    free(record->events);
    *record = (struct tutti_record){0};
}

void tutti_record_clear(struct tutti_record *record)
{
    record->event_count = 0;
}

int tutti_record_reserve(struct tutti_record *record, size_t count)
{
    struct tutti_event *events;

    if (count <= record->event_capacity)
        return 0;
    if (count > SIZE_MAX / sizeof(*events))
        return -TUTTI_ENOMEM;
    events = realloc(record->events, count * sizeof(*events));
    if (events == NULL)
        return -TUTTI_ENOMEM;
    record->events = events;
    record->event_capacity = count;
    return 0;
}

int tutti_record_add(struct tutti_record *record, const struct tutti_event *event)
{
    if (record->event_count == record->event_capacity) {
        size_t more = record->event_capacity < 64 ? 64 : record->event_capacity;
        int status = tutti_record_reserve(record, record->event_capacity + more);

        if (status < 0)
            return status;
    }
    record->events[record->event_count++] = *event;
    return 0;
}

void tutti_record_sort(struct tutti_record *record)
{
    sort(record, by_time);
}

uint64_t tutti_record_hash(struct tutti_record *record, int with_times)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    sort(record, with_times ? by_time : by_place);
    for (size_t i = 0; i < record->event_count; i++)
        hash = hash_event(hash, &record->events[i], with_times);
    if (!with_times)
        sort(record, by_time);
    return hash;
}
