/* Doubly linked lists of ids with times, for queues of buckets. */
#ifndef TUTTI_TESTS_BENCH_QUEUE_LIST_H
#define TUTTI_TESTS_BENCH_QUEUE_LIST_H

#include <stdint.h>

#include "runtime/units.h"

#define NONE UINT32_MAX

struct node {
    tutti_ps at_ps;
    uint32_t next;
    uint32_t prev;
    uint32_t list; /* number of the list it is in, or NONE */
};

struct list {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

static inline void list_clear(struct list *list)
{
    *list = (struct list){.first = NONE, .last = NONE};
}

static inline void list_remove(struct node *nodes, struct list *list, uint32_t id)
{
    struct node *node = &nodes[id];

    if (node->prev != NONE)
        nodes[node->prev].next = node->next;
    else
        list->first = node->next;
    if (node->next != NONE)
        nodes[node->next].prev = node->prev;
    else
        list->last = node->prev;
    list->count--;
    node->list = NONE;
}

static inline void list_insert_after(struct node *nodes, struct list *list, uint32_t number,
                                     uint32_t id, uint32_t after)
{
    struct node *node = &nodes[id];

    node->prev = after;
    node->next = after == NONE ? list->first : nodes[after].next;
    if (after == NONE)
        list->first = id;
    else
        nodes[after].next = id;
    if (node->next == NONE)
        list->last = id;
    else
        nodes[node->next].prev = id;
    node->list = number;
    list->count++;
}

/* By time, after those of the same time; looked for from the end, where most belong. */
static inline void list_insert_sorted(struct node *nodes, struct list *list, uint32_t number,
                                      uint32_t id)
{
    uint32_t after = list->last;

    while (after != NONE && nodes[after].at_ps > nodes[id].at_ps)
        after = nodes[after].prev;
    list_insert_after(nodes, list, number, id, after);
}

#endif
