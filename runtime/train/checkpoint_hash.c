/* The hash of checkpoints: multiply and rotate, 32 bytes at a time. */
#include "runtime/train/checkpoint_hash.h"

#include <string.h>

/* Odd, so that multiplying by them loses nothing: 2^64 over the golden ratio, and one of as many
 * ones as zeros. */
static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
static const uint64_t spread = UINT64_C(0xd6e8feb86659fd93);

static uint64_t rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

/* One to one in the word for a given lane, and in the lane for a given word. */
static uint64_t take(uint64_t lane, uint64_t word)
{
    return (rotate(lane, 29) + word * golden) * spread;
}

static void take_block(uint64_t lanes[4], const uint8_t *block)
{
    uint64_t words[4];

    memcpy(words, block, sizeof(words));
    for (unsigned i = 0; i < 4; i++)
        lanes[i] = take(lanes[i], words[i]);
}

void tutti_hash_begin(struct tutti_hash *hash)
{
    *hash = (struct tutti_hash){.lanes = {1, golden, spread, golden ^ spread}};
}

void tutti_hash_add(struct tutti_hash *hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    size_t used = hash->bytes % TUTTI_HASH_BLOCK_BYTES;

    hash->bytes += bytes;
    if (used > 0) {
        size_t fits = TUTTI_HASH_BLOCK_BYTES - used < bytes ? TUTTI_HASH_BLOCK_BYTES - used : bytes;

        memcpy(hash->rest + used, at, fits);
        at += fits;
        bytes -= fits;
        if (used + fits < TUTTI_HASH_BLOCK_BYTES)
            return;
        take_block(hash->lanes, hash->rest);
    }
    for (; bytes >= TUTTI_HASH_BLOCK_BYTES; bytes -= TUTTI_HASH_BLOCK_BYTES) {
        take_block(hash->lanes, at);
        at += TUTTI_HASH_BLOCK_BYTES;
    }
    if (bytes > 0)
        memcpy(hash->rest, at, bytes);
}

/* One to one. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 32) * spread;
    value = (value ^ value >> 29) * golden;
    return value ^ value >> 32;
}

uint64_t tutti_hash_end(const struct tutti_hash *hash)
{
    size_t used = hash->bytes % TUTTI_HASH_BLOCK_BYTES;
    uint8_t block[TUTTI_HASH_BLOCK_BYTES] = {0};
    uint64_t lanes[4];
    uint64_t value = mix(hash->bytes);

    memcpy(lanes, hash->lanes, sizeof(lanes));
    memcpy(block, hash->rest, used);
    take_block(lanes, block);
    for (unsigned i = 0; i < 4; i++)
        value = mix(value ^ lanes[i]);
    return value;
}

uint64_t tutti_hash_of(const void *data, size_t bytes)
{
    struct tutti_hash hash;

    tutti_hash_begin(&hash);
    tutti_hash_add(&hash, data, bytes);
    return tutti_hash_end(&hash);
}
