/* What weights hash to, for replicas to be compared. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_HASH_H
#define TUTTI_RUNTIME_TRAIN_HASH_H

#include <stdint.h>

/* Of the bits of the values, as an integer below 2^48: exact in a double. */
double tutti_weights_hash(const float *values, uint64_t count);

#endif
