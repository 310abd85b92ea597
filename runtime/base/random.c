/* xoshiro256** and splitmix64, written from their published descriptions. */
#include "runtime/random.h"

#include <assert.h>

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void tutti_random_seed(struct tutti_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix(&seed);
}

uint64_t tutti_random_next(struct tutti_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t tutti_random_below(struct tutti_random *random, uint64_t below)
{
    uint64_t reject;
    uint64_t bits;

    assert(below > 0);
    reject = (0 - below) % below; /* 2^64 mod below: drop that many values to stay unbiased */
    do {
        bits = tutti_random_next(random);
    } while (bits < reject);
    return bits % below;
}

double tutti_random_unit(struct tutti_random *random)
{
    return (double)(tutti_random_next(random) >> 11) * 0x1.0p-53;
}

uint64_t tutti_random_hash(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = seed;
    uint64_t hash = splitmix(&state);

    state = hash ^ a;
    hash = splitmix(&state);
    state = hash ^ b;
    hash = splitmix(&state);
    state = hash ^ c;
    return splitmix(&state);
}
