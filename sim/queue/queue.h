/* The event queue: a radix heap of (time, sequence, id) in which an id can be moved or dropped. */
#ifndef TUTTI_SIM_QUEUE_QUEUE_H
#define TUTTI_SIM_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_memory;

enum {
    TUTTI_QUEUE_DIGIT_BITS = 6,
    TUTTI_QUEUE_DIGITS = 1 << TUTTI_QUEUE_DIGIT_BITS,
    TUTTI_QUEUE_LEVELS = (63 + TUTTI_QUEUE_DIGIT_BITS) / TUTTI_QUEUE_DIGIT_BITS,
    TUTTI_QUEUE_BUCKETS = TUTTI_QUEUE_LEVELS * TUTTI_QUEUE_DIGITS,
};

struct tutti_queue_node {
    tutti_ps at_ps;
    uint32_t next; /* in the bucket, in order of putting */
    uint32_t prev;
    uint32_t bucket; /* UINT32_MAX: not in the queue */
};

/* Ids are small numbers that the caller gives out (a message, a lane); each is in the queue at most
 * once. Memory is taken by reserve alone. A zeroed struct is an empty queue without room. */
struct tutti_queue {
    struct tutti_queue_node *nodes; /* [capacity] by id */
    uint32_t first[TUTTI_QUEUE_BUCKETS];
    uint32_t last[TUTTI_QUEUE_BUCKETS];
    uint64_t filled[TUTTI_QUEUE_LEVELS]; /* bit d: bucket d of the level is not empty */
    uint32_t filled_levels;              /* bit l: so is some bucket of level l */
    tutti_ps base_ps;                    /* time of the last pop: buckets are relative to it */
    tutti_ps next_ps;                    /* the earliest time, if known */
    bool next_known;
    uint32_t count;
    uint32_t capacity;
    struct tutti_memory *memory; /* of the nodes; NULL: the heap */
};

/* Room for the ids [0, id_count): 0 or -TUTTI_ENOMEM. */
int tutti_queue_reserve(struct tutti_queue *queue, uint32_t id_count);
void tutti_queue_done(struct tutti_queue *queue);
void tutti_queue_clear(struct tutti_queue *queue); /* keeps the memory; time starts anew at 0 */

/* Puts `id` at a time, or moves it there if it is in the queue; either way it comes after all that
 * were put at the same time before. Not before the time of the last pop. O(1). */
void tutti_queue_put(struct tutti_queue *queue, uint32_t id, tutti_ps at_ps);
void tutti_queue_drop(struct tutti_queue *queue, uint32_t id); /* no-op if it is not there */

/* The earliest time; false if the queue is empty. */
bool tutti_queue_next(struct tutti_queue *queue, tutti_ps *ret_at_ps);
/* Takes out the earliest id, of equal times the one put first; must not be empty. */
uint32_t tutti_queue_pop(struct tutti_queue *queue);

/* Writes what is in the queue, first what would be popped first, and returns how much that is. O(n
 * log n). */
struct tutti_queue_item {
    tutti_ps at_ps;
    uint32_t number;
    uint32_t id;
};
uint32_t tutti_queue_list(const struct tutti_queue *queue, struct tutti_queue_item *items);

/* Moves all times by as much; `items` is scratch, with room for all. */
void tutti_queue_shift(struct tutti_queue *queue, tutti_ps later_ps,
                       struct tutti_queue_item *items);

#endif
