/* A calendar queue (Brown 1988): a year of days, each a sorted list; the number of days follows the
 * number of events, the length of a day the gaps between those that come next. */
#include <stdlib.h>

#include "tests/bench/queue_candidates.h"
#include "tests/bench/queue_list.h"

enum { SAMPLE = 25 };

struct calendar {
    struct node *nodes;
    struct list *days;
    uint32_t day_count; /* a power of 2 */
    uint32_t day_capacity;
    uint32_t count;
    uint64_t day_ps;
    uint64_t today; /* time of the last pop, in days */
};

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (memory == NULL)
        abort();
    return memory;
}

void *calendar_open(uint32_t id_count)
{
    struct calendar *calendar = take(1, sizeof(*calendar));

    calendar->nodes = take((size_t)id_count + 1, sizeof(*calendar->nodes));
    calendar->day_capacity = 4;
    while (calendar->day_capacity < id_count)
        calendar->day_capacity *= 2;
    calendar->days = take(calendar->day_capacity, sizeof(*calendar->days));
    calendar->day_count = 2;
    calendar->day_ps = 1;
    for (uint32_t i = 0; i < calendar->day_capacity; i++)
        list_clear(&calendar->days[i]);
    for (uint32_t i = 0; i < id_count; i++)
        calendar->nodes[i].list = NONE;
    return calendar;
}

void calendar_close(void *queue)
{
    struct calendar *calendar = queue;

    free(calendar->nodes);
    free(calendar->days);
    free(calendar);
}

static void insert(struct calendar *calendar, uint32_t id)
{
    uint64_t day = (uint64_t)calendar->nodes[id].at_ps / calendar->day_ps;
    uint32_t list = (uint32_t)(day & (calendar->day_count - 1));

    list_insert_sorted(calendar->nodes, &calendar->days[list], list, id);
    calendar->count++;
}

/* Takes out the earliest: of this year's days the first with something in it; if the year is empty,
 * the earliest of all days. */
static uint32_t take_first(struct calendar *calendar)
{
    uint32_t best = NONE;

    for (uint64_t i = 0; i < calendar->day_count && best == NONE; i++) {
        uint64_t day = calendar->today + i;
        uint32_t id = calendar->days[day & (calendar->day_count - 1)].first;

        if (id != NONE && (uint64_t)calendar->nodes[id].at_ps / calendar->day_ps == day)
            best = id;
    }
    if (best == NONE) {
        for (uint32_t i = 0; i < calendar->day_count; i++) {
            uint32_t id = calendar->days[i].first;

            if (id != NONE &&
                (best == NONE || calendar->nodes[id].at_ps < calendar->nodes[best].at_ps))
                best = id;
        }
    }
    calendar->today = (uint64_t)calendar->nodes[best].at_ps / calendar->day_ps;
    list_remove(calendar->nodes, &calendar->days[calendar->nodes[best].list], best);
    calendar->count--;
    return best;
}

/* Three times the mean gap between the next events, as Brown has it, gaps of zero aside. */
static uint64_t find_width(struct calendar *calendar)
{
    uint32_t taken[SAMPLE];
    uint32_t count = 0;
    uint64_t gaps = 0;
    uint64_t span = 0;
    uint64_t today = calendar->today;

    while (count < SAMPLE && calendar->count > 0) {
        taken[count] = take_first(calendar);
        if (count > 0) {
            tutti_ps gap =
                calendar->nodes[taken[count]].at_ps - calendar->nodes[taken[count - 1]].at_ps;

            span += (uint64_t)gap;
            gaps += gap > 0;
        }
        count++;
    }
    calendar->today = today;
    while (count > 0) { /* backwards: equal ones come before those still there */
        uint32_t id = taken[--count];
        uint64_t day = (uint64_t)calendar->nodes[id].at_ps / calendar->day_ps;
        uint32_t list = (uint32_t)(day & (calendar->day_count - 1));

        list_insert_after(calendar->nodes, &calendar->days[list], list, id, NONE);
        calendar->count++;
    }
    return gaps == 0 ? calendar->day_ps : 3 * span / gaps + 1;
}

static void resize(struct calendar *calendar, uint32_t day_count)
{
    uint64_t now_ps = calendar->today * calendar->day_ps;
    uint64_t width = find_width(calendar);
    struct list all;

    list_clear(&all);
    for (uint32_t i = 0; i < calendar->day_count; i++) { /* equal times share a day, in order */
        struct list *day = &calendar->days[i];

        while (day->first != NONE) {
            uint32_t id = day->first;

            list_remove(calendar->nodes, day, id);
            list_insert_after(calendar->nodes, &all, 0, id, all.last);
        }
    }
    calendar->day_count = day_count;
    calendar->day_ps = width;
    calendar->today = now_ps / width;
    calendar->count = 0;
    while (all.first != NONE) {
        uint32_t id = all.first;

        list_remove(calendar->nodes, &all, id);
        insert(calendar, id);
    }
}

void calendar_drop(void *queue, uint32_t id)
{
    struct calendar *calendar = queue;

    if (calendar->nodes[id].list == NONE)
        return;
    list_remove(calendar->nodes, &calendar->days[calendar->nodes[id].list], id);
    calendar->count--;
}

void calendar_put(void *queue, uint32_t id, tutti_ps at_ps)
{
    struct calendar *calendar = queue;

    calendar_drop(queue, id);
    calendar->nodes[id].at_ps = at_ps;
    insert(calendar, id);
    if (calendar->count > 2 * calendar->day_count &&
        2 * calendar->day_count <= calendar->day_capacity)
        resize(calendar, 2 * calendar->day_count);
}

uint32_t calendar_pop(void *queue)
{
    struct calendar *calendar = queue;
    uint32_t id = take_first(calendar);

    if (calendar->count < calendar->day_count / 2 && calendar->day_count > 2)
        resize(calendar, calendar->day_count / 2);
    return id;
}
