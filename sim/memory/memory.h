/* Where a play takes its memory: from the heap, or from what the caller gave. */
#ifndef TUTTI_SIM_MEMORY_MEMORY_H
#define TUTTI_SIM_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct tutti_memory; /* sim/sim.h; NULL, in all of these: the heap */

/* `count` zeroed objects of `size` bytes, aligned to 16; NULL when memory ran out. */
void *tutti_memory_take(struct tutti_memory *memory, size_t count, size_t size);

/* Gives back a block; what the caller gave is taken again after a rewind only. */
void tutti_memory_give(struct tutti_memory *memory, void *block);

/* A block of `bytes` in the place of `old` (may be NULL), with its first `old_bytes`; the rest is
 * not initialised. NULL when memory ran out: then `old` is as it was. */
void *tutti_memory_resize(struct tutti_memory *memory, void *old, size_t old_bytes, size_t bytes);

/* As tutti_grow in sim/net/net.h. */
int tutti_memory_grow(struct tutti_memory *memory, void *memory_pointer, uint32_t *capacity,
                      uint64_t needed, size_t size);

/* How much is taken, and back to there: nothing taken since is used any more. */
size_t tutti_memory_mark(const struct tutti_memory *memory);
void tutti_memory_rewind(struct tutti_memory *memory, size_t mark);

#endif
