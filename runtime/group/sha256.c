/* SHA-256 as FIPS 180-4 writes it down, and HMAC on top. Nothing in it branches on the data. */
#include "runtime/group/sha256.h"

#include <assert.h>
#include <string.h>

#include "runtime/group/bytes.h"

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

/* A round, after which the eight words are one place on: so the caller names them in turn, and none
 * is moved. */
static inline void turn(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                        uint32_t g, uint32_t *h, uint32_t word)
{
    uint32_t choice = g ^ (e & (f ^ g));
    uint32_t majority = (a & b) | (c & (a | b));
    uint32_t first = *h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + choice + word;

    *d += first;
    *h = first + (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + majority;
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t s[8];

    for (size_t i = 0; i < 16; i++)
        w[i] = tutti_get32(block + 4 * i);
    for (size_t i = 16; i < 64; i++) {
        uint32_t low = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t high = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;

        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
    memcpy(s, state, sizeof(s));
    for (size_t i = 0; i < 64; i += 8) {
        const uint32_t *k = round_constants + i;
        const uint32_t *v = w + i;

        turn(s[0], s[1], s[2], &s[3], s[4], s[5], s[6], &s[7], k[0] + v[0]);
        turn(s[7], s[0], s[1], &s[2], s[3], s[4], s[5], &s[6], k[1] + v[1]);
        turn(s[6], s[7], s[0], &s[1], s[2], s[3], s[4], &s[5], k[2] + v[2]);
        turn(s[5], s[6], s[7], &s[0], s[1], s[2], s[3], &s[4], k[3] + v[3]);
        turn(s[4], s[5], s[6], &s[7], s[0], s[1], s[2], &s[3], k[4] + v[4]);
        turn(s[3], s[4], s[5], &s[6], s[7], s[0], s[1], &s[2], k[5] + v[5]);
        turn(s[2], s[3], s[4], &s[5], s[6], s[7], s[0], &s[1], k[6] + v[6]);
        turn(s[1], s[2], s[3], &s[4], s[5], s[6], s[7], &s[0], k[7] + v[7]);
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += s[i];
}

void tutti_sha256_begin(struct tutti_sha256 *sha)
{
    /* The first 32 bits of the fractions of the square roots of the first 8 primes. */
    *sha = (struct tutti_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void tutti_sha256_add(struct tutti_sha256 *sha, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    size_t used = sha->bytes % TUTTI_SHA256_BLOCK_BYTES;

    sha->bytes += bytes;
    while (bytes > 0) {
        size_t room = TUTTI_SHA256_BLOCK_BYTES - used;
        size_t now = bytes < room ? bytes : room;

        if (now == TUTTI_SHA256_BLOCK_BYTES) {
            take_block(sha->state, from);
        } else {
            memcpy(sha->block + used, from, now);
            if (used + now == TUTTI_SHA256_BLOCK_BYTES)
                take_block(sha->state, sha->block);
        }
        from += now;
        bytes -= now;
        used = (used + now) % TUTTI_SHA256_BLOCK_BYTES;
    }
}

void tutti_sha256_end(struct tutti_sha256 *sha, uint8_t ret[TUTTI_SHA256_BYTES])
{
    static const uint8_t padding[TUTTI_SHA256_BLOCK_BYTES] = {0x80};
    uint64_t bits = sha->bytes * 8;
    size_t used = sha->bytes % TUTTI_SHA256_BLOCK_BYTES;
    uint8_t length[8];

    tutti_put64(length, bits);
    tutti_sha256_add(sha, padding, used < 56 ? 56 - used : 120 - used);
    tutti_sha256_add(sha, length, sizeof(length));
    assert(sha->bytes % TUTTI_SHA256_BLOCK_BYTES == 0);
    for (size_t i = 0; i < 8; i++)
        tutti_put32(ret + 4 * i, sha->state[i]);
}

void tutti_hmac_begin(struct tutti_hmac *hmac, const void *key, size_t key_bytes)
{
    uint8_t block[TUTTI_SHA256_BLOCK_BYTES] = {0};

    if (key_bytes > sizeof(block)) {
        tutti_sha256_begin(&hmac->inner);
        tutti_sha256_add(&hmac->inner, key, key_bytes);
        tutti_sha256_end(&hmac->inner, block);
    } else if (key_bytes > 0) {
        memcpy(block, key, key_bytes);
    }
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] ^= 0x36;
    tutti_sha256_begin(&hmac->inner);
    tutti_sha256_add(&hmac->inner, block, sizeof(block));
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] ^= 0x36 ^ 0x5c;
    tutti_sha256_begin(&hmac->outer);
    tutti_sha256_add(&hmac->outer, block, sizeof(block));
}

void tutti_hmac_add(struct tutti_hmac *hmac, const void *data, size_t bytes)
{
    tutti_sha256_add(&hmac->inner, data, bytes);
}

void tutti_hmac_end(struct tutti_hmac *hmac, uint8_t ret[TUTTI_SHA256_BYTES])
{
    tutti_sha256_end(&hmac->inner, ret);
    tutti_sha256_add(&hmac->outer, ret, TUTTI_SHA256_BYTES);
    tutti_sha256_end(&hmac->outer, ret);
}

bool tutti_bytes_same(const void *a, const void *b, size_t bytes)
{
    const volatile uint8_t *left = a;
    const volatile uint8_t *right = b;
    uint8_t differ = 0;

    for (size_t i = 0; i < bytes; i++)
        differ |= (uint8_t)(left[i] ^ right[i]);
    return differ == 0;
}
