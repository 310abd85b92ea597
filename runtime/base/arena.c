/* An arena of growing blocks; large pieces get a block of their own. */
#include "runtime/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, BLOCK_BYTES_MIN = 4096, BLOCK_BYTES_MAX = 1 << 20 };

struct block {
    struct block *next;
    size_t used_bytes;
    size_t size_bytes;
    _Alignas(ALIGN) unsigned char data[];
};

struct tutti_arena {
    struct block *blocks; /* the first is the one being filled */
    size_t total_bytes;
    size_t next_block_bytes;
};

struct tutti_arena *tutti_arena_new(void)
{
    struct tutti_arena *arena = calloc(1, sizeof(*arena));

    if (arena != NULL)
        arena->next_block_bytes = BLOCK_BYTES_MIN;
    return arena;
}

void tutti_arena_free(struct tutti_arena *arena)
{
    struct block *block;

    if (arena == NULL)
        return;
    while ((block = arena->blocks) != NULL) {
        arena->blocks = block->next;
        free(block);
    }
    free(arena);
}

static struct block *add_block(struct tutti_arena *arena, size_t bytes)
{
    size_t size = bytes > arena->next_block_bytes ? bytes : arena->next_block_bytes;
    struct block *block;

    if (size > SIZE_MAX - sizeof(*block) - ALIGN)
        return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    block = aligned_alloc(ALIGN, sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    block->used_bytes = 0;
    block->size_bytes = size;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->total_bytes += sizeof(*block) + size;
    if (arena->next_block_bytes < BLOCK_BYTES_MAX)
        arena->next_block_bytes *= 2;
    return block;
}

void *tutti_arena_take(struct tutti_arena *arena, size_t count, size_t size)
{
    struct block *block = arena->blocks;
    size_t bytes;
    void *piece;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 15) / 16 * 16;
    if (block == NULL || block->size_bytes - block->used_bytes < bytes)
        block = add_block(arena, bytes);
    if (block == NULL)
        return NULL;
    assert(block->used_bytes + bytes <= block->size_bytes);
    piece = block->data + block->used_bytes;
    block->used_bytes += bytes;
    memset(piece, 0, bytes);
    return piece;
}

char *tutti_arena_copy_text(struct tutti_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = tutti_arena_take(arena, bytes, 1);

    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

size_t tutti_arena_bytes(const struct tutti_arena *arena)
{
    return arena->total_bytes;
}
