/* What the bytes of a buffer stand for: whose input, which byte of it, written by whom. */
#ifndef TUTTI_RUNTIME_SCHEDULE_VALUE_H
#define TUTTI_RUNTIME_SCHEDULE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/schedule/sets.h"

/* A run of bytes that came the same way: byte k of it is byte source + k of the inputs in `set`. */
struct tutti_piece {
    uint64_t offset; /* in the region read, or in the buffer */
    uint64_t end;
    uint64_t source;
    const struct tutti_rank_set *set;
    bool last; /* finished by a step flagged LAST */
};

struct tutti_pieces {
    struct tutti_piece *items;
    size_t count;
    size_t capacity;
    struct tutti_pieces *next; /* in a free list */
};

/* Adds a piece after the others; grows the one before where it goes on. False: no memory. */
bool tutti_pieces_add(struct tutti_pieces *pieces, struct tutti_piece piece);

struct tutti_segment {
    struct tutti_piece piece; /* offsets in the buffer */
    uint64_t step;            /* the writer */
    uint32_t lane;
    bool read; /* by anybody since it was written */
};

/* Segments in order, none overlapping; what lies between has never been written. */
struct tutti_value_map {
    struct tutti_segment *items;
    size_t count;
    size_t capacity;
};

/* Index of the first segment that ends after `offset`. */
size_t tutti_value_find(const struct tutti_value_map *map, uint64_t offset);

/* Appends what [offset, end) holds, counted from `offset`, and marks it read. 1: done; 0: byte
 * *ret_hole has never been written; negative: no memory. */
int tutti_value_read(struct tutti_value_map *map, uint64_t offset, uint64_t end,
                     struct tutti_pieces *out, uint64_t *ret_hole);

/* Puts `pieces`, counted from `offset`, in the place of [offset, end). False: no memory. */
bool tutti_value_write(struct tutti_value_map *map, uint64_t offset, uint64_t end,
                       const struct tutti_pieces *pieces, uint32_t lane, uint64_t step);

/* The first segment of [offset, end) that nobody has read, or NULL. */
const struct tutti_segment *tutti_value_unread(const struct tutti_value_map *map, uint64_t offset,
                                               uint64_t end);

#endif
