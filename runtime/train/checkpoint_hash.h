/* A 64-bit hash against damage, not against malice: four lanes of 8-byte words, each word mixed in
 * by a bijection. So whatever changes within one word (a flipped bit, a byte, all 8) changes the
 * hash for certain; anything wider goes unseen with probability 2^-64. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_HASH_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { TUTTI_HASH_BLOCK_BYTES = 32 };

struct tutti_hash {
    uint64_t lanes[4];
    uint64_t bytes; /* taken so far */
    uint8_t rest[TUTTI_HASH_BLOCK_BYTES];
};

void tutti_hash_begin(struct tutti_hash *hash);
void tutti_hash_add(struct tutti_hash *hash, const void *data, size_t bytes);
uint64_t tutti_hash_end(const struct tutti_hash *hash);

/* Of one block of memory. */
uint64_t tutti_hash_of(const void *data, size_t bytes);

#endif
