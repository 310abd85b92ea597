/* Memory of the caller's, taken from its start to its end; see memory.h. A block that grows where
 * it is the last stays in its place, else it is copied behind all others, and its old place lies
 * idle until the rewind. Where blocks come from the heap to be counted, the same is reckoned. */
#include "sim/memory/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/sim.h"

/* What a block takes, or SIZE_MAX. */
static size_t size_of(size_t bytes)
{
    return bytes > SIZE_MAX - 2 * TUTTI_MEMORY_ALIGN
               ? SIZE_MAX
               : (bytes / TUTTI_MEMORY_ALIGN + 1) * TUTTI_MEMORY_ALIGN;
}

/* Notes that the place at `at` would be taken; whether it is there. */
static bool has_room(struct tutti_memory *memory, size_t at, size_t bytes)
{
    size_t end = bytes > SIZE_MAX - at ? SIZE_MAX : at + bytes;

    if (end > memory->needed)
        memory->needed = end;
    return end < SIZE_MAX && (memory->start == NULL || end <= memory->bytes);
}

/* The last block is now this one. */
static void *settle(struct tutti_memory *memory, void *block, size_t at, size_t bytes)
{
    if (block == NULL)
        return NULL;
    memory->last = block;
    memory->last_at = at;
    memory->used = at + bytes;
    return block;
}

void *tutti_memory_take(struct tutti_memory *memory, size_t count, size_t size)
{
    void *block;
    size_t bytes;

    if (memory == NULL)
        return calloc(count, size);
    if (size > 0 && count > SIZE_MAX / size)
        return NULL;
    bytes = size_of(count * size);
    if (!has_room(memory, memory->used, bytes))
        return NULL;
    block = memory->start != NULL ? memset((char *)memory->start + memory->used, 0, bytes)
                                  : calloc(count, size);
    return settle(memory, block, memory->used, bytes);
}

void tutti_memory_give(struct tutti_memory *memory, void *block)
{
    if (memory == NULL || memory->start == NULL)
        free(block);
}

void *tutti_memory_resize(struct tutti_memory *memory, void *old, size_t old_bytes, size_t bytes)
{
    bool stays = memory != NULL && old != NULL && memory->last == old;
    size_t at;
    char *block;

    if (memory == NULL)
        return realloc(old, bytes);
    at = stays ? memory->last_at : memory->used;
    if (!has_room(memory, at, size_of(bytes)))
        return NULL;
    if (memory->start == NULL)
        return settle(memory, realloc(old, bytes), at, size_of(bytes));
    block = (char *)memory->start + at;
    assert(!stays || block == (char *)old);
    if (!stays && old_bytes > 0)
        memcpy(block, old, old_bytes);
    return settle(memory, block, at, size_of(bytes));
}

int tutti_memory_grow(struct tutti_memory *memory, void *memory_pointer, uint32_t *capacity,
                      uint64_t needed, size_t size)
{
    uint64_t count = *capacity > 0 ? *capacity : 16;
    void *block;

    assert(size > 0);
    if (needed <= *capacity)
        return 0;
    while (count < needed)
        count *= 2;
    if (count >= UINT32_MAX || count > SIZE_MAX / size)
        return -TUTTI_ENOMEM;
    memcpy(&block, memory_pointer, sizeof(block));
    block = tutti_memory_resize(memory, block, *capacity * size, (size_t)count * size);
    if (block == NULL)
        return -TUTTI_ENOMEM;
    memcpy(memory_pointer, &block, sizeof(block));
    *capacity = (uint32_t)count;
    return 0;
}

size_t tutti_memory_mark(const struct tutti_memory *memory)
{
    return memory != NULL ? memory->used : 0;
}

void tutti_memory_rewind(struct tutti_memory *memory, size_t mark)
{
    if (memory == NULL)
        return;
    assert(mark <= memory->used);
    memory->used = mark;
    memory->last = NULL;
}
