/* Seeded random numbers that are the same on every machine, compiler and thread count. */
#ifndef TUTTI_RUNTIME_RANDOM_H
#define TUTTI_RUNTIME_RANDOM_H

#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

/* State of xoshiro256** (Blackman & Vigna 2018, public domain algorithm), seeded by splitmix64. */
struct tutti_random {
    uint64_t state[4];
};

void tutti_random_seed(struct tutti_random *random, uint64_t seed);
uint64_t tutti_random_next(struct tutti_random *random); /* 64 uniform bits */

/* Uniform in [0, below), without bias; `below` must not be 0. */
uint64_t tutti_random_below(struct tutti_random *random, uint64_t below);

/* Uniform in [0, 1), a multiple of 2^-53. */
double tutti_random_unit(struct tutti_random *random);

/* A stateless hash of up to three numbers under a seed: the same arguments, the same 64 bits. For
 * values that belong to a thing (rank 5, step 7) whatever the order in which things are visited. */
uint64_t tutti_random_hash(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

TUTTI_API_END

#endif
