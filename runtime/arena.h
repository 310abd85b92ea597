/* An arena: memory that is taken piece by piece and given back all at once. */
#ifndef TUTTI_RUNTIME_ARENA_H
#define TUTTI_RUNTIME_ARENA_H

#include <stddef.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_arena; /* opaque; one owner, no locking */

/* A new empty arena, or NULL when memory ran out. */
struct tutti_arena *tutti_arena_new(void);

/* Frees everything taken from the arena and the arena itself; NULL is a no-op. */
void tutti_arena_free(struct tutti_arena *arena);

/* `count` zeroed objects of `size` bytes, aligned to 16 bytes; never NULL
 * for count or size 0; NULL when memory ran out or the product overflows. Lives until the free. */
void *tutti_arena_take(struct tutti_arena *arena, size_t count, size_t size);

/* A copy of `text` in the arena, or NULL when memory ran out. */
char *tutti_arena_copy_text(struct tutti_arena *arena, const char *text);

/* Bytes taken from the system so far, for reports of memory use. */
size_t tutti_arena_bytes(const struct tutti_arena *arena);

TUTTI_API_END

#endif
