/* The event queue: a 4-ary heap of (time, sequence, id) in which an id can be moved or dropped. */
#ifndef TUTTI_SIM_QUEUE_QUEUE_H
#define TUTTI_SIM_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_queue_entry {
    tutti_ps at_ps;
    uint64_t seq; /* order of putting: breaks ties, so that the same run gives the same trace */
    uint32_t id;
};

/* Ids are small numbers that the caller gives out (a message, a lane); each is in the queue at most
 * once. Memory is taken by reserve alone. A zeroed struct is an empty queue without room. */
struct tutti_queue {
    struct tutti_queue_entry *entries; /* [capacity] a heap: children of i are 4i+1 .. 4i+4 */
    uint32_t *where;                   /* [capacity] place of an id in entries; UINT32_MAX: out */
    uint32_t count;
    uint32_t capacity;
    uint64_t seq_next;
};

/* Room for the ids [0, id_count): 0 or -TUTTI_ENOMEM. */
int tutti_queue_reserve(struct tutti_queue *queue, uint32_t id_count);
void tutti_queue_done(struct tutti_queue *queue);
void tutti_queue_clear(struct tutti_queue *queue); /* keeps the memory; sequence starts anew */

/* Puts `id` at a time, or moves it there if it is in the queue; either way it comes after all that
 * were put at the same time before. O(log count). */
void tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps);
void tutti_queue_drop(struct tutti_queue *queue, uint32_t id); /* no-op if it is not there */

/* The earliest time; false if the queue is empty. */
bool tutti_queue_next(const struct tutti_queue *queue, tutti_ps *ret_at_ps);
uint32_t tutti_queue_pop(struct tutti_queue *queue); /* must not be empty */

#endif
