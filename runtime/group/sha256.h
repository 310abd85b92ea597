/* SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for proofs that a secret is known.
 * Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_SHA256_H
#define TUTTI_RUNTIME_GROUP_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TUTTI_SHA256_BYTES = 32, TUTTI_SHA256_BLOCK_BYTES = 64 };

struct tutti_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* taken so far */
    uint8_t block[TUTTI_SHA256_BLOCK_BYTES];
};

void tutti_sha256_begin(struct tutti_sha256 *sha);
void tutti_sha256_add(struct tutti_sha256 *sha, const void *data, size_t bytes);
void tutti_sha256_end(struct tutti_sha256 *sha, uint8_t ret[TUTTI_SHA256_BYTES]);

struct tutti_hmac {
    struct tutti_sha256 inner;
    struct tutti_sha256 outer;
};

/* The key may be of any length, also none. */
void tutti_hmac_begin(struct tutti_hmac *hmac, const void *key, size_t key_bytes);
void tutti_hmac_add(struct tutti_hmac *hmac, const void *data, size_t bytes);
void tutti_hmac_end(struct tutti_hmac *hmac, uint8_t ret[TUTTI_SHA256_BYTES]);

/* Takes the same time wherever they differ. */
bool tutti_bytes_same(const void *a, const void *b, size_t bytes);

#endif
