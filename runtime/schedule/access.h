/* Who touched which bytes of a buffer last: the memory of the search for unordered accesses. */
#ifndef TUTTI_RUNTIME_SCHEDULE_ACCESS_H
#define TUTTI_RUNTIME_SCHEDULE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_arena;
struct tutti_clock;

/* Times of chains: at[c] steps of chain c are known to have completed (a SEND: to have started). */
struct tutti_clock {
    uint32_t ref_count;
    struct tutti_clock *next; /* in a queue or the free list */
    uint32_t at[];
};

/* A SEND on its way. It reads its source until `chain` has done `count` steps. */
struct tutti_send_note {
    struct tutti_clock *start;
    bool complete;
    uint32_t chain;
    uint32_t count;
};

/* Step count - 1 of a chain. */
struct tutti_access {
    uint32_t chain;
    uint32_t count;                     /* 0: nobody */
    const struct tutti_send_note *send; /* NULL: over once the chain has done `count` steps */
};

/* A list that is never changed, only put in front of: segments that were one share its tail. */
struct tutti_access_list {
    struct tutti_access access;
    const struct tutti_access_list *next;
};

struct tutti_access_segment {
    uint64_t offset;
    uint64_t end;
    struct tutti_access write;             /* the last */
    bool fused;                            /* by a RECV with FUSE */
    const struct tutti_access_list *reads; /* since */
};

/* Covers a whole buffer, in order, without gaps. */
struct tutti_access_map {
    struct tutti_access_segment *items;
    size_t count;
    size_t capacity;
};

/* Index of the segment that begins at `offset`, made so by a split; SIZE_MAX: no memory. An offset
 * at the end of the buffer gives the count. */
size_t tutti_access_split(struct tutti_access_map *map, uint64_t offset);

/* Makes one segment of [first, first + count). */
void tutti_access_merge(struct tutti_access_map *map, size_t first, size_t count);

#endif
