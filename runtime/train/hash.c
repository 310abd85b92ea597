/* What weights hash to. */
#include "runtime/train/hash.h"

#include <string.h>

#include "runtime/train.h"

uint64_t tutti_weights_hash(const float *values, uint64_t count)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof(bits));
        hash = (hash ^ bits) * 0x100000001b3;
        hash ^= hash >> 29;
    }
    return hash;
}

double tutti_weights_hash_exact(const float *values, uint64_t count)
{
    return (double)(tutti_weights_hash(values, count) >> 16);
}
