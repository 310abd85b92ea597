/* What weights hash to. */
#include "runtime/train/hash.h"

#include <string.h>

double tutti_weights_hash(const float *values, uint64_t count)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof(bits));
        hash = (hash ^ bits) * 0x100000001b3;
        hash ^= hash >> 29;
    }
    return (double)(hash >> 16);
}
